//! Scan of an input: every record in order, with chosen columns unparsed. It serves programs that write a result for
//! each record.

use trainyard_storage::Storage;

use crate::batch_reader::{BATCH_BYTES_MAX, bad_row};
use crate::cell_parser::CellParser;
use crate::cells::{Bad, clear};
use crate::parser::Parser;
use crate::record_format::Want;
use crate::record_reader::RecordReader;
use crate::{BadRow, Batch, Cell, Error, Field, FieldKind, Gaps, Options, Position, Schema};

/// A record as a [`Scan`] reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scanned {
    /// Cells of the kept columns. Empty if the record as a whole cannot be read.
    pub kept: Vec<Cell>,
    /// The reason why the record is not in the batch; absent = it is in the batch.
    pub bad: Option<BadRow>,
}

/// Reader of all records of an input, once, file after file. It reports a bad record and continues with the next one.
#[derive(Debug)]
pub struct Scan {
    options: Options,
    storage: Storage,
    schema: Schema,
    /// Columns to read from files of a columnar format: the columns of the schema and the kept columns.
    wanted: Schema,
    /// Names of the kept columns.
    kept: Vec<String>,
    cells: CellParser,
    row: Vec<Cell>,
    file: Option<(RecordReader, Parser)>,
    next_file: usize,
    records: u64,
}

impl Scan {
    /// Opens a scan at the first record, and checks that every file can be opened and holds the columns. Options that
    /// divide, repeat, shuffle or skip records have no effect.
    ///
    /// # Errors
    /// A file or a column is missing, or a number of the options is out of range.
    pub fn open(options: Options, schema: Schema, kept: Vec<String>) -> Result<Self, Error> {
        options.check()?;
        let mut wanted = schema.clone();
        let is_wanted = |name: &String| schema.fields.iter().any(|field| field.name == *name);
        let others = kept.iter().filter(|name| !is_wanted(name));
        wanted.kept = others.clone().cloned().collect();
        wanted.kept_beside = kept
            .iter()
            .filter(|name| is_wanted(name))
            .cloned()
            .collect();
        wanted.fields.extend(others.map(|name| Field {
            name: name.clone(),
            kind: FieldKind::BYTES,
            gaps: Gaps::LeftOut,
        }));
        let mut scan = Self {
            options,
            storage: Storage::default(),
            schema,
            wanted,
            kept,
            cells: CellParser::keeping_blanks(),
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

    /// Reads the next records, at most one batch. The good records go into `batch`, in order, and `records` gets an
    /// entry for every record. Returns `false` at the end.
    ///
    /// # Errors
    /// A file cannot be read, a file lacks a wanted column, or no file holds a record.
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

    /// Reads one record. Returns its length in bytes, and the record.
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
            if !reader.next(&self.options.files[self.next_file - 1], Want::Content)? {
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
                let cells = &self.cells;
                kept.extend(self.kept.iter().map(|name| match cells.find(name) {
                    Some(place) => self.row[place].clone(),
                    // No tf.train.Example so far had a feature of this name.
                    None => Cell::default(),
                }));
            }
            let told = |bad: Bad| bad_row(&self.options, &self.schema, record.place, bad);
            let bad = outcome.err().map(told);
            return Ok(Some((record.content.len() as u64, Scanned { kept, bad })));
        }
    }

    fn open_file(&mut self, number: usize) -> Result<(RecordReader, Parser), Error> {
        let (reader, named) = RecordReader::open_after_header(
            &self.options,
            &self.storage,
            Some(&self.wanted),
            number,
        )?;
        // This reports a missing kept column, too.
        Parser::new(&self.options, &self.wanted, number, named.as_deref())?;
        let parser = Parser::new(&self.options, &self.schema, number, named.as_deref())?;
        self.cells.enter(named, &self.options);
        Ok((reader, parser))
    }
}
