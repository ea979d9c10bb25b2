//! Bases: the whole files on which the chief bases incremental checkpoints.
//!
//! An incremental checkpoint holds a link to the whole file of each server, and all changes since that file. It depends on
//! no other checkpoint, so checkpoints are removed, copied and read one by one, as whole ones are.

use std::path::{Path, PathBuf};

use trainyard_model_dir::ModelDir;

use crate::writer::link_base;
use crate::{Error, Manifest, ShardRecord};

/// Incremental checkpoints on one base. A server writes a whole file earlier if increments cost more in the long run.
const INCREMENTS_MAX: usize = 20;

/// The whole file of each server in the latest checkpoint.
#[derive(Debug, Clone)]
pub struct Bases {
    /// Folder of the latest checkpoint; absent before the first one.
    folder: Option<PathBuf>,
    files: Vec<ShardRecord>,
    /// Number of increments over these files.
    increments: usize,
    /// Checkpoints may be incremental.
    are_possible: bool,
}

impl Bases {
    /// Returns the state before the first checkpoint in a file system with hard links.
    pub fn none_yet() -> Self {
        Self {
            folder: None,
            files: Vec::new(),
            increments: 0,
            are_possible: true,
        }
    }

    /// Returns the state before the first checkpoint in a model directory. A bucket has no links.
    pub fn of(model_dir: &Path) -> Self {
        if ModelDir::is_bucket(model_dir) {
            Self::without_links()
        } else {
            Self::none_yet()
        }
    }

    /// Returns the state for a store or file system without hard links: every checkpoint is whole.
    pub fn without_links() -> Self {
        Self {
            are_possible: false,
            ..Self::none_yet()
        }
    }

    /// Returns the name of the snapshot that the next part of a server may be based on. Empty: the part must be whole, and
    /// later parts may be based on it. `None`: all parts must be whole.
    pub fn name_for(&self, ps: usize) -> Option<String> {
        if !self.are_possible {
            return None;
        }
        let file = self.files.iter().find(|file| file.ps == ps);
        let file = file.filter(|_| self.increments < INCREMENTS_MAX);
        Some(file.and_then(|file| file.cut.clone()).unwrap_or_default())
    }

    /// Links the bases of the increments into the folder of a checkpoint, and lists them in its manifest.
    ///
    /// # Errors
    /// The file system has no hard links, or a file does not exist.
    pub fn link(&self, manifest: &mut Manifest, folder: &Path) -> Result<(), Error> {
        let is_base = |file: &&ShardRecord| {
            let mut increments = manifest.shards.iter().filter(|shard| shard.base.is_some());
            increments.any(|shard| shard.base == file.cut)
        };
        let files: Vec<&ShardRecord> = self.files.iter().filter(is_base).collect();
        if let Some(earlier) = &self.folder {
            for file in files {
                manifest.bases.push(link_base(earlier, file, folder)?);
            }
        }
        manifest.set_format();
        Ok(())
    }

    /// Returns the bases after a checkpoint has been committed in `folder`.
    #[must_use]
    pub fn after(&self, manifest: &Manifest, folder: &Path) -> Self {
        let file = |shard: &ShardRecord| match &shard.base {
            None => Some(shard.clone()),
            Some(_) => manifest.base_of(shard).cloned(),
        };
        Self {
            folder: Some(folder.to_owned()),
            files: manifest.shards.iter().filter_map(file).collect(),
            increments: if manifest.bases.is_empty() {
                0
            } else {
                self.increments + 1
            },
            are_possible: self.are_possible,
        }
    }
}
