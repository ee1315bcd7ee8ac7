// SPDX-License-Identifier: GPL-2.0-only
//! A recorded latency matrix: comma-separated one-way latencies in ns, the lower triangle counts.
//!
//! The format of <https://github.com/nviennot/core-to-core-latency>. Blank: not measured. Diagonal and
//! upper triangle may hold blanks or, if the matrix is symmetric, numbers, which are ignored.

use super::readings::{LatencySource, Pair, Patience, Reading, Readings, pair};

/// No interconnect is so much slower than the closest pair (36 is the most on recorded machines), nor
/// so slow at all: such a pair waited for a scheduler, so it never ran together.
const STACKED_RATIO: f64 = 100.0;
const STACKED_NS: f64 = 100_000.0;

/// A recording does not tell for how long it was watched.
const RECORDED_CONFIDENCE: f64 = 0.9;

/// The largest VM that can be: grouping takes the time of its square.
pub const VCPUS_MAX: usize = 1024;

/// What an error quotes of a field at most.
const QUOTE_CHARS: usize = 40;

/// What is wrong with a matrix. Lines and columns count from 1.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum MatrixError {
    #[error("the file is empty; expected a line of comma-separated latencies in ns for each vCPU")]
    Empty,
    #[error("line {line}: more vCPUs than {VCPUS_MAX}; leave some of them out")]
    TooMany { line: usize },
    #[error("there is no latency in the file; expected a positive number of ns for some pairs")]
    Blank,
    #[error(
        "line {line}, column {column}: {text:?} is no latency; expected a positive number of ns, \
         or a blank where nothing was measured"
    )]
    NoLatency { line: usize, column: usize, text: String },
    #[error(
        "line {line}, column {column}: the line ends here, {lines} lines make {lines} columns; \
         add the missing fields (blank is fine)"
    )]
    TooShort { line: usize, column: usize, lines: usize },
    #[error(
        "line {line}, column {column}: more columns than the file's {lines} lines; remove headings \
         and labels, if there are any"
    )]
    TooLong { line: usize, column: usize, lines: usize },
}

/// A recorded matrix.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Row i holds the latencies to 0..i; `None` where not measured.
    rows: Vec<Vec<Option<f64>>>,
    never_together_from_ns: f64,
}

impl Matrix {
    /// Parse a file's text.
    ///
    /// # Errors
    /// The first fault, by line and column.
    pub fn parse(text: &str) -> Result<Self, MatrixError> {
        let lines = text.trim_start_matches('\u{feff}').trim_end().lines();
        let lines: Vec<&str> = lines.take(VCPUS_MAX + 1).collect();
        if text.trim().is_empty() {
            return Err(MatrixError::Empty);
        }
        if lines.len() > VCPUS_MAX {
            return Err(MatrixError::TooMany { line: VCPUS_MAX + 1 });
        }
        let rows =
            lines.iter().enumerate().map(|(index, line)| parse_row(line, index, lines.len()));
        let rows: Vec<Vec<Option<f64>>> = rows.collect::<Result<_, _>>()?;
        if rows.len() > 1 && rows.iter().flatten().all(Option::is_none) {
            return Err(MatrixError::Blank);
        }
        Ok(Self::from_rows(rows))
    }

    /// From lower triangles: row i holds the latencies to 0..i in ns.
    pub fn from_rows(rows: Vec<Vec<Option<f64>>>) -> Self {
        let closest_ns = rows.iter().flatten().flatten().copied().fold(f64::INFINITY, f64::min);
        Self { rows, never_together_from_ns: STACKED_NS.min(closest_ns * STACKED_RATIO) }
    }

    pub fn nr_vcpus(&self) -> usize {
        self.rows.len()
    }

    /// All that was recorded.
    pub fn readings(&self) -> Readings {
        let mut readings = Readings::new(self.rows.len());
        for (a, row) in self.rows.iter().enumerate() {
            for b in (0..row.len()).filter(|b| row[*b].is_some()) {
                readings.record(pair(a, b), self.reading(pair(a, b)));
            }
        }
        readings
    }

    fn reading(&self, (low, high): Pair) -> Reading {
        match self.rows[high].get(low).copied().flatten() {
            None => Reading::Undecided,
            Some(ns) if ns >= self.never_together_from_ns => {
                Reading::NeverTogether { confidence: RECORDED_CONFIDENCE }
            }
            Some(ns) => Reading::Latency { ns },
        }
    }
}

impl LatencySource for Matrix {
    fn probe(&mut self, pairs: &[Pair], _: Patience) -> Vec<Reading> {
        pairs.iter().map(|pair| self.reading(*pair)).collect()
    }
}

/// The latencies left of the diagonal in line `index`, of as many as `lines`.
fn parse_row(text: &str, index: usize, lines: usize) -> Result<Vec<Option<f64>>, MatrixError> {
    let line = index + 1;
    let mut row = Vec::with_capacity(index);
    let mut columns = 0;
    for (column, field) in text.split(',').map(str::trim).enumerate() {
        if column == lines {
            return Err(MatrixError::TooLong { line, column: column + 1, lines });
        }
        let latency = match field.parse::<f64>() {
            _ if field.is_empty() => None,
            Ok(ns) if ns.is_finite() && ns > 0.0 => Some(ns),
            // Tools write NaN where nothing was measured. Beyond the triangle any number will do.
            Ok(ns) if ns.is_nan() || column >= index => None,
            _ => {
                let text = field.chars().take(QUOTE_CHARS).collect();
                return Err(MatrixError::NoLatency { line, column: column + 1, text });
            }
        };
        if column < index {
            row.push(latency);
        }
        columns += 1;
    }
    // A triangle without its trailing commas is fine.
    if columns < index {
        return Err(MatrixError::TooShort { line, column: columns + 1, lines });
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_triangle_counts_and_blanks_are_unknown() {
        let matrix = Matrix::parse(",,\n7.5,,\n40,,\n").ok();
        let readings = matrix.as_ref().map(Matrix::readings);
        let get = |at| readings.as_ref().and_then(|readings| readings.get(at));
        assert_eq!(matrix.as_ref().map(Matrix::nr_vcpus), Some(3));
        assert_eq!(get((0, 1)), Some(Reading::Latency { ns: 7.5 }));
        assert_eq!(get((1, 2)), None);
    }

    #[test]
    fn a_scheduler_in_the_way_is_no_latency() {
        let mut matrix =
            Matrix::from_rows(vec![vec![], vec![Some(8.0)], vec![Some(280.0), Some(5e6)]]);
        let found = matrix.probe(&[(0, 2), (1, 2)], Patience::Proof);
        assert_eq!(found[0], Reading::Latency { ns: 280.0 });
        assert!(matches!(found[1], Reading::NeverTogether { .. }));
    }

    #[test]
    fn faults_are_named_by_line_and_column() {
        let fault = |text: &str| Matrix::parse(text).err().map(|why| why.to_string());
        let starts = |text, with: &str| fault(text).is_some_and(|why| why.starts_with(with));
        assert!(starts(" \n", "the file is empty"));
        assert!(starts(",\nx,", "line 2, column 1: \"x\" is no latency"));
        assert!(starts(",,\n1,,\n2,-3,", "line 3, column 2"));
        assert!(starts(",,\n1,,\n2", "line 3, column 2: the line ends here"));
        assert!(starts(",0,1\n1,", "line 1, column 3: more columns"));
        assert!(starts("Num cores: 2", "line 1, column 1"));
        assert!(starts(",\n,\n", "there is no latency"));
        assert!(starts(&",\n".repeat(VCPUS_MAX + 1), "line 1025: more vCPUs than 1024"));
        assert!(fault(&"x".repeat(1 << 20)).is_some_and(|why| why.len() < 300));
    }
}
