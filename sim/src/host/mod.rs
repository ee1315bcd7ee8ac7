// SPDX-License-Identifier: GPL-2.0-only
//! The simulated host: pCPUs, with or without SMT, and the threads that run on them: vCPUs, and
//! whatever competes with them.

pub mod fair;
pub mod load;
pub mod placement;
pub mod vcpus;

use crate::guest::vcpu::VcpuId;
use crate::sim::{MS, Ns, Sim};

pub type PcpuId = usize;
/// Threads 0 to the number of vCPUs less 1 are the vCPUs.
pub type ThreadId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostEvent {
    /// The slice of what runs on `p` ends.
    Slice {
        p: PcpuId,
        r#gen: u64,
    },
    /// A thread that was woken is ready.
    Wake {
        thread: ThreadId,
    },
    /// A competitor begins or ends to run.
    Toggle {
        thread: ThreadId,
    },
    Balance,
}

/// A hardware thread.
#[derive(Clone, Debug)]
pub struct Pcpu {
    pub sibling: Option<PcpuId>,
    pub curr: Option<ThreadId>,
    pub queue: Vec<ThreadId>,
    pub min_vruntime: u64,
    pub r#gen: u64,
    pub slice_armed: bool,
    /// What ran last, whose data its caches hold.
    pub last: Option<ThreadId>,
}

/// What a thread that is no vCPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    Always,
    /// Runs for `on_ns`, sleeps for `off_ns`, in turns, the first time at `phase_ns`.
    Duty {
        on_ns: Ns,
        off_ns: Ns,
        phase_ns: Ns,
    },
    /// Likewise with exponentially distributed lengths of these means.
    Random {
        on_ns: Ns,
        off_ns: Ns,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    Vcpu(VcpuId),
    Competitor(Load),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    Sleeping,
    /// Woken; not on a runqueue yet.
    Waking,
    Ready(PcpuId),
    Running(PcpuId),
}

/// A thread of the host.
#[derive(Clone, Debug)]
pub struct Thread {
    pub kind: ThreadKind,
    pub allowed: Vec<PcpuId>,
    /// Runs before all threads that are not real-time, as under SCHED_FIFO.
    pub realtime: bool,
    pub state: ThreadState,
    pub last_pcpu: PcpuId,
    pub vruntime: u64,
    /// When its run time was last accounted.
    pub since: Ns,
    /// Since when it has wanted to run and does not.
    pub waits_since: Option<Ns>,
    pub run_ns: Ns,
    /// Time in which it wanted to run and did not (run_delay in schedstat).
    pub wait_ns: Ns,
    /// How often it was stopped while it wanted to run.
    pub stops: u64,
    /// A competitor is in its running phase.
    pub on: bool,
}

impl Thread {
    pub fn new(kind: ThreadKind, allowed: Vec<PcpuId>) -> Self {
        Self {
            kind,
            last_pcpu: allowed.first().copied().unwrap_or(0),
            allowed,
            realtime: false,
            state: ThreadState::Sleeping,
            vruntime: 0,
            since: 0,
            waits_since: None,
            run_ns: 0,
            wait_ns: 0,
            stops: 0,
            on: false,
        }
    }
}

/// How the host's fair scheduler is set.
#[derive(Clone, Copy, Debug)]
pub struct HostConfig {
    /// What a thread runs before another has a turn (base_slice_ns; vSched calls it
    /// the vCPU's active period).
    pub slice_ns: Ns,
    /// How far behind a waking thread must be to preempt.
    pub wakeup_granularity_ns: Ns,
    /// How much a sleeper may lag behind when it wakes.
    pub sleeper_bonus_ns: Ns,
    pub balance_ns: Ns,
    /// Out of this many balancings, one turns the odd thread round.
    pub rotate_every: u64,
    /// Speed of a hardware thread while its sibling is busy. Intel's SMT gives 1.2 to 1.3 times the
    /// throughput of one thread for two: 0.62 each.
    pub smt_1024: u64,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            slice_ns: 3 * MS,
            wakeup_granularity_ns: MS,
            sleeper_bonus_ns: 3 * MS / 2,
            balance_ns: 4 * MS,
            rotate_every: 8,
            smt_1024: 635,
        }
    }
}

/// The host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    pub config: HostConfig,
    pub pcpus: Vec<Pcpu>,
    pub threads: Vec<Thread>,
    balances: u64,
}

impl Host {
    /// A host of `cores` x `smt` (1 or 2) hardware threads, numbered with the siblings next to each
    /// other.
    pub fn new(config: HostConfig, cores: usize, smt: usize) -> Self {
        let pcpu = |id: PcpuId| Pcpu {
            sibling: (smt == 2).then_some(id ^ 1),
            curr: None,
            queue: Vec::new(),
            min_vruntime: 0,
            r#gen: 0,
            slice_armed: false,
            last: None,
        };
        Self { config, pcpus: (0..cores * smt).map(pcpu).collect(), ..Self::default() }
    }

    pub fn same_core(&self, a: PcpuId, b: PcpuId) -> bool {
        a == b || self.pcpus[a].sibling == Some(b)
    }

    /// Speed of `p` now, 1024 being nominal.
    pub fn speed_1024(&self, p: PcpuId) -> u64 {
        let shared = |sibling: PcpuId| self.pcpus[sibling].curr.is_some();
        if self.pcpus[p].sibling.is_some_and(shared) { self.config.smt_1024 } else { 1024 }
    }

    /// Time that the hypervisor took from a vCPU, up to when it last began to run.
    pub fn stolen_ns(&self, v: VcpuId) -> Ns {
        self.threads[v].wait_ns
    }

    /// Return true if `p` and its sibling are idle.
    fn whole_core_idle(&self, p: PcpuId) -> bool {
        let pcpu = &self.pcpus[p];
        pcpu.curr.is_none() && pcpu.sibling.is_none_or(|other| self.pcpus[other].curr.is_none())
    }
}

impl Sim {
    pub fn host_event(&mut self, event: HostEvent) {
        match event {
            HostEvent::Slice { p, r#gen } => self.slice_ends(p, r#gen),
            HostEvent::Wake { thread } => self.thread_ready(thread),
            HostEvent::Toggle { thread } => self.toggle(thread),
            HostEvent::Balance => self.host_balance(),
        }
    }

    /// Let the host begin: competitors, balancing.
    pub fn start_host(&mut self) {
        use crate::sim::Event;
        for thread in 0..self.host.threads.len() {
            match self.host.threads[thread].kind {
                ThreadKind::Vcpu(_) => {}
                ThreadKind::Competitor(load) => {
                    let at = match load {
                        Load::Duty { phase_ns, .. } => phase_ns,
                        Load::Always | Load::Random { .. } => 0,
                    };
                    self.at(at, Event::Host(HostEvent::Toggle { thread }));
                }
            }
        }
        self.after(self.host.config.balance_ns, Event::Host(HostEvent::Balance));
    }
}
