// SPDX-License-Identifier: GPL-2.0-only
//! The program as a user meets it: what it says of files and places that it cannot use.

use std::fs::{self, File};
use std::io::{Error, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Far above what anything here takes, on a machine that is busy with other things.
const LIMIT: Duration = Duration::from_secs(60);
const FAILED: i32 = 1;
const WRONG_CONFIGURATION: i32 = 78;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("scx_vaware-{name}-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn file(&self, name: &str, text: &[u8]) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    fn fifo(&self) -> Result<PathBuf> {
        let path = self.0.join("fifo");
        let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a string with its NUL, which the call only reads.
        match unsafe { libc::mkfifo(name.as_ptr(), 0o600) } {
            0 => Ok(path),
            _ => Err(Error::last_os_error()),
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Run it with 1 GiB of memory. An end by the limit of time has no exit code.
fn run(arguments: &[&str], stdout: Stdio) -> Result<Output> {
    run_after("ulimit -v 1048576", arguments, stdout)
}

/// Run it in a shell that has run `setup`.
fn run_after(setup: &str, arguments: &[&str], stdout: Stdio) -> Result<Output> {
    let command = format!("{setup} && exec \"$@\"");
    let mut child = Command::new("/bin/sh")
        .args(["-c", &command, "sh", env!("CARGO_BIN_EXE_scx_vaware")])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
        }
        sleep(Duration::from_millis(10));
    }
    child.wait_with_output()
}

/// It ends in time with `code` and one sentence that has `words` in it.
fn assert_refused(arguments: &[&str], code: i32, words: &str) -> Result<()> {
    let done = run(arguments, Stdio::null())?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(words) && said.contains("; "), "{arguments:?}: {said}");
    assert!(said.ends_with('\n') && said.matches('\n').count() == 1, "{arguments:?}: {said}");
    assert!(said.len() < 500, "{arguments:?}: {said}");
    Ok(())
}

#[test]
fn a_file_that_is_none_is_refused_at_once() -> Result<()> {
    let folder = Folder::new("files")?;
    let fifo = folder.fifo()?;
    let long = folder.file("long", &vec![b' '; 33 << 20])?;
    let binary = folder.file("binary", b"\xff\xfe\0")?;
    for (path, words) in [
        (fifo.as_path(), "not a regular file"),
        (Path::new("/dev/zero"), "not a regular file"),
        (&folder.0, "not a regular file"),
        (Path::new("/nowhere"), "no such file"),
        (&long, "KiB"),
        (&binary, "not UTF-8"),
    ] {
        let path = path.to_string_lossy();
        assert_refused(&["config", "check", &path], WRONG_CONFIGURATION, words)?;
        assert_refused(&["config", "show", "--config", &path], WRONG_CONFIGURATION, words)?;
        assert_refused(&["--config", &path], WRONG_CONFIGURATION, words)?;
        assert_refused(&["probe", "--matrix", &path], WRONG_CONFIGURATION, words)?;
    }
    Ok(())
}

#[test]
fn the_file_the_line_and_the_key_of_a_mistake_are_named() -> Result<()> {
    let folder = Folder::new("mistakes")?;
    let wrong = folder.file("wrong.toml", b"partial = false\nwait_bound_ms = 5\n")?;
    let wrong = wrong.to_string_lossy();
    let sentence = format!(
        "scx_vaware: {wrong}, line 2: wait_bound_ms = 5 cannot be; write a whole number from 100 \
         to 10000"
    );
    assert_refused(&["config", "check", &wrong], WRONG_CONFIGURATION, &sentence)
}

/// Readings are missing, at random, or against each other: nothing that a machine looks like.
#[test]
fn a_matrix_takes_bounded_time_whatever_is_in_it() -> Result<()> {
    let folder = Folder::new("matrix")?;
    let write = |name: &str, vcpus: usize, field: &dyn Fn(usize, usize) -> String| {
        let line = |row| (0..row).map(|column| field(row, column)).collect::<Vec<_>>().join(",");
        folder.file(name, (0..vcpus).map(line).collect::<Vec<_>>().join("\n").as_bytes())
    };
    let blank = write("blank", 800, &|_, _| String::new())?;
    assert_refused(
        &["probe", "--matrix", &blank.to_string_lossy()],
        WRONG_CONFIGURATION,
        "no latency",
    )?;
    let many = write("many", 1025, &|_, _| "50".into())?;
    assert_refused(&["probe", "--matrix", &many.to_string_lossy()], WRONG_CONFIGURATION, "1024")?;
    let at_random = |row: usize, column: usize| 1 + (row * 7919 + column * 104_729) % 65_521;
    for path in [
        write("one", 1024, &|row, column| if row + column == 1 { "50".into() } else { "".into() })?,
        write("random", 1024, &|row, column| at_random(row, column).to_string())?,
        write("stacked", 1024, &|row, column| {
            if row / 512 == column / 512 { "1e7".into() } else { "50".into() }
        })?,
        write("contradicted", 1024, &|row, column| {
            ["50", "1e7", ""][at_random(row, column) % 3].into()
        })?,
    ] {
        let done = run(&["probe", "--matrix", &path.to_string_lossy()], Stdio::piped())?;
        assert_eq!(done.status.code(), Some(0), "{}", path.display());
        assert!(String::from_utf8_lossy(&done.stdout).starts_with("1024 vCPUs\n"));
    }
    Ok(())
}

#[test]
fn few_open_files_are_no_obstacle_where_more_may_be_had() -> Result<()> {
    let arguments = ["probe", "--json", "--duration", "0.1"];
    let few = "ulimit -S -n 7"; // too few for two vCPUs, as 1024 are for some hundreds
    let done = run_after(few, &arguments, Stdio::piped())?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("\"vcpus\""));
    let done = run_after("ulimit -n 7", &arguments, Stdio::piped())?;
    assert_eq!(done.status.code(), Some(FAILED), "or else this tests nothing");
    Ok(())
}

#[test]
fn a_full_disk_is_a_failure_with_a_sentence() -> Result<()> {
    let folder = Folder::new("full")?;
    let matrix = folder.file("matrix.csv", b"\n50\n")?;
    let file = folder.file("right.toml", b"partial = true\n")?;
    for arguments in [
        &["config", "show"][..],
        &["config", "check", &file.to_string_lossy()],
        &["probe", "--matrix", &matrix.to_string_lossy()],
        &["probe", "--matrix", &matrix.to_string_lossy(), "--json"],
        &["doctor", "--duration", "0.1"],
        &["doctor", "--duration", "0.1", "--json"],
        &["probe", "--duration", "0.1", "--budget", "0"],
    ] {
        let done = run(arguments, File::options().write(true).open("/dev/full")?.into())?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(FAILED), "{arguments:?}: {said}");
        assert!(said.contains("no space left on device; "), "{arguments:?}: {said}");
    }
    Ok(())
}
