// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong, each with the exit code that operators and systemd go by.

/// A failure that ends the program. Its message is one sentence that ends with what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The kernel lacks something that the scheduler needs.
    #[error("{0}")]
    Unavailable(String),
    /// Another scheduler is loaded.
    #[error("{0}")]
    Busy(String),
    /// The user lacks a right.
    #[error("{0}")]
    Permission(String),
    /// A configuration or argument is wrong.
    #[error("{0}")]
    Config(String),
    /// The kernel or an operator ended the scheduler while it ran.
    #[error("{0}")]
    Ejected(String),
    /// Anything else.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl Failure {
    /// The exit code: those of `sysexits.h` where one fits, 86 for an ejection.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Other(_) => 1,
            Self::Unavailable(_) => 69,
            Self::Busy(_) => 75,
            Self::Permission(_) => 77,
            Self::Config(_) => 78,
            Self::Ejected(_) => 86,
        }
    }
}
