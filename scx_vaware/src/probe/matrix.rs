// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware probe --matrix`: the groups of a recorded latency matrix.

use std::path::Path;
use std::time::{Duration, Instant};

use probers::snapshot::{SCHEMA_VERSION, Topology};
use probers::vcpus::format_list;
use probers::vtop::label::label;
use probers::vtop::matrix::Matrix;
use probers::vtop::prober::Prober;
use probers::vtop::readings::{LatencySource, Pair, Patience, Reading};
use probers::vtop::structure::{Structure, infer};
use serde::Serialize;
use userspace::failure::Failure;
use userspace::text_file;

use crate::output;

/// Room for the largest matrix with all its digits: 1024 lines of 1024 fields of 24 bytes.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// Matrices of some hundred vCPUs with most readings missing, or at random, take minutes to simulate.
const PLAN_LIMIT: Duration = Duration::from_secs(5);

/// What is told of a matrix. The keys that `probe --json` has as well mean the same.
#[derive(Serialize)]
struct Found {
    schema_version: u32,
    vcpus: Vec<Vcpu>,
    topology: Topology,
    levels: Vec<Level>,
    /// None if it was not worked out in [`PLAN_LIMIT`].
    plan: Option<Plan>,
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
    let text = text_file::read(path, FILE_BYTES_MAX)
        .map_err(|why| Failure::Config(format!("cannot read {name}: {why}")))?;
    let matrix = Matrix::parse(&text).map_err(|why| Failure::Config(format!("{name}, {why}")))?;
    let found = Found::of(matrix, PLAN_LIMIT);
    if json { output::print_json(&found) } else { output::print(&found.table()) }
}

/// The machine of a matrix, probed until a deadline.
struct Recorded {
    matrix: Matrix,
    deadline: Instant,
}

impl LatencySource for Recorded {
    fn probe(&mut self, pairs: &[Pair], patience: Patience) -> Vec<Reading> {
        self.matrix.probe(pairs, patience)
    }

    fn is_exhausted(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

impl Found {
    fn of(matrix: Matrix, plan_limit: Duration) -> Self {
        let ids: Vec<u32> = (0..).take(matrix.nr_vcpus()).collect();
        let readings = matrix.readings();
        let structure = infer(&readings);
        let mut topology = label(&structure, &readings, &ids);
        topology.age_s = Some(0.0);
        Self {
            schema_version: SCHEMA_VERSION,
            vcpus: ids.iter().map(|id| Vcpu { id: *id }).collect(),
            levels: levels(&structure),
            plan: Plan::of(matrix, ids, &topology, plan_limit),
            topology,
        }
    }

    fn table(&self) -> String {
        let mut text = format!("{} vCPUs\n", self.vcpus.len());
        for (name, groups) in self.topology.levels() {
            match groups {
                [] => text += &format!("{name:>7}  none of more than one\n"),
                [first, ..] => {
                    let confidence = first.confidence * 100.0;
                    let count = groups.len();
                    text += &format!("{name:>7}  {count} groups, confidence {confidence:.0} %\n");
                }
            }
            for group in groups {
                text += &format!("         {}\n", format_list(&group.members));
            }
        }
        let latencies = self.levels.iter().map(|level| format!("{:.1}", level.typical_ns));
        text += &format!("latency  {} ns by level\n", latencies.collect::<Vec<_>>().join(", "));
        text += &match &self.plan {
            None => format!(
                "   plan  not worked out: that takes longer than {} s\n",
                PLAN_LIMIT.as_secs()
            ),
            Some(plan) => format!(
                "   plan  a live probe of {} pairs in {} rounds finds {} groups; {} in {} validate \
                 them\n",
                plan.probes,
                plan.rounds,
                if plan.same_groups { "the same" } else { "other" },
                plan.validation_probes,
                plan.validation_rounds
            ),
        };
        text
    }
}

impl Plan {
    /// Probe the machine of the matrix in thought; `None` if that takes longer than `limit`.
    fn of(matrix: Matrix, ids: Vec<u32>, whole: &Topology, limit: Duration) -> Option<Self> {
        let deadline = Instant::now() + limit;
        let mut prober = Prober::new(Recorded { matrix, deadline }, ids);
        let full = prober.probe(&[]);
        let validation = (!prober.source_mut().is_exhausted()).then(|| prober.validate())?;
        (!prober.source_mut().is_exhausted()).then(|| Self {
            probes: full.cost.probes,
            rounds: full.cost.rounds,
            validation_probes: validation.cost.probes,
            validation_rounds: validation.cost.rounds,
            same_groups: full.topology.same_groups(whole),
        })
    }
}

fn levels(structure: &Structure) -> Vec<Level> {
    let level = |level: &probers::vtop::structure::Level| Level {
        typical_ns: level.typical_ns,
        nr_groups: level.partition.groups().len(),
    };
    structure.levels.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_plan_that_takes_too_long_is_left_out() {
        let matrix = Matrix::from_rows(vec![vec![], vec![Some(8.0)]]);
        let found = Found::of(matrix.clone(), Duration::ZERO);
        assert!(found.plan.is_none() && found.table().contains("not worked out"));
        assert_eq!(found.topology.levels().len(), 4, "the groups are those of all readings");
        assert!(Found::of(matrix, PLAN_LIMIT).plan.is_some());
    }

    /// Text in the manner of a matrix, right and wrong.
    fn near_matrix() -> impl Strategy<Value = String> {
        let field = prop_oneof![
            3 => "[0-9]{1,4}(\\.[0-9])?",
            1 => "(nan|inf|-1|1e9|1e400|0| )?",
            1 => "\\PC{0,4}",
        ];
        (1usize..9).prop_flat_map(move |vcpus| {
            let line = vec(field.clone(), 0..=vcpus).prop_map(|fields| fields.join(","));
            vec(line, vcpus).prop_map(|lines| lines.join("\n"))
        })
    }

    proptest! {
        #[test]
        fn any_text_gives_groups_or_a_sentence(text in prop_oneof![near_matrix(), any::<String>()]) {
            match Matrix::parse(&text) {
                Ok(matrix) => {
                    let found = Found::of(matrix, Duration::from_millis(100));
                    prop_assert!(found.table().contains(" vCPUs\n"));
                }
                Err(why) => {
                    let why = why.to_string();
                    prop_assert!(!why.contains('\n') && why.len() < 400, "{}", why);
                    prop_assert!(why.contains("; "), "no way out: {}", why);
                }
            }
        }
    }
}
