// SPDX-License-Identifier: GPL-2.0-only
//! Properties of the shares and limits of cgroups.

use policy_tests::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SLICE_NS: u64 = 3 * MS;
const TICK_NS: u64 = 4 * MS;
const NO_BOUND_NS: u64 = 1 << 50;
const NICE_0: u64 = 100 * WEIGHT_PARTS as u64;
const DEFAULT_SHARES: u64 = 1024 << 10;

/// A cgroup: its parent, its weight, and how many of its own tasks are runnable.
struct Group {
    parent: usize,
    weight: u64,
    tasks: u64,
}

/// What one task of each group weighs once all averages have settled, parents before children.
fn settled(groups: &[Group]) -> Vec<f64> {
    let mut children = vec![0; groups.len()];
    for (index, group) in groups.iter().enumerate().skip(1).rev() {
        if group.tasks > 0 || children[index] > 0 {
            children[group.parent] += group.weight;
        }
    }
    let load = groups.iter().map(|group| group.tasks * NICE_0).sum();
    let mut credit = vec![0; groups.len()];
    let mut demand = vec![0; groups.len()];
    for (index, group) in groups.iter().enumerate() {
        demand[index] = pure!(cgroup_demand(group.tasks * NICE_0, children[index], 1024));
        credit[index] = if index == 0 {
            pure!(cgroup_root_credit(load))
        } else {
            pure!(cgroup_credit(credit[group.parent], group.weight, demand[group.parent]))
        };
    }
    (0..groups.len())
        .map(|index| {
            let scale = pure!(cgroup_scale(credit[index], demand[index]));
            f64::from(pure!(cgroup_task_weight(NICE_0 as u32, scale)))
        })
        .collect()
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.01 * other.max(1.0)
}

#[test]
fn weights_compound_over_three_levels() {
    let weight = |hundredths: u64| hundredths * WEIGHT_PARTS as u64;
    let groups = [
        Group { parent: 0, weight: NICE_0, tasks: 0 },
        Group { parent: 0, weight: weight(100), tasks: 0 },
        Group { parent: 0, weight: weight(300), tasks: 6 },
        Group { parent: 1, weight: weight(1000), tasks: 0 },
        Group { parent: 1, weight: weight(100), tasks: 2 },
        Group { parent: 3, weight: weight(10), tasks: 1 },
        Group { parent: 3, weight: weight(90), tasks: 3 },
    ];
    let each = settled(&groups);
    let of = |index: usize| each[index] * groups[index].tasks as f64;
    let all: f64 = (0..groups.len()).map(of).sum();
    assert!(near(of(2) / all, 0.75));
    assert!(near(of(4) / all, 0.25 / 11.0));
    assert!(near(of(5) / all, 0.25 * 10.0 / 11.0 * 0.1));
    assert!(near(of(6) / all, 0.25 * 10.0 / 11.0 * 0.9));
    assert!(near(all, 12.0 * NICE_0 as f64), "on average a task weighs what it always did");
}

#[test]
fn the_kernels_default_is_nice_0() {
    assert_eq!(pure!(cgroup_weight_of_shares(DEFAULT_SHARES)), NICE_0);
    assert_eq!(pure!(cgroup_weight_of_shares(3 * DEFAULT_SHARES)), 3 * NICE_0);
    assert!(pure!(cgroup_weight_of_shares(0)) > 0);
}

proptest! {
    #[test]
    fn siblings_share_by_weight(
        siblings in prop::collection::vec((1..=10_000u64, 1..200u64), 2..16),
    ) {
        let mut groups = vec![Group { parent: 0, weight: NICE_0, tasks: 0 }];
        groups.extend(siblings.iter().map(|(weight, tasks)| {
            Group { parent: 0, weight: weight * WEIGHT_PARTS as u64, tasks: *tasks }
        }));
        let each = settled(&groups);
        let whole: u64 = siblings.iter().map(|(weight, _)| weight).sum();
        let tasks: u64 = siblings.iter().map(|(_, tasks)| tasks).sum();
        for (index, (weight, own)) in siblings.iter().enumerate() {
            let ideal = *weight as f64 / whole as f64 * (tasks * NICE_0) as f64 / *own as f64;
            let got = each[index + 1];
            // Weights are integers, rounded down three times: small ones are coarse.
            prop_assert!(near(got, ideal) || (got - ideal).abs() <= 3.0, "{got} for {ideal}");
        }
    }

    #[test]
    fn nothing_overflows_or_is_zero(
        shares: u64, weight in 1..=10_000u32, load: u64, own in 0..1u64 << 40,
        children in 0..1u64 << 36, active in 0..=1024u32, above in 1..1u64 << 36,
    ) {
        let credit = pure!(cgroup_root_credit(load));
        let child = pure!(cgroup_credit(credit, cgroup_weight_of_shares(shares), above));
        prop_assert!(child >= 1 && child <= credit.max(1));
        let scale = pure!(cgroup_scale(child, cgroup_demand(own, children, active)));
        prop_assert!(scale >= 1);
        prop_assert!(pure!(cgroup_task_weight(weight * WEIGHT_PARTS, scale)) >= 1);
    }

    #[test]
    fn an_average_gets_to_what_it_averages(from in 0..1u64 << 40, to in 0..1u64 << 40) {
        let mut average = from;
        for _ in 0..400 {
            let next = pure!(cgroup_average(average, to));
            prop_assert!(next.abs_diff(to) <= average.abs_diff(to));
            average = next;
        }
        prop_assert_eq!(average, to);
    }

    #[test]
    fn a_pull_evens_weights_or_pays_what_is_due(
        weights in (0..1u64 << 35, 0..1u64 << 35), capacities in (1..=1024u32, 1..=1024u32),
        weight in 1..1u32 << 31, ahead in -(1i64 << 40)..1i64 << 40,
    ) {
        let here = share { weight: weights.0, capacity: capacities.0, clock: ahead as u64 };
        let there = share { weight: weights.1, capacity: capacities.1, clock: 0 };
        let after = u128::from(here.weight + u64::from(weight)) * u128::from(there.capacity);
        let before = u128::from(there.weight) * u128::from(here.capacity);
        let due = ahead > 0 && ahead as u64 >= pure!(vtime_of_run(SLICE_NS, weight));
        let pulls = pure!(cgroup_pulls(&here, &there, weight));
        prop_assert!(!pulls || after < before || due);
        prop_assert!(pulls || after * 17 / 16 >= before);
    }

    #[test]
    fn what_evens_weights_is_not_taken_back(
        weights in (0..1u64 << 35, 0..1u64 << 35), weight in 1..1u32 << 31,
    ) {
        let vcpu = |weight| share { weight, capacity: 1024, clock: 0 };
        let (here, there) = (vcpu(weights.0), vcpu(weights.1));
        if there.weight >= u64::from(weight) && pure!(cgroup_pulls(&here, &there, weight)) {
            let (here, there) = (vcpu(here.weight + u64::from(weight)), vcpu(there.weight - u64::from(weight)));
            prop_assert!(!pure!(cgroup_pulls(&there, &here, weight)));
        }
    }

    #[test]
    fn nobody_overtakes_by_a_pull_that_does_not_even_weights(
        weights in (1..1u64 << 35, 1..1u64 << 35), capacities in (1..=1024u32, 1..=1024u32),
        weight in 1..1u32 << 31, ahead in 0..1i64 << 40,
    ) {
        let weight_u64 = u64::from(weight);
        let here = share { weight: weights.0, capacity: capacities.0, clock: ahead as u64 };
        let there = share { weight: weights.1, capacity: capacities.1, clock: 0 };
        let after = u128::from(here.weight + weight_u64) * u128::from(there.capacity);
        let before = u128::from(there.weight) * u128::from(here.capacity);
        if after * 15 / 16 > before && pure!(cgroup_pulls(&here, &there, weight)) {
            let left = there.weight - weight_u64;
            let gains = |weight, capacity| pure!(cgroup_advance_ns(weight, capacity));
            let still_ahead = ahead + gains(here.weight + weight_u64, capacities.0) - gains(left, capacities.1);
            prop_assert!(left > 0 && still_ahead >= 0);
        }
    }

    #[test]
    fn of_one_task_too_many_each_goes_round(weight in 1..1u32 << 31, capacity in 1..=1024u32, tasks in 1..9u64) {
        let due = pure!(vtime_of_run(SLICE_NS, weight));
        let vcpu = |tasks, clock| share { weight: u64::from(weight) * tasks, capacity, clock };
        let pulls = |ahead| pure!(cgroup_pulls(&vcpu(tasks, ahead), &vcpu(tasks + 1, 0), weight));
        prop_assert!(pulls(due) && !pulls(due - 1));
    }

    #[test]
    fn over_time_a_pool_gives_its_quota_and_no_more(
        quota_ns in MS..400 * MS, period_ns in MS..1000 * MS, wants in 0..400u64,
        late in prop::collection::vec(0..20 * MS, 200),
    ) {
        let limit = cgroup_quota { quota_ns, period_ns, burst_ns: 0 };
        let (mut left_ns, mut due_ns, mut now, mut used_ns) = (quota_ns as i64, period_ns, 0, 0i64);
        for ns in &late {
            now += ns;
            let periods = pure!(cgroup_periods(due_ns, now, period_ns));
            left_ns += pure!(cgroup_refill_ns(left_ns, &limit, periods, NO_BOUND_NS));
            due_ns += periods * period_ns;
            prop_assert!(due_ns > now);
            // A look at it comes late, and so more may be taken than is left.
            if left_ns > 0 {
                let taken = (ns * wants / 100) as i64;
                left_ns -= taken;
                used_ns += taken;
            }
        }
        let due = (now / period_ns + 1) * quota_ns;
        let once = 20 * MS as i64 * 4;
        prop_assert!(used_ns <= due as i64 + once, "{used_ns} of {due}");
    }

    #[test]
    fn what_is_left_over_is_kept_up_to_the_burst(
        left_ns in -(1i64 << 40)..1i64 << 40, quota_ns in 1..1u64 << 40, burst_ns in 0..1u64 << 40,
        periods in 1..3u64,
    ) {
        let limit = cgroup_quota { quota_ns, period_ns: 10 * MS, burst_ns };
        let after = left_ns + pure!(cgroup_refill_ns(left_ns, &limit, periods, NO_BOUND_NS));
        prop_assert!(after <= (burst_ns + periods * quota_ns) as i64);
        prop_assert_eq!(after, left_ns.min(burst_ns as i64) + (periods * quota_ns) as i64);
    }

    #[test]
    fn a_debt_is_paid_within_some_periods_or_is_small(
        owed_ns in 0..1i64 << 40, quota_ns in 1..1u64 << 32, nr_vcpus in 1..1025u32,
    ) {
        let limit = cgroup_quota { quota_ns, period_ns: 100 * MS, burst_ns: 0 };
        let most_ns = pure!(cgroup_debt_max_ns(&limit, nr_vcpus, TICK_NS));
        let at_once_ns = u64::from(nr_vcpus) * 10 * TICK_NS;
        prop_assert!(most_ns >= at_once_ns, "each period may overrun by that");
        let (mut left_ns, mut periods) = (-owed_ns, 0);
        while left_ns <= 0 {
            let given_ns = pure!(cgroup_refill_ns(left_ns, &limit, 1, most_ns));
            prop_assert!(given_ns >= quota_ns as i64);
            left_ns += given_ns;
            periods += 1;
            prop_assert!(periods <= 11.max(at_once_ns / quota_ns + 1), "{left_ns} left");
            if periods > 1000 {
                break; // a limit that gives next to nothing
            }
        }
        // What is less than that is paid in full.
        if (owed_ns as u64) < most_ns {
            prop_assert_eq!(left_ns, periods as i64 * quota_ns as i64 - owed_ns);
        }
    }

    #[test]
    fn the_timer_comes_when_it_is_wanted_or_a_moment_later(now in 0..1u64 << 50, at in 0..1u64 << 50) {
        let comes = now + pure!(cgroup_timer_in_ns(now, at));
        prop_assert!(comes >= at && comes > now, "it would come again at once");
        prop_assert!(comes - at.max(now) <= MS, "held tasks wait for it");
    }

    #[test]
    fn a_task_is_not_ahead_by_more_than_a_turn(vclock: u64, ahead in 0..1u64 << 50, weight in 1..1u32 << 31) {
        let vtime = vclock.wrapping_add(ahead);
        let bound = pure!(vtime_bound(vtime, vclock, weight));
        prop_assert!(bound.wrapping_sub(vclock) <= pure!(vtime_of_run(23 * MS, weight)).max(ahead.min(1)));
        prop_assert!(bound.wrapping_sub(vclock) <= ahead);
    }
}
