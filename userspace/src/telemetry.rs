// SPDX-License-Identifier: GPL-2.0-only
//! What the control loop leaves for those who ask: written by the loop, read by the metrics thread.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use probers::hypervisor::{self, Announced};
use probers::snapshot::VcpuSnapshot;
use probers::vcpus::Vcpus;

use crate::activity::{self, Activity};
use crate::bans::Bans;
use crate::config::Config;
use crate::counters::Counters;
use crate::health::{Report, State};
use crate::http::Content;
use crate::kernel;
use crate::metrics::{Cost, Format, Sample, render};
use crate::pauses::Pauses;
use crate::probing::{Failed, PROBERS, STALE};
use crate::standby::Standby;

/// Shared between the control loop and the metrics thread.
pub struct Telemetry(Mutex<Board>);

struct Board {
    config: Config,
    announced: Announced,
    vcpus: Vcpus,
    report: Report,
    beat: Instant,
    counters: Option<Arc<Counters>>,
    /// The youngest one, if it is not stale.
    snapshot: Option<Arc<VcpuSnapshot>>,
    /// When there last was another one, or the scheduler was loaded.
    snapshot_at: Instant,
    bans: Bans,
    /// `None` while the kernel half is not loaded.
    /// As it was on the last page.
    activity: Vec<Activity>,
    last_scrape: Duration,
    started: Duration,
}

/// Why the scheduler is loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The kernel asks for it.
    Asked,
    /// The kernel took a pause of the VM for a stall.
    Pause,
}

impl Telemetry {
    /// For a daemon that starts, after so many ejections since boot.
    pub fn new(config: Config, vcpus: Vcpus, ejections: u64) -> Self {
        let report = Report {
            last_reload_ok: true,
            ejections,
            probe_restarts: PROBERS.map(|prober| (prober, 0)).into(),
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
            snapshot_at: Instant::now(),
            bans: Bans::new(),
            activity: Vec::new(),
            last_scrape: Duration::ZERO,
            started: unix_time(),
        }))
    }

    /// The scheduler is loaded, and these are its counters.
    pub fn running(&self, counters: Counters, announced: Announced) {
        let mut board = self.board();
        board.counters = Some(Arc::new(counters));
        board.activity = Vec::new();
        board.announced = announced;
        (board.report.state, board.report.standby) = (State::Running, None);
        board.round();
        board.snapshot();
    }

    /// The scheduler is not loaded, for this reason.
    pub fn standing_by(&self, reason: Standby, ejections: u64) {
        let mut board = self.board();
        (board.counters, board.activity) = (None, Vec::new());
        (board.report.state, board.report.standby) = (State::Standby, Some(reason));
        board.report.ejections = ejections;
        board.put_back();
        board.round();
    }

    /// The scheduler is about to be detached, or was ended from outside.
    pub fn stopping(&self) {
        let mut board = self.board();
        board.counters = None;
        board.report.state = State::Stopping;
    }

    /// The scheduler is about to be loaded again.
    pub fn restarting(&self, cause: Cause) {
        let mut board = self.board();
        (board.counters, board.snapshot) = (None, None);
        (board.report.state, board.report.standby) = (State::Starting, None);
        board.put_back();
        match cause {
            Cause::Asked => board.report.restarts_asked += 1,
            Cause::Pause => board.report.restarts_paused += 1,
        }
    }

    /// The VM was paused so often, and the outputs have lost so many lines.
    pub fn noticed(&self, pauses: Pauses, lines_lost: Vec<(&'static str, u64)>) {
        let report = &mut self.board().report;
        (report.pauses, report.lines_lost) = (pauses, lines_lost);
    }

    /// So many processes are confined.
    pub fn confined(&self, processes: usize) {
        self.board().report.confined_processes = processes;
    }

    /// So many vCPUs are kept free, and idle ones poll for so long.
    pub fn blocking(&self, reserve: usize, halt_poll: Option<Duration>) {
        let report = &mut self.board().report;
        (report.reserve_vcpus, report.halt_poll) = (reserve, halt_poll);
    }

    /// So many vCPUs are open, by these factors of the policy gather.
    pub fn gathered(&self, open: usize, factors: Option<(f64, f64)>) {
        let report = &mut self.board().report;
        (report.open_vcpus, report.gather_factors) = (open, factors);
    }

    /// The configuration was read again, and this is in effect.
    pub fn reloaded(&self, effect: &Config, keys_ignored: usize) {
        let mut board = self.board();
        board.config = effect.clone();
        board.report.reloads_applied += 1;
        board.report.keys_ignored += keys_ignored as u64;
        board.report.last_reload_ok = keys_ignored == 0;
    }

    /// The configuration was read again, and is wrong.
    pub fn reload_refused(&self) {
        let report = &mut self.board().report;
        report.reloads_refused += 1;
        report.last_reload_ok = false;
    }

    /// The control loop has gone round, and knows this of the vCPUs; these probers have failed.
    pub fn beat(
        &self,
        vcpus: Option<Vcpus>,
        snapshot: Option<Arc<VcpuSnapshot>>,
        bans: Bans,
        failed: &[Failed],
    ) {
        let mut board = self.board();
        board.round();
        board.bans = bans;
        if let Some(vcpus) = vcpus {
            board.vcpus = vcpus;
        }
        let taken_ns = |held: &Option<Arc<VcpuSnapshot>>| held.as_ref().map(|one| one.taken_at_ns);
        if snapshot.is_some() && taken_ns(&snapshot) != taken_ns(&board.snapshot) {
            board.snapshot();
        }
        board.snapshot = snapshot;
        for failed in failed {
            *board.report.probe_restarts.entry(failed.prober).or_default() += 1;
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
            sample.trials = counters.trials().unwrap_or_default();
            sample.cgroups = counters.cgroups().unwrap_or_default();
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
        let (last_scrape, started) = (board.last_scrape, board.started);
        Sample {
            config: board.config.clone(),
            vcpus: board.vcpus.clone(),
            announced: board.announced,
            health,
            stats: None,
            trials: Vec::new(),
            cgroups: Vec::new(),
            activity: Vec::new(),
            bans: board.bans.clone(),
            snapshot: board.snapshot.clone().filter(|_| board.snapshot_at.elapsed() <= STALE),
            kernel_events,
            cost: Cost { cpu, started, resident_bytes, last_scrape, programs: Vec::new() },
        }
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    /// The control loop goes round.
    fn round(&mut self) {
        self.beat = Instant::now();
        self.report.loop_at = unix_time();
    }

    /// What the scheduler was told, and what was changed for it, no longer holds.
    fn put_back(&mut self) {
        self.bans = Bans::new();
        let report = &mut self.report;
        (report.open_vcpus, report.reserve_vcpus, report.halt_poll) = (0, 0, None);
        report.gather_factors = None;
        report.confined_processes = 0;
    }

    /// There is another snapshot.
    fn snapshot(&mut self) {
        self.snapshot_at = self.beat;
        self.report.snapshot_at = self.report.loop_at;
    }
}

/// Since the epoch.
fn unix_time() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
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
    use crate::bans::Ban;
    use crate::simulated::snapshot;

    #[test]
    fn a_page_is_there_before_the_scheduler_is() {
        let vcpus = Vcpus { possible: vec![0, 1], online: vec![0] };
        let telemetry = Telemetry::new(Config::default(), vcpus, 3);
        let page = telemetry.page(Format::Classic);
        for line in ["scx_vaware_state{state=\"starting\"} 1.0", "scx_vaware_ejections_total 3.0"] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        assert!(own_memory_bytes() > 100_000);
        assert!(telemetry.report().check().is_err());
    }

    fn telemetry() -> Telemetry {
        let vcpus = Vcpus { possible: vec![0], online: vec![0] };
        Telemetry::new(Config::default(), vcpus, 0)
    }

    #[test]
    fn a_reload_is_a_success_only_if_all_of_it_is_in_effect() {
        let telemetry = telemetry();
        telemetry.reloaded(&Config::default(), 2);
        assert!(!telemetry.report().last_reload_ok);
        telemetry.reloaded(&Config::default(), 0);
        assert!(telemetry.report().last_reload_ok);
        telemetry.reload_refused();
        let report = telemetry.report();
        assert!(!report.last_reload_ok);
        assert_eq!((report.reloads_applied, report.reloads_refused), (2, 1));
        assert_eq!(report.keys_ignored, 2);
    }

    #[test]
    fn what_was_done_by_way_of_the_scheduler_ends_with_it() {
        let telemetry = telemetry();
        let ends: [&dyn Fn(); 2] = [&|| telemetry.standing_by(Standby::Compared, 0), &|| {
            telemetry.restarting(Cause::Pause)
        }];
        for end in ends {
            telemetry.blocking(1, Some(Duration::ZERO));
            telemetry.gathered(3, Some((1.0, 0.5)));
            telemetry.confined(2);
            let ban = Ban { now: true, total: Duration::from_secs(1) };
            telemetry.beat(None, None, Bans::from([(0, ban)]), &[]);
            let page = telemetry.page(Format::Classic);
            for series in [
                "halt_poll_seconds{",
                "gather_factor_ratio{factor=\"eta\"} 0.5",
                "vcpu_banned{",
                "banned_vcpus 1.0",
            ] {
                assert!(page.contains(&format!("scx_vaware_{series}")), "{series}: {page}");
            }
            end();
            let page = telemetry.page(Format::Classic);
            for gauge in ["open_vcpus", "reserve_vcpus", "confined_processes", "banned_vcpus"] {
                assert!(page.contains(&format!("scx_vaware_{gauge} 0.0")), "{gauge}: {page}");
            }
            for series in ["halt_poll_seconds{", "gather_factor_ratio{", "vcpu_banned{"] {
                assert!(!page.contains(&format!("scx_vaware_{series}")), "{series}: {page}");
            }
        }
    }

    #[test]
    fn what_probing_no_longer_tells_is_not_on_the_page() {
        let (telemetry, share) = (telemetry(), "scx_vaware_vcpu_share_ratio");
        let failed = |prober| Failed { prober, news: String::new() };
        telemetry.beat(None, Some(Arc::new(snapshot(1))), Bans::new(), &[]);
        assert!(telemetry.page(Format::Classic).contains(share));
        telemetry.beat(None, None, Bans::new(), &[failed(PROBERS[0])]);
        telemetry.beat(None, None, Bans::new(), &[failed(PROBERS[0])]);
        let page = telemetry.page(Format::Classic);
        assert!(!page.contains(share), "{page}");
        assert!(page.contains("scx_vaware_probe_restarts_total{prober=\"vcap\"} 2.0"), "{page}");
        assert!(page.contains("scx_vaware_snapshot_timestamp_seconds "), "{page}");
    }
}
