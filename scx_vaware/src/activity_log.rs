// SPDX-License-Identifier: GPL-2.0-only
//! The activity log: one line of JSON for each stop of a vCPU.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use userspace::failure::Failure;
use userspace::scheduler::Scheduler;

/// A file that stops are written to.
pub struct ActivityLog {
    path: PathBuf,
    file: BufWriter<File>,
}

impl ActivityLog {
    /// Create the file at `path`, or empty it.
    ///
    /// # Errors
    /// [`Failure::Config`] if that is not possible.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| {
            Failure::Config(format!(
                "cannot write the activity log {}: {error}; choose another file",
                path.display()
            ))
        })?;
        Ok(Self { path: path.into(), file: BufWriter::new(file) })
    }

    /// Write down the stops that were found since the last call.
    ///
    /// # Errors
    /// The file cannot be written any more.
    pub fn drain(&mut self, scheduler: &Scheduler) -> anyhow::Result<()> {
        let mut gaps = Vec::new();
        scheduler.take_gaps(|gap| gaps.push(gap))?;
        for gap in gaps {
            serde_json::to_writer(&mut self.file, &gap)?;
            self.file.write_all(b"\n")?;
        }
        self.file.flush().with_context(|| {
            format!("cannot write the activity log {}; free some space", self.path.display())
        })
    }
}
