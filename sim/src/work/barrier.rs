// SPDX-License-Identifier: GPL-2.0-only
//! Phases that end at a barrier: all threads compute, and wait for the last (PARSEC with pthread
//! barriers).

use super::{Op, Program};
use crate::guest::task::NewTask;
use crate::sim::{Ns, Sim};

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
}

/// A barrier: who has arrived in the present phase.
#[derive(Default)]
pub struct State {
    arrived: usize,
    /// Pieces of the present phase that somebody has taken.
    pieces_taken: u64,
    /// Threads that wait for the last one.
    blocked: u32,
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
}

struct Thread {
    phases: Phases,
    tally: String,
    barrier: usize,
    step: Step,
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
                let state = &mut s.world.barriers[barrier];
                state.arrived += 1;
                if state.arrived == self.phases.threads {
                    let took = s.now - state.begun;
                    state.arrived = 0;
                    state.pieces_taken = 0;
                    state.begun = s.now;
                    let (semaphore, count) = (state.semaphore, std::mem::take(&mut state.blocked));
                    s.tally(&self.tally, took);
                    self.step = Step::Work;
                    return Op::Up { semaphore, count, sync: false };
                }
                self.step = Step::Work;
                state.blocked += 1;
                Op::Down(state.semaphore)
            }
        }
    }
}

/// The threads, all of one process.
pub fn tasks(s: &mut Sim, tally: &str, phases: Phases, process: usize) -> Vec<NewTask> {
    let semaphore = s.world.semaphore(0);
    s.world.barriers.push(State { semaphore, ..State::default() });
    let barrier = s.world.barriers.len() - 1;
    (0..phases.threads)
        .map(|thread| {
            let program = Thread { phases, tally: tally.to_owned(), barrier, step: Step::Work };
            NewTask::new(format!("{tally}-{thread}"), process, program)
        })
        .collect()
}
