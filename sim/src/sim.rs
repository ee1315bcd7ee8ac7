// SPDX-License-Identifier: GPL-2.0-only
//! The simulation: virtual clock, event queue, and the state of everything. One per process at a
//! time, since the scheduler's own variables are there once.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::bpf::state::BpfState;
use crate::costs::Costs;
use crate::exec::{self, Locks};
use crate::guest::task::{Task, TaskId};
use crate::guest::vcpu::{Irq, Vcpu, VcpuId};
use crate::guest::{Guest, GuestConfig};
use crate::host::{Host, HostEvent};
use crate::record::{Record, What};
use crate::work::World;

/// Virtual time and durations in ns.
pub type Ns = u64;
pub const US: Ns = 1_000;
pub const MS: Ns = 1_000 * US;
pub const S: Ns = 1_000 * MS;

/// What happens at a point in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The code on a vCPU goes on, unless it has gone on since generation `r#gen`.
    Resume {
        v: VcpuId,
        r#gen: u64,
    },
    /// The time that the code on a vCPU asked for is over.
    WorkDone {
        v: VcpuId,
        r#gen: u64,
    },
    Irq {
        v: VcpuId,
        irq: Irq,
    },
    Tick {
        v: VcpuId,
        r#gen: u64,
    },
    Timer {
        v: VcpuId,
        timer: u64,
    },
    Host(HostEvent),
    /// The next action of the scenario's or the fuzzer's script.
    Script(usize),
    /// The kernel's watchdog looks for tasks that wait too long.
    Watchdog,
}

/// What the kernel would have answered with an ejection, or what must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub at_ns: Ns,
    pub what: String,
}

/// All state of a simulation.
pub struct Sim {
    pub now: Ns,
    sequence: u64,
    events: BinaryHeap<Reverse<(Ns, u64, Event)>>,
    pub events_done: u64,
    pub rng: ChaCha8Rng,
    pub costs: Costs,
    pub host: Host,
    pub guest: Guest,
    pub vcpus: Vec<Vcpu>,
    pub tasks: Vec<Task>,
    pub locks: Locks,
    pub timers: BTreeMap<u64, crate::guest::timer::Timer>,
    pub next_timer: u64,
    pub bpf: BpfState,
    pub world: World,
    pub record: Record,
    pub violation: Option<Violation>,
    /// The vCPU whose code runs at this moment.
    pub current: VcpuId,
    pub script: Vec<(Ns, crate::script::Action)>,
}

thread_local! {
    static SIM: RefCell<Option<Sim>> = const { RefCell::new(None) };
}

/// Use the state of this thread's simulation. Never across a point where virtual time passes.
///
/// # Panics
/// If there is none, or it is in use: faults of the simulator itself.
pub fn sim<R>(f: impl FnOnce(&mut Sim) -> R) -> R {
    SIM.with_borrow_mut(|sim| match sim {
        Some(sim) => f(sim),
        None => unreachable!("no simulation runs in this thread"),
    })
}

/// Put a simulation into this thread's place, and return what was there.
pub fn install(sim: Option<Sim>) -> Option<Sim> {
    SIM.replace(sim)
}

impl Sim {
    /// An empty simulation at time 0.
    pub fn new(seed: u64, costs: Costs, host: Host, guest: GuestConfig) -> Self {
        let vcpus = (0..guest.nr_vcpus).map(Vcpu::new).collect();
        Self {
            now: 0,
            sequence: 0,
            events: BinaryHeap::new(),
            events_done: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            costs,
            host,
            guest: Guest::new(guest),
            vcpus,
            tasks: Vec::new(),
            locks: Locks::default(),
            timers: BTreeMap::new(),
            next_timer: 0,
            bpf: BpfState::default(),
            world: World::default(),
            record: Record::default(),
            violation: None,
            current: 0,
            script: Vec::new(),
        }
    }

    /// Let `event` happen at `at`, after all that is due then already.
    pub fn at(&mut self, at: Ns, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at.max(self.now), self.sequence, event)));
    }

    pub fn after(&mut self, ns: Ns, event: Event) {
        self.at(self.now + ns, event);
    }

    /// Move the clock on to `to` if nothing is due before or at it. Return true if it was moved.
    pub fn try_advance(&mut self, to: Ns) -> bool {
        if self.events.peek().is_some_and(|Reverse((at, ..))| *at <= to) {
            return false;
        }
        self.now = to;
        true
    }

    fn pop(&mut self, end: Ns) -> Option<Event> {
        if self.violation.is_some() || self.events.peek()?.0.0 > end {
            return None;
        }
        let Reverse((at, _, event)) = self.events.pop()?;
        self.now = self.now.max(at);
        self.events_done += 1;
        Some(event)
    }

    /// Report a violation; only the first counts. The simulation ends.
    pub fn violate(&mut self, what: impl Into<String>) {
        let what = what.into();
        if self.violation.is_none() {
            self.record.add(self.now, self.current, What::Violation, 0, 0);
            self.violation = Some(Violation { at_ns: self.now, what });
        }
    }

    pub fn task(&mut self, t: TaskId) -> &mut Task {
        &mut self.tasks[t]
    }

    pub fn vcpu(&mut self, v: VcpuId) -> &mut Vcpu {
        &mut self.vcpus[v]
    }

    /// A number below `n` (at least 1), by chance.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.rng.next_u64()) * u128::from(n.max(1))) >> 64) as u64
    }

    /// A duration by chance, exponentially distributed around `mean_ns`. The logarithm is libm's, in
    /// Rust, so that it is the same on every machine.
    pub fn exponential(&mut self, mean_ns: Ns) -> Ns {
        let uniform = (self.below(1 << 53) + 1) as f64 / (1u64 << 53) as f64;
        (-libm::log(uniform) * mean_ns as f64) as Ns
    }

    pub fn note(&mut self, what: What, a: u64, b: u64) {
        self.record.add(self.now, self.current, what, a, b);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Resume { .. } | Event::WorkDone { .. } | Event::Script(_) => {}
            Event::Irq { v, irq } => self.raise(v, irq),
            Event::Tick { v, r#gen } => self.tick_due(v, r#gen),
            Event::Timer { v, timer } => self.timer_due(v, timer),
            Event::Host(event) => self.host_event(event),
            Event::Watchdog => self.watchdog(),
        }
    }
}

/// Let the simulation run until `end`, or until there is a violation.
pub fn run_until(end: Ns) {
    while let Some(event) = sim(|s| s.pop(end)) {
        match event {
            Event::Resume { v, r#gen } => {
                if sim(|s| s.may_resume(v, r#gen)) {
                    exec::resume(v);
                }
            }
            Event::WorkDone { v, r#gen } => {
                if sim(|s| s.may_resume(v, r#gen)) {
                    exec::resume(v);
                }
            }
            Event::Script(index) => crate::script::perform(index),
            other => sim(|s| s.handle(other)),
        }
    }
    sim(|s| {
        if s.violation.is_none() {
            s.now = s.now.max(end);
        }
        s.settle_accounts();
    });
}
