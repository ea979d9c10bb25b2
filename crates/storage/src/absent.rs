//! Stub for programs that are built without the feature `object-stores`: every access to a remote file is an error.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::{Entry, Error, Location, Stamp, Storage};

/// Placeholder for the clients of stores.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clients;

impl Clients {
    pub(crate) fn with_deadline(self, _deadline: Duration) -> Self {
        self
    }
}

/// A remote file. A value of this type cannot exist.
#[derive(Debug)]
pub(crate) enum ReadAhead {}

impl ReadAhead {
    pub(crate) fn bytes(&self) -> u64 {
        match *self {}
    }

    pub(crate) fn seek(&mut self, _at: u64) {
        match *self {}
    }

    pub(crate) fn read(&mut self, _out: &mut [u8]) -> Result<usize, Error> {
        match *self {}
    }

    pub(crate) fn read_ranges(&self, _ranges: &[Range<u64>]) -> std::io::Result<Vec<Bytes>> {
        match *self {}
    }

    pub(crate) fn read_at(&self, _at: u64, _count: usize) -> std::io::Result<Bytes> {
        match *self {}
    }
}

fn refused(location: &Location) -> Error {
    Error::not_built(location)
}

fn refused_name(name: &Path) -> Error {
    Location::parse(&name.to_string_lossy())
        .map_or_else(|error| error, |location| refused(&location))
}

impl Storage {
    pub(crate) fn open_remote(&self, location: Location) -> Result<ReadAhead, Error> {
        Err(refused(&location))
    }

    pub(crate) fn stamp_remote(&self, location: Location) -> Result<Stamp, Error> {
        Err(refused(&location))
    }

    pub(crate) fn list(&self, location: &Location) -> Result<Vec<String>, Error> {
        Err(refused(location))
    }

    /// Writes an object.
    ///
    /// # Errors
    /// This program was built without object stores.
    pub fn put(&self, name: &Path, _bytes: Bytes) -> Result<(), Error> {
        Err(refused_name(name))
    }

    /// Writes an object if there is none of that name.
    ///
    /// # Errors
    /// This program was built without object stores.
    pub fn put_if_absent(&self, name: &Path, _bytes: Bytes) -> Result<bool, Error> {
        Err(refused_name(name))
    }

    /// Uploads a local file.
    ///
    /// # Errors
    /// This program was built without object stores.
    pub fn upload(&self, _file: std::fs::File, _bytes: u64, name: &Path) -> std::io::Result<()> {
        Err(refused_name(name).into())
    }

    /// Reads a whole object.
    ///
    /// # Errors
    /// This program was built without object stores.
    pub fn read(&self, name: &Path, _bytes_max: u64) -> Result<Option<Bytes>, Error> {
        Err(refused_name(name))
    }

    /// Returns the entries of a folder.
    ///
    /// # Errors
    /// This program was built without object stores.
    pub fn entries(&self, folder: &Path) -> Result<Vec<Entry>, Error> {
        Err(refused_name(folder))
    }

    /// Removes an object, and all objects below a folder of that name.
    ///
    /// # Errors
    /// This program was built without object stores.
    pub fn remove_all(&self, name: &Path, _first: Option<&str>) -> Result<(), Error> {
        Err(refused_name(name))
    }
}

#[cfg(test)]
mod tests {
    use trainyard_diagnostic::Diagnostic;

    use super::*;

    #[test]
    fn a_remote_name_is_refused_with_the_feature_that_it_needs() {
        for (name, feature) in [
            ("s3://b/x.csv", "object-stores"),
            ("https://h/x", "object-stores"),
            ("hdfs://n:1/x", "hdfs"),
        ] {
            let refused = Storage::default()
                .stamp(name.as_ref())
                .expect_err("there are no stores");
            let refused: Diagnostic = Error::of(&refused).expect("it is ours").clone().into();
            let told = refused.render();
            assert!(
                told.contains(name) && told.contains(&format!("--features {feature}")),
                "{told}"
            );
        }
    }
}
