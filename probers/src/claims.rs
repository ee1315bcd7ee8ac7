// SPDX-License-Identifier: GPL-2.0-only
//! What the hypervisor claims of the vCPUs' topology, by CPUID and as the kernel shows it below /sys.
//! Never more than a claim.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::vcpus::parse_list;

/// Groups of online vCPUs that are said to belong together; groups of one are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub cores: Vec<Vec<u32>>,
    pub llcs: Vec<Vec<u32>>,
    pub sockets: Vec<Vec<u32>>,
}

impl Claims {
    /// Read those of the `online` vCPUs. What cannot be read is not claimed.
    pub fn read(online: &[u32]) -> Self {
        Self::read_from(Path::new("/sys/devices/system/cpu"), online)
    }

    fn read_from(folder: &Path, online: &[u32]) -> Self {
        let of_level = |file: &dyn Fn(&Path) -> Option<String>| {
            let groups: BTreeSet<Vec<u32>> = online
                .iter()
                .filter_map(|vcpu| file(&folder.join(format!("cpu{vcpu}"))))
                .filter_map(|list| parse_list(list.trim()))
                .filter(|group| group.len() > 1)
                .collect();
            groups.into_iter().collect()
        };
        Self {
            cores: of_level(&|vcpu| read(&vcpu.join("topology/thread_siblings_list"))),
            llcs: of_level(&last_level_cache),
            sockets: of_level(&|vcpu| read(&vcpu.join("topology/package_cpus_list"))),
        }
    }
}

/// Who shares the cache of the highest level of a vCPU.
fn last_level_cache(vcpu: &Path) -> Option<String> {
    let caches = fs::read_dir(vcpu.join("cache")).ok()?.flatten().map(|entry| entry.path());
    let level = |cache: &Path| read(&cache.join("level"))?.trim().parse::<u32>().ok();
    let (_, last) = caches.filter_map(|cache| Some((level(&cache)?, cache))).max()?;
    read(&last.join("shared_cpu_list"))
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn write(path: &Path, text: &str) -> io::Result<()> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    }

    #[test]
    fn groups_are_read_once_and_missing_files_claim_nothing() -> io::Result<()> {
        let folder = std::env::temp_dir().join(format!("vaware-claims-{}", std::process::id()));
        for vcpu in [0, 1, 3] {
            let path = folder.join(format!("cpu{vcpu}"));
            let siblings = if vcpu == 3 { "3\n" } else { "0-1\n" };
            write(&path.join("topology/thread_siblings_list"), siblings)?;
            write(&path.join("cache/index0/level"), "1\n")?;
            write(&path.join("cache/index0/shared_cpu_list"), siblings)?;
            write(&path.join("cache/index3/level"), "3\n")?;
            write(&path.join("cache/index3/shared_cpu_list"), "0-1,3\n")?;
        }
        let claims = Claims::read_from(&folder, &[0, 1, 3]);
        fs::remove_dir_all(&folder)?;
        assert_eq!(claims.cores, [[0, 1]]);
        assert_eq!(claims.llcs, [[0, 1, 3]]);
        assert!(claims.sockets.is_empty());
        Ok(())
    }
}
