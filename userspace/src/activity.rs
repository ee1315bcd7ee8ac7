// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel half has found out of each vCPU's activity, as plain values.

use std::mem::size_of;
use std::time::Duration;

use anyhow::Context;
use libbpf_rs::{MapCore, MapFlags};
use serde::Serialize;

use crate::intf;

/// Room for stops between two readings of the log, in bytes: 6000 of them.
pub const LOG_BYTES: u32 = 256 * 1024;

/// How activity is found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityOptions {
    /// Not at all: stolen time is then charged to tasks. To measure what it costs.
    pub off: bool,
    /// Keep a log of stops for [`crate::scheduler::Scheduler::take_gaps`].
    pub log: bool,
    /// Go by KVM's steal clock though none is announced. For tests that imitate one.
    pub trust_steal_clock: bool,
}

/// What a vCPU does, as far as others can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has nothing to run.
    Idle,
    /// It runs.
    Active,
    /// It has something to run, and has given no sign of life for too long.
    Stopped,
}

/// Lengths of periods: how many weigh how much, newer ones more.
#[derive(Clone, Copy, Debug)]
pub struct Spans([u32; intf::VAWARE_SPAN_BUCKETS as usize]);

/// The activity of one vCPU. Times and counts are sums since load, averages are moving ones.
#[derive(Clone, Debug)]
pub struct Activity {
    pub state: State,
    /// How long it has been in that state; for a stopped one, since its last sign of life.
    pub for_time: Duration,
    /// Taken by the hypervisor, from the best source there is.
    pub stolen: Duration,
    /// The same by late beats and late wake-ups alone, and by the kernel's steal clock alone (zero
    /// where there is none). The two are to compare.
    pub stolen_by_beats: Duration,
    pub stolen_by_clock: Duration,
    /// That part of `stolen` that was taken while it woke from idle.
    pub stolen_waking: Duration,
    pub idle: Duration,
    /// How often it was stopped while it had something to run.
    pub preemptions: u64,
    pub inactive_average: Duration,
    pub active_average: Duration,
    pub wake_average: Duration,
    /// Beats that a timer added: what vact costs beyond the scheduler's own events.
    pub timer_beats: u64,
    /// Beats held up by softirqs, not by the hypervisor.
    pub late_beats: u64,
    /// Active periods that ended with a stop, and those that ended because it became idle.
    pub active_stopped: Spans,
    pub active_idled: Spans,
    /// How long it was stopped.
    pub inactive: Spans,
    /// From the wake-up of the halted vCPU until it ran.
    pub wake: Spans,
}

impl Spans {
    /// The length in ns from which `bucket` holds periods (`bpf/intf.h`); there are 36, and the last
    /// has no end.
    pub fn start_ns(bucket: usize) -> u64 {
        match bucket {
            0 => 0,
            _ => {
                let octave = 1 << (15 + (bucket - 1) / 2);
                octave + octave / 2 * ((bucket as u64 - 1) & 1)
            }
        }
    }

    /// The periods by bucket, as a number that fades with a half-life of 8 s.
    pub fn counts(&self) -> impl Iterator<Item = f64> + '_ {
        self.0.iter().map(|weight| f64::from(*weight) / f64::from(intf::VAWARE_SPAN_UNIT))
    }

    /// The length below which `share` (0 to 1) of the periods lie, to within a bucket; `None` if
    /// there are none.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let total: f64 = self.counts().sum();
        let mut below = 0.0;
        self.counts()
            .position(|count| {
                below += count;
                count > 0.0 && below >= total * share
            })
            .map(|bucket| Duration::from_nanos(Self::start_ns(bucket + 1)))
    }
}

impl Activity {
    /// What `raw` says at `now_ns` of the scheduler's clock.
    fn new(raw: &intf::vaware_activity, now_ns: u64) -> Self {
        let spans = |kind: u32| Spans(raw.spans[kind as usize].weights);
        let idle = raw.state == intf::vaware_state_VAWARE_STATE_IDLE;
        let stopped = !idle && raw.due_ns != 0 && now_ns > raw.due_ns;
        let (state, since_ns) = match (idle, stopped) {
            (true, _) => (State::Idle, raw.since_ns),
            (_, true) => (State::Stopped, raw.beat_ns),
            _ => (State::Active, raw.since_ns),
        };
        Self {
            state,
            for_time: Duration::from_nanos(now_ns.saturating_sub(since_ns)),
            stolen: Duration::from_nanos(raw.stolen_ns),
            stolen_by_beats: Duration::from_nanos(raw.beats_stolen_ns),
            stolen_by_clock: Duration::from_nanos(raw.clock_stolen_ns),
            stolen_waking: Duration::from_nanos(raw.wake_stolen_ns),
            idle: Duration::from_nanos(raw.idle_ns),
            preemptions: u64::from(raw.preemptions),
            inactive_average: Duration::from_nanos(raw.inactive_avg_ns),
            active_average: Duration::from_nanos(raw.active_avg_ns),
            wake_average: Duration::from_nanos(raw.wake_avg_ns),
            timer_beats: raw.timer_beats,
            late_beats: raw.late_beats,
            active_stopped: spans(intf::vaware_span_VAWARE_SPAN_STOPPED),
            active_idled: spans(intf::vaware_span_VAWARE_SPAN_IDLED),
            inactive: spans(intf::vaware_span_VAWARE_SPAN_INACTIVE),
            wake: spans(intf::vaware_span_VAWARE_SPAN_WAKE),
        }
    }
}

/// One stop of a vCPU, in ns of the guest's `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    pub vcpu: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    /// How it was found: `beats`, `kvm`, or `wake`.
    pub source: &'static str,
}

impl Gap {
    /// The stop that a record of the log tells of; `None` if it is too short to be one.
    pub(crate) fn from_record(record: &[u8]) -> Option<Self> {
        if record.len() < size_of::<intf::vaware_gap>() {
            return None;
        }
        // SAFETY: the kernel half wrote this very struct, and the length was checked.
        let raw = unsafe { std::ptr::read_unaligned(record.as_ptr().cast::<intf::vaware_gap>()) };
        let source = match raw.source {
            intf::vaware_steal_source_VAWARE_STEAL_KVM => "kvm",
            intf::vaware_steal_source_VAWARE_STEAL_WAKE => "wake",
            _ => "beats",
        };
        Some(Self { vcpu: raw.vcpu, start_ns: raw.start_ns, end_ns: raw.end_ns, source })
    }
}

/// What `source` is, for people.
pub(crate) fn source_name(source: u32) -> &'static str {
    match source {
        intf::vaware_steal_source_VAWARE_STEAL_KVM => "KVM steal clock, checked by late beats",
        _ => "late beats: no steal clock is announced",
    }
}

/// Read the activity of vCPUs 0 to `nr_vcpus` from `map`, as it is at `now_ns`.
pub(crate) fn read(
    map: &impl MapCore,
    nr_vcpus: u32,
    now_ns: u64,
) -> anyhow::Result<Vec<Activity>> {
    let vcpus = (0..nr_vcpus).map(|vcpu| {
        let bytes = map
            .lookup(&vcpu.to_ne_bytes(), MapFlags::ANY)?
            .filter(|bytes| bytes.len() >= size_of::<intf::vaware_activity>())
            .with_context(|| format!("vCPU {vcpu} has no activity"))?;
        // SAFETY: the kernel half wrote this very struct, and the length was checked.
        let raw =
            unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<intf::vaware_activity>()) };
        Ok(Activity::new(&raw, now_ns))
    });
    vcpus.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A vCPU that was active since 100 ms, beat at 200 ms, and has to beat again at 201 ms.
    fn active() -> intf::vaware_activity {
        // SAFETY: a struct of integers, for which zero is a value.
        let mut raw: intf::vaware_activity = unsafe { std::mem::zeroed() };
        raw.state = intf::vaware_state_VAWARE_STATE_ACTIVE;
        raw.since_ns = 100_000_000;
        raw.beat_ns = 200_000_000;
        raw.due_ns = 201_000_000;
        raw
    }

    #[test]
    fn a_vcpu_is_stopped_once_a_beat_is_long_overdue() {
        let at = |now_ns| Activity::new(&active(), now_ns);
        assert_eq!(at(200_500_000).state, State::Active);
        assert_eq!(at(200_500_000).for_time, Duration::from_micros(100_500));
        assert_eq!(at(230_000_000).state, State::Stopped);
        assert_eq!(at(230_000_000).for_time, Duration::from_millis(30));
    }

    #[test]
    fn an_idle_vcpu_owes_no_sign_of_life() {
        let mut raw = active();
        raw.state = intf::vaware_state_VAWARE_STATE_IDLE;
        assert_eq!(Activity::new(&raw, 900_000_000_000).state, State::Idle);
    }

    #[test]
    fn quantiles_are_bucket_bounds() {
        let mut spans = Spans([0; 36]);
        assert_eq!(spans.quantile(0.5), None);
        spans.0[1] = 90 * intf::VAWARE_SPAN_UNIT;
        spans.0[20] = 10 * intf::VAWARE_SPAN_UNIT;
        assert_eq!(spans.quantile(0.5), Some(Duration::from_nanos(49_152)));
        assert_eq!(spans.quantile(0.95), Some(Duration::from_nanos(Spans::start_ns(21))));
    }

    #[test]
    fn a_record_cut_short_is_no_stop() {
        assert_eq!(Gap::from_record(&[0; 8]), None);
    }
}
