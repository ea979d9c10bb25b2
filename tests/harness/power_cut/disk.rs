//! A disk that forgets: what a file system keeps of what was done to it when the power is cut.
//!
//! POSIX promises the bytes of a file from `fsync` of that file on, and a name from `fsync` of its folder on. Names change in the
//! order in which they were changed, as a journal keeps them: a cut leaves the first ones of those that no `fsync` has made
//! durable. Bytes that were not flushed are there, or
//! are not, or are zeros, or are there in part.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::Draw;

/// Bytes that a disk writes as one.
const SECTOR: u64 = 512;

/// What a program did to a file system, or said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Opened a file to write, and made it where it was not there.
    Open {
        /// The file.
        path: PathBuf,
        /// Whether what it held went away.
        is_emptied: bool,
        /// Whether all that is written goes behind what it holds.
        at_end: bool,
    },
    /// Made a folder.
    Folder(PathBuf),
    /// Wrote bytes.
    Write {
        /// The file.
        path: PathBuf,
        /// Where; nothing = behind the bytes that were written last.
        place: Option<usize>,
        /// What.
        bytes: Vec<u8>,
    },
    /// Gave a file another length.
    Length {
        /// The file.
        path: PathBuf,
        /// In bytes.
        length: usize,
    },
    /// Gave a file or folder another name, in the place of what had it.
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new one.
        to: PathBuf,
    },
    /// Gave two files or folders each other's names.
    Exchange {
        /// One name.
        one: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// Gave a file a second name.
    Link {
        /// The first name.
        from: PathBuf,
        /// The second.
        to: PathBuf,
    },
    /// Took away a name.
    Remove(PathBuf),
    /// Began to flush a file or folder: what comes later is not flushed by it.
    BeginFlush {
        /// The file or folder.
        path: PathBuf,
        /// The number of the flush.
        call: usize,
    },
    /// The flush of that number has ended.
    EndFlush {
        /// The file or folder.
        path: PathBuf,
        /// The number of the flush.
        call: usize,
    },
    /// Wrote to the output.
    Say(String),
}

/// A file or a folder, whatever its names.
#[derive(Debug, Clone)]
enum Node {
    File {
        now: Vec<u8>,
        kept: Vec<u8>,
        /// Where `write` goes on.
        place: usize,
        at_end: bool,
    },
    Folder {
        now: BTreeMap<String, usize>,
        kept: BTreeMap<String, usize>,
        /// Changes that were not flushed, with the time of each: a name, and what it stands for.
        changes: Vec<(u64, String, Option<usize>)>,
    },
}

/// What is kept of a file or folder by a flush that runs.
#[derive(Debug, Clone)]
enum Flush {
    File(usize, Vec<u8>),
    Folder(usize, u64),
}

/// What is left of what was not flushed.
#[derive(Debug)]
pub enum Left<'a> {
    /// Everything: a process was killed, and the machine goes on.
    Everything,
    /// Nothing.
    Nothing,
    /// All names, and no bytes.
    Names,
    /// The first changes of names, and some bytes.
    Some(&'a mut Draw),
}

/// The files below a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Folders, the outer ones first.
    pub folders: Vec<PathBuf>,
    /// Files.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
}

/// A folder, and what became of all below it. It is itself always there.
#[derive(Debug, Clone)]
pub(super) struct Disk {
    root: PathBuf,
    nodes: Vec<Node>,
    /// Changes of names so far.
    time: u64,
    flushes: BTreeMap<usize, Flush>,
}

impl Disk {
    /// An empty folder.
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            nodes: vec![folder()],
            time: 0,
            flushes: BTreeMap::new(),
        }
    }

    /// A folder that has kept some files.
    ///
    /// # Errors
    /// One of them is in a folder that is not among them.
    pub(super) fn holding(root: &Path, tree: &Tree) -> Result<Self, String> {
        let mut disk = Self::new(root);
        for path in &tree.folders {
            disk.act(&Act::Folder(root.join(path)))?;
        }
        for (path, bytes) in &tree.files {
            let path = root.join(path);
            disk.act(&Act::Open {
                path: path.clone(),
                is_emptied: false,
                at_end: false,
            })?;
            disk.act(&Act::Write {
                path,
                place: None,
                bytes: bytes.clone(),
            })?;
        }
        for node in &mut disk.nodes {
            match node {
                Node::File { now, kept, .. } => kept.clone_from(now),
                Node::Folder { now, kept, changes } => {
                    kept.clone_from(now);
                    changes.clear();
                }
            }
        }
        Ok(disk)
    }

    /// Does what a program did; what happened elsewhere changes nothing.
    ///
    /// # Errors
    /// A name is not there that the program could use.
    pub(super) fn act(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Say(_) => {}
            Act::Open {
                path,
                is_emptied,
                at_end,
            } => {
                if let Some((parent, name)) = self.parent(path)? {
                    let id = match self.entry(parent, &name) {
                        Some(id) => id,
                        None => {
                            self.nodes.push(Node::File {
                                now: Vec::new(),
                                kept: Vec::new(),
                                place: 0,
                                at_end: false,
                            });
                            let id = self.nodes.len() - 1;
                            self.set(parent, &name, Some(id));
                            id
                        }
                    };
                    if let Node::File {
                        now,
                        place,
                        at_end: appends,
                        ..
                    } = &mut self.nodes[id]
                    {
                        if *is_emptied {
                            now.clear();
                        }
                        *place = 0;
                        *appends = *at_end;
                    }
                }
            }
            Act::Folder(path) => {
                if let Some((parent, name)) = self.parent(path)? {
                    self.nodes.push(folder());
                    let id = self.nodes.len() - 1;
                    self.set(parent, &name, Some(id));
                }
            }
            Act::Write { path, place, bytes } => {
                if let Some(id) = self.find(path)?
                    && let Node::File {
                        now,
                        place: next,
                        at_end,
                        ..
                    } = &mut self.nodes[id]
                {
                    let begin = match place {
                        Some(place) => *place,
                        None if *at_end => now.len(),
                        None => *next,
                    };
                    let end = begin + bytes.len();
                    if now.len() < end {
                        now.resize(end, 0);
                    }
                    now[begin..end].copy_from_slice(bytes);
                    if place.is_none() {
                        *next = end;
                    }
                }
            }
            Act::Length { path, length } => {
                if let Some(id) = self.find(path)?
                    && let Node::File { now, .. } = &mut self.nodes[id]
                {
                    now.resize(*length, 0);
                }
            }
            Act::Rename { from, to } => {
                if let (Some((parent, name)), Some((other, new))) =
                    (self.parent(from)?, self.parent(to)?)
                {
                    let id = self.entry(parent, &name).ok_or_else(|| missing(from))?;
                    self.time += 1;
                    self.change(other, &new, Some(id));
                    self.change(parent, &name, None);
                }
            }
            Act::Exchange { one, other } => {
                if let (Some((parent, name)), Some((second, new))) =
                    (self.parent(one)?, self.parent(other)?)
                {
                    let id = self.entry(parent, &name).ok_or_else(|| missing(one))?;
                    let with = self.entry(second, &new).ok_or_else(|| missing(other))?;
                    self.time += 1;
                    self.change(parent, &name, Some(with));
                    self.change(second, &new, Some(id));
                }
            }
            Act::Link { from, to } => {
                if let (Some(id), Some((parent, name))) = (self.find(from)?, self.parent(to)?) {
                    self.set(parent, &name, Some(id));
                }
            }
            Act::Remove(path) => {
                if let Some((parent, name)) = self.parent(path)? {
                    self.set(parent, &name, None);
                }
            }
            Act::BeginFlush { path, call } => {
                if let Some(id) = self.find(path)? {
                    let flush = match &self.nodes[id] {
                        Node::File { now, .. } => Flush::File(id, now.clone()),
                        Node::Folder { .. } => Flush::Folder(id, self.time),
                    };
                    self.flushes.insert(*call, flush);
                }
            }
            Act::EndFlush { call, .. } => match self.flushes.remove(call) {
                Some(Flush::File(id, bytes)) => {
                    if let Node::File { kept, .. } = &mut self.nodes[id] {
                        *kept = bytes;
                    }
                }
                Some(Flush::Folder(id, until)) => {
                    if let Node::Folder { kept, changes, .. } = &mut self.nodes[id] {
                        apply(kept, changes, until);
                        changes.retain(|(time, ..)| *time > until);
                    }
                }
                None => {}
            },
        }
        Ok(())
    }

    /// What is there after a cut now.
    pub(super) fn after_cut(&self, left: &mut Left<'_>) -> Tree {
        let until = match left {
            Left::Everything | Left::Names => u64::MAX,
            Left::Nothing => 0,
            Left::Some(draw) => draw.below(self.time + 1),
        };
        // A file with two names has the same bytes under both.
        let bytes: Vec<Vec<u8>> = self.nodes.iter().map(|node| bytes_of(node, left)).collect();
        let mut tree = Tree::default();
        self.collect(0, Path::new(""), until, &bytes, &mut tree);
        tree
    }

    fn collect(&self, id: usize, path: &Path, until: u64, bytes: &[Vec<u8>], tree: &mut Tree) {
        match &self.nodes[id] {
            Node::File { .. } => {
                tree.files.insert(path.to_owned(), bytes[id].clone());
            }
            Node::Folder { kept, changes, .. } => {
                if id != 0 {
                    tree.folders.push(path.to_owned());
                }
                let mut names = kept.clone();
                apply(&mut names, changes, until);
                for (name, id) in names {
                    self.collect(id, &path.join(name), until, bytes, tree);
                }
            }
        }
    }

    /// The folder of a path below the root, and its last name.
    fn parent(&self, path: &Path) -> Result<Option<(usize, String)>, String> {
        let Ok(below) = path.strip_prefix(&self.root) else {
            return Ok(None);
        };
        let Some(name) = below.file_name() else {
            return Ok(None);
        };
        let folder = path.parent().ok_or_else(|| missing(path))?;
        let parent = self.find(folder)?.ok_or_else(|| missing(folder))?;
        Ok(Some((parent, name.to_string_lossy().into_owned())))
    }

    /// What a path stands for now; nothing if it is not below the root.
    fn find(&self, path: &Path) -> Result<Option<usize>, String> {
        let Ok(below) = path.strip_prefix(&self.root) else {
            return Ok(None);
        };
        let mut id = 0;
        for part in below.components() {
            if let Component::Normal(name) = part {
                id = self
                    .entry(id, &name.to_string_lossy())
                    .ok_or_else(|| missing(path))?;
            }
        }
        Ok(Some(id))
    }

    fn entry(&self, folder: usize, name: &str) -> Option<usize> {
        match &self.nodes[folder] {
            Node::Folder { now, .. } => now.get(name).copied(),
            Node::File { .. } => None,
        }
    }

    fn set(&mut self, folder: usize, name: &str, id: Option<usize>) {
        self.time += 1;
        self.change(folder, name, id);
    }

    fn change(&mut self, folder: usize, name: &str, id: Option<usize>) {
        if let Node::Folder { now, changes, .. } = &mut self.nodes[folder] {
            changes.push((self.time, name.to_owned(), id));
            apply(now, &changes[changes.len() - 1..], u64::MAX);
        }
    }
}

impl Tree {
    /// Reads what lies in a folder.
    ///
    /// # Errors
    /// Something in it cannot be read.
    pub fn of(folder: &Path) -> std::io::Result<Self> {
        let mut tree = Self::default();
        let mut folders = vec![PathBuf::new()];
        while let Some(below) = folders.pop() {
            for entry in std::fs::read_dir(folder.join(&below))? {
                let entry = entry?;
                let path = below.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    tree.folders.push(path.clone());
                    folders.push(path);
                } else if entry.file_type()?.is_file() {
                    tree.files.insert(path, std::fs::read(entry.path())?);
                }
            }
        }
        tree.folders.sort();
        Ok(tree)
    }

    /// Writes what there is into a folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        for below in &self.folders {
            std::fs::create_dir_all(folder.join(below))?;
        }
        for (path, bytes) in &self.files {
            std::fs::write(folder.join(path), bytes)?;
        }
        Ok(())
    }
}

fn folder() -> Node {
    Node::Folder {
        now: BTreeMap::new(),
        kept: BTreeMap::new(),
        changes: Vec::new(),
    }
}

fn apply(
    names: &mut BTreeMap<String, usize>,
    changes: &[(u64, String, Option<usize>)],
    until: u64,
) {
    for (_, name, id) in changes.iter().filter(|(time, ..)| *time <= until) {
        match id {
            Some(id) => drop(names.insert(name.clone(), *id)),
            None => drop(names.remove(name)),
        }
    }
}

/// What is left of the bytes of a file.
fn bytes_of(node: &Node, left: &mut Left<'_>) -> Vec<u8> {
    let Node::File { now, kept, .. } = node else {
        return Vec::new();
    };
    match left {
        Left::Everything => now.clone(),
        Left::Nothing | Left::Names => kept.clone(),
        Left::Some(_) if now == kept => now.clone(),
        Left::Some(draw) => match draw.below(4) {
            0 => now.clone(),
            1 => kept.clone(),
            // The length is there, and the bytes are not.
            2 => vec![0; now.len()],
            _ => {
                let cut = draw.below(now.len() as u64 / SECTOR + 1) * SECTOR;
                let cut = cut as usize;
                let old = kept.get(cut..).unwrap_or_default();
                [&now[..cut], old].concat()
            }
        },
    }
}

fn missing(path: &Path) -> String {
    format!("{} is not there, and was not made", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(path: &str, bytes: &[u8]) -> [Act; 2] {
        let path = PathBuf::from(path);
        [
            Act::Open {
                path: path.clone(),
                is_emptied: false,
                at_end: false,
            },
            Act::Write {
                path,
                place: None,
                bytes: bytes.to_vec(),
            },
        ]
    }

    fn flushed(path: &str) -> [Act; 2] {
        let path = PathBuf::from(path);
        [
            Act::BeginFlush {
                path: path.clone(),
                call: 1,
            },
            Act::EndFlush { path, call: 1 },
        ]
    }

    fn disk(acts: impl IntoIterator<Item = Act>) -> Disk {
        let mut disk = Disk::new(Path::new("/d"));
        for act in acts {
            disk.act(&act).expect("it can be done");
        }
        disk
    }

    fn names(tree: &Tree) -> Vec<(String, usize)> {
        let of = |(path, bytes): (&PathBuf, &Vec<u8>)| (path.display().to_string(), bytes.len());
        tree.files.iter().map(of).collect()
    }

    #[test]
    fn a_file_is_kept_once_it_and_its_folder_are_flushed() {
        let mut acts: Vec<Act> = written("/d/a", b"123").into();
        let left = disk(acts.clone()).after_cut(&mut Left::Nothing);
        assert_eq!(names(&left), []);
        let left = disk(acts.clone()).after_cut(&mut Left::Names);
        assert_eq!(names(&left), [("a".to_owned(), 0)]);
        acts.extend(flushed("/d/a"));
        let left = disk(acts.clone()).after_cut(&mut Left::Nothing);
        assert_eq!(names(&left), []);
        let left = disk(acts.clone()).after_cut(&mut Left::Names);
        assert_eq!(names(&left), [("a".to_owned(), 3)]);
        acts.extend(flushed("/d"));
        let left = disk(acts).after_cut(&mut Left::Nothing);
        assert_eq!(names(&left), [("a".to_owned(), 3)]);
    }

    #[test]
    fn a_name_that_was_not_flushed_stands_for_the_file_before() {
        let mut acts: Vec<Act> = written("/d/a", b"1").into();
        acts.extend(flushed("/d/a"));
        acts.extend(flushed("/d"));
        acts.extend(written("/d/b", b"22"));
        acts.extend(flushed("/d/b"));
        acts.push(Act::Rename {
            from: "/d/b".into(),
            to: "/d/a".into(),
        });
        let left = disk(acts.clone()).after_cut(&mut Left::Nothing);
        assert_eq!(names(&left), [("a".to_owned(), 1)]);
        acts.extend(flushed("/d"));
        let left = disk(acts).after_cut(&mut Left::Nothing);
        assert_eq!(names(&left), [("a".to_owned(), 2)]);
    }

    #[test]
    fn bytes_that_are_written_while_a_flush_runs_are_not_flushed_by_it() {
        let mut acts: Vec<Act> = written("/d/a", b"1").into();
        acts.extend(flushed("/d"));
        let path = PathBuf::from("/d/a");
        acts.push(Act::BeginFlush {
            path: path.clone(),
            call: 7,
        });
        acts.push(Act::Write {
            path: path.clone(),
            place: None,
            bytes: b"23".to_vec(),
        });
        acts.push(Act::EndFlush { path, call: 7 });
        let left = disk(acts).after_cut(&mut Left::Nothing);
        assert_eq!(names(&left), [("a".to_owned(), 1)]);
    }
}
