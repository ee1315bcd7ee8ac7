// SPDX-License-Identifier: GPL-2.0-only
//! Cgroups whose CPU limits or weights are in use. sched_ext leaves both to the scheduler that is
//! loaded (kernel: `Documentation/admin-guide/cgroup-v2.rst`, `ops.cgroup_set_bandwidth`), and this
//! one enforces neither.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// How many cgroups a sentence names.
const NAMED: usize = 3;

/// Cgroups with processes below them, by path within their hierarchy.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CpuCgroups {
    /// Those that limit CPU time: `cpu.max`, or `cpu.cfs_quota_us` of version 1.
    pub limited: Vec<String>,
    /// Those with another weight than the default: `cpu.weight`, or `cpu.shares` of version 1.
    pub weighted: Vec<String>,
}

impl CpuCgroups {
    /// Look through all mounted hierarchies. Where there is none, or it cannot be read, nothing is
    /// found.
    pub fn find() -> Self {
        Self::find_in(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    fn find_in(mountinfo: &str) -> Self {
        let mut found = Self::default();
        for root in mountinfo.lines().filter_map(cpu_hierarchy) {
            found.visit(&root, &root);
        }
        found.limited.sort();
        found.weighted.sort();
        found
    }

    /// Look at the cgroup in `folder` and those below it. Return whether any has processes.
    fn visit(&mut self, root: &Path, folder: &Path) -> bool {
        let mut in_use =
            read(&folder.join("cgroup.procs")).is_some_and(|processes| !processes.is_empty());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                in_use |= self.visit(root, &entry.path());
            }
        }
        if in_use && folder != root {
            let name = || format!("/{}", folder.strip_prefix(root).unwrap_or(folder).display());
            if limits_time(folder) {
                self.limited.push(name());
            }
            if has_weight(folder) {
                self.weighted.push(name());
            }
        }
        in_use
    }

    /// Those that limit CPU time here, and did not in `before`.
    pub fn newly_limited(&self, before: &Self) -> Vec<String> {
        let is_new = |name: &&String| !before.limited.contains(name);
        self.limited.iter().filter(is_new).cloned().collect()
    }

    /// Whether the scheduler may be loaded.
    ///
    /// # Errors
    /// [`Failure::Quota`] that names the first of the cgroups that limit CPU time.
    pub fn check(&self) -> Result<(), Failure> {
        if self.limited.is_empty() {
            return Ok(());
        }
        Err(Failure::Quota(format!(
            "cgroups limit CPU time (cpu.max), which does not hold under sched_ext: {}; lift these \
             limits, or let them lapse with --allow-quota",
            first_of(&self.limited)
        )))
    }
}

/// The names for people: the first few, and how many more there are.
pub fn first_of(names: &[String]) -> String {
    let named = names[..names.len().min(NAMED)].join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The mount point, if this line of mountinfo is a cgroup hierarchy that controls CPUs.
fn cpu_hierarchy(line: &str) -> Option<PathBuf> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let controls_cpu = match kind.next()? {
        "cgroup2" => true,
        "cgroup" => kind.next_back()?.split(',').any(|option| option == "cpu"),
        _ => false,
    };
    controls_cpu.then(|| mount.split(' ').nth(4).map(PathBuf::from))?
}

fn limits_time(folder: &Path) -> bool {
    read(&folder.join("cpu.max")).is_some_and(|max| !max.starts_with("max"))
        || read(&folder.join("cpu.cfs_quota_us")).is_some_and(|quota| !quota.starts_with('-'))
}

fn has_weight(folder: &Path) -> bool {
    read(&folder.join("cpu.weight")).is_some_and(|weight| weight != "100")
        || read(&folder.join("cpu.shares")).is_some_and(|shares| shares != "1024")
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_line_of_mountinfo_is_a_hierarchy_or_none(
            line in prop_oneof!["[ -~]{0,30}( - |-)(cgroup2?|[a-z]{0,4})[ a-z,]{0,12}", any::<String>()],
        ) {
            if let Some(root) = cpu_hierarchy(&line) {
                prop_assert!(line.contains(" - ") && line.contains(&*root.to_string_lossy()));
            }
        }
    }

    /// A hierarchy of folders that looks like one of cgroups, removed at the end.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> std::io::Result<Self> {
            let root = std::env::temp_dir().join(format!("vaware-{name}-{}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap_or(&root))?;
                fs::write(path, text)?;
            }
            Ok(Self(root))
        }

        fn find(&self, kind: &str) -> CpuCgroups {
            let root = self.0.display();
            CpuCgroups::find_in(&format!("25 1 0:22 / {root} rw,nosuid shared:9 - {kind}\n"))
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn limits_and_weights_in_use_are_found() -> std::io::Result<()> {
        let tree = Tree::new(
            "v2",
            &[
                ("cgroup.procs", "1\n"),
                ("cpu.max", "1 1\n"), // of the root: the kernel has no such file
                ("a.slice/cgroup.procs", ""),
                ("a.slice/cpu.max", "50000 100000\n"),
                ("a.slice/b.service/cgroup.procs", "7\n8\n"),
                ("a.slice/b.service/cpu.max", "max 100000\n"),
                ("a.slice/b.service/cpu.weight", "300\n"),
                ("empty/cgroup.procs", ""),
                ("empty/cpu.max", "1000 100000\n"),
                ("plain/cgroup.procs", "9\n"),
                ("plain/cpu.max", "max 100000\n"),
                ("plain/cpu.weight", "100\n"),
            ],
        )?;
        let found = tree.find("cgroup2 cgroup2 rw,nsdelegate");
        assert_eq!(found.limited, ["/a.slice"]);
        assert_eq!(found.weighted, ["/a.slice/b.service"]);
        fs::write(tree.0.join("plain/cpu.max"), "2000 100000\n")?;
        let later = tree.find("cgroup2 cgroup2 rw,nsdelegate");
        assert_eq!(later.newly_limited(&found), ["/plain"]);
        assert_eq!(found.newly_limited(&later), [""; 0]);
        Ok(())
    }

    #[test]
    fn version_1_is_read_where_it_controls_cpus() -> std::io::Result<()> {
        let tree = Tree::new(
            "v1",
            &[
                ("docker/x/cgroup.procs", "7\n"),
                ("docker/x/cpu.cfs_quota_us", "20000\n"),
                ("docker/x/cpu.shares", "1024\n"),
                ("free/cgroup.procs", "8\n"),
                ("free/cpu.cfs_quota_us", "-1\n"),
                ("free/cpu.shares", "2\n"),
            ],
        )?;
        let found = tree.find("cgroup cgroup rw,cpu,cpuacct");
        assert_eq!(found.limited, ["/docker/x"]);
        assert_eq!(found.weighted, ["/free"]);
        assert_eq!(tree.find("cgroup cgroup rw,memory"), CpuCgroups::default());
        assert_eq!(tree.find("tmpfs tmpfs rw"), CpuCgroups::default());
        Ok(())
    }

    #[test]
    fn a_refusal_names_the_first_and_says_what_to_do() {
        let limited = ["/a", "/b", "/c", "/d", "/e"].map(String::from).to_vec();
        let refused = CpuCgroups { limited, ..Default::default() }.check();
        let text = refused.err().map(|failure| failure.to_string()).unwrap_or_default();
        assert!(text.contains("/a, /b, /c and 2 more;"), "{text}");
        assert!(text.contains("--allow-quota"));
        assert!(CpuCgroups::default().check().is_ok());
    }
}
