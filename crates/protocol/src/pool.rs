//! Buffers of floats that are used again: the memory of large messages is faulted in once, not at every message.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use crate::payload::float_bytes;

/// Buffers that wait; more are given back to the allocator.
const WAITING_MAX: usize = 16;

/// A pool of buffers.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    waiting: Arc<Mutex<Vec<Vec<f32>>>>,
}

/// A buffer that returns to its pool.
#[derive(Debug)]
pub struct Pooled {
    /// The floats.
    pub values: Vec<f32>,
    pool: Pool,
}

impl Pool {
    /// Returns a buffer: one that was used before, with what it held, if there is one, else an empty one.
    pub fn take(&self) -> Pooled {
        let waiting = self.waiting.lock().ok().and_then(|mut waiting| waiting.pop());
        Pooled { values: waiting.unwrap_or_default(), pool: self.clone() }
    }
}

impl Pooled {
    /// Returns the floats as bytes; the buffer goes back when the last of them is gone.
    pub fn into_bytes(self) -> Bytes {
        if self.values.is_empty() { Bytes::new() } else { Bytes::from_owner(self) }
    }
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        float_bytes(&self.values)
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.values);
        if let Ok(mut waiting) = self.pool.waiting.lock()
            && waiting.len() < WAITING_MAX
        {
            waiting.push(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_bytes_are_gone() {
        let pool = Pool::default();
        let mut first = pool.take();
        first.values = vec![1.0, 2.0];
        let place = first.values.as_ptr();
        let bytes = first.into_bytes();
        assert_eq!(bytes.len(), 8);
        let kept = bytes.slice(4..);
        drop(bytes);
        assert!(pool.take().values.capacity() == 0, "the bytes are still in use");
        drop(kept);
        let again = [pool.take(), pool.take()];
        assert!(again.iter().any(|buffer| buffer.values.as_ptr() == place && buffer.values == [1.0, 2.0]));
    }
}
