// SPDX-License-Identifier: GPL-2.0-only
//! The program: command line in, exit code out.

mod activity_log;
mod cli;
mod doctor;
mod flags;
mod journal;
mod open_files;
mod output;
mod package_files;
mod probe;
mod run;
mod screen;
mod signals;
mod sinks;
mod top;

use std::process::ExitCode;

use clap::Parser;
use cli::{Command, ConfigCommand};
use userspace::config::Settings;
use userspace::failure::Failure;

fn main() -> ExitCode {
    let command = cli::Arguments::parse().command();
    if !matches!(command, Command::Run(_)) {
        // As other command-line tools: end quietly when nobody reads the output any more. The
        // scheduler does not end for that, nor for a client that hangs up.
        // SAFETY: no other thread runs yet, and the default action is no code of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    open_files::allow_all();
    match execute(command) {
        Ok(code) => code,
        Err(failure) => {
            output::complain(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn execute(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Doctor(options) => return doctor::run(&options),
        Command::Probe(options) => return probe::run(&options),
        Command::Run(options) => run::run(&options)?,
        Command::Top(options) => top::top(&options)?,
        Command::PackageFiles(options) => package_files::write(&options)?,
        Command::Config(ConfigCommand::Check { file }) => {
            Settings::read(&file)?;
            output::print(&format!("{}: correct\n", file.display()))?;
        }
        Command::Config(ConfigCommand::Show(options)) => {
            output::print(&options.read()?.to_string())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
