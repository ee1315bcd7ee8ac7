// SPDX-License-Identifier: GPL-2.0-only
//! How the HTTP server does under each kind of abuse: `cargo run --release -p userspace --example
//! abuse -- ADDR:PORT PID SECONDS CONNECTIONS`, against a daemon or `--example simulated`.

#[path = "../tests/abuse/mod.rs"]
mod abuse;

use std::fs;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use abuse::{Abuse, Attack, get};
use anyhow::Context;

/// A field of /proc/PID/status.
fn status(pid: u32, field: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let value = text.lines().find_map(|line| line.strip_prefix(field));
    Ok(value.unwrap_or_default().trim().to_string())
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, pid, seconds, connections] = &arguments[..] else {
        anyhow::bail!("say ADDR:PORT PID SECONDS CONNECTIONS");
    };
    let (address, pid): (SocketAddr, u32) = (address.parse()?, pid.parse()?);
    let (seconds, connections): (f64, usize) = (seconds.parse()?, connections.parse()?);

    println!(
        "{:<12} {:>11} {:>9} {:>9} {:>9} {:>12}",
        "clients", "connections", "p50 ms", "p99 ms", "max ms", "RSS"
    );
    let mut kinds: Vec<Vec<Abuse>> = Abuse::ALL.iter().map(|kind| vec![*kind]).collect();
    kinds.insert(0, Vec::new());
    kinds.push(Abuse::ALL.to_vec());
    for kinds in kinds {
        let attack = Attack::begin(address, &kinds, connections / kinds.len().max(1));
        let (began, mut took_ms) = (Instant::now(), Vec::new());
        while began.elapsed().as_secs_f64() < seconds {
            let (answer, took) = get(address, "/healthz")?;
            anyhow::ensure!(answer.starts_with("HTTP/1.1 "), "/healthz: {answer:?}");
            took_ms.push(took.as_secs_f64() * 1e3);
            sleep(Duration::from_millis(5));
        }
        took_ms.sort_by(f64::total_cmp);
        let at = |part: f64| took_ms[((took_ms.len() - 1) as f64 * part) as usize];
        let name = match &kinds[..] {
            [] => "none".into(),
            [kind] => format!("{kind:?}"),
            _ => "all".into(),
        };
        let (made, rss) = (attack.connections(), status(pid, "VmRSS:")?);
        println!(
            "{name:<12} {made:>11} {:>9.2} {:>9.2} {:>9.2} {rss:>12}",
            at(0.5),
            at(0.99),
            at(1.0)
        );
        drop(attack);
    }
    println!("highest RSS: {}", status(pid, "VmHWM:")?);
    Ok(())
}
