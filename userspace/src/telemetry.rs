// SPDX-License-Identifier: GPL-2.0-only
//! What the control loop leaves for those who ask: written by the loop, read by the metrics thread.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use probers::hypervisor::{self, Announced};
use probers::snapshot::VcpuSnapshot;
use probers::vcpus::Vcpus;

use crate::activity::{self, Activity};
use crate::bans::Bans;
use crate::cgroups::CpuCgroups;
use crate::config::Config;
use crate::counters::Counters;
use crate::health::{Report, State};
use crate::http::Content;
use crate::kernel;
use crate::metrics::{Cost, Format, Sample, render};

/// Shared between the control loop and the metrics thread.
pub struct Telemetry(Mutex<Board>);

struct Board {
    config: Config,
    announced: Announced,
    vcpus: Vcpus,
    report: Report,
    beat: Instant,
    counters: Option<Arc<Counters>>,
    snapshot: Option<(Arc<VcpuSnapshot>, Instant)>,
    bans: Bans,
    /// As it was on the last page.
    activity: Vec<Activity>,
    last_scrape: Duration,
}

impl Telemetry {
    /// For a daemon that starts.
    pub fn new(config: Config, vcpus: Vcpus, cgroups: &CpuCgroups) -> Self {
        let report = Report {
            last_reload_ok: true,
            cgroups_limited: cgroups.limited.len() as u64,
            cgroups_weighted: cgroups.weighted.len() as u64,
            ..Report::default()
        };
        Self(Mutex::new(Board {
            config,
            announced: hypervisor::announced(),
            vcpus,
            report,
            beat: Instant::now(),
            counters: None,
            snapshot: None,
            bans: Bans::new(),
            activity: Vec::new(),
            last_scrape: Duration::ZERO,
        }))
    }

    /// The scheduler is loaded, and these are its counters.
    pub fn running(&self, counters: Counters, announced: Announced) {
        let mut board = self.board();
        board.counters = Some(Arc::new(counters));
        board.activity = Vec::new();
        board.announced = announced;
        board.report.state = State::Running;
        board.beat = Instant::now();
    }

    /// The scheduler is about to be detached, or was ended from outside.
    pub fn stopping(&self) {
        let mut board = self.board();
        board.counters = None;
        board.report.state = State::Stopping;
    }

    /// The kernel asked for a restart.
    pub fn restarting(&self) {
        let mut board = self.board();
        board.counters = None;
        board.report.state = State::Starting;
        board.report.restarts += 1;
    }

    /// The configuration was read again: the new one if it is right. Return the one in effect.
    /// What cannot change while the scheduler runs stays as it was.
    pub fn reloaded(&self, read: Option<Config>) -> Config {
        let mut board = self.board();
        board.report.last_reload_ok = read.is_some();
        match read {
            Some(config) => {
                board.report.reloads_applied += 1;
                board.config.policies = config.policies;
            }
            None => board.report.reloads_refused += 1,
        }
        board.config.clone()
    }

    /// The control loop has gone round, and knows this of the vCPUs.
    pub fn beat(&self, vcpus: Option<Vcpus>, snapshot: Option<Arc<VcpuSnapshot>>, bans: Bans) {
        let mut board = self.board();
        board.beat = Instant::now();
        board.bans = bans;
        if let Some(vcpus) = vcpus {
            board.vcpus = vcpus;
        }
        let taken_at = |held: &Option<(Arc<VcpuSnapshot>, Instant)>| {
            held.as_ref().map(|(snapshot, _)| snapshot.taken_at_ns)
        };
        if snapshot.as_ref().map(|newer| newer.taken_at_ns) != taken_at(&board.snapshot) {
            board.snapshot = snapshot.map(|snapshot| (snapshot, Instant::now()));
        }
    }

    /// How the daemon and the scheduler are at this moment.
    pub fn report(&self) -> Report {
        let mut report = {
            let board = self.board();
            Report { loop_age: board.beat.elapsed(), ..board.report.clone() }
        };
        report.enabled_as_us = kernel::enabled_as_us();
        report
    }

    /// The page of metrics as it is now. The control loop never waits for it: what takes time is
    /// read and rendered after the board was copied.
    pub fn page(&self, format: Format) -> String {
        let began = Instant::now();
        let mut sample = self.sample();
        let counters = self.board().counters.clone();
        if let Some(counters) = &counters {
            sample.stats = counters.stats().ok();
            sample.activity = counters.activity().unwrap_or_default();
            sample.cost.programs = counters.programs();
        }
        {
            let mut board = self.board();
            let same = match (&counters, &board.counters) {
                (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
                _ => false,
            };
            if same {
                sample.activity = activity::not_before(sample.activity, &board.activity);
                board.activity = sample.activity.clone();
            }
        }
        let page = render(sample, format);
        self.board().last_scrape = began.elapsed();
        page
    }

    /// What is known without the kernel half's counters.
    fn sample(&self) -> Sample {
        let (health, kernel_events) = (self.report(), kernel::events());
        let (cpu, resident_bytes) = (own_cpu_time(), own_memory_bytes());
        let board = self.board();
        let last_scrape = board.last_scrape;
        Sample {
            config: board.config.clone(),
            vcpus: board.vcpus.clone(),
            announced: board.announced,
            health,
            stats: None,
            activity: Vec::new(),
            bans: board.bans.clone(),
            snapshot: board
                .snapshot
                .as_ref()
                .map(|(snapshot, since)| (Arc::clone(snapshot), since.elapsed())),
            kernel_events,
            cost: Cost { cpu, resident_bytes, last_scrape, programs: Vec::new() },
        }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The processor time that this process has used.
fn own_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in a struct of ours; it cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The memory of this process that is in RAM; 0 where /proc does not tell.
fn own_memory_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
    kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

impl Content for Telemetry {
    fn metrics(&self, format: Format) -> String {
        self.page(format)
    }

    fn health(&self) -> Result<(), String> {
        self.report().check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_there_before_the_scheduler_is() {
        let vcpus = Vcpus { possible: vec![0, 1], online: vec![0] };
        let telemetry = Telemetry::new(Config::default(), vcpus, &CpuCgroups::default());
        let page = telemetry.page(Format::Classic);
        assert!(page.contains("scx_vaware_state{state=\"starting\"} 1"), "{page}");
        assert!(own_memory_bytes() > 100_000);
        assert!(telemetry.report().check().is_err());
        telemetry.reloaded(None);
        assert!(!telemetry.report().last_reload_ok);
    }
}
