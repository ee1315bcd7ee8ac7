// SPDX-License-Identifier: GPL-2.0-only
//! The scheduler's side: its callbacks, and the kernel's functions, maps and timers as it sees them.

pub mod call;
pub mod kfuncs;
pub mod kfuncs_queue;
pub mod lines;
pub mod maps;
pub mod state;
pub mod timers;

/// The C half, as bindgen sees it (shim/sim.h).
#[allow(dead_code, non_camel_case_types, non_upper_case_globals, non_snake_case, clippy::all)]
pub mod shim {
    include!(concat!(env!("OUT_DIR"), "/shim.rs"));
}
