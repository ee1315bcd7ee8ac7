// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware probe --matrix`: the groups of a recorded latency matrix.

use std::path::Path;

use probers::snapshot::{SCHEMA_VERSION, Topology};
use probers::vtop::label::label;
use probers::vtop::matrix::Matrix;
use probers::vtop::prober::Prober;
use probers::vtop::structure::{Structure, infer};
use serde::Serialize;
use userspace::failure::Failure;

use super::table::ranges;

/// What is told of a matrix. The keys that `probe --json` has as well mean the same.
#[derive(Serialize)]
struct Found {
    schema_version: u32,
    vcpus: Vec<Vcpu>,
    topology: Topology,
    levels: Vec<Level>,
    plan: Plan,
}

#[derive(Serialize)]
struct Vcpu {
    id: u32,
}

#[derive(Serialize)]
struct Level {
    typical_ns: f64,
    nr_groups: usize,
}

/// What a live probe of the same machine would have taken.
#[derive(Serialize)]
struct Plan {
    probes: usize,
    rounds: usize,
    validation_probes: usize,
    validation_rounds: usize,
    /// Whether so few readings give the same groups as the whole matrix.
    same_groups: bool,
}

/// Read the file, print its groups.
///
/// # Errors
/// [`Failure::Config`] for a file that cannot be read or is no matrix, by line and column.
pub fn run(path: &Path, json: bool) -> Result<(), Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|why| {
        Failure::Config(format!("cannot read {name}: {why}; give the path of a CSV file"))
    })?;
    let matrix = Matrix::parse(&text).map_err(|why| Failure::Config(format!("{name}, {why}")))?;
    let found = Found::of(matrix);
    if json {
        let text = serde_json::to_string_pretty(&found).map_err(anyhow::Error::from)?;
        println!("{text}");
    } else {
        found.print();
    }
    Ok(())
}

impl Found {
    fn of(matrix: Matrix) -> Self {
        let ids: Vec<u32> = (0..).take(matrix.nr_vcpus()).collect();
        let readings = matrix.readings();
        let structure = infer(&readings);
        let mut topology = label(&structure, &readings, &ids);
        topology.age_s = Some(0.0);
        let mut prober = Prober::new(matrix, ids.clone());
        let full = prober.probe(&[]);
        let validation = prober.validate();
        Self {
            schema_version: SCHEMA_VERSION,
            vcpus: ids.into_iter().map(|id| Vcpu { id }).collect(),
            levels: levels(&structure),
            plan: Plan {
                probes: full.cost.probes,
                rounds: full.cost.rounds,
                validation_probes: validation.cost.probes,
                validation_rounds: validation.cost.rounds,
                same_groups: full.topology.same_groups(&topology),
            },
            topology,
        }
    }

    fn print(&self) {
        println!("{} vCPUs", self.vcpus.len());
        for (name, groups) in self.topology.levels() {
            match groups {
                [] => println!("{name:>7}  none of more than one"),
                [first, ..] => {
                    let confidence = first.confidence * 100.0;
                    println!("{name:>7}  {} groups, confidence {confidence:.0} %", groups.len());
                }
            }
            for group in groups {
                println!("         {}", ranges(&group.members));
            }
        }
        let latencies = self.levels.iter().map(|level| format!("{:.1}", level.typical_ns));
        println!("latency  {} ns by level", latencies.collect::<Vec<_>>().join(", "));
        let Plan { probes, rounds, validation_probes, validation_rounds, same_groups } = self.plan;
        let same = if same_groups { "the same" } else { "other" };
        println!(
            "   plan  a live probe of {probes} pairs in {rounds} rounds finds {same} groups; \
             {validation_probes} in {validation_rounds} validate them"
        );
    }
}

fn levels(structure: &Structure) -> Vec<Level> {
    let level = |level: &probers::vtop::structure::Level| Level {
        typical_ns: level.typical_ns,
        nr_groups: level.partition.groups().len(),
    };
    structure.levels.iter().map(level).collect()
}
