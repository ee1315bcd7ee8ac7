// SPDX-License-Identifier: GPL-2.0-only
//! What the daemon changes in the files of /sys and /proc, and how it is undone: at exit, and after a
//! crash at the next start. The one way to write there.
//!
//! The value of before goes to a record before the file is first written. The record is replaced as
//! a whole, so that it is right whenever the process is killed. It lies in a folder that a boot
//! empties, as a boot undoes the changes, too. Files have to take what they show. What somebody else
//! has changed since is left alone.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::text_file::{self, plain};

/// Where the record is without a service manager (systemd: `RuntimeDirectory=`).
const FOLDER: &str = "/run/scx_vaware";
const RECORD: &str = "restore.toml";
/// Files that may be changed are below these.
const ROOTS: [&str; 2] = ["/sys", "/proc"];
/// A line each for a few files of each of 8192 vCPUs.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Files of /sys show a page at most.
const VALUE_BYTES_MAX: u64 = 4096;

/// One file that has been changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    /// What it showed.
    before: String,
    /// What it showed after the change; none while the change is under way.
    ours: Option<String>,
}

/// The changes of this process, and their record. Dropping it undoes them.
#[derive(Debug)]
pub struct Restore {
    folder: PathBuf,
    roots: Vec<PathBuf>,
    changes: BTreeMap<String, Change>,
    /// Held against a second process while this one lives; or why nothing can be changed.
    lock: Result<File, String>,
}

impl Restore {
    /// Undo what a process that was killed has left, and begin a record in `$RUNTIME_DIRECTORY`.
    /// The second value has a sentence for each file that could not be restored.
    pub fn begin() -> (Self, Vec<String>) {
        let folder = std::env::var_os("RUNTIME_DIRECTORY").map_or(FOLDER.into(), PathBuf::from);
        Self::begin_at(folder, ROOTS.map(PathBuf::from).into())
    }

    pub(crate) fn begin_at(folder: PathBuf, roots: Vec<PathBuf>) -> (Self, Vec<String>) {
        let lock = lock(&folder);
        let mut this = Self { folder, roots, changes: BTreeMap::new(), lock };
        if this.lock.is_err() {
            return (this, Vec::new());
        }
        match this.read() {
            Ok(changes) => this.changes = changes,
            Err(why) => {
                let path = this.record().display().to_string();
                let why = format!("{path} cannot be read: {why}; set what it names, and remove it");
                this.lock = Err(why.clone());
                return (this, vec![why]);
            }
        }
        let notes = this.undo_all();
        (this, notes)
    }

    /// Have the file at `path` show `value`, until [`undo`](Self::undo) or the end of the process.
    ///
    /// # Errors
    /// A sentence. The file is as it was.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<(), String> {
        if let Err(why) = &self.lock {
            return Err(why.clone());
        }
        let name = self.name(path)?;
        let shown = show(path).map_err(|why| failed("read", path, &why))?;
        if shown == value {
            return Ok(());
        }
        let known = self.changes.get(&name).cloned();
        let before = self.before(&name, shown);
        self.note(&name, Some(Change { before: before.clone(), ours: None }))?;
        if let Err(why) = write(path, value) {
            self.note(&name, known)?;
            return Err(failed("write", path, &why));
        }
        // Not always what was written: the kernel has its own way to show it.
        self.note(&name, Some(Change { before, ours: show(path).ok() }))
    }

    /// What the file at `path` shows without a change of this process.
    ///
    /// # Errors
    /// A sentence.
    pub fn original(&self, path: &Path) -> Result<String, String> {
        let shown = show(path).map_err(|why| failed("read", path, &why))?;
        Ok(self.before(&self.name(path)?, shown))
    }

    /// What the file shows without a change of this process, where it now shows `shown`. What
    /// somebody else has set meanwhile counts from now on.
    fn before(&self, name: &str, shown: String) -> String {
        match self.changes.get(name) {
            Some(change) if change.ours.as_ref().is_none_or(|ours| *ours == shown) => {
                change.before.clone()
            }
            _ => shown,
        }
    }

    /// Have the file at `path` show what it did before it was first set, if it was.
    ///
    /// # Errors
    /// A sentence. What can be tried again is left on record.
    pub fn undo(&mut self, path: &Path) -> Result<(), String> {
        let name = self.name(path)?;
        let Some(change) = self.changes.get(&name) else { return Ok(()) };
        match show(path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => {} // its device is gone
            Err(why) => return Err(failed("read", path, &why)),
            Ok(shown) if shown == change.before => {}
            Ok(shown) if change.ours.as_ref().is_some_and(|ours| *ours != shown) => {}
            Ok(_) => {
                write(path, &change.before).map_err(|why| {
                    let todo = format!("write {} to it yourself", change.before);
                    format!("cannot restore {}: {}; {todo}", path.display(), plain(&why))
                })?;
            }
        }
        self.note(&name, None)
    }

    /// Undo all changes. Return a sentence for each that could not be undone.
    pub fn undo_all(&mut self) -> Vec<String> {
        let names: Vec<_> = self.changes.keys().cloned().collect();
        names.iter().filter_map(|name| self.undo(Path::new(name)).err()).collect()
    }

    /// Put `change` on record, or take it off.
    fn note(&mut self, name: &str, change: Option<Change>) -> Result<(), String> {
        let mut changes = self.changes.clone();
        match change {
            Some(change) => changes.insert(name.to_owned(), change),
            None => changes.remove(name),
        };
        self.save(&changes).map_err(|why| failed("write", &self.record(), &why))?;
        self.changes = changes;
        Ok(())
    }

    /// Replace the record as a whole.
    fn save(&self, changes: &BTreeMap<String, Change>) -> io::Result<()> {
        let record = self.record();
        if changes.is_empty() {
            return match fs::remove_file(&record) {
                Err(why) if why.kind() != io::ErrorKind::NotFound => Err(why),
                _ => Ok(()),
            };
        }
        text_file::replace(&record, &toml::to_string(changes).map_err(io::Error::other)?)
    }

    /// What a process before this one has left on record. It says which files are written, so it
    /// counts only if nobody else can have written it.
    fn read(&self) -> Result<BTreeMap<String, Change>, String> {
        let record = self.record();
        let found = match record.symlink_metadata() {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(why) => return Err(plain(&why)),
            Ok(found) => found,
        };
        // SAFETY: it reads a number of this process.
        let own = unsafe { libc::geteuid() };
        if !found.is_file() || found.uid() != own || found.mode() & 0o022 != 0 {
            return Err("another user can have written it".into());
        }
        let text = text_file::read(&record, RECORD_BYTES_MAX)?;
        toml::from_str(&text).map_err(|why| why.message().to_owned())
    }

    fn record(&self) -> PathBuf {
        self.folder.join(RECORD)
    }

    /// The name of `path` on record, if it may be changed.
    fn name(&self, path: &Path) -> Result<String, String> {
        let is_plain = path.components().all(|part| part != Component::ParentDir);
        match path.to_str() {
            Some(name) if is_plain && self.roots.iter().any(|root| path.starts_with(root)) => {
                Ok(name.to_owned())
            }
            _ => Err(format!("{} is no file of /sys or /proc; it is left alone", path.display())),
        }
    }
}

#[cfg(test)]
impl Restore {
    /// End as a process that is killed: nothing is undone, and the lock is free.
    pub(crate) fn kill(mut self) {
        self.changes.clear();
        self.lock = Err(String::new());
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        // Who wants to tell what was in vain has called undo_all() before.
        self.undo_all();
    }
}

/// Make `folder` this process's own while it lives.
fn lock(folder: &Path) -> Result<File, String> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    let opened = made.and_then(|()| File::open(folder));
    let file = opened.map_err(|why| failed("open", folder, &why))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(format!("another scx_vaware uses {}; end it first", folder.display())),
    }
}

fn failed(what: &str, path: &Path, why: &io::Error) -> String {
    format!("cannot {what} {}: {}; check the rights of the daemon", path.display(), plain(why))
}

/// What the file shows, in one line.
fn show(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(VALUE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

fn write(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for the record, and one of files that may be changed.
    struct Scene {
        folder: PathBuf,
        files: PathBuf,
    }

    impl Scene {
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("vaware-restore-{name}-{}", std::process::id()));
            let files = folder.join("sys");
            let _ = fs::create_dir_all(&files);
            Self { folder, files }
        }

        fn file(&self, name: &str, value: &str) -> PathBuf {
            let path = self.files.join(name);
            let _ = fs::write(&path, value);
            path
        }

        fn begin(&self) -> (Restore, Vec<String>) {
            Restore::begin_at(self.folder.clone(), vec![self.files.clone()])
        }

        fn record(&self) -> String {
            fs::read_to_string(self.folder.join(RECORD)).unwrap_or_default()
        }
    }

    impl Drop for Scene {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    fn shown(path: &Path) -> String {
        show(path).unwrap_or_default()
    }

    #[test]
    fn the_end_restores_what_was_there_before_the_first_change() {
        let scene = Scene::new("end");
        let (path, other) = (scene.file("a", "200000\n"), scene.file("b", "n/a\n"));
        let mut restore = scene.begin().0;
        assert_eq!(restore.set(&path, "0"), Ok(()));
        assert_eq!(restore.set(&path, "100000"), Ok(()));
        assert_eq!(restore.set(&other, "0"), Ok(()));
        assert_eq!((shown(&path), shown(&other)), ("100000".into(), "0".into()));
        assert_eq!(restore.undo(&other), Ok(()));
        assert_eq!((shown(&path), shown(&other)), ("100000".into(), "n/a".into()));
        drop(restore);
        assert_eq!((shown(&path), scene.record()), ("200000".into(), String::new()));
    }

    #[test]
    fn the_next_process_restores_after_a_crash() {
        let scene = Scene::new("crash");
        let path = scene.file("a", "before");
        let mut restore = scene.begin().0;
        assert_eq!(restore.set(&path, "after"), Ok(()));
        restore.kill();
        assert_eq!(shown(&path), "after");
        let (_next, notes) = scene.begin();
        assert_eq!((shown(&path), notes), ("before".into(), Vec::new()));
    }

    #[test]
    fn a_crash_between_record_and_change_is_no_loss() {
        let scene = Scene::new("between");
        let path = scene.file("a", "before");
        let restore = scene.begin().0;
        let changes = BTreeMap::from([(
            path.to_string_lossy().into_owned(),
            Change { before: "before".into(), ours: None },
        )]);
        assert!(restore.save(&changes).is_ok());
        restore.kill();
        let _ = fs::write(&path, "half"); // written, and not yet read back
        drop(scene.begin());
        assert_eq!(shown(&path), "before");
    }

    #[test]
    fn what_others_have_changed_since_is_left_alone() {
        let scene = Scene::new("others");
        let path = scene.file("a", "before");
        let mut restore = scene.begin().0;
        assert_eq!(restore.set(&path, "ours"), Ok(()));
        let _ = fs::write(&path, "theirs");
        drop(restore);
        assert_eq!((shown(&path), scene.record()), ("theirs".into(), String::new()));
    }

    #[test]
    fn what_others_set_between_two_changes_is_what_comes_back() {
        let scene = Scene::new("meanwhile");
        let path = scene.file("a", "before");
        let mut restore = scene.begin().0;
        assert_eq!(restore.set(&path, "ours"), Ok(()));
        assert_eq!(restore.original(&path), Ok("before".into()));
        let _ = fs::write(&path, "theirs");
        assert_eq!(restore.original(&path), Ok("theirs".into()));
        assert_eq!(restore.set(&path, "ours"), Ok(()));
        drop(restore);
        assert_eq!(shown(&path), "theirs");
    }

    #[test]
    fn files_that_are_gone_or_were_right_are_no_trouble() {
        let scene = Scene::new("gone");
        let (gone, right) = (scene.file("a", "before"), scene.file("b", "right"));
        let mut restore = scene.begin().0;
        assert_eq!(restore.set(&gone, "after"), Ok(()));
        assert_eq!(restore.set(&right, "right"), Ok(()));
        assert!(!scene.record().contains("right"));
        let _ = fs::remove_file(&gone);
        assert_eq!(restore.undo_all(), Vec::<String>::new());
        let missing = restore.set(&gone, "after");
        assert!(missing.is_err_and(|why| why.contains("no such file")));
    }

    #[test]
    fn nothing_else_is_changed_and_two_do_not_change_at_once() {
        let scene = Scene::new("else");
        let path = scene.file("a", "before");
        let mut restore = scene.begin().0;
        for elsewhere in ["/etc/passwd", "a"].map(PathBuf::from) {
            assert!(restore.set(&elsewhere, "x").is_err());
        }
        assert!(restore.set(&scene.files.join("../restore.toml"), "x").is_err());
        let mut second = scene.begin().0;
        assert!(second.set(&path, "x").is_err_and(|why| why.contains("another scx_vaware")));
        assert_eq!(shown(&path), "before");
    }

    #[test]
    fn a_record_that_others_can_have_written_does_not_count() {
        use std::os::unix::fs::PermissionsExt;
        let scene = Scene::new("trust");
        let path = scene.file("a", "after");
        let record = scene.folder.join(RECORD);
        let text = format!("[{:?}]\nbefore = \"before\"\nours = \"after\"\n", path.display());
        for (text, mode) in [(text.as_str(), 0o666), ("rubbish", 0o600)] {
            let _ = fs::write(&record, text);
            let _ = fs::set_permissions(&record, fs::Permissions::from_mode(mode));
            let (mut restore, notes) = scene.begin();
            assert!(notes.len() == 1 && notes[0].contains("cannot be read"), "{notes:?}");
            assert!(restore.set(&path, "x").is_err());
            assert_eq!(shown(&path), "after");
        }
    }
}
