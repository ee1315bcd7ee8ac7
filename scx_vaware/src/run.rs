// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware run`: load, say so, wait for an end, detach.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use userspace::failure::Failure;
use userspace::scheduler::{End, Scheduler};

use crate::cli::RunOptions;
use crate::screen;

/// How often the loop looks for signals and for an end. Bounds the time to react to either.
const POLL: Duration = Duration::from_millis(100);

/// What signals ask for.
struct Requests {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Requests {
    fn listen() -> Result<Self, Failure> {
        let requests = Self { stop: Arc::default(), reload: Arc::default() };
        for (signal, request) in
            [(SIGINT, &requests.stop), (SIGTERM, &requests.stop), (SIGHUP, &requests.reload)]
        {
            flag::register(signal, Arc::clone(request)).context("listening for signals")?;
        }
        Ok(requests)
    }
}

/// Run until a signal, the end of the given time, or an ejection.
///
/// # Errors
/// Whatever keeps the scheduler from being loaded, or ends it.
pub fn run(options: &RunOptions) -> Result<(), Failure> {
    options.config()?;
    let requests = Requests::listen()?;
    let deadline = options.run_for.map(|time| Instant::now() + time);
    while run_once(options, &requests, deadline)? == Some(End::Restart) {
        println!("scx_vaware: the kernel asks for a restart");
    }
    Ok(())
}

/// Load once and run. Return why it ended, `None` if as asked.
fn run_once(
    options: &RunOptions,
    requests: &Requests,
    deadline: Option<Instant>,
) -> Result<Option<End>, Failure> {
    let config = options.config()?;
    let mut storage = MaybeUninit::uninit();
    let mut scheduler = Scheduler::start(&mut storage, &config)?;
    screen::print_start(&scheduler, &config);

    let mut shown = (Instant::now(), scheduler.stats()?);
    loop {
        sleep(POLL);
        if let Some(end) = scheduler.end() {
            return match end {
                End::Restart => Ok(Some(end)),
                End::Ejected(why) => Err(Failure::Ejected(why)),
            };
        }
        let now = Instant::now();
        if requests.stop.load(Ordering::Relaxed) || deadline.is_some_and(|at| now >= at) {
            break;
        }
        if requests.reload.swap(false, Ordering::Relaxed) {
            reload(options, &mut scheduler);
        }
        if options.stats.is_some_and(|every| now - shown.0 >= every) {
            let stats = scheduler.stats()?;
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
    let applied = options.config().and_then(|config| {
        scheduler.set_policies(config.policies)?;
        Ok(config.policies)
    });
    match applied {
        Ok(policies) => println!("scx_vaware: policies on: {policies}"),
        Err(failure) => eprintln!("scx_vaware: configuration unchanged: {failure}"),
    }
}
