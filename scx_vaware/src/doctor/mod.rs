// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware doctor`: can it run here, and is it worth it here. Changes nothing.

mod environment;
mod finding;
mod interrupts;
mod losses;
mod policies;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use probers::hypervisor;
use probers::service::Service;
use probers::snapshot::VcpuSnapshot;
use probers::vcap::Settings;
use probers::vcap::passive::{ProcStat, Times, TimesSource};
use probers::vtop::watch::{PASS_LIMIT, Watch};
use serde::Serialize;
use userspace::failure::Failure;
use userspace::obstacles::KernelFacts;

use crate::cli::duration;
use crate::output;
use finding::{Finding, Level};
use interrupts::Counts;
use losses::Losses;

const SCHEMA_VERSION: u32 = 1;
/// The first snapshot follows the start by some tenths of a second on a VM that runs at all.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(60);

/// How to examine.
#[derive(Args, Clone)]
pub struct DoctorOptions {
    /// Probe the vCPUs for so long.
    #[arg(long, value_name = "TIME", default_value = "6", value_parser = duration)]
    duration: Duration,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report {
    schema_version: u32,
    level: Level,
    verdict: String,
    findings: Vec<Finding>,
    losses: Option<Losses>,
}

/// Examine, print, and return the exit code of a Nagios plugin.
///
/// # Errors
/// Only if the report cannot be written; whatever cannot be examined is a finding.
pub fn run(options: &DoctorOptions) -> Result<ExitCode, Failure> {
    let report = examine(options);
    if options.json {
        output::print_json(&report)?;
    } else {
        output::print(&table(&report))?;
    }
    Ok(ExitCode::from(report.level as u8))
}

fn examine(options: &DoctorOptions) -> Report {
    let announced = hypervisor::announced();
    let facts = KernelFacts::read();
    let mut findings = environment::check(&facts, announced);
    findings.extend(policies::check(&facts));
    let can_run = findings.iter().all(|finding| finding.level != Level::Critical);
    let losses = match probe(options, announced.kvm_steal_clock, &mut findings) {
        Ok(losses) => Some(losses),
        Err(failure) => {
            findings.push(Finding::new("probe", Level::Unknown, format!("{failure:#}")));
            None
        }
    };
    Report {
        schema_version: SCHEMA_VERSION,
        level: Level::worst(findings.iter().map(|finding| finding.level)),
        verdict: verdict(can_run, losses.as_ref()),
        findings,
        losses,
    }
}

/// Probe the vCPUs, and add what that says.
fn probe(
    options: &DoctorOptions,
    steal_clock: bool,
    findings: &mut Vec<Finding>,
) -> anyhow::Result<Losses> {
    // Probes look for themselves here, so that they can tell whether the clock does.
    let service = Service::start(Settings::default(), Box::new(ProcStat::new(false)))?;
    let topology = Watch::start(Settings::default().topology_interval, 1.0)?;
    let mut clock = ProcStat::new(steal_clock);
    let (begin, irqs_before, times_before) = (Instant::now(), Counts::read(), sum(&mut clock));
    std::thread::sleep(options.duration);
    let found = service
        .wait_newer(0, SNAPSHOT_LIMIT)
        .with_context(|| service.failure().unwrap_or("nothing was found for a minute".into()))?;
    let mut found = VcpuSnapshot::clone(&found);
    found.topology = topology.latest(PASS_LIMIT).unwrap_or_default();
    let wall_s = begin.elapsed().as_secs_f64();
    let claimed = sum(&mut clock).since(times_before);
    let online = found.vcpus.iter().filter(|vcpu| vcpu.online).count().max(1) as f64;
    let claimed_ratio = claimed.stolen_ns as f64 / 1e9 / wall_s / online;

    let losses = Losses::of(&found);
    findings.push(losses::steal_clock(steal_clock, claimed_ratio, &found));
    findings.extend(losses.findings());
    findings.push(interrupts::judge(&irqs_before, &Counts::read(), wall_s, &found));
    Ok(losses)
}

/// The times of all vCPUs together; nothing where the kernel does not tell.
fn sum(source: &mut ProcStat) -> Times {
    source.read().unwrap_or_default().iter().fold(Times::default(), |sum, (_, times)| Times {
        run_ns: sum.run_ns + times.run_ns,
        stolen_ns: sum.stolen_ns + times.stolen_ns,
        idle_ns: sum.idle_ns + times.idle_ns,
    })
}

fn verdict(can_run: bool, losses: Option<&Losses>) -> String {
    let worth = match losses.and_then(Losses::worth_it) {
        Some(true) => "its vCPUs are not whole cores, so there is something to gain",
        Some(false) => "its vCPUs are whole cores, so there is next to nothing to gain",
        None => "too little is known of its vCPUs to say what is to gain",
    };
    let can = if can_run { "scx_vaware can run here" } else { "scx_vaware cannot run here" };
    let next = match (can_run, losses.and_then(Losses::worth_it)) {
        (true, Some(true)) => "try it: sudo scx_vaware --for 60",
        (false, _) => "see what is marked CRIT",
        _ => "scx_vaware probe --duration 30 looks closer",
    };
    format!("{can}; {worth}; {next}")
}

fn table(report: &Report) -> String {
    let mut text = format!("verdict: {}\n", report.verdict);
    for finding in &report.findings {
        text += &format!("{}  {:<22} {}\n", finding.level.mark(), finding.check, finding.text);
        if let Some(advice) = &finding.advice {
            text += &format!("      {:<22} -> {advice}\n", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_says_both_and_what_next() {
        let text = verdict(false, None);
        assert!(text.contains("cannot run") && text.contains("CRIT"), "{text}");
        let text = verdict(true, None);
        assert!(text.contains("can run") && text.contains("--duration 30"), "{text}");
    }
}
