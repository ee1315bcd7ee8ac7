// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel half has found out of each vCPU's activity, as plain values.

use std::mem::size_of;
use std::time::Duration;

use anyhow::Context;
use libbpf_rs::MapCore;
use serde::Serialize;

use crate::kernel_map;

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

/// The activity of one vCPU. Times and counts are sums since load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub idle: Duration,
    /// Taken by the hypervisor while it woke from idle.
    pub stolen_waking: Duration,
    /// All that was taken, by late beats and late wake-ups alone, and by the kernel's steal clock alone
    /// (zero where there is none). The two are to compare. Where KVM's clock is gone by, it tells the
    /// wake-ups in both.
    pub stolen_by_beats: Duration,
    pub stolen_by_clock: Duration,
    /// How often it was stopped while it had something to run.
    pub preemptions: u64,
    /// How often it had nothing more to run.
    pub idle_periods: u64,
    /// Median length of the active periods that a stop ended, newer ones counting more; `None` if there
    /// was none within the last minute.
    pub active_typical: Option<Duration>,
    /// The same of the stops.
    pub inactive_typical: Option<Duration>,
}

/// The length in ns from which `bucket` holds periods (`bpf/intf.h`).
fn span_start_ns(bucket: usize) -> u64 {
    match bucket {
        0 => 0,
        _ => {
            let octave = 1 << (15 + (bucket - 1) / 2);
            octave + octave / 2 * ((bucket as u64 - 1) & 1)
        }
    }
}

/// The median of the periods in `spans`, which are taken to be spread evenly within a bucket.
fn median(spans: &intf::vaware_spans) -> Option<Duration> {
    let half = spans.weights.iter().map(|weight| f64::from(*weight)).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (bucket, weight) in spans.weights.iter().enumerate().filter(|(_, weight)| **weight > 0) {
        let weight = f64::from(*weight);
        if below + weight >= half {
            let start_ns = span_start_ns(bucket) as f64;
            let end_ns = span_start_ns(bucket + 1) as f64;
            let ns = start_ns + (half - below) / weight * (end_ns - start_ns);
            return Some(Duration::from_nanos(ns as u64));
        }
        below += weight;
    }
    None
}

impl Activity {
    /// What `raw` says at `now_ns` of the scheduler's clock.
    fn new(raw: &intf::vaware_activity, now_ns: u64) -> Self {
        let is_idle = raw.state == intf::VAWARE_STATE_IDLE;
        let idle_now_ns = if is_idle { now_ns.saturating_sub(raw.since_ns) } else { 0 };
        let median_of = |kind: u32| median(&raw.spans[kind as usize]);
        Self {
            idle: Duration::from_nanos(raw.idle_ns.saturating_add(idle_now_ns)),
            stolen_waking: Duration::from_nanos(raw.wake_stolen_ns),
            stolen_by_beats: Duration::from_nanos(
                raw.beats_stolen_ns.saturating_add(raw.wake_stolen_ns),
            ),
            stolen_by_clock: Duration::from_nanos(raw.clock_stolen_ns),
            preemptions: u64::from(raw.preemptions),
            idle_periods: raw.idle_periods,
            active_typical: median_of(intf::VAWARE_SPAN_STOPPED),
            inactive_typical: median_of(intf::VAWARE_SPAN_INACTIVE),
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
    /// The stop that a record of the log tells of; `None` if it is none of ours.
    pub(crate) fn from_record(record: &[u8]) -> Option<Self> {
        if record.len() < size_of::<intf::vaware_inactive_period>() {
            return None;
        }
        // SAFETY: the kernel half wrote this very struct, and the length was checked.
        let raw = unsafe {
            std::ptr::read_unaligned(record.as_ptr().cast::<intf::vaware_inactive_period>())
        };
        let source = intf::STEAL_SOURCES.get(raw.source as usize)?;
        Some(Self { vcpu: raw.vcpu, start_ns: raw.start_ns, end_ns: raw.end_ns, source })
    }
}

/// Read the activity of vCPUs 0 to `nr_vcpus` from `map`, as it is at `now_ns`.
pub(crate) fn read(
    map: &impl MapCore,
    nr_vcpus: u32,
    now_ns: u64,
) -> anyhow::Result<Vec<Activity>> {
    let vcpus = (0..nr_vcpus).map(|vcpu| {
        let raw =
            kernel_map::read(map, vcpu)?.with_context(|| format!("vCPU {vcpu} has no activity"))?;
        Ok(Activity::new(&raw, now_ns))
    });
    vcpus.collect()
}

/// `newer` with no vCPU idle for less time than in `older`: one that wakes while it is read may end its idle
/// period a little before the instant of the reading, and counters must not go back.
pub(crate) fn not_before(mut newer: Vec<Activity>, older: &[Activity]) -> Vec<Activity> {
    for (newer, older) in newer.iter_mut().zip(older) {
        newer.idle = newer.idle.max(older.idle);
    }
    newer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn raw() -> intf::vaware_activity {
        intf::vaware_activity::default()
    }

    #[test]
    fn the_idle_period_that_lasts_counts_already() {
        let mut raw = raw();
        raw.idle_ns = 40 * MS;
        raw.since_ns = 100 * MS;
        let idle_at = |raw: &_, now_ms: u64| Activity::new(raw, now_ms * MS).idle.as_millis();
        raw.state = intf::VAWARE_STATE_IDLE;
        assert_eq!((idle_at(&raw, 105), idle_at(&raw, 90)), (45, 40));
        raw.state = intf::VAWARE_STATE_ACTIVE;
        assert_eq!(idle_at(&raw, 105), 40);
    }

    #[test]
    fn idle_time_does_not_go_back() {
        let idle = |ms| vec![Activity { idle: Duration::from_millis(ms), ..Activity::default() }];
        assert_eq!(not_before(idle(4), &idle(5)), idle(5));
        assert_eq!(not_before(idle(6), &idle(5)), idle(6));
        assert_eq!(not_before(idle(6), &[]), idle(6));
    }

    #[test]
    fn both_sources_count_wake_ups() {
        let mut raw = raw();
        (raw.beats_stolen_ns, raw.wake_stolen_ns, raw.clock_stolen_ns) = (5 * MS, 2 * MS, 7 * MS);
        let activity = Activity::new(&raw, 0);
        assert_eq!(activity.stolen_by_beats, activity.stolen_by_clock);
    }

    #[test]
    fn a_median_lies_in_the_bucket_that_halves_the_weights() {
        let mut raw = raw();
        let inactive = intf::VAWARE_SPAN_INACTIVE as usize;
        assert_eq!(Activity::new(&raw, 0).inactive_typical, None);
        raw.spans[inactive].weights[20] = 100;
        raw.spans[inactive].weights[35] = 99;
        let typical = Activity::new(&raw, 0).inactive_typical;
        let bucket = [20, 21].map(|bucket| Some(Duration::from_nanos(span_start_ns(bucket))));
        assert!(bucket[0] < typical && typical < bucket[1], "{typical:?} in {bucket:?}");
    }

    #[test]
    fn buckets_are_half_octaves_from_33_us_on() {
        let starts = [0, 1, 2, 3, 35].map(span_start_ns);
        assert_eq!(starts, [0, 1 << 15, 3 << 14, 1 << 16, 1 << 32]);
    }

    /// Words as a map may hold them: of any value, the extreme ones often.
    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), any::<u64>()]
    }

    proptest! {
        #[test]
        fn any_activity_has_sums_no_smaller_than_their_parts(
            words in [word(), word(), word(), word(), word()], state: u32, preemptions: u32,
            now_ns in word(), weights in proptest::collection::vec(any::<u32>(), 36),
        ) {
            let [since_ns, idle_ns, wake_stolen_ns, beats_stolen_ns, clock_stolen_ns] = words;
            let mut raw = intf::vaware_activity {
                since_ns, idle_ns, wake_stolen_ns, beats_stolen_ns, clock_stolen_ns, state,
                preemptions, ..raw()
            };
            raw.spans[intf::VAWARE_SPAN_INACTIVE as usize].weights.copy_from_slice(&weights);
            let activity = Activity::new(&raw, now_ns);
            prop_assert!(activity.idle.as_nanos() >= u128::from(idle_ns));
            prop_assert!(activity.stolen_by_beats >= activity.stolen_waking);
            prop_assert!(activity.inactive_typical.is_none_or(|typical| typical.as_secs() <= 8));
        }

        #[test]
        fn any_record_of_the_log_is_a_stop_or_none(record in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(Gap::from_record(&record).is_none() || record.len() >= 24);
        }
    }

    #[test]
    fn a_record_cut_short_is_no_stop() {
        assert_eq!(Gap::from_record(&[0; 8]), None);
    }
}
