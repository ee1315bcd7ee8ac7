// SPDX-License-Identifier: GPL-2.0-only
//! What is known of one vCPU, and what its entry in the snapshot says.

use std::time::Duration;

use super::Settings;
use super::estimate::{Average, Observation, ShareEstimator};
use super::habit::Habit;
use super::passive::Times;
use super::spans::Spans;
use super::worker::BurstReport;
use crate::budget::Budget;
use crate::snapshot::{Estimate, Vcpu, Verdict};
use crate::thread::Priority;

/// Confidence in a share halves in this time without a new look; a speed and lengths hold longer.
const SHARE_VALIDITY: Duration = Duration::from_secs(30);
const SLOW_VALIDITY: Duration = Duration::from_secs(300);
/// A vCPU is busy from this part of the time on, until it falls below the other.
const BUSY_ENTER_RATIO: f64 = 0.8;
const BUSY_LEAVE_RATIO: f64 = 0.6;
/// A light look that was disturbed for longer found the vCPU stopped: as long as hosts let run at least.
const NOTICEABLE_STOP_NS: u64 = 1_000_000;

/// Why a heavy look at a vCPU is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is time for one.
    Scheduled,
    /// What was seen does not fit what is thought.
    Surprise,
}

/// What is known of one vCPU.
pub struct State {
    pub online: bool,
    pub busy: bool,
    /// Part of the wall time in which it had nothing to do.
    idle_ratio: f64,
    share: ShareEstimator,
    /// Of light looks, while it is idle and while it is busy: they are of different priority and length.
    habits: [Habit; 2],
    chunk: Average,
    wakeup: Spans,
    active: Spans,
    inactive: Spans,
    pub budget: Budget,
    /// Open until a heavy look was ordered.
    pub wanted: Option<Wanted>,
    last_times: Option<(u64, Times)>,
    /// Wall time of bursts since the times were last read.
    burst_wall_ns: u64,
    pub verdict: Verdict,
    pub note: Option<String>,
}

impl State {
    pub fn new(settings: &Settings, now_ns: u64) -> Self {
        Self {
            online: false,
            busy: false,
            idle_ratio: 1.0,
            share: ShareEstimator::new(settings.half_life, SHARE_VALIDITY),
            habits: Default::default(),
            chunk: Average::new(4 * settings.half_life, SLOW_VALIDITY),
            wakeup: Spans::default(),
            active: Spans::default(),
            inactive: Spans::default(),
            budget: Budget::new(settings.budget_ratio, now_ns),
            wanted: None,
            last_times: None,
            burst_wall_ns: 0,
            verdict: Verdict::Unknown,
            note: None,
        }
    }

    /// It went offline: what is known of it may not hold when it comes back.
    pub fn forget(&mut self, settings: &Settings, now_ns: u64) {
        let budget = self.budget.clone();
        *self = Self { budget, ..Self::new(settings, now_ns) };
    }

    /// The share, for comparison.
    pub fn share(&self, now_ns: u64) -> Option<Estimate> {
        self.share.estimate(now_ns)
    }

    /// Take the kernel's or a scheduler's times into account. Returns what happened since the last ones.
    pub fn see_times(&mut self, now_ns: u64, times: Times) -> Option<(u64, Times)> {
        if self.last_times.is_some_and(|(_, before)| before == times) {
            return None; // a source that has not been told anything new
        }
        let (then_ns, before) = self.last_times.replace((now_ns, times))?;
        let wall_ns = now_ns.saturating_sub(then_ns);
        let since = times.since(before);
        let burst_ns = std::mem::take(&mut self.burst_wall_ns).min(wall_ns);
        self.idle_ratio = (since.idle_ns as f64 / wall_ns.max(1) as f64).min(1.0);
        let busy_ratio = 1.0 - (since.idle_ns + burst_ns) as f64 / wall_ns.max(1) as f64;
        let bound = if self.busy { BUSY_LEAVE_RATIO } else { BUSY_ENTER_RATIO };
        self.busy = busy_ratio >= bound;
        Some((wall_ns, since))
    }

    /// Take an observation of the share into account. Returns whether it was a change.
    pub fn see_share(&mut self, now_ns: u64, seen: Observation) -> bool {
        let changed = self.share.add(now_ns, seen);
        if changed {
            self.active.clear();
            self.inactive.clear();
            self.habits = Default::default();
        }
        changed
    }

    /// Whether a light look found something else than others before it. One that did not confirms what is
    /// thought of the share.
    pub fn is_surprised_by(&mut self, now_ns: u64, report: &BurstReport) -> bool {
        let is_realtime = report.priority == Priority::Realtime;
        // One that comes late to a busy vCPU waited for a stop to end; an idle one may have to wake up.
        let late_ns = if is_realtime { report.wakeup_ns } else { 0 };
        let stopped = report.trace.stopped_ns() + late_ns >= NOTICEABLE_STOP_NS;
        let surprised = self.habits[usize::from(is_realtime)].is_surprised_by(stopped);
        if !surprised {
            self.share.confirm(now_ns);
        }
        surprised || self.share(now_ns).is_none()
    }

    /// Take a burst into account; only a heavy one is long enough to tell the share. Returns whether it
    /// was a change.
    pub fn see_burst(&mut self, now_ns: u64, report: &BurstReport) -> bool {
        self.budget.spend(report.trace.run_ns());
        if report.priority == Priority::BestEffort {
            // It ran in idle time, and woke the vCPU from it.
            self.burst_wall_ns += report.trace.wall_ns();
            self.wakeup.add(now_ns, report.wakeup_ns, 1.0);
        }
        if let Some((chunk_ns, looks)) = report.trace.chunk_ns() {
            self.see_speed(now_ns, chunk_ns, looks as f64 / 100.0);
        }
        let usual_active_ns = self.active.quantile_ns(0.5);
        let seen = report.trace.observation(usual_active_ns);
        let changed = report.order.heavy && self.see_share(now_ns, seen);
        report.trace.inactive_ns().for_each(|ns| self.inactive.add(now_ns, ns, 1.0));
        report.trace.active_ns().for_each(|ns| self.active.add(now_ns, ns, 1.0));
        changed
    }

    /// Take the time of a chunk of work into account.
    pub fn see_speed(&mut self, now_ns: u64, chunk_ns: u64, looks: f64) {
        self.chunk.add(now_ns, chunk_ns as f64, looks);
    }

    /// Time of a chunk of work, if it is known well enough to compare others with it.
    pub fn chunk_ns(&self, now_ns: u64) -> Option<f64> {
        self.chunk.estimate(now_ns).and_then(|chunk| chunk.trusted())
    }

    /// How long its stops are at most, outliers apart.
    pub fn longest_stop_ns(&self) -> Option<u64> {
        self.inactive.quantile_ns(0.95)
    }

    /// The entry in the snapshot. `best_chunk_ns` is that of the fastest vCPU.
    pub fn entry(&self, id: u32, now_ns: u64, best_chunk_ns: Option<f64>) -> Vcpu {
        let entry = Vcpu {
            id,
            online: self.online,
            verdict: self.verdict,
            probe_ratio: self.budget.spent_ratio(now_ns),
            note: self.note.clone(),
            ..Vcpu::default()
        };
        if !self.online {
            return entry;
        }
        let share = self.share(now_ns);
        let speed = self.chunk.estimate(now_ns).zip(best_chunk_ns).map(|(chunk, best_ns)| {
            Estimate { value: (best_ns / chunk.value.max(1.0)).min(1.0), ..chunk }
        });
        let lengths = |spans: &Spans, quantile| spans.estimate(now_ns, quantile, SLOW_VALIDITY);
        Vcpu {
            capacity: share.map(|share| capacity(share, speed)),
            share_ratio: share,
            speed_ratio: speed,
            stolen_ratio: share.map(|share| Estimate {
                value: (1.0 - share.value) * (1.0 - self.idle_ratio),
                ..share
            }),
            wakeup_latency_ns: lengths(&self.wakeup, 0.5),
            active_p50_ns: lengths(&self.active, 0.5),
            active_p95_ns: lengths(&self.active, 0.95),
            inactive_p50_ns: lengths(&self.inactive, 0.5),
            inactive_p95_ns: lengths(&self.inactive, 0.95),
            ..entry
        }
    }
}

/// Share times speed; a speed that is not trusted counts as the best.
fn capacity(share: Estimate, speed: Option<Estimate>) -> Estimate {
    let speed_ratio = speed.and_then(|speed| speed.trusted()).unwrap_or(1.0);
    Estimate { value: share.value * speed_ratio * crate::snapshot::CAPACITY_SCALE, ..share }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn times(run_ns: u64, idle_ns: u64) -> Times {
        Times { run_ns, idle_ns, stolen_ns: 0 }
    }

    #[test]
    fn own_bursts_do_not_make_a_vcpu_busy() {
        let mut state = State::new(&Settings::default(), 0);
        state.see_times(0, times(0, 0));
        state.burst_wall_ns = 900_000_000;
        state.see_times(SECOND_NS, times(900_000_000, 100_000_000));
        assert!(!state.busy);
        state.see_times(2 * SECOND_NS, times(1_800_000_000, 200_000_000));
        assert!(state.busy);
    }

    #[test]
    fn busy_has_hysteresis() {
        let mut state = State::new(&Settings::default(), 0);
        let mut idle_ns = 0;
        state.see_times(0, times(0, 0));
        for (step, (idle_ms, busy)) in [(500, false), (100, true), (300, true), (500, false)]
            .iter()
            .zip(1..)
            .map(|(expected, step)| (step, *expected))
        {
            idle_ns += idle_ms * 1_000_000;
            state.see_times(step * SECOND_NS, times(0, idle_ns));
            assert_eq!(state.busy, busy, "{idle_ms} ms idle");
        }
    }

    #[test]
    fn capacity_is_share_times_speed() {
        let mut state = State::new(&Settings::default(), 0);
        state.online = true;
        state.see_share(0, Observation { wanted_ns: 1e9, stopped_ns: 5e8, looks: 200.0 });
        state.see_speed(0, 20_000, 10.0);
        let entry = state.entry(3, 0, Some(10_000.0));
        assert_eq!(entry.id, 3);
        assert_eq!(entry.speed_ratio.map(|speed| speed.value), Some(0.5));
        assert_eq!(entry.capacity.map(|capacity| capacity.value), Some(256.0));
    }

    #[test]
    fn an_offline_vcpu_has_no_values() {
        let mut state = State::new(&Settings::default(), 0);
        state.see_share(0, Observation { wanted_ns: 1e9, stopped_ns: 0.0, looks: 200.0 });
        assert_eq!(state.entry(0, 0, None).capacity, None);
    }
}
