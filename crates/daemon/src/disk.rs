//! Disks and their free space.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns the free bytes on the disk of a folder; nothing if they are unknown.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(folder).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
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
    fn a_folder_that_is_there_has_room_and_one_that_is_not_says_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(free_bytes(folder.path()).is_some_and(|bytes| bytes > 0));
        assert_eq!(free_bytes(&folder.path().join("none")), None);
    }
}
