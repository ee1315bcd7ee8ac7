// SPDX-License-Identifier: GPL-2.0-only
//! A task of the guest.

use super::vcpu::VcpuId;
use crate::bpf::shim::{cpumask, task_struct};
use crate::host::PcpuId;
use crate::sim::Ns;
use crate::work::Program;

pub type TaskId = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Runnable,
    Blocked,
    /// Left to its vCPU, which has not activated it yet.
    Waking,
    Dead,
}

/// Where a task waits, as sched_ext sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Nowhere,
    Local(VcpuId),
    Global,
    User(u64),
}

/// What sched_ext knows of a task that it has handed to ops.enqueue (SCX_OPSS_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpsState {
    None,
    Queueing,
    Queued,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Normal = 0,
    Idle = 5,
}

/// Counts of one task.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskCounts {
    /// Work done, at full speed.
    pub work_ns: Ns,
    pub wait_max_ns: Ns,
}

/// One task.
pub struct Task {
    pub raw: Box<task_struct>,
    pub name: String,
    pub program: Option<Box<dyn Program>>,
    pub state: State,
    pub on_rq: bool,
    pub cpu: VcpuId,
    /// User work that is left of its present step.
    pub left_ns: Ns,
    pub process: usize,
    /// Its present vCPU alone, while it has disabled migration.
    narrow: Box<cpumask>,
    pub last_pcpu: Option<PcpuId>,
    /// When it became runnable or was switched out, if it waits.
    pub waits_since: Option<Ns>,

    // sched_ext
    pub place: Place,
    /// Order of its insertion into the queue that it is in.
    pub insertion: u64,
    pub ddsp: Option<(u64, u64)>,
    pub ops_state: OpsState,
    /// The vCPU that is about to take it from a queue, with the queue's lock dropped.
    pub holding: Option<VcpuId>,
    pub enabled: bool,

    pub counts: TaskCounts,
}

/// How a task begins.
pub struct NewTask {
    pub name: String,
    pub process: usize,
    pub program: Box<dyn Program>,
    pub nice: i32,
    pub policy: Policy,
    pub kthread: bool,
    /// None: all vCPUs.
    pub allowed: Option<Vec<VcpuId>>,
}

impl NewTask {
    pub fn new(name: impl Into<String>, process: usize, program: impl Program + 'static) -> Self {
        Self {
            name: name.into(),
            process,
            program: Box::new(program),
            nice: 0,
            policy: Policy::Normal,
            kthread: false,
            allowed: None,
        }
    }
}

/// include/linux/sched/prio.h and kernel/sched/core.c: sched_prio_to_weight[].
const NICE_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// The kernel's load weight of a nice value; SCHED_IDLE has 3.
pub fn load_weight(nice: i32, policy: Policy) -> u32 {
    match policy {
        Policy::Idle => 3,
        Policy::Normal => NICE_TO_WEIGHT[(nice.clamp(-20, 19) + 20) as usize],
    }
}

/// sched_ext's scale: nice 0 is 100, at least 1 (sched_weight_to_cgroup).
pub fn scx_weight(load: u32) -> u32 {
    ((load * 100 + 512) / 1024).clamp(1, 10_000)
}

pub const PF_KTHREAD: u32 = 0x0020_0000;

impl Task {
    pub fn new(id: TaskId, new: NewTask, nr_vcpus: usize) -> Self {
        let mut raw = Box::<task_struct>::default();
        raw.pid = id as i32 + 1;
        raw.tgid = new.process as i32 + 1;
        raw.policy = new.policy as u32;
        raw.static_prio = 120 + new.nice;
        raw.prio = raw.static_prio;
        raw.scx.weight = scx_weight(load_weight(new.nice, new.policy));
        raw.scx.slice = 20_000_000;
        if new.kthread {
            raw.flags |= PF_KTHREAD;
        }
        let mut task = Self {
            raw,
            name: new.name,
            program: Some(new.program),
            state: State::Blocked,
            on_rq: false,
            cpu: 0,
            left_ns: 0,
            narrow: Box::default(),
            process: new.process,
            last_pcpu: None,
            waits_since: None,
            place: Place::Nowhere,
            insertion: 0,
            ddsp: None,
            ops_state: OpsState::None,
            holding: None,
            enabled: false,
            counts: TaskCounts::default(),
        };
        task.set_allowed(&new.allowed.unwrap_or_else(|| (0..nr_vcpus).collect()));
        task
    }

    pub fn set_allowed(&mut self, allowed: &[VcpuId]) {
        self.raw.cpus_mask = cpumask::default();
        for v in allowed {
            self.raw.cpus_mask.bits[v / 64] |= 1 << (v % 64);
        }
        if self.raw.migration_disabled == 0 {
            self.set_migration_disabled(false);
        }
    }

    /// Bind it to its present vCPU, or free it (migrate_disable, migrate_enable).
    pub fn set_migration_disabled(&mut self, on: bool) {
        self.raw.migration_disabled = u16::from(on);
        if on {
            *self.narrow = cpumask::default();
            self.narrow.bits[self.cpu / 64] |= 1 << (self.cpu % 64);
            self.raw.cpus_ptr = &raw mut *self.narrow;
            self.raw.nr_cpus_allowed = 1;
        } else {
            self.raw.cpus_ptr = &raw mut self.raw.cpus_mask;
            let bits = self.raw.cpus_mask.bits.iter();
            self.raw.nr_cpus_allowed = bits.map(|word| word.count_ones()).sum::<u32>() as i32;
        }
    }

    /// The vCPUs that it may run on now (p->cpus_ptr).
    pub fn allowed(&self) -> &cpumask {
        if self.raw.migration_disabled != 0 { &self.narrow } else { &self.raw.cpus_mask }
    }

    pub fn may_run_on(&self, v: VcpuId) -> bool {
        super::mask_test(self.allowed(), v)
    }

    /// Return true if it can run on its present vCPU only.
    pub fn pinned(&self) -> bool {
        self.raw.nr_cpus_allowed == 1 || self.raw.migration_disabled != 0
    }

    pub fn best_effort(&self) -> bool {
        self.raw.policy == Policy::Idle as u32
    }
}
