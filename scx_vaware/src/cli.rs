// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use userspace::activity::ActivityOptions;
use userspace::config::{Config, DEFAULT_PATH, Settings};
use userspace::failure::Failure;

use crate::doctor::DoctorOptions;
use crate::flags::Flags;
use crate::package_files::PackageFilesOptions;
use crate::probe::ProbeOptions;
use crate::top::TopOptions;

/// Every exit code and its meaning; docs/operations.md has the same table. `doctor` has those of Nagios plugins.
const EXIT_CODES: [(u8, &str); 12] = [
    (0, "ended as asked"),
    (1, "any other failure"),
    (2, "wrong command line"),
    (3, "probe --check: not met"),
    (4, "probe --check: too little is known"),
    (69, "this kernel cannot run it"),
    (73, "cannot serve metrics there"),
    (75, "another scheduler is loaded"),
    (77, "not enough rights"),
    (78, "wrong configuration"),
    (86, "ejected by the kernel while it ran"),
    (87, "ended from outside by an operator (SysRq-S)"),
];

fn exit_codes() -> String {
    let lines = EXIT_CODES.iter().map(|(code, meaning)| format!("\n  {code:>2}  {meaning}"));
    format!("Exit codes:{}", lines.collect::<String>())
}

/// A vCPU-aware CPU scheduler for the inside of a cloud VM.
#[derive(Parser)]
#[command(version, after_help = exit_codes(), args_conflicts_with_subcommands = true)]
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
    /// Write man pages and shell completions below a folder, for packages.
    #[command(hide = true)]
    PackageFiles(PackageFilesOptions),
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
    /// Read this TOML file first; flags override it. SIGHUP reads it again.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
}

/// How to run.
#[derive(Args, Clone)]
pub struct RunOptions {
    #[command(flatten)]
    pub config: ConfigOptions,
    /// Print a line of statistics every so often, such as 2s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
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
    /// End by itself so long after it was enabled, such as 90s, 5m or 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
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
        Ok(self.flags.0.clone().or(file).into())
    }
}

/// A year. More would overflow the clock somewhere.
const TIME_MAX_S: f64 = 365.0 * 86_400.0;
/// The units that a time may have, in seconds. Without one it is in seconds.
const TIME_UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// A time from 0.1 s to a year: a number with or without a unit.
///
/// # Errors
/// A sentence that shows what to write.
pub fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = Some(&text[number.len()..]).filter(|unit| !unit.is_empty()).unwrap_or("s");
    let unit_s = TIME_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, unit_s)| unit_s);
    let seconds = unit_s.and_then(|unit_s| Some(number.parse::<f64>().ok()? * unit_s));
    seconds
        .filter(|seconds| (0.1..=TIME_MAX_S).contains(seconds))
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "write a time from 100ms to 8760h, such as 90s, 5m or 2h".into())
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
            "scx_vaware --policies none --wait-bound-ms 300 --partial=false \
             --listen off --probe-budget-percent 0.5",
        );
        let shown = config.map(|config| config.to_string()).unwrap_or_default();
        assert!(
            shown.starts_with(
                "policies = []\nwait_bound_ms = 300\npartial = false\n\
                 monitor_only = false\nmove_interrupts = false\nkill_switch = \"/run/scx_vaware/disable\"\n\
                 unload_if_worse_percent = 0.0\nejections_max = 3\nstart_jitter_s = 0\nlisten = \"off\"\nprobe_budget_percent = 0.5\n"
            ),
            "{shown}"
        );
    }

    #[test]
    fn the_operators_page_has_every_exit_code_with_its_meaning() {
        let page = include_str!("../../docs/operations.md");
        let table = page.lines().skip_while(|line| !line.starts_with("| code |")).skip(2);
        let published: Vec<_> = table
            .map_while(|line| {
                let (code, rest) = line.strip_prefix('|')?.split_once('|')?;
                Some((code.trim().parse::<u8>().ok()?, rest.split('|').next()?.trim().to_string()))
            })
            .collect();
        let known: Vec<_> =
            EXIT_CODES.iter().map(|(code, meaning)| (*code, meaning.to_string())).collect();
        assert_eq!(published, known);
    }

    #[test]
    fn every_failure_has_an_exit_code_of_the_table() {
        let why = String::new;
        let failures = [
            Failure::Unavailable(why()),
            Failure::Listen(why()),
            Failure::Busy(why()),
            Failure::Permission(why()),
            Failure::Config(why()),
            Failure::Ejected { why: why(), report: why() },
            Failure::Dismissed(why()),
            Failure::Other(anyhow::anyhow!("")),
        ];
        for failure in failures {
            let code = failure.exit_code();
            assert!(EXIT_CODES.iter().any(|(known, _)| *known == code), "{code} is not published");
        }
    }

    #[test]
    fn a_switch_takes_its_value_with_and_without_a_sign() {
        for (line, partial) in [
            ("scx_vaware --partial false", false),
            ("scx_vaware --partial=false", false),
            ("scx_vaware --partial true --stats 2", true),
            ("scx_vaware --partial --stats 2", true),
        ] {
            assert_eq!(config(line).map(|config| config.partial), Some(partial), "{line}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, ms) in [
            ("2", 2000),
            ("0.5", 500),
            ("100ms", 100),
            ("2s", 2000),
            ("1m", 60_000),
            ("2h", 7_200_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in
            ["", "s", "1d", "1 m", "-1", "0", "nan", "inf", "infinity", "1e18", "9e999", "1m30s"]
        {
            assert!(duration(text).is_err_and(|error| error.contains("5m")), "{text}");
        }
    }

    /// What each flag says of a wrong value: what to write instead, in nobody's type names.
    #[test]
    fn a_wrong_value_is_answered_by_what_to_write() {
        for (line, way_out) in [
            ("scx_vaware --partial perhaps", "write true or false"),
            ("scx_vaware --wait-bound-ms 5", "write a whole number from 100 to 10000"),
            ("scx_vaware --wait-bound-ms=-5", "write a whole number from 100 to 10000"),
            ("scx_vaware --wait-bound-ms 99999999999999999999", "a whole number from 100 to 10000"),
            ("scx_vaware --probe-light-ms x", "write a whole number from 200 to 60000"),
            ("scx_vaware --probe-budget-percent nan", "write a number from 0 to 10"),
            ("scx_vaware --listen myhost:9817", "such as 127.0.0.1:9817"),
            ("scx_vaware --for 1d", "such as 90s, 5m or 2h"),
            ("scx_vaware top --from 9817", "such as 127.0.0.1:9817"),
            ("scx_vaware probe --budget 11", "from 0 to 10"),
        ] {
            let refused = Arguments::try_parse_from(line.split_whitespace());
            let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(way_out), "{line}: {said}");
            assert!(!["u64", "i64", "f64", "..="].iter().any(|word| said.contains(word)), "{said}");
        }
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
