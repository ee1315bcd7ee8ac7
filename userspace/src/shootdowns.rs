// SPDX-License-Identifier: GPL-2.0-only
//! Shootdowns, round by round: measured while vCPUs differ, and those that lose by them confined.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hints::VcpuHints;
use hints::shootdown::{Confinement, unsteady};

use crate::scheduler::Scheduler;

/// For how long it is measured after vCPUs have differed last. To begin and to cease makes the kernel
/// rewrite its own code.
const MEASURED: Duration = Duration::from_secs(60);

/// The memory from round to round.
#[derive(Default)]
pub struct Shootdowns {
    confinement: Confinement,
    /// Waits of processes at the last round, and when that was.
    before: Option<(Instant, BTreeMap<u32, Duration>)>,
    differed: Option<Instant>,
}

impl Shootdowns {
    /// Go round once, if the policy is `on`. `told` is what the kernel half will be told: unsteady vCPUs
    /// are marked if a process is confined. Return how many are.
    ///
    /// # Errors
    /// If the object lacks a section: a fault of this program.
    pub fn round(
        &mut self,
        on: bool,
        scheduler: &mut Scheduler,
        told: &mut [VcpuHints],
    ) -> anyhow::Result<usize> {
        let now = Instant::now();
        if on && !unsteady(told).is_empty() {
            self.differed = Some(now);
        }
        let measured = on && self.differed.is_some_and(|at| now - at < MEASURED);
        if !scheduler.measure_shootdowns(measured) || !measured {
            *self = Self::default();
            scheduler.confine(&[])?;
            return Ok(0);
        }
        let waits: BTreeMap<_, _> = scheduler.shooters().into_iter().collect();
        let before = self.before.replace((now, waits.clone()));
        let Some((at, before)) = before else { return Ok(0) };
        let confined = self.confinement.round(&since(waits, &before), now - at, told);
        scheduler.confine(&confined)?;
        Ok(confined.len())
    }
}

/// What has been added to the waits since `before`. A process that was not among them, or gave way to
/// another in between, began at zero.
fn since(
    mut waits: BTreeMap<u32, Duration>,
    before: &BTreeMap<u32, Duration>,
) -> BTreeMap<u32, Duration> {
    for (process, wait) in &mut waits {
        *wait = before.get(process).and_then(|then| wait.checked_sub(*then)).unwrap_or(*wait);
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_round() {
        let ms = Duration::from_millis;
        let before = BTreeMap::from([(1, ms(10)), (2, ms(50)), (4, ms(1))]);
        let waits = BTreeMap::from([(1, ms(30)), (2, ms(20)), (3, ms(5))]);
        assert_eq!(since(waits, &before), BTreeMap::from([(1, ms(20)), (2, ms(20)), (3, ms(5))]));
    }
}
