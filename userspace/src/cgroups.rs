// SPDX-License-Identifier: GPL-2.0-only
//! What the tasks of each cgroup met, as the kernel half adds it up while any cgroup has a weight, a
//! limit or `cpu.idle`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use intf::vaware_cgroup;
use libbpf_rs::MapCore;

use crate::kernel_map;

/// Cgroups that are told of: enough to find who suffers, and few series.
const SHOWN_MAX: usize = 20;

/// Where the cgroups are that have the cpu controller: version 2, version 1.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];

/// Levels below the root that are searched for a cgroup's name.
const LEVELS_MAX: usize = 16;

/// A cgroup's own tasks, those of cgroups below it left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Its path below the root of cgroups, or `id:` and the kernel's number where that is not seen.
    pub path: String,
    /// Waits for a vCPU.
    pub waited: Duration,
    /// Held by a limit, summed over tasks.
    pub held: Duration,
    /// Steal time while they ran.
    pub stolen: Duration,
}

/// Read the cgroups whose tasks waited longest, for a vCPU or for a limit.
///
/// # Errors
/// What the kernel said of a map that was there at load.
pub(crate) fn read(map: &impl MapCore) -> anyhow::Result<Vec<Cgroup>> {
    let worst = worst(kernel_map::read_all(map)?);
    if worst.is_empty() {
        return Ok(Vec::new());
    }
    let root = ROOTS.iter().map(Path::new).find(|root| root.join("cgroup.procs").exists());
    let mut names: BTreeMap<_, _> = worst.iter().map(|sums| (sums.id, None)).collect();
    if let Some(root) = root {
        find_names(root, "", LEVELS_MAX, &mut names);
        let id = fs::metadata(root).map(|root| root.ino());
        if let Some(name) = id.ok().and_then(|id| names.get_mut(&id)) {
            *name = Some("/".into());
        }
    }
    Ok(worst.iter().map(|sums| told(sums, names.remove(&sums.id).flatten())).collect())
}

/// Those with the longest waits, longest first.
fn worst(mut all: Vec<vaware_cgroup>) -> Vec<vaware_cgroup> {
    let waited_ns = |sums: &vaware_cgroup| sums.wait_ns.saturating_add(sums.held_ns);
    all.retain(|sums| sums.id != 0 && waited_ns(sums) > 0);
    all.sort_by_key(|sums| Reverse((waited_ns(sums), sums.id)));
    all.truncate(SHOWN_MAX);
    all
}

fn told(sums: &vaware_cgroup, path: Option<String>) -> Cgroup {
    Cgroup {
        path: path.unwrap_or_else(|| format!("id:{}", sums.id)),
        waited: Duration::from_nanos(sums.wait_ns),
        held: Duration::from_nanos(sums.held_ns),
        stolen: Duration::from_nanos(sums.stolen_ns),
    }
}

/// Put the paths of cgroups into `names`, by the inodes of their folders. What cannot be read, or is
/// gone by now, has no name.
fn find_names(folder: &Path, path: &str, levels: usize, names: &mut BTreeMap<u64, Option<String>>) {
    let Some(levels) = levels.checked_sub(1) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let below = format!("{path}/{}", entry.file_name().to_string_lossy());
        if let Some(name) = names.get_mut(&entry.ino()) {
            *name = Some(below.clone());
        }
        find_names(&entry.path(), &below, levels, names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(id: u64, wait_ns: u64, held_ns: u64) -> vaware_cgroup {
        vaware_cgroup { id, wait_ns, held_ns, stolen_ns: 0 }
    }

    #[test]
    fn the_longest_waits_are_shown_and_not_more() {
        let all = (0..50).map(|id| sums(id, id * 10, 0)).chain([sums(99, 0, 1000)]).collect();
        let shown = worst(all);
        assert_eq!(shown.len(), SHOWN_MAX);
        assert_eq!([shown[0].id, shown[1].id], [99, 49]);
        assert!(worst(vec![sums(0, 5, 5), sums(3, 0, 0)]).is_empty(), "no cgroup, and no wait");
    }

    #[test]
    fn names_are_found_by_inode() -> anyhow::Result<()> {
        let root = std::env::temp_dir().join(format!("vaware-cgroups-{}", std::process::id()));
        let below = root.join("kubepods/pod\"1");
        fs::create_dir_all(&below)?;
        let (id, gone) = (fs::metadata(&below)?.ino(), u64::MAX);
        let mut names = BTreeMap::from([(id, None), (gone, None)]);
        find_names(&root, "", LEVELS_MAX, &mut names);
        fs::remove_dir_all(&root)?;
        assert_eq!(names[&id].as_deref(), Some("/kubepods/pod\"1"));
        assert_eq!(told(&sums(gone, 1, 2), names[&gone].clone()).path, format!("id:{gone}"));
        Ok(())
    }
}
