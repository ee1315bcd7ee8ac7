// SPDX-License-Identifier: GPL-2.0-only
//! No client keeps others from the server, or takes its memory.

mod abuse;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use abuse::{Abuse, Attack, get};
use userspace::http::{Content, MAX_PAGES, Server};
use userspace::metrics::{Format, render};
use userspace::simulated::sample;

/// A silent client may take so long (`HEAD_LIMIT` of the server): nobody is to wait for one.
const SILENT: Duration = Duration::from_secs(2);
const VCPUS: u32 = 1024;

struct Large;

impl Content for Large {
    fn metrics(&self, format: Format) -> String {
        render(sample(VCPUS), format)
    }

    fn health(&self) -> Result<(), String> {
        Ok(())
    }
}

fn serve() -> anyhow::Result<SocketAddr> {
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = server.address()?;
    server.serve(Arc::new(Large))?;
    Ok(address)
}

fn resident_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|kib| kib.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

fn expect_health_under(kinds: &[Abuse], each: usize) -> anyhow::Result<()> {
    let address = serve()?;
    let attack = Attack::begin(address, kinds, each);
    while attack.connections() < each as u64 {
        sleep(Duration::from_millis(10));
    }
    for _ in 0..20 {
        sleep(Duration::from_millis(50));
        let (answer, took) = get(address, "/healthz")?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{kinds:?}: {answer}");
        assert!(took < SILENT, "{kinds:?}: {took:?}");
    }
    Ok(())
}

#[test]
fn each_kind_of_abuse_leaves_health_answered() -> anyhow::Result<()> {
    Abuse::ALL.iter().try_for_each(|kind| expect_health_under(&[*kind], 200))
}

#[test]
fn a_thousand_silent_connections_keep_nobody_out() -> anyhow::Result<()> {
    expect_health_under(&[Abuse::Silent], 1000)
}

#[test]
fn memory_is_bounded_and_pages_are_whole_while_all_attack() -> anyhow::Result<()> {
    let address = serve()?;
    let page = get(address, "/metrics")?.0;
    let before = resident_bytes();
    let attack = Attack::begin(address, &Abuse::ALL, 100);
    let mut most = 0;
    for _ in 0..20 {
        sleep(Duration::from_millis(100));
        most = most.max(resident_bytes());
    }
    // The pages, and as much again for what is being rendered and for connections.
    let bound = 2 * MAX_PAGES * page.len();
    assert!(most < before + bound, "from {before} to {most}, with {bound} allowed");
    drop(attack);
    assert_eq!(get(address, "/metrics")?.0.lines().count(), page.lines().count());
    Ok(())
}

#[test]
fn a_slow_client_does_not_delay_who_asks_after_it() -> anyhow::Result<()> {
    let address = serve()?;
    let attack = Attack::begin(address, &[Abuse::SlowReader], 100);
    sleep(Duration::from_millis(200));
    let (page, took) = get(address, "/metrics")?;
    assert!(page.contains("scx_vaware_vcpu_capacity_ratio{cpu=\"1023\"}"));
    assert!(took < SILENT, "{took:?}");
    drop(attack);
    Ok(())
}
