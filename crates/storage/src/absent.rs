//! Stub for programs that are built without the feature `object-stores`: every access to a remote file is an error.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::{Entry, Error, Location, Stamp};

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

fn refused(name: &Path) -> Error {
    Location::parse(&name.to_string_lossy())
        .map_or_else(|error| error, |location| location.not_built())
}

impl Clients {
    pub(crate) fn open(&self, location: Location) -> Result<ReadAhead, Error> {
        Err(location.not_built())
    }

    pub(crate) fn stamp(&self, location: Location) -> Result<Stamp, Error> {
        Err(location.not_built())
    }

    pub(crate) fn list(&self, location: &Location) -> Result<Vec<String>, Error> {
        Err(location.not_built())
    }

    pub(crate) fn put(&self, name: &Path, _bytes: Bytes) -> Result<(), Error> {
        Err(refused(name))
    }

    pub(crate) fn put_if_absent(&self, name: &Path, _bytes: Bytes) -> Result<bool, Error> {
        Err(refused(name))
    }

    pub(crate) fn upload(
        &self,
        _file: std::fs::File,
        _bytes: u64,
        name: &Path,
    ) -> std::io::Result<()> {
        Err(refused(name).into())
    }

    pub(crate) fn read(&self, name: &Path, _bytes_max: u64) -> Result<Option<Bytes>, Error> {
        Err(refused(name))
    }

    pub(crate) fn entries(&self, folder: &Path) -> Result<Vec<Entry>, Error> {
        Err(refused(folder))
    }

    pub(crate) fn remove_all(&self, name: &Path, _first: Option<&str>) -> Result<(), Error> {
        Err(refused(name))
    }
}
