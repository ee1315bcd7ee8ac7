// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use userspace::config::Config;
use userspace::failure::Failure;
use userspace::policy::PolicySet;

const EXIT_CODES: &str = "\
Exit codes:
   0  ended as asked             69  this kernel cannot run it     77  not enough rights
   1  any other failure          75  another scheduler is loaded   78  wrong configuration
   2  wrong command line                                           86  ejected while it ran";

/// A vCPU-aware CPU scheduler for the inside of a cloud VM.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunOptions,
}

#[derive(Subcommand)]
enum Command {
    /// Load the scheduler and keep it until SIGINT or SIGTERM (the default).
    Run(RunOptions),
}

/// How to run.
#[derive(Args, Clone)]
pub struct RunOptions {
    /// Read this TOML file first; flags override it. SIGHUP reads its policies again.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Switch on just these policies: names joined by commas, "all" or "none".
    #[arg(long, value_name = "NAMES")]
    policies: Option<PolicySet>,
    /// Let no runnable task wait longer than this for a vCPU that runs (100 to 10000).
    #[arg(long, value_name = "MS", value_parser = wait_bound)]
    wait_bound_ms: Option<Duration>,
    /// Schedule only tasks that asked for SCHED_EXT, and leave the others to the kernel.
    #[arg(long)]
    partial: bool,
    /// Print a line of statistics every so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stats: Option<Duration>,
    /// With --stats: print a line for each vCPU, too.
    #[arg(long, requires = "stats")]
    pub per_vcpu: bool,
    /// End by itself so many seconds after it was enabled.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub run_for: Option<Duration>,
}

impl Arguments {
    /// The options of the command that was given.
    pub fn options(self) -> RunOptions {
        match self.command {
            Some(Command::Run(options)) => options,
            None => self.run,
        }
    }
}

impl RunOptions {
    /// The configuration that file and flags give together. Read anew at each call.
    ///
    /// # Errors
    /// [`Failure::Config`] for the file.
    pub fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => Config::read(path)?,
            None => Config::default(),
        };
        if let Some(policies) = self.policies {
            config.policies = policies;
        }
        if let Some(wait_bound) = self.wait_bound_ms {
            config.wait_bound = wait_bound;
        }
        config.partial |= self.partial;
        Ok(config)
    }
}

fn wait_bound(text: &str) -> Result<Duration, String> {
    let ms = text.parse().map_err(|_| format!("{text:?} is no number of milliseconds"))?;
    userspace::config::wait_bound(ms)
}

/// A positive number of seconds, with or without a trailing `s`.
fn seconds(text: &str) -> Result<Duration, String> {
    text.trim_end_matches('s')
        .parse()
        .ok()
        .filter(|seconds| *seconds >= 0.1)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("{text:?} is no number of seconds from 0.1 on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<RunOptions, clap::Error> {
        Arguments::try_parse_from(line.split_whitespace()).map(Arguments::options)
    }

    #[test]
    fn run_is_the_default_command() {
        for line in ["scx_vaware --stats 2 --partial", "scx_vaware run --stats 2s --partial"] {
            let options = parse(line).ok();
            assert_eq!(options.as_ref().and_then(|o| o.stats), Some(Duration::from_secs(2)));
            let config = options.and_then(|options| options.config().ok());
            assert_eq!(config.map(|config| config.partial), Some(true));
        }
    }

    #[test]
    fn flags_override_defaults() {
        let config = parse("scx_vaware --policies none --wait-bound-ms 300").ok();
        let config = config.and_then(|options| options.config().ok());
        assert_eq!(config.as_ref().map(|c| c.policies.to_string()), Some("none".into()));
        assert_eq!(config.map(|c| c.wait_bound), Some(Duration::from_millis(300)));
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "scx_vaware --policies turbo",
            "scx_vaware --wait-bound-ms 50000",
            "scx_vaware --stats -1",
            "scx_vaware --per-vcpu",
            "scx_vaware --for nan",
            "scx_vaware walk",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
