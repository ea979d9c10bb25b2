//! Model directory: its claim, its leader, the state of its job and its small files, in a folder or in a bucket.
//!
//! [`ModelDir`] is the type that knows whether a directory is a folder of a file system or a bucket, that is, a prefix in
//! an object store. A folder has locks, renames and appends. A bucket has none of them, so it has numbered objects
//! instead, each with one writer.

mod bucket;
mod claim;
pub mod durable;
mod end_request;
mod error;
mod evaluator_mark;
mod files;
mod interval;
mod job_record;
mod job_state;
mod learning_rate;
mod model_dir;
mod own_files;
mod prepared;
mod records;
mod run_lock;

pub use bucket::{Bucket, FILE_BYTES_MAX};
pub use claim::{
    Leader, claim_above, cluster_id, known_cluster_id, other_cluster_id, refuse_if_deposed,
};
pub use end_request::EndRequest;
pub use error::{Error, FileState};
pub use evaluator_mark::{Evaluated, EvaluatorMark};
pub use files::{
    absolute, append, create_folder, encode, names, read, read_json, read_tail, remove, send, show,
    write_atomically, write_result,
};
pub use interval::Interval;
pub use job_record::JobRecord;
pub use job_state::{JobPhase, JobState};
pub use learning_rate::{Reduction, Reductions};
pub use model_dir::ModelDir;
pub use own_files::{JOB_AS_RUN, is_of_run, refuse_unless_own};
pub use prepared::{note_prepared, prepared_epoch};
pub use run_lock::{RunKind, RunLock, Runner};
