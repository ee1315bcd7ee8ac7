// SPDX-License-Identifier: GPL-2.0-only
//! What things cost in virtual time. Every figure has its source.

use crate::sim::Ns;

/// Costs in ns of a vCPU's own time unless said otherwise.
///
/// Gleaner's Table 2 (Ding et al., ATC'14) gives the time to wake a thread in a VM: A 6 us on the
/// same vCPU; B 17 us on another that polls (adds an IPI); C 37 us on one that has halted (adds a
/// vCPU to wake); D over 96 us where its pCPU is in use (adds a vCPU to preempt, and cold caches).
/// The defaults add up to these four.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Enter and leave the kernel, and find out who waits: part of A.
    pub syscall_ns: Ns,
    /// The kernel's own part of a wake-up, without the scheduler's callbacks: part of A.
    pub wake_ns: Ns,
    /// The kernel's own part of a pass through schedule(): part of A.
    pub schedule_ns: Ns,
    /// Switch to another task: part of A.
    pub switch_ns: Ns,
    /// Enter and leave an interrupt handler.
    pub interrupt_ns: Ns,
    /// Send an interrupt to another vCPU: exit to the hypervisor. Part of B - A.
    pub ipi_send_ns: Ns,
    /// Until it arrives at a vCPU that runs (not the vCPU's own time). The rest of B - A.
    pub ipi_delay_ns: Ns,
    /// From the interrupt until a halted vCPU runs on an idle pCPU (not its own time). C - B.
    pub halt_wake_ns: Ns,
    /// The host's switch from one thread to another; the pCPU's time. Part of D - C; vSched 2.3.
    pub host_switch_ns: Ns,
    /// Refill of a vCPU's caches after another thread used the pCPU. The rest of D - C.
    pub host_refill_ns: Ns,
    /// Refill of a task's working set after it moved to another core. IRS 5.5 and vSched 5.4 report
    /// some us for small tasks.
    pub migrate_ns: Ns,
    /// A kernel function called from BPF, without a lock: BTF call and a few loads.
    pub kfunc_ns: Ns,
    /// A queue operation under its lock: an rbtree insertion or removal.
    pub queue_ns: Ns,
    /// A map or storage look-up from BPF.
    pub lookup_ns: Ns,
    /// One callback: trampoline and context. Measured in the kernel as 20 to 50 ns.
    pub callback_ns: Ns,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            syscall_ns: 500,
            wake_ns: 1_500,
            schedule_ns: 1_000,
            switch_ns: 1_500,
            interrupt_ns: 800,
            ipi_send_ns: 2_000,
            ipi_delay_ns: 8_000,
            halt_wake_ns: 20_000,
            host_switch_ns: 3_000,
            host_refill_ns: 50_000,
            migrate_ns: 3_000,
            kfunc_ns: 30,
            queue_ns: 100,
            lookup_ns: 8,
            callback_ns: 40,
        }
    }
}
