// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware top`: a table of the vCPUs, from the metrics of the running daemon.

use std::io::{IsTerminal, stdout};
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

use anyhow::anyhow;
use userspace::config::{Config, Listen, address};
use userspace::failure::Failure;
use userspace::scrape::Scrape;

use crate::output;

/// Clears a terminal and goes to its upper left corner.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// A family of series, and the labels of those that count.
type Series<'a> = (&'a str, &'a [(&'a str, &'a str)]);

const RUN: Series = ("scx_vaware_vcpu_run_seconds_total", &[]);
const STOLEN: Series = ("scx_vaware_vcpu_steal_seconds_total", &[("state", "running")]);
const SWITCHES: Series = ("scx_vaware_vcpu_switches_total", &[]);
const WAIT: Series = ("scx_vaware_vcpu_wait_seconds_total", &[]);
const PREEMPTIONS: Series = ("scx_vaware_vcpu_preemptions_total", &[]);

/// How to show.
#[derive(clap::Args, Clone)]
pub struct TopOptions {
    /// Where the daemon serves its metrics.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address)]
    from: Option<SocketAddr>,
    /// Time between two tables.
    #[arg(long, value_name = "TIME", value_parser = crate::cli::duration, default_value = "2")]
    interval: Duration,
    /// Show one table, over one interval, and end.
    #[arg(long)]
    once: bool,
}

/// Show tables until the daemon ends, or Ctrl-C.
///
/// # Errors
/// If there is no daemon to ask, or it has gone.
pub fn top(options: &TopOptions) -> Result<(), Failure> {
    let address = options.from.or_else(default_address);
    let Some(address) = address else {
        return Err(anyhow!("metrics are off by default; say where with --from").into());
    };
    let clear = if stdout().is_terminal() && !options.once { CLEAR } else { "" };
    let mut before = read(address)?;
    loop {
        sleep(options.interval);
        let now = read(address)?;
        output::print(&format!("{clear}{}", table(&before, &now)))?;
        if options.once {
            return Ok(());
        }
        before = now;
    }
}

fn default_address() -> Option<SocketAddr> {
    match Config::default().listen {
        Listen::At(address) => Some(address),
        Listen::Off => None,
    }
}

fn read(address: SocketAddr) -> Result<Scrape, Failure> {
    Scrape::read(address).map_err(|error| {
        anyhow!(
            "cannot read metrics at {address}: {error:#}; start the scheduler first, or say with \
             --from where it listens"
        )
        .into()
    })
}

/// What happened between two scrapes, a line for each vCPU.
fn table(before: &Scrape, now: &Scrape) -> String {
    let seconds = (now.at - before.at).as_secs_f64().max(1e-9);
    let state = now.family("scx_vaware_state").iter().find(|(_, value)| *value == 1.0);
    let state = state.and_then(|(labels, _)| labels.get("state")).map_or("unknown", |s| s.as_str());
    let total =
        |(name, labels): Series<'_>| (now.sum(name, labels) - before.sum(name, labels)) / seconds;
    let online = now.value("scx_vaware_vcpus", &[("condition", "online")]).unwrap_or(0.0);
    let effective = now
        .value("scx_vaware_effective_vcpus", &[])
        .map_or(String::new(), |vcpus| format!(", worth {vcpus:.1} cores"));
    let mut text = format!(
        "scx_vaware: {state}, {online} vCPUs{effective}; busy {:.1}, stolen {:.1}, {:.0} \
         switches/s\n{:>5} {:>6} {:>7} {:>7} {:>10} {:>12} {:>9}  {}\n",
        total(RUN),
        total(STOLEN),
        total(SWITCHES),
        "vCPU",
        "busy",
        "stolen",
        "stops/s",
        "switches/s",
        "wait/switch",
        "capacity",
        "state"
    );
    for (labels, _) in now.family(SWITCHES.0) {
        let Some(cpu) = labels.get("cpu") else { continue };
        let rate = |(name, labels): Series<'_>| {
            let labels = [&[("cpu", cpu.as_str())], labels].concat();
            let of = |scrape: &Scrape| scrape.value(name, &labels).unwrap_or(0.0);
            ((of(now) - of(before)) / seconds).max(0.0)
        };
        let switches = rate(SWITCHES);
        let wait_us = rate(WAIT) * 1e6 / switches.max(1.0);
        let capacity = now
            .value("scx_vaware_vcpu_capacity_ratio", &[("cpu", cpu)])
            .map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let is = |name: &str| now.value(name, &[("cpu", cpu)]) == Some(1.0);
        let state = match (is("scx_vaware_vcpu_straggler"), is("scx_vaware_vcpu_banned")) {
            (true, true) => "straggler, banned",
            (true, false) => "straggler",
            (false, true) => "banned",
            (false, false) => "",
        };
        text.push_str(&format!(
            "{cpu:>5} {:>4.0} % {:>5.0} % {:>7.1} {switches:>10.0} {wait_us:>9.0} us {capacity:>9}  \
             {state}\n",
            100.0 * rate(RUN),
            100.0 * rate(STOLEN),
            rate(PREEMPTIONS),
        ));
    }
    text
}
