//! Source of records: the position in passes, files and records, and the interleaving of files.

use std::path::Path;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use trainyard_storage::Storage;

use crate::example::ExampleParser;
use crate::libsvm::{self, LibSvmParser};
use crate::parser::Parser;
use crate::record::Record;
use crate::record_reader::RecordReader;
use crate::row::RowParser;
use crate::text::{TextParser, header};
use crate::{Error, Format, Options, Schema, Sharding};

/// The records of this shard, pass by pass, and the parsers of their files.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) storage: Storage,
    pub(crate) started: bool,
    pub(crate) pass: u64,
    /// Records of this shard in all passes.
    pub(crate) records: u64,
    pub(crate) parsers: Vec<Option<Parser>>,
    order: Vec<usize>,
    next_file: usize,
    /// Files that are read in turn, a block of records from each.
    cycle: Vec<Option<(usize, RecordReader)>>,
    /// Number of open files in the cycle.
    open: usize,
    /// Place in the cycle of the current file.
    turn: usize,
    /// Number of records of the current block that were read.
    block: usize,
    /// Number of records of all shards in this pass so far.
    index: u64,
}

impl Source {
    /// Starts the pass.
    pub(crate) fn start(&mut self, options: &Options) {
        let files = 0..options.files.len();
        self.order = match options.sharding {
            Sharding::File => files
                .filter(|file| file % options.shard_count == options.shard_index)
                .collect(),
            Sharding::None | Sharding::Row => files.collect(),
        };
        if options.sharding == Sharding::None && options.shuffle_rows > 0 {
            let mut random = ChaCha8Rng::seed_from_u64(options.seed ^ 0xf11e);
            random.set_stream(
                self.pass
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .wrapping_add(options.shard_index as u64),
            );
            self.order.shuffle(&mut random);
        }
        (
            self.started,
            self.next_file,
            self.turn,
            self.block,
            self.index,
        ) = (true, 0, 0, 0, 0);
        self.cycle.clear();
        self.open = 0;
        // Places without a file are skipped, so more places than files make no difference.
        self.cycle.resize_with(
            options.interleave.cycle_length.min(self.order.len()),
            || None,
        );
        self.parsers.resize_with(options.files.len(), || None);
    }

    /// Moves to the next record of this shard. Returns `false` at the end of the pass, and before the first pass.
    pub(crate) fn next(&mut self, options: &Options, schema: &Schema) -> Result<bool, Error> {
        loop {
            if self.block == options.interleave.block_length {
                self.next_turn();
            }
            let Some(Some((file, reader))) = self.cycle.get_mut(self.turn) else {
                if !self.open_next(options, schema)? {
                    if self.open == 0 {
                        return Ok(false);
                    }
                    self.next_turn();
                }
                continue;
            };
            let mine = options.sharding != Sharding::Row
                || self.index % options.shard_count as u64 == options.shard_index as u64;
            if !reader.next(&options.files[*file], mine)? {
                self.cycle[self.turn] = None;
                self.open -= 1;
                self.next_turn();
                continue;
            }
            self.block += 1;
            self.index += 1;
            if mine {
                self.records += 1;
                return Ok(true);
            }
        }
    }

    /// Moves to the next place in the cycle.
    fn next_turn(&mut self) {
        (self.turn, self.block) = ((self.turn + 1) % self.cycle.len().max(1), 0);
    }

    /// Opens the next file at the current place in the cycle. Returns `false` after the last file.
    fn open_next(&mut self, options: &Options, schema: &Schema) -> Result<bool, Error> {
        let Some(&file) = self.order.get(self.next_file) else {
            return Ok(false);
        };
        self.next_file += 1;
        let parser = self.parsers[file].take();
        let (reader, parser) = open_file(options, &self.storage, schema, file, parser)?;
        self.parsers[file] = Some(parser);
        self.cycle[self.turn] = Some((file, reader));
        self.open += 1;
        Ok(true)
    }

    /// Returns the current record, and the parsers.
    pub(crate) fn record(&mut self) -> (Option<Record<'_>>, &mut [Option<Parser>]) {
        let reader = self.cycle.get(self.turn).and_then(Option::as_ref);
        (
            reader.map(|(_, reader)| reader.record(self.pass)),
            &mut self.parsers,
        )
    }

    /// Returns the wanted features that no record has held so far, if records name their features.
    pub(crate) fn unseen(&self) -> Vec<&str> {
        let mut parsers = self
            .parsers
            .iter()
            .flatten()
            .filter_map(|parser| match parser {
                Parser::Example(parser) => Some(parser),
                Parser::Text(_) | Parser::LibSvm(_) | Parser::Row(_) => None,
            });
        let Some(first) = parsers.next() else {
            return Vec::new();
        };
        let mut unseen: Vec<&str> = first.unseen().collect();
        for parser in parsers {
            let also: Vec<&str> = parser.unseen().collect();
            unseen.retain(|name| also.contains(name));
        }
        unseen
    }
}

/// Opens a file after its header, and a parser for its columns. A parser of TFRecord from an earlier file is reused.
pub(crate) fn open_file(
    options: &Options,
    storage: &Storage,
    schema: &Schema,
    number: usize,
    before: Option<Parser>,
) -> Result<(RecordReader, Parser), Error> {
    let (reader, columns) = open_records(options, storage, Some(schema), number)?;
    let parser = match before {
        Some(parser @ Parser::Example(_)) => parser,
        _ => open_parser(options, schema, number, columns.as_deref())?,
    };
    Ok((reader, parser))
}

/// Opens a file after its header, if it has one. Returns the columns that the file names.
pub(crate) fn open_records(
    options: &Options,
    storage: &Storage,
    schema: Option<&Schema>,
    number: usize,
) -> Result<(RecordReader, Option<Vec<String>>), Error> {
    let file = options.files[number].as_path();
    let mut reader = RecordReader::open(options, storage, schema, number)?;
    let columns = match (reader.columns(), has_header(options)) {
        (None, true) => Some(named(&mut reader, options, file)?),
        (columns, _) => columns,
    };
    Ok((reader, columns))
}

/// Returns whether each file names its columns, in a first line or in the schema of a Parquet file.
pub(crate) fn has_header(options: &Options) -> bool {
    match options.format {
        Format::Csv | Format::Tsv => options.columns.is_none(),
        Format::Parquet => true,
        Format::TfRecord | Format::LibSvm(_) => false,
    }
}

/// Returns the parser for a file with these columns, or with the columns of the options.
pub(crate) fn open_parser(
    options: &Options,
    schema: &Schema,
    number: usize,
    columns: Option<&[String]>,
) -> Result<Parser, Error> {
    let columns = columns.or(options.columns.as_deref()).unwrap_or_default();
    let file = || options.files.get(number).cloned().unwrap_or_default();
    let missing = &options.missing;
    let absent = |column| Error::Column {
        columns: schema.missing_in(columns, column),
        file: file(),
        known: columns.to_vec(),
    };
    Ok(match options.format {
        Format::Csv | Format::Tsv => {
            let parser = TextParser::new(schema, columns, options.format, options.trim, missing);
            Parser::Text(parser.map_err(absent)?)
        }
        Format::TfRecord => Parser::Example(ExampleParser::new(schema, missing)),
        Format::Parquet => Parser::Row(RowParser::new(schema, columns, missing).map_err(absent)?),
        Format::LibSvm(base) => Parser::LibSvm(LibSvmParser::new(schema, base, missing).map_err(
            |misfit| match misfit {
                libsvm::Misfit::Unknown(column) => {
                    let known = libsvm::COLUMNS.map(str::to_owned).to_vec();
                    Error::Column {
                        columns: schema.missing_in(&known, column),
                        file: file(),
                        known,
                    }
                }
                libsvm::Misfit::Kind { column, wanted } => Error::ColumnType {
                    column,
                    file: file(),
                    found: "any number of numbers".to_owned(),
                    wanted,
                },
            },
        )?),
    })
}

/// Reads the header of a text file.
fn named(reader: &mut RecordReader, options: &Options, file: &Path) -> Result<Vec<String>, Error> {
    if reader.next(file, true)? {
        Ok(header(reader.record(0).bytes, options.format, options.trim))
    } else {
        Err(Error::Empty {
            files: vec![file.to_owned()],
        })
    }
}
