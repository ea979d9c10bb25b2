//! Checkpoints: layout on disk, manifest, writer, reader and retention.
//!
//! One folder per step, `model.ckpt-<step>`, holds one safetensors file per parameter server and a manifest that
//! names every file, tensor, size and checksum. The folder appears by one rename, so it is complete or absent.
//! An object store cannot rename. There, every attempt has its own folder, and the manifest, written last, makes it a
//! checkpoint. Readers address variables and rows, never files, so the number of servers may change between writing and
//! reading.

mod bases;
mod bucket;
mod claim;
mod durable;
mod error;
mod evaluator_mark;
mod files;
mod flushing;
mod job_record;
mod job_state;
mod manifest;
mod manifest_file;
mod model_dir;
mod origin;
mod quarantine;
mod reader;
mod records;
mod retention;
mod run_lock;
mod table;
mod tensor_files;
mod warm_start;
mod writer;

pub use bases::Bases;
pub use claim::{Leader, claim_epoch, claim_epoch_as, cluster_id};
pub use error::Error;
pub use evaluator_mark::{Evaluated, EvaluatorMark};
pub use files::{absolute, encode, names, read, remove, send, write_atomically};
pub use job_record::JobRecord;
pub use job_state::{JobPhase, JobState};
pub use manifest::{
    Dtype, HeldRows, Manifest, Others, PositionRecord, ShardRecord, TensorRecord, differences,
    misfit,
};
pub use model_dir::{Found, is_committed, known_cluster_id, list, note_prepared, prepared_epoch};
pub use origin::{Origin, OriginLots};
pub use quarantine::{latest, latest_good, set_aside};
pub use reader::{Checkpoint, PartRead};
pub use retention::{Keep, Pin, pin, remove_after, retain, sweep, sweep_before};
pub use run_lock::{RunLock, Runner};
pub use table::{Lots, OnLot, TableIncrement, TableSource, TableView};
pub use tensor_files::TensorFiles;
pub use warm_start::WarmStart;
pub use writer::{
    HeldView, InMemory, OnRows, OtherRows, ShardState, SliceSource, SliceView, abandon, begin,
    commit, read_back, write_shard,
};
