// SPDX-License-Identifier: GPL-2.0-only
//! The tables in docs/ name what there is: keys, series, policies, counters; no more and no less.

use std::collections::{BTreeMap, BTreeSet};

use intf::COUNTERS;
use userspace::config::{Config, KEYS};
use userspace::metrics::{Format, render};
use userspace::policy::POLICIES;
use userspace::simulated::sample;

const OPERATIONS: &str = include_str!("../../docs/operations.md");
const POLICY_PAGE: &str = include_str!("../../docs/policies.md");

/// The cells of each row of the tables whose first column has this heading, without backticks.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut in_table = false;
    for line in page.lines() {
        let Some(row) = line.strip_prefix('|') else {
            in_table = false;
            continue;
        };
        let cells: Vec<_> =
            row.split('|').map(|cell| cell.replace('`', "").trim().to_string()).collect();
        if in_table && !cells[0].starts_with("---") {
            found.push(cells);
        } else if cells[0] == heading {
            in_table = true;
        }
    }
    found
}

fn first_cells(page: &str, heading: &str) -> BTreeSet<String> {
    rows(page, heading).into_iter().map(|cells| cells[0].clone()).collect()
}

#[test]
fn every_key_is_published_with_its_range_and_default() {
    let shown = Config::default().to_string();
    let defaults: BTreeMap<_, _> =
        shown.lines().filter_map(|line| line.split_once(" = ")).collect();
    let rows = rows(OPERATIONS, "key");
    assert_eq!(rows.len(), KEYS.len());
    for (cells, key) in rows.iter().zip(&KEYS) {
        let (name, range, default) = (&cells[0], &cells[2], &cells[3]);
        assert_eq!(name, key.name);
        let help = key.help();
        if help.ends_with(')') {
            assert!(help.ends_with(&format!("({range})")), "{name}: {range}, but {help}");
        }
        if name != "policies" {
            assert_eq!(Some(&default.as_str()), defaults.get(name.as_str()), "{name}");
        }
    }
}

#[test]
fn every_series_is_published_with_its_labels() {
    let page = render(sample(4), Format::Classic);
    let mut exported: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in page.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            exported.insert(declared.split(' ').next().unwrap_or_default(), BTreeSet::new());
        } else if let Some((name, rest)) = line.split_once('{') {
            let labels = rest.split("\",").filter_map(|label| label.split('=').next());
            let family = name.strip_suffix("_bucket").unwrap_or(name);
            if let Some(known) = exported.get_mut(family) {
                known.extend(labels.filter(|label| *label != "le"));
            }
        }
    }
    let rows = rows(OPERATIONS, "series");
    let published: BTreeMap<_, BTreeSet<_>> = rows
        .iter()
        .map(|cells| {
            let labels = cells[1].split(", ").filter(|label| !label.is_empty());
            (cells[0].as_str(), labels.collect())
        })
        .collect();
    assert_eq!(published, exported);
}

#[test]
fn every_policy_has_a_section_and_every_counter_a_line() {
    for policy in POLICIES {
        let heading = format!("\n## {}\n", policy.name);
        assert!(POLICY_PAGE.contains(&heading), "{} has no section", policy.name);
    }
    let counters: BTreeSet<_> = COUNTERS.iter().map(ToString::to_string).collect();
    assert_eq!(first_cells(POLICY_PAGE, "counter"), counters);
}
