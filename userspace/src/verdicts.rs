// SPDX-License-Identifier: GPL-2.0-only
//! Verdicts of the governor: told when they change, and kept from one run to the next for machines of
//! the same type, in the service's state directory (systemd: `StateDirectory=`).

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use intf::{OUTCOMES, POLICIES, VAWARE_TRIAL_OPEN, VERDICTS};
use serde::{Deserialize, Serialize};

use probers::hypervisor::Announced;

use crate::events::{Event, Priority};
use crate::text_file;
use crate::trials::Trial;

/// With what each policy begins, in the order of [`POLICIES`]: values of `enum vaware_verdict`.
pub type Priors = [u64; POLICIES.len()];

/// A policy that is on the brink is told of no more often.
const NEWS_INTERVAL: Duration = Duration::from_secs(60);

/// An image is started on a few machine types. A file with more of them is begun anew.
const MACHINES_MAX: usize = 64;
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What the file has: verdicts by machine type and policy.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Kept(BTreeMap<String, BTreeMap<String, String>>);

/// The verdicts on this machine.
#[derive(Debug)]
pub struct Verdicts {
    file: Option<PathBuf>,
    machine: String,
    kept: Kept,
    told: BTreeMap<&'static str, (&'static str, Instant)>,
}

impl Verdicts {
    /// Those that are kept in `$STATE_DIRECTORY` for this type of machine, with `nr_vcpus` and what its
    /// hypervisor has `announced`; none without a service manager.
    pub fn from_env(nr_vcpus: usize, announced: Announced) -> Self {
        let folder = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
        let file = folder.map(|folder| folder.join("verdicts.toml"));
        Self::read(file, machine(Path::new("/sys/class/dmi/id"), nr_vcpus, announced))
    }

    fn read(file: Option<PathBuf>, machine: String) -> Self {
        let text = file.as_deref().and_then(|file| text_file::read(file, FILE_BYTES_MAX).ok());
        let kept: Option<Kept> = text.and_then(|text| toml::from_str(&text).ok());
        let kept = kept.filter(|kept| kept.0.len() <= MACHINES_MAX).unwrap_or_default();
        Self { file, machine, kept, told: BTreeMap::new() }
    }

    /// With what each policy begins here.
    pub fn priors(&self) -> Priors {
        let known = self.kept.0.get(&self.machine);
        POLICIES.map(|policy| {
            let verdict = known.and_then(|known| known.get(policy));
            let value =
                verdict.and_then(|verdict| VERDICTS.iter().position(|name| name == verdict));
            value.map_or(u64::from(VAWARE_TRIAL_OPEN), |value| value as u64)
        })
    }

    /// Keep what `trials` have shown, if it is new.
    ///
    /// # Errors
    /// Why the file could not be written: then the next run begins with less knowledge.
    pub fn keep(&mut self, trials: &[Trial]) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let before = self.kept.clone();
        let known = self.kept.0.entry(self.machine.clone()).or_default();
        for trial in trials.iter().filter(|trial| trial.verdict != open()) {
            known.insert(trial.policy.into(), trial.verdict.into());
        }
        if known.is_empty() || self.kept == before {
            return Ok(());
        }
        text_file::replace(file, &toml::to_string(&self.kept).map_err(io::Error::other)?)
    }

    /// Sentences about verdicts that are new in `trials`, at `now`.
    pub fn news(&mut self, trials: &[Trial], now: Instant) -> Vec<Event> {
        let mut news = Vec::new();
        for trial in trials {
            let told = self.told.get(trial.policy);
            let before = told.map_or(open(), |(verdict, _)| *verdict);
            let is_soon = told.is_some_and(|(_, at)| now.duration_since(*at) < NEWS_INTERVAL);
            if trial.verdict == before || is_soon {
                continue;
            }
            self.told.insert(trial.policy, (trial.verdict, now));
            let gains = trial.outcomes.map(|outcome| outcome.gain_ratio);
            let text = sentence(trial.policy, trial.verdict, gains);
            news.push(Event::new(Priority::Notice, text));
        }
        news
    }
}

fn open() -> &'static str {
    VERDICTS[VAWARE_TRIAL_OPEN as usize]
}

/// The `verdict` on a policy, with what it changed in each of [`OUTCOMES`] as far as that is known.
pub fn sentence(policy: &str, verdict: &str, gains: [Option<f64>; OUTCOMES.len()]) -> String {
    let gains: Vec<_> = OUTCOMES
        .iter()
        .zip(gains)
        .filter_map(|(outcome, gain)| Some(format!("{outcome} {:.2} times as good", gain?)))
        .collect();
    let why = if gains.is_empty() { String::new() } else { format!(" ({})", gains.join(", ")) };
    match verdict {
        "wins" => format!("{policy} pays here{why}: it is on"),
        "loses" => {
            format!("{policy} does not pay here{why}: it is off, but for a look now and then")
        }
        _ => format!("{policy} is judged anew{why}"),
    }
}

/// The type of this machine: what its firmware says, and what the verdicts depend on.
fn machine(firmware: &Path, nr_vcpus: usize, announced: Announced) -> String {
    let words = ["sys_vendor", "product_name"].map(|name| {
        let text = text_file::read(&firmware.join(name), 4 << 10).unwrap_or_default();
        let word: String = text.trim().chars().filter(|c| !c.is_control()).take(80).collect();
        if word.is_empty() { "unknown".to_owned() } else { word }
    });
    let clock = if announced.kvm_steal_clock { "steal clock" } else { "no steal clock" };
    format!("{}, {nr_vcpus} vCPUs, {clock}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use probers::hypervisor::Hypervisor;

    use super::*;
    use crate::trials::Outcome;

    fn trial(policy: &'static str, verdict: &'static str) -> Trial {
        let gain = Outcome { epochs: [4, 4], gain_ratio: Some(1.5) };
        Trial { policy, verdict, outcomes: [gain; OUTCOMES.len()] }
    }

    #[test]
    fn the_next_run_on_such_a_machine_begins_with_them() -> io::Result<()> {
        let file = std::env::temp_dir().join(format!("vaware-verdicts-{}", std::process::id()));
        let at = |machine: &str| Verdicts::read(Some(file.clone()), machine.into());
        assert_eq!(at("small").priors(), [0; POLICIES.len()]);
        at("small").keep(&[trial("ivh", "wins"), trial("bvs", "open"), trial("rwc", "loses")])?;
        at("large").keep(&[trial("ivh", "loses")])?;
        assert_eq!(at("small").priors()[..5], [0, 1, 0, 2, 0]);
        assert_eq!(at("large").priors()[..5], [0, 2, 0, 0, 0]);
        assert_eq!(at("other").priors(), [0; POLICIES.len()]);
        for rubbish in ["rubbish", "[small]\nivh = 7", "[small]\nivh = \"draws\"", ""] {
            fs::write(&file, rubbish)?;
            assert_eq!(at("small").priors(), [0; POLICIES.len()], "{rubbish}");
        }
        fs::remove_file(file)
    }

    #[test]
    fn without_a_state_directory_nothing_is_written() -> io::Result<()> {
        Verdicts::read(None, "any".into()).keep(&[trial("ivh", "wins")])
    }

    #[test]
    fn a_verdict_is_told_once_and_a_flapping_one_once_a_minute() {
        let mut verdicts = Verdicts::read(None, "any".into());
        let begin = Instant::now();
        let mut at = |s: u64, verdict| {
            let news = verdicts.news(&[trial("ivh", verdict)], begin + Duration::from_secs(s));
            news.into_iter().map(|event| event.text).collect::<String>()
        };
        assert_eq!(at(0, "open"), "");
        assert!(at(1, "wins").starts_with("ivh pays here (progress 1.50 times as good"));
        assert_eq!(at(2, "wins") + &at(3, "loses") + &at(4, "wins"), "");
        assert!(at(70, "loses").contains("does not pay here"));
        assert!(at(140, "open").contains("judged anew"));
    }

    #[test]
    fn a_machine_without_firmware_has_a_name_as_well() {
        let announced = Announced { hypervisor: Hypervisor::Kvm, kvm_steal_clock: true };
        let name = machine(Path::new("/nowhere"), 4, announced);
        assert_eq!(name, "unknown unknown, 4 vCPUs, steal clock");
    }
}
