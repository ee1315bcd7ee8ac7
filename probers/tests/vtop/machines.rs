// SPDX-License-Identifier: GPL-2.0-only
//! Recorded machines with their true groups.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use probers::vtop::matrix::Matrix;

pub type Sets = Vec<Vec<usize>>;

pub struct Machine {
    pub file: String,
    pub threads: usize,
    pub rows: Vec<Vec<Option<f64>>>,
    /// Of more than one thread each; `None` where the truth is unknown or ambiguous.
    pub smt: Option<Sets>,
    pub llc: Option<Sets>,
    pub socket: Option<Sets>,
    pub cluster: Option<Sets>,
}

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/core-to-core")
}

/// All machines whose file is a matrix.
pub fn all() -> Vec<Machine> {
    let truth = fs::read_to_string(folder().join("truth.tsv")).unwrap_or_default();
    let machines: Vec<Machine> = truth.lines().skip(1).filter_map(machine).collect();
    assert_eq!(machines.len(), 24, "truth.tsv lists 24 matrices and one report");
    machines
}

fn machine(line: &str) -> Option<Machine> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [file, threads, smt, llc, socket, note, cluster] = fields[..] else {
        return None;
    };
    let threads: usize = threads.parse().ok()?;
    let text = fs::read_to_string(folder().join(file)).ok()?;
    let rows = rows(&text)?;
    Matrix::parse(&text).ok()?;
    let whole = || Some(vec![(0..threads).collect()]);
    // "-" at a level: no siblings, but one cache and one socket.
    let cluster = sets(cluster);
    Some(Machine {
        file: file.to_owned(),
        threads,
        rows,
        smt: Some(sets(smt).unwrap_or_default()),
        llc: sets(llc).or_else(whole),
        socket: sets(socket).or_else(whole).filter(|_| !note.contains("ambiguous: socket level")),
        cluster,
    })
}

/// The latencies below the diagonal, from a file that [`Matrix::parse`] accepts.
fn rows(text: &str) -> Option<Vec<Vec<Option<f64>>>> {
    let parse = |(index, line): (usize, &str)| {
        let fields = line.split(',').take(index);
        fields.map(|field| field.parse::<f64>().ok().map(Some)).collect::<Option<Vec<_>>>()
    };
    text.lines().enumerate().map(parse).collect()
}

fn sets(text: &str) -> Option<Sets> {
    let range = |range: &str| -> Option<Vec<usize>> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some((first.parse().ok()?..=last.parse().ok()?).collect())
    };
    let set = |set: &str| -> Option<Vec<usize>> {
        set.split(',').map(range).collect::<Option<Vec<_>>>().map(|ranges| ranges.concat())
    };
    let sets = text.split(';').map(set).collect::<Option<Sets>>()?;
    Some(normal(sets))
}

/// Groups of more than one, in order.
pub fn normal(sets: Sets) -> Sets {
    let mut sets: Sets = sets.into_iter().filter(|set| set.len() > 1).collect();
    sets.iter_mut().for_each(|set| set.sort_unstable());
    sets.sort();
    sets
}

/// Sets of equal keys.
pub fn by_key<K: Ord>(keys: impl Iterator<Item = K>) -> Sets {
    let mut sets: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (item, key) in keys.enumerate() {
        sets.entry(key).or_default().push(item);
    }
    normal(sets.into_values().collect())
}
