// SPDX-License-Identifier: GPL-2.0-only
//! The cache lines of the scheduler's data that a callback loads or stores. The compiler reports each
//! load and store of bpf/ (clang's SanitizerCoverage, trace-loads and trace-stores).
//!
//! Counted are values of maps, tasks' storage, per-CPU symbols and the scheduler's global variables. Not
//! counted: what the kernel's functions touch by themselves (runqueues, queues, idle masks), the
//! kernel's structs, whose layout here is not the kernel's, and the stack.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::c_void;

use super::shim;
use crate::sim::{Sim, sim};

const LINE_BYTES: usize = 64;

thread_local! {
    /// Whether this thread's simulation counts lines. Apart from it, as most do not, and each load asks.
    pub static COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// Of the callback that runs on a vCPU, in numbers of lines.
#[derive(Debug, Default)]
pub struct Lines {
    touched: BTreeSet<usize>,
    /// Those of the values that it has got pointers to.
    values: BTreeSet<usize>,
}

impl Lines {
    /// How many lines of the scheduler's data were touched.
    pub fn count(&self) -> u64 {
        // SAFETY: the function compares its argument only.
        let is_global = |line: usize| unsafe { shim::sim_is_global((line * LINE_BYTES) as u64) };
        let is_counted = |line: &&usize| self.values.contains(line) || is_global(**line);
        self.touched.iter().filter(is_counted).count() as u64
    }
}

impl Sim {
    /// Hand out a value of `size` bytes to the callback that runs. Returns the value.
    pub fn hand_out(&mut self, value: *mut c_void, size: usize) -> *mut c_void {
        if COUNTED.get() && !value.is_null() {
            let (v, first) = (self.current, value as usize);
            let lines = first / LINE_BYTES..=(first + size.max(1) - 1) / LINE_BYTES;
            self.vcpu(v).scx.work.lines.values.extend(lines);
        }
        value
    }
}

/// The scheduler's source loads from or stores to `address`.
fn touch(address: usize) {
    if COUNTED.get() {
        sim(|s| {
            let v = s.current;
            if s.vcpus[v].scx.callback.is_some() {
                s.vcpu(v).scx.work.lines.touched.insert(address / LINE_BYTES);
            }
        });
    }
}

macro_rules! report {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(address: usize) {
            touch(address);
        }
    )*};
}

report! {
    __sanitizer_cov_load1 __sanitizer_cov_load2 __sanitizer_cov_load4 __sanitizer_cov_load8
    __sanitizer_cov_load16 __sanitizer_cov_store1 __sanitizer_cov_store2 __sanitizer_cov_store4
    __sanitizer_cov_store8 __sanitizer_cov_store16
}
