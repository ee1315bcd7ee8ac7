// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use userspace::activity::ActivityOptions;
use userspace::config::{Config, DEFAULT_PATH, Settings};
use userspace::failure::Failure;

use crate::doctor::DoctorOptions;
use crate::probe::ProbeOptions;
use crate::top::TopOptions;

const EXIT_CODES: &str = "\
Exit codes:
   0  ended as asked                      75  another scheduler is loaded
   1  any other failure                   77  not enough rights
   2  wrong command line                  78  wrong configuration
   3  probe --check: not met              79  cgroups limit CPU time, see --allow-quota
   4  probe --check: too little is known  86  ejected by the kernel while it ran
  69  this kernel cannot run it           87  ended from outside by an operator (SysRq-S)
  73  cannot serve metrics there";

/// A vCPU-aware CPU scheduler for the inside of a cloud VM.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunOptions,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Load the scheduler and keep it until SIGINT or SIGTERM (the default).
    Run(RunOptions),
    /// Show what each vCPU does, from the metrics of the running scheduler; needs no rights.
    Top(TopOptions),
    /// Look at the configuration; changes nothing, needs no rights.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Find out what the vCPUs really are. Needs neither root nor sched_ext.
    Probe(ProbeOptions),
    /// Examine whether it can run here, and whether it is worth it here. Exit codes as those of Nagios
    /// plugins: 0 fine, 1 warning, 2 critical, 3 not known.
    Doctor(DoctorOptions),
}

/// What to do about the configuration.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check a configuration file. Exit code 78 and a sentence if it is wrong.
    Check {
        #[arg(value_name = "FILE", default_value = DEFAULT_PATH)]
        file: PathBuf,
    },
    /// Show the configuration that file and flags would give, as a file.
    Show(ConfigOptions),
}

/// Where the configuration comes from.
#[derive(Args, Clone)]
pub struct ConfigOptions {
    /// Read this TOML file first; flags override it. SIGHUP reads its policies again.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

/// How to run.
#[derive(Args, Clone)]
pub struct RunOptions {
    #[command(flatten)]
    pub config: ConfigOptions,
    /// Print a line of statistics every so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stats: Option<Duration>,
    /// With --stats: print a line for each vCPU, too.
    #[arg(long, requires = "stats")]
    pub per_vcpu: bool,
    /// Write each stop of a vCPU that was found to this file, as a line of JSON.
    #[arg(long, value_name = "FILE")]
    pub activity_log: Option<PathBuf>,
    /// Go by KVM's steal clock even where no hypervisor announces it: for tests that imitate one.
    #[arg(long, hide = true)]
    trust_steal_clock: bool,
    /// Do not look at the vCPUs' activity: for measuring what that costs.
    #[arg(long, hide = true)]
    no_activity: bool,
    /// End by itself so many seconds after it was enabled.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub run_for: Option<Duration>,
}

impl Arguments {
    /// The command that was given, or the default one.
    pub fn command(self) -> Command {
        self.command.unwrap_or(Command::Run(self.run))
    }
}

impl RunOptions {
    /// How the vCPUs' activity is to be found out.
    pub fn activity(&self) -> ActivityOptions {
        ActivityOptions {
            off: self.no_activity,
            log: self.activity_log.is_some(),
            trust_steal_clock: self.trust_steal_clock,
        }
    }
}

impl ConfigOptions {
    /// The configuration that file and flags give together. Read anew at each call.
    ///
    /// # Errors
    /// [`Failure::Config`] for the file.
    pub fn read(&self) -> Result<Config, Failure> {
        let file = match &self.config {
            Some(path) => Settings::read(path)?,
            None => Settings::default(),
        };
        Ok(self.settings.clone().or(file).into())
    }
}

/// A positive number of seconds, with or without a trailing `s`.
pub fn seconds(text: &str) -> Result<Duration, String> {
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

    fn run_options(line: &str) -> Option<RunOptions> {
        let arguments = Arguments::try_parse_from(line.split_whitespace()).ok()?;
        match arguments.command() {
            Command::Run(options) => Some(options),
            _ => None,
        }
    }

    fn config(line: &str) -> Option<Config> {
        run_options(line)?.config.read().ok()
    }

    #[test]
    fn run_is_the_default_command() {
        for line in ["scx_vaware --stats 2 --partial", "scx_vaware run --stats 2s --partial"] {
            let stats = run_options(line).and_then(|options| options.stats);
            assert_eq!(stats, Some(Duration::from_secs(2)));
            assert_eq!(config(line).map(|config| config.partial), Some(true));
        }
    }

    #[test]
    fn flags_override_defaults() {
        let config = config(
            "scx_vaware --policies none --wait-bound-ms 300 --partial=false --allow-quota \
             --listen off --probe-budget-percent 0.5",
        );
        let shown = config.map(|config| config.to_string()).unwrap_or_default();
        assert!(
            shown.starts_with(
                "policies = []\nwait_bound_ms = 300\npartial = false\nallow_quota = true\n\
                 listen = \"off\"\nprobe_budget_percent = 0.5\n"
            ),
            "{shown}"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            "scx_vaware --policies turbo",
            "scx_vaware --wait-bound-ms 50000",
            "scx_vaware --partial=perhaps",
            "scx_vaware --listen 9817",
            "scx_vaware --probe-budget-percent 11",
            "scx_vaware --probe-light-ms 5",
            "scx_vaware --stats -1",
            "scx_vaware --per-vcpu",
            "scx_vaware --for nan",
            "scx_vaware walk",
            "scx_vaware config",
            "scx_vaware --partial config show",
        ] {
            assert!(Arguments::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
