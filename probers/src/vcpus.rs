// SPDX-License-Identifier: GPL-2.0-only
//! Which vCPUs there are.

use std::fs;
use std::path::Path;

/// The most that Linux can be built for (CONFIG_NR_CPUS_RANGE_END on x86).
const NR_CPUS_MAX: u32 = 8192;

/// Why the list of vCPUs could not be read.
#[derive(Debug, thiserror::Error)]
pub enum VcpuListError {
    #[error("cannot read {path}: {source}; is /sys mounted?")]
    Unreadable { path: String, source: std::io::Error },
    #[error("{path} holds {text:?}, which is no list of CPUs; please report this kernel")]
    Malformed { path: String, text: String },
}

/// The vCPUs of this VM by their kernel numbers, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpus {
    /// All that can ever exist, offline ones included; never empty.
    pub possible: Vec<u32>,
    pub online: Vec<u32>,
}

impl Vcpus {
    /// Read the lists below `/sys/devices/system/cpu`.
    pub fn read() -> Result<Self, VcpuListError> {
        Self::read_from(Path::new("/sys/devices/system/cpu"))
    }

    fn read_from(folder: &Path) -> Result<Self, VcpuListError> {
        Ok(Self {
            possible: read_list(&folder.join("possible"))?,
            online: read_list(&folder.join("online"))?,
        })
    }

    /// One more than the highest number that a vCPU can have: the kernel's `nr_cpu_ids`.
    pub fn nr_ids(&self) -> u32 {
        self.possible.last().map_or(1, |last| last + 1)
    }
}

fn read_list(path: &Path) -> Result<Vec<u32>, VcpuListError> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|source| VcpuListError::Unreadable { path: shown.clone(), source })?;
    parse_list(text.trim())
        .filter(|list| !list.is_empty())
        .ok_or(VcpuListError::Malformed { path: shown, text })
}

/// Return `vcpus`, in ascending order, in the kernel's list format, such as `0-3,8`.
pub fn format_list(vcpus: &[u32]) -> String {
    let runs = vcpus.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect(),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Parse the kernel's list format; ascending, so that "3-0" is refused, and so are more vCPUs than
/// Linux can have.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut vcpus: Vec<u32> = Vec::new();
    for range in text.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last
            || last >= NR_CPUS_MAX
            || vcpus.last().is_some_and(|previous| *previous >= first)
        {
            return None;
        }
        vcpus.extend(first..=last);
    }
    Some(vcpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_with_gaps_are_read_and_written() {
        assert_eq!(parse_list("0-2,5,8-9"), Some(vec![0, 1, 2, 5, 8, 9]));
        assert_eq!(format_list(&[0, 1, 2, 5, 8, 9]), "0-2,5,8-9");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["3-0", "0,0", "a", "1-", "-1", "2,1", "0-8192", "0-4294967295"] {
            assert_eq!(parse_list(text), None, "{text}");
        }
    }

    #[test]
    fn ids_cover_offline_vcpus_beyond_a_gap() {
        let vcpus = Vcpus { possible: vec![0, 1, 6], online: vec![0] };
        assert_eq!(vcpus.nr_ids(), 7);
    }

    proptest! {
        #[test]
        fn any_list_is_ascending_and_bounded(text in prop_oneof!["[0-9,-]{0,24}", any::<String>()]) {
            if let Some(vcpus) = parse_list(&text) {
                prop_assert!(vcpus.is_sorted_by(|one, next| one < next));
                prop_assert!(vcpus.last().is_none_or(|last| *last < NR_CPUS_MAX));
            }
        }
    }

    #[test]
    fn a_missing_folder_is_an_error_that_names_it() {
        let error = Vcpus::read_from(Path::new("/nonexistent")).err().map(|e| e.to_string());
        assert!(error.is_some_and(|text| text.contains("/nonexistent/possible")));
    }
}
