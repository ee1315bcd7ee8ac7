// SPDX-License-Identifier: GPL-2.0-only
//! The program: command line in, exit code out.

mod cli;
mod run;
mod screen;
mod signals;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = cli::Arguments::parse();
    match run::run(&arguments.options()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("scx_vaware: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
