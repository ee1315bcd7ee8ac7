// SPDX-License-Identifier: GPL-2.0-only
//! The simulated guest kernel: tasks, runqueues, interrupts and timers. All tasks are in sched_ext, which
//! runs the scheduler's own source.

pub mod attrs;
pub mod core;
pub mod dsq;
pub mod irq;
pub mod scx;
pub mod scx_dispatch;
pub mod task;
pub mod timer;
pub mod vcpu;

use std::collections::BTreeMap;

use crate::bpf::shim::cpumask;
use crate::guest::dsq::Dsq;
use crate::guest::vcpu::VcpuId;
use crate::sim::{MS, Ns};

/// What the guest is.
#[derive(Clone, Debug)]
pub struct GuestConfig {
    pub nr_vcpus: usize,
    /// How many last-level caches they have, with as many vCPUs next to each other each.
    pub caches: usize,
    /// Bits of enum vaware_policy.
    pub policies: u64,
    /// 1 s / HZ. Debian's cloud kernels have HZ 250.
    pub tick_ns: Ns,
    /// The hypervisor announces KVM's steal clock.
    pub steal_clock: bool,
    /// It shows nothing: all that is stolen is taken by another hypervisor further below.
    pub steal_below: bool,
    pub wait_bound_ns: Ns,
    /// The kernel can leave it to idle vCPUs to activate what wakes on them
    /// (SCX_OPS_ALLOW_QUEUED_WAKEUP, not in 6.12).
    pub queued_wakeup: bool,
    /// The daemon has told before load that some vCPU is unlike the others.
    pub hints_flags: u32,
    /// The vCPU that it has told to keep free, and 1; 0: none.
    pub reserve_vcpu: u32,
    /// A process that it has told to confine to steady vCPUs; 0: none.
    pub confined: u32,
}

impl GuestConfig {
    /// Return true if two vCPUs share a last-level cache.
    pub fn shares_cache(&self, a: VcpuId, b: VcpuId) -> bool {
        a * self.caches / self.nr_vcpus == b * self.caches / self.nr_vcpus
    }

    pub fn new(nr_vcpus: usize, policies: u64) -> Self {
        Self {
            nr_vcpus,
            caches: 1,
            policies,
            tick_ns: 4 * MS,
            steal_clock: false,
            steal_below: false,
            wait_bound_ns: 1000 * MS,
            queued_wakeup: true,
            hints_flags: 0,
            reserve_vcpu: 0,
            confined: 0,
        }
    }
}

/// State of the guest that is no vCPU's and no task's.
pub struct Guest {
    pub config: GuestConfig,
    /// The kernel schedules itself: ops are not called.
    pub bypass: bool,
    pub dsqs: BTreeMap<u64, Dsq>,
    pub global: Dsq,
    pub insertions: u64,
    pub idle: Box<cpumask>,
    pub online: Box<cpumask>,
    pub possible: Box<cpumask>,
    /// Longest wait of a runnable task, for the watchdog (ops.timeout_ms).
    pub stall_ns: Ns,
}

impl Guest {
    pub fn new(config: GuestConfig) -> Self {
        let mut all = Box::<cpumask>::default();
        for v in 0..config.nr_vcpus {
            all.bits[v / 64] |= 1 << (v % 64);
        }
        Self {
            config,
            bypass: false,
            dsqs: BTreeMap::new(),
            global: Dsq::default(),
            insertions: 0,
            idle: all.clone(),
            online: all.clone(),
            possible: all,
            stall_ns: 30_000 * MS,
        }
    }

    pub fn jiffies(&self, now: Ns) -> u64 {
        // The kernel's counter starts 5 minutes before it wraps 32 bits.
        (u64::from(u32::MAX) - 300 * 1000 * MS / self.config.tick_ns + 1)
            + now / self.config.tick_ns
    }
}

pub fn mask_test(mask: &cpumask, v: usize) -> bool {
    mask.bits[v / 64] >> (v % 64) & 1 != 0
}

pub fn mask_set(mask: &mut cpumask, v: usize, on: bool) {
    if on {
        mask.bits[v / 64] |= 1 << (v % 64);
    } else {
        mask.bits[v / 64] &= !(1 << (v % 64));
    }
}

/// The first vCPU in both masks after `after`, going round; none if they have none in common.
pub fn mask_next_and(a: &cpumask, b: &cpumask, after: usize, nr: usize) -> Option<usize> {
    let words = nr.div_ceil(64);
    let start = (after + 1) % nr.max(1);
    for i in 0..=words {
        let word = (start / 64 + i) % words;
        let mut bits = a.bits[word] & b.bits[word];
        if i == 0 {
            bits &= u64::MAX << (start % 64);
        } else if i == words {
            bits &= !(u64::MAX << (start % 64));
        }
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
    }
    None
}
