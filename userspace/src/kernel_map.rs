// SPDX-License-Identifier: GPL-2.0-only
//! Structs of `bpf/intf.h` in the kernel half's maps, which are arrays.

use std::mem::size_of;

use libbpf_rs::{MapCore, MapFlags};

/// Entries that are read in one call.
const BATCH: u32 = 4096;

/// A struct of which any bytes are a value.
///
/// # Safety
/// The type has to be such a struct.
pub(crate) unsafe trait FromKernel: Copy {}

/// A struct without padding.
///
/// # Safety
/// The type has to be such a struct.
pub(crate) unsafe trait ToKernel: Copy {}

// SAFETY: C structs of integers.
unsafe impl FromKernel for intf::vaware_stats {}
unsafe impl FromKernel for intf::vaware_activity {}
unsafe impl FromKernel for intf::vaware_trial {}
unsafe impl FromKernel for intf::vaware_cgroup {}

// SAFETY: the same, ordered so that none needs padding.
unsafe impl ToKernel for intf::vaware_hints {}
unsafe impl ToKernel for intf::vaware_trial {}

/// The entry `key` of `map`; `None` if it is not there, or too short.
///
/// # Errors
/// What the kernel said.
pub(crate) fn read<T: FromKernel>(map: &impl MapCore, key: u32) -> libbpf_rs::Result<Option<T>> {
    let bytes = map.lookup(&key.to_ne_bytes(), MapFlags::ANY)?;
    Ok(bytes.as_deref().and_then(from_bytes))
}

/// All entries of `map`, in a few calls of the kernel.
///
/// # Errors
/// What the kernel said.
pub(crate) fn read_all<T: FromKernel>(map: &impl MapCore) -> libbpf_rs::Result<Vec<T>> {
    let entries = map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)?;
    Ok(entries.filter_map(|(_, bytes)| from_bytes(&bytes)).collect())
}

fn from_bytes<T: FromKernel>(bytes: &[u8]) -> Option<T> {
    // SAFETY: any bytes are a `T`, and the length is checked.
    (bytes.len() >= size_of::<T>())
        .then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}

/// Put `value` into the entry `key` of `map`.
///
/// # Errors
/// What the kernel said.
pub(crate) fn write<T: ToKernel>(map: &impl MapCore, key: u32, value: &T) -> libbpf_rs::Result<()> {
    // SAFETY: `T` has no padding, and is borrowed for this call alone.
    let bytes =
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) };
    map.update(&key.to_ne_bytes(), bytes, MapFlags::ANY)
}
