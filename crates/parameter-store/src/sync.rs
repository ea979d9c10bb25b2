//! The locks of the store: real locks, or those of a checker that tries many interleavings of threads.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::atomic::AtomicU64;
#[cfg(feature = "shuttle")]
pub(crate) use shuttle_parking_lot::{Mutex, RwLock};

#[cfg(not(feature = "shuttle"))]
pub(crate) use parking_lot::{Mutex, RwLock};
#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::AtomicU64;
