//! Input pipelines: files become batches of columns, on separate threads.
//!
//! The steps have the meaning that `tf.data` gives them: files -> interleave -> records -> shard -> shuffle -> repeat
//! -> batch -> prefetch. The same options give the same batches, so a [`Position`] identifies a batch.
//!
//! With static sharding, each worker reads a fixed share of the input through a [`Dataset`]. With dynamic sharding, an
//! [`Indexer`] finds the records, a [`ShardPlanner`] groups them into [`DataShard`]s, and a [`ShardReader`] reads the
//! batches of any data shard. Both are one reader of batches, with two orders of records.
//!
//! [`NamedColumns`] makes batches of values that a caller names, for predictions on request.

mod batch;
mod batch_reader;
mod block;
mod cell_parser;
mod cells;
mod column_names;
#[cfg(feature = "parquet")]
mod columnar;
mod compression;
mod data_shard;
mod dataset;
mod dead_letter;
mod encoding;
mod error;
mod file_range;
mod file_stamp;
mod formats;
mod indexer;
mod inline_records;
mod layout;
mod missing;
mod named_columns;
mod number;
mod number_style;
mod options;
mod other_content;
mod output;
mod parser;
mod permutation;
mod prefetch;
mod record;
mod record_fetcher;
mod record_format;
mod record_index;
mod record_reader;
mod record_unit;
mod row;
mod rule;
mod sample_check;
mod scan;
mod schema;
mod shard_planner;
mod shard_reader;
mod shuffle;
mod source;
mod table;
mod time_columns;
mod time_range;

pub use batch::{Batch, Bytes, Cells, Column, Position};
pub use batch_reader::Statistics;
pub use data_shard::DataShard;
pub use dataset::Dataset;
pub use error::{BadRow, Error};
pub use file_range::FileRange;
pub use formats::format_of_extension;
pub use indexer::Indexer;
pub use inline_records::{Fault, Header, InlineRecords};
pub use layout::{Cell, ColumnKind, ColumnLayout, ColumnType, Layout, Meaning, TypeKind, Value};
pub use missing::{Missing, MissingValues};
pub use named_columns::{Given, NamedColumns, Unfinished};
pub use number_style::{PlainNumber, plain_number};
pub use options::{Interleave, Options};
pub use output::CompressedFile;
pub use prefetch::{Batches, Prefetch, PrefetchError};
pub use record_fetcher::RecordFetcher;
pub use record_format::Kept;
pub use record_index::RecordIndex;
pub use record_unit::RecordUnit;
pub use row::Ticks;
pub use rule::RowRule;
pub use sample_check::{Alike, Checked, check, check_columns};
pub use scan::{Scan, Scanned};
pub use schema::{Field, FieldKind, Fraction, Gaps, Schema};
pub use shard_planner::{Answer, PlannedBatch, ShardPlanner};
pub use shard_reader::{Direction, ShardReader};
pub use table::{
    Absent, ColumnProfile, Numbers, Profile, RowCopier, TableReader, TableWriter, column_types,
    copy_rows,
};
pub use time_columns::{COMPARED_AT_START_MAX, TimeColumns, compare_times, has_values};
pub use trainyard_input_options::{
    BadRows, Compression, Decimal, Format, IndexBase, MissingTexts, NumberStyle, Sharding,
    TextEncoding, TextStyle, TimeUnit,
};
