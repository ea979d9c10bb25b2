//! Reads files through to find where their records are; no field is looked at.

use std::num::NonZeroU32;

use trainyard_storage::{Stamp, Storage};

use crate::file_stamp::{check, fingerprint, stamp, warn_small};
use crate::record::RecordReader;
use crate::source::open_records;
use crate::{Error, Options, RecordIndex, Schema};

/// Makes a [`RecordIndex`], as much of it as is asked for.
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
    /// Notes size and time of change of every file. The options say what the records are: files, format, compression
    /// and whether a header comes first. `batch_size` takes the place of theirs.
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

    /// Returns what is known so far.
    pub fn index(&self) -> &RecordIndex {
        &self.index
    }

    /// Returns a number that changes when a file does: made of names, sizes and times of change of all, in order.
    pub fn fingerprint(&self) -> u64 {
        fingerprint(&self.options.files, &self.stamps)
    }

    /// Checks that every file is as it was when the indexer was opened.
    ///
    /// # Errors
    /// [`Error::Changed`] with the first that is not, or one that is missing.
    pub fn check(&self) -> Result<(), Error> {
        let mut stamped = self.options.files.iter().zip(&self.stamps);
        stamped.try_for_each(|(file, stamp)| check(&self.storage, file, stamp))
    }

    /// Reads on until `runs` runs are known in all, or the index is complete.
    ///
    /// # Errors
    /// A file cannot be read, or has changed; or, at the end, there is no record in any. It must not be called again.
    pub fn advance(&mut self, runs: u64) -> Result<&RecordIndex, Error> {
        while !self.index.is_complete() && self.index.runs() < runs {
            let Some((file, reader)) = &mut self.reader else {
                self.open_next()?;
                continue;
            };
            let path = self.options.files[*file].as_path();
            // Up to the end of a run: how many there are is not asked for each record.
            let ended = loop {
                if !reader.next(path, false)? {
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
            let (reader, _) =
                open_records(&self.options, &self.storage, Some(&none), self.next_file)?;
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
