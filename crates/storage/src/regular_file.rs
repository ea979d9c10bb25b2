//! Regular files of this machine, read within a bound. A pipe without a writer never ends, and a device holds any number of
//! bytes.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a regular file, or one that a link leads to, for reading.
///
/// # Errors
/// The file cannot be opened, or is no regular file.
pub fn open_regular(path: &Path) -> Result<File> {
    // Otherwise, opening a pipe would wait for its writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(Error::other("it is no regular file"))
    }
}

/// Mode of a lock file, less the process's umask. Whoever may read a file may lock it (flock(2)), and would stop its process.
const LOCK_MODE: u32 = 0o660;

/// Opens a file that is to be locked, for reading and writing, and creates it if there is none. Its content is kept.
///
/// # Errors
/// The file cannot be opened or created, or is a link: it would lead to a file of somebody else.
pub fn open_lock(path: &Path) -> Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags)
        .mode(LOCK_MODE)
        .open(path)
}

/// Reads a whole regular file of at most `bytes_max` bytes.
///
/// # Errors
/// The file cannot be read, is no regular file, or is longer.
pub fn read_regular(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    let file = open_regular(path)?;
    let too_long = |bytes: u64| {
        Error::other(format!(
            "it has {bytes} bytes, and at most {bytes_max} are read"
        ))
    };
    let length = file.metadata()?.len();
    if length > bytes_max {
        return Err(too_long(length));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // The file may grow meanwhile, and files of the system have no length.
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(too_long(bytes.len() as u64));
    }
    Ok(bytes)
}

/// Reads a whole regular file of text, of at most `bytes_max` bytes.
///
/// # Errors
/// As [`read_regular`], or the file is not UTF-8.
pub fn read_regular_text(path: &Path, bytes_max: u64) -> Result<String> {
    let bytes = read_regular(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| {
        let place = error.utf8_error().valid_up_to();
        Error::new(
            ErrorKind::InvalidData,
            format!("it is not UTF-8 at byte {place}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_bound_are_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("text"), "12345").expect("a file");
        std::os::unix::fs::symlink(path("text"), path("link")).expect("a link");
        for name in ["text", "link"] {
            assert_eq!(read_regular(&path(name), 5).expect("five"), b"12345");
        }
        let refused = |path: &Path, bytes_max| {
            read_regular(path, bytes_max)
                .expect_err("it is refused")
                .to_string()
        };
        assert_eq!(
            refused(&path("text"), 4),
            "it has 5 bytes, and at most 4 are read"
        );
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), mode).expect("a pipe");
        let others = [path("pipe"), "/dev/zero".into(), folder.path().to_owned()];
        for other in others {
            assert_eq!(refused(&other, u64::MAX), "it is no regular file");
        }
        let sparse = File::create(path("sparse")).expect("a file");
        sparse.set_len(3 << 30).expect("no blocks are needed");
        assert!(refused(&path("sparse"), 2 << 30).contains("3221225472"));
        std::fs::write(path("binary"), b"ab\xff").expect("a file");
        let text = read_regular_text(&path("binary"), 9).expect_err("no text");
        assert_eq!(text.to_string(), "it is not UTF-8 at byte 2");
        assert!(refused(Path::new("/proc/self/maps"), 3).contains("at most 3"));
    }
}
