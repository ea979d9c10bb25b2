//! A file system in memory of its own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A file system in memory, unmounted with this value.
#[derive(Debug)]
pub struct Mount(tempfile::TempDir);

impl Mount {
    /// Mounts one of this size, as `mount -o size=` takes it.
    ///
    /// # Panics
    /// It cannot be mounted.
    pub fn of(size: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let size = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "it is mounted"
        );
        Self(folder)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
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
