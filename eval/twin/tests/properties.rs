// SPDX-License-Identifier: GPL-2.0-only
//! What must hold of the scheduler, whatever comes.

use twin::arm::all_policies;
use twin::bpf::call::Callback;
use twin::fuzz::case::What;
use twin::fuzz::{Case, generate};
use twin::guest::Class;
use twin::run::{Outcome, run};
use twin::scenario::{Scenario, parse};
use twin::vtop::Placement;
use twin::{compare, scale, vtop};

/// Enough to see what is often wrong; `twin fuzz` tries as many as one has time for.
const SEEDS: u64 = 12;

fn scenario(text: &str) -> Scenario {
    let parsed = parse(text);
    assert!(parsed.is_ok(), "{:?}", parsed.err());
    parsed.unwrap_or_else(|_| unreachable!())
}

fn outcome(scenario: &Scenario, class: Class, seed: u64) -> Outcome {
    let (sim, tasks) = scenario.build(class, seed);
    let outcome = run(sim, tasks, scenario.length_ns()).unwrap_or_default();
    assert_eq!(outcome.violation, None);
    outcome
}

#[test]
fn random_cases_violate_nothing_and_repeat_themselves() {
    for seed in 1..=SEEDS {
        let failure = generate(seed).check();
        assert!(matches!(failure, Ok((None, _))), "seed {seed}: {failure:?}; see `twin fuzz`");
    }
}

#[test]
fn cases_that_failed_once_do_not_any_more() {
    for entry in std::fs::read_dir("tests/cases").into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let case: Result<Case, _> = toml::from_str(&text);
        assert!(case.is_ok(), "{:?}: {case:?}", entry.path());
        let failure = case.map(|case| case.check());
        assert!(matches!(failure, Ok(Ok((None, _)))), "{:?}: {failure:?}", entry.path());
    }
}

#[test]
fn with_all_policies_off_the_daemons_word_changes_nothing() {
    for seed in 1..=4 {
        let mut quiet = generate(seed);
        quiet.policies = 0;
        quiet.events.retain(|e| !matches!(e.what, What::Policies { .. } | What::Inputs { .. }));
        let mut told = quiet.clone();
        told.absurd_inputs = true;
        let hash = |case: &Case| case.run(false).unwrap_or_default().hash;
        assert_ne!(hash(&quiet), 0);
        assert_eq!(hash(&quiet), hash(&told), "seed {seed}");
    }
}

#[test]
fn equal_tasks_get_equal_shares_and_weights_count() {
    for (vcpus, tasks) in [(1, 2), (1, 5), (2, 4), (4, 8), (4, 12)] {
        let text = format!(
            "length_ms = 1000\nguest = {{ vcpus = {vcpus} }}\nhost = {{ cores = {vcpus} }}\n\
             [[work]]\nname = \"cpu\"\nkind = {{ compute = {{ tasks = {tasks}, chunk_us = 1000 }} }}\n"
        );
        let seen = outcome(&scenario(&text), Class::Scx { policies: all_policies() }, 1);
        let fair = 1e9 * f64::from(vcpus) / f64::from(tasks);
        for (name, counts) in &seen.tasks {
            let error = counts.work_ns as f64 / fair - 1.0;
            assert!(error.abs() < 0.05, "{name} of {tasks} on {vcpus}: {error:+.3}");
        }
    }
}

#[test]
fn a_task_that_runs_alone_is_harvested_for() {
    let text = "length_ms = 1000\nwarm_up_ms = 100\nguest = { vcpus = 4, steal_clock = true }\n\
                host = { cores = 4 }\ncompetitor = [{ pcpus = [0, 1, 2, 3] }]\n\
                [[work]]\nname = \"cpu\"\nkind = { compute = { tasks = 1, chunk_us = 100 } }\n";
    let work = |policies| outcome(&scenario(text), Class::Scx { policies }, 1).tallies["cpu"].sum;
    // Each vCPU has half of a core; a task that changes in time finds one that runs.
    assert!(work(all_policies()) > work(0) * 4 / 3);
}

#[test]
fn threads_are_not_doubled_up_to_spare_a_slow_vcpu() {
    let text = "length_ms = 1000\nwarm_up_ms = 200\nguest = { vcpus = 8, told = true }\n\
                host = { cores = 8 }\ncompetitor = [{ pcpus = [7] }]\n\
                [[work]]\nname = \"phase\"\n\
                kind = { barrier = { threads = 8, work_us = 1000, jitter_percent = 20, wait = \"block\" } }\n";
    let phases =
        |policies| outcome(&scenario(text), Class::Scx { policies }, 1).tallies["phase"].count;
    assert!(phases(all_policies()) > phases(0) * 95 / 100);
}

#[test]
fn threads_that_wake_together_do_not_all_go_to_the_best_vcpus() {
    for text in [
        include_str!("../scenarios/regions-on-uneven-vcpus.toml"),
        include_str!("../scenarios/regions-on-vcpus-of-unequal-weight.toml"),
    ] {
        let scenario = scenario(text);
        let regions =
            |policies| outcome(&scenario, Class::Scx { policies }, 1).tallies["regions"].count;
        assert!(regions(all_policies()) > regions(0) * 95 / 100, "{}", scenario.about);
    }
}

#[test]
fn best_effort_work_delays_normal_work_by_a_switch_at_most() {
    let timers = |background: &str| {
        let text = format!(
            "length_ms = 1000\nwarm_up_ms = 100\nguest = {{ vcpus = 4 }}\nhost = {{ cores = 4 }}\n\
             [[work]]\nname = \"late\"\nkind = {{ timer = {{ tasks = 3, interval_us = 1700 }} }}\n{background}"
        );
        let seen = outcome(&scenario(&text), Class::Scx { policies: all_policies() }, 1);
        let tally = &seen.tallies["late"];
        assert!(tally.count > 1000);
        tally.percentile(100)
    };
    let background = "[[work]]\nname = \"background\"\nbest_effort = true\n\
                      kind = { compute = { tasks = 8, chunk_us = 1000 } }\n";
    let (alone, beside) = (timers(""), timers(background));
    // A switch, the IPI that asks for it, and the callbacks: below 30 us with the default costs.
    assert!(beside < alone + 30_000, "alone {alone} ns, beside best-effort work {beside} ns");
}

#[test]
fn a_wake_up_does_not_cost_more_on_a_large_machine() {
    let most = |vcpus| {
        let outcome = scale::measure(vcpus, 40, true);
        assert!(outcome.is_ok(), "{:?}", outcome.err());
        let outcome = outcome.unwrap_or_default();
        [Callback::SelectCpu, Callback::Enqueue].map(|callback| {
            let counts = scale::counts(&outcome, callback);
            (counts.calls > 0, [counts.kfuncs_max, counts.iterations_max, counts.lines_max])
        })
    };
    // At most 16 vCPUs near by are looked at, twice each, whatever the number of others, and in no
    // more than four lines each.
    for vcpus in [32, 256] {
        for (called, seen) in most(vcpus) {
            let within = seen.iter().zip([48, 17, 4 * 17 + 12]).all(|(most, bound)| *most <= bound);
            assert!(called && within, "{vcpus} vCPUs: {seen:?}");
        }
    }
}

#[test]
fn vtop_finds_what_a_host_of_any_size_is_made_of() {
    for machine in &vtop::MACHINES {
        for placement in [Placement::Pinned, Placement::Stacked, Placement::Strewn] {
            for (vcpus, seed) in [(12, 1), (32, 2), (64, 3), (128, 4)] {
                let found = vtop::probe(machine, vcpus, placement, seed);
                let case = format!("{} {placement:?} {vcpus}: {found:?}", machine.name);
                assert!(found.wrong.iter().all(|wrong| wrong.vcpus == 0), "{case}");
                assert!(found.second.probes <= found.first.probes, "{case}");
            }
        }
    }
}

#[test]
fn vtop_does_not_take_vcpus_that_float_for_stacks_or_cores() {
    for machine in &vtop::MACHINES {
        for (vcpus, seed) in [(12, 1), (32, 2), (128, 3)] {
            let [stack, core, ..] = vtop::probe(machine, vcpus, Placement::Floating, seed).wrong;
            assert_eq!((stack.vcpus, core.vcpus), (0, 0), "{} {vcpus}", machine.name);
        }
    }
}

#[test]
fn vtop_probes_far_fewer_pairs_than_there_are() {
    for machine in &vtop::MACHINES {
        let probes = |vcpus| vtop::probe(machine, vcpus, Placement::Strewn, 1).first.probes;
        // Of four times as many vCPUs there are 16 times as many pairs.
        let (few, many) = (probes(128), probes(512));
        assert!(many < 12 * few && many < 512 * 511 / 2 / 4, "{}: {few}, {many}", machine.name);
    }
}

#[test]
fn errors_in_scenarios_name_line_and_field() {
    let with = |guest: &str, host: &str| {
        format!("length_ms = 10\nwork = []\n[guest]\n{guest}\n[host]\n{host}\n")
    };
    for (text, line, field) in [
        (with("vcpus = 2000", ""), "line 4", "vcpus"),
        (with("vcpus = 4", "smt = 3"), "line 6", "smt"),
        (with("vcpus = 4", "pins = [[0], [9], [0], [0]]"), "pCPU 9", "pcpus"),
        (with("vcpus = 4", "pins = [[0]]"), "line 6", "pins"),
        (with("vcpus = 4", "vcpu_weights = [1024]"), "give one for each", "vcpu_weights"),
        (with("vcpus = 4", "vcpu_weights = [1, 0, 1, 1]"), "at least 1", "vcpu_weights"),
        (with("vcpus = \"four\"", ""), "line 4", "vcpus"),
        (with("vcpus = 4\nspeed = 3", ""), "line 5", "speed"),
    ] {
        let error = parse(&text).err().unwrap_or_default();
        assert!(error.contains(line) && error.contains(field), "{error}");
    }
}

#[test]
fn all_scenarios_that_come_with_it_can_be_read() {
    for folder in ["scenarios", "papers", "trust"] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let parsed = parse(&text);
            assert!(parsed.is_ok(), "{:?}: {:?}", entry.path(), parsed.err());
        }
    }
    let short = "about = \"x\"\nlength_ms = 200\nguest = { vcpus = 1 }\n[[work]]\nname = \"cpu\"\n\
                 kind = { compute = { tasks = 1, chunk_us = 100 } }\n\
                 [[metric]]\nof = \"cpu\"\nstat = \"rate\"\n";
    let values = compare::values(&scenario(short), "eevdf", 2).unwrap_or_default();
    assert!(values.len() == 2 && values.iter().all(|ns| *ns > 0.9e9), "{values:?}");
}
