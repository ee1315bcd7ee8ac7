// SPDX-License-Identifier: GPL-2.0-only
//! Maps, task storage, per-CPU symbols and ring buffers.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::slice;

use super::shim::{cpumask, task_struct};
use crate::exec::owe;
use crate::sim::{Sim, sim};

const ARRAY: u32 = 2;
const PERCPU_ARRAY: u32 = 6;
const NOEXIST: u64 = 1;
const EXIST: u64 = 2;
const STORAGE_CREATE: u64 = 1;
const ENOENT: i64 = 2;
const E2BIG: i64 = 7;
const EEXIST: i64 = 17;

/// A cache line, the kernel's alignment of map values.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

/// Zeroed memory that does not move.
pub struct Buffer(Vec<Line>);

impl Buffer {
    pub fn new(bytes: usize) -> Self {
        Self(vec![Line([0; 64]); bytes.div_ceil(64).max(1)])
    }

    pub fn pointer(&self) -> *mut c_void {
        self.0.as_ptr().cast_mut().cast()
    }
}

pub enum Map {
    /// Values lie one after the other, each `stride` bytes.
    Array {
        values: Buffer,
        entries: usize,
        stride: usize,
    },
    PerCpu {
        values: Vec<Buffer>,
        entries: usize,
        stride: usize,
    },
    Hash {
        values: BTreeMap<Vec<u8>, Buffer>,
        entries: usize,
    },
}

impl Map {
    fn new(kind: u32, entries: u32, value_size: u32, nr_vcpus: usize) -> Self {
        // The daemon gives maps of one entry per vCPU their size before load.
        let entries = if entries == 1 { nr_vcpus } else { entries as usize };
        let stride = (value_size as usize).next_multiple_of(8);
        match kind {
            ARRAY => Self::Array { values: Buffer::new(entries * stride), entries, stride },
            PERCPU_ARRAY => Self::PerCpu {
                values: (0..nr_vcpus).map(|_| Buffer::new(entries * stride)).collect(),
                entries,
                stride,
            },
            _ => Self::Hash { values: BTreeMap::new(), entries },
        }
    }

    /// The value of this index of an array.
    pub fn value_at(&self, index: u32) -> Option<*mut c_void> {
        let Self::Array { values, entries, stride } = self else { return None };
        let value = nth(values, index, *entries, *stride);
        (!value.is_null()).then_some(value)
    }

    /// Where the value that contains `address` begins, and its index.
    pub fn value_around(&self, address: usize) -> Option<(u32, *mut c_void)> {
        let Self::Array { values, entries, stride } = self else { return None };
        let base = values.pointer() as usize;
        let index = address.checked_sub(base)? / stride;
        (index < *entries).then(|| (index as u32, (base + index * stride) as *mut c_void))
    }
}

fn nth(buffer: &Buffer, index: u32, entries: usize, stride: usize) -> *mut c_void {
    if index as usize >= entries {
        return std::ptr::null_mut();
    }
    // SAFETY: within the buffer, by the check above.
    unsafe { buffer.pointer().byte_add(index as usize * stride) }
}

impl Sim {
    fn map(&mut self, map: *const c_void, kind: u32, entries: u32, value_size: u32) -> &mut Map {
        let nr = self.vcpus.len();
        self.bpf.maps.entry(map as usize).or_insert_with(|| Map::new(kind, entries, value_size, nr))
    }
}

impl Sim {
    /// An array map that has an entry for each vCPU, as the daemon sees it.
    pub fn array(&mut self, address: usize, value_size: u32) -> &Map {
        self.map(address as *const c_void, ARRAY, 1, value_size)
    }

    /// Copies of all values of such a map, which are plain structs of numbers.
    pub fn values<T: Copy>(&mut self, address: usize) -> Vec<T> {
        let nr = self.vcpus.len() as u32;
        let map = self.array(address, size_of::<T>() as u32);
        // SAFETY: a value of the map is of this type, by the caller's word.
        (0..nr).filter_map(|v| map.value_at(v)).map(|value| unsafe { *value.cast::<T>() }).collect()
    }
}

/// # Safety
/// `key` points to `key_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_map_lookup(
    map: *const c_void,
    kind: u32,
    entries: u32,
    key_size: u32,
    value_size: u32,
    key: *const c_void,
) -> *mut c_void {
    owe(sim(|s| s.costs.lookup_ns));
    // SAFETY: the contract of this function; an array's key is a u32.
    let (bytes, index) =
        unsafe { (slice::from_raw_parts(key.cast::<u8>(), key_size as usize), key.cast::<u32>()) };
    sim(|s| {
        let v = s.current;
        let value = match s.map(map, kind, entries, value_size) {
            // SAFETY: as above.
            Map::Array { values, entries, stride } => unsafe {
                nth(values, *index, *entries, *stride)
            },
            Map::PerCpu { values, entries, stride } => unsafe {
                nth(&values[v], *index, *entries, *stride)
            },
            Map::Hash { values, .. } => {
                values.get(bytes).map_or(std::ptr::null_mut(), Buffer::pointer)
            }
        };
        s.hand_out(value, value_size as usize)
    })
}

/// # Safety
/// `key` points to a u32.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_map_lookup_percpu(
    map: *const c_void,
    entries: u32,
    value_size: u32,
    key: *const c_void,
    cpu: u32,
) -> *mut c_void {
    owe(sim(|s| s.costs.lookup_ns));
    sim(|s| {
        let value = match s.map(map, PERCPU_ARRAY, entries, value_size) {
            Map::PerCpu { values, entries, stride } => match values.get(cpu as usize) {
                // SAFETY: the contract of this function.
                Some(values) => nth(values, unsafe { *key.cast() }, *entries, *stride),
                None => std::ptr::null_mut(),
            },
            _ => std::ptr::null_mut(),
        };
        s.hand_out(value, value_size as usize)
    })
}

/// # Safety
/// `key` and `value` point to as many bytes as their sizes say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_map_update(
    map: *const c_void,
    kind: u32,
    entries: u32,
    key_size: u32,
    value_size: u32,
    key: *const c_void,
    value: *const c_void,
    flags: u64,
) -> i64 {
    // SAFETY: the contract of this function.
    let bytes = unsafe { slice::from_raw_parts(key.cast::<u8>(), key_size as usize) };
    let new = sim(|s| match s.map(map, kind, entries, value_size) {
        Map::Hash { values, entries } => match (values.contains_key(bytes), flags) {
            (true, NOEXIST) => -EEXIST,
            (false, EXIST) => -ENOENT,
            (false, _) if values.len() >= *entries => -E2BIG,
            (false, _) => {
                values.insert(bytes.to_vec(), Buffer::new(value_size as usize));
                0
            }
            (true, _) => 0,
        },
        _ => 0,
    });
    if new != 0 {
        return new;
    }
    // SAFETY: the contract of this function; what the look-up returns is as large as a value.
    unsafe {
        let to = sim_map_lookup(map, kind, entries, key_size, value_size, key);
        if to.is_null() {
            return -E2BIG;
        }
        std::ptr::copy_nonoverlapping(value.cast::<u8>(), to.cast::<u8>(), value_size as usize);
    }
    0
}

/// # Safety
/// `key` points to `key_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_map_delete(
    map: *const c_void,
    key_size: u32,
    key: *const c_void,
) -> i64 {
    // SAFETY: the contract of this function.
    let bytes = unsafe { slice::from_raw_parts(key.cast::<u8>(), key_size as usize) };
    sim(|s| match s.bpf.maps.get_mut(&(map as usize)) {
        Some(Map::Hash { values, .. }) => values.remove(bytes).map_or(-ENOENT, |_| 0),
        _ => -ENOENT,
    })
}

/// # Safety
/// `p` is a task of this simulation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_task_storage_get(
    map: *const c_void,
    value_size: u32,
    p: *mut task_struct,
    flags: u64,
) -> *mut c_void {
    owe(sim(|s| s.costs.lookup_ns));
    if p.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the contract of this function.
    let key = (map as usize, unsafe { (*p).pid } as usize - 1);
    sim(|s| {
        let storage = &mut s.bpf.storage;
        let value = if flags & STORAGE_CREATE != 0 {
            storage.entry(key).or_insert_with(|| Buffer::new(value_size as usize)).pointer()
        } else {
            storage.get(&key).map_or(std::ptr::null_mut(), Buffer::pointer)
        };
        s.hand_out(value, value_size as usize)
    })
}

/// # Safety
/// `p` is a task of this simulation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_task_storage_delete(map: *const c_void, p: *mut task_struct) -> i64 {
    // SAFETY: the contract of this function.
    let key = (map as usize, unsafe { (*p).pid } as usize - 1);
    sim(|s| if s.bpf.storage.remove(&key).is_some() { 0 } else { -ENOENT })
}

#[unsafe(no_mangle)]
pub extern "C" fn sim_per_cpu_ptr(symbol: *const c_void, size: u64, cpu: u32) -> *mut c_void {
    sim(|s| {
        let value = s.per_cpu(symbol as usize, size as usize, cpu as usize);
        s.hand_out(value, size as usize)
    })
}

impl Sim {
    /// The value of a per-CPU symbol on a vCPU; null beyond the last.
    pub fn per_cpu(&mut self, symbol: usize, size: usize, cpu: usize) -> *mut c_void {
        let nr = self.vcpus.len();
        let all = self
            .bpf
            .per_cpu
            .entry(symbol)
            .or_insert_with(|| (0..nr).map(|_| Buffer::new(size)).collect());
        all.get(cpu).map_or(std::ptr::null_mut(), Buffer::pointer)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn sim_ringbuf_reserve(_map: *const c_void, size: u64) -> *mut c_void {
    sim(|s| {
        let buffer = Buffer::new(size as usize);
        let pointer = buffer.pointer();
        s.bpf.reserved.insert(pointer as usize, (buffer, size as usize));
        pointer
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sim_ringbuf_submit(data: *mut c_void) {
    sim(|s| {
        if let Some((buffer, size)) = s.bpf.reserved.remove(&(data as usize)) {
            // SAFETY: a buffer of this size, from sim_ringbuf_reserve().
            let bytes = unsafe { slice::from_raw_parts(buffer.pointer().cast::<u8>(), size) };
            s.bpf.records.push(bytes.to_vec());
        }
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn sim_ringbuf_discard(data: *mut c_void) {
    sim(|s| s.bpf.reserved.remove(&(data as usize)));
}

/// # Safety
/// `data` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_ringbuf_output(
    _map: *const c_void,
    data: *mut c_void,
    size: u64,
) -> i64 {
    // SAFETY: the contract of this function.
    let bytes = unsafe { slice::from_raw_parts(data.cast::<u8>(), size as usize) }.to_vec();
    sim(|s| s.bpf.records.push(bytes));
    0
}

/// # Safety
/// `slot` points to a kptr in a map value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_kptr_xchg(slot: *mut *mut c_void, value: *mut c_void) -> *mut c_void {
    // SAFETY: the contract of this function; no two vCPUs run at once.
    unsafe { std::ptr::replace(slot, value) }
}

/// Masks live as long as the process: programs keep them in maps, which end with the simulation.
#[unsafe(no_mangle)]
pub extern "C" fn bpf_cpumask_create() -> *mut cpumask {
    Box::into_raw(Box::<cpumask>::default())
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_cpumask_release(_mask: *mut cpumask) {}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_cpumask_acquire(mask: *mut cpumask) -> *mut cpumask {
    mask
}
