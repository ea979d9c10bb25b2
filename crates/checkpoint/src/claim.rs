//! Claiming a model folder: its identity, its epoch, and who leads. One process at a time, whatever their hosts.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bucket::Bucket;
use crate::durable::replace;
use crate::files::encode;
use crate::model_dir::{id_of, newest_epoch, number_of, read_text};
use crate::run_lock::started_ago;
use crate::{Error, records};

/// Longest wait for another process that claims the folder at this moment: it takes a few flushes of the disk.
const HELD_MAX: Duration = Duration::from_secs(10);
/// Time between tries.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// Folder of the epochs that were claimed in a bucket: an object each, which says by whom.
pub(crate) const EPOCHS: &str = "epochs";
/// Chiefs that may claim a bucket at the same moment.
const RIVALS_MAX: u64 = 100;

/// The chief that was the last to claim a model folder: `leader.json`, or in a bucket the latest of `epochs`, for people
/// and for those that it deposes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Term of the chief: the epoch that it has claimed.
    pub cluster_epoch: u64,
    /// Where it is reached.
    pub address: String,
    /// Its host.
    pub host: String,
    /// Its process id there.
    pub process_id: u32,
    /// When it was started.
    pub started_unix_secs: u64,
}

impl Leader {
    /// Reads who leads; nothing where nobody has said so, or it cannot be read: a message goes without.
    pub fn read(model_dir: &Path) -> Option<Self> {
        let text = match Bucket::of(model_dir).ok()? {
            Some(bucket) => {
                let latest = records::latest(&bucket, EPOCHS).ok()??;
                bucket
                    .read(&records::name(EPOCHS, latest.number))
                    .ok()??
                    .to_vec()
            }
            None => std::fs::read(model_dir.join("leader.json")).ok()?,
        };
        serde_json::from_slice(&text).ok()
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

/// Returns the folder's 128-bit id, and makes `fresh` its id if it has none.
///
/// # Errors
/// The file cannot be read or written, or does not hold an id.
pub fn cluster_id(model_dir: &Path, fresh: u128) -> Result<u128, Error> {
    if let Some(bucket) = Bucket::of(model_dir)? {
        bucket.put_if_absent("cluster_id", format!("{fresh:032x}\n").into_bytes())?;
        let path = model_dir.join("cluster_id");
        let text = bucket
            .read("cluster_id")?
            .ok_or_else(|| Error::damaged(&path, "it does not exist"))?;
        return id_of(&String::from_utf8_lossy(&text), &path);
    }
    std::fs::create_dir_all(model_dir).map_err(Error::io("create", model_dir))?;
    let _held = hold(model_dir)?;
    let path = model_dir.join("cluster_id");
    match read_text(&path)? {
        Some(text) => id_of(&text, &path),
        None => {
            replace(&path, format!("{fresh:032x}\n").as_bytes())?;
            Ok(fresh)
        }
    }
}

/// Raises the folder's epoch by one, durably, and returns it. The first is 1. It is above that of every checkpoint too, so
/// that a file that was lost, or put back from a copy, makes no newer checkpoint look older. No two processes are given the
/// same.
///
/// # Errors
/// The file cannot be read or written, or does not hold a number.
pub fn claim_epoch(model_dir: &Path) -> Result<u64, Error> {
    if let Some(bucket) = Bucket::of(model_dir)? {
        return claim_in(&bucket, model_dir, |_| Ok(Vec::new()));
    }
    let _held = hold(model_dir)?;
    raise(model_dir)
}

/// The same, and says who leads from now on. `leader` need not know its epoch.
///
/// # Errors
/// As there.
pub fn claim_epoch_as(model_dir: &Path, leader: Leader) -> Result<u64, Error> {
    if let Some(bucket) = Bucket::of(model_dir)? {
        let said = |cluster_epoch| {
            encode(
                &Leader {
                    cluster_epoch,
                    ..leader.clone()
                },
                model_dir,
            )
        };
        return claim_in(&bucket, model_dir, said);
    }
    let _held = hold(model_dir)?;
    let cluster_epoch = raise(model_dir)?;
    let path = model_dir.join("leader.json");
    replace(
        &path,
        &encode(
            &Leader {
                cluster_epoch,
                ..leader
            },
            &path,
        )?,
    )?;
    Ok(cluster_epoch)
}

/// Claims an epoch of a bucket: of those who put the object of a number, one succeeds. A number whose answer was lost is left
/// to nobody: the next one will do.
fn claim_in(
    bucket: &Bucket,
    model_dir: &Path,
    said: impl Fn(u64) -> Result<Vec<u8>, Error>,
) -> Result<u64, Error> {
    let claimed = records::latest(bucket, EPOCHS)?.map_or(0, |latest| latest.number);
    let first = claimed.max(newest_epoch(model_dir)?).saturating_add(1);
    for epoch in first..first.saturating_add(RIVALS_MAX) {
        let name = records::name(EPOCHS, epoch);
        let text = said(epoch)?;
        if bucket.put_if_absent(&name, text.clone())? {
            // A store that does not know the condition lets everybody have the same epoch.
            if bucket.put_if_absent(&name, text)? {
                let url = bucket.path().join(name).display().to_string();
                return Err(trainyard_storage::Error::Unconditional { url }.into());
            }
            return Ok(epoch);
        }
    }
    let text = format!("{RIVALS_MAX} epochs from {first} on are claimed while this chief tries to");
    Err(Error::io("claim", model_dir)(std::io::Error::new(
        ErrorKind::TimedOut,
        text,
    )))
}

fn raise(model_dir: &Path) -> Result<u64, Error> {
    let path = model_dir.join("cluster_epoch");
    let cure = "stop all tasks of the job and remove the file: the next epoch then follows the latest checkpoint's";
    let epoch = match read_text(&path)? {
        Some(text) => number_of(&text, &path, cure)?,
        None => 0,
    };
    let epoch = epoch.max(newest_epoch(model_dir)?).saturating_add(1);
    replace(&path, format!("{epoch}\n").as_bytes())?;
    Ok(epoch)
}

/// Keeps others from claiming the folder until the value is dropped, and checks that nobody has a later epoch. Nothing, where
/// nobody has ever claimed it.
pub(crate) fn claimed_by_nobody_later(model_dir: &Path, epoch: u64) -> Result<Option<File>, Error> {
    let path = model_dir.join("cluster_epoch");
    if read_text(&path)?.is_none() {
        return Ok(None);
    }
    let held = hold(model_dir)?;
    let cure = "stop all tasks of the job and remove the file";
    let highest = read_text(&path)?
        .map(|text| number_of(&text, &path, cure))
        .transpose()?;
    match highest.filter(|highest| *highest > epoch) {
        Some(highest) => Err(Error::Deposed {
            path: model_dir.to_owned(),
            epoch,
            highest,
        }),
        None => Ok(Some(held)),
    }
}

/// Keeps others from claiming the folder until the file is dropped, or its process dies. A file system without locks is
/// taken as it is: there, two chiefs that start within the same moment may be given the same epoch.
fn hold(model_dir: &Path) -> Result<File, Error> {
    let path = model_dir.join("claim.lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let file = file.map_err(Error::io("open", &path))?;
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
    fn no_two_claims_at_once_are_given_the_same_epoch_or_another_id() {
        const CLAIMS: u32 = 8;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let claim = |nth: u32| {
            let id = cluster_id(folder.path(), u128::from(nth) + 1).expect("an id");
            (
                claim_epoch_as(folder.path(), leader(nth)).expect("an epoch"),
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
        let told = Leader::read(folder.path()).expect("a leader");
        assert_eq!((told.cluster_epoch, told.process_id), (epoch, last));
        assert!(
            told.to_string()
                .contains(&format!("chief at h:1 (pid {last} on h")),
            "{told}"
        );
    }
}
