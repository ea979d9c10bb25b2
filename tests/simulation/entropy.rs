//! Chance without chance: the numbers that the standard library draws for its hash maps, and the runtime for its choices,
//! come from the seed.
//!
//! The standard library asks the system for them once a thread, through the C function `getrandom`. A program that has one
//! of that name is asked instead of the system.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// What all numbers come from.
static SEED: AtomicU64 = AtomicU64::new(0x5eed);

thread_local! {
    /// Of each thread, so that one does not change the numbers of another.
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Sets what the numbers of threads come from that have drawn none so far.
pub(crate) fn seed(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
}

/// Draws a number (splitmix64, Steele, Lea and Flood 2014).
fn draw() -> u64 {
    STATE.with(|state| {
        let last = if state.get() == 0 {
            SEED.load(Ordering::Relaxed)
        } else {
            state.get()
        };
        let next = last.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state.set(next);
        let mixed = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// Stands for the system's function of this name, in this test program alone.
///
/// # Safety
/// As of the system's: `buffer` has room for `length` bytes.
#[allow(unsafe_code)]
// SAFETY: the name and the types are those of the C library's function, which it takes the place of.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, _flags: c_uint) -> isize {
    for place in 0..length {
        let byte = draw() as u8;
        // SAFETY: the caller gives room for `length` bytes, and `place` is below that.
        unsafe { buffer.cast::<u8>().add(place).write(byte) };
    }
    // At most a few dozen bytes are ever asked for.
    length as isize
}
