// SPDX-License-Identifier: GPL-2.0-only
//! Probing few pairs of simulated VMs on recorded machines finds the true groups.

use std::time::Instant;

use probers::snapshot::Topology;
use probers::vtop::prober::{Finding, Prober};

use crate::machines::{self, Machine};
use crate::members;
use crate::vm::{Kind, Random, Simulated, Vm};

/// Two cores with a cache each, of two threads, look like two cores of one cache; a few tiles of two
/// cores look like cores of two threads.
const NOT_TOLD: [&str; 2] =
    ["intel-r-atom-tm-cpu-d510-1-66ghz.csv", "intel-r-xeon-phi-tm-cpu-7210-1-30ghz.csv"];

/// Fewer vCPUs that are strewn over a large machine hardly ever meet a sibling to compare others with.
const STREWN_MIN: usize = 64;

fn machines() -> impl Iterator<Item = Machine> {
    machines::all().into_iter().filter(|machine| !NOT_TOLD.contains(&machine.file.as_str()))
}

fn probe<'a>(machine: &'a Machine, vm: Vm) -> (Prober<Simulated<'a>>, Finding) {
    let ids = (0..vm.places.len() as u32).collect();
    let mut prober = Prober::new(Simulated { machine, vm }, ids);
    let finding = prober.probe(&[]);
    (prober, finding)
}

/// The levels at which groups differ from the true ones.
fn faults(simulated: &Simulated, topology: &Topology) -> Vec<&'static str> {
    let machine = simulated.machine;
    let stacks = simulated.stacks();
    let cores = simulated.together(machine.smt.as_deref().unwrap_or_default());
    let caches = machine.cluster.as_deref().or(machine.llc.as_deref()).unwrap_or_default();
    let llcs = simulated.together(caches);
    let mut faults = Vec::new();
    if members(&topology.stacks) != stacks {
        faults.push("stack");
    }
    // Where no vCPU has a sibling, cores are the stacks themselves, and not told.
    if members(&topology.cores) != cores && !(cores == stacks && topology.cores.is_empty()) {
        faults.push("core");
    }
    if members(&topology.llcs) != llcs {
        faults.push("llc");
    }
    faults
}

fn check(kind: Kind, sizes: &[usize]) {
    let mut wrong = Vec::new();
    for machine in machines() {
        for nr_vcpus in sizes {
            let random = Random::seeded(machine.threads + nr_vcpus);
            let vm = Vm::new(&machine, *nr_vcpus, kind, random);
            let (mut prober, finding) = probe(&machine, vm);
            for level in faults(prober.source_mut(), &finding.topology) {
                wrong.push(format!("{} {nr_vcpus} {level}", machine.file));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn whole_cores_are_found() {
    check(Kind::WholeCores, &[8, 32, 128]);
}

#[test]
fn stacks_on_whole_cores_are_found() {
    check(Kind::Stacked, &[8, 32, 128]);
}

#[test]
fn missing_siblings_are_no_siblings() {
    check(Kind::MissingSiblings, &[16, 64]);
}

#[test]
fn strewn_vcpus_are_found() {
    check(Kind::Strewn, &[STREWN_MIN, 128]);
}

#[test]
fn stragglers_that_do_not_always_answer_are_found() {
    check(Kind::Stragglers, &[16, 64]);
}

#[test]
fn the_work_for_each_vcpu_is_bounded() {
    for machine in machines().filter(|machine| machine.threads >= 128) {
        for kind in [Kind::WholeCores, Kind::Strewn] {
            let vm = Vm::new(&machine, 512, kind, Random::seeded(1));
            let (mut prober, finding) = probe(&machine, vm);
            let again = prober.validate();
            assert!(finding.cost.probes <= 512 * 48, "{} {:?}", machine.file, finding.cost);
            assert!(again.moved.is_empty() && again.cost.probes <= 512 * 9, "{:?}", again.cost);
        }
    }
}

#[test]
fn a_move_is_noticed_and_only_its_surroundings_are_probed_again() {
    for machine in machines().filter(|machine| machine.threads >= 32) {
        let vm = Vm::new(&machine, 16, Kind::WholeCores, Random::seeded(3));
        let (mut prober, full) = probe(&machine, vm);
        assert!(prober.validate().moved.is_empty(), "{}", machine.file);
        // vCPU 5 joins vCPU 0 on its thread, and leaves it again.
        let home = prober.source_mut().vm.places[5];
        for place in [prober.source_mut().vm.places[0], home] {
            prober.source_mut().vm.places[5] = place;
            let after = prober.validate();
            let faults = faults(prober.source_mut(), &after.topology);
            assert!(after.moved.contains(&5), "{} {:?}", machine.file, after.moved);
            assert!(faults.is_empty(), "{} {faults:?}", machine.file);
        }
        assert!(full.topology.stacks.is_empty());
    }
}

#[test]
fn one_vcpu_and_none_are_fine() {
    for nr_vcpus in [0, 1] {
        for machine in machines().take(1) {
            let vm = Vm::new(&machine, nr_vcpus, Kind::WholeCores, Random::seeded(1));
            let (mut prober, finding) = probe(&machine, vm);
            assert!(finding.topology.same_groups(&Topology::default()));
            assert_eq!(prober.validate().cost.probes, 0);
        }
    }
}

/// Accuracy and cost by size, for the closing figures: `cargo test --release -p probers --test vtop
/// figures -- --ignored --nocapture`.
#[test]
#[ignore = "prints figures, asserts nothing"]
fn figures() {
    println!(
        "kind vCPUs VMs right wrong_stack wrong_core wrong_llc probes rounds check_probes check_rounds ms"
    );
    for kind in Kind::ALL {
        for nr_vcpus in [8, 12, 16, 32, 64, 128, 256, 512] {
            let (mut vms, mut right, mut wrong) = (0, 0, [0; 3]);
            let (mut probes, mut rounds, mut check_probes, mut check_rounds) = (0, 0, 0, 0);
            let start = Instant::now();
            for machine in machines() {
                for seed in 0..3 {
                    let random = Random::seeded(1000 * seed + nr_vcpus);
                    let vm = Vm::new(&machine, nr_vcpus, kind, random);
                    let (mut prober, finding) = probe(&machine, vm);
                    let faults = faults(prober.source_mut(), &finding.topology);
                    let again = prober.validate();
                    vms += 1;
                    right += usize::from(faults.is_empty());
                    for (count, level) in wrong.iter_mut().zip(["stack", "core", "llc"]) {
                        *count += usize::from(faults.contains(&level));
                    }
                    probes += finding.cost.probes;
                    rounds += finding.cost.rounds;
                    check_probes += again.cost.probes;
                    check_rounds += again.cost.rounds;
                }
            }
            let ms = start.elapsed().as_millis() as usize / vms;
            let [stack, core, llc] = wrong;
            println!(
                "{kind:?} {nr_vcpus} {vms} {right} {stack} {core} {llc} {} {} {} {} {ms}",
                probes / vms,
                rounds / vms,
                check_probes / vms,
                check_rounds / vms
            );
        }
    }
}
