// SPDX-License-Identifier: GPL-2.0-only
//! The configuration file, and what is the default without one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::failure::Failure;
use crate::policy::PolicySet;

/// The bounds within which the wait bound can be set: longer than a few slices of a busy queue, and
/// well below the 30 s after which the kernel's watchdog ejects a scheduler.
const WAIT_BOUND_MS: std::ops::RangeInclusive<u64> = 100..=10_000;

/// What an operator can set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The policies that are on. Can change while the scheduler runs.
    pub policies: PolicySet,
    /// No runnable task waits longer than this for a vCPU that runs.
    pub wait_bound: Duration,
    /// Schedule only tasks that asked for SCHED_EXT, and leave the others to the kernel.
    pub partial: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { policies: PolicySet::all(), wait_bound: Duration::from_secs(1), partial: false }
    }
}

/// The file's form: every key optional, unknown ones refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    policies: Option<Vec<String>>,
    wait_bound_ms: Option<u64>,
    partial: Option<bool>,
}

impl Config {
    /// Read the TOML file at `path`.
    ///
    /// # Errors
    /// [`Failure::Config`] with file, line and reason.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::Config(format!(
                "cannot read the configuration {shown}: {error}; check --config"
            ))
        })?;
        Self::parse(&text).map_err(|reason| {
            Failure::Config(format!("{shown}: {reason}; correct it and try again"))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: File =
            toml::from_str(text).map_err(|error| error.to_string().trim().to_string())?;
        let mut config = Self::default();
        if let Some(names) = file.policies {
            config.policies = PolicySet::from_names(&names)?;
        }
        if let Some(ms) = file.wait_bound_ms {
            config.wait_bound = wait_bound(ms)?;
        }
        if let Some(partial) = file.partial {
            config.partial = partial;
        }
        Ok(config)
    }
}

/// The wait bound of `ms` milliseconds, if it is one that can be kept.
///
/// # Errors
/// A sentence with the range.
pub fn wait_bound(ms: u64) -> Result<Duration, String> {
    if WAIT_BOUND_MS.contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    Err(format!(
        "a wait bound of {ms} ms is out of range; choose {} to {} ms",
        WAIT_BOUND_MS.start(),
        WAIT_BOUND_MS.end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse(""), Ok(Config::default()));
    }

    #[test]
    fn every_key_is_read() {
        let config = Config::parse("policies = []\nwait_bound_ms = 500\npartial = true\n");
        assert_eq!(
            config,
            Ok(Config {
                policies: "none".parse().unwrap_or(PolicySet::all()),
                wait_bound: Duration::from_millis(500),
                partial: true,
            })
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("polices = []", "polices"),
            ("policies = [\"turbo\"]", "turbo"),
            ("wait_bound_ms = 5", "100"),
            ("wait_bound_ms = -5", "wait_bound_ms"),
            ("partial = 1", "partial"),
        ] {
            let error = Config::parse(text).err().unwrap_or_default();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
