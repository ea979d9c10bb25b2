//! Claiming a model directory: its cluster id, its term and its leader. One process claims at a time, on any host.
#![expect(
    clippy::disallowed_types,
    reason = "a lock is awaited by a thread without a runtime"
)]

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use trainyard_storage::{open_lock, read_regular};

use crate::bucket::{Bucket, FILE_BYTES_MAX};
use crate::durable::{create_all, flush_names_of, replace};
use crate::files::encode;
use crate::model_dir::ModelDir;
use crate::own_files::refuse_foreign;
use crate::run_lock::started_ago;
use crate::{Error, FileState, files, records};

/// Timeout for another process that is claiming the directory. A claim takes a few flushes of the disk.
const HELD_MAX: Duration = Duration::from_secs(10);
/// Time between attempts to lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// Folder of the claimed terms in a bucket: one object per term, which names the chief.
const EPOCHS: &str = "epochs";
/// Most chiefs that may claim a bucket at the same moment.
const RIVALS_MAX: u64 = 100;

/// The chief that has claimed a model directory last: `leader.json`, or in a bucket the latest object of `epochs`.
/// People and deposed chiefs read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Term that the chief has claimed.
    pub cluster_epoch: u64,
    /// Address of the chief.
    pub address: String,
    /// Host of the chief.
    pub host: String,
    /// Process id of the chief on its host.
    pub process_id: u32,
    /// Start of the process, in seconds since 1970.
    pub started_unix_secs: u64,
}

impl Leader {
    /// Address of a chief whose tasks all run in its process.
    pub const IN_PROCESS: &str = "this process";

    /// Reads the leader; nothing if there is no record, or if it holds none.
    ///
    /// # Errors
    /// The record cannot be read: another chief may lead.
    pub fn read(model_dir: &Path) -> Result<Option<Self>, Error> {
        let text = match ModelDir::at(model_dir)?.bucket() {
            Some(bucket) => match records::latest(&bucket, EPOCHS)? {
                Some(latest) => bucket.read(&records::name(EPOCHS, latest.number))?,
                None => None,
            }
            .map(|text| text.to_vec()),
            None => {
                let path = model_dir.join("leader.json");
                match read_regular(&path, FILE_BYTES_MAX) {
                    Ok(text) => Some(text),
                    Err(error) => {
                        let error = Error::io("read", &path)(error);
                        if error.file_state() == FileState::Missing {
                            return Ok(None);
                        }
                        return Err(error);
                    }
                }
            }
        };
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }
}

impl fmt::Display for Leader {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cluster_epoch,
            address,
            host,
            process_id,
            started_unix_secs,
        } = self;
        write!(
            out,
            "epoch {cluster_epoch} belongs to the chief at {address} (pid {process_id} on {host}{})",
            started_ago(*started_unix_secs)
        )
    }
}

/// Returns the cluster id of a model directory, 128 bits. `fresh` becomes the id if the directory has none: the run is its
/// first.
///
/// # Errors
/// The file cannot be read or written, or does not hold an id. [`Error::Foreign`] if files of others are in the way of
/// the first run.
pub fn cluster_id(model_dir: &Path, fresh: u128) -> Result<u128, Error> {
    if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
        if bucket.read("cluster_id")?.is_none() {
            refuse_foreign(model_dir)?;
        }
        bucket.put_if_absent("cluster_id", format!("{fresh:032x}\n").into_bytes())?;
        let path = model_dir.join("cluster_id");
        let text = bucket
            .read("cluster_id")?
            .ok_or_else(|| Error::damaged(&path, "it does not exist"))?;
        return id_of(&String::from_utf8_lossy(&text), &path);
    }
    create_all(model_dir)?;
    let _held = hold(model_dir)?;
    let path = model_dir.join("cluster_id");
    match read_text(&path)? {
        Some(text) => id_of(&text, &path),
        None => {
            refuse_foreign(model_dir)?;
            flush_names_of(model_dir)?;
            replace(&path, format!("{fresh:032x}\n").as_bytes())?;
            Ok(fresh)
        }
    }
}

/// Returns the cluster id of the model directory, if it has one.
///
/// # Errors
/// The file cannot be read, or does not hold an id.
pub fn known_cluster_id(model_dir: &Path) -> Result<Option<u128>, Error> {
    let path = model_dir.join("cluster_id");
    read_text(&path)?
        .map(|text| id_of(&text, &path))
        .transpose()
}

/// Returns the cluster id of the model directory if it is another one than `own`: the folder of another job has replaced
/// that of this one. A folder without an id, or with an id that cannot be read now, is not known to be another. Nor is a
/// bucket: nobody can put another one in its place, and each look would be a request to the store.
pub fn other_cluster_id(model_dir: &Path, own: u128) -> Option<u128> {
    if ModelDir::is_bucket(model_dir) {
        return None;
    }
    let found = known_cluster_id(model_dir).ok().flatten();
    found.filter(|found| *found != own)
}

/// Reads a small file; nothing if there is none.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, Error> {
    Ok(files::read(path)?.map(|text| String::from_utf8_lossy(&text).into_owned()))
}

/// Parses a cluster id. `path` is its file, for errors.
fn id_of(text: &str, path: &Path) -> Result<u128, Error> {
    u128::from_str_radix(text.trim(), 16).map_err(|_| Error::Note {
        path: path.to_owned(),
        found: text.trim().to_owned(),
        expected: "the cluster's id, 32 hexadecimal digits",
        cure: "write the `cluster_id` of the newest checkpoint's manifest.json into it",
    })
}

/// Parses a term. `path` is its file, for errors.
pub(crate) fn number_of(text: &str, path: &Path, cure: &'static str) -> Result<u64, Error> {
    text.trim().parse().map_err(|_| Error::Note {
        path: path.to_owned(),
        found: text.trim().to_owned(),
        expected: "an epoch, a whole number",
        cure,
    })
}

/// Raises the directory's term by one, durably, and returns it. The first term is 1, and the term is above `newest`, which
/// returns the newest term of a checkpoint while the directory is locked. `leader` is recorded with the claimed term. No
/// two processes get the same term.
///
/// # Errors
/// The file cannot be read or written, or does not hold a number; or an error of `newest`.
pub fn claim_above<E: From<Error>>(
    model_dir: &Path,
    leader: Option<Leader>,
    newest: impl FnOnce(&Path) -> Result<u64, E>,
) -> Result<u64, E> {
    let of_term = |cluster_epoch| {
        leader.clone().map(|leader| Leader {
            cluster_epoch,
            ..leader
        })
    };
    if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
        let claimed = records::latest(&bucket, EPOCHS)?.map_or(0, |latest| latest.number);
        let first = claimed.max(newest(model_dir)?).saturating_add(1);
        let said = |epoch| match of_term(epoch) {
            Some(leader) => encode(&leader, model_dir),
            None => Ok(Vec::new()),
        };
        return Ok(claim_in(&bucket, first, said)?);
    }
    let _held = hold(model_dir)?;
    let path = model_dir.join("cluster_epoch");
    let cure = "stop all tasks of the job and remove the file: the next epoch then follows the latest checkpoint's";
    let claimed = match read_text(&path)? {
        Some(text) => number_of(&text, &path, cure)?,
        None => 0,
    };
    let epoch = claimed.max(newest(model_dir)?).saturating_add(1);
    replace(&path, format!("{epoch}\n").as_bytes())?;
    if let Some(leader) = of_term(epoch) {
        let path = model_dir.join("leader.json");
        replace(&path, &encode(&leader, &path)?)?;
    }
    Ok(epoch)
}

/// Claims a term in a bucket, from `first` on. Of the chiefs that put the object of a term, one succeeds. If the reply to a
/// put is lost, the term stays unused, and the chief claims the next term.
fn claim_in(
    bucket: &Bucket,
    first: u64,
    said: impl Fn(u64) -> Result<Vec<u8>, Error>,
) -> Result<u64, Error> {
    for epoch in first..first.saturating_add(RIVALS_MAX) {
        let name = records::name(EPOCHS, epoch);
        let text = said(epoch)?;
        if bucket.put_if_absent(&name, text.clone())? {
            // A store that ignores the condition would give the same term to every chief.
            if bucket.put_if_absent(&name, text)? {
                let url = bucket.path().join(name).display().to_string();
                return Err(trainyard_storage::Error::Unconditional { url }.into());
            }
            return Ok(epoch);
        }
    }
    let text = format!("{RIVALS_MAX} epochs from {first} on are claimed while this chief tries to");
    Err(Error::io("claim", bucket.path())(std::io::Error::new(
        ErrorKind::TimedOut,
        text,
    )))
}

/// Checks that no term after `epoch` has been claimed. A folder stays locked against claims until the value is dropped;
/// there is no lock for a bucket, and none if no term has ever been claimed.
///
/// # Errors
/// [`Error::Deposed`] if a later term has been claimed. The term cannot be read.
pub fn refuse_if_deposed(model_dir: &Path, epoch: u64) -> Result<Option<File>, Error> {
    let refuse_above = |highest: Option<u64>| match highest.filter(|highest| *highest > epoch) {
        Some(highest) => Err(Error::Deposed {
            path: model_dir.to_owned(),
            epoch,
            highest,
        }),
        None => Ok(()),
    };
    if let Some(bucket) = ModelDir::at(model_dir)?.bucket() {
        let latest = records::latest(&bucket, EPOCHS)?;
        refuse_above(latest.map(|latest| latest.number))?;
        return Ok(None);
    }
    let path = model_dir.join("cluster_epoch");
    if read_text(&path)?.is_none() {
        return Ok(None);
    }
    let held = hold(model_dir)?;
    let cure = "stop all tasks of the job and remove the file";
    let highest = read_text(&path)?
        .map(|text| number_of(&text, &path, cure))
        .transpose()?;
    refuse_above(highest)?;
    Ok(Some(held))
}

/// Locks the claim of a directory until the file is dropped or the process dies. A file system without locks gives no
/// protection: two chiefs that start at the same moment may get the same term.
fn hold(model_dir: &Path) -> Result<File, Error> {
    let path = model_dir.join("claim.lock");
    let file = open_lock(&path).map_err(Error::io("open", &path))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= HELD_MAX => {
                let seconds = HELD_MAX.as_secs();
                let text =
                    format!("another process has held it for {seconds} s: is one standing still?");
                return Err(Error::io("lock", &path)(std::io::Error::new(
                    ErrorKind::TimedOut,
                    text,
                )));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn leader(process_id: u32) -> Leader {
        let address = "h:1".to_owned();
        let host = "h".to_owned();
        Leader {
            cluster_epoch: 0,
            address,
            host,
            process_id,
            started_unix_secs: 9,
        }
    }

    #[test]
    fn only_an_id_that_is_read_and_differs_is_that_of_another_cluster() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let model_dir = folder.path().join("m");
        let other = |own| other_cluster_id(&model_dir, own);
        assert_eq!(other(7), None, "there is no folder");
        assert_eq!(cluster_id(&model_dir, 7).expect("an id"), 7);
        assert_eq!(other(7), None);
        assert_eq!(other(8), Some(7));
        assert_eq!(cluster_id(&model_dir, 9).expect("the same id"), 7);
        let path = model_dir.join("cluster_id");
        std::fs::write(&path, "").expect("there is room");
        assert_eq!(other(8), None, "it holds no id");
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(other(8), None, "it has no id any more");
        std::fs::create_dir(&path).expect("there is room");
        assert_eq!(other(8), None, "it cannot be read");
        assert_eq!(other_cluster_id(Path::new("s3://bucket/m"), 8), None);
    }

    #[test]
    fn no_two_claims_at_once_are_given_the_same_epoch_or_another_id() {
        const CLAIMS: u32 = 8;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let claim = |nth: u32| {
            let id = cluster_id(folder.path(), u128::from(nth) + 1).expect("an id");
            (
                claim_above(folder.path(), Some(leader(nth)), |_| Ok::<u64, Error>(0))
                    .expect("an epoch"),
                id,
                nth,
            )
        };
        let claims: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CLAIMS)
                .map(|nth| scope.spawn(move || claim(nth)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a claim does not panic"))
                .collect()
        });
        let epochs: BTreeSet<u64> = claims.iter().map(|(epoch, ..)| *epoch).collect();
        assert_eq!(epochs, (1..=u64::from(CLAIMS)).collect());
        assert!(
            claims.windows(2).all(|pair| pair[0].1 == pair[1].1),
            "one id: {claims:?}"
        );
        let (epoch, _, last) = *claims.iter().max().expect("there are claims");
        let told = Leader::read(folder.path())
            .expect("readable")
            .expect("a leader");
        assert_eq!((told.cluster_epoch, told.process_id), (epoch, last));
        assert!(
            told.to_string()
                .contains(&format!("chief at h:1 (pid {last} on h")),
            "{told}"
        );
    }
}
