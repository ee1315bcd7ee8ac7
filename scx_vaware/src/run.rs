// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware run`: load, say so, go round until an end, detach. Loads again where the end is none
//! of the scheduler's faults.

mod reload;
mod stand_by;

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use probers::hypervisor;
use probers::vcpus::Vcpus;
use userspace::backoff::Backoff;
use userspace::config::{Config, Listen};
use userspace::control::{Control, ROUND};
use userspace::ejections::Ejections;
use userspace::events::Priority;
use userspace::failure::Failure;
use userspace::http::{Server, Serving};
use userspace::obstacles;
use userspace::pauses::PauseWatch;
use userspace::probing::Probing;
use userspace::restore::Restore;
use userspace::scheduler::{End, Scheduler};
use userspace::service::Service;
use userspace::standby::Standby;
use userspace::telemetry::{Cause, Telemetry};
use userspace::text_file;
use userspace::trials::Trial;
use userspace::verdicts::Verdicts;
use userspace::worth::Worth;

use crate::cli::RunOptions;
use crate::signals::Signals;
use crate::sinks::Outputs;
use crate::{activity_log, output, screen};

/// How long the loop sleeps with an activity log, which has room for the stops of such a time, and
/// after a pause of the VM, which may be about to end the scheduler.
const NAP: Duration = Duration::from_millis(100);

/// Time between two writes of what is kept for the next start.
const KEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Time between two looks at what speaks against a scheduler. The kernel's own one is to be back
/// within a second after the kill switch is on, and to detach takes some ms.
const SWITCH_INTERVAL: Duration = Duration::from_millis(500);

/// More ends within ten minutes that pauses explain are taken for stalls: a VM is not paused so
/// often, and a stall must not hide.
const PAUSE_ENDS_MAX: usize = 10;

/// What lasts from one load to the next.
struct Daemon<'a> {
    options: &'a RunOptions,
    /// In effect. Changed by a reload alone, not by loading the scheduler again.
    config: Config,
    serving: Option<Serving>,
    signals: Signals,
    service: Service,
    telemetry: Arc<Telemetry>,
    outputs: Outputs,
    pauses: PauseWatch,
    ejections: Ejections,
    restore: Restore,
    verdicts: Verdicts,
    kept_at: Instant,
    /// Comparisons with the kernel's own scheduler, if they were asked for.
    worth: Option<Worth>,
    /// Kept through a turn of the kernel's own scheduler.
    control: Option<Control>,
    loads: Backoff,
    pause_ends: Backoff,
    /// Not to be loaded earlier than this.
    load_at: Instant,
    /// When to end by itself.
    deadline: Option<Instant>,
}

/// Why the scheduler is no longer to run.
enum Left {
    /// The daemon is to end.
    Over,
    /// Something speaks against a scheduler.
    StandBy,
    /// The kernel has ended it.
    Ended(End),
}

/// Run until a signal, the end of the given time, or an ejection.
///
/// # Errors
/// Whatever keeps the scheduler from being loaded, or ends it.
pub fn run(options: &RunOptions) -> Result<(), Failure> {
    // First of all: whatever this start is refused for, the changes of a process that was killed go.
    let (restore, notes) = Restore::begin();
    notes.iter().for_each(output::complain);
    let config = options.config.read()?;
    let ejections = Ejections::from_env();
    // Before anything is opened: the sentence is to name what is in the way, not what follows from it.
    if Standby::reason(&config, ejections.count, !config.start_jitter.is_zero()).is_none() {
        obstacles::check()?;
    }
    let server = match config.listen {
        Listen::At(address) => Some(Server::bind(address)?),
        Listen::Off => None,
    };
    let log = options.activity_log.as_deref().map(activity_log::create).transpose()?;
    let outputs = Outputs::open(log).context("starting to write outputs")?;
    let signals = Signals::listen()?;
    let vcpus = Vcpus::read().context("finding the vCPUs")?;
    let worth = Worth::begin(config.unload_if_worse_ratio).map_err(Failure::Config)?;
    let verdicts = Verdicts::from_env(vcpus.online.len(), hypervisor::announced());
    let telemetry = Arc::new(Telemetry::new(config.clone(), vcpus, ejections.count));
    let serving = server
        .map(|server| server.serve(Arc::clone(&telemetry)).context("serving metrics"))
        .transpose()?;
    let load_at = Instant::now() + stand_by::random_time(config.start_jitter);
    let mut daemon = Daemon {
        options,
        config,
        serving,
        signals,
        service: Service::from_env(),
        telemetry,
        outputs,
        pauses: PauseWatch::start().context("starting to watch for pauses")?,
        ejections,
        restore,
        verdicts,
        kept_at: Instant::now(),
        worth,
        control: None,
        loads: Backoff::default(),
        pause_ends: Backoff::default(),
        load_at,
        deadline: None,
    };
    let ended = daemon.stay_loaded();
    if let Err(Failure::Ejected { report, .. }) = &ended {
        daemon.ejections.add();
        daemon.outputs.tell(Priority::Error, &format!("the kernel's report:\n{report}"));
    }
    daemon.put_back();
    daemon.outputs.close();
    ended
}

impl Daemon<'_> {
    /// Load and run, and attach again after each end that is not final.
    fn stay_loaded(&mut self) -> Result<(), Failure> {
        if self.stand_by()? {
            return Ok(());
        }
        self.prepare()?;
        let mut storage = MaybeUninit::uninit();
        let mut scheduler = Scheduler::start(
            &mut storage,
            &self.config,
            self.options.activity(),
            self.verdicts.priors(),
        )?;
        loop {
            let end = match self.run_until_left(&mut scheduler)? {
                Left::Over => break,
                Left::StandBy => {
                    self.detach(&mut scheduler)?;
                    if self.stand_by()? {
                        self.telemetry.stopping();
                        return Ok(());
                    }
                    self.prepare()?;
                    scheduler.attach_again(&self.config)?;
                    continue;
                }
                Left::Ended(end) => end,
            };
            let detached = scheduler.detach();
            self.put_back();
            let Some(cause) = self.cause_to_go_on(&end) else {
                self.telemetry.stopping();
                return scheduler.failure(end).map_or(Ok(()), Err);
            };
            self.telemetry.restarting(cause);
            let delay = self.loads.ended(Instant::now());
            if !delay.is_zero() {
                let when = format!("it is loaded again in {} s", delay.as_secs());
                self.outputs.tell(Priority::Notice, &when);
            }
            if self.wait(delay)? || self.stand_by()? {
                return Ok(());
            }
            detached?;
            scheduler.attach_again(&self.config)?;
        }
        self.service.stopping();
        self.telemetry.stopping();
        self.detach(&mut scheduler)
    }

    /// Bring the kernel's own scheduler back, and say what came of ours.
    fn detach(&mut self, scheduler: &mut Scheduler<'_>) -> Result<(), Failure> {
        let (stats, trials) = (scheduler.stats()?, scheduler.trials()?);
        scheduler.detach()?;
        self.put_back();
        self.keep(&trials);
        self.outputs.say(screen::end(&stats.total(), &trials));
        Ok(())
    }

    /// Put back what was changed in /sys and /proc.
    fn put_back(&mut self) {
        for note in self.restore.undo_all() {
            self.outputs.tell(Priority::Warning, &note);
        }
    }

    /// Check that the kernel can have it, and say what will not hold.
    fn prepare(&mut self) -> Result<(), Failure> {
        let facts = obstacles::check()?;
        for note in [facts.tickless(), facts.cgroups_untold()].into_iter().flatten() {
            self.outputs.tell(Priority::Warning, &format!("note: {note}"));
        }
        Ok(())
    }

    /// Why to load the scheduler again after this end, if that is to be.
    fn cause_to_go_on(&mut self, end: &End) -> Option<Cause> {
        match end {
            End::Restart => {
                self.outputs.tell(Priority::Notice, "the kernel asks for a restart");
                Some(Cause::Asked)
            }
            End::Stalled(why) => {
                let pause = self.pauses.explain()?;
                self.pause_ends.ended(Instant::now());
                let (seconds, nr) = (pause.as_secs(), self.pause_ends.recent());
                if nr > PAUSE_ENDS_MAX {
                    let news = format!(
                        "the VM was paused for {seconds} s, the {nr}th time in ten minutes that this \
                         has ended the scheduler; it stays down"
                    );
                    self.outputs.tell(Priority::Error, &news);
                    return None;
                }
                let news = format!(
                    "the VM was paused for {seconds} s, which the kernel took for a stall ({why}); \
                     the scheduler is loaded again"
                );
                self.outputs.tell(Priority::Warning, &news);
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

    /// The time to run begins when the scheduler is first enabled, or the daemon first stands by,
    /// and goes on over a restart.
    fn begin_to_count_time(&mut self) {
        if self.deadline.is_none() {
            self.deadline = self.options.run_for.map(|time| Instant::now() + time);
        }
    }

    /// Go round. Return why to stop that.
    fn run_until_left(&mut self, scheduler: &mut Scheduler<'_>) -> Result<Left, Failure> {
        self.telemetry.running(scheduler.counters()?, scheduler.announced());
        self.outputs.say(screen::start(scheduler, &self.config));
        self.tell_ready(&[]);
        self.begin_to_count_time();

        let mut control = match self.control.take() {
            Some(mut kept) => {
                kept.attached_again();
                kept
            }
            None => Control::new(Probing::new(self.config.probing.clone())),
        };
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
            self.signals.sleep(left.min(if naps { NAP } else { SWITCH_INTERVAL }))?;
            if let Some(log) = &self.outputs.activity_log {
                activity_log::drain(scheduler, log)?;
            }

            if let Some(end) = scheduler.end() {
                return Ok(Left::Ended(end));
            }
            if self.is_over() {
                return Ok(Left::Over);
            }
            if self.standby().is_some() {
                self.control = Some(control);
                return Ok(Left::StandBy);
            }
            if self.signals.take_reload() && self.reload(Some(scheduler)) {
                control.probe_anew(Probing::new(self.config.probing.clone()));
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
        let moves_interrupts = self.config.move_interrupts;
        for event in
            control.round(scheduler, &self.telemetry, moves_interrupts, &mut self.restore)?
        {
            self.outputs.tell(event.priority, &event.text);
        }
        let trials = scheduler.trials()?;
        if self.kept_at.elapsed() >= KEEP_INTERVAL {
            self.keep(&trials);
            self.kept_at = Instant::now();
        }
        for news in self.verdicts.news(&trials, Instant::now()) {
            self.outputs.tell(news.priority, &news.text);
        }
        self.look_after_outputs();
        Ok(())
    }

    /// Keep verdicts for the next start.
    fn keep(&mut self, trials: &[Trial]) {
        if let Err(error) = self.verdicts.keep(trials) {
            let news = format!(
                "the verdicts on policies are not kept ({}); the next start begins without them",
                text_file::plain(&error)
            );
            self.outputs.tell(Priority::Warning, &news);
        }
    }

    /// What is done once a second, with and without a scheduler.
    fn look_after_outputs(&mut self) {
        let lines_lost = self.outputs.tend();
        self.telemetry.noticed(self.pauses.pauses(), lines_lost);
        let report = self.telemetry.report();
        if report.standby.is_some() || report.check().is_ok() {
            self.service.well();
        }
    }

    fn tell_ready(&self, ignored: &[&str]) {
        let mut status = format!("enabled; policies on: {}", self.config.policies);
        if !ignored.is_empty() {
            status += &format!("; a restart is needed for: {}", ignored.join(", "));
        }
        self.service.ready(&status);
    }
}
