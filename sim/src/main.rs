// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Parser, Subcommand};
use sim::fuzz::{Case, Failure, generate, minimise};
use sim::{report, scale};

/// The scheduler's own source on a simulated kernel and host, in virtual time.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print what a decision costs at 12 to 1024 vCPUs (docs/results/sim-scale.md)
    Scale,
    /// Run random cases; a failing one is made small and printed as a file for tests/cases
    Fuzz {
        /// How many seeds
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first one
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// Run each once only: for the hash over the traces, by which two builds are compared
        #[arg(long)]
        once: bool,
        /// Begin no more of them after so many seconds
        #[arg(long, default_value_t = u64::MAX)]
        seconds: u64,
    },
    /// Run a case that the fuzzer printed; print the end of the trace that led to a violation
    Replay {
        case: PathBuf,
        /// Write the whole trace to this file
        #[arg(long)]
        trace: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    match start() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("sim: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Scale => {
            print!("{}", scale::table()?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Fuzz { seeds, from, once, seconds } => run_fuzz(from, seeds, once, seconds),
        Command::Replay { case, trace } => replay(&case, trace.as_deref()),
    }
}

/// Exit codes: 0 no violation, 1 a violation, 2 bad input.
fn replay(file: &Path, trace: Option<&Path>) -> anyhow::Result<ExitCode> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let case: Case = toml::from_str(&text).with_context(|| format!("{}", file.display()))?;
    let outcome = case.run(trace.is_some())?;
    if let Some(file) = trace {
        let lines = outcome.all.iter().flatten().map(|entry| format!("{entry}\n"));
        std::fs::write(file, lines.collect::<String>())
            .with_context(|| format!("writing {}", file.display()))?;
    }
    match report::violation(&outcome) {
        Some(violation) => {
            print!("{violation}");
            Ok(ExitCode::FAILURE)
        }
        None => {
            println!("no violation; trace {:016x}", outcome.hash);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// How long a failing case is made smaller.
const MINIMISE: Duration = Duration::from_secs(60);

/// Exit codes as above; the first failing seed ends it.
fn run_fuzz(from: u64, seeds: u64, once: bool, seconds: u64) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let (runs, each) = if once { (1, "once") } else { (2, "twice") };
    let (mut ran, mut simulated_ms, mut events, mut hash) = (0, 0, 0, 0u64);
    for seed in (from..from + seeds).take_while(|_| began.elapsed().as_secs() < seconds) {
        let case = generate(seed);
        let (failure, outcome) = if once { case.check_once()? } else { case.check()? };
        if let Some(failure) = failure {
            eprintln!("seed {seed} fails: {failure:?}; making it smaller");
            let small = smaller(&case, &failure);
            println!("# seed {seed}: {failure:?}\n{}", toml::to_string(&small)?);
            return Ok(ExitCode::FAILURE);
        }
        ran += 1;
        simulated_ms += runs * case.length_ms;
        events += runs * outcome.events;
        hash = hash.rotate_left(1) ^ outcome.hash;
    }
    let wall = began.elapsed().as_secs_f64();
    println!(
        "{ran} seeds from {from}, each {each}: no failure, traces {hash:016x}; {wall:.1} s; {:.2} \
         simulated seconds and {:.0} events a second",
        simulated_ms as f64 / 1e3 / wall,
        events as f64 / wall
    );
    Ok(ExitCode::SUCCESS)
}

/// The smallest case like `case` that can be found in the time and still fails alike.
fn smaller(case: &Case, failure: &Failure) -> Case {
    let alike = |a: &Failure, b: &Failure| match (a, b) {
        // Numbers in the text may differ: the kind of violation is in its first words.
        (Failure::Violation(a), Failure::Violation(b)) => {
            a.split_whitespace().take(2).eq(b.split_whitespace().take(2))
        }
        _ => a == b,
    };
    let began = Instant::now();
    minimise(case, &mut |smaller: &Case| {
        began.elapsed() < MINIMISE
            && matches!(smaller.check(), Ok((Some(other), _)) if alike(failure, &other))
    })
}
