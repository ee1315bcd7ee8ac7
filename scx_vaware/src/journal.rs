// SPDX-License-Identifier: GPL-2.0-only
//! Sentences for stderr. Where that is the journal each line begins with its priority
//! (sd-daemon(3)), elsewhere with the program's name.

use std::fs::File;
use std::io::stderr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;

use userspace::events::Priority;

/// Whether the journal reads stderr.
static IS_JOURNAL: LazyLock<bool> = LazyLock::new(|| {
    let metadata =
        stderr().as_fd().try_clone_to_owned().and_then(|stderr| File::from(stderr).metadata());
    metadata.is_ok_and(|stderr| {
        std::env::var("JOURNAL_STREAM")
            .is_ok_and(|stream| names(&stream, stderr.dev(), stderr.ino()))
    })
});

/// Whether `JOURNAL_STREAM` names this file: a service may have sent its stderr elsewhere.
fn names(stream: &str, device: u64, inode: u64) -> bool {
    stream == format!("{device}:{inode}")
}

/// `text`, of one line or more, as stderr takes it.
pub fn lines(priority: Priority, text: &str) -> String {
    mark(priority, text, *IS_JOURNAL)
}

fn mark(priority: Priority, text: &str, is_journal: bool) -> String {
    if !is_journal {
        return format!("scx_vaware: {text}\n");
    }
    // The journal has the program's name, and takes each line for an entry.
    text.lines().map(|line| format!("<{}>{line}\n", priority as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_in_the_journal_has_its_priority() {
        assert_eq!(mark(Priority::Warning, "one\ntwo", true), "<4>one\n<4>two\n");
        assert_eq!(mark(Priority::Error, "one", true), "<3>one\n");
        assert_eq!(mark(Priority::Warning, "one\ntwo", false), "scx_vaware: one\ntwo\n");
    }

    #[test]
    fn stderr_is_the_journal_if_the_variable_names_it() {
        assert!(names("8:1234", 8, 1234));
        for other in ["8:1235", "9:1234", "", "8", "x:y"] {
            assert!(!names(other, 8, 1234), "{other}");
        }
    }
}
