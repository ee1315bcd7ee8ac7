// SPDX-License-Identifier: GPL-2.0-only
//! The counters of the kernel half, per vCPU and summed, and what follows from them.

use std::mem::size_of;

use anyhow::Context;
use libbpf_rs::MapCore;

use crate::kernel_map;

pub use intf::vaware_stats as VcpuStats;

/// The counters of all vCPUs at one time, by vCPU number.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub vcpus: Vec<VcpuStats>,
}

/// Read the counters of vCPUs 0 to `nr_vcpus` from the kernel half's map of them.
pub(crate) fn read(map: &impl MapCore, nr_vcpus: u32) -> anyhow::Result<Stats> {
    let vcpus = (0..nr_vcpus).map(|vcpu| {
        kernel_map::read(map, vcpu)?.with_context(|| format!("vCPU {vcpu} has no counters"))
    });
    Ok(Stats { vcpus: vcpus.collect::<anyhow::Result<_>>()? })
}

/// Apply `op` to each integer of `total` and its counterpart in `other`.
fn zip_words(total: &mut VcpuStats, other: &VcpuStats, op: impl Fn(u64, u64) -> u64) {
    const WORDS: usize = size_of::<VcpuStats>() / size_of::<u64>();
    // SAFETY: the struct consists of u64 alone, as its size shows.
    let (total, other) = unsafe {
        (
            &mut *std::ptr::from_mut(total).cast::<[u64; WORDS]>(),
            &*std::ptr::from_ref(other).cast::<[u64; WORDS]>(),
        )
    };
    for (total, other) in total.iter_mut().zip(other) {
        *total = op(*total, *other);
    }
}

impl Stats {
    /// What has happened since `before`. Maxima stay those since load.
    pub fn since(&self, before: &Self) -> Self {
        let vcpus = self.vcpus.iter().zip(&before.vcpus).map(|(now, then)| {
            let mut delta = *now;
            zip_words(&mut delta, then, u64::wrapping_sub);
            delta.wait_max_ns = now.wait_max_ns;
            delta.lock_wait_max_ns = now.lock_wait_max_ns;
            delta
        });
        Self { vcpus: vcpus.collect() }
    }

    /// All vCPUs together; maxima are the largest.
    pub fn total(&self) -> VcpuStats {
        let mut total = VcpuStats::default();
        let mut wait_max_ns = total.wait_max_ns;
        let mut lock_wait_max_ns = 0;
        for vcpu in &self.vcpus {
            zip_words(&mut total, vcpu, u64::wrapping_add);
            for (max, ns) in wait_max_ns.iter_mut().zip(vcpu.wait_max_ns) {
                *max = (*max).max(ns);
            }
            lock_wait_max_ns = lock_wait_max_ns.max(vcpu.lock_wait_max_ns);
        }
        total.wait_max_ns = wait_max_ns;
        total.lock_wait_max_ns = lock_wait_max_ns;
        total
    }
}

/// Return the upper bound in us of the bucket in which the `quantile` (0 to 1) of the waits lies, or
/// `None` if there were none.
pub fn wait_quantile_us(histogram: &[u64], quantile: f64) -> Option<u64> {
    let total: u64 = histogram.iter().sum();
    let rank = ((total as f64 * quantile).ceil() as u64).max(1);
    let mut seen = 0;
    histogram
        .iter()
        .position(|count| {
            seen += count;
            seen >= rank
        })
        .filter(|_| total > 0)
        .map(|bucket| 1 << bucket)
}

/// The wait histogram of one vCPU or of all, over all classes.
pub fn waits_of_all_classes(stats: &VcpuStats) -> [u64; intf::VAWARE_WAIT_BUCKETS as usize] {
    let mut sum = [0; intf::VAWARE_WAIT_BUCKETS as usize];
    for class in &stats.wait_hist {
        for (sum, count) in sum.iter_mut().zip(class) {
            *sum += count;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_maxima_are_taken_over_vcpus() {
        let mut stats = Stats { vcpus: vec![VcpuStats::default(); 2] };
        stats.vcpus[0].counters[3] = 5;
        stats.vcpus[1].counters[3] = 7;
        stats.vcpus[0].wait_max_ns[1] = 90;
        stats.vcpus[1].wait_max_ns[1] = 40;
        let total = stats.total();
        assert_eq!(total.counters[3], 12);
        assert_eq!(total.wait_max_ns[1], 90);
    }

    #[test]
    fn deltas_keep_maxima() {
        let mut before = Stats { vcpus: vec![VcpuStats::default()] };
        before.vcpus[0].switches = 10;
        before.vcpus[0].lock_wait_max_ns = 80;
        let mut now = before.clone();
        now.vcpus[0].switches = 25;
        let delta = now.since(&before);
        assert_eq!(delta.vcpus[0].switches, 15);
        assert_eq!(delta.vcpus[0].lock_wait_max_ns, 80);
    }

    #[test]
    fn quantiles_are_bucket_bounds() {
        let mut histogram = [0; 26];
        assert_eq!(wait_quantile_us(&histogram, 0.5), None);
        histogram[0] = 90;
        histogram[10] = 10;
        assert_eq!(wait_quantile_us(&histogram, 0.5), Some(1));
        assert_eq!(wait_quantile_us(&histogram, 0.9), Some(1));
        assert_eq!(wait_quantile_us(&histogram, 0.91), Some(1024));
        assert_eq!(wait_quantile_us(&histogram, 1.0), Some(1024));
    }
}
