// SPDX-License-Identifier: GPL-2.0-only
//! The flags that set what the configuration file sets: one for each key.

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use userspace::config::{KEYS, Key, Settings};

/// The settings that were given as flags.
#[derive(Clone, Default)]
pub struct Flags(pub Settings);

fn flag(key: &'static Key) -> Arg {
    let arg = Arg::new(key.name)
        .long(key.name.replace('_', "-"))
        .value_name(key.value_name())
        .help(key.help())
        .value_parser(move |text: &str| key.parse(text));
    if key.is_switch() { arg.num_args(0..=1).default_missing_value("true") } else { arg }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(KEYS.iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = KEYS.iter().filter_map(|key| matches.get_one::<Settings>(key.name).cloned());
        Ok(Self(given.fold(Settings::default(), Settings::or)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self(Self::from_arg_matches(matches)?.0.or(std::mem::take(&mut self.0)));
        Ok(())
    }
}
