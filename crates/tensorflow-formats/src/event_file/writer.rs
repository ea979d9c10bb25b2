//! The writer of an event file.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::tfrecord::write_frame;

use crate::event_file::{Error, Event};

/// Most names that are tried for a file. The names contain successive seconds, because other files of this host may
/// begin in the same second.
const NAMES_MAX: u32 = 64;

/// Appends events to a file of its own. Each event is a single write, so that readers see whole events, even after the
/// process was killed.
#[derive(Debug)]
pub struct EventWriter {
    file: File,
    path: PathBuf,
}

impl EventWriter {
    /// Creates `events.out.tfevents.SECONDS.HOST` in a folder, which is created if it does not exist, and writes the
    /// first record of the file. `wall_time` is in seconds since 1970.
    ///
    /// # Errors
    /// The folder or the file cannot be created.
    pub fn create(folder: &Path, host: &str, wall_time: f64) -> Result<Self, Error> {
        std::fs::create_dir_all(folder).map_err(|source| Error::Io {
            action: "create",
            path: folder.to_owned(),
            source,
        })?;
        for later in 0..NAMES_MAX {
            let seconds = wall_time.max(0.0) as u64 + u64::from(later);
            let path = folder.join(format!("events.out.tfevents.{seconds}.{}", plain(host)));
            match File::options().append(true).create_new(true).open(&path) {
                Ok(file) => {
                    let mut writer = Self { file, path };
                    writer.write(&Event::version(wall_time))?;
                    return Ok(writer);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(source) => {
                    return Err(Error::Io {
                        action: "create",
                        path,
                        source,
                    });
                }
            }
        }
        Err(Error::Taken {
            folder: folder.to_owned(),
            tried: NAMES_MAX,
        })
    }

    /// Appends an event.
    ///
    /// # Errors
    /// The write failed. Later events belong in a new file, because this file may end in half a record.
    pub fn write(&mut self, event: &Event) -> Result<(), Error> {
        let mut framed = Vec::new();
        write_frame(&mut framed, &event.encode())
            .and_then(|()| self.file.write_all(&framed))
            .map_err(|source| Error::Io {
                action: "write",
                path: self.path.clone(),
                source,
            })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the name of a host as a part of a file name.
fn plain(host: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-._".contains(letter) {
            letter
        } else {
            '_'
        }
    };
    let name: String = host.trim().chars().take(200).map(plain).collect();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_of_one_second_have_two_names_and_a_hosts_name_stays_in_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |host| {
            let writer =
                EventWriter::create(&folder.path().join("eval"), host, 17.9).expect("created");
            writer
                .path()
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        };
        assert_eq!(path("a"), "events.out.tfevents.17.a");
        assert_eq!(path("a"), "events.out.tfevents.18.a");
        assert_eq!(path("../b c\n"), "events.out.tfevents.17..._b_c");
        assert_eq!(path(""), "events.out.tfevents.17.localhost");
    }
}
