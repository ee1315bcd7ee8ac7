// SPDX-License-Identifier: GPL-2.0-only
//! What an operator can set. [`Settings`] is what was written, in a file or as flags; [`Config`] is
//! what follows from it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::policy::PolicySet;

/// Where a packaged configuration file is.
pub const DEFAULT_PATH: &str = "/etc/scx_vaware.toml";

/// The bounds within which the wait bound can be set: longer than a few slices of a busy queue, and
/// well below the 30 s after which the kernel's watchdog ejects a scheduler.
const WAIT_BOUND_MS: std::ops::RangeInclusive<u64> = 100..=10_000;

/// Probing beyond this would be a load of its own.
const PROBE_BUDGET_PERCENT: std::ops::RangeInclusive<f64> = 0.0..=10.0;
const PROBE_LIGHT_MS: std::ops::RangeInclusive<u64> = 200..=60_000;
const PROBE_HEAVY_MAX_S: std::ops::RangeInclusive<u64> = 10..=3600;
const PROBE_HALF_LIFE_MS: std::ops::RangeInclusive<u64> = 100..=600_000;
const PROBE_TOPOLOGY_MS: std::ops::RangeInclusive<u64> = 500..=600_000;

/// The keys of the file and the flags of the same names, so that each key has its flag. What is
/// `None` was not written.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Switch on just these policies: names joined by commas, "all" or "none".
    #[arg(long, value_name = "NAMES")]
    pub policies: Option<PolicySet>,
    /// Let no runnable task wait longer than this for a vCPU that runs (100 to 10000).
    #[arg(long, value_name = "MS", value_parser = wait_bound_ms)]
    pub wait_bound_ms: Option<u64>,
    /// Schedule only tasks that asked for SCHED_EXT, and leave the others to the kernel.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub partial: Option<bool>,
    /// Load even where cgroups limit CPU time: cpu.max does not hold under sched_ext.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub allow_quota: Option<bool>,
    /// Serve metrics at this address and port, or "off".
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<Listen>,
    /// Use at most so much of each vCPU for probing (0 to 10; 0: look on only).
    #[arg(long, value_name = "PERCENT", value_parser = probe_budget_percent)]
    pub probe_budget_percent: Option<f64>,
    /// Look at idle vCPUs for a moment every so often (200 to 60000).
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(PROBE_LIGHT_MS))]
    pub probe_light_ms: Option<u64>,
    /// Look closely every so often at least (10 to 3600); more often while things change.
    #[arg(long, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(PROBE_HEAVY_MAX_S))]
    pub probe_heavy_max_s: Option<u64>,
    /// Let what was seen lose half of its weight in this time (100 to 600000).
    #[arg(long, value_name = "MS",
          value_parser = clap::value_parser!(u64).range(PROBE_HALF_LIFE_MS))]
    pub probe_half_life_ms: Option<u64>,
    /// Check the topology every so often, unless that takes more than the budget (500 to 600000).
    #[arg(long, value_name = "MS",
          value_parser = clap::value_parser!(u64).range(PROBE_TOPOLOGY_MS))]
    pub probe_topology_ms: Option<u64>,
}

impl Settings {
    /// Read the TOML file at `path`.
    ///
    /// # Errors
    /// [`Failure::Config`] with file, line and reason.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::Config(format!(
                "cannot read the configuration {shown}: {error}; check the path and its rights"
            ))
        })?;
        Self::parse(&text).map_err(|reason| {
            Failure::Config(format!("{shown}: {reason}; correct it and try again"))
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            format!("line {line}: {}", error.message().replace('\n', ", "))
        })?;
        if let Some(ms) = settings.wait_bound_ms {
            check_wait_bound(ms)?;
        }
        settings.check_probing()?;
        Ok(settings)
    }

    /// Whether what was written about probing is within its bounds.
    fn check_probing(&self) -> Result<(), String> {
        if let Some(percent) = self.probe_budget_percent {
            check_probe_budget(percent)?;
        }
        for (key, value, range) in [
            ("probe_light_ms", self.probe_light_ms, PROBE_LIGHT_MS),
            ("probe_heavy_max_s", self.probe_heavy_max_s, PROBE_HEAVY_MAX_S),
            ("probe_half_life_ms", self.probe_half_life_ms, PROBE_HALF_LIFE_MS),
            ("probe_topology_ms", self.probe_topology_ms, PROBE_TOPOLOGY_MS),
        ] {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                let (low, high) = range.into_inner();
                return Err(format!("{key} = {value} is out of range; choose {low} to {high}"));
            }
        }
        Ok(())
    }

    /// These settings, and where they say nothing those of `other`.
    pub fn or(self, other: Self) -> Self {
        Self {
            policies: self.policies.or(other.policies),
            wait_bound_ms: self.wait_bound_ms.or(other.wait_bound_ms),
            partial: self.partial.or(other.partial),
            allow_quota: self.allow_quota.or(other.allow_quota),
            listen: self.listen.or(other.listen),
            probe_budget_percent: self.probe_budget_percent.or(other.probe_budget_percent),
            probe_light_ms: self.probe_light_ms.or(other.probe_light_ms),
            probe_heavy_max_s: self.probe_heavy_max_s.or(other.probe_heavy_max_s),
            probe_half_life_ms: self.probe_half_life_ms.or(other.probe_half_life_ms),
            probe_topology_ms: self.probe_topology_ms.or(other.probe_topology_ms),
        }
    }
}

/// The configuration that is in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The policies that are on. The one thing that can change while the scheduler runs.
    pub policies: PolicySet,
    /// No runnable task waits longer than this for a vCPU that runs.
    pub wait_bound: Duration,
    /// Schedule only tasks that asked for SCHED_EXT, and leave the others to the kernel.
    pub partial: bool,
    /// Load even where cgroups limit CPU time.
    pub allow_quota: bool,
    /// Where metrics are served.
    pub listen: Listen,
    /// How the vCPUs are probed.
    pub probing: probers::vcap::Settings,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policies: PolicySet::all(),
            wait_bound: Duration::from_secs(1),
            partial: false,
            allow_quota: false,
            listen: Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 9817))),
            probing: probers::vcap::Settings::default(),
        }
    }
}

impl From<Settings> for Config {
    fn from(settings: Settings) -> Self {
        let default = Self::default();
        let mut probing = default.probing;
        if let Some(percent) = settings.probe_budget_percent {
            probing.budget_ratio = percent / 100.0;
        }
        if let Some(ms) = settings.probe_light_ms {
            probing.light_interval = Duration::from_millis(ms);
        }
        if let Some(seconds) = settings.probe_heavy_max_s {
            probing.heavy_interval_max = Duration::from_secs(seconds);
        }
        if let Some(ms) = settings.probe_half_life_ms {
            probing.half_life = Duration::from_millis(ms);
        }
        if let Some(ms) = settings.probe_topology_ms {
            probing.topology_interval = Duration::from_millis(ms);
        }
        Self {
            policies: settings.policies.unwrap_or(default.policies),
            wait_bound: settings.wait_bound_ms.map_or(default.wait_bound, Duration::from_millis),
            partial: settings.partial.unwrap_or(default.partial),
            allow_quota: settings.allow_quota.unwrap_or(default.allow_quota),
            listen: settings.listen.unwrap_or(default.listen),
            probing,
        }
    }
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Self {
            policies: Some(config.policies),
            wait_bound_ms: Some(config.wait_bound.as_millis() as u64),
            partial: Some(config.partial),
            allow_quota: Some(config.allow_quota),
            listen: Some(config.listen),
            probe_budget_percent: Some(config.probing.budget_ratio * 100.0),
            probe_light_ms: Some(config.probing.light_interval.as_millis() as u64),
            probe_heavy_max_s: Some(config.probing.heavy_interval_max.as_secs()),
            probe_half_life_ms: Some(config.probing.half_life.as_millis() as u64),
            probe_topology_ms: Some(config.probing.topology_interval.as_millis() as u64),
        }
    }
}

/// The effective configuration, in the file's form.
impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&toml::to_string(&Settings::from(self)).map_err(|_| std::fmt::Error)?)
    }
}

/// Where metrics are served. Written as `ADDR:PORT` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Listen {
    Off,
    At(SocketAddr),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|_| {
            format!("{text:?} is no address with a port; write one such as 127.0.0.1:9817, or off")
        })
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        match listen {
            Listen::Off => "off".into(),
            Listen::At(address) => address.to_string(),
        }
    }
}

/// The percentage in `text`, if probing may use as much.
///
/// # Errors
/// A sentence that names the bounds.
pub fn probe_budget_percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().map_err(|_| format!("{text:?} is no percentage; choose 0 to 10"))?;
    check_probe_budget(percent)?;
    Ok(percent)
}

fn check_probe_budget(percent: f64) -> Result<(), String> {
    if PROBE_BUDGET_PERCENT.contains(&percent) {
        return Ok(());
    }
    Err(format!("a probe budget of {percent} % is out of range; choose 0 to 10"))
}

/// The wait bound in `text`, if it is one that can be kept.
fn wait_bound_ms(text: &str) -> Result<u64, String> {
    let ms = text.parse().map_err(|_| format!("{text:?} is no number of milliseconds"))?;
    check_wait_bound(ms)?;
    Ok(ms)
}

fn check_wait_bound(ms: u64) -> Result<(), String> {
    if WAIT_BOUND_MS.contains(&ms) {
        return Ok(());
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

    fn config(text: &str) -> Result<Config, String> {
        Settings::parse(text).map(Config::from)
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(config(""), Ok(Config::default()));
    }

    #[test]
    fn the_file_that_is_shipped_says_the_defaults() {
        let shipped = include_str!("../../deploy/scx_vaware.toml");
        let written = Settings::parse(shipped);
        assert_eq!(written, Ok(Settings::from(&Config::default())));
    }

    #[test]
    fn every_key_is_read_and_shown() {
        let text = "policies = [\"sync\"]\nwait_bound_ms = 500\npartial = true\n\
                    allow_quota = true\nlisten = \"[::1]:1234\"\n\
                    probe_budget_percent = 2.0\nprobe_light_ms = 500\n\
                    probe_heavy_max_s = 30\nprobe_half_life_ms = 4000\nprobe_topology_ms = 3000\n";
        let read = config(text);
        assert_eq!(
            read,
            Ok(Config {
                policies: "sync".parse().unwrap_or(PolicySet::all()),
                wait_bound: Duration::from_millis(500),
                partial: true,
                allow_quota: true,
                listen: Listen::At("[::1]:1234".parse().unwrap_or(([0; 4], 0).into())),
                probing: probers::vcap::Settings {
                    budget_ratio: 0.02,
                    light_interval: Duration::from_millis(500),
                    heavy_interval_max: Duration::from_secs(30),
                    half_life: Duration::from_secs(4),
                    topology_interval: Duration::from_secs(3),
                    ..Default::default()
                },
            })
        );
        assert_eq!(read.map(|config| config.to_string()), Ok(text.into()));
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let off = Config { listen: Listen::Off, ..Config::default() };
        assert_eq!(config(&off.to_string()), Ok(off));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line, named) in [
            ("polices = []", 1, "polices"),
            ("partial = true\n\npolicies = [\"turbo\"]", 3, "turbo"),
            ("wait_bound_ms = -5", 1, "u64"),
            ("partial = 1", 1, "boolean"),
            ("\nlisten = \"9817\"", 2, "127.0.0.1:9817"),
            ("listen = \n", 1, "line 1"),
            ("policies = 3", 1, "a list of names"),
        ] {
            let error = config(text).err().unwrap_or_default();
            assert!(error.starts_with(&format!("line {line}: ")), "{text}: {error}");
            assert!(error.contains(named) && !error.contains('\n'), "{text}: {error}");
        }
        assert!(
            config("probe_budget_percent = 11.0").is_err_and(|error| error.contains("0 to 10"))
        );
        assert!(config("probe_light_ms = 5").is_err_and(|error| error.contains("200 to 60000")));
        assert!(config("wait_bound_ms = 5").is_err_and(|error| error.contains("100 to 10000")));
    }

    #[test]
    fn settings_override_others_key_by_key() {
        let file = Settings { partial: Some(true), wait_bound_ms: Some(300), ..Default::default() };
        let flags = Settings { partial: Some(false), ..Default::default() };
        let both = flags.or(file);
        assert_eq!((both.partial, both.wait_bound_ms), (Some(false), Some(300)));
    }
}
