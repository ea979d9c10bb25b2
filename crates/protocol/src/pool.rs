//! Pool of buffers for large messages. The memory is faulted in once, not for each message.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

/// Most buffers in the pool. They usually have 256 KiB each. Further buffers are returned to the allocator.
const WAITING_MAX: usize = 64;

/// A pool of buffers.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    waiting: Arc<Mutex<Vec<Vec<u8>>>>,
}

/// A buffer that returns to its pool.
#[derive(Debug)]
pub struct Pooled {
    /// Content of the buffer.
    pub bytes: Vec<u8>,
    pool: Pool,
}

impl Pool {
    /// Returns a buffer of the pool, with its old content, or an empty buffer if the pool has none.
    pub fn take(&self) -> Pooled {
        let waiting = self
            .waiting
            .lock()
            .ok()
            .and_then(|mut waiting| waiting.pop());
        Pooled {
            bytes: waiting.unwrap_or_default(),
            pool: self.clone(),
        }
    }
}

impl Pooled {
    /// Returns the content. The buffer returns to the pool when the last reference to the content is dropped.
    pub fn into_bytes(self) -> Bytes {
        if self.bytes.is_empty() {
            Bytes::new()
        } else {
            Bytes::from_owner(self)
        }
    }
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if let Ok(mut waiting) = self.pool.waiting.lock()
            && waiting.len() < WAITING_MAX
        {
            waiting.push(bytes);
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
        first.bytes = vec![1, 2];
        let place = first.bytes.as_ptr();
        let bytes = first.into_bytes();
        assert_eq!(bytes.len(), 2);
        let kept = bytes.slice(1..);
        drop(bytes);
        assert!(
            pool.take().bytes.capacity() == 0,
            "the bytes are still in use"
        );
        drop(kept);
        let again = [pool.take(), pool.take()];
        assert!(
            again
                .iter()
                .any(|buffer| buffer.bytes.as_ptr() == place && buffer.bytes == [1, 2])
        );
    }
}
