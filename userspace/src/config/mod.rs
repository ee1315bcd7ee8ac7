// SPDX-License-Identifier: GPL-2.0-only
//! What an operator can set. [`Settings`] is what was written, in a file or as flags; [`Config`] is
//! what follows from it. A key stands in one place: in [`KEYS`].

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Value;
use toml::de::{DeTable, ValueDeserializer};

use crate::failure::Failure;
use crate::policy::PolicySet;
use crate::text_file;

mod keys;
mod listen;
#[cfg(test)]
mod tests;

pub use keys::{KEYS, Key, probe_budget_percent};
pub use listen::{Listen, address};

/// Where a packaged configuration file is.
pub const DEFAULT_PATH: &str = "/etc/scx_vaware.toml";
/// A file with every key and a page about each is a tenth of it.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// What an error message quotes of a file at most.
const QUOTE_CHARS: usize = 60;

/// The configuration that is in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The policies that are on.
    pub policies: PolicySet,
    /// No runnable task waits longer than this for a vCPU that runs.
    pub wait_bound: Duration,
    /// Schedule only tasks that asked for SCHED_EXT, and leave the others to the kernel.
    pub partial: bool,
    /// Look on and export what is found; load no scheduler.
    pub monitor_only: bool,
    /// Keep interrupts and unbound kernel work away from banned vCPUs.
    pub move_interrupts: bool,
    /// While this file is there, no scheduler is loaded.
    pub kill_switch: PathBuf,
    /// A loss against the kernel's own scheduler from which this one is unloaded; 0: never compare.
    pub unload_if_worse_ratio: f64,
    /// After so many ejections since boot, no scheduler is loaded.
    pub ejections_max: u64,
    /// The scheduler is loaded at a random time within this after the start.
    pub start_jitter: Duration,
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
            monitor_only: false,
            move_interrupts: false,
            kill_switch: "/run/scx_vaware/disable".into(),
            unload_if_worse_ratio: 0.0,
            // Below the number of starts after which the shipped unit is given up.
            ejections_max: 3,
            start_jitter: Duration::ZERO,
            listen: Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 9817))),
            probing: probers::vcap::Settings::default(),
        }
    }
}

/// The keys that were written, each with a value that it accepts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<&'static str, Value>);

impl Settings {
    /// Those of the packaged file, which need not be there, nor readable for all.
    pub fn installed() -> Self {
        Self::read(Path::new(DEFAULT_PATH)).unwrap_or_default()
    }

    /// Read the TOML file at `path`.
    ///
    /// # Errors
    /// [`Failure::Config`] with file, line and reason.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = text_file::read(path, FILE_BYTES_MAX).map_err(|reason| {
            Failure::Config(format!("cannot read the configuration {shown}: {reason}"))
        })?;
        Self::parse(&text).map_err(|reason| Failure::Config(format!("{shown}, {reason}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            format!(
                "line {}: this is not TOML ({}); write lines such as partial = false",
                line(at),
                quote(error.message())
            )
        })?;
        let mut settings = Self::default();
        for (name, value) in table.into_inner() {
            let at = line(name.span().start);
            let Some(key) = Key::find(name.get_ref()) else {
                let known: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                let name = quote(name.get_ref());
                let known = known.join(", ");
                return Err(format!("line {at}: there is no key {name}; choose from {known}"));
            };
            let written = quote(text.get(value.span()).unwrap_or_default());
            // What is beyond every number's range is no value at all to the deserializer.
            let value = Value::deserialize(ValueDeserializer::from(value)).ok();
            value
                .as_ref()
                .map_or_else(|| key.refuse(), |value| key.set(&mut Config::default(), value))
                .map_err(|reason| {
                    format!("line {at}: {} = {written} cannot be; {reason}", key.name)
                })?;
            settings.0.extend(value.map(|value| (key.name, value)));
        }
        Ok(settings)
    }

    pub(crate) fn one(key: &Key, value: Value) -> Self {
        Self(BTreeMap::from([(key.name, value)]))
    }

    /// These settings, and where they say nothing those of `other`.
    pub fn or(self, mut other: Self) -> Self {
        other.0.extend(self.0);
        other
    }
}

impl From<Settings> for Config {
    fn from(settings: Settings) -> Self {
        let mut config = Self::default();
        for (name, value) in &settings.0 {
            // Settings hold accepted values alone, so that none is refused here.
            let _ = Key::find(name).map(|key| key.set(&mut config, value));
        }
        config
    }
}

/// The effective configuration, in the file's form.
impl std::fmt::Display for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut config = self.clone();
        KEYS.iter().try_for_each(|key| writeln!(f, "{} = {}", key.name, key.show(&mut config)))
    }
}

/// `text` as a part of a sentence: short, on one line, without control characters.
fn quote(text: &str) -> String {
    let line = text.replace('\n', ", ");
    let mut short: String =
        line.chars().take(QUOTE_CHARS).filter(|char| !char.is_control()).collect();
    if line.chars().nth(QUOTE_CHARS).is_some() {
        short.push_str("...");
    }
    short
}
