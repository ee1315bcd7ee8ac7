// SPDX-License-Identifier: GPL-2.0-only
//! A snapshot for people.

use std::fmt::Write;

use probers::claims::Claims;
use probers::hypervisor::Announced;
use probers::snapshot::{Estimate, Group, Vcpu, VcpuSnapshot, Verdict};
use probers::vcpus::format_list;

/// The table: what is claimed beside what was found, a line per vCPU, and what could not be seen.
pub fn render(found: &VcpuSnapshot, announced: &Announced, claims: &Claims) -> String {
    let mut text = String::new();
    claimed_and_found(&mut text, found, announced, claims);
    line(&mut text, &[]);
    line(&mut text, &HEADER.map(String::from));
    for vcpu in &found.vcpus {
        line(&mut text, &row(vcpu, found));
    }
    for note in &found.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

const HEADER: [&str; 9] = [
    "vCPU",
    "capacity",
    "share",
    "speed",
    "stolen",
    "wake-up",
    "active p50/p95",
    "inactive p50/p95",
    "what it is",
];
const WIDTHS: [usize; 8] = [4, 8, 6, 6, 6, 8, 15, 16];

fn line(text: &mut String, cells: &[String]) {
    let mut shown = String::new();
    for (cell, width) in cells.iter().zip(WIDTHS.iter().chain([&0])) {
        let _ = write!(shown, "{cell:>width$}  ");
    }
    text.push_str(shown.trim_end());
    text.push('\n');
}

fn claimed_and_found(
    text: &mut String,
    found: &VcpuSnapshot,
    announced: &Announced,
    claims: &Claims,
) {
    let online = found.vcpus.iter().filter(|vcpu| vcpu.online).count();
    let effective = found.effective_vcpus.map_or("not known".into(), |effective| {
        format!("worth {:.2} whole cores", effective.value)
    });
    let steal = if announced.kvm_steal_clock { "announced" } else { "none" };
    let topology = &found.topology;
    let level = |groups: &[Group]| match topology.age_s {
        None => "not probed".into(),
        Some(_) => names(groups.iter().map(|group| group.members.as_slice())),
    };
    let claim = |groups: &[Vec<u32>]| names(groups.iter().map(Vec::as_slice));
    let rows: [(&str, String, String); 7] = [
        ("", "claimed".into(), "found".into()),
        ("hypervisor", announced.hypervisor.name().into(), String::new()),
        ("vCPUs", format!("{online} of {} online", found.vcpus.len()), effective),
        ("stolen time", format!("steal clock: {steal}"), format!("by {}", found.source)),
        ("stacks", "none".into(), level(&topology.stacks)),
        ("cores", claim(&claims.cores), level(&topology.cores)),
        ("caches", claim(&claims.llcs), level(&topology.llcs)),
    ];
    for (name, claimed, found) in rows {
        let shown = format!("{name:<12}  {claimed:<28}  {found}");
        let _ = writeln!(text, "{}", shown.trim_end());
    }
    let _ = writeln!(
        text,
        "{:<12}  {:<28}  {}",
        "sockets",
        claim(&claims.sockets),
        level(&topology.sockets)
    );
}

/// Groups as lists of ranges; long ones are cut.
fn names<'a>(groups: impl Iterator<Item = &'a [u32]>) -> String {
    const SHOWN: usize = 4;
    let all: Vec<String> = groups.map(format_list).collect();
    match all.len() {
        0 => "none".into(),
        count if count > SHOWN => {
            format!("{} and {} more", all[..SHOWN].join("  "), count - SHOWN)
        }
        _ => all.join("  "),
    }
}

fn row(vcpu: &Vcpu, found: &VcpuSnapshot) -> [String; 9] {
    let percent =
        |estimate: Option<Estimate>| shown(estimate, |value| format!("{:.0} %", value * 100.0));
    let pair = |low: Option<Estimate>, high: Option<Estimate>| match (low, high) {
        (Some(low), Some(high)) => format!("{} / {}", time(low.value), time(high.value)),
        _ => "-".into(),
    };
    [
        vcpu.id.to_string(),
        shown(vcpu.capacity, |value| format!("{value:.0}")),
        percent(vcpu.share_ratio),
        percent(vcpu.speed_ratio),
        percent(vcpu.stolen_ratio),
        shown(vcpu.wakeup_latency_ns, time),
        pair(vcpu.active_p50_ns, vcpu.active_p95_ns),
        pair(vcpu.inactive_p50_ns, vcpu.inactive_p95_ns),
        words(vcpu, found),
    ]
}

/// A value; with a question mark if it is not trusted, and a dash if there is none.
fn shown(estimate: Option<Estimate>, text: impl Fn(f64) -> String) -> String {
    match estimate {
        None => "-".into(),
        Some(estimate) if estimate.trusted().is_none() => format!("{}?", text(estimate.value)),
        Some(estimate) => text(estimate.value),
    }
}

fn time(ns: f64) -> String {
    match ns {
        ..1e5 => format!("{:.0} us", ns / 1e3),
        1e5..1e7 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.0} ms", ns / 1e6),
    }
}

/// The verdict in words, and why.
fn words(vcpu: &Vcpu, found: &VcpuSnapshot) -> String {
    let share = vcpu.share_ratio.map_or(1.0, |share| share.value);
    let speed = vcpu.speed_ratio.map_or(1.0, |speed| speed.value);
    let mut words = match vcpu.verdict {
        Verdict::Good => "good".to_string(),
        Verdict::Reduced if speed < share => format!("slow: {:.0} % of the best", speed * 100.0),
        Verdict::Reduced => format!("gets {:.0} % of a core", share * 100.0),
        Verdict::Straggler => "straggler: for best-effort work only".into(),
        Verdict::Unknown => "not known well enough yet".into(),
        Verdict::Offline => "offline".into(),
    };
    let stack = found.topology.stacks.iter().find(|stack| stack.members.contains(&vcpu.id));
    if let Some(stack) = stack {
        let how = if stack.is_trusted() { "stacked: " } else { "not sure yet: stacked? " };
        let _ = write!(words, "; {how}{} share one core", format_list(&stack.members));
    }
    if let Some(note) = &vcpu.note {
        let _ = write!(words, "; {note}");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use probers::hypervisor::Hypervisor;
    use probers::snapshot::Topology;

    fn estimate(value: f64) -> Option<Estimate> {
        Some(Estimate { value, age_s: 1.0, confidence: 0.9 })
    }

    fn table() -> String {
        let good = Vcpu {
            online: true,
            verdict: Verdict::Reduced,
            capacity: estimate(512.0),
            share_ratio: estimate(0.5),
            speed_ratio: estimate(1.0),
            inactive_p50_ns: estimate(4e6),
            inactive_p95_ns: estimate(12e6),
            ..Vcpu::default()
        };
        let gone = Vcpu { id: 2, verdict: Verdict::Offline, ..Vcpu::default() };
        let found = VcpuSnapshot {
            vcpus: vec![good, gone],
            topology: Topology {
                stacks: vec![Group { members: vec![0, 1], confidence: 1.0 }],
                age_s: Some(1.0),
                ..Topology::default()
            },
            effective_vcpus: estimate(0.5),
            notes: vec!["something was not seen".into()],
            ..VcpuSnapshot::default()
        };
        let announced = Announced { hypervisor: Hypervisor::Tcg, kvm_steal_clock: false };
        render(&found, &announced, &Claims::default())
    }

    #[test]
    fn every_vcpu_has_a_line_that_says_what_it_is() {
        let table = table();
        let lines: Vec<_> = table.lines().collect();
        let of = |id: &str| {
            lines.iter().find(|line| line.trim_start().starts_with(id)).copied().unwrap_or_default()
        };
        for words in ["512", "50 %", "4.0 ms / 12 ms", "gets 50 % of a core", "stacked: 0-1"] {
            assert!(of("0 ").contains(words), "{words}: {table}");
        }
        assert!(of("2 ").contains("offline"), "{table}");
        assert!(table.contains("note: something was not seen"), "{table}");
        assert!(table.contains("worth 0.50 whole cores"), "{table}");
    }

    #[test]
    fn of_many_groups_some_are_named() {
        assert_eq!(names([[0u32, 1].as_slice(); 6].into_iter()), "0-1  0-1  0-1  0-1 and 2 more");
    }
}
