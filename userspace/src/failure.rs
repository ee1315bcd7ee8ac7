// SPDX-License-Identifier: GPL-2.0-only
//! What can go wrong, each with the exit code that operators and systemd go by.

/// A failure that ends the program. Its message is one sentence that ends with what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The kernel lacks something that the scheduler needs.
    #[error("{0}")]
    Unavailable(String),
    /// Metrics cannot be served at the address that was asked for.
    #[error("{0}")]
    Listen(String),
    /// Another scheduler is loaded.
    #[error("{0}")]
    Busy(String),
    /// The user lacks a right.
    #[error("{0}")]
    Permission(String),
    /// A configuration or argument is wrong.
    #[error("{0}")]
    Config(String),
    /// The kernel ended the scheduler while it ran or was enabled: a fault, or a task that waited
    /// for too long. With the kernel's report of the state in which it did.
    #[error("{why}")]
    Ejected { why: String, report: String },
    /// An operator ended the scheduler from outside: it is to stay down.
    #[error("{0}")]
    Dismissed(String),
    /// Anything else.
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

impl Failure {
    /// The exit code: those of `sysexits.h` where one fits, others where none does.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Other(_) => 1,
            Self::Unavailable(_) => 69,
            Self::Listen(_) => 73,
            Self::Busy(_) => 75,
            Self::Permission(_) => 77,
            Self::Config(_) => 78,
            Self::Ejected { .. } => 86,
            Self::Dismissed(_) => 87,
        }
    }
}
