//! Source of records: the position in passes, files and records, and the interleaving of files.

use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use trainyard_storage::Storage;

use crate::parser::Parser;
use crate::record::Record;
use crate::record_format::Want;
use crate::record_reader::RecordReader;
use crate::{Error, Options, Schema, Sharding};

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
            Sharding::None | Sharding::Row | Sharding::Dynamic => files.collect(),
        };
        let reads_all = matches!(options.sharding, Sharding::None | Sharding::Dynamic);
        if reads_all && options.shuffle_rows > 0 {
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
            let want = if mine { Want::Content } else { Want::Place };
            if !reader.next(&options.files[*file], want)? {
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
        let (reader, parser) = Parser::open(options, &self.storage, schema, file, parser)?;
        self.parsers[file] = Some(parser);
        self.cycle[self.turn] = Some((file, reader));
        self.open += 1;
        Ok(true)
    }

    /// Returns the current record.
    pub(crate) fn record(&self) -> Option<Record<'_>> {
        let reader = self.cycle.get(self.turn).and_then(Option::as_ref);
        reader.map(|(_, reader)| reader.record(self.pass))
    }

    /// Returns the current record, and the parsers of all files.
    pub(crate) fn record_and_parsers(&mut self) -> (Option<Record<'_>>, &mut [Option<Parser>]) {
        let reader = self.cycle.get(self.turn).and_then(Option::as_ref);
        let record = reader.map(|(_, reader)| reader.record(self.pass));
        (record, &mut self.parsers)
    }

    /// Returns the wanted features that no record has held so far, if records name their features.
    pub(crate) fn unseen(&self) -> Vec<&str> {
        let parsers = self.parsers.iter().flatten();
        let mut parsers = parsers.filter(|parser| parser.serves_every_file());
        let Some(first) = parsers.next() else {
            return Vec::new();
        };
        let mut unseen = first.unseen();
        for parser in parsers {
            let also = parser.unseen();
            unseen.retain(|name| also.contains(name));
        }
        unseen
    }
}
