// SPDX-License-Identifier: GPL-2.0-only
//! The program: command line in, exit code out.

mod cli;
mod run;
mod screen;
mod signals;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // As other command-line tools: end quietly, and detach, when nobody reads the output any more.
    // SAFETY: no other thread runs yet, and the default action is no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let arguments = cli::Arguments::parse();
    match run::run(&arguments.options()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("scx_vaware: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
