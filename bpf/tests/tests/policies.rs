// SPDX-License-Identifier: GPL-2.0-only
//! Properties of biased selection, harvesting, rescue, relaxed work conservation and capacity.

use policy_tests::*;
use proptest::prelude::*;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const LATENCY: u32 = VAWARE_CLASS_LATENCY;
const THROUGHPUT: u32 = VAWARE_CLASS_THROUGHPUT;
const BEST_EFFORT: u32 = VAWARE_CLASS_BEST_EFFORT;
const KERNEL: u32 = VAWARE_CLASS_KERNEL;
const NONE: u32 = VAWARE_CLASS_NONE;
const STRAGGLER: u32 = VAWARE_VCPU_STRAGGLER;
const STACKED: u32 = VAWARE_VCPU_STACKED;
const UNEVEN: u32 = VAWARE_VCPU_UNEVEN;
const RESERVE: u32 = VAWARE_VCPU_RESERVE;
const UNSTEADY: u32 = VAWARE_VCPU_UNSTEADY;

prop_compose! {
    fn any_candidate()(class in 0..=NONE, waiting in 0..1_000u32, stopped: bool, rest_ns in 1..S,
                       wake_ns in 0..S, protected_ns in 0..3 * MS) -> candidate {
        candidate { class, waiting, stopped, rest_ns, wake_ns, protected_ns }
    }
}

prop_compose! {
    fn any_flags()(straggler: bool, stacked: bool, uneven: bool) -> u32 {
        (u32::from(straggler) * STRAGGLER)
            | (u32::from(stacked) * STACKED)
            | (u32::from(uneven) * UNEVEN)
    }
}

proptest! {
    #[test]
    fn a_stopped_vcpu_is_never_preferred_to_the_same_one_active(c in any_candidate()) {
        let stopped = candidate { stopped: true, ..c };
        let active = candidate { stopped: false, ..c };
        let (there, here) = pure!((bvs_delay_ns(&stopped), bvs_delay_ns(&active)));
        prop_assert!(there >= here);
        if c.class != NONE {
            prop_assert!(there > here);
        }
    }

    #[test]
    fn a_longer_queue_never_shortens_the_delay(c in any_candidate(), more in 1..100u32) {
        let longer = candidate { waiting: c.waiting + more, ..c };
        prop_assert!(pure!(bvs_delay_ns(&longer)) > pure!(bvs_delay_ns(&c)));
    }

    #[test]
    fn best_effort_work_is_no_hindrance(c in any_candidate()) {
        let runs = |class| candidate { class, stopped: false, ..c };
        prop_assert!(pure!(bvs_delay_ns(&runs(BEST_EFFORT))) <= pure!(bvs_delay_ns(&runs(THROUGHPUT))));
        if c.waiting == 0 {
            prop_assert!(pure!(bvs_good(bvs_delay_ns(&runs(BEST_EFFORT)))));
        }
    }

    #[test]
    fn an_idle_vcpu_is_judged_by_how_soon_it_wakes(c in any_candidate(), slower in 1..S) {
        let idle = candidate { class: NONE, ..c };
        let slow = candidate { wake_ns: c.wake_ns + slower, ..idle };
        prop_assert_eq!(pure!(bvs_delay_ns(&slow)) - pure!(bvs_delay_ns(&idle)), slower);
    }

    #[test]
    fn what_is_known_of_a_latency_fades(
        latency in 0..10 * S, age in 0..10 * S, more in 0..10 * S, log2 in 20..34u32,
    ) {
        let after = |age| pure!(bvs_faded_ns(latency, age, log2));
        let (soon, late) = (after(age), after(age + more));
        prop_assert!(late <= soon && soon <= latency);
        prop_assert!(after(age + (1 << log2)) <= soon / 2 + 1);
    }

    #[test]
    fn a_single_sample_says_little(expected in 0..S, sample in 0..S) {
        for learnt in [pure!(bvs_learnt_ns(expected, sample)), pure!(bvs_learnt_late_ns(expected, sample))] {
            prop_assert!((expected.min(sample)..=expected.max(sample)).contains(&learnt));
            prop_assert!(learnt.abs_diff(expected) <= expected.abs_diff(sample) / 16);
        }
    }

    #[test]
    fn late_timers_count_for_more(expected in 0..S, off in 0..S) {
        let learnt = |sample| pure!(bvs_learnt_late_ns(expected, sample));
        let early = expected.saturating_sub(off);
        prop_assert!(learnt(expected + off) - expected >= expected - learnt(early));
    }

    #[test]
    fn expectations_come_to_the_mean(start in 0..S, soon in 0..S, late in 0..S) {
        let last = (0..4000).fold(start, |expected, i| {
            pure!(bvs_learnt_ns(expected, if i % 2 == 0 { soon } else { late }))
        });
        prop_assert!(last.abs_diff((soon + late) / 2) <= soon.abs_diff(late) / 32 + 64);
    }

    #[test]
    fn few_looks_are_near_if_there_are_enough(nr_near in 0..=16u32, more in 0..=16u32) {
        let nr = nr_near + more;
        let of = pure!(place_few_of(nr_near, nr));
        prop_assert!(of == nr.max(1) || of == nr_near);
        prop_assert!(of >= nr.min(WAKE_LOOKS), "no look is wasted on one twice");
        prop_assert!(nr_near < WAKE_LOOKS || of == nr_near);
    }

    #[test]
    fn a_task_stays_unless_another_vcpu_is_clearly_sooner(
        class in 0..VAWARE_NR_CLASSES,
        here in 0..S,
        there in 0..S,
    ) {
        let away = pure!(place_away_ns(class, there));
        prop_assert!(away > there, "its caches are here");
        if class == VAWARE_CLASS_LATENCY && there > here / 2 {
            prop_assert!(away > here);
        }
    }

    #[test]
    fn a_sleeper_is_kept_waiting_for_less_than_it_was_late(late in 0..S, there in 0..S) {
        let keep = pure!(bvs_keep_ns(late, there));
        prop_assert!(keep <= late / 2);
        prop_assert!(keep == 0 || keep > there, "the other has time to wake");
        prop_assert_eq!(pure!(bvs_keep_ns(late, late)), 0);
    }

    #[test]
    fn expectations_come_to_what_does_not_change(start in 0..S, sample in 0..S) {
        let last = (0..2000).fold(start, |expected, _| pure!(bvs_learnt_ns(expected, sample)));
        prop_assert!(last.abs_diff(sample) < 64, "but for what the division leaves");
    }

    #[test]
    fn the_hedge_comes_within_its_limits(typical in 0..S, more in 0..S) {
        let within = pure!(rescue_after_ns(typical));
        prop_assert!((200 * US..=2 * MS).contains(&within));
        prop_assert!(pure!(rescue_after_ns(typical + more)) >= within);
    }

    #[test]
    fn vcpus_that_wake_in_time_cost_no_timer(typical in 0..US * 100, wake in 0..200 * US, stop in 12 * MS..10 * S) {
        let after = |expected, sample| pure!(bvs_learnt_ns(expected, sample));
        let in_reach = |expected| pure!(rescue_in_reach(expected, typical));
        prop_assert!(!in_reach(after(0, wake)));
        let mut expected = (0..4).fold(0, |expected, _| after(expected, stop));
        prop_assert!(in_reach(expected), "it has been late four times");
        for _ in 0..1500 {
            expected = after(expected, wake);
        }
        prop_assert!(!in_reach(expected), "long ago");
    }

    #[test]
    fn what_is_dear_has_to_save_more(wake in 0..S, typical in 0..S, more in 0..S) {
        prop_assert!(pure!(rescue_in_reach(wake, typical)) || !pure!(rescue_in_reach(wake, typical + more)));
        prop_assert!(pure!(rescue_in_reach(S, 0)) && !pure!(rescue_in_reach(wake, S)));
    }

    #[test]
    fn a_task_moves_to_run_sooner(wake in 0..S, delay in 0..S) {
        let moves = pure!(rescue_worth_a_move(wake, delay));
        prop_assert!(!moves || delay < wake);
        prop_assert!(moves || !pure!(rescue_worth_a_move(wake, delay + 1)));
    }

    #[test]
    fn few_looks_cover_a_long_stop(rescue_by_second in 200 * US..2 * MS, stop in MS..10 * S) {
        let (mut age, mut looks) = (rescue_by_second, 0);
        while age < stop {
            let again = pure!(rescue_again_ns(age, rescue_by_second));
            prop_assert!(again >= rescue_by_second && again <= rescue_by_second.max(age / 4));
            (age, looks) = (age + again, looks + 1);
        }
        prop_assert!(looks < 60, "{} looks", looks);
    }

    #[test]
    fn the_typical_wake_up_settles_at_the_lower_quartile(low in 10 * US..MS, spread in 100 * US..5 * MS) {
        let mut typical = 50 * US;
        let mut sum = 0;
        let mut chance = low;
        for i in 0..20_000u64 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            typical = pure!(rescue_typical_ns(typical, low + (chance >> 33) % spread));
            sum += if i < 10_000 { 0 } else { typical };
        }
        let typical = sum / 10_000;
        let quartile = (low + spread / 4) as f64;
        let error = (typical as f64 - quartile).abs();
        prop_assert!(error < 0.2 * quartile + 0.1 * spread as f64, "{} for {}", typical, quartile);
    }

    #[test]
    fn kernel_threads_run_where_they_must(flags in any_flags()) {
        prop_assert!(!pure!(rwc_banned(flags, KERNEL)));
    }

    #[test]
    fn best_effort_work_keeps_its_stragglers(flags in any_flags()) {
        prop_assert_eq!(pure!(rwc_banned(flags, BEST_EFFORT)), flags & STACKED != 0);
        prop_assert!(pure!(rwc_banned(flags, BEST_EFFORT)) <= pure!(rwc_banned(flags, LATENCY)));
    }

    #[test]
    fn confined_work_keeps_off_unsteady_vcpus(flags in any_flags(), class in 0..NONE) {
        let served = class == BEST_EFFORT || class == KERNEL;
        prop_assert_eq!(pure!(rwc_banned(UNSTEADY, class)), !served);
        prop_assert_eq!(pure!(rwc_banned(flags | UNSTEADY, class)), !served || pure!(rwc_banned(flags, class)));
    }

    #[test]
    fn the_reserve_is_for_those_that_wait_and_the_kernel(flags in any_flags(), class in 0..NONE) {
        let served = class == LATENCY || class == KERNEL;
        prop_assert_eq!(pure!(rwc_banned(RESERVE, class)), !served);
        prop_assert_eq!(pure!(rwc_banned(flags | RESERVE, class)), !served || pure!(rwc_banned(flags, class)));
    }

    #[test]
    fn no_task_gets_more_of_the_reserve_than_its_part(
        runs in prop::collection::vec((1..4 * MS, 0..20 * MS), 1..2_000), start in 0..S,
    ) {
        let (mut now, mut paid_until, mut had) = (start, 0, 0);
        for (run, pause) in runs {
            if pure!(reserve_paid(paid_until, now)) {
                now += run;
                had += run;
                paid_until = pure!(reserve_pay(paid_until, run, now));
            }
            now += pause;
            // Two slices at once, and the run that goes beyond.
            prop_assert!(had <= (now - start) / 4 + 6 * MS + 4 * MS, "{had} in {}", now - start);
        }
    }

    #[test]
    fn who_keeps_to_its_part_always_may(runs in prop::collection::vec(1..4 * MS, 1..500)) {
        let (mut now, mut paid_until) = (S, 0);
        for run in runs {
            prop_assert!(pure!(reserve_paid(paid_until, now)));
            now += run;
            paid_until = pure!(reserve_pay(paid_until, run, now));
            now += 4 * run;
        }
    }

    #[test]
    fn only_work_that_is_cpu_bound_leaves_the_reserve(class in 0..=NONE, burst in 0..S) {
        let leaves = pure!(reserve_evicts(class, burst));
        let cpu_bound = class == THROUGHPUT && pure!(account_cpu_bound(burst));
        prop_assert_eq!(leaves, class == BEST_EFFORT || cpu_bound);
    }

    #[test]
    fn where_no_vcpu_is_worse_all_take_from_all(class in 0..NONE, own in any_flags(), other in any_flags()) {
        let usual = own & UNEVEN;
        prop_assert!(pure!(rwc_takes(usual, other, class)));
        // What waits on a banned vCPU may have no other choice: banned ones share it.
        prop_assert!(pure!(rwc_takes(own, own, class)));
        if pure!(rwc_banned(own, class)) && !pure!(rwc_banned(other, class)) {
            prop_assert!(!pure!(rwc_takes(own, other, class)));
        }
    }

    #[test]
    fn a_vcpu_next_to_a_busy_thread_gives_less(capacity in 1..5_000u32, burst in 0..S) {
        let (alone, shared) = pure!((place_effective_capacity(capacity, false), place_effective_capacity(capacity, true)));
        prop_assert!(shared < alone || capacity == 1);
        prop_assert!(alone <= 1024);
        prop_assert!(pure!(place_loss_ns(shared, burst)) >= pure!(place_loss_ns(alone, burst)));
    }

    #[test]
    fn the_stops_of_an_idle_vcpu_count_once(c in any_candidate(), loss in 0..S, burst in 0..S) {
        let wake = c.wake_ns;
        let cost = pure!(place_cost_ns(&candidate { class: NONE, waiting: 0, ..c }, loss, burst));
        prop_assert!(cost >= wake && cost >= loss && cost <= wake + loss);
        prop_assert!(cost < wake + loss || wake == 0 || loss == 0);
    }

    #[test]
    fn who_comes_second_to_an_idle_vcpu_pays_for_the_first(c in any_candidate(), loss in 0..S, burst in 0..S) {
        let idle = candidate { class: NONE, waiting: 0, ..c };
        let woken = candidate { waiting: 1, ..idle };
        let (first, second) = pure!((place_cost_ns(&idle, loss, burst), place_cost_ns(&woken, loss, burst)));
        prop_assert!(second > first + pure!(place_displaced_ns(burst)));
    }

    #[test]
    fn short_work_prefers_half_a_vcpu_to_half_of_another_tasks(average in 0..S, burst in 0..S) {
        let work = pure!(place_burst_ns(average, burst));
        prop_assert!(work <= 20 * MS);
        prop_assert!(work > 3 * MS || pure!(place_loss_ns(512, work)) <= pure!(place_displaced_ns(work)));
    }

    #[test]
    fn moves_between_alike_vcpus_gain_nothing(a in 0..1_024u32, b in 0..1_024u32) {
        let gains = |here, there| pure!(place_capacity_cost(there)) < pure!(place_gain_cost(here));
        prop_assert!(!gains(a, a));
        prop_assert!(!(gains(a, b) && gains(b, a)));
        prop_assert!(gains(a, b) == (4 * b > 5 * a));
    }

    #[test]
    fn only_work_that_computes_leaves(
        class in 0..=NONE, ran_ns in 0..S, burst_ns in 0..S, hazard_1024 in 0..=1024u32, stop_ns in 0..S,
    ) {
        let leaves = pure!(ivh_leaves(&ivh_task { class, ran_ns, burst_ns, hazard_1024, stop_ns }));
        prop_assert!(!leaves || class == THROUGHPUT);
        prop_assert!(!leaves || burst_ns >= 2 * MS);
        let calm = ivh_task { class, ran_ns, burst_ns, hazard_1024: 0, stop_ns };
        prop_assert!(!pure!(ivh_leaves(&calm)));
        let short = ivh_task { class, ran_ns, burst_ns, hazard_1024, stop_ns: 390 * US };
        prop_assert!(!pure!(ivh_leaves(&short)));
    }

    #[test]
    fn the_longer_a_stop_the_sooner_a_task_leaves(hazard_1024 in 0..=1024u32, stop_ns in 0..S, more in 0..S) {
        let task = |stop_ns| ivh_task { class: THROUGHPUT, ran_ns: 5 * MS, burst_ns: 5 * MS, hazard_1024, stop_ns };
        prop_assert!(!pure!(ivh_leaves(&task(stop_ns))) || pure!(ivh_leaves(&task(stop_ns + more))));
    }

    #[test]
    fn the_slower_the_target_wakes_the_further_ahead_one_looks(wake in 0..S, more in 0..S) {
        let margin = pure!(ivh_ahead_ns(0, more));
        prop_assert!(margin >= more);
        prop_assert_eq!(pure!(ivh_ahead_ns(MS, wake + more)) - pure!(ivh_ahead_ns(MS, wake)), margin);
        prop_assert!(pure!(ivh_ahead_ns(more, wake)) >= more);
    }

    #[test]
    fn a_target_that_did_not_forestall_the_stop_is_given_up(asked in S..100 * S, waited in 0..20 * MS, stop in 1..20 * MS) {
        let now = asked + waited;
        prop_assert!(!pure!(ivh_gives_up(asked, 0, now)) && !pure!(ivh_gives_up(asked, asked - stop, now)));
        prop_assert!(pure!(ivh_gives_up(asked, asked + stop, now)) && pure!(ivh_gives_up(asked, 0, now + 20 * MS)));
    }

    #[test]
    fn a_task_leaves_for_a_vcpu_that_has_just_spoken(asked in S..100 * S, answered in 0..30 * MS, took in 0..30 * MS) {
        let awake = asked + answered;
        let answer = pure!(ivh_judge(asked, awake, true, awake + took));
        prop_assert_eq!(answer == IVH_GO, took < 300 * US);
        prop_assert_ne!(answer, IVH_PENDING);
        prop_assert_eq!(pure!(ivh_judge(asked, awake, false, awake + took)), IVH_USELESS);
    }

    #[test]
    fn a_claim_that_nobody_answers_lapses(asked in S..100 * S, before in 1..S, waited in 0..S) {
        let answer = pure!(ivh_judge(asked, asked - before, true, asked + waited));
        let expected = if waited < 20 * MS { IVH_PENDING } else { IVH_LATE };
        prop_assert_eq!(answer, expected);
    }
}
