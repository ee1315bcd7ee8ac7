// SPDX-License-Identifier: GPL-2.0-only
//! What an operator can set. [`Settings`] is what was written, in a file or as flags; [`Config`] is
//! what follows from it. A key stands in one place: in [`KEYS`].

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, ArgMatches};
use serde::Deserialize;
use toml::Value;
use toml::de::{DeTable, ValueDeserializer};

use crate::failure::Failure;
use crate::policy::{POLICIES, PolicySet};
use crate::text_file;

/// Where a packaged configuration file is.
pub const DEFAULT_PATH: &str = "/etc/scx_vaware.toml";
/// A file with every key and a page about each is a tenth of it.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// What an error message quotes of a file at most.
const QUOTE_CHARS: usize = 60;

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

/// A key of the file, and the flag of the same name.
struct Key {
    name: &'static str,
    help: &'static str,
    kind: Kind,
}

/// What a key accepts, and the field of the configuration that it sets.
enum Kind {
    Policies(fn(&mut Config) -> &mut PolicySet),
    Switch(fn(&mut Config) -> &mut bool),
    Listen(fn(&mut Config) -> &mut Listen),
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
const KEYS: [Key; 10] = [
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
        name: "allow_quota",
        help: "Load even where cgroups limit CPU time: cpu.max does not hold under sched_ext",
        kind: Kind::Switch(|config| &mut config.allow_quota),
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
    fn find(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Set the field to `value`.
    ///
    /// # Errors
    /// A sentence that says what to write instead.
    fn set(&self, config: &mut Config, value: &Value) -> Result<(), String> {
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
            (Kind::Time { unit, range, field }, Value::Integer(number)) => {
                match u64::try_from(*number).ok().filter(|number| range.contains(number)) {
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

    fn refuse(&self) -> Result<(), String> {
        Err(format!("write {}", self.kind.accepts()))
    }

    /// What the field is, in the file's form.
    fn show(&self, config: &mut Config) -> Value {
        match &self.kind {
            Kind::Policies(field) => {
                Value::Array(field(config).names().into_iter().map(Value::from).collect())
            }
            Kind::Switch(field) => Value::Boolean(*field(config)),
            Kind::Listen(field) => Value::String(field(config).to_string()),
            Kind::Time { unit, field, .. } => Value::Integer(unit.number(*field(config)) as i64),
            Kind::Percent { ratio, .. } => Value::Float(*ratio(config) * 100.0),
        }
    }

    /// The value that a flag's text stands for, if the key accepts it.
    fn parse_flag(&self, text: &str) -> Result<Value, String> {
        let as_text = || Value::String(text.into());
        let value = match &self.kind {
            Kind::Policies(_) | Kind::Listen(_) => as_text(),
            Kind::Switch(_) => text.parse().map_or_else(|_| as_text(), Value::Boolean),
            Kind::Time { .. } => text.parse().map_or_else(|_| as_text(), Value::Integer),
            Kind::Percent { .. } => text.parse().map_or_else(|_| as_text(), Value::Float),
        };
        self.set(&mut Config::default(), &value).map(|()| value)
    }

    fn flag(&'static self) -> Arg {
        let arg = Arg::new(self.name)
            .long(self.name.replace('_', "-"))
            .value_parser(move |text: &str| self.parse_flag(text));
        let (value_name, range) = match &self.kind {
            Kind::Policies(_) => ("NAMES", String::new()),
            Kind::Listen(_) => ("ADDR:PORT", String::new()),
            Kind::Switch(_) => {
                let arg = arg.num_args(0..=1).default_missing_value("true");
                return arg.value_name("BOOL").help(self.help);
            }
            Kind::Time { unit, range, .. } => {
                (unit.value_name(), format!(" ({} to {})", range.start(), range.end()))
            }
            Kind::Percent { range, .. } => {
                ("PERCENT", format!(" ({} to {})", range.start(), range.end()))
            }
        };
        arg.value_name(value_name).help(format!("{}{range}", self.help))
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
            Self::Time { range, .. } => {
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

/// The keys that were written, each with a value that it accepts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<&'static str, Value>);

impl Settings {
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

    /// These settings, and where they say nothing those of `other`.
    pub fn or(self, mut other: Self) -> Self {
        other.0.extend(self.0);
        other
    }
}

impl clap::Args for Settings {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(KEYS.iter().map(Key::flag))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Settings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let value =
            |key: &'static Key| Some((key.name, matches.get_one::<Value>(key.name)?.clone()));
        Ok(Self(KEYS.iter().filter_map(value).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?.or(std::mem::take(self));
        Ok(())
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

/// Where metrics are served. Written as `ADDR:PORT` or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        address(text).map(Self::At).map_err(|reason| format!("{reason}, or off"))
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At(address) => address.fmt(f),
        }
    }
}

/// The address and port in `text`. `localhost` is that of IPv4; other names are not looked up, for
/// they could stand for another machine tomorrow.
///
/// # Errors
/// A sentence that shows what to write.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
        None => text.into(),
    };
    numeric.parse().map_err(|_| {
        format!(
            "{:?} is no IP address with a port; write one such as 127.0.0.1:9817, [::1]:9817, \
             localhost:9817",
            quote(text)
        )
    })
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

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
        let written = Settings::parse(shipped).map(|settings| {
            assert_eq!(settings.0.len(), KEYS.len());
            Config::from(settings)
        });
        assert_eq!(written, Ok(Config::default()));
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
    fn mistakes_are_named_with_line_key_and_what_to_write() {
        for (text, line, named) in [
            ("polices = []", 1, ["no key polices", "choose from policies"]),
            ("partial = true\n\npolicies = [\"turbo\"]", 3, ["turbo", "balance"]),
            ("policies = 3", 1, ["policies = 3", "\"all\""]),
            ("policies = [1]", 1, ["policies = [1]", "\"none\""]),
            ("wait_bound_ms = -5", 1, ["wait_bound_ms = -5", "from 100 to 10000"]),
            (
                "wait_bound_ms = 99999999999999999999999999",
                1,
                ["wait_bound_ms = 9999", "from 100 to 10000"],
            ),
            ("probe_light_ms = 0xffffffffffffffffff", 1, ["0xffff", "from 200 to 60000"]),
            ("policies = \"\"", 1, ["no policy \"\"", "choose from"]),
            ("wait_bound_ms = 5", 1, ["wait_bound_ms = 5", "from 100 to 10000"]),
            ("\nwait_bound_ms = 1.5", 2, ["wait_bound_ms = 1.5", "a whole number"]),
            ("wait_bound_ms = \"1s\"", 1, ["wait_bound_ms = \"1s\"", "a whole number"]),
            ("partial = 1", 1, ["partial = 1", "true or false"]),
            ("allow_quota = \"yes\"", 1, ["allow_quota", "true or false"]),
            ("\nlisten = \"9817\"", 2, ["listen = \"9817\"", "127.0.0.1:9817"]),
            ("listen = 9817", 1, ["listen = 9817", "or \"off\""]),
            ("listen = \"example.org:80\"", 1, ["example.org:80", "IP address"]),
            ("probe_budget_percent = 11.0", 1, ["probe_budget_percent = 11.0", "from 0 to 10"]),
            ("probe_budget_percent = nan", 1, ["probe_budget_percent = nan", "from 0 to 10"]),
            ("probe_light_ms = 5", 1, ["probe_light_ms = 5", "from 200 to 60000"]),
            ("listen = \n", 1, ["not TOML", "partial = false"]),
            ("partial = true\npartial = true", 2, ["not TOML", "duplicate"]),
            ("[probe]\nlight_ms = 500", 1, ["no key probe", "probe_light_ms"]),
        ] {
            let error = config(text).err().unwrap_or_default();
            assert!(error.starts_with(&format!("line {line}: ")), "{text}: {error}");
            assert!(named.iter().all(|words| error.contains(words)), "{text}: {error}");
            assert!(!error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn localhost_is_an_address() {
        let listen = config("listen = \"localhost:1234\"").map(|config| config.listen);
        assert_eq!(listen, Ok(Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, 1234)))));
    }

    #[test]
    fn settings_override_others_key_by_key() {
        let settings = |text| Settings::parse(text).unwrap_or_default();
        let both = settings("partial = false").or(settings("partial = true\nwait_bound_ms = 300"));
        let config = Config::from(both);
        assert_eq!((config.partial, config.wait_bound), (false, Duration::from_millis(300)));
    }

    /// Words that only a programmer of this program knows.
    const JARGON: [&str; 8] = ["u64", "i64", "i128", "f64", "usize", "struct", "enum", "visitor"];

    fn is_a_sentence(error: &str) -> bool {
        error.chars().count() < 500
            && !error.chars().any(char::is_control)
            && !JARGON.iter().any(|word| error.contains(word))
    }

    /// Text in the manner of TOML, right and wrong.
    fn near_toml() -> impl Strategy<Value = String> {
        let key = select(KEYS.iter().map(|key| key.name).collect::<Vec<_>>());
        let value = prop_oneof![
            "-?[0-9]{1,30}(\\.[0-9]{0,3})?",
            "\"[a-z0-9:,.]{0,20}\"",
            "(true|false|off|nan|inf|-inf|1979-05-27|\\[\\]|\\{\\}|\\[\"sync\", 1\\])",
            "\\PC{0,20}",
            "[\\[\\{]{1,3000}",
        ];
        let sign = prop_oneof![4 => " = ", 1 => "[ =.]{0,3}"];
        let line =
            (key, sign, value).prop_map(|(key, sign, value)| key.to_string() + &sign + &value);
        vec(line, 0..4).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn any_text_gives_a_configuration_or_a_sentence(text in prop_oneof![near_toml(), any::<String>()]) {
            match config(&text) {
                Ok(read) => prop_assert_eq!(config(&read.to_string()), Ok(read)),
                Err(error) => prop_assert!(is_a_sentence(&error), "{:?}: {}", text, error),
            }
        }

        #[test]
        fn any_flag_is_accepted_or_refused_by_a_sentence(text in "\\PC{0,12}", number in any::<f64>()) {
            for key in &KEYS {
                for text in [&text, &number.to_string()] {
                    if let Err(error) = key.parse_flag(text) {
                        prop_assert!(is_a_sentence(&error), "{} {:?}: {}", key.name, text, error);
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_or_deep_file_is_refused_by_a_sentence() {
        let bytes = FILE_BYTES_MAX as usize;
        for text in [
            "[".repeat(bytes),
            format!("policies = {}", "[".repeat(bytes)),
            format!("policies = {}", "{a=".repeat(bytes / 3)),
            "a.".repeat(bytes / 2),
            format!("\"{}\" = 1", "k".repeat(bytes)),
            format!("partial = \"{}\"", "\\u001b".repeat(bytes / 6)),
            format!("policies = [{}]", "\"x\",".repeat(bytes / 4)),
            "x = 1\n".repeat(bytes / 6),
        ] {
            let error = config(&text).err().unwrap_or_default();
            assert!(is_a_sentence(&error) && error.starts_with("line "), "{error}");
        }
    }
}
