// SPDX-License-Identifier: GPL-2.0-only
//! The groups of recorded machines are the true ones.

use std::fs;

use probers::snapshot::{Group, Topology};
use probers::vtop::label::label;
use probers::vtop::matrix::Matrix;
use probers::vtop::structure::infer;

use crate::machines::{self, Sets};
use crate::members;

/// Known not to be told: two cores with a cache each, of two threads, look like two cores of one cache.
const NOT_TOLD: &str = "intel-r-atom-tm-cpu-d510-1-66ghz.csv llc";

fn found(rows: Vec<Vec<Option<f64>>>) -> Topology {
    let ids: Vec<u32> = (0..rows.len() as u32).collect();
    let readings = Matrix::from_rows(rows).readings();
    label(&infer(&readings), &readings, &ids)
}

/// The levels of machines where other groups than the true ones are found, if all is `scale` slower.
fn faults(scale: f64) -> Vec<String> {
    let mut faults = Vec::new();
    for machine in machines::all() {
        let slower = |row: &Vec<Option<f64>>| row.iter().map(|ns| Some((*ns)? * scale)).collect();
        let topology = found(machine.rows.iter().map(slower).collect());
        let mut check = |level: &str, truth: &Option<Sets>, groups: &[Group]| {
            if truth.as_ref().is_some_and(|truth| *truth != members(groups)) {
                faults.push(format!("{} {level}", machine.file));
            }
        };
        check("stack", &Some(Vec::new()), &topology.stacks);
        check("smt", &machine.smt, &topology.cores);
        // Clusters that share a cache are the last cache of their own that an OS sees.
        check("llc", &machine.cluster.clone().or(machine.llc), &topology.llcs);
        check("socket", &machine.socket, &topology.sockets);
    }
    faults
}

#[test]
fn the_groups_of_recorded_machines_are_found() {
    assert_eq!(faults(1.0), [NOT_TOLD]);
}

#[test]
fn only_ratios_count() {
    for scale in [0.2, 7.0] {
        assert_eq!(faults(scale), [NOT_TOLD], "all latencies times {scale}");
    }
}

#[test]
fn what_is_no_matrix_is_refused_by_line_and_column() {
    let report = machines::folder().join("ibm-ppc970-2-2-1-8ghz-x2.csv");
    let text = fs::read_to_string(report).unwrap_or_default();
    let why = Matrix::parse(&text).err().map(|why| why.to_string()).unwrap_or_default();
    assert!(why.starts_with("line 1, column 1: \"Num cores: 2\" is no latency"), "{why}");
}
