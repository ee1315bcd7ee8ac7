// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware run`: load, say so, go round until an end, detach.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use probers::vcpus::Vcpus;
use userspace::cgroups::CpuCgroups;
use userspace::config::{Config, Listen};
use userspace::control::{Control, ROUND};
use userspace::failure::Failure;
use userspace::http::Server;
use userspace::obstacles;
use userspace::probing::Probing;
use userspace::scheduler::{End, Scheduler};
use userspace::service::Service;
use userspace::telemetry::Telemetry;

use crate::activity_log::ActivityLog;
use crate::cli::RunOptions;
use crate::screen;
use crate::signals::Signals;

/// How long the loop sleeps with an activity log, which has room for the stops of such a time.
const LOG_NAP: Duration = Duration::from_millis(100);

/// What lasts from one load to the next.
struct Daemon<'a> {
    options: &'a RunOptions,
    signals: Signals,
    service: Service,
    telemetry: Arc<Telemetry>,
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
    screen::print_cgroups(&cgroups);
    screen::print_tickless(&facts);

    let signals = Signals::listen()?;
    let vcpus = Vcpus::read().context("finding the vCPUs")?;
    let telemetry = Arc::new(Telemetry::new(config, vcpus, &cgroups));
    if let Some(server) = server {
        server.serve(Arc::clone(&telemetry)).context("serving metrics")?;
    }
    let service = Service::from_env();
    let mut daemon = Daemon { options, signals, service, telemetry, deadline: None };
    while daemon.load_and_run()? == Some(End::Restart) {
        println!("scx_vaware: the kernel asks for a restart");
        daemon.telemetry.restarting();
    }
    Ok(())
}

impl Daemon<'_> {
    /// Load once and run. Return why it ended, `None` if as asked. The time to run begins when the
    /// scheduler is first enabled, and goes on over a restart.
    fn load_and_run(&mut self) -> Result<Option<End>, Failure> {
        let config = self.options.config.read()?;
        let mut storage = MaybeUninit::uninit();
        let mut log = self.options.activity_log.as_deref().map(ActivityLog::create).transpose()?;
        let mut scheduler = Scheduler::start(&mut storage, &config, self.options.activity())?;
        self.telemetry.running(scheduler.counters()?, scheduler.announced());
        screen::print_start(&scheduler, &config);
        self.tell_ready(&config);
        if self.deadline.is_none() {
            self.deadline = self.options.run_for.map(|time| Instant::now() + time);
        }

        let mut control = Control::new(Probing::start(config.probing.clone())?);
        let mut next_round = Instant::now();
        let mut shown = (Instant::now(), scheduler.stats()?);
        loop {
            if Instant::now() >= next_round {
                control.round(&scheduler, &self.telemetry)?;
                next_round = Instant::now() + ROUND;
                if self.telemetry.report().check().is_ok() {
                    self.service.well();
                }
            }
            let next_line = self.options.stats.map(|every| shown.0 + every);
            let wake_at =
                [self.deadline, next_line].into_iter().flatten().fold(next_round, Instant::min);
            let left = wake_at.saturating_duration_since(Instant::now());
            self.signals.sleep(if log.is_some() { left.min(LOG_NAP) } else { left })?;
            if let Some(log) = &mut log {
                log.drain(&scheduler)?;
            }

            if let Some(end) = scheduler.end() {
                return end.into_failure().map_or(Ok(Some(End::Restart)), Err);
            }
            let now = Instant::now();
            if self.signals.stop() || self.deadline.is_some_and(|at| now >= at) {
                break;
            }
            if self.signals.take_reload() {
                self.reload(&mut scheduler);
            }
            if next_line.is_some_and(|at| now >= at) {
                let stats = scheduler.stats()?;
                screen::print_worth(control.snapshot().as_deref());
                screen::print_stats(&stats.since(&shown.1), now - shown.0, self.options.per_vcpu);
                shown = (now, stats);
            }
        }
        self.service.stopping();
        self.telemetry.stopping();
        let stats = scheduler.stats()?;
        scheduler.stop()?;
        screen::print_end(&stats.total());
        Ok(None)
    }

    /// Read the configuration again and apply what can change at run time. A mistake changes
    /// nothing.
    fn reload(&self, scheduler: &mut Scheduler) {
        self.service.reloading();
        let read = self.options.config.read().and_then(|config| {
            scheduler.set_policies(config.policies)?;
            Ok(config)
        });
        match &read {
            Ok(config) => println!("scx_vaware: policies on: {}", config.policies),
            Err(failure) => eprintln!("scx_vaware: configuration unchanged: {failure}"),
        }
        let effective = self.telemetry.reloaded(read.ok());
        self.tell_ready(&effective);
    }

    fn tell_ready(&self, config: &Config) {
        self.service.ready(&format!("enabled; policies on: {}", config.policies));
    }
}
