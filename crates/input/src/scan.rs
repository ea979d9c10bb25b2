//! Every record of an input, in order, with columns kept as they stand: for programs that must say something of each record.

use trainyard_storage::Storage;

use crate::cells::{Bad, clear};
use crate::dataset::{BATCH_BYTES_MAX, bad_row};
use crate::parser::Parser;
use crate::record::RecordReader;
use crate::source::{open_parser, open_records};
use crate::table::CellParser;
use crate::{BadRow, Batch, Cell, Error, Field, FieldKind, Options, Position, Schema};

/// What a [`Scan`] says of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Scanned {
    /// What the record holds in each of the kept columns. Nothing where the record as a whole cannot be read.
    pub kept: Vec<Cell>,
    /// Why the record is not in the batch.
    pub bad: Option<BadRow>,
}

/// Reads the records of an input once, file after file. A bad record is told of, and reading goes on behind it.
#[derive(Debug)]
pub struct Scan {
    options: Options,
    storage: Storage,
    schema: Schema,
    /// What is read of a file that holds more: the columns of the schema and those that are kept.
    wanted: Schema,
    /// The kept columns.
    kept: Vec<String>,
    cells: CellParser,
    row: Vec<Cell>,
    file: Option<(RecordReader, Parser)>,
    next_file: usize,
    records: u64,
}

impl Scan {
    /// Checks that every file can be opened and holds the columns, and starts at the first record. Of the options, those
    /// that divide, repeat, shuffle or leave out records have no meaning here.
    ///
    /// # Errors
    /// A file is missing, or a column is; or a number of the options is out of range.
    pub fn open(options: Options, schema: Schema, kept: Vec<String>) -> Result<Self, Error> {
        options.check()?;
        let mut wanted = schema.clone();
        let is_wanted = |name: &String| schema.fields.iter().any(|field| field.name == *name);
        let others = kept.iter().filter(|name| !is_wanted(name));
        wanted.fields.extend(others.map(|name| Field {
            name: name.clone(),
            kind: FieldKind::BYTES,
        }));
        let mut scan = Self {
            options,
            storage: Storage::default(),
            schema,
            wanted,
            kept,
            cells: CellParser::default(),
            row: Vec::new(),
            file: None,
            next_file: 0,
            records: 0,
        };
        for file in 0..scan.options.files.len() {
            scan.open_file(file)?;
        }
        Ok(scan)
    }

    /// Reads the next records, as many as a batch has: the good ones into `batch`, in order, and of each what is said of it
    /// into `records`. `false` at the end.
    ///
    /// # Errors
    /// A file cannot be read, holds no wanted column, or all of them together hold no record.
    pub fn read(&mut self, batch: &mut Batch, records: &mut Vec<Scanned>) -> Result<bool, Error> {
        let position = Position {
            pass: 0,
            shard: 0,
            batch: 0,
        };
        clear(batch, &self.schema, self.options.batch_size, position);
        records.clear();
        let mut bytes = 0;
        while records.len() < self.options.batch_size
            && let Some((length, scanned)) = self.next(batch)?
        {
            records.push(scanned);
            bytes += length;
            if bytes > BATCH_BYTES_MAX {
                return Err(Error::Batch {
                    rows: records.len(),
                    bytes,
                    most: BATCH_BYTES_MAX,
                });
            }
        }
        self.records += records.len() as u64;
        if self.records == 0 {
            return Err(Error::Empty {
                files: self.options.files.clone(),
            });
        }
        Ok(!records.is_empty())
    }

    /// Reads one record, and returns how long it is.
    fn next(&mut self, batch: &mut Batch) -> Result<Option<(u64, Scanned)>, Error> {
        loop {
            let Some((reader, parser)) = &mut self.file else {
                if self.next_file == self.options.files.len() {
                    return Ok(None);
                }
                self.file = Some(self.open_file(self.next_file)?);
                self.next_file += 1;
                continue;
            };
            if !reader.next(&self.options.files[self.next_file - 1], true)? {
                self.file = None;
                continue;
            }
            let record = reader.record(0);
            let outcome = parser.append(record, &self.schema, batch);
            let mut kept = Vec::new();
            if !self.kept.is_empty()
                && self
                    .cells
                    .cells(record, &self.options, &mut self.row)
                    .is_ok()
            {
                let columns = self.cells.columns();
                let cell = |name| columns.iter().position(|column| column == name);
                kept.extend(self.kept.iter().map(|name| match cell(name) {
                    Some(place) => self.row[place].clone(),
                    // A tf.train.Example names its features itself.
                    None => Cell::default(),
                }));
            }
            let told = |bad: Bad| bad_row(&self.options, &self.schema, record.place, bad);
            let bad = outcome.err().map(told);
            return Ok(Some((record.bytes.len() as u64, Scanned { kept, bad })));
        }
    }

    fn open_file(&mut self, number: usize) -> Result<(RecordReader, Parser), Error> {
        let (reader, named) =
            open_records(&self.options, &self.storage, Some(&self.wanted), number)?;
        // Of the kept columns, too, one that is not there is named.
        open_parser(&self.options, &self.wanted, number, named.as_deref())?;
        let parser = open_parser(&self.options, &self.schema, number, named.as_deref())?;
        self.cells.enter(named, &self.options);
        Ok((reader, parser))
    }
}
