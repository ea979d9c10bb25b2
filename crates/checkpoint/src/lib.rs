//! Checkpoints in a model directory: layout on disk, manifest, writer, reader and retention.
//!
//! One folder per step, `model.ckpt-<step>`, holds one safetensors file per parameter server and a manifest that
//! names every file, tensor, size and checksum. The folder appears by one rename, so it is complete or absent.
//! An object store cannot rename. There, every attempt has its own folder, and the manifest, written last, makes it a
//! checkpoint. Readers address variables and rows, never files, so the number of servers may change between writing and
//! reading.

mod bases;
mod committed;
mod error;
mod file_purpose;
mod flushing;
mod folder_name;
mod manifest;
mod manifest_file;
mod mapped_values;
mod origin;
mod packed_runs;
mod publication;
mod quarantine;
mod reader;
mod retention;
mod table;
mod tensor_files;
mod warm_start;
mod writer;

pub use bases::Bases;
pub use committed::{Found, claim_epoch, claim_epoch_as, is_committed, list, of_step};
pub use error::Error;
pub use file_purpose::FilePurpose;
pub use folder_name::{InvalidName, begun_folder, committed_folder, folder_name};
pub use manifest::{
    Dtype, HeldRows, Manifest, Others, PositionRecord, ShardRecord, TensorRecord, VersionUnit,
    VersionUnits, differences, misfit,
};
pub use mapped_values::MappedValues;
pub use origin::{Origin, OriginLots};
pub use publication::{
    Changes, CutKind, Publication, PublishedCut, continues, kind_of, published_cuts,
    remove_cuts_after, snapshot_names, stand_for, stands_for,
};
pub use quarantine::{latest, latest_good, set_aside};
pub use reader::{Checkpoint, PartRead};
pub use retention::{Keep, Pin, pin, remove_after, retain, sweep, sweep_before};
pub use table::{Lots, OnLot, TableIncrement, TableSource, TableView};
pub use tensor_files::TensorFiles;
pub use warm_start::WarmStart;
pub use writer::{
    HeldView, InMemory, OnRows, OtherRows, ShardState, SliceSource, SliceView, abandon, begin,
    commit, read_back, room_needed, write_shard,
};
