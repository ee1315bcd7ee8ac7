// SPDX-License-Identifier: GPL-2.0-only
//! Times in which the whole VM did not run: a snapshot, a migration, a suspended host. The kernel's
//! watchdog takes such a time for a stall of the scheduler and ends it (kernel:
//! `scx_tick()`, "watchdog failed to check in"), as its clock jumps over it.
//!
//! A thread sleeps for a second again and again. If it wakes late, and has not waited on a runqueue
//! of this VM meanwhile, its timer came late: neither the scheduler nor the VM's work do that. In a
//! true stall the timer comes on time, and the thread waits until the scheduler is gone.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use probers::thread::{GuestWait, monotonic_ns, sleep_until};

/// The sleep. Each wakes a vCPU.
const BEAT: Duration = Duration::from_secs(1);

/// A shorter one is a vCPU's stop, which is nothing special.
const PAUSE_MIN: Duration = Duration::from_secs(5);

/// A pause explains a stall if the stall was found so soon after it: none that began later could
/// have been found yet,
const FRESH: Duration = Duration::from_secs(10);

/// and if it took so much of the 30 s after which the kernel's watchdog ejects the scheduler
/// (`timeout_ms` in bpf/main.bpf.c): tasks may wait for the rest, the greatest wait bound. Those
/// for lockups take 20 s.
const EXPLAINS_MIN: Duration = Duration::from_secs(20);

/// The pauses of this VM so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pauses {
    pub count: u64,
    pub total: Duration,
    /// The last one, and when it ended by `CLOCK_MONOTONIC`.
    last: Duration,
    ended_ns: u64,
}

impl Pauses {
    /// A beat that was due at `due_ns` came at `now_ns`, and waited for `waited_ns` of that time on
    /// a runqueue.
    fn beat(&mut self, due_ns: u64, now_ns: u64, waited_ns: u64) {
        let paused = Duration::from_nanos(now_ns.saturating_sub(due_ns).saturating_sub(waited_ns));
        if paused >= PAUSE_MIN {
            self.count += 1;
            self.total += paused;
            (self.last, self.ended_ns) = (paused, now_ns);
        }
    }

    /// Whether the last one has only just ended.
    pub fn is_fresh(&self) -> bool {
        self.is_fresh_at(monotonic_ns())
    }

    fn is_fresh_at(&self, now_ns: u64) -> bool {
        self.count > 0 && now_ns.saturating_sub(self.ended_ns) <= FRESH.as_nanos() as u64
    }

    /// The pause that explains a stall that was found by `now_ns`, if there is one.
    pub fn explain(&self, now_ns: u64) -> Option<Duration> {
        (self.last >= EXPLAINS_MIN && self.is_fresh_at(now_ns)).then_some(self.last)
    }
}

#[derive(Default)]
struct Seen {
    pauses: Pauses,
    /// When the last beat came.
    beat_ns: u64,
}

/// The thread that watches. Dropping it ends the thread with its next beat.
pub struct PauseWatch {
    seen: Arc<(Mutex<Seen>, Condvar)>,
    over: Arc<AtomicBool>,
}

impl PauseWatch {
    /// Begin to watch.
    ///
    /// # Errors
    /// If there can be no such thread.
    pub fn start() -> io::Result<Self> {
        let (seen, over) = (Arc::<(Mutex<Seen>, Condvar)>::default(), Arc::<AtomicBool>::default());
        let (its_seen, its_over) = (Arc::clone(&seen), Arc::clone(&over));
        let watch = move || {
            let wait = GuestWait::of_this_thread();
            while !its_over.load(Ordering::Relaxed) {
                let due_ns = monotonic_ns() + BEAT.as_nanos() as u64;
                let waited_before_ns = wait.total_ns();
                while monotonic_ns() < due_ns {
                    sleep_until(due_ns);
                }
                let waited_ns = wait.total_ns().saturating_sub(waited_before_ns);
                let mut seen = lock(&its_seen.0);
                seen.beat_ns = monotonic_ns();
                let now_ns = seen.beat_ns;
                seen.pauses.beat(due_ns, now_ns, waited_ns);
                its_seen.1.notify_all();
            }
        };
        thread::Builder::new().name("pauses".into()).spawn(watch)?;
        Ok(Self { seen, over })
    }

    /// The pauses so far.
    pub fn pauses(&self) -> Pauses {
        lock(&self.seen.0).pauses
    }

    /// The pause that explains a stall which was just found. Waits for the next beat, for the one
    /// that tells may not have come yet.
    pub fn explain(&self) -> Option<Duration> {
        let (seen, bell) = &*self.seen;
        let asked_ns = monotonic_ns();
        let is_open =
            |seen: &mut Seen| seen.pauses.explain(asked_ns).is_none() && seen.beat_ns < asked_ns;
        let (seen, _) = bell
            .wait_timeout_while(lock(seen), BEAT * 2, is_open)
            .unwrap_or_else(PoisonError::into_inner);
        seen.pauses.explain(monotonic_ns())
    }
}

impl Drop for PauseWatch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn after(due_s: u64, now_s: u64, waited_s: u64) -> Pauses {
        let mut pauses = Pauses::default();
        pauses.beat(due_s * S, now_s * S, waited_s * S);
        pauses
    }

    #[test]
    fn a_pause_explains_a_stall_that_is_found_right_after_it() {
        for (paused_s, explains) in [(1, false), (10, false), (45, true), (300, true)] {
            let pauses = after(100, 100 + paused_s, 0);
            let explained = pauses.explain((100 + paused_s + 1) * S);
            assert_eq!(explained, explains.then(|| Duration::from_secs(paused_s)));
            assert_eq!(pauses.explain((100 + paused_s + 30) * S), None, "it is long over");
        }
    }

    #[test]
    fn a_thread_that_waited_for_a_vcpu_saw_a_stall_and_no_pause() {
        assert_eq!(after(100, 145, 45), Pauses::default());
        assert_eq!(after(100, 145, 44), Pauses::default());
        assert_eq!(
            after(100, 145, 35).explain(146 * S),
            None,
            "it took less than the watchdog's time"
        );
    }

    #[test]
    fn pauses_are_counted_and_summed() {
        let mut pauses = after(100, 145, 0);
        pauses.beat(146 * S, 147 * S, 0);
        pauses.beat(148 * S, 448 * S, 0);
        assert_eq!((pauses.count, pauses.total), (2, Duration::from_secs(345)));
    }

    #[test]
    fn a_watch_that_sees_no_pause_explains_nothing_and_ends() -> io::Result<()> {
        let watch = PauseWatch::start()?;
        // A busy host may pause this test: not for 20 s.
        assert_eq!(watch.explain(), None);
        let seen = Arc::downgrade(&watch.seen);
        drop(watch);
        let begin = std::time::Instant::now();
        while seen.strong_count() > 0 && begin.elapsed() < BEAT * 60 {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(seen.strong_count(), 0);
        Ok(())
    }
}
