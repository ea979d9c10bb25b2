//! Flushing of a large file while it is written.
//!
//! The kernel takes long to hand out a page for the first time, most of all in a virtual machine, and a file of
//! gigabytes needs gigabytes of pages. If the file is flushed and its pages are released window by window, the kernel
//! reuses the same pages. Writing then runs at the rate of the disk, and evicts no pages of other files from the page
//! cache.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rustix::fs::{Advice, fadvise};

/// Bytes of a window, which is flushed at once.
const WINDOW_BYTES: u64 = 64 << 20;
/// Most windows that wait for the flush while the next window is written. Waiting windows take memory.
const WINDOWS_WAITING_MAX: usize = 1;

/// Flusher of a file. It starts a thread once a window is full.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    /// Bytes written since the last window.
    written: u64,
    thread: Option<(SyncSender<()>, JoinHandle<io::Result<()>>)>,
}

impl Flusher {
    /// Counts bytes that were written into the file. The file must be the same in all calls.
    ///
    /// # Errors
    /// The file handle cannot be duplicated, or the system cannot start a thread.
    pub(crate) fn wrote(&mut self, file: &File, bytes: u64) -> io::Result<()> {
        self.written += bytes;
        if self.written < WINDOW_BYTES {
            return Ok(());
        }
        self.written = 0;
        let (windows, _) = match &mut self.thread {
            Some(thread) => thread,
            None => self.thread.insert(start(file.try_clone()?)?),
        };
        // If the thread has failed, `finish` returns its error.
        let _ = windows.send(());
        Ok(())
    }

    /// Flushes the remaining bytes.
    ///
    /// # Errors
    /// The disk has refused bytes, now or before. The system reports this once.
    pub(crate) fn finish(self, file: &File) -> io::Result<()> {
        if let Some((windows, thread)) = self.thread {
            drop(windows);
            thread
                .join()
                .map_err(|_| io::Error::other("the thread that flushes has failed"))??;
        }
        file.sync_all()
    }
}

/// Drops the pages of a file up to a place from the page cache. The next reads reuse these pages.
pub(crate) fn let_go_up_to(file: &File, place: u64) {
    if let Some(bytes) = NonZeroU64::new(place) {
        // This is advice: if the kernel ignores it, the pages stay for a while.
        let _ = fadvise(file, 0, Some(bytes), Advice::DontNeed);
    }
}

fn start(file: File) -> io::Result<(SyncSender<()>, JoinHandle<io::Result<()>>)> {
    let (windows, handed_over) = sync_channel(WINDOWS_WAITING_MAX);
    let flush = move || {
        while handed_over.recv().is_ok() {
            file.sync_data()?;
            // This is advice: if the kernel ignores it, the pages stay for a while.
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
        }
        Ok(())
    };
    Ok((
        windows,
        std::thread::Builder::new()
            .name("flush".to_owned())
            .spawn(flush)?,
    ))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};

    use super::*;

    #[test]
    fn a_file_of_many_windows_holds_what_was_written() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        let mut flusher = Flusher::default();
        let piece = |number: u8| vec![number; 20 << 20];
        for number in 0..10 {
            file.write_all(&piece(number)).expect("it is written");
            flusher.wrote(&file, 20 << 20).expect("it is taken note of");
        }
        flusher.finish(&file).expect("it is flushed");
        file.rewind().expect("it is read");
        let mut read = vec![0; 20 << 20];
        for number in 0..10 {
            file.read_exact(&mut read).expect("it is read");
            assert!(read == piece(number), "piece {number}");
        }
    }

    #[test]
    fn a_disk_that_refuses_a_window_is_an_error_in_the_end() {
        // A pipe cannot be flushed.
        let (read, write) = io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(write));
        let mut flusher = Flusher::default();
        for _ in 0..3 {
            flusher
                .wrote(&file, WINDOW_BYTES)
                .expect("it is taken note of");
        }
        flusher.finish(&file).expect_err("it is not flushed");
        drop(read);
    }
}
