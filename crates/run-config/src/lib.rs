//! The job file: `RunConfig`, `TrainSpec`, `EvalSpec`, input, features, model and strategy of one training run.
//!
//! A file becomes a [`Job`] only if all of it is valid. Otherwise all mistakes are reported together, each with its
//! line, the rule that it breaks, and the nearest valid name.

mod agreement;
mod analysis;
mod as_run;
mod durability;
mod elastic;
mod feature;
mod files;
mod foreign_names;
mod job;
mod keys;
mod limit;
mod local_dir;
mod metric;
mod model;
mod own_files;
mod params;
mod quantile;
mod reader;
mod schema;
mod section;
mod without_effect;

pub use agreement::Agreement;
pub use analysis::{Analysis, AnalysisRule, BoundaryPurpose};
pub use feature::*;
pub use files::{
    Ambiguous, FileIdentity, ambiguous_files, expand_files, files_in_both, identity, resolve_files,
    resolve_path,
};
pub use foreign_names::{FOREIGN_NAMES, ForeignName};
pub use job::*;
pub use keys::keys;
pub use local_dir::default_logs_dir;
pub use model::*;
pub use params::{ParamError, Params};
pub use quantile::{
    CENTER, CENTER_MAX, CENTER_SQUARE, OutputDistribution, QuantileMap, Rational, SHARE_MIN,
    Segment, Step, TAIL, TAIL_BEGIN,
};
pub use schema::schema;
pub use section::eval::EvalSpec;
pub use section::evaluation::EvaluationConfig;
pub use section::exporter::{ExportForm, ExportFormat, ExporterConfig, ExporterKind};
pub use section::input::{InputConfig, InputPart};
pub use section::parameter_servers::{GuardSection, ParameterServersConfig};
pub use section::publish::PublishConfig;
pub use section::run::RunConfig;
pub use section::strategy::{Replication, StrategyConfig, StrategyKind, UpdateSection};
pub use section::train::{
    EarlyStoppingConfig, Improvement, ReduceOnPlateauConfig, TrainSpec, WarmStartConfig,
};
pub use trainyard_input_options::{
    BadRows, Compression, Decimal, Format, IndexBase, MissingTexts, NumberStyle, Sharding,
    TextEncoding, TextStyle, TimeUnit,
};
pub use trainyard_optimizer::{Guard, Nonfinite, Update};
pub use trainyard_tensor::Encoding;
pub use trainyard_variable::{Partitioner, Placement};
pub use trainyard_write_ahead_log::Durability;
