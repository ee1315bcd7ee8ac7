// SPDX-License-Identifier: GPL-2.0-only
//! A violation as text.

use std::fmt::Write;

use crate::run::Outcome;

/// A violation with the trace that led to it.
pub fn violation(outcome: &Outcome) -> Option<String> {
    let violation = outcome.violation.as_ref()?;
    let mut out = format!("violation at {} ns: {}\n", violation.at_ns, violation.what);
    for entry in outcome.last.iter().rev().take(200).rev() {
        let _ = writeln!(out, "{entry}");
    }
    Some(out)
}
