// SPDX-License-Identifier: GPL-2.0-only
//! How often the kernel has ejected the scheduler since boot. Each ejection ends the process, so the
//! number is kept in the service's runtime directory (systemd: `RuntimeDirectory=`).

use std::fs;
use std::path::PathBuf;

/// The number of ejections, and where it is kept; nowhere without a service manager.
#[derive(Clone, Debug, Default)]
pub struct Ejections {
    file: Option<PathBuf>,
    pub count: u64,
}

impl Ejections {
    /// Those that are on record in `$RUNTIME_DIRECTORY`.
    pub fn from_env() -> Self {
        let folder = std::env::var_os("RUNTIME_DIRECTORY");
        Self::read(folder.map(|folder| PathBuf::from(folder).join("ejections")))
    }

    fn read(file: Option<PathBuf>) -> Self {
        let text = file.as_ref().and_then(|file| fs::read_to_string(file).ok());
        let count = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        Self { file, count }
    }

    /// Where they are on record, for people.
    pub fn place(&self) -> String {
        self.file.as_ref().map_or("nothing".into(), |file| file.display().to_string())
    }

    /// Look at the record again, which an operator may have taken away.
    pub fn read_again(&mut self) {
        *self = Self::read(self.file.take());
    }

    /// There was one more.
    pub fn add(&mut self) {
        self.count += 1;
        if let Some(file) = &self.file {
            // Where it cannot be written the alert on a daemon that is down has to do.
            let _ = fs::write(file, format!("{}\n", self.count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_process_knows_of_them() {
        let file = std::env::temp_dir().join(format!("vaware-ejections-{}", std::process::id()));
        let mut first = Ejections::read(Some(file.clone()));
        assert_eq!(first.count, 0);
        first.add();
        first.add();
        first.read_again();
        assert_eq!((first.count, Ejections::read(Some(file.clone())).count), (2, 2));
        let _ = fs::write(&file, "rubbish");
        assert_eq!(Ejections::read(Some(file.clone())).count, 0);
        let _ = fs::remove_file(file);
    }
}
