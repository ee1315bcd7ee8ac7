// SPDX-License-Identifier: GPL-2.0-only
//! Results on stdout. A full disk or a closed terminal is a failure with a sentence, not a panic.

use std::io::{ErrorKind, Write, stderr, stdout};

use anyhow::{Context, anyhow};
use serde::Serialize;
use userspace::events::Priority;
use userspace::failure::Failure;
use userspace::text_file::plain;

use crate::journal;

/// Print `text`, as it is.
///
/// # Errors
/// If it cannot be written. A reader that has seen enough and has gone, as `head` does, is none.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(anyhow!(
            "cannot write to standard output: {}; make room there, or write elsewhere",
            plain(&error)
        )
        .into()),
        _ => Ok(()),
    }
}

/// Print `value` as JSON for people.
///
/// # Errors
/// As [`print`].
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print(&(serde_json::to_string_pretty(value).context("writing JSON")? + "\n"))
}

/// Say `text` on stderr, if anybody hears it.
pub fn complain(text: impl std::fmt::Display) {
    let _ = stderr().write_all(journal::lines(Priority::Error, &text.to_string()).as_bytes());
}
