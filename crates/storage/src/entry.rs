//! Entries of a store: its files and folders.

use std::time::SystemTime;

/// Stamp of a file. It differs if the file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub bytes: u64,
    /// Time of change in nanoseconds since 1970, combined with the store's entity tag if there is one; 0 = unknown.
    pub version: u64,
}

/// An entry of a folder of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name in the folder.
    pub name: String,
    /// Time of writing, by the store's clock; absent = a folder.
    pub modified: Option<SystemTime>,
}
