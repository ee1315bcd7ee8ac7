// SPDX-License-Identifier: GPL-2.0-only
//! bpf_timer: on the vCPU that started it, in its interrupt context.

use std::ffi::c_void;

use super::call::{Callback, enclose};
use super::shim::bpf_timer;
use crate::exec::spend;
use crate::guest::timer::Expiry;
use crate::sim::sim;

const ABSOLUTE: u64 = 1;
const EINVAL: i64 = 22;
const EBUSY: i64 = 16;

#[derive(Clone, Copy)]
pub struct BpfTimer {
    map: usize,
    callback: usize,
    armed: Option<u64>,
}

#[unsafe(no_mangle)]
pub extern "C" fn sim_timer_init(timer: *mut bpf_timer, map: *mut c_void) -> i64 {
    sim(|s| {
        let new = BpfTimer { map: map as usize, callback: 0, armed: None };
        if s.bpf.timers.contains_key(&(timer as usize)) {
            return -EBUSY;
        }
        s.bpf.timers.insert(timer as usize, new);
        0
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn sim_timer_set_callback(timer: *mut bpf_timer, callback: *mut c_void) -> i64 {
    sim(|s| match s.bpf.timers.get_mut(&(timer as usize)) {
        Some(timer) => {
            timer.callback = callback as usize;
            0
        }
        None => -EINVAL,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_timer_start(timer: *mut bpf_timer, ns: u64, flags: u64) -> i64 {
    spend(sim(|s| s.costs.kfunc_ns));
    sim(|s| {
        let address = timer as usize;
        let Some(known) = s.bpf.timers.get(&address).copied().filter(|timer| timer.callback != 0)
        else {
            return -EINVAL;
        };
        if let Some(armed) = known.armed {
            s.timers.remove(&armed);
        }
        let at = if flags & ABSOLUTE != 0 { ns } else { s.now.saturating_add(ns) };
        let armed = s.arm_timer(s.current, at, Expiry::Bpf(address));
        s.bpf.timers.insert(address, BpfTimer { armed: Some(armed), ..known });
        0
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn bpf_timer_cancel(timer: *mut bpf_timer) -> i64 {
    sim(|s| match s.bpf.timers.get_mut(&(timer as usize)) {
        Some(timer) => match timer.armed.take() {
            Some(armed) => i64::from(s.timers.remove(&armed).is_some()),
            None => 0,
        },
        None => -EINVAL,
    })
}

/// A timer has expired on the present vCPU.
pub fn fire(address: usize) {
    let found = sim(|s| {
        let timer = s.bpf.timers.get_mut(&address)?;
        timer.armed = None;
        let (callback, map) = (timer.callback, timer.map);
        let (key, value) = s.bpf.maps.get(&map)?.value_around(address)?;
        Some((callback, map, key, value))
    });
    let Some((callback, map, mut key, value)) = found else {
        return sim(|s| s.violate("a bpf_timer expired that is in no array map"));
    };
    enclose(Callback::Timer, || {
        // SAFETY: the function that the scheduler gave for this timer, with the kernel's arguments.
        unsafe {
            let callback: extern "C" fn(*mut c_void, *mut u32, *mut c_void) -> i32 =
                std::mem::transmute(callback);
            callback(map as *mut c_void, &raw mut key, value) as u64
        }
    });
}
