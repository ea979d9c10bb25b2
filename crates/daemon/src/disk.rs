//! Disks and their free space.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns the free bytes on the disk of a folder; nothing if they are unknown.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(folder).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Returns whether a folder lies on a file system that the kernel keeps in memory, or would lie there once it is made; nothing
/// if that cannot be seen.
pub fn is_in_memory(folder: &Path) -> Option<bool> {
    // statfs(2).
    const IN_MEMORY: [u32; 3] = [TMPFS, RAMFS, HUGETLBFS];
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    const HUGETLBFS: u32 = 0x9584_58f6;
    let above = folder.ancestors().find(|above| above.exists())?;
    let found = rustix::fs::statfs(above).ok()?;
    // The width of the number differs between architectures; the marks have 32 bits.
    Some(IN_MEMORY.contains(&(found.f_type as u32)))
}

/// Returns whether two folders lie on one disk, as far as both can be seen.
pub fn are_on_one_disk(one: &Path, other: &Path) -> bool {
    let disk = |folder: &Path| std::fs::metadata(folder).ok().map(|found| found.dev());
    disk(one).is_some_and(|found| disk(other) == Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_in_memory_is_known_from_a_disk() {
        assert_eq!(is_in_memory(Path::new("/proc")), Some(false));
        assert_eq!(is_in_memory(Path::new("/proc/nowhere/at/all")), Some(false));
        if Path::new("/dev/shm").exists() {
            assert_eq!(is_in_memory(Path::new("/dev/shm")), Some(true));
        }
    }

    #[test]
    fn a_folder_that_is_there_has_room_and_one_that_is_not_says_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(free_bytes(folder.path()).is_some_and(|bytes| bytes > 0));
        assert_eq!(free_bytes(&folder.path().join("none")), None);
    }
}
