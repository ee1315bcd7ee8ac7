// SPDX-License-Identifier: GPL-2.0-only
//! Random programs, hosts and changes. A case is plain data: it can be printed, kept as a test, and
//! made smaller while it still fails.

pub mod case;
pub mod generate;
pub mod minimise;

pub use case::{Case, Failure};
pub use generate::generate;
pub use minimise::minimise;
