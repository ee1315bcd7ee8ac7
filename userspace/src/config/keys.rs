// SPDX-License-Identifier: GPL-2.0-only
//! All keys of the configuration: what each is called, accepts and sets.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use toml::Value;

use super::{Config, Listen, Settings};
use crate::policy::{POLICIES, PolicySet};

/// A key of the file, and the flag of the same name.
pub struct Key {
    pub name: &'static str,
    help: &'static str,
    kind: Kind,
}

/// What a key accepts, and the field of the configuration that it sets.
enum Kind {
    Policies(fn(&mut Config) -> &mut PolicySet),
    Switch(fn(&mut Config) -> &mut bool),
    Listen(fn(&mut Config) -> &mut Listen),
    Path(fn(&mut Config) -> &mut PathBuf),
    Number { range: RangeInclusive<u64>, field: fn(&mut Config) -> &mut u64 },
    Time { unit: Unit, range: RangeInclusive<u64>, field: fn(&mut Config) -> &mut Duration },
    Percent { range: RangeInclusive<f64>, ratio: fn(&mut Config) -> &mut f64 },
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Milliseconds,
    Seconds,
}

/// Probing beyond this would be a load of its own.
const PROBE_BUDGET_PERCENT: RangeInclusive<f64> = 0.0..=10.0;

/// All of them, in the order in which they are shown.
pub const KEYS: [Key; 15] = [
    Key {
        name: "policies",
        help: "Switch on just these policies: names joined by commas, \"all\" or \"none\"",
        kind: Kind::Policies(|config| &mut config.policies),
    },
    Key {
        name: "wait_bound_ms",
        help: "Let no runnable task wait longer than this for a vCPU that runs",
        // Longer than a few slices of a busy queue, and well below the 30 s after which the
        // kernel's watchdog ejects a scheduler.
        kind: Kind::Time {
            unit: Unit::Milliseconds,
            range: 100..=10_000,
            field: |config| &mut config.wait_bound,
        },
    },
    Key {
        name: "partial",
        help: "Schedule only tasks that asked for SCHED_EXT, and leave the others to the kernel",
        kind: Kind::Switch(|config| &mut config.partial),
    },
    Key {
        name: "monitor_only",
        help: "Probe the vCPUs and export what is found, and load no scheduler",
        kind: Kind::Switch(|config| &mut config.monitor_only),
    },
    Key {
        name: "move_interrupts",
        help: "Keep device interrupts and unbound kernel work away from banned vCPUs",
        kind: Kind::Switch(|config| &mut config.move_interrupts),
    },
    Key {
        name: "kill_switch",
        help: "While this file is there, load no scheduler; one that is loaded goes within a second",
        kind: Kind::Path(|config| &mut config.kill_switch),
    },
    Key {
        name: "unload_if_worse_percent",
        help: "Compare with the kernel's own scheduler now and then, and unload if more is lost; 0: never",
        // Less is within what comparisons can tell.
        kind: Kind::Percent {
            range: 0.0..=50.0,
            ratio: |config| &mut config.unload_if_worse_ratio,
        },
    },
    Key {
        name: "ejections_max",
        help: "After so many ejections since boot, load no scheduler",
        kind: Kind::Number { range: 1..=100, field: |config| &mut config.ejections_max },
    },
    Key {
        name: "start_jitter_s",
        help: "Load the scheduler at a random time within so long after the start",
        kind: Kind::Time {
            unit: Unit::Seconds,
            range: 0..=86_400,
            field: |config| &mut config.start_jitter,
        },
    },
    Key {
        name: "listen",
        help: "Serve metrics at this address and port, or \"off\"",
        kind: Kind::Listen(|config| &mut config.listen),
    },
    Key {
        name: "probe_budget_percent",
        help: "Use at most so much of each vCPU for probing; 0: look on only",
        kind: Kind::Percent {
            range: PROBE_BUDGET_PERCENT,
            ratio: |config| &mut config.probing.budget_ratio,
        },
    },
    Key {
        name: "probe_light_ms",
        help: "Look at idle vCPUs for a moment every so often",
        kind: Kind::Time {
            unit: Unit::Milliseconds,
            range: 200..=60_000,
            field: |config| &mut config.probing.light_interval,
        },
    },
    Key {
        name: "probe_heavy_max_s",
        help: "Look closely every so often at least; more often while things change",
        kind: Kind::Time {
            unit: Unit::Seconds,
            range: 10..=3600,
            field: |config| &mut config.probing.heavy_interval_max,
        },
    },
    Key {
        name: "probe_half_life_ms",
        help: "Let what was seen lose half of its weight in this time",
        kind: Kind::Time {
            unit: Unit::Milliseconds,
            range: 100..=600_000,
            field: |config| &mut config.probing.half_life,
        },
    },
    Key {
        name: "probe_topology_ms",
        help: "Check the topology every so often, unless that takes more than the budget",
        kind: Kind::Time {
            unit: Unit::Milliseconds,
            range: 500..=600_000,
            field: |config| &mut config.probing.topology_interval,
        },
    },
];

impl Key {
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Set the field to `value`.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    pub(super) fn set(&self, config: &mut Config, value: &Value) -> Result<(), String> {
        let refuse = || self.refuse();
        match (&self.kind, value) {
            (Kind::Policies(field), Value::String(text)) => *field(config) = text.parse()?,
            (Kind::Policies(field), Value::Array(names)) => {
                let Some(names) = names.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
                else {
                    return refuse();
                };
                *field(config) = PolicySet::from_names(&names)?;
            }
            (Kind::Switch(field), Value::Boolean(on)) => *field(config) = *on,
            (Kind::Listen(field), Value::String(text)) => *field(config) = text.parse()?,
            (Kind::Path(field), Value::String(text)) if is_path(text) => {
                *field(config) = text.into();
            }
            (Kind::Number { range, field }, Value::Integer(number)) => {
                match within(*number, range) {
                    Some(number) => *field(config) = number,
                    None => return refuse(),
                }
            }
            (Kind::Time { unit, range, field }, Value::Integer(number)) => {
                match within(*number, range) {
                    Some(number) => *field(config) = unit.duration(number),
                    None => return refuse(),
                }
            }
            (Kind::Percent { range, ratio }, Value::Integer(_) | Value::Float(_)) => {
                let percent = value.as_float().or(value.as_integer().map(|whole| whole as f64));
                match percent.filter(|percent| range.contains(percent)) {
                    Some(percent) => *ratio(config) = percent / 100.0,
                    None => return refuse(),
                }
            }
            _ => return refuse(),
        }
        Ok(())
    }

    pub(super) fn refuse(&self) -> Result<(), String> {
        Err(format!("write {}", self.kind.accepts()))
    }

    /// What the field is, in the file's form.
    pub(super) fn show(&self, config: &mut Config) -> Value {
        match &self.kind {
            Kind::Policies(field) => {
                Value::Array(field(config).names().into_iter().map(Value::from).collect())
            }
            Kind::Switch(field) => Value::Boolean(*field(config)),
            Kind::Listen(field) => Value::String(field(config).to_string()),
            Kind::Path(field) => Value::String(field(config).to_string_lossy().into_owned()),
            Kind::Number { field, .. } => Value::Integer(*field(config) as i64),
            Kind::Time { unit, field, .. } => Value::Integer(unit.number(*field(config)) as i64),
            Kind::Percent { ratio, .. } => Value::Float(*ratio(config) * 100.0),
        }
    }

    /// The setting that a flag's text stands for.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    pub fn parse(&'static self, text: &str) -> Result<Settings, String> {
        let as_text = || Value::String(text.into());
        let value = match &self.kind {
            Kind::Policies(_) | Kind::Listen(_) | Kind::Path(_) => as_text(),
            Kind::Switch(_) => text.parse().map_or_else(|_| as_text(), Value::Boolean),
            Kind::Time { .. } | Kind::Number { .. } => {
                text.parse().map_or_else(|_| as_text(), Value::Integer)
            }
            Kind::Percent { .. } => text.parse().map_or_else(|_| as_text(), Value::Float),
        };
        self.set(&mut Config::default(), &value)?;
        Ok(Settings::one(self, value))
    }

    /// Whether it is true or false, so that the flag alone means true.
    pub fn is_switch(&self) -> bool {
        matches!(self.kind, Kind::Switch(_))
    }

    /// What a value of it is called in a list of flags.
    pub fn value_name(&self) -> &'static str {
        match &self.kind {
            Kind::Policies(_) => "NAMES",
            Kind::Listen(_) => "ADDR:PORT",
            Kind::Path(_) => "FILE",
            Kind::Number { .. } => "NUMBER",
            Kind::Switch(_) => "BOOL",
            Kind::Time { unit, .. } => unit.value_name(),
            Kind::Percent { .. } => "PERCENT",
        }
    }

    /// What it does, and the range of its values.
    pub fn help(&self) -> String {
        let help = self.help;
        match &self.kind {
            Kind::Time { range, .. } | Kind::Number { range, .. } => {
                format!("{help} ({} to {})", range.start(), range.end())
            }
            Kind::Percent { range, .. } => format!("{help} ({} to {})", range.start(), range.end()),
            _ => help.into(),
        }
    }
}

impl Kind {
    /// What can be written, to follow "write".
    fn accepts(&self) -> String {
        match self {
            Self::Policies(_) => {
                let names: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
                format!("\"all\", \"none\" or names out of {}", names.join(", "))
            }
            Self::Switch(_) => "true or false".into(),
            Self::Listen(_) => {
                "an address with a port such as \"127.0.0.1:9817\", or \"off\"".into()
            }
            Self::Path(_) => "a path that begins with /".into(),
            Self::Time { range, .. } | Self::Number { range, .. } => {
                format!("a whole number from {} to {}", range.start(), range.end())
            }
            Self::Percent { range, .. } => {
                format!("a number from {} to {}", range.start(), range.end())
            }
        }
    }
}

impl Unit {
    fn duration(self, number: u64) -> Duration {
        match self {
            Self::Milliseconds => Duration::from_millis(number),
            Self::Seconds => Duration::from_secs(number),
        }
    }

    fn number(self, duration: Duration) -> u128 {
        match self {
            Self::Milliseconds => duration.as_millis(),
            Self::Seconds => duration.as_secs().into(),
        }
    }

    fn value_name(self) -> &'static str {
        match self {
            Self::Milliseconds => "MS",
            Self::Seconds => "SECONDS",
        }
    }
}

/// Whether a path means the same wherever the daemon is started.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains('\0')
}

fn within(number: i64, range: &RangeInclusive<u64>) -> Option<u64> {
    u64::try_from(number).ok().filter(|number| range.contains(number))
}

/// The percentage in `text`, if probing may use as much.
///
/// # Errors
/// A sentence that names the bounds.
pub fn probe_budget_percent(text: &str) -> Result<f64, String> {
    let (least, most) = PROBE_BUDGET_PERCENT.into_inner();
    let percent = text.parse().ok().filter(|percent| PROBE_BUDGET_PERCENT.contains(percent));
    percent.ok_or_else(|| format!("write a percentage from {least} to {most}"))
}
