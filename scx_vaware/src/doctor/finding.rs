// SPDX-License-Identifier: GPL-2.0-only
//! What one check says.

use serde::Serialize;

/// How bad it is. The numbers are the exit codes of Nagios plugins; the order is that of gravity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    Ok = 0,
    Warning = 1,
    Critical = 2,
    /// It could not be found out.
    Unknown = 3,
}

impl Level {
    /// The mark before a line.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Ok => "ok  ",
            Self::Warning => "WARN",
            Self::Critical => "CRIT",
            Self::Unknown => "?   ",
        }
    }

    /// The worst of several: what is known to be bad before what is not known.
    pub fn worst(levels: impl Iterator<Item = Self>) -> Self {
        let gravity = |level: &Self| match level {
            Self::Ok => 0,
            Self::Unknown => 1,
            Self::Warning => 2,
            Self::Critical => 3,
        };
        levels.max_by_key(gravity).unwrap_or(Self::Ok)
    }
}

/// The answer of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub level: Level,
    /// What was found, a sentence or less.
    pub text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    pub fn new(check: &'static str, level: Level, text: impl Into<String>) -> Self {
        Self { check, level, text: text.into(), advice: None }
    }

    pub fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, text)
    }

    /// The same with what to do.
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_trouble_is_worse_than_ignorance() {
        use Level::{Critical, Ok, Unknown, Warning};
        assert_eq!(Level::worst([Ok, Unknown].into_iter()), Unknown);
        assert_eq!(Level::worst([Unknown, Warning, Ok].into_iter()), Warning);
        assert_eq!(Level::worst([Critical, Unknown].into_iter()), Critical);
        assert_eq!(Level::worst([].into_iter()), Ok);
    }
}
