// SPDX-License-Identifier: GPL-2.0-only
//! What a configuration that is read while the scheduler runs can change, and what it cannot.

use crate::config::Config;

/// The one key that takes effect at once.
const POLICIES: &str = "policies";

/// The keys in which `read` differs from what is in `effect`, and which wait for a restart.
pub fn ignored_keys(effect: &Config, read: &Config) -> Vec<String> {
    let table = |config: &Config| config.to_string().parse::<toml::Table>().unwrap_or_default();
    let (effect, read) = (table(effect), table(read));
    read.into_iter()
        .filter(|(key, value)| key != POLICIES && effect.get(key) != Some(value))
        .map(|(key, _)| key)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Listen;
    use crate::policy::PolicySet;

    #[test]
    fn every_key_but_the_policies_waits_for_a_restart() -> Result<(), String> {
        let none: PolicySet = "none".parse()?;
        let effect = Config::default();
        let mut read = Config { policies: none, ..effect.clone() };
        assert_eq!(ignored_keys(&effect, &read), [""; 0]);
        read.listen = Listen::Off;
        read.probing.light_interval = Duration::from_secs(9);
        assert_eq!(ignored_keys(&effect, &read), ["listen", "probe_light_ms"]);
        Ok(())
    }
}
