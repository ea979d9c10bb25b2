//! Where reading stands: pass, file, record.

use std::path::Path;

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use crate::example::ExampleParser;
use crate::parser::Parser;
use crate::record::{Record, RecordReader};
use crate::text::{TextParser, header};
use crate::{Error, Format, Options, Schema, Sharding};

/// The records of this shard, pass by pass, and the parsers of the files that they come from.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) started: bool,
    pub(crate) pass: u64,
    /// Records of this shard in all passes.
    pub(crate) records: u64,
    pub(crate) parsers: Vec<Option<Parser>>,
    order: Vec<usize>,
    next_file: usize,
    reader: Option<(usize, RecordReader)>,
    /// Records seen in this pass, of all shards.
    index: u64,
}

impl Source {
    /// Starts the pass.
    pub(crate) fn start(&mut self, options: &Options) {
        let files = 0..options.files.len();
        self.order = match options.sharding {
            Sharding::File => {
                files.filter(|file| file % options.shard_count == options.shard_index).collect()
            }
            Sharding::None | Sharding::Row => files.collect(),
        };
        if options.sharding == Sharding::None && options.shuffle_rows > 0 {
            let mut random = ChaCha8Rng::seed_from_u64(options.seed ^ 0xf11e);
            random.set_stream(
                self.pass.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(options.shard_index as u64),
            );
            self.order.shuffle(&mut random);
        }
        (self.started, self.next_file, self.reader, self.index) = (true, 0, None, 0);
        self.parsers.resize_with(options.files.len(), || None);
    }

    /// Goes to the next record of this shard; `false` at the end of the pass, and before the first.
    pub(crate) fn next(&mut self, options: &Options, schema: &Schema) -> Result<bool, Error> {
        loop {
            let Some((file, reader)) = &mut self.reader else {
                let Some(&file) = self.order.get(self.next_file) else { return Ok(false) };
                self.next_file += 1;
                let parser = self.parsers[file].take();
                let (reader, parser) = open_file(options, schema, file, parser)?;
                self.parsers[file] = Some(parser);
                self.reader = Some((file, reader));
                continue;
            };
            let mine = options.sharding != Sharding::Row
                || self.index % options.shard_count as u64 == options.shard_index as u64;
            if !reader.next(&options.files[*file], mine)? {
                self.reader = None;
                continue;
            }
            self.index += 1;
            if mine {
                self.records += 1;
                return Ok(true);
            }
        }
    }

    /// Returns the record, and the parsers.
    pub(crate) fn record(&mut self) -> (Option<Record<'_>>, &mut [Option<Parser>]) {
        (self.reader.as_ref().map(|(_, reader)| reader.record(self.pass)), &mut self.parsers)
    }

    /// Returns the wanted features that no record held so far, where records name their features.
    pub(crate) fn unseen(&self) -> Vec<&str> {
        let mut parsers = self.parsers.iter().flatten().filter_map(|parser| match parser {
            Parser::Example(parser) => Some(parser),
            Parser::Text(_) => None,
        });
        let Some(first) = parsers.next() else { return Vec::new() };
        let mut unseen: Vec<&str> = first.unseen().collect();
        for parser in parsers {
            let also: Vec<&str> = parser.unseen().collect();
            unseen.retain(|name| also.contains(name));
        }
        unseen
    }
}

/// Opens a file past its header, and the parser for its columns. A parser of TFRecord from before goes on.
pub(crate) fn open_file(
    options: &Options,
    schema: &Schema,
    number: usize,
    before: Option<Parser>,
) -> Result<(RecordReader, Parser), Error> {
    let file = options.files[number].as_path();
    let mut reader = RecordReader::open(file, number, options.format, options.compression)?;
    if options.format == Format::TfRecord {
        let parser = before.unwrap_or_else(|| Parser::Example(ExampleParser::new(schema, &options.missing)));
        return Ok((reader, parser));
    }
    let columns = match &options.columns {
        Some(columns) => columns.clone(),
        None => named(&mut reader, options, file)?,
    };
    let parser = TextParser::new(schema, &columns, options.format, options.trim, &options.missing);
    let parser = parser.map_err(|column| Error::Column { column, file: file.to_owned(), known: columns })?;
    Ok((reader, Parser::Text(parser)))
}

/// Reads the header.
fn named(reader: &mut RecordReader, options: &Options, file: &Path) -> Result<Vec<String>, Error> {
    match reader.next(file, true)? {
        true => Ok(header(reader.record(0).bytes, options.format, options.trim)),
        false => Err(Error::Empty { files: vec![file.to_owned()] }),
    }
}
