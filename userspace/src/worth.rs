// SPDX-License-Identifier: GPL-2.0-only
//! Whether the VM is better off with the scheduler than with the kernel's own, for operators who ask
//! for that (`unload_if_worse_percent`). Both are in charge in turns, in pairs of random order. What is
//! compared is what the kernel itself counts, and alike for both: the share that tasks get of the time
//! in which they want to run, and how long they wait for it each time.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use probers::vcap::passive::{ProcStat, TimesSource};

use crate::text_file;

/// Before the first comparison: the VM has booted, and the probers know the vCPUs.
const FIRST_AFTER: Duration = Duration::from_secs(60);
/// Between two comparisons, and how long a scheduler that is worse stays away.
const AGAIN_AFTER: Duration = Duration::from_secs(3600);
/// How long each is in charge at a time,
const TURN: Duration = Duration::from_secs(10);
/// of which the beginning does not count: tasks still wait that the other has queued.
const SETTLE: Duration = Duration::from_secs(2);
const PAIRS: usize = 6;
/// A pair counts if both turns had so much work, in vCPUs.
const WORK_MIN_VCPUS: f64 = 0.05;
/// Standard errors by which a difference is no chance: one in a hundred, with six pairs.
const SURE: f64 = 3.4;
/// An answer of the kernel with a line for each of 8192 vCPUs and each of their domains.
const PROC_BYTES_MAX: u64 = 16 << 20;

/// What the kernel has counted since boot, over all vCPUs, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counted {
    pub run_ns: u64,
    pub wait_ns: u64,
    pub waits: u64,
    pub steal_ns: u64,
}

impl Counted {
    /// Read it.
    ///
    /// # Errors
    /// A sentence: this kernel does not count.
    pub fn read() -> Result<Self, String> {
        let schedstat = text_file::read("/proc/schedstat".as_ref(), PROC_BYTES_MAX)
            .map_err(|why| format!("cannot read /proc/schedstat: {why}"))?;
        let times = ProcStat::new(true).read()?;
        let steal_ns = times.iter().map(|(_, times)| times.stolen_ns).sum();
        Self::parse(&schedstat, steal_ns).ok_or_else(|| {
            "cannot find run and wait times in /proc/schedstat; please report this kernel".into()
        })
    }

    /// From /proc/schedstat (Documentation/scheduler/sched-stats.rst: run time, wait time and time
    /// slices are the last three of each vCPU's numbers).
    fn parse(schedstat: &str, steal_ns: u64) -> Option<Self> {
        let numbers = |line: &str| -> Option<Vec<u64>> {
            line.split_whitespace().skip(1).map(|word| word.parse().ok()).collect()
        };
        let mut counted = Self { steal_ns, ..Self::default() };
        let mut vcpus = 0;
        for line in schedstat.lines().filter(|line| line.starts_with("cpu")) {
            let [.., run_ns, wait_ns, waits] = numbers(line)?[..] else { return None };
            counted.run_ns = counted.run_ns.wrapping_add(run_ns);
            counted.wait_ns = counted.wait_ns.wrapping_add(wait_ns);
            counted.waits = counted.waits.wrapping_add(waits);
            vcpus += 1;
        }
        (vcpus > 0).then_some(counted)
    }

    fn since(self, before: Self) -> Self {
        Self {
            run_ns: self.run_ns.wrapping_sub(before.run_ns),
            wait_ns: self.wait_ns.wrapping_sub(before.wait_ns),
            waits: self.waits.wrapping_sub(before.waits),
            steal_ns: self.steal_ns.wrapping_sub(before.steal_ns),
        }
    }

    /// Logarithms of the share that tasks got, and of what they did not wait; more is better.
    fn outcomes(self) -> [f64; 2] {
        let (run_ns, wait_ns) = (self.run_ns as f64, self.wait_ns as f64);
        let got_ns = (run_ns - self.steal_ns as f64).max(1.0);
        let wait_each_ns = (wait_ns / self.waits.max(1) as f64).max(1.0);
        [(got_ns / (run_ns + wait_ns).max(1.0)).ln(), -wait_each_ns.ln()]
    }
}

/// Who is in charge, and until when.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// No comparison is under way.
    Between { until: Instant },
    /// The scheduler was worse.
    Away { until: Instant },
    /// A turn of a comparison, begun at `since`.
    Turn { nr: usize, since: Instant, before: Option<Counted> },
}

/// A comparison that has ended: the scheduler's ratios to the kernel's own, in progress and in waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    pub progress_ratio: f64,
    pub wait_ratio: f64,
    pub is_worse: bool,
}

impl Compared {
    /// What came of it, for people.
    pub fn sentence(&self) -> String {
        let (progress, wait) = (self.progress_ratio, self.wait_ratio);
        let then = if self.is_worse { "it is unloaded for an hour" } else { "it stays" };
        format!(
            "compared with the kernel's own scheduler, tasks get {progress:.3} times as much of the \
             time in which they want to run, and waits are {wait:.3} times as good: {then}"
        )
    }
}

/// Comparisons, one after the other.
#[derive(Debug)]
pub struct Worth {
    /// A loss from which the scheduler is worse.
    limit_ratio: f64,
    phase: Phase,
    /// Bit n: in the n-th pair the scheduler is first.
    order: u64,
    /// Outcomes of turns without and with the scheduler, by pair.
    pairs: [[Option<[f64; 2]>; 2]; PAIRS],
}

impl Worth {
    /// Compare from now on, unless `limit_ratio` is 0; more than that lost is worse.
    ///
    /// # Errors
    /// A sentence: this kernel does not count what is compared.
    pub fn begin(limit_ratio: f64) -> Result<Option<Self>, String> {
        if limit_ratio == 0.0 {
            return Ok(None);
        }
        Counted::read().map_err(|why| format!("{why}; set unload_if_worse_percent to 0"))?;
        Ok(Some(Self::new(limit_ratio, Instant::now())))
    }

    fn new(limit_ratio: f64, now: Instant) -> Self {
        let phase = Phase::Between { until: now + FIRST_AFTER };
        Self { limit_ratio, phase, order: 0, pairs: Default::default() }
    }

    /// Whether the scheduler is away as it was worse.
    pub fn is_away(&self) -> bool {
        matches!(self.phase, Phase::Away { .. })
    }

    /// Whether it is the turn of the kernel's own in a comparison.
    pub fn is_others_turn(&self) -> bool {
        matches!(self.phase, Phase::Turn { nr, .. } if !self.is_ours(nr))
    }

    fn is_ours(&self, nr: usize) -> bool {
        let first = self.order >> (nr / 2) & 1 == 1;
        first == nr.is_multiple_of(2)
    }

    /// Go on, at `now`; call this several times a second. `counted` reads what the kernel counts.
    /// Returns a comparison that has just ended, if there was work enough to tell.
    pub fn step(
        &mut self,
        now: Instant,
        counted: impl FnOnce() -> Option<Counted>,
    ) -> Option<Compared> {
        match self.phase {
            Phase::Between { until } | Phase::Away { until } => {
                if now >= until {
                    self.order = RandomState::new().hash_one(());
                    self.pairs = Default::default();
                    self.phase = Phase::Turn { nr: 0, since: now, before: None };
                }
                None
            }
            Phase::Turn { nr, since, before: None } => {
                if now >= since + SETTLE {
                    self.phase =
                        Phase::Turn { nr, since, before: Some(counted().unwrap_or_default()) };
                }
                None
            }
            Phase::Turn { nr, since, before: Some(before) } => {
                if now < since + TURN {
                    return None;
                }
                let met = counted().unwrap_or(before).since(before);
                let measured_ns = (now - since).saturating_sub(SETTLE).as_nanos() as f64;
                let had_work = met.run_ns as f64 >= WORK_MIN_VCPUS * measured_ns;
                self.pairs[nr / 2][usize::from(self.is_ours(nr))] =
                    had_work.then(|| met.outcomes());
                if nr + 1 < 2 * PAIRS {
                    self.phase = Phase::Turn { nr: nr + 1, since: now, before: None };
                    return None;
                }
                let compared = self.compare();
                let until = now + AGAIN_AFTER;
                self.phase = match compared {
                    Some(Compared { is_worse: true, .. }) => Phase::Away { until },
                    _ => Phase::Between { until },
                };
                compared
            }
        }
    }

    fn compare(&self) -> Option<Compared> {
        let gains: Vec<[f64; 2]> = self
            .pairs
            .iter()
            .filter_map(|[without, with]| {
                let (without, with) = ((*without)?, (*with)?);
                Some([with[0] - without[0], with[1] - without[1]])
            })
            .collect();
        let number = gains.len() as f64;
        if gains.len() <= PAIRS / 2 {
            return None;
        }
        let mean = |of: usize| gains.iter().map(|gain| gain[of]).sum::<f64>() / number;
        let error = |of: usize| {
            let squares = gains.iter().map(|gain| (gain[of] - mean(of)).powi(2)).sum::<f64>();
            (squares / (number - 1.0) / number).sqrt()
        };
        let is_worse = |of: usize| {
            mean(of) <= -(1.0 + self.limit_ratio).ln() && mean(of) + SURE * error(of) < 0.0
        };
        Some(Compared {
            progress_ratio: mean(0).exp(),
            wait_ratio: mean(1).exp(),
            is_worse: is_worse(0) || is_worse(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDSTAT: &str = "version 17\ntimestamp 4295\n\
        cpu0 0 0 9 8 7 6 1000 200 30\ndomain0 MC f 1 2 3\ncpu1 0 0 9 8 7 6 2000 300 40\n";

    #[test]
    fn what_the_kernel_counts_is_summed_over_vcpus() {
        let counted = Counted { run_ns: 3000, wait_ns: 500, waits: 70, steal_ns: 70_000_000 };
        assert_eq!(Counted::parse(SCHEDSTAT, 70_000_000), Some(counted));
        for schedstat in ["", "cpu0 1 2", "cpu0 a b c"] {
            assert_eq!(Counted::parse(schedstat, 70_000_000), None, "{schedstat}");
        }
    }

    /// Steps of 100 ms through one comparison: in each a task runs for `run_ms`, and waits for this
    /// many us with the scheduler, and without it, give or take `noise`.
    fn compare(
        limit: f64,
        run_ms: u64,
        with_us: f64,
        without_us: f64,
        noise: f64,
    ) -> (Worth, Option<Compared>) {
        let mut now = Instant::now();
        let mut worth = Worth::new(limit, now);
        let (mut counted, mut ended, mut step) = (Counted::default(), None, 0u64);
        while ended.is_none() && step < 2000 {
            (now, step) = (now + Duration::from_millis(100), step + 1);
            let swing = 1.0 + noise * ((step / 100 * 5 % 8) as f64 / 3.5 - 1.0);
            let wait_us = if worth.is_others_turn() { without_us } else { with_us } * swing;
            counted.run_ns += run_ms * 1_000_000;
            counted.wait_ns += (wait_us * 1000.0) as u64;
            counted.waits += 1;
            ended = worth.step(now, || Some(counted));
        }
        (worth, ended)
    }

    #[test]
    fn a_scheduler_that_is_worse_goes_away_and_comes_back_to_be_compared() {
        let (mut worth, ended) = compare(0.05, 80, 30_000.0, 10_000.0, 0.05);
        assert_eq!(ended.map(|compared| compared.is_worse), Some(true));
        assert!(worth.is_away() && !worth.is_others_turn());
        assert_eq!(worth.step(Instant::now() + 2 * AGAIN_AFTER, || None), None);
        assert!(!worth.is_away(), "a comparison is under way");
    }

    #[test]
    fn one_that_is_better_level_or_within_the_limit_stays() {
        for (with_us, noise) in [(5_000.0, 0.1), (10_000.0, 0.1), (10_000.0, 0.0), (10_300.0, 0.0)]
        {
            let (worth, ended) = compare(0.05, 80, with_us, 10_000.0, noise);
            assert_eq!(ended.map(|compared| compared.is_worse), Some(false), "{with_us} {noise}");
            assert!(!worth.is_away());
        }
    }

    #[test]
    fn a_vm_that_does_nothing_tells_nothing() {
        let (worth, ended) = compare(0.05, 1, 30_000.0, 10_000.0, 0.05);
        assert_eq!(ended, None);
        assert!(!worth.is_away());
    }

    #[test]
    fn turns_are_shared_in_halves_and_the_order_is_drawn_by_pair() {
        for order in 0..1 << PAIRS {
            let worth = Worth { order, ..Worth::new(0.05, Instant::now()) };
            for pair in 0..PAIRS {
                assert_ne!(worth.is_ours(2 * pair), worth.is_ours(2 * pair + 1));
            }
        }
    }
}
