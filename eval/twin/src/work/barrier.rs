// SPDX-License-Identifier: GPL-2.0-only
//! Phases that end at a barrier: all threads compute, and wait for the last. Blocking (PARSEC with
//! pthread barriers), spinning (NPB with OMP_WAIT_POLICY=active), or spinning for a while first.

use super::{Op, Program};
use crate::guest::task::NewTask;
use crate::sim::{Ns, Sim};

/// How threads wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    #[default]
    Block,
    Spin,
    /// Spin for so many ns, then block.
    SpinThenBlock(Ns),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    pub threads: usize,
    /// Mean work of a thread in a phase, or that of a piece.
    pub work_ns: Ns,
    /// Pieces of a phase, which threads take as they get done (OpenMP's dynamic schedule). None: each
    /// thread has its own share.
    pub pieces: Option<u64>,
    /// Work varies evenly by as much around the mean, in percent.
    pub jitter_percent: u64,
    pub wait: Wait,
}

/// A barrier: who has arrived in the present phase.
#[derive(Default)]
pub struct State {
    arrived: usize,
    /// Pieces of the present phase that somebody has taken.
    pieces_taken: u64,
    /// Threads that gave up spinning, or never did.
    blocked: usize,
    flag: usize,
    semaphore: usize,
    begun: Ns,
}

impl State {
    /// Take one of so many pieces. Returns whether there was one left.
    fn take_piece(&mut self, pieces: u64) -> bool {
        let left = self.pieces_taken < pieces;
        self.pieces_taken += u64::from(left);
        left
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Work,
    Arrive,
    /// The last one wakes the others.
    Release,
    /// Spinning has ended in one way or the other.
    Spun,
}

struct Thread {
    phases: Phases,
    tally: String,
    barrier: usize,
    step: Step,
    /// The number of the phase, from 1.
    phase: u64,
}

impl Program for Thread {
    fn next(&mut self, s: &mut Sim) -> Op {
        let barrier = self.barrier;
        match self.step {
            Step::Work => {
                let pieces = self.phases.pieces;
                let taken = pieces.map(|pieces| s.world.barriers[barrier].take_piece(pieces));
                if taken != Some(true) {
                    self.step = Step::Arrive;
                }
                if taken == Some(false) {
                    return self.next(s);
                }
                let spread = self.phases.work_ns * self.phases.jitter_percent / 100;
                let work = self.phases.work_ns - spread + s.below(2 * spread + 1);
                Op::Compute(work.max(1))
            }
            Step::Arrive => {
                self.phase += 1;
                let state = &mut s.world.barriers[barrier];
                state.arrived += 1;
                if state.arrived == self.phases.threads {
                    let took = s.now - state.begun;
                    state.arrived = 0;
                    state.pieces_taken = 0;
                    state.begun = s.now;
                    let flag = state.flag;
                    s.tally(&self.tally, took);
                    self.step = Step::Release;
                    return Op::Raise(flag);
                }
                match self.phases.wait {
                    Wait::Block => self.block(s),
                    Wait::Spin => self.spin(s, 0),
                    Wait::SpinThenBlock(limit_ns) => self.spin(s, limit_ns),
                }
            }
            Step::Release => {
                self.step = Step::Work;
                let state = &mut s.world.barriers[barrier];
                let count = std::mem::take(&mut state.blocked) as u32;
                Op::Up { semaphore: state.semaphore, count, sync: false }
            }
            Step::Spun => {
                if s.world.raised(s.world.barriers[barrier].flag) >= self.phase {
                    self.step = Step::Work;
                    return self.next(s);
                }
                self.block(s)
            }
        }
    }
}

impl Thread {
    fn block(&mut self, s: &mut Sim) -> Op {
        self.step = Step::Work;
        let state = &mut s.world.barriers[self.barrier];
        state.blocked += 1;
        Op::Down(state.semaphore)
    }

    fn spin(&mut self, s: &Sim, limit_ns: Ns) -> Op {
        self.step = Step::Spun;
        Op::Spin { flag: (s.world.barriers[self.barrier].flag, self.phase), limit_ns }
    }
}

/// The threads, all of one process.
pub fn tasks(s: &mut Sim, tally: &str, phases: Phases, process: usize) -> Vec<NewTask> {
    let (flag, semaphore) = (s.world.flag(), s.world.semaphore(0));
    s.world.barriers.push(State { flag, semaphore, ..State::default() });
    let barrier = s.world.barriers.len() - 1;
    (0..phases.threads)
        .map(|thread| {
            let program =
                Thread { phases, tally: tally.to_owned(), barrier, step: Step::Work, phase: 0 };
            NewTask::new(format!("{tally}-{thread}"), process, program)
        })
        .collect()
}
