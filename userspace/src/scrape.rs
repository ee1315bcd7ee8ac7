// SPDX-License-Identifier: GPL-2.0-only
//! Reads the metrics of a running daemon, as Prometheus would: no rights are needed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(10);

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// A page of metrics, and when it was read.
pub struct Scrape {
    pub at: Instant,
    series: BTreeMap<String, Vec<(Labels, f64)>>,
}

impl Scrape {
    /// Read the page that the daemon at `address` serves.
    ///
    /// # Errors
    /// What the network or the daemon said.
    pub fn read(address: SocketAddr) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let page = runtime.block_on(async {
            tokio::time::timeout(LIMIT, get(address)).await.context("no answer in time")?
        })?;
        Ok(Self::parse(&page))
    }

    /// Read a page of the text format. Lines that are none of it are left out.
    pub fn parse(page: &str) -> Self {
        let mut series: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (name, labels, value) in page.lines().filter_map(parse_line) {
            series.entry(name).or_default().push((labels, value));
        }
        Self { at: Instant::now(), series }
    }

    /// The series of a family.
    pub fn family(&self, name: &str) -> &[(Labels, f64)] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }

    /// The value of the first series of a family that has these labels.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.values(name, labels).next()
    }

    /// The sum of all series of a family that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.values(name, labels).sum()
    }

    fn values(&self, name: &str, labels: &[(&str, &str)]) -> impl Iterator<Item = f64> {
        let has = |found: &Labels| {
            labels.iter().all(|(key, value)| found.get(*key).is_some_and(|found| found == value))
        };
        self.family(name).iter().filter(move |(found, _)| has(found)).map(|(_, value)| *value)
    }
}

async fn get(address: SocketAddr) -> anyhow::Result<String> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request =
        Request::get("/metrics").header(HOST, address.to_string()).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    ensure!(response.status() == StatusCode::OK, "the answer is {}", response.status());
    let body = response.into_body().collect().await?.to_bytes();
    String::from_utf8(body.to_vec()).context("the answer is no text")
}

/// Parse `name{label="value",...} 1.5`.
fn parse_line(line: &str) -> Option<(String, Labels, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some((name.into(), parse_labels(labels.trim_end_matches('}'))?, value.parse().ok()?))
}

fn parse_labels(mut text: &str) -> Option<Labels> {
    let mut labels = Labels::new();
    while !text.is_empty() {
        let (key, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let end = loop {
            match characters.next()? {
                (end, '"') => break end,
                (_, '\\') => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.insert(key.trim_start_matches(',').into(), value);
        text = &rest[end + 1..];
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::{Format, render};
    use crate::simulated::sample;

    #[test]
    fn every_line_of_our_own_page_is_read() {
        let page = render(sample(3), Format::Classic);
        let lines = page.lines().filter(|line| !line.starts_with('#')).count();
        let scrape = Scrape::parse(&page);
        assert_eq!(scrape.series.values().map(Vec::len).sum::<usize>(), lines);
        assert_eq!(scrape.family("scx_vaware_vcpu_switches_total").len(), 3);
        let switches = scrape.value("scx_vaware_vcpu_switches_total", &[("cpu", "2")]);
        assert_eq!(switches, Some(9_000_002.0));
    }

    /// Text in the manner of a page, right and wrong.
    fn near_page() -> impl Strategy<Value = String> {
        let label = "[a-z]{0,3}(=|)\"?(x|\\\\.|,|\\}|é){0,4}\"?";
        let labels = vec(label, 0..3).prop_map(|labels| labels.join(","));
        let line = ("[a-z_#]{0,5}", labels, "\\PC{0,3}( |)([0-9.eE+-]{0,9}|NaN|[+-]Inf)")
            .prop_map(|(name, labels, value)| format!("{name}{{{labels}}}{value}"));
        vec(line, 0..6).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn any_page_is_read_as_far_as_it_is_one(text in prop_oneof![near_page(), any::<String>()]) {
            let scrape = Scrape::parse(&text);
            let series = scrape.series.values().map(Vec::len).sum::<usize>();
            prop_assert!(series <= text.lines().count());
        }

        #[test]
        fn any_labels_are_read_as_they_were_written(
            labels in proptest::collection::btree_map("[a-z]{1,4}", any::<String>(), 0..4),
            value: f64,
        ) {
            let escaped = |text: &str| {
                text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
            };
            let written: Vec<_> =
                labels.iter().map(|(name, text)| format!("{name}=\"{}\"", escaped(text))).collect();
            let (name, read, number) =
                parse_line(&format!("m{{{}}} {value:?}", written.join(","))).unwrap_or_default();
            prop_assert_eq!((name.as_str(), read), ("m", labels));
            prop_assert!(number == value || number.is_nan() && value.is_nan());
        }
    }

    #[test]
    fn labels_may_hold_anything() {
        let line = r#"m{a="x} y, z",b="q\"\\\n"} +Inf"#;
        let parsed = parse_line(line);
        let (name, labels, value) = parsed.unwrap_or_default();
        assert_eq!((name.as_str(), value), ("m", f64::INFINITY));
        assert_eq!(labels.get("a").map(String::as_str), Some("x} y, z"));
        assert_eq!(labels.get("b").map(String::as_str), Some("q\"\\\n"));
        assert!(parse_line("m{a=\"x} 1").is_none() && parse_line("# HELP m x 1").is_none());
    }
}
