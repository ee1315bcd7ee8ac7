// SPDX-License-Identifier: GPL-2.0-only
//! The functions of bpf/policy, compiled for this machine.

#[allow(dead_code, non_camel_case_types, non_upper_case_globals, clippy::all)]
mod bindings {
    use intf::*;

    include!(concat!(env!("OUT_DIR"), "/policy.rs"));
}

pub use bindings::*;
pub use intf::*;

/// Call functions of bpf/policy. They are pure and take no pointer but to plain values that live
/// through the call, so any arguments are safe.
#[macro_export]
macro_rules! pure {
    ($call:expr) => {
        unsafe { $call }
    };
}
