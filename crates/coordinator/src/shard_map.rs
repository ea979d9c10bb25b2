//! The shard map: which server has the primary of each shard, if each shard has two replicas. A change is written
//! before it takes effect.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;
use trainyard_model_dir::{Error, create_folder, encode, names, read, remove, write_atomically};

/// Folder of the maps in the model directory.
const FOLDER: &str = "shard_map";

/// The entry of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// Index of the server that has the primary.
    pub primary: usize,
    /// The primary acknowledges only changes that the other replica has: then the other replica may take over.
    pub paired: bool,
}

/// The map of all shards. A later term, then a later version, replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardMap {
    /// Term of the chief that has written the map.
    pub cluster_epoch: u64,
    /// Raised with every change.
    pub version: u64,
    /// Entries, by index of the shard.
    pub shards: Vec<ShardEntry>,
}

impl ShardMap {
    /// Returns the map of `num_ps` shards, each on its own server without a backup.
    pub fn new(cluster_epoch: u64, num_ps: usize) -> Self {
        let shards = (0..num_ps)
            .map(|primary| ShardEntry {
                primary,
                paired: false,
            })
            .collect();
        Self {
            cluster_epoch,
            version: 1,
            shards,
        }
    }

    /// Returns the server of the replica that is not the primary.
    pub fn other(&self, shard: usize) -> usize {
        let next = (shard + 1) % self.shards.len();
        if self.shards[shard].primary == shard {
            next
        } else {
            shard
        }
    }

    /// Returns the next version of the map, with a new entry for a shard.
    pub fn with(&self, shard: usize, entry: ShardEntry) -> Self {
        let mut map = Self {
            version: self.version + 1,
            ..self.clone()
        };
        map.shards[shard] = entry;
        map
    }

    /// Reads the latest map of a model directory. Returns `None` if there is none, or it is for another number of
    /// servers.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn read(model_dir: &Path, num_ps: usize) -> Result<Option<Self>, String> {
        let fits = |map: &Self| {
            map.shards.len() == num_ps
                && (0..num_ps).all(|shard| {
                    let primary = map.shards[shard].primary;
                    primary == shard || primary == (shard + 1) % num_ps
                })
        };
        Ok(Self::read_any(model_dir)?.filter(fits))
    }

    /// Reads the latest map of a model directory, for whatever number of servers. Returns `None` if there is none.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn read_any(model_dir: &Path) -> Result<Option<Self>, String> {
        let (path, text) = loop {
            let found =
                files(model_dir).map_err(|error| format!("{}: {error}", model_dir.display()));
            let Some((_, path)) = found?.pop() else {
                return Ok(None);
            };
            // A map that was removed since it was listed has been replaced by a later one.
            if let Some(text) =
                read(&path).map_err(|error| format!("{}: {error}", path.display()))?
            {
                break (path, text);
            }
        };
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Writes the map durably. Each term has a file of its own, so that a chief that was deposed meanwhile does not
    /// replace the map of its successor.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, model_dir: &Path) -> Result<(), Error> {
        let folder = model_dir.join(FOLDER);
        create_folder(&folder)?;
        let path = folder.join(format!("{:020}.json", self.cluster_epoch));
        write_atomically(&path, &encode(self, &path)?)?;
        for (epoch, path) in files(model_dir)? {
            if epoch < self.cluster_epoch {
                drop(remove(&path));
            }
        }
        Ok(())
    }

    /// Removes all maps at the end of the job. The next job begins with each shard on its own server.
    pub fn clear(model_dir: &Path) {
        let folder = model_dir.join(FOLDER);
        if let Err(error) = remove(&folder) {
            warn!(folder = %folder.display(), %error, "the shard map could not be removed: the next run starts with these roles");
        }
    }
}

/// Returns the maps of a model directory, the latest term last.
fn files(model_dir: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let folder = model_dir.join(FOLDER);
    let named =
        |name: &String| Some((name.strip_suffix(".json")?.parse().ok()?, folder.join(name)));
    let mut found: Vec<_> = names(&folder)?.iter().filter_map(named).collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_map_is_read_whoever_writes_last() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(ShardMap::read(folder.path(), 2), Ok(None));
        let first = ShardMap::new(3, 2);
        first.write(folder.path()).expect("there is room");
        let later = ShardMap {
            cluster_epoch: 4,
            ..first.with(
                0,
                ShardEntry {
                    primary: 1,
                    paired: false,
                },
            )
        };
        later.write(folder.path()).expect("there is room");
        first
            .with(
                1,
                ShardEntry {
                    primary: 1,
                    paired: true,
                },
            )
            .write(folder.path())
            .expect("there is room");
        assert_eq!(
            ShardMap::read(folder.path(), 2),
            Ok(Some(later)),
            "a deposed chief has no say"
        );
        assert_eq!(
            ShardMap::read(folder.path(), 3),
            Ok(None),
            "it is of another cluster"
        );
    }

    #[test]
    fn a_map_that_cannot_be_read_is_not_taken_for_none() {
        let folder = tempfile::tempdir().expect("a folder");
        ShardMap::new(3, 2)
            .write(folder.path())
            .expect("there is room");
        std::fs::write(
            folder
                .path()
                .join("shard_map")
                .join(format!("{:020}.json", 4)),
            "{",
        )
        .expect("written");
        let problem = ShardMap::read(folder.path(), 2).expect_err("it is cut short");
        assert!(problem.contains("00000000000000000004.json"), "{problem}");
    }

    #[test]
    fn the_other_replica_is_on_the_next_server_or_its_own() {
        let map = ShardMap::new(1, 3);
        assert_eq!([map.other(0), map.other(1), map.other(2)], [1, 2, 0]);
        assert_eq!(
            map.with(
                2,
                ShardEntry {
                    primary: 0,
                    paired: false
                }
            )
            .other(2),
            2
        );
    }
}
