// SPDX-License-Identifier: GPL-2.0-only
//! `scx_vaware package-files`: man pages and shell completions, made from the command line's own
//! definition.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use userspace::failure::Failure;

use crate::cli::Arguments;

/// System administration.
const SECTION: &str = "8";

/// Where each shell looks below the folder of shared files.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Zsh, "zsh/site-functions"),
    (Shell::Fish, "fish/vendor_completions.d"),
];

/// Where to write.
#[derive(Args)]
pub struct PackageFilesOptions {
    /// The folder of shared files, such as /usr/share.
    folder: PathBuf,
}

/// Write man pages and completions below the folder.
///
/// # Errors
/// If a file cannot be written there.
pub fn write(options: &PackageFilesOptions) -> Result<(), Failure> {
    let folder = &options.folder;
    let mut command = <Arguments as CommandFactory>::command();
    command.build();
    write_below(folder, command)
        .with_context(|| format!("writing below {}; choose a folder of yours", folder.display()))?;
    Ok(())
}

fn write_below(folder: &Path, mut command: Command) -> std::io::Result<()> {
    for (shell, place) in COMPLETIONS {
        let place = folder.join(place);
        fs::create_dir_all(&place)?;
        // As bash-completion looks it up: by the command's name alone.
        let written = generate_to(shell, &mut command, "scx_vaware", &place)?;
        if shell == Shell::Bash {
            fs::rename(written, place.join("scx_vaware"))?;
        }
    }
    let manuals = folder.join("man/man8");
    fs::create_dir_all(&manuals)?;
    write_manuals(&manuals, &command, "scx_vaware")
}

/// A page for the command, and one for each of its own.
fn write_manuals(folder: &Path, command: &Command, name: &str) -> std::io::Result<()> {
    let mut page = Vec::new();
    // The page names it as it is typed; a command of another would be called by its last word.
    let titled = command.clone().name(name.to_string()).display_name(name.to_string());
    let source = concat!("scx_vaware ", env!("CARGO_PKG_VERSION"));
    Man::new(titled).section(SECTION).source(source).render(&mut page)?;
    fs::write(folder.join(format!("{name}.{SECTION}")), page)?;
    let is_shown = |own: &&Command| !own.is_hide_set() && own.get_name() != "help";
    command
        .get_subcommands()
        .filter(is_shown)
        .try_for_each(|own| write_manuals(folder, own, &format!("{name}-{}", own.get_name())))
}
