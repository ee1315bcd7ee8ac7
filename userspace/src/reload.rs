// SPDX-License-Identifier: GPL-2.0-only
//! What a configuration that is read while the scheduler runs can change, and what it cannot.

use crate::config::Config;

/// What comes of a configuration that was read while another one is in effect.
#[derive(Debug, PartialEq)]
pub struct Reload {
    /// What is in effect from now on.
    pub effect: Config,
    /// Keys that were changed, and wait for a restart of the daemon.
    pub ignored: Vec<&'static str>,
}

impl Reload {
    /// The kernel takes the tasks of a scheduler, all or some, when it is attached. So `partial`
    /// waits; all else is changed in place.
    pub fn new(before: &Config, read: Config) -> Self {
        let ignored = if read.partial == before.partial { vec![] } else { vec!["partial"] };
        Self { effect: Config { partial: before.partial, ..read }, ignored }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Listen;

    #[test]
    fn what_waits_for_a_restart_is_named_and_all_else_is_in_effect() -> Result<(), String> {
        let before = Config::default();
        let mut read = Config {
            policies: "none".parse()?,
            wait_bound: Duration::from_secs(2),
            listen: Listen::Off,
            ..before.clone()
        };
        read.probing.light_interval = Duration::from_secs(9);
        let all = Reload::new(&before, read.clone());
        assert_eq!(all, Reload { effect: read.clone(), ignored: vec![] });
        let partial = Config { partial: true, ..read.clone() };
        assert_eq!(
            Reload::new(&before, partial),
            Reload { effect: read, ignored: vec!["partial"] }
        );
        Ok(())
    }
}
