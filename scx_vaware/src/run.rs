// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware run`: load, say so, wait for an end, detach.

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use probers::vcpus::Vcpus;
use userspace::cgroups::CpuCgroups;
use userspace::failure::Failure;
use userspace::kernel;
use userspace::probing::Probing;
use userspace::scheduler::{End, Scheduler};

use crate::activity_log::ActivityLog;
use crate::cli::RunOptions;
use crate::screen;
use crate::signals::Signals;

/// How long the loop sleeps at most. Bounds the time to notice an ejection; each wake-up takes
/// something from the VM, most where vCPUs are scarce.
const NAP: Duration = Duration::from_secs(1);

/// The same with an activity log, which has room for the stops of such a time.
const LOG_NAP: Duration = Duration::from_millis(100);

/// Run until a signal, the end of the given time, or an ejection.
///
/// # Errors
/// Whatever keeps the scheduler from being loaded, or ends it.
pub fn run(options: &RunOptions) -> Result<(), Failure> {
    let config = options.config.read()?;
    kernel::check()?;
    let cgroups = CpuCgroups::find();
    if !config.allow_quota {
        cgroups.check()?;
    }
    screen::print_cgroups(&cgroups);
    let mut signals = Signals::listen()?;
    let mut deadline = None;
    while run_once(options, &mut signals, &mut deadline)? == Some(End::Restart) {
        println!("scx_vaware: the kernel asks for a restart");
    }
    Ok(())
}

/// Load once and run. Return why it ended, `None` if as asked. The time to run begins when the
/// scheduler is first enabled, and goes on over a restart.
fn run_once(
    options: &RunOptions,
    signals: &mut Signals,
    deadline: &mut Option<Instant>,
) -> Result<Option<End>, Failure> {
    let config = options.config.read()?;
    let mut storage = MaybeUninit::uninit();
    let mut log = options.activity_log.as_deref().map(ActivityLog::create).transpose()?;
    let mut scheduler = Scheduler::start(&mut storage, &config, options.activity())?;
    screen::print_start(&scheduler, &config);
    if deadline.is_none() {
        *deadline = options.run_for.map(|time| Instant::now() + time);
    }
    let deadline = *deadline;

    let probing = Probing::start(config.probing.clone())?;
    let mut shown = (Instant::now(), scheduler.stats()?);
    let loaded = shown.0;
    loop {
        let next_line = options.stats.map(|every| shown.0 + every);
        let wake_at = [deadline, next_line].into_iter().flatten().min();
        let left = wake_at.map_or(NAP, |at| at.saturating_duration_since(Instant::now()));
        signals.sleep(left.min(if log.is_some() { LOG_NAP } else { NAP }))?;
        if let Some(log) = &mut log {
            log.drain(&scheduler)?;
        }

        if let Some(end) = scheduler.end() {
            return end.into_failure().map_or(Ok(Some(End::Restart)), Err);
        }
        let now = Instant::now();
        if signals.stop() || deadline.is_some_and(|at| now >= at) {
            break;
        }
        if signals.take_reload() {
            reload(options, &mut scheduler);
        }
        let stats = scheduler.stats()?;
        let online = Vcpus::read().map_or(scheduler.vcpus().online.clone(), |vcpus| vcpus.online);
        probing.tell(&stats, &online, loaded.elapsed().as_nanos() as u64);
        if next_line.is_some_and(|at| now >= at) {
            screen::print_worth(probing.latest().as_deref());
            screen::print_stats(&stats.since(&shown.1), now - shown.0, options.per_vcpu);
            shown = (now, stats);
        }
    }
    let stats = scheduler.stats()?;
    scheduler.stop()?;
    screen::print_end(&stats.total());
    Ok(None)
}

/// Read the configuration again and apply what can change at run time. A mistake changes nothing.
fn reload(options: &RunOptions, scheduler: &mut Scheduler) {
    let applied = options.config.read().and_then(|config| {
        scheduler.set_policies(config.policies)?;
        Ok(config.policies)
    });
    match applied {
        Ok(policies) => println!("scx_vaware: policies on: {policies}"),
        Err(failure) => eprintln!("scx_vaware: configuration unchanged: {failure}"),
    }
}
