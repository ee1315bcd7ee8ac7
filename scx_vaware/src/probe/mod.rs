// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware probe`: what the vCPUs really are. Needs neither sched_ext nor root.

mod check;
mod matrix;
mod table;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use probers::claims::Claims;
use probers::hypervisor::{self, Announced};
use probers::service::Service;
use probers::snapshot::VcpuSnapshot;
use probers::vcap::Settings;
use probers::vcap::passive::ProcStat;
use probers::vcpus::Vcpus;
use probers::vtop::watch::{PASS_LIMIT, Watch};
use serde::Serialize;
use userspace::config::probe_budget_percent;
use userspace::failure::Failure;

use crate::cli::duration;
use crate::output;
use check::{Check, Outcome};

/// The exit codes when `--check` is not met, and when too little is known to say.
const CHECK_UNMET: u8 = 3;
const CHECK_UNDECIDED: u8 = 4;
/// Enough for every kind of look at an idle VM and at a busy one, and to be sure of an idle VM's stacks.
const DURATION: Duration = Duration::from_secs(6);
/// More than any step of the prober takes, on a VM that runs at all.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(60);
/// Return to the top of the screen and clear it.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// How to probe.
#[derive(Args, Clone)]
pub struct ProbeOptions {
    /// Probe for so long before showing what was found.
    /// Default: 6; with --watch: for ever.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Use at most so much of each vCPU, beside 100 ms at the start (0 to 10; 0: look on only).
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = budget_ratio)]
    budget: f64,
    /// Print JSON, with --watch one line for each snapshot.
    #[arg(long)]
    json: bool,
    /// Go on, and show each new snapshot.
    #[arg(long)]
    watch: bool,
    /// Exit with 3 if this is not met, with 4 if what counts is not known well enough, for example
    /// 'share>=0.8,stragglers==0'. About each vCPU: share, speed, capacity, stolen, wakeup_ms,
    /// inactive_p95_ms; about the VM: effective, online, stragglers, stacked, unknown.
    #[arg(long, value_name = "CONDITIONS", conflicts_with = "watch")]
    check: Option<Check>,
    /// Probe nothing, but find the groups of a recorded latency matrix: a CSV file with one-way
    /// latencies in ns, lower triangle, blank where not measured.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["duration", "watch", "check"])]
    matrix: Option<PathBuf>,
    /// Believe the kernel's steal clock although the hypervisor announces none (for tests).
    #[arg(long, hide = true)]
    trust_steal_clock: bool,
}

/// What `--json` prints: the snapshot, and what the hypervisor claims.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    found: &'a VcpuSnapshot,
    hypervisor: &'static str,
    steal_clock_announced: bool,
    claimed: &'a Claims,
}

/// Probe and show.
///
/// # Errors
/// If there is nothing to show: /sys unreadable, no threads granted, no matrix in the file.
pub fn run(options: &ProbeOptions) -> Result<ExitCode, Failure> {
    if let Some(path) = &options.matrix {
        return matrix::run(path, options.json).map(|()| ExitCode::SUCCESS);
    }
    let announced = hypervisor::announced();
    let online = Vcpus::read().context("finding the vCPUs")?.online;
    let show = Shown { announced, claims: Claims::read(&online), json: options.json };
    let service = start(options, announced)?;
    let topology = start_topology(options)?;
    if options.watch {
        return watch(options, &service, topology.as_ref(), &show);
    }
    let found = with_topology(wait(options, &service)?, topology.as_ref(), 2 * PASS_LIMIT);
    show.print(&found, true)?;
    let outcome = options.check.as_ref().map(|check| check.judge(&found)).unwrap_or_default();
    for reason in outcome.unmet.iter().chain(&outcome.undecided) {
        output::complain(reason);
    }
    Ok(match outcome {
        Outcome { unmet, .. } if !unmet.is_empty() => ExitCode::from(CHECK_UNMET),
        Outcome { undecided, .. } if !undecided.is_empty() => ExitCode::from(CHECK_UNDECIDED),
        _ => ExitCode::SUCCESS,
    })
}

fn start(options: &ProbeOptions, announced: Announced) -> Result<Service, Failure> {
    let settings = Settings { budget_ratio: options.budget, ..Settings::default() };
    let source = ProcStat::new(announced.kvm_steal_clock || options.trust_steal_clock);
    Ok(Service::start(settings, Box::new(source)).context("starting to probe")?)
}

/// Probe the topology as well, if anything may be probed actively.
fn start_topology(options: &ProbeOptions) -> Result<Option<Watch>, Failure> {
    let interval = Settings::default().topology_interval;
    // One look is over before it could be saved what it uses.
    let budget_ratio = if options.watch { options.budget } else { 1.0 };
    let wanted = (options.budget > 0.0).then(|| Watch::start(interval, budget_ratio));
    Ok(wanted.transpose().context("starting to probe the topology")?)
}

/// The snapshot with the topology in it, or a note why there is none.
fn with_topology(
    found: Arc<VcpuSnapshot>,
    topology: Option<&Watch>,
    limit: Duration,
) -> Arc<VcpuSnapshot> {
    let Some(watch) = topology else { return found };
    let mut found = VcpuSnapshot::clone(&found);
    match watch.latest(limit) {
        Some(topology) => found.topology = topology,
        None => found.notes.extend(watch.problem().map(|why| format!("no topology: {why}"))),
    }
    Arc::new(found)
}

/// Wait for the end of the time, with a progress bar on a terminal, and return the last snapshot.
fn wait(options: &ProbeOptions, service: &Service) -> Result<Arc<VcpuSnapshot>, Failure> {
    let duration = options.duration.unwrap_or(DURATION);
    let bar = progress_bar(duration);
    let begin = Instant::now();
    while begin.elapsed() < duration && service.failure().is_none() {
        std::thread::sleep(Duration::from_millis(100).min(duration));
        bar.set_position(begin.elapsed().as_millis() as u64);
    }
    bar.finish_and_clear();
    newer(service, 0)
}

fn progress_bar(duration: Duration) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("probing the vCPUs {bar:30} {eta} left");
    let bar = ProgressBar::new(duration.as_millis() as u64);
    style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style))
}

fn newer(service: &Service, than_ns: u64) -> Result<Arc<VcpuSnapshot>, Failure> {
    if let Some(failure) = service.failure() {
        return Err(anyhow::Error::msg(failure).context("probing").into());
    }
    let found = service.wait_newer(than_ns, SNAPSHOT_LIMIT);
    Ok(found
        .context("probing has found nothing for a minute; try again on a VM that is less busy")?)
}

fn watch(
    options: &ProbeOptions,
    service: &Service,
    topology: Option<&Watch>,
    show: &Shown,
) -> Result<ExitCode, Failure> {
    let begin = Instant::now();
    let clear = std::io::stdout().is_terminal() && !options.json;
    let mut shown_ns = 0;
    loop {
        let found = newer(service, shown_ns)?;
        shown_ns = found.taken_at_ns;
        let found = with_topology(found, topology, Duration::ZERO);
        if clear {
            output::print(CLEAR)?;
        }
        show.print(&found, false)?;
        if options.duration.is_some_and(|duration| begin.elapsed() >= duration) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// How to show a snapshot.
struct Shown {
    announced: Announced,
    claims: Claims,
    json: bool,
}

impl Shown {
    fn print(&self, found: &VcpuSnapshot, pretty: bool) -> Result<(), Failure> {
        if !self.json {
            return output::print(&table::render(found, &self.announced, &self.claims));
        }
        let report = Report {
            found,
            hypervisor: self.announced.hypervisor.name(),
            steal_clock_announced: self.announced.kvm_steal_clock,
            claimed: &self.claims,
        };
        if pretty {
            return output::print_json(&report);
        }
        output::print(&(serde_json::to_string(&report).context("writing JSON")? + "\n"))
    }
}

/// A part of a vCPU from a percentage.
fn budget_ratio(text: &str) -> Result<f64, String> {
    probe_budget_percent(text.trim_end_matches('%')).map(|percent| percent / 100.0)
}
