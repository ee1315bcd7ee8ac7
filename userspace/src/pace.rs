// SPDX-License-Identifier: GPL-2.0-only
//! How work blocks, by what the kernel half counts from round to round.

use std::time::{Duration, Instant};

use hints::VcpuHints;
use hints::pace::Pace;

use crate::activity::Activity;
use crate::stats::Stats;

/// The counters at one time.
struct Counted {
    at: Instant,
    stats: Stats,
    activity: Vec<Activity>,
}

/// Takes the pace of a VM, round by round.
#[derive(Default)]
pub struct PaceTaker {
    before: Option<Counted>,
}

impl PaceTaker {
    /// How work has blocked since the last call, while `told` was told. The first one has nothing to
    /// say.
    pub fn take(&mut self, stats: Stats, activity: Vec<Activity>, told: &[VcpuHints]) -> Pace {
        let now = Counted { at: Instant::now(), stats, activity };
        let Some(before) = self.before.replace(now) else { return Pace::default() };
        let Some(now) = &self.before else { return Pace::default() };
        let elapsed = now.at - before.at;
        pace(&now.stats.since(&before.stats), &before.activity, &now.activity, told, elapsed)
    }
}

fn mean(sum: f64, number: f64) -> f64 {
    if number > 0.0 { sum / number } else { 0.0 }
}

/// The pace, where `delta` was counted in `elapsed`, and the activity changed from `before` to `after`.
fn pace(
    delta: &Stats,
    before: &[Activity],
    after: &[Activity],
    told: &[VcpuHints],
    elapsed: Duration,
) -> Pace {
    let total = delta.total();
    let wakes = total.wakes.iter().sum::<u64>() as f64;
    let half = (told.len() as u64 / 2).max(2);
    let together: u64 = total.wakes_together.iter().sum();
    let large = total.wakes_together.iter().enumerate().filter(|(bucket, _)| 1 << bucket >= half);
    let open = told.iter().filter(|vcpu| !vcpu.parked && !vcpu.banned());
    let (mut idle_ns, mut computing_ns, mut periods) = (0.0, 0.0, 0.0);
    for vcpu in open.map(|vcpu| vcpu.vcpu as usize) {
        let (Some(before), Some(after)) = (before.get(vcpu), after.get(vcpu)) else { continue };
        let idle = after.idle.saturating_sub(before.idle).min(elapsed);
        idle_ns += idle.as_nanos() as f64;
        computing_ns += (elapsed - idle).as_nanos() as f64;
        periods += after.idle_periods.saturating_sub(before.idle_periods).max(1) as f64;
    }
    let waking = |of: &[Activity]| of.iter().map(|vcpu| vcpu.stolen_waking).sum::<Duration>();
    let stolen_ns =
        total.stolen_ns as f64 + waking(after).saturating_sub(waking(before)).as_nanos() as f64;
    let run_ns = total.run_ns.iter().sum::<u64>() as f64;
    let steal_ratio = mean(stolen_ns, run_ns + stolen_ns);
    let ran = |class: u32| total.run_ns[class as usize] as f64;
    let cpu_bound_ns = ran(intf::VAWARE_CLASS_THROUGHPUT) + ran(intf::VAWARE_CLASS_BEST_EFFORT);
    let decided = |kind: u32| total.counters[kind as usize] as f64;
    let (kept, spilled) = (decided(intf::VAWARE_GATHER_KEPT), decided(intf::VAWARE_GATHER_SPILLED));
    Pace {
        wakes_per_s: mean(wakes, elapsed.as_secs_f64()),
        latency_wakes_per_s: mean(total.latency_waits as f64, elapsed.as_secs_f64()),
        wait_ns: mean(total.wake_wait_ns.iter().sum::<u64>() as f64, wakes),
        burst_ns: mean(total.slept_burst_ns as f64, total.sleeps as f64),
        computing_ns: mean(computing_ns, periods),
        idle_ns: mean(idle_ns, periods),
        together_ratio: mean(large.map(|(_, wakes)| *wakes).sum::<u64>() as f64, together as f64),
        spilled_ratio: mean(spilled, kept + spilled),
        steal_ratio,
        cpu_bound_vcpus: mean(cpu_bound_ns, elapsed.as_nanos() as f64 * (1.0 - steal_ratio)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::VcpuStats;
    use hints::{VcpuFacts, plan};

    const MS: u64 = 1_000_000;

    #[test]
    fn means_are_over_what_happened_on_open_vcpus() {
        let mut vcpu = VcpuStats {
            wakes: [10, 20, 10],
            wake_wait_ns: [0, 3 * MS, MS],
            wakes_together: [30, 10, 0, 0, 0, 0, 0, 0],
            sleeps: 100,
            slept_burst_ns: 2 * MS,
            stolen_ns: 20 * MS,
            run_ns: [14 * MS, 35 * MS, 21 * MS, 0],
            latency_waits: 30,
            ..VcpuStats::default()
        };
        vcpu.counters[intf::VAWARE_GATHER_KEPT as usize] = 30;
        vcpu.counters[intf::VAWARE_GATHER_SPILLED as usize] = 10;
        let delta = Stats { vcpus: vec![vcpu] };
        let active = |idle_ms, idle_periods| Activity {
            idle: Duration::from_millis(idle_ms),
            idle_periods,
            ..Activity::default()
        };
        let before = vec![active(0, 0); 4];
        let mut after = vec![active(60, 10); 4];
        after[3] = active(100, 1); // parked
        after[0].stolen_waking = Duration::from_millis(10);
        let facts: Vec<_> = (0..4).map(VcpuFacts::unknown).collect();
        let told = plan(&facts, &[], 3);
        let found = pace(&delta, &before, &after, &told, Duration::from_millis(100));
        let expected = Pace {
            wakes_per_s: 400.0,
            latency_wakes_per_s: 300.0,
            wait_ns: 1e5,
            burst_ns: 2e4,
            computing_ns: 4e6,
            idle_ns: 6e6,
            together_ratio: 0.25,
            spilled_ratio: 0.25,
            steal_ratio: 0.3,
            cpu_bound_vcpus: 0.8,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn what_did_not_happen_has_no_mean() {
        let told = plan(&[VcpuFacts::unknown(0)], &[], 1);
        let stats = Stats { vcpus: vec![VcpuStats::default()] };
        let mut taker = PaceTaker::default();
        for _ in 0..2 {
            let pace = taker.take(stats.clone(), vec![Activity::default()], &told);
            assert_eq!((pace.wakes_per_s, pace.wait_ns, pace.steal_ratio), (0.0, 0.0, 0.0));
        }
    }
}
