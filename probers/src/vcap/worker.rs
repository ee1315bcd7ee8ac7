// SPDX-License-Identifier: GPL-2.0-only
//! The threads that work for some ms on one vCPU when asked, and sleep otherwise.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use super::trace::{STOP_MIN_NS, Trace};
use crate::thread::{
    GuestWait, Priority, current_vcpu, monotonic_ns, pin, set_priority, sleep_until,
};

/// These threads need little; a VM can have hundreds of vCPUs.
const STACK_BYTES: usize = 128 * 1024;
/// Rounds of the chunk: some microseconds, far longer than reading the clock takes.
const CHUNK_ROUNDS: u32 = 4096;
/// It has fewer on a machine where it would take longer: one that takes as long as a stop passes for one.
const CHUNK_MAX_NS: u64 = STOP_MIN_NS / 10;
/// Of so many chunks the fastest tells how long one takes: the others may have been disturbed.
const CHUNKS_TIMED: u32 = 8;
/// How often a burst learns of waits too short to be looked into.
const CHUNKS_PER_CHECK: u32 = 16;

/// How long to work.
#[derive(Clone, Debug)]
pub struct BurstOrder {
    /// `CLOCK_MONOTONIC`, the same for all vCPUs, so that they compete as if all were busy.
    pub begin_ns: u64,
    /// End after so much run time,
    pub run_max_ns: u64,
    /// so much wall time,
    pub wall_max_ns: u64,
    /// or so many stops.
    pub stops_max: usize,
    /// Long enough to tell the share.
    pub heavy: bool,
    /// Set by the first whose run time is used up, for all who got the same one: a vCPU that went on alone
    /// would find more than its share. One that has little, or that was too late to tell, goes on: if it
    /// finds little alone, it has no more beside others.
    pub over: Arc<AtomicBool>,
}

/// What became of an order.
#[derive(Debug)]
pub struct BurstReport {
    pub vcpu: u32,
    pub order: BurstOrder,
    /// The priority that was asked for, and whether it was granted.
    pub priority: Priority,
    pub granted: bool,
    /// From `begin_ns` to the first instruction, without the time waited for tasks of this VM.
    pub wakeup_ns: u64,
    pub trace: Trace,
    /// Whether the thread was on its vCPU all the time; if not, nothing holds.
    pub in_place: bool,
    /// Others had so much work for the vCPU that the burst was left out.
    pub crowded_out: bool,
}

/// Run a chunk of work of so many rounds.
fn chunk(rounds: u32) {
    let mut value = black_box(0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..rounds {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    black_box(value);
}

/// The rounds of a chunk on this machine: the same for all vCPUs, whose speeds are compared by it.
fn chunk_rounds() -> u32 {
    static ROUNDS: OnceLock<u32> = OnceLock::new();
    *ROUNDS.get_or_init(|| rounds_within(CHUNK_MAX_NS, fastest_ns(CHUNKS_TIMED, CHUNK_ROUNDS)))
}

/// How long the fastest of so many chunks takes.
fn fastest_ns(chunks: u32, rounds: u32) -> u64 {
    let timed = (0..chunks).map(|_| {
        let begin_ns = monotonic_ns();
        chunk(rounds);
        monotonic_ns().saturating_sub(begin_ns)
    });
    timed.min().unwrap_or(0)
}

/// How many rounds take `max_ns` at most, where `CHUNK_ROUNDS`, the most there are, take `all_ns`.
fn rounds_within(max_ns: u64, all_ns: u64) -> u32 {
    if all_ns <= max_ns {
        return CHUNK_ROUNDS;
    }
    let rounds = u64::from(CHUNK_ROUNDS).saturating_mul(max_ns) / all_ns;
    u32::try_from(rounds).unwrap_or(CHUNK_ROUNDS).max(1)
}

/// A thread that works on one vCPU. It ends when this is dropped.
pub struct Worker {
    orders: Sender<BurstOrder>,
    thread: JoinHandle<()>,
}

impl Worker {
    /// Start the thread for a vCPU.
    ///
    /// # Errors
    /// The kernel's, if it grants no thread.
    pub fn start(
        vcpu: u32,
        priority: Priority,
        reports: Sender<BurstReport>,
        stop: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let (orders, its_orders) = channel();
        let kind = match priority {
            Priority::BestEffort => "idle",
            Priority::Realtime => "busy",
        };
        let thread = thread::Builder::new()
            .name(format!("vaware-{kind}/{vcpu}"))
            .stack_size(STACK_BYTES)
            .spawn(move || work(vcpu, priority, &its_orders, &reports, &stop))?;
        Ok(Self { orders, thread })
    }

    /// Give an order. Return whether the thread can take it.
    pub fn send(&self, order: BurstOrder) -> bool {
        self.orders.send(order).is_ok()
    }

    /// Whether the thread has not ended.
    pub fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }
}

fn work(
    vcpu: u32,
    priority: Priority,
    orders: &Receiver<BurstOrder>,
    reports: &Sender<BurstReport>,
    stop: &AtomicBool,
) {
    let granted = set_priority(priority).is_ok();
    let guest_wait = GuestWait::of_this_thread();
    while let Ok(order) = orders.recv() {
        let mut report = BurstReport {
            vcpu,
            order,
            priority,
            granted,
            wakeup_ns: 0,
            trace: Trace::default(),
            in_place: false,
            crowded_out: false,
        };
        // Each time, as a vCPU that went offline and came back does not get its threads back.
        if pin(vcpu).is_ok() {
            burst(&mut report, &guest_wait, stop);
        }
        if stop.load(Ordering::Relaxed) || reports.send(report).is_err() {
            break;
        }
    }
}

fn burst(report: &mut BurstReport, guest_wait: &GuestWait, stop: &AtomicBool) {
    let order = &report.order;
    let rounds = chunk_rounds();
    chunk(rounds); // warm up before the begin, not after
    let waited_before_ns = guest_wait.total_ns();
    sleep_until(order.begin_ns);
    let mut end_ns = monotonic_ns();
    let mut waited_ns = guest_wait.total_ns();
    let late_ns = end_ns.saturating_sub(order.begin_ns);
    let displaced_ns = waited_ns.saturating_sub(waited_before_ns);
    report.wakeup_ns = late_ns.saturating_sub(displaced_ns);
    report.in_place = true;
    if report.priority == Priority::BestEffort && displaced_ns >= order.wall_max_ns {
        // Others have work for this vCPU and tell what it is like; the scheduler let this one in to
        // keep its bound on waits.
        report.crowded_out = true;
        return;
    }
    let trace = &mut report.trace;
    let mut unchecked = 0;
    while report.in_place
        && trace.run_ns() < order.run_max_ns
        && trace.wall_ns() < order.wall_max_ns
        && trace.nr_stops() < order.stops_max
        && !stop.load(Ordering::Relaxed)
    {
        if order.over.load(Ordering::Relaxed) {
            if !trace.is_worth_more() {
                break;
            }
            trace.others_rest();
        }
        chunk(rounds);
        let now_ns = monotonic_ns();
        let wall_ns = now_ns.saturating_sub(end_ns);
        end_ns = now_ns;
        unchecked += 1;
        let mut guest_wait_ns = 0;
        if wall_ns >= STOP_MIN_NS || unchecked == CHUNKS_PER_CHECK {
            let before_ns = std::mem::replace(&mut waited_ns, guest_wait.total_ns());
            guest_wait_ns = waited_ns.saturating_sub(before_ns);
            report.in_place = current_vcpu() == Some(report.vcpu);
            unchecked = 0;
        }
        trace.add(wall_ns, guest_wait_ns);
    }
    if trace.run_ns() >= order.run_max_ns {
        order.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Or each chunk would pass for a stop, and the vCPU for one that never runs.
        #[test]
        fn a_chunk_is_far_shorter_than_a_stop(all_ns in 0..1u64 << 40) {
            let rounds = rounds_within(CHUNK_MAX_NS, all_ns);
            prop_assert!((1..=CHUNK_ROUNDS).contains(&rounds));
            let takes_ns = all_ns * u64::from(rounds) / u64::from(CHUNK_ROUNDS);
            prop_assert!(takes_ns <= CHUNK_MAX_NS || rounds == 1);
            prop_assert!(rounds == CHUNK_ROUNDS || all_ns > CHUNK_MAX_NS);
        }
    }

    #[test]
    fn a_chunk_on_this_machine_is_no_stop() {
        assert!(fastest_ns(1000, chunk_rounds()) < STOP_MIN_NS);
    }
}
