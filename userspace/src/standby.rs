// SPDX-License-Identifier: GPL-2.0-only
//! Why the daemon has no scheduler loaded, and only looks on and exports what it finds.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::config::Config;
use crate::ejections::Ejections;
use crate::text_file::plain;

/// A reason to stand by, the weightiest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standby {
    /// The kill switch is on: its file is there, or may be.
    KillSwitch,
    /// The configuration asks for it. Before ejections, for a node with those is not well, and would
    /// stop the roll-out that gives up the scheduler.
    MonitorOnly,
    /// The kernel has ejected the scheduler too often since boot.
    Ejected,
    /// Its time in a roll-out has not come yet.
    Delayed,
    /// The VM was better off without it.
    Worse,
    /// It is the turn of the kernel's own scheduler in a comparison.
    Compared,
}

impl Standby {
    pub const ALL: [Self; 6] = [
        Self::KillSwitch,
        Self::MonitorOnly,
        Self::Ejected,
        Self::Delayed,
        Self::Worse,
        Self::Compared,
    ];

    /// Why not to load the scheduler now; `None` if nothing speaks against it. Looks for the kill
    /// switch's file.
    pub fn reason(config: &Config, ejections: u64, delayed: bool) -> Option<Self> {
        // Whoever turns it on where we cannot look must not find the scheduler loaded.
        if is_there(&config.kill_switch).unwrap_or(true) {
            Some(Self::KillSwitch)
        } else if config.monitor_only {
            Some(Self::MonitorOnly)
        } else if ejections >= config.ejections_max {
            Some(Self::Ejected)
        } else {
            delayed.then_some(Self::Delayed)
        }
    }

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::KillSwitch => "kill_switch",
            Self::Ejected => "ejections",
            Self::MonitorOnly => "monitor_only",
            Self::Delayed => "start_jitter",
            Self::Worse => "worse",
            Self::Compared => "compared",
        }
    }

    /// Whether it is as an operator wants it.
    pub fn is_wanted(self) -> bool {
        self != Self::Ejected
    }

    /// A sentence for people: why, and what ends it.
    pub fn sentence(self, config: &Config, ejections: &Ejections) -> String {
        match self {
            Self::KillSwitch => {
                let file = config.kill_switch.display();
                match is_there(&config.kill_switch) {
                    Err(why) => format!(
                        "the kill switch counts as on, for {file} cannot be looked for ({}); set \
                         kill_switch to a file in a folder that the daemon may search, such as \
                         /run/scx_vaware/disable",
                        plain(&why)
                    ),
                    Ok(_) => format!("the kill switch is on; remove {file} to load the scheduler"),
                }
            }
            Self::Ejected => format!(
                "the kernel has ejected the scheduler {} times since boot; see dmesg, report it, \
                 and remove {} to load it again",
                ejections.count,
                ejections.place()
            ),
            Self::MonitorOnly => {
                "monitor_only is set; set it to false and reload, to load the scheduler".into()
            }
            Self::Delayed => {
                let limit_s = config.start_jitter.as_secs();
                format!("the scheduler is loaded within {limit_s} s; start_jitter_s = 0 ends that")
            }
            Self::Worse => {
                "the VM was better off without the scheduler; it is compared again within \
                            an hour, and unload_if_worse_percent = 0 loads it at once"
                    .into()
            }
            Self::Compared => {
                "the kernel's own scheduler has its turn in a comparison, which takes two \
                               minutes; unload_if_worse_percent = 0 ends that"
                    .into()
            }
        }
    }
}

/// Whether there is a file of this name. A link that leads nowhere is one, too.
fn is_there(file: &Path) -> io::Result<bool> {
    match file.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(why) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&why.kind()) => {
            Ok(false)
        }
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    fn config() -> Config {
        let kill_switch = std::env::temp_dir().join(format!("vaware-kill-{}", std::process::id()));
        Config { kill_switch, ..Config::default() }
    }

    #[test]
    fn the_weightiest_reason_counts() -> std::io::Result<()> {
        let config = config();
        let limit = config.ejections_max;
        assert_eq!(Standby::reason(&config, limit - 1, false), None);
        assert_eq!(Standby::reason(&config, 0, true), Some(Standby::Delayed));
        assert_eq!(Standby::reason(&config, limit, true), Some(Standby::Ejected));
        let monitor = Config { monitor_only: true, ..config };
        assert_eq!(Standby::reason(&monitor, limit, true), Some(Standby::MonitorOnly));
        fs::write(&monitor.kill_switch, "")?;
        assert_eq!(Standby::reason(&monitor, limit, true), Some(Standby::KillSwitch));
        fs::remove_file(&monitor.kill_switch)
    }

    #[test]
    fn a_kill_switch_that_cannot_be_looked_for_counts_as_on() -> io::Result<()> {
        let folder = std::env::temp_dir().join(format!("vaware-loop-{}", std::process::id()));
        let config = Config { kill_switch: folder.join("disable"), ..Config::default() };
        let reason = || Standby::reason(&config, 0, false);
        fs::write(&folder, "")?;
        assert_eq!(reason(), None, "no folder, so no file in it");
        fs::remove_file(&folder)?;
        symlink(&folder, &folder)?;
        let (found, ejections) = (reason(), Ejections::default());
        let said = found.map(|reason| reason.sentence(&config, &ejections)).unwrap_or_default();
        fs::remove_file(&folder)?;
        assert_eq!((found, reason()), (Some(Standby::KillSwitch), None));
        assert!(
            said.contains("cannot be looked for (") && said.contains("set kill_switch"),
            "{said}"
        );
        Ok(())
    }

    #[test]
    fn each_sentence_tells_what_ends_it() {
        let config = Config { kill_switch: PathBuf::from("/x/y"), ..config() };
        for (reason, way_out) in Standby::ALL.into_iter().zip([
            "remove /x/y",
            "to false",
            "remove ",
            "start_jitter_s = 0",
            "percent = 0",
            "percent = 0",
        ]) {
            let said = reason.sentence(&config, &Ejections::default());
            assert!(said.contains(way_out), "{said}");
        }
    }
}
