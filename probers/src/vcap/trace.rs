// SPDX-License-Identifier: GPL-2.0-only
//! What a burst of work on one vCPU saw: pure, fed chunk by chunk.
//!
//! A chunk of work takes some microseconds. One that took far longer was interrupted: by other tasks of
//! this VM, as far as the kernel says that the thread waited, and by the hypervisor for the rest.

use super::estimate::Observation;
use super::verdict::LEAVE_MEDIAN_RATIO;

/// Interruptions below this are the guest kernel's own (ticks, softirqs), or too short to matter.
pub const STOP_MIN_NS: u64 = 300_000;
/// One look at "is it running?" is worth so much time without a stop: about a host's time slice.
const LOOK_NS: f64 = 8e6;
/// A stop and the run before it are worth so many looks: hosts take turns more evenly than dice.
const LOOKS_PER_CYCLE: f64 = 4.0;
/// A burst shorter than this tells nothing of a share: one that begins late, as a stopped vCPU does, may be.
pub const TELLING_MIN_NS: u64 = 20_000_000;
/// From so many stops on, whole cycles are counted instead of the burst's ragged ends.
const STOPS_FOR_CYCLES: usize = 2;
/// Chunk times kept for the speed.
const CHUNKS_KEPT: usize = 2048;

/// A stop of the vCPU within a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stop {
    length_ns: u64,
    /// Since the burst's begin, this thread's own waits not counted.
    end_ns: u64,
}

/// A burst, from its begin to its end.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Wall time in which the thread ran or the vCPU was stopped under it.
    wanted_ns: u64,
    stopped_ns: u64,
    /// Waited for other tasks of this VM.
    guest_wait_ns: u64,
    stops: Vec<Stop>,
    /// What was seen while the other vCPUs competed, if they do not any more.
    beside_others: Option<Seen>,
    chunks_ns: Vec<u64>,
}

/// What a burst has seen up to some moment.
#[derive(Clone, Copy, Debug)]
struct Seen {
    wanted_ns: u64,
    stopped_ns: u64,
    nr_stops: usize,
}

impl Trace {
    /// Account a chunk that took `wall_ns`, of which the thread waited `guest_wait_ns` for other tasks.
    pub fn add(&mut self, wall_ns: u64, guest_wait_ns: u64) {
        let guest_wait_ns = guest_wait_ns.min(wall_ns);
        let own_ns = wall_ns - guest_wait_ns;
        self.guest_wait_ns += guest_wait_ns;
        self.wanted_ns += own_ns;
        if own_ns >= STOP_MIN_NS {
            // The chunk itself was work.
            let length_ns = own_ns - self.chunks_ns.last().copied().unwrap_or(0);
            self.stopped_ns += length_ns;
            self.stops.push(Stop { length_ns, end_ns: self.wanted_ns });
        } else if guest_wait_ns == 0 && self.chunks_ns.len() < CHUNKS_KEPT {
            self.chunks_ns.push(own_ns);
        }
    }

    /// Time in which it really ran: what the burst has cost.
    pub fn run_ns(&self) -> u64 {
        self.wanted_ns - self.stopped_ns
    }

    /// Wall time since the begin.
    pub fn wall_ns(&self) -> u64 {
        self.wanted_ns + self.guest_wait_ns
    }

    /// Time for which it was stopped.
    pub fn stopped_ns(&self) -> u64 {
        self.stopped_ns
    }

    /// Number of stops.
    pub fn nr_stops(&self) -> usize {
        self.stops.len()
    }

    /// Whether it is worth going on while the others rest.
    pub fn is_worth_more(&self) -> bool {
        self.wanted_ns < TELLING_MIN_NS || self.has_little()
    }

    /// Whether it has so little that it may be a straggler. What it obtains while others rest, no less than
    /// beside them, is worth looking at then, and costs little.
    fn has_little(&self) -> bool {
        (self.run_ns() as f64) < LEAVE_MEDIAN_RATIO * self.wanted_ns as f64
    }

    /// From now on other vCPUs do not compete with it.
    pub fn others_rest(&mut self) {
        let seen = self.seen();
        self.beside_others.get_or_insert(seen);
    }

    fn seen(&self) -> Seen {
        let (wanted_ns, stopped_ns) = (self.wanted_ns, self.stopped_ns);
        Seen { wanted_ns, stopped_ns, nr_stops: self.stops.len() }
    }

    /// The share as far as this burst tells. With enough stops from the end of the first to the end of
    /// the last: whole cycles, free of the credit that a host gives a vCPU that has slept. What it found
    /// alone tells only if it found little.
    ///
    /// `usual_active_ns`: how long this vCPU ran from stop to stop so far. One that runs on for many times that
    /// tells as much as one that is stopped as often.
    pub fn observation(&self, usual_active_ns: Option<u64>) -> Observation {
        let seen = self.beside_others.filter(|_| !self.has_little()).unwrap_or(self.seen());
        let stops = &self.stops[..seen.nr_stops];
        let run_ns = (seen.wanted_ns - seen.stopped_ns) as f64;
        let missed = usual_active_ns.map_or(0.0, |active_ns| run_ns / active_ns.max(1) as f64);
        let looks = (run_ns / LOOK_NS).max(LOOKS_PER_CYCLE * missed.max(cycles(stops)));
        match stops {
            [first, rest @ .., last] if rest.len() + 2 >= STOPS_FOR_CYCLES => Observation {
                wanted_ns: (last.end_ns - first.end_ns) as f64,
                stopped_ns: (seen.stopped_ns - first.length_ns) as f64,
                looks,
            },
            _ => Observation {
                wanted_ns: seen.wanted_ns as f64,
                stopped_ns: seen.stopped_ns as f64,
                looks,
            },
        }
    }

    /// Lengths of the stops.
    pub fn inactive_ns(&self) -> impl Iterator<Item = u64> {
        self.stops.iter().map(|stop| stop.length_ns)
    }

    /// Lengths of the periods between two stops.
    pub fn active_ns(&self) -> impl Iterator<Item = u64> {
        self.stops.windows(2).map(|pair| pair[1].end_ns - pair[1].length_ns - pair[0].end_ns)
    }

    /// Time of a chunk that nothing disturbed, and the number of chunks it is taken from: the lower
    /// quartile, as disturbances only add.
    pub fn chunk_ns(&self) -> Option<(u64, usize)> {
        let mut sorted = self.chunks_ns.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 4).map(|chunk_ns| (*chunk_ns, sorted.len()))
    }
}

/// How many cycles the stops are worth: of unlike ones the longest tell nearly all of the share, and are
/// few (Kish's effective sample size).
fn cycles(stops: &[Stop]) -> f64 {
    let lengths = || stops.iter().map(|stop| stop.length_ns as f64);
    let squares: f64 = lengths().map(|length| length * length).sum();
    if squares > 0.0 { lengths().sum::<f64>().powi(2) / squares } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::estimate::ShareEstimator;
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const CHUNK_NS: u64 = 10_000;

    /// A burst of `run_ns` on a vCPU that runs for `active_ns`, is stopped for `inactive_ns`, and so on,
    /// from `phase_ns` into an active period.
    fn burst(run_ns: u64, active_ns: u64, inactive_ns: u64, phase_ns: u64) -> Trace {
        let mut trace = Trace::default();
        let mut left_ns = active_ns - phase_ns % active_ns;
        while trace.run_ns() < run_ns {
            if left_ns < CHUNK_NS {
                trace.add(CHUNK_NS + inactive_ns, 0);
                left_ns += active_ns;
            } else {
                trace.add(CHUNK_NS, 0);
            }
            left_ns -= CHUNK_NS;
        }
        trace
    }

    proptest! {
        /// The default budget's burst sees a periodic share within 5 points.
        #[test]
        fn periodic_stops_give_the_true_share(
            active_ms in 1u64..30,
            inactive_ms in 1u64..80,
            phase_ns in 0u64..30_000_000,
        ) {
            let trace = burst(100_000_000, active_ms * 1_000_000, inactive_ms * 1_000_000, phase_ns);
            let share = active_ms as f64 / (active_ms + inactive_ms) as f64;
            let found = trace.observation(None).share();
            prop_assert!((found - share).abs() < 0.05, "{found} for {share}");
        }

        /// A short burst that falls into a long stop of a vCPU that takes turns besides finds few unlike
        /// stops: that tells too little to call it a straggler.
        #[test]
        fn few_unlike_stops_are_no_certainty(
            turn_ms in 1u64..9,
            stop_ms in 40u64..400,
            phase_ms in 0u64..800,
        ) {
            let is_on = |at_ms: u64| at_ms % (2 * stop_ms) < stop_ms && (at_ms / turn_ms).is_multiple_of(2);
            let mut trace = Trace::default();
            let mut waited_ns = 0;
            for at_ms in (phase_ms..).take(100) {
                if is_on(at_ms) {
                    (0..100).for_each(|_| trace.add(CHUNK_NS + std::mem::take(&mut waited_ns), 0));
                } else {
                    waited_ns += 1_000_000;
                }
            }
            let mut share = ShareEstimator::new(Duration::from_secs(2), Duration::from_secs(30));
            share.add(0, trace.observation(None));
            let found = share.estimate(0).and_then(|share| share.trusted());
            prop_assert!(found.is_none_or(|share| share > 0.1), "{found:?} for a quarter");
        }

        /// Waits for other tasks of the VM are neither stops nor part of the time looked at.
        #[test]
        fn waits_in_the_guest_are_left_out(
            chunks in prop::collection::vec((0u64..200_000, 0u64..50_000_000), 1..100),
        ) {
            let mut trace = Trace::default();
            for (own_ns, guest_wait_ns) in &chunks {
                trace.add(own_ns + guest_wait_ns, *guest_wait_ns);
            }
            prop_assert_eq!(trace.nr_stops(), 0);
            prop_assert_eq!(trace.run_ns(), chunks.iter().map(|(own_ns, _)| own_ns).sum::<u64>());
        }
    }

    #[test]
    fn lengths_of_periods_are_found() {
        let trace = burst(50_000_000, 5_000_000, 7_000_000, 0);
        assert!(trace.inactive_ns().all(|ns| (7_000_000..7_100_000).contains(&ns)));
        assert!(trace.active_ns().all(|ns| (4_900_000..5_100_000).contains(&ns)));
        assert!(trace.active_ns().count() >= 5);
    }

    #[test]
    fn what_is_found_alone_tells_if_it_is_little() {
        let alone = |active_ns| {
            let mut trace = burst(5_000_000, 5_000_000, 95_000_000, 0);
            trace.add(95_000_000, 0);
            assert!(trace.is_worth_more());
            trace.others_rest();
            for _ in 0..5 {
                (0..active_ns / CHUNK_NS).for_each(|_| trace.add(CHUNK_NS, 0));
                trace.add(95_000_000, 0);
                trace.others_rest();
            }
            trace.observation(None)
        };
        let (straggler, other) = (alone(5_000_000), alone(95_000_000));
        assert!((straggler.share() - 0.05).abs() < 0.001 && straggler.looks > 20.0);
        assert!((other.share() - 0.05).abs() < 0.001 && other.looks < 5.0);
    }

    #[test]
    fn the_speed_is_that_of_undisturbed_chunks() {
        let mut trace = Trace::default();
        for _ in 0..100 {
            trace.add(CHUNK_NS, 0);
            trace.add(CHUNK_NS + 90_000, 0);
        }
        assert_eq!(trace.chunk_ns(), Some((CHUNK_NS, 200)));
    }

    #[test]
    fn an_honest_vcpu_has_its_whole_share() {
        let trace = burst(100_000_000, u64::MAX / 2, 1, 0);
        let seen = trace.observation(None);
        assert_eq!(seen.share(), 1.0);
        assert!(trace.observation(Some(4_000_000)).looks > 2.0 * seen.looks);
        assert_eq!(trace.nr_stops(), 0);
    }
}
