// SPDX-License-Identifier: GPL-2.0-only
//! Which scheduler a run is with, by name.

use crate::bpf::shim;
use crate::guest::Class;

mod names {
    use super::shim;
    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}

pub use names::{COUNTERS, POLICIES};

/// All policies of scx_vaware.
pub fn all_policies() -> u64 {
    POLICIES.iter().fold(0, |bits, (_, bit)| bits | bit)
}

/// The scheduler that a name means: `eevdf`, `scx_vaware`, or `scx_vaware:` and policies with `+`
/// between them (`none`, `all`, and `-name` for all but one).
///
/// # Errors
/// A sentence with the names that there are.
pub fn parse(name: &str) -> Result<Class, String> {
    let known = || {
        let names: Vec<_> = POLICIES.iter().map(|(name, _)| *name).collect();
        format!("use eevdf, scx_vaware, or scx_vaware: with some of {}", names.join("+"))
    };
    match name.split_once(':') {
        None if name == "eevdf" => Ok(Class::Eevdf),
        None if name == "scx_vaware" => Ok(Class::Scx { policies: all_policies() }),
        Some(("scx_vaware", list)) => {
            let mut policies = if list.starts_with('-') { all_policies() } else { 0 };
            for name in list.split('+') {
                let (without, name) = match name.strip_prefix('-') {
                    Some(name) => (true, name),
                    None => (false, name),
                };
                let bits = match name {
                    "none" => 0,
                    "all" => all_policies(),
                    _ => POLICIES
                        .iter()
                        .find(|(known, _)| *known == name)
                        .map(|(_, bit)| *bit)
                        .ok_or_else(|| format!("there is no policy {name:?}; {}", known()))?,
                };
                policies = if without { policies & !bits } else { policies | bits };
            }
            Ok(Class::Scx { policies })
        }
        _ => Err(format!("there is no scheduler {name:?}; {}", known())),
    }
}
