// SPDX-License-Identifier: GPL-2.0-only
//! The activity log: one line of JSON for each stop of a vCPU.

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use userspace::failure::Failure;
use userspace::scheduler::Scheduler;

use crate::sinks::Sink;

/// Create the log at `path`, or empty it.
///
/// # Errors
/// [`Failure::Config`] if that is not possible.
pub fn create(path: &Path) -> Result<Sink, Failure> {
    let file = File::create(path).map_err(|error| {
        Failure::Config(format!(
            "cannot write the activity log {}: {error}; choose another file",
            path.display()
        ))
    })?;
    Ok(Sink::new("activity_log", file).context("starting to write the activity log")?)
}

/// Write down the stops that were found since the last call.
///
/// # Errors
/// What the kernel said of a map that was there at load.
pub fn drain(scheduler: &Scheduler, log: &Sink) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    scheduler.take_gaps(|gap| {
        if let Ok(line) = serde_json::to_vec(&gap) {
            lines.extend(line);
            lines.push(b'\n');
        }
    })?;
    if !lines.is_empty() {
        log.write(lines);
    }
    Ok(())
}
