// SPDX-License-Identifier: GPL-2.0-only
//! Makes a failing case smaller, as long as it fails.

use super::case::Case;

/// Take away one thing after the other, and keep it away if `fails` still holds.
pub fn minimise(case: &Case, fails: &mut dyn FnMut(&Case) -> bool) -> Case {
    let mut best = case.clone();
    loop {
        let before = best.clone();
        shrink(&mut best, fails, |case| &mut case.events);
        shrink(&mut best, fails, |case| &mut case.competitors);
        shrink_tasks(&mut best, fails);
        for index in 0..best.tasks.len() {
            shrink(&mut best, fails, |case| &mut case.tasks[index].steps);
        }
        let simpler: [fn(&mut Case); 4] = [
            |case| case.smt = false,
            |case| case.floating = false,
            |case| case.steal_clock = false,
            |case| case.length_ms = case.length_ms * 2 / 3,
        ];
        for change in simpler {
            let mut smaller = best.clone();
            change(&mut smaller);
            if smaller != best && fails(&smaller) {
                best = smaller;
            }
        }
        if best == before {
            return best;
        }
    }
}

/// Take out halves, quarters, and so on down to single entries of a list.
fn shrink<T>(
    best: &mut Case,
    fails: &mut dyn FnMut(&Case) -> bool,
    list: impl Fn(&mut Case) -> &mut Vec<T>,
) {
    let mut size = list(best).len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < list(best).len() {
            let mut smaller = best.clone();
            let entries = list(&mut smaller);
            let end = (at + size).min(entries.len());
            entries.drain(at..end);
            if fails(&smaller) {
                *best = smaller;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
}

/// A task is replaced by one that exits at once, so that the numbers of the others stay.
fn shrink_tasks(best: &mut Case, fails: &mut dyn FnMut(&Case) -> bool) {
    for index in (0..best.tasks.len()).rev() {
        let mut smaller = best.clone();
        if index + 1 == smaller.tasks.len() && index > 0 {
            smaller.tasks.pop();
        } else {
            smaller.tasks[index].steps.clear();
        }
        if smaller != *best && fails(&smaller) {
            *best = smaller;
        }
    }
}
