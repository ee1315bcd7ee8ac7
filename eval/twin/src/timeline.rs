// SPDX-License-Identifier: GPL-2.0-only
//! A run's trace as the JSON that eval/timeline draws (eval/timelines/model.py).

use std::fmt::Write;

use crate::record::{Entry, What};
use crate::run::Outcome;
use crate::sim::Ns;

#[derive(Default)]
struct Lane {
    inactive: Vec<(Ns, Ns)>,
    halted: Vec<(Ns, Ns)>,
    tasks: Vec<(Ns, Ns, u64)>,
    decisions: Vec<(Ns, &'static str, String)>,
    /// Since when it does not run, and whether it has halted.
    away: Option<(Ns, bool)>,
    runs: Option<(Ns, u64)>,
}

/// The timeline of a run whose trace was kept; empty if it was not.
pub fn json(title: &str, outcome: &Outcome) -> String {
    let mut lanes: Vec<Lane> = outcome.vcpus.iter().map(|_| Lane::default()).collect();
    for entry in outcome.all.iter().flatten() {
        if let Some(lane) = lanes.get_mut(entry.v) {
            add(lane, entry, outcome);
        }
    }
    let end = outcome.length_ns;
    let lanes: Vec<String> = lanes
        .into_iter()
        .enumerate()
        .map(|(v, mut lane)| {
            leave(&mut lane, end);
            if let Some((since, task)) = lane.runs.take() {
                lane.tasks.push((since, end, task));
            }
            shown(v, &lane, outcome)
        })
        .collect();
    format!(
        "{{\"title\": {title:?}, \"notes\": [\"Simulation: the twin, trace {:016x}\"], \
         \"begin_ns\": 0, \"end_ns\": {end}, \"lanes\": [{}]}}\n",
        outcome.hash,
        lanes.join(", ")
    )
}

/// A period away from a pCPU ends.
fn leave(lane: &mut Lane, at: Ns) {
    match lane.away.take() {
        Some((since, true)) => lane.halted.push((since, at)),
        Some((since, false)) => lane.inactive.push((since, at)),
        None => {}
    }
}

fn add(lane: &mut Lane, entry: &Entry, outcome: &Outcome) {
    let task = |t: u64| outcome.tasks.get(t as usize).map_or("?", |(name, _)| name);
    match entry.what {
        What::HostRun => leave(lane, entry.at_ns),
        What::HostStop => lane.away = Some((entry.at_ns, entry.b == 1)),
        What::Switch => {
            if let Some((since, task)) = lane.runs.take() {
                lane.tasks.push((since, entry.at_ns, task));
            }
            lane.runs = (entry.a != u64::MAX).then_some((entry.at_ns, entry.a));
        }
        What::Wake => {
            let text = format!("{} to vCPU {}", task(entry.a), entry.b);
            lane.decisions.push((entry.at_ns, "wake", text));
        }
        What::Kick => {
            lane.decisions.push((entry.at_ns, "kick", format!("vCPU {}", entry.a)));
        }
        _ => {}
    }
}

fn shown(v: usize, lane: &Lane, outcome: &Outcome) -> String {
    let periods = |list: &[(Ns, Ns)]| {
        let list: Vec<_> = list.iter().map(|(from, to)| format!("[{from}, {to}]")).collect();
        format!("[{}]", list.join(", "))
    };
    let mut out = format!(
        "{{\"name\": \"vCPU {v}\", \"inactive\": {}, \"halted\": {}, \"gaps\": [], \"tasks\": [",
        periods(&lane.inactive),
        periods(&lane.halted)
    );
    for (index, (from, to, task)) in lane.tasks.iter().enumerate() {
        let name = outcome.tasks.get(*task as usize).map_or("?", |(name, _)| name);
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(out, "{comma}[{from}, {to}, {name:?}]");
    }
    out.push_str("], \"decisions\": [");
    for (index, (at, kind, what)) in lane.decisions.iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        let _ = write!(out, "{comma}[{at}, {kind:?}, {what:?}]");
    }
    out.push_str("]}");
    out
}
