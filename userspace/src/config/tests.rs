// SPDX-License-Identifier: GPL-2.0-only

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
    let shipped = include_str!("../../../deploy/scx_vaware.toml");
    let written = Settings::parse(shipped).map(|settings| {
        assert_eq!(settings.0.len(), KEYS.len());
        Config::from(settings)
    });
    assert_eq!(written, Ok(Config::default()));
}

#[test]
fn every_key_is_read_and_shown() {
    let text = "policies = [\"rescue\"]\nwait_bound_ms = 500\npartial = true\n\
                monitor_only = true\nmove_interrupts = true\nkill_switch = \"/run/off\"\n\
                unload_if_worse_percent = 5.0\nejections_max = 1\nstart_jitter_s = 60\nlisten = \"[::1]:1234\"\n\
                probe_budget_percent = 2.0\nprobe_light_ms = 500\n\
                probe_heavy_max_s = 30\nprobe_half_life_ms = 4000\nprobe_topology_ms = 3000\n";
    let read = config(text);
    assert_eq!(
        read,
        Ok(Config {
            policies: "rescue".parse().unwrap_or(PolicySet::all()),
            wait_bound: Duration::from_millis(500),
            partial: true,
            monitor_only: true,
            move_interrupts: true,
            kill_switch: "/run/off".into(),
            unload_if_worse_ratio: 0.05,
            ejections_max: 1,
            start_jitter: Duration::from_secs(60),
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
        ("partial = true\n\npolicies = [\"turbo\"]", 3, ["turbo", "capacity"]),
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
        ("kill_switch = \"off\"", 1, ["kill_switch = \"off\"", "begins with /"]),
        ("ejections_max = 0", 1, ["ejections_max = 0", "from 1 to 100"]),
        ("wait_bound_ms = 5", 1, ["wait_bound_ms = 5", "from 100 to 10000"]),
        ("\nwait_bound_ms = 1.5", 2, ["wait_bound_ms = 1.5", "a whole number"]),
        ("wait_bound_ms = \"1s\"", 1, ["wait_bound_ms = \"1s\"", "a whole number"]),
        ("partial = 1", 1, ["partial = 1", "true or false"]),
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
    let line = (key, sign, value).prop_map(|(key, sign, value)| key.to_string() + &sign + &value);
    vec(line, 0..4).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn any_text_gives_a_configuration_or_a_sentence(text in prop_oneof![near_toml(), any::<String>()]) {
        match config(&text) {
            Ok(read) => prop_assert_eq!(config(&read.to_string()), Ok(read)),
            // Of what is quoted nobody here is the author.
            Err(error) => prop_assert!(
                is_a_sentence(&error) || JARGON.iter().any(|word| text.contains(word)),
                "{:?}: {}", text, error
            ),
        }
    }

    #[test]
    fn any_flag_is_accepted_or_refused_by_a_sentence(text in "\\PC{0,12}", number in any::<f64>()) {
        for key in &KEYS {
            for text in [&text, &number.to_string()] {
                if let Err(error) = key.parse(text) {
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
