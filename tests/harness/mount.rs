//! A file system of its own: in memory, or on a disk that is a file.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// Least bytes that a file takes of a disk.
const PAGE_BYTES: u64 = 4096;
/// Most bytes that [`Mount::fill`] takes at once.
const FILL_BYTES: u64 = 64 << 20;

/// A file system, unmounted with this value.
#[derive(Debug)]
pub struct Mount(tempfile::TempDir);

impl Mount {
    /// Mounts one in memory of this size, as `mount -o size=` takes it.
    ///
    /// # Panics
    /// It cannot be mounted.
    pub fn of(size: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let size = format!("size={size}");
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path()));
        Self(folder)
    }

    /// Mounts one on a disk of `bytes` bytes.
    ///
    /// # Panics
    /// It cannot be mounted.
    pub fn disk(bytes: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = tempfile::NamedTempFile::new().expect("a temporary file");
        image.as_file().set_len(bytes).expect("a file of this size");
        run(Command::new("mkfs.ext4")
            .args(["-q", "-m", "0"])
            .arg(image.path()));
        // The loop device keeps the file, whose name is not needed any more.
        run(Command::new("mount")
            .args(["-o", "loop"])
            .args([image.path(), folder.path()]));
        Self(folder)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Changes the size of one in memory. Returns whether the kernel does so: what is in use must fit.
    pub fn resize(&self, bytes: u64) -> bool {
        let size = format!("remount,size={bytes}");
        let mut remount = Command::new("mount");
        let done = remount.args(["-o", &size]).arg(self.path()).output();
        done.is_ok_and(|output| output.status.success())
    }

    /// Lets the file `name` grow, as one of another program does, until no more than `left` bytes are free.
    pub fn fill(&self, name: &str, left: u64) {
        let path = self.path().join(name);
        // Where not even its name fits, it is full.
        let Ok(file) = File::options().create(true).append(true).open(path) else {
            return;
        };
        let mut bytes = file.metadata().map_or(0, |file| file.len());
        let mut most = FILL_BYTES;
        while most >= PAGE_BYTES {
            let free = statvfs(self.path()).map_or(0, |found| found.f_bavail * found.f_frsize);
            let more = free.saturating_sub(left).min(most) / PAGE_BYTES * PAGE_BYTES;
            if more > 0 && fallocate(&file, FallocateFlags::empty(), bytes, more).is_ok() {
                bytes += more;
            } else {
                most /= 2;
            }
        }
    }

    /// Removes a file that [`Mount::fill`] has written.
    pub fn free(&self, name: &str) {
        let _ = std::fs::remove_file(self.path().join(name));
    }
}

/// A disk on which no write ends, until this value is dropped.
#[derive(Debug)]
pub struct FrozenDisk<'a>(&'a Mount);

impl Mount {
    /// Lets no write on the disk end from now on, as a disk that hangs.
    ///
    /// # Panics
    /// It is in memory.
    pub fn freeze(&self) -> FrozenDisk<'_> {
        run(Command::new("fsfreeze").arg("--freeze").arg(self.path()));
        FrozenDisk(self)
    }
}

impl Drop for FrozenDisk<'_> {
    fn drop(&mut self) {
        run(Command::new("fsfreeze")
            .arg("--unfreeze")
            .arg(self.0.path()));
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmount = || Command::new("umount").arg(self.0.path()).status();
        while unmount().is_ok_and(|status| !status.success()) {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn run(command: &mut Command) {
    let done = command.status();
    assert!(
        done.as_ref().is_ok_and(|status| status.success()),
        "{command:?}: {done:?}"
    );
}
