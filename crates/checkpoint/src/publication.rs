//! Publication: cuts of the values of a running job, for readers that follow training.
//!
//! The folder `publish` of a model directory holds one folder for each cut. A *base* has the values of all rows, an
//! *increment* the values of the rows that have changed since the cut before. Each has one file per parameter server, and a
//! manifest that is written last. A folder appears by one rename; in a bucket, its manifest makes it a cut. The files name
//! the snapshots of the servers, so a reader knows whether an increment continues the cut that it holds. A base that follows
//! increments has the names of the cut before, so a reader of that cut goes on with what follows the base.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};

use trainyard_model_dir::durable::{flush_folder, rename, write_and_flush};
use trainyard_model_dir::{ModelDir, create_folder, names, refuse_if_deposed, remove};

use crate::manifest_file::{self, MANIFEST};
use crate::writer::{check_files, check_objects};
use crate::{Checkpoint, Error, Manifest};

/// Name of the folder of cuts in a model directory.
pub(crate) const FOLDER: &str = "publish";
/// Prefix of the temporary folder of a cut.
pub(crate) const TEMPORARY: &str = "tmp.";
/// Most increments over one base. A reader that could not read one waits for the next base.
const INCREMENTS_MAX: usize = 60;
/// Fewest increments over one base, so that bases add at most a quarter to what is written if each increment is as long as a
/// base.
const INCREMENTS_MIN: usize = 4;
/// Numbers of cuts in each term of a chief. The numbers of a term begin above those of all terms before, so they rise even
/// if cuts were removed.
const CUT_NUMBERS_PER_TERM: u64 = 1_000_000;

/// Kind of a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CutKind {
    /// The values of all rows.
    Base,
    /// The values of the rows that have changed since the cut before.
    Increment,
}

impl CutKind {
    /// Returns the prefix of the names of such folders.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Base => "base-",
            Self::Increment => "increment-",
        }
    }
}

/// A cut in the folder of cuts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedCut {
    /// Number of the cut. Later cuts have higher numbers.
    pub number: u64,
    /// Kind of the cut.
    pub kind: CutKind,
    /// Folder of the cut.
    pub path: PathBuf,
}

impl PublishedCut {
    /// Reads the manifest.
    ///
    /// # Errors
    /// It is absent, because the cut is being written or was abandoned; it is damaged, or cannot be read.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        manifest_file::read(&self.path)
    }
}

/// Returns the cuts of a model directory with a number above `after`, ascending. In a bucket, some of them may lack their
/// manifest: they are being written, or were abandoned.
///
/// # Errors
/// The folder cannot be read.
pub fn published_cuts(model_dir: &Path, after: u64) -> Result<Vec<PublishedCut>, Error> {
    let folder = model_dir.join(FOLDER);
    let cut = |name: String| {
        let kind = [CutKind::Base, CutKind::Increment]
            .into_iter()
            .find(|kind| name.starts_with(kind.prefix()))?;
        let number = name[kind.prefix().len()..].split('.').next()?;
        Some(PublishedCut {
            number: number.parse().ok()?,
            kind,
            path: folder.join(&name),
        })
    };
    let mut cuts: Vec<PublishedCut> = names(&folder)?.into_iter().filter_map(cut).collect();
    cuts.retain(|cut| cut.number > after);
    cuts.sort_by(|one, other| (one.number, &one.path).cmp(&(other.number, &other.path)));
    Ok(cuts)
}

/// Returns the names of the servers' snapshots in a cut, in the order of the servers.
pub fn snapshot_names(manifest: &Manifest) -> Vec<Option<String>> {
    let mut shards: Vec<_> = manifest.shards.iter().collect();
    shards.sort_by_key(|shard| shard.ps);
    shards.iter().map(|shard| shard.cut.clone()).collect()
}

/// Lets a base stand for an earlier cut of the same servers: what continues that cut, continues the base, too. The values of
/// the base are those of the cut or later ones, and an increment has every row that has changed since the cut.
pub fn stand_for(base: &mut Manifest, snapshots: &[Option<String>]) {
    for shard in &mut base.shards {
        if let Some(snapshot) = snapshots.get(shard.ps) {
            shard.cut.clone_from(snapshot);
        }
    }
}

/// Returns whether a cut is a base that stands for the cut with these snapshots. Its reader needs only what follows.
pub fn stands_for(manifest: &Manifest, snapshots: &[Option<String>]) -> bool {
    kind_of(manifest) == Some(CutKind::Base)
        && snapshots.iter().all(Option::is_some)
        && snapshot_names(manifest) == snapshots
}

/// Returns whether a cut has the changes since the cut with these snapshots.
pub fn continues(manifest: &Manifest, snapshots: &[Option<String>]) -> bool {
    let mut shards: Vec<_> = manifest.shards.iter().collect();
    shards.sort_by_key(|shard| shard.ps);
    let bases = shards.iter().map(|shard| &shard.base);
    shards.len() == snapshots.len()
        && bases
            .zip(snapshots)
            .all(|(base, snapshot)| base.is_some() && base == snapshot)
}

/// Returns the kind of a cut by its files; nothing if some servers gave all rows and others some of them.
pub fn kind_of(manifest: &Manifest) -> Option<CutKind> {
    let increments = manifest.shards.iter().filter(|shard| shard.base.is_some());
    match increments.count() {
        0 => Some(CutKind::Base),
        count if count == manifest.shards.len() => Some(CutKind::Increment),
        _ => None,
    }
}

/// The latest cut, and the size of what a new reader would read.
#[derive(Debug)]
struct Latest {
    snapshots: Vec<Option<String>>,
    base_bytes: u64,
    increment_bytes: u64,
    increments: usize,
}

/// The cuts of a model directory, for the chief that writes them.
#[derive(Debug)]
pub struct Publication {
    model_dir: PathBuf,
    folder: PathBuf,
    /// Number of the newest folder, committed or not.
    number: u64,
    latest: Option<Latest>,
}

impl Publication {
    /// Opens the cuts of a model directory for the chief of a term. Removes what an earlier chief has not committed.
    ///
    /// # Errors
    /// The folder cannot be read or created.
    pub fn open(model_dir: &Path, epoch: u64) -> Result<Self, Error> {
        let folder = model_dir.join(FOLDER);
        create_folder(&folder)?;
        if !ModelDir::is_bucket(&folder) {
            for name in names(&folder)? {
                if name.starts_with(TEMPORARY) {
                    remove(&folder.join(name))?;
                }
            }
        }
        let cuts = published_cuts(model_dir, 0)?;
        let newest = cuts.last().map_or(0, |cut| cut.number);
        Ok(Self {
            model_dir: model_dir.to_owned(),
            folder,
            number: newest.max(epoch.saturating_mul(CUT_NUMBERS_PER_TERM)),
            latest: newest_chain(&cuts)?,
        })
    }

    /// Returns the snapshots that an increment continues, one for each server; nothing if the next cut must be a base,
    /// because there is none.
    pub fn continued(&self) -> Option<&[Option<String>]> {
        let latest = self.latest.as_ref()?;
        Some(&latest.snapshots)
    }

    /// Returns whether a base is due for new readers: the increments over the latest one are many, or have become longer
    /// than that base.
    pub fn is_base_due(&self) -> bool {
        self.latest.as_ref().is_none_or(|latest| {
            let is_long = latest.increment_bytes > latest.base_bytes;
            (is_long && latest.increments >= INCREMENTS_MIN) || latest.increments >= INCREMENTS_MAX
        })
    }

    /// Begins a cut. Returns the folder for the files of the servers.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn begin(&mut self, kind: CutKind) -> Result<PathBuf, Error> {
        self.number += 1;
        let name = cut_name(kind, self.number);
        // The keys of the standard library's hashes are random, so no other attempt has this name.
        let attempt = RandomState::new().build_hasher().finish();
        if ModelDir::is_bucket(&self.folder) {
            return Ok(self.folder.join(format!("{name}.{attempt:016x}")));
        }
        let folder = self
            .folder
            .join(format!("{TEMPORARY}{name}.{attempt:016x}"));
        std::fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
        Ok(folder)
    }

    /// Commits a cut: checks the size of every file, writes the manifest, and renames the folder. Then it removes the cuts
    /// before the base before the newest base.
    ///
    /// # Errors
    /// A file is missing or has another size, a write fails, or another chief has claimed a later term. The cut is then not
    /// visible.
    pub fn commit(&mut self, folder: &Path, manifest: &Manifest) -> Result<PathBuf, Error> {
        let kind = kind_of(manifest).ok_or_else(|| {
            let what = "some servers gave all rows, and others only changes";
            Error::damaged(&folder.join(MANIFEST), what)
        })?;
        let path = match ModelDir::at(folder)?.bucket() {
            Some(own) => {
                check_objects(&own, manifest)?;
                refuse_if_deposed(&self.model_dir, manifest.cluster_epoch)?;
                let text = manifest_file::write(manifest, &folder.join(MANIFEST))?;
                own.put(MANIFEST, text)?;
                folder.to_owned()
            }
            None => {
                check_files(folder, manifest)?;
                let path = folder.join(MANIFEST);
                write_and_flush(&path, &manifest_file::write(manifest, &path)?)?;
                flush_folder(folder)?;
                let target = self.folder.join(cut_name(kind, self.number));
                // A chief that was suspended may have a successor.
                let _claimed = refuse_if_deposed(&self.model_dir, manifest.cluster_epoch)?;
                rename(folder, &target)?;
                target
            }
        };
        let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
        let snapshots = snapshot_names(manifest);
        match (kind, &mut self.latest) {
            (CutKind::Increment, Some(latest)) => {
                latest.snapshots = snapshots;
                latest.increment_bytes += bytes;
                latest.increments += 1;
            }
            _ => {
                self.latest = Some(Latest {
                    snapshots,
                    base_bytes: bytes,
                    increment_bytes: 0,
                    increments: 0,
                });
            }
        }
        if kind == CutKind::Base {
            self.retain()?;
        }
        Ok(path)
    }

    /// Removes the cuts before the base before the newest base. Readers of that base have the time between two bases.
    fn retain(&self) -> Result<(), Error> {
        let cuts = published_cuts(&self.model_dir, 0)?;
        let bases = cuts.iter().filter(|cut| cut.kind == CutKind::Base);
        let Some(kept_from) = bases.rev().nth(1).map(|cut| cut.number) else {
            return Ok(());
        };
        let mut old = cuts.iter().filter(|cut| cut.number < kept_from);
        old.try_for_each(|cut| remove_cut(&cut.path))
    }
}

/// Removes the cuts of later steps than the one with which a job ends, latest first.
///
/// # Errors
/// The folder cannot be read, or a cut cannot be removed.
pub fn remove_cuts_after(model_dir: &Path, step: u64) -> Result<(), Error> {
    for cut in published_cuts(model_dir, 0)?.iter().rev() {
        match manifest_file::read(&cut.path) {
            Ok(manifest) if manifest.global_step <= step => {}
            Ok(_) => remove_cut(&cut.path)?,
            // It was not committed, or is damaged.
            Err(error) if !error.is_unreadable() => remove_cut(&cut.path)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn remove_cut(path: &Path) -> Result<(), Error> {
    match ModelDir::at(path)?.bucket() {
        Some(bucket) => bucket.remove_all(Some(MANIFEST))?,
        None => remove(path)?,
    }
    Ok(())
}

fn cut_name(kind: CutKind, number: u64) -> String {
    format!("{}{number:012}", kind.prefix())
}

/// Returns the newest cut that continues a base without a gap; nothing if the newest cut does not.
fn newest_chain(cuts: &[PublishedCut]) -> Result<Option<Latest>, Error> {
    let Some(base) = cuts.iter().rposition(|cut| cut.kind == CutKind::Base) else {
        return Ok(None);
    };
    let mut latest: Option<Latest> = None;
    for cut in &cuts[base..] {
        let manifest = match manifest_file::read(&cut.path) {
            Ok(manifest) => manifest,
            // It was not committed, or is damaged: the next cut is a base.
            Err(error) if !error.is_unreadable() => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
        let snapshots = snapshot_names(&manifest);
        match &mut latest {
            None => {
                latest = Some(Latest {
                    snapshots,
                    base_bytes: bytes,
                    increment_bytes: 0,
                    increments: 0,
                });
            }
            Some(chain) if continues(&manifest, &chain.snapshots) => {
                chain.snapshots = snapshots;
                chain.increment_bytes += bytes;
                chain.increments += 1;
            }
            Some(_) => return Ok(None),
        }
    }
    Ok(latest)
}

/// The rows of a variable that have changed since the cut before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Rows or ids, ascending.
    pub rows: Vec<u64>,
    /// Their values.
    pub values: Vec<f32>,
    /// Ids that have lost their rows since the cut before, ascending. Some of them may have a row again.
    pub gone: Vec<u64>,
}

impl Checkpoint {
    /// Reads the changes of a variable from an increment that [`Checkpoint::open_cut`] has opened.
    ///
    /// # Errors
    /// A file cannot be read, or its tensors do not match.
    pub fn changes(&self, variable: &str) -> Result<Changes, Error> {
        let specs = self.manifest().variables.iter();
        let spec = specs.clone().find(|spec| spec.name == variable);
        let is_dynamic = spec.is_some_and(|spec| spec.dynamic().is_some());
        let (rows, values, width) = if is_dynamic {
            let lots = self.lots(variable, &[], 0..1 << 64)?;
            let lots = lots.collect::<Result<Vec<_>, Error>>()?;
            let all = trainyard_variable::DynamicRows::united(lots);
            (all.ids, all.values, spec.map_or(1, |spec| spec.width()))
        } else {
            self.changed_rows(variable)?
        };
        let gone = if is_dynamic {
            self.gone(variable)?
        } else {
            Vec::new()
        };
        if rows.is_sorted() {
            return Ok(Changes { rows, values, gone });
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|place| rows[*place]);
        let sorted = order
            .iter()
            .flat_map(|place| &values[place * width..(place + 1) * width]);
        Ok(Changes {
            values: sorted.copied().collect(),
            rows: order.iter().map(|place| rows[*place]).collect(),
            gone,
        })
    }
}

#[cfg(test)]
mod tests {
    use trainyard_variable::{Access, Initializer, VariableSpec};

    use super::*;
    use crate::{FilePurpose, HeldView, InMemory, OtherRows, ShardState, SliceView, write_shard};

    const TABLE_ROWS: usize = 100;
    /// Global step of each cut.
    const CUT_STEP: u64 = 5;

    /// Publishes a cut of one server with some rows of the variable `table`; all rows if `base` is absent.
    fn publish(
        publication: &mut Publication,
        cut: &str,
        base: Option<&str>,
        row: usize,
    ) -> PathBuf {
        let kind = match base {
            Some(_) => CutKind::Increment,
            None => CutKind::Base,
        };
        let folder = publication.begin(kind).expect("a folder");
        let values = [row as f32; 2 * TABLE_ROWS];
        let held = HeldView {
            rows: std::iter::once(row..row + 1).collect(),
            others: OtherRows::Base,
        };
        let source = InMemory {
            values: &values[..if base.is_some() { 2 } else { 2 * TABLE_ROWS }],
            slots: Vec::new(),
        };
        let slice = SliceView {
            variable: "table",
            part: 0,
            rows: 0..TABLE_ROWS,
            width: 2,
            slot_names: Vec::new(),
            held: base.map(|_| held),
            source: &source,
        };
        let state = ShardState {
            num_ps: 1,
            cut: Some(cut.to_owned()),
            base: base.map(str::to_owned),
            purpose: FilePurpose::Publication,
            ..ShardState::default()
        };
        let shard = write_shard(&folder, &state, &[slice], &[]).expect("a file");
        let variable = VariableSpec {
            name: "table".to_owned(),
            shape: vec![TABLE_ROWS, 2],
            access: Access::Rows,
            initializer: Initializer::Zeros,
            optimizer_group: "g".to_owned(),
        };
        let manifest = Manifest {
            num_ps: 1,
            shards: vec![shard],
            variables: vec![variable],
            ..Manifest::new("c".to_owned(), 1, CUT_STEP, 0)
        };
        publication
            .commit(&folder, &manifest)
            .expect("it is committed")
    }

    fn names_of(model_dir: &Path) -> Vec<String> {
        let cuts = published_cuts(model_dir, 0).expect("the cuts");
        let name = |cut: &PublishedCut| {
            let name = cut.path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        cuts.iter().map(name).collect()
    }

    #[test]
    fn a_later_chief_continues_the_newest_cut_and_removes_what_was_not_committed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut first = Publication::open(folder.path(), 0).expect("it opens");
        assert_eq!(first.continued(), None, "there is no base");
        publish(&mut first, "a", None, 0);
        let increment = publish(&mut first, "b", Some("a"), 3);
        let left = first.begin(CutKind::Increment).expect("a folder");
        let mut later = Publication::open(folder.path(), 0).expect("it opens");
        assert!(!left.exists());
        assert_eq!(later.continued(), Some(&[Some("b".to_owned())][..]));
        publish(&mut later, "c", Some("b"), 4);
        let names = [
            "base-000000000001",
            "increment-000000000002",
            "increment-000000000003",
        ];
        assert_eq!(names_of(folder.path()), names);
        let changes = Checkpoint::open_cut(&increment)
            .and_then(|cut| cut.changes("table"))
            .expect("the changes");
        let expected = Changes {
            rows: vec![3],
            values: vec![3.0, 3.0],
            gone: Vec::new(),
        };
        assert_eq!(changes, expected);
        std::fs::remove_dir_all(&increment).expect("it is removed");
        let broken = Publication::open(folder.path(), 0).expect("it opens");
        assert_eq!(broken.continued(), None, "an increment is missing");
    }

    #[test]
    fn a_base_that_stands_for_a_cut_is_due_once_increments_are_longer_and_goes_on_from_that_cut() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut cuts = Publication::open(folder.path(), 0).expect("it opens");
        assert!(cuts.is_base_due());
        publish(&mut cuts, "0", None, 0);
        let mut increments = 0;
        while !cuts.is_base_due() {
            let before = increments.to_string();
            increments += 1;
            publish(&mut cuts, &increments.to_string(), Some(&before), 3);
        }
        // An increment has one row of a hundred, and the head of a file.
        let expected = INCREMENTS_MIN..INCREMENTS_MAX;
        assert!(expected.contains(&increments), "{increments} increments");
        let latest = vec![Some(increments.to_string())];
        assert_eq!(cuts.continued(), Some(&latest[..]));
        let published = published_cuts(folder.path(), 0).expect("the cuts");
        let mut base = published[0].manifest().expect("a manifest");
        assert!(!stands_for(&base, &latest));
        stand_for(&mut base, &latest);
        assert!(stands_for(&base, &latest));
        assert!(!stands_for(&base, &[None]), "a cut without a name");
        publish(&mut cuts, &increments.to_string(), None, 0);
        assert!(!cuts.is_base_due());
        assert_eq!(cuts.continued(), Some(&latest[..]));
        let later = Publication::open(folder.path(), 0).expect("it opens");
        assert_eq!(later.continued(), Some(&latest[..]));
    }

    #[test]
    fn numbers_rise_from_term_to_term_though_cuts_of_later_steps_were_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut first = Publication::open(folder.path(), 1).expect("it opens");
        publish(&mut first, "a", None, 0);
        publish(&mut first, "b", Some("a"), 3);
        remove_cuts_after(folder.path(), CUT_STEP).expect("the cuts");
        assert_eq!(names_of(folder.path()).len(), 2, "they are of that step");
        remove_cuts_after(folder.path(), CUT_STEP - 1).expect("the cuts");
        assert!(names_of(folder.path()).is_empty());
        let mut later = Publication::open(folder.path(), 2).expect("it opens");
        publish(&mut later, "c", None, 0);
        assert_eq!(names_of(folder.path()), ["base-000002000001"]);
    }

    #[test]
    fn cuts_before_the_base_before_the_newest_base_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut cuts = Publication::open(folder.path(), 0).expect("it opens");
        publish(&mut cuts, "a", None, 0);
        publish(&mut cuts, "b", Some("a"), 1);
        publish(&mut cuts, "c", None, 2);
        assert_eq!(names_of(folder.path()).len(), 3);
        publish(&mut cuts, "d", None, 3);
        assert_eq!(
            names_of(folder.path()),
            ["base-000000000003", "base-000000000004"]
        );
    }
}
