// SPDX-License-Identifier: GPL-2.0-only
//! A page of metrics while it is written: one call a family, and a count of its series.

use std::fmt::Result;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Counts by upper bound of the bucket, not cumulated.
pub type Buckets = Vec<(f64, u64)>;

/// A family's name, unit, and help.
type Described<'a> = (&'a str, Option<Unit>, &'a str);

/// A page that takes families until it has `room` for no more series.
pub struct Page<'a> {
    encoder: DescriptorEncoder<'a>,
    room: usize,
    written: usize,
    left_out: usize,
}

impl<'a> Page<'a> {
    pub fn new(encoder: DescriptorEncoder<'a>, room: usize) -> Self {
        Self { encoder, room, written: 0, left_out: 0 }
    }

    /// Write a family of counters. Their name ends in the unit, if there is one, and `_total`.
    pub fn counters<L: EncodeLabelSet>(
        &mut self,
        described: Described<'_>,
        series: Vec<(L, f64)>,
    ) -> Result {
        self.family(described, MetricType::Counter, series)
    }

    /// Write a family of gauges.
    pub fn gauges<L: EncodeLabelSet>(
        &mut self,
        described: Described<'_>,
        series: Vec<(L, f64)>,
    ) -> Result {
        self.family(described, MetricType::Gauge, series)
    }

    /// Write a counter that has no labels.
    pub fn counter(&mut self, described: Described<'_>, value: f64) -> Result {
        self.single(described, MetricType::Counter, value)
    }

    /// Write a gauge that has no labels.
    pub fn gauge(&mut self, described: Described<'_>, value: f64) -> Result {
        self.single(described, MetricType::Gauge, value)
    }

    /// Write infos: series that are 1, whose labels tell something. `_info` is added to the name.
    pub fn infos<L: EncodeLabelSet>(&mut self, name: &str, help: &str, series: Vec<L>) -> Result {
        if !self.takes(series.len()) {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Info)?;
        for labels in series {
            family.encode_info(&labels)?;
        }
        Ok(())
    }

    /// Write histograms: labels, sum, and buckets.
    pub fn histograms<L: EncodeLabelSet>(
        &mut self,
        (name, unit, help): Described<'_>,
        series: Vec<(L, f64, Buckets)>,
    ) -> Result {
        let each = series.first().map_or(0, |(_, _, buckets)| buckets.len() + 2);
        if !self.takes(series.len() * each) {
            return Ok(());
        }
        let mut family =
            self.encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Histogram)?;
        for (labels, sum, buckets) in series {
            let count = buckets.iter().map(|(_, count)| count).sum();
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    /// Write how many series there are.
    pub fn finish(mut self) -> Result {
        let (written, left_out) = (self.written, self.left_out);
        self.gauge(("series", None, "Series on this page"), written as f64)?;
        self.gauge(
            ("series_left_out", None, "Series of vCPUs left out to keep the page bounded"),
            left_out as f64,
        )
    }

    fn family<L: EncodeLabelSet>(
        &mut self,
        (name, unit, help): Described<'_>,
        kind: MetricType,
        series: Vec<(L, f64)>,
    ) -> Result {
        if !self.takes(series.len()) {
            return Ok(());
        }
        let mut family = self.encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
        series
            .iter()
            .try_for_each(|(labels, value)| write(family.encode_family(labels)?, kind, *value))
    }

    /// Write a series without labels, whether there is room or not: there are few of them.
    fn single(
        &mut self,
        (name, unit, help): Described<'_>,
        kind: MetricType,
        value: f64,
    ) -> Result {
        self.written += 1;
        write(self.encoder.encode_descriptor(name, help, unit.as_ref(), kind)?, kind, value)
    }

    /// Whether a family of so many series still fits; one without any is not written either.
    fn takes(&mut self, series: usize) -> bool {
        let fits = self.written + series <= self.room;
        if fits {
            self.written += series;
        } else {
            self.left_out += series;
        }
        fits && series > 0
    }
}

fn write(mut metric: MetricEncoder<'_>, kind: MetricType, value: f64) -> Result {
    match kind {
        MetricType::Counter => metric.encode_counter::<NoLabelSet, f64, u64>(&value, None),
        _ => metric.encode_gauge(&value),
    }
}
