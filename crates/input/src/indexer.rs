//! Indexer: scans files for the locations of their records. It parses no fields.

use std::num::NonZeroU32;

use trainyard_storage::{Stamp, Storage};

use crate::file_stamp::{check, fingerprint, stamp, warn_small};
use crate::record_format::Want;
use crate::record_reader::RecordReader;
use crate::{Error, Options, RecordIndex, Schema};

/// Builder of a [`RecordIndex`], incremental: it scans as far as the caller requests.
#[derive(Debug)]
pub struct Indexer {
    options: Options,
    storage: Storage,
    stamps: Vec<Stamp>,
    index: RecordIndex,
    next_file: usize,
    reader: Option<(usize, RecordReader)>,
}

impl Indexer {
    /// Records the size and time of change of every file. Of the options, files, format, compression and header are
    /// used;
    /// `batch_size` replaces their batch size.
    ///
    /// # Errors
    /// A file is missing.
    pub fn open(options: Options, batch_size: NonZeroU32) -> Result<Self, Error> {
        let storage = Storage::default();
        let stamps = options
            .files
            .iter()
            .map(|file| stamp(&storage, file))
            .collect::<Result<Vec<_>, _>>()?;
        warn_small(&stamps);
        let index = RecordIndex::new(batch_size);
        Ok(Self {
            storage,
            stamps,
            index,
            next_file: 0,
            reader: None,
            options,
        })
    }

    /// Returns the index as far as it is known.
    pub fn index(&self) -> &RecordIndex {
        &self.index
    }

    /// Returns a fingerprint of the names, sizes and times of change of all files, in order. It changes when a file
    /// changes.
    pub fn fingerprint(&self) -> u64 {
        fingerprint(&self.options.files, &self.stamps)
    }

    /// Checks that no file has changed since the indexer was opened.
    ///
    /// # Errors
    /// [`Error::Changed`] names the first file that has changed. A missing file is an error, too.
    pub fn check(&self) -> Result<(), Error> {
        let mut stamped = self.options.files.iter().zip(&self.stamps);
        stamped.try_for_each(|(file, stamp)| check(&self.storage, file, stamp))
    }

    /// Scans until `runs` runs are known in total, or the index is complete.
    ///
    /// # Errors
    /// A file cannot be read or has changed, or no file holds a record. After an error, it must not be called again.
    pub fn advance(&mut self, runs: u64) -> Result<&RecordIndex, Error> {
        while !self.index.is_complete() && self.index.runs() < runs {
            let Some((file, reader)) = &mut self.reader else {
                self.open_next()?;
                continue;
            };
            let path = self.options.files[*file].as_path();
            // The loop ends at the end of a run, so the number of runs is not computed for each record.
            let ended = loop {
                if !reader.next(path, Want::Place)? {
                    break true;
                }
                let place = reader.place();
                self.index.add(place.line, place.offset, reader.end());
                if self
                    .index
                    .rows()
                    .is_multiple_of(u64::from(self.index.batch_size().get()))
                {
                    break false;
                }
            };
            if ended {
                check(&self.storage, path, &self.stamps[*file])?;
                self.reader = None;
            }
        }
        Ok(&self.index)
    }

    fn open_next(&mut self) -> Result<(), Error> {
        if self.next_file < self.options.files.len() {
            let none = Schema::default();
            let (reader, _) = RecordReader::open_after_header(
                &self.options,
                &self.storage,
                Some(&none),
                self.next_file,
            )?;
            self.index.begin_file();
            self.reader = Some((self.next_file, reader));
            self.next_file += 1;
            return Ok(());
        }
        if self.index.rows() == 0 {
            return Err(Error::Empty {
                files: self.options.files.clone(),
            });
        }
        self.index.complete();
        Ok(())
    }
}
