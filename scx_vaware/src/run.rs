// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware run`: load, say so, go round until an end, detach. Loads again where the end is none
//! of the scheduler's faults.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use probers::vcpus::Vcpus;
use userspace::backoff::Backoff;
use userspace::cgroups::CpuCgroups;
use userspace::config::{Config, Listen};
use userspace::control::{Control, ROUND};
use userspace::ejections::Ejections;
use userspace::failure::Failure;
use userspace::http::Server;
use userspace::pauses::PauseWatch;
use userspace::probing::Probing;
use userspace::restore::Restore;
use userspace::scheduler::{End, Scheduler};
use userspace::service::Service;
use userspace::telemetry::{Cause, Telemetry};
use userspace::{obstacles, reload};

use crate::cli::RunOptions;
use crate::signals::Signals;
use crate::sinks::Outputs;
use crate::{activity_log, screen};

/// How long the loop sleeps with an activity log, which has room for the stops of such a time, and
/// after a pause of the VM, which may be about to end the scheduler.
const NAP: Duration = Duration::from_millis(100);

/// Time between two looks at the limits of cgroups.
const CGROUPS_INTERVAL: Duration = Duration::from_secs(30);

/// More ends within ten minutes that pauses explain are taken for stalls: a VM is not paused so
/// often, and a stall must not hide.
const PAUSE_ENDS_MAX: usize = 10;

/// What lasts from one load to the next.
struct Daemon<'a> {
    options: &'a RunOptions,
    /// In effect. Changed by a reload alone, not by loading the scheduler again.
    config: Config,
    signals: Signals,
    service: Service,
    telemetry: Arc<Telemetry>,
    outputs: Outputs,
    pauses: PauseWatch,
    cgroups: CpuCgroups,
    cgroups_at: Instant,
    ejections: Ejections,
    restore: Restore,
    loads: Backoff,
    pause_ends: Backoff,
    /// When to end by itself.
    deadline: Option<Instant>,
}

/// Run until a signal, the end of the given time, or an ejection.
///
/// # Errors
/// Whatever keeps the scheduler from being loaded, or ends it.
pub fn run(options: &RunOptions) -> Result<(), Failure> {
    let config = options.config.read()?;
    let facts = obstacles::check()?;
    let cgroups = CpuCgroups::find();
    if !config.allow_quota {
        cgroups.check()?;
    }
    let server = match config.listen {
        Listen::At(address) => Some(Server::bind(address)?),
        Listen::Off => None,
    };
    let log = options.activity_log.as_deref().map(activity_log::create).transpose()?;
    let outputs = Outputs::open(log).context("starting to write outputs")?;
    screen::cgroups(&cgroups).for_each(|note| outputs.tell(&note));
    if let Some(note) = facts.tickless() {
        outputs.tell(&format!("note: {note}"));
    }

    let (restore, notes) = Restore::begin();
    notes.iter().for_each(|note| outputs.tell(note));

    let signals = Signals::listen()?;
    let vcpus = Vcpus::read().context("finding the vCPUs")?;
    let ejections = Ejections::from_env();
    let telemetry = Arc::new(Telemetry::new(config.clone(), vcpus, ejections.count));
    telemetry.cgroups(&cgroups);
    if let Some(server) = server {
        server.serve(Arc::clone(&telemetry)).context("serving metrics")?;
    }
    let mut daemon = Daemon {
        options,
        config,
        signals,
        service: Service::from_env(),
        telemetry,
        outputs,
        pauses: PauseWatch::start().context("starting to watch for pauses")?,
        cgroups,
        cgroups_at: Instant::now(),
        ejections,
        restore,
        loads: Backoff::default(),
        pause_ends: Backoff::default(),
        deadline: None,
    };
    let ended = daemon.stay_loaded();
    daemon.restore.undo_all().iter().for_each(|note| daemon.outputs.tell(note));
    daemon.outputs.close();
    ended
}

impl Daemon<'_> {
    /// Load and run, and attach again after each end that is not final.
    fn stay_loaded(&mut self) -> Result<(), Failure> {
        let mut storage = MaybeUninit::uninit();
        let mut scheduler = Scheduler::start(&mut storage, &self.config, self.options.activity())?;
        while let Some(end) = self.run_until_end(&mut scheduler)? {
            let detached = scheduler.detach();
            let Some(cause) = self.cause_to_go_on(&end) else {
                self.telemetry.stopping();
                if matches!(end, End::Stalled(_) | End::Ejected(_)) {
                    self.ejections.add();
                    self.outputs.tell(&format!("the kernel's report:\n{}", scheduler.report()));
                }
                return end.into_failure().map_or(Ok(()), Err);
            };
            self.telemetry.restarting(cause);
            let delay = self.loads.ended(Instant::now());
            if !delay.is_zero() {
                self.outputs.tell(&format!("it is loaded again in {} s", delay.as_secs()));
            }
            if self.wait(delay)? {
                return Ok(());
            }
            detached?;
            scheduler.attach_again()?;
        }
        self.service.stopping();
        self.telemetry.stopping();
        let stats = scheduler.stats()?;
        scheduler.stop()?;
        self.outputs.say(screen::end(&stats.total()));
        Ok(())
    }

    /// Why to load the scheduler again after this end, if that is to be.
    fn cause_to_go_on(&mut self, end: &End) -> Option<Cause> {
        match end {
            End::Restart => {
                self.outputs.tell("the kernel asks for a restart");
                Some(Cause::Asked)
            }
            End::Stalled(why) => {
                let pause = self.pauses.explain()?;
                self.pause_ends.ended(Instant::now());
                let (seconds, nr) = (pause.as_secs(), self.pause_ends.recent());
                if nr > PAUSE_ENDS_MAX {
                    self.outputs.tell(&format!(
                        "the VM was paused for {seconds} s, the {nr}th time in ten minutes that this \
                         has ended the scheduler; it stays down"
                    ));
                    return None;
                }
                self.outputs.tell(&format!(
                    "the VM was paused for {seconds} s, which the kernel took for a stall ({why}); \
                     the scheduler is loaded again"
                ));
                Some(Cause::Pause)
            }
            End::Ejected(_) | End::Dismissed(_) => None,
        }
    }

    /// Wait for `time`. Return whether to end instead.
    fn wait(&mut self, time: Duration) -> Result<bool, Failure> {
        let end = Instant::now() + time;
        while !self.is_over() && Instant::now() < end {
            let until = self.deadline.map_or(end, |deadline| deadline.min(end));
            self.signals.sleep(until.saturating_duration_since(Instant::now()))?;
        }
        Ok(self.is_over())
    }

    /// Whether to end, as asked.
    fn is_over(&self) -> bool {
        self.signals.stop() || self.deadline.is_some_and(|at| Instant::now() >= at)
    }

    /// Go round. Return why the scheduler ended, `None` if it is to end. The time to run begins when
    /// it is first enabled, and goes on over a restart.
    fn run_until_end(&mut self, scheduler: &mut Scheduler<'_>) -> Result<Option<End>, Failure> {
        self.telemetry.running(scheduler.counters()?, scheduler.announced());
        self.outputs.say(screen::start(scheduler, &self.config));
        self.tell_ready(&[]);
        if self.deadline.is_none() {
            self.deadline = self.options.run_for.map(|time| Instant::now() + time);
        }

        let mut control = Control::new(Probing::new(self.config.probing.clone()));
        let mut next_round = Instant::now();
        let mut shown = (Instant::now(), scheduler.stats()?);
        loop {
            if Instant::now() >= next_round {
                self.round(&mut control, scheduler)?;
                next_round = Instant::now() + ROUND;
            }
            let next_line = self.options.stats.map(|every| shown.0 + every);
            let wake_at =
                [self.deadline, next_line].into_iter().flatten().fold(next_round, Instant::min);
            let left = wake_at.saturating_duration_since(Instant::now());
            let naps = self.outputs.activity_log.is_some() || self.pauses.pauses().is_fresh();
            self.signals.sleep(if naps { left.min(NAP) } else { left })?;
            if let Some(log) = &self.outputs.activity_log {
                activity_log::drain(scheduler, log)?;
            }

            if let Some(end) = scheduler.end() {
                return Ok(Some(end));
            }
            if self.is_over() {
                return Ok(None);
            }
            if self.signals.take_reload() {
                self.reload(scheduler);
            }
            let now = Instant::now();
            if next_line.is_some_and(|at| now >= at) {
                let stats = scheduler.stats()?;
                let worth = control.snapshot().map(|found| screen::worth(&found));
                let (delta, elapsed) = (stats.since(&shown.1), now - shown.0);
                let lines = screen::stats(&delta, elapsed, self.options.per_vcpu);
                self.outputs.say(worth.unwrap_or_default() + &lines);
                shown = (now, stats);
            }
        }
    }

    /// What is done once a second.
    fn round(&mut self, control: &mut Control, scheduler: &mut Scheduler) -> anyhow::Result<()> {
        for news in control.round(scheduler, &self.telemetry, &mut self.restore)? {
            self.outputs.tell(&news);
        }
        if self.cgroups_at.elapsed() >= CGROUPS_INTERVAL {
            let found = CpuCgroups::find();
            let limited = found.newly_limited(&self.cgroups);
            if !limited.is_empty() {
                self.outputs.tell(&screen::new_limits(&limited));
            }
            self.telemetry.cgroups(&found);
            (self.cgroups, self.cgroups_at) = (found, Instant::now());
        }
        let lines_lost = self.outputs.tend();
        self.telemetry.noticed(self.pauses.pauses(), lines_lost);
        if self.telemetry.report().check().is_ok() {
            self.service.well();
        }
        Ok(())
    }

    /// Read the configuration again and apply what can change at run time. A mistake changes
    /// nothing; a key that cannot take effect is named.
    fn reload(&mut self, scheduler: &mut Scheduler) {
        self.service.reloading();
        let read = self.options.config.read().and_then(|config| {
            scheduler.set_policies(config.policies)?;
            Ok(config)
        });
        let mut ignored = Vec::new();
        match read {
            Ok(config) => {
                self.config.policies = config.policies;
                ignored = reload::ignored_keys(&self.config, &config);
                self.telemetry.reloaded(&self.config, ignored.len());
                self.outputs.say(format!("scx_vaware: policies on: {}\n", self.config.policies));
            }
            Err(failure) => {
                self.telemetry.reload_refused();
                self.outputs.tell(&format!("configuration unchanged: {failure}"));
            }
        }
        for key in &ignored {
            self.outputs.tell(&format!(
                "{key} was changed, but takes effect with the next start only; restart the daemon"
            ));
        }
        self.tell_ready(&ignored);
    }

    fn tell_ready(&self, ignored: &[String]) {
        let mut status = format!("enabled; policies on: {}", self.config.policies);
        if !ignored.is_empty() {
            status += &format!("; a restart is needed for: {}", ignored.join(", "));
        }
        self.service.ready(&status);
    }
}
