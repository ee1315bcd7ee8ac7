// SPDX-License-Identifier: GPL-2.0-only
//! When to look how hard. Pure.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Settings;
use super::estimate::Observation;
use super::passive::Times;
use super::state::Wanted;
use super::trace::TELLING_MIN_NS;
use super::worker::BurstOrder;
use crate::budget;
use crate::snapshot::Estimate;

/// The first light look follows the start so soon: two readings tell which vCPUs are busy.
const FIRST_LIGHT_NS: u64 = 200_000_000;
/// Busy vCPUs are looked at so many times as often as idle ones: it wakes none of them.
pub const GLANCES_PER_LIGHT: u32 = 8;
/// Heavy looks of a VM in which nothing changes are this much rarer each time (vSched: 1.6).
const HEAVY_BACKOFF: f64 = 1.6;
const HEAVY_INTERVAL_MIN_NS: u64 = 10_000_000_000;
/// It lasts for so many of the longest stops seen so far,
const STOPS_PER_RUN: u64 = 3;
/// but needs no more than this part of a full budget. An idle vCPU has to use up the credit that the host
/// gives it before it shows its share, so there it takes as much of what is there.
const SAVED_PART: f64 = 0.9;
/// Run time that tells roughly, if something may have changed.
const SURPRISE_RUN_NS: u64 = 40_000_000;
/// On a busy vCPU, or after a surprise, it uses this part of what has been saved: the rest is for the next.
const SPENT_PART: f64 = 0.6;
/// Long enough for a core that is shared by many, and a bound on how long a burst goes on.
const HEAVY_WALL_NS: u64 = 600_000_000;
/// Light bursts use so much of what the budget grants between two.
const LIGHT_PART: f64 = 0.6;
const LIGHT_RUN_MIN_NS: f64 = 500_000.0;
const LIGHT_WALL_NS: u64 = 50_000_000;
const LIGHT_STOPS: usize = 2;
/// A lower bound that is higher than expected by so much is a surprise.
const EXCESS_RATIO: f64 = 0.15;
/// Times of a vCPU that did less than this part of the wall time say nothing.
const PASSIVE_MIN_RATIO: f64 = 0.05;
/// One look is worth so much time in which the vCPU had work.
const PASSIVE_LOOK_NS: f64 = 8e6;
/// Lower bounds are worth so much of an observation.
const LOWER_BOUND_WEIGHT: f64 = 0.1;

/// When the next looks are due.
#[derive(Clone, Debug)]
pub struct Agenda {
    light_interval_ns: u64,
    light_at_ns: u64,
    glance_at_ns: u64,
    heavy_interval_ns: u64,
    heavy_interval_max_ns: u64,
    heavy_at_ns: u64,
}

impl Agenda {
    pub fn new(settings: &Settings, now_ns: u64) -> Self {
        let light_interval_ns = settings.light_interval.as_nanos() as u64;
        let heavy_interval_max_ns =
            (settings.heavy_interval_max.as_nanos() as u64).max(light_interval_ns);
        Self {
            light_interval_ns,
            light_at_ns: now_ns + FIRST_LIGHT_NS.min(light_interval_ns),
            glance_at_ns: now_ns + light_interval_ns,
            heavy_interval_ns: HEAVY_INTERVAL_MIN_NS.min(heavy_interval_max_ns),
            heavy_interval_max_ns,
            heavy_at_ns: now_ns + FIRST_LIGHT_NS.min(light_interval_ns),
        }
    }

    /// Whether it is time for a light look; if so, the next one is set.
    pub fn light_is_due(&mut self, now_ns: u64) -> bool {
        if now_ns < self.light_at_ns {
            return false;
        }
        self.light_at_ns = now_ns + self.light_interval_ns;
        true
    }

    /// Whether it is time for a look at the busy vCPUs; if so, the next one is set.
    pub fn glance_is_due(&mut self, now_ns: u64) -> bool {
        if now_ns < self.glance_at_ns {
            return false;
        }
        self.glance_at_ns = now_ns + self.light_interval_ns / u64::from(GLANCES_PER_LIGHT);
        true
    }

    /// Whether it is time for a heavy look; if so, the next one is set, later each time.
    pub fn heavy_is_due(&mut self, now_ns: u64) -> bool {
        if now_ns < self.heavy_at_ns {
            return false;
        }
        self.heavy_at_ns = now_ns + self.heavy_interval_ns;
        let longer_ns = (self.heavy_interval_ns as f64 * HEAVY_BACKOFF) as u64;
        self.heavy_interval_ns = longer_ns.min(self.heavy_interval_max_ns);
        true
    }

    /// Something changed: look often again.
    pub fn changed(&mut self, now_ns: u64) {
        self.heavy_interval_ns = HEAVY_INTERVAL_MIN_NS.min(self.heavy_interval_max_ns);
        self.heavy_at_ns = self.heavy_at_ns.min(now_ns + self.heavy_interval_ns);
    }
}

/// Run time that tells the share of a vCPU whose longest stops are so long: some of them, or all that the
/// budget can save. What falls into the time between two long stops would tell a wrong one; but a surprise
/// does not wait for the budget.
pub fn run_needed_ns(wanted: Wanted, longest_stop_ns: Option<u64>) -> u64 {
    let run_ns = longest_stop_ns.unwrap_or(0).saturating_mul(STOPS_PER_RUN);
    let enough_ns = if wanted == Wanted::Surprise {
        SURPRISE_RUN_NS
    } else {
        (budget::FULL_NS as f64 * SAVED_PART) as u64
    };
    run_ns.clamp(TELLING_MIN_NS, enough_ns)
}

/// A burst that tells the share, of a vCPU for which at least `needed_ns` of its budget are there; `has_credit`
/// if it was idle, and nothing is urgent.
pub fn heavy(
    needed_ns: u64,
    available_ns: u64,
    has_credit: bool,
    begin_ns: u64,
    over: Arc<AtomicBool>,
) -> BurstOrder {
    let part = if has_credit { SAVED_PART } else { SPENT_PART };
    let run_max_ns = needed_ns.max((available_ns as f64 * part) as u64).min(available_ns);
    BurstOrder {
        begin_ns,
        run_max_ns,
        wall_max_ns: HEAVY_WALL_NS,
        stops_max: usize::MAX,
        heavy: true,
        over,
    }
}

/// A burst that tells whether there are stops, of `per_light` to an interval of light looks; `None` if the
/// budget does not allow it.
pub fn light(
    settings: &Settings,
    per_light: u32,
    available_ns: u64,
    begin_ns: u64,
) -> Option<BurstOrder> {
    let interval_ns = settings.light_interval.as_nanos() as f64 / f64::from(per_light);
    let light_ns = settings.budget_ratio * interval_ns * LIGHT_PART;
    (light_ns >= LIGHT_RUN_MIN_NS && available_ns as f64 >= light_ns).then(|| BurstOrder {
        begin_ns,
        run_max_ns: light_ns as u64,
        wall_max_ns: LIGHT_WALL_NS,
        stops_max: LIGHT_STOPS,
        heavy: false,
        over: Arc::default(),
    })
}

/// What the times of a vCPU tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    /// Its share, more or less surely.
    Share(Observation),
    /// That it is not what is thought.
    Surprise,
    Nothing,
}

/// What was seen in the times of a vCPU tells, beside the share that is thought. They tell `all` if none of
/// what was stolen is missing, and the vCPU was busy: hosts let those run first that have run little, so one
/// with little to do gets more than its share of the time in which it has work.
pub fn told(settings: &Settings, all: bool, share: Option<Estimate>, seen: Observation) -> Told {
    let stolen_ratio = 1.0 - seen.share();
    if all {
        Told::Share(seen)
    } else if settings.budget_ratio == 0.0 {
        Told::Share(Observation { looks: seen.looks * LOWER_BOUND_WEIGHT, ..seen })
    } else if stolen_ratio > 1.0 - share.map_or(1.0, |share| share.value) + EXCESS_RATIO {
        Told::Surprise
    } else {
        Told::Nothing
    }
}

/// The share of a vCPU that did these things within `wall_ns`, if they were enough to tell.
pub fn from_times(times: Times, wall_ns: u64) -> Option<Observation> {
    let wanted_ns = (times.run_ns + times.stolen_ns) as f64;
    (wanted_ns >= PASSIVE_MIN_RATIO * wall_ns.max(1) as f64).then_some(Observation {
        wanted_ns,
        stopped_ns: times.stolen_ns as f64,
        looks: wanted_ns / PASSIVE_LOOK_NS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const SECOND_NS: u64 = 1_000_000_000;

    fn heavy_times(agenda: &mut Agenda, seconds: u64) -> Vec<u64> {
        (0..seconds).filter(|second| agenda.heavy_is_due(second * SECOND_NS)).collect()
    }

    #[test]
    fn heavy_looks_grow_rare_and_never_stop() {
        let times = heavy_times(&mut Agenda::new(&Settings::default(), 0), 600);
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(times[0] <= 1);
        assert!(gaps.windows(2).all(|pair| pair[0] <= pair[1]), "{gaps:?}");
        assert!(gaps[0] >= 10 && gaps.iter().all(|gap| *gap <= 60), "{gaps:?}");
        assert!(times.len() >= 10);
    }

    #[test]
    fn a_change_brings_the_next_heavy_look_close() {
        let mut agenda = Agenda::new(&Settings::default(), 0);
        heavy_times(&mut agenda, 600);
        agenda.changed(600 * SECOND_NS);
        assert!(agenda.heavy_is_due(610 * SECOND_NS));
    }

    proptest! {
        #[test]
        fn no_burst_exceeds_what_is_available(
            budget_ratio in 0.0..0.05f64,
            available_ns in 0u64..1_000_000_000,
            per_light in 1u32..5,
        ) {
            let settings = Settings { budget_ratio, ..Settings::default() };
            let heavy = heavy(TELLING_MIN_NS, available_ns, per_light > 1, 0, Arc::default());
            prop_assert!(heavy.run_max_ns <= available_ns);
            if let Some(order) = light(&settings, per_light, available_ns, 0) {
                prop_assert!(order.run_max_ns <= available_ns);
            }
        }
    }

    #[test]
    fn long_stops_need_long_bursts_within_what_can_be_saved() {
        let needed_ms = |stop_ms: Option<u64>| {
            let stop_ns = stop_ms.map(|ms| ms * 1_000_000);
            [Wanted::Scheduled, Wanted::Surprise]
                .map(|wanted| run_needed_ns(wanted, stop_ns) / 1_000_000)
        };
        let expected = [[20, 20], [20, 20], [30, 30], [90, 40]];
        assert_eq!([None, Some(4), Some(10), Some(70)].map(needed_ms), expected);
    }

    proptest! {
        #[test]
        fn a_vcpu_with_little_to_do_never_tells_that_its_share_is_higher(
            thought in 0.0..=1.0f64,
            stolen_ns in 0.0..1e9f64,
        ) {
            let settings = Settings::default();
            let share = Estimate { value: thought, age_s: 0.0, confidence: 1.0 };
            let seen = Observation { wanted_ns: 1e9, stopped_ns: stolen_ns, looks: 1.0 };
            let told = told(&settings, false, Some(share), seen);
            prop_assert!(!matches!(told, Told::Share(_)));
            prop_assert!(told == Told::Nothing || seen.share() < thought);
        }
    }

    #[test]
    fn without_probing_the_times_of_all_vcpus_count_but_little() {
        let settings = Settings { budget_ratio: 0.0, ..Settings::default() };
        let seen = Observation { wanted_ns: 1e9, stopped_ns: 5e8, looks: 100.0 };
        let looks = [false, true].map(|all| match told(&settings, all, None, seen) {
            Told::Share(counted) => counted.looks,
            _ => 0.0,
        });
        assert!(0.0 < looks[0] && looks[0] < looks[1]);
        assert_eq!(looks[1], seen.looks);
    }

    #[test]
    fn idle_vcpus_tell_nothing_by_their_times() {
        let times = Times { run_ns: 10, stolen_ns: 5, idle_ns: 985 };
        assert_eq!(from_times(times, 1000), None);
        let times = Times { run_ns: 600, stolen_ns: 200, idle_ns: 200 };
        assert_eq!(from_times(times, 1000).map(|seen| seen.share()), Some(0.75));
    }

    #[test]
    fn no_budget_orders_no_light_look() {
        let settings = Settings {
            budget_ratio: 0.0,
            light_interval: Duration::from_secs(1),
            ..Settings::default()
        };
        assert!(light(&settings, 1, 0, 0).is_none());
    }
}
