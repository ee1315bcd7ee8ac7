// SPDX-License-Identifier: GPL-2.0-only
//! Files that a user names: read within bounds, whatever they are. Files of our own: replaced as a whole.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Read the text of a regular file of at most `bytes_max` bytes.
///
/// # Errors
/// A sentence, without the path.
pub fn read(path: &Path, bytes_max: u64) -> Result<String, String> {
    let or_why = |error: io::Error| format!("{}; check the path and its rights", plain(&error));
    // The open of a FIFO would wait for a writer, and that of some devices does things.
    if !path.metadata().map_err(or_why)?.is_file() {
        return Err("it is not a regular file; name one".into());
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(or_why)?;
    read_open(file, bytes_max)
}

fn read_open(file: File, bytes_max: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    // Its length may be unknown, as in /proc, or grow meanwhile.
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("{}; try a copy of it", plain(&error)))?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("it has more than {} KiB; name the right file", bytes_max >> 10));
    }
    String::from_utf8(bytes).map_err(|error| {
        format!("byte {} is not UTF-8 text; name a text file", error.utf8_error().valid_up_to() + 1)
    })
}

/// Put `text` into the file at `path`, as a whole or not at all.
///
/// # Errors
/// What the system said.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, path)
}

/// The error in words, without its number.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_short_text_file_is_refused() {
        let refused = |path: &str| read(Path::new(path), 1 << 10).err().unwrap_or_default();
        assert!(refused("/dev/zero").contains("not a regular file"));
        assert!(refused("/tmp").contains("not a regular file"));
        assert!(refused("/nowhere").starts_with("no such file or directory;"));
        assert!(
            refused("/proc/kallsyms").contains("more than 1 KiB"),
            "a length of 0 is not trusted"
        );
        assert!(refused("/proc/self/exe").contains("more than 1 KiB"));
        assert_eq!(
            read(Path::new("/proc/self/comm"), 1 << 10).map(|text| text.is_empty()),
            Ok(false)
        );
    }

    #[test]
    fn a_fifo_is_refused_at_once() -> io::Result<()> {
        let path = std::env::temp_dir().join(format!("scx_vaware-fifo-{}", std::process::id()));
        let c_path = std::ffi::CString::new(path.to_string_lossy().as_bytes())?;
        // SAFETY: a string with its NUL, which the call only reads.
        assert_eq!(unsafe { libc::mkfifo(c_path.as_ptr(), 0o600) }, 0);
        let refused = read(&path, 1 << 10);
        std::fs::remove_file(&path)?;
        assert_eq!(refused, Err("it is not a regular file; name one".into()));
        Ok(())
    }
}
