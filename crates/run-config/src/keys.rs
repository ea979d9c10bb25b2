//! The keys of a job file, as one tree: the documentation and the schema for editors come from it.

use trainyard_diagnostic::{Key, Preset, Takes, section};

use crate::section::evaluation::evaluation_keys;
use crate::section::exporter::ExporterKeys;
use crate::section::input::InputKeys;
use crate::section::strategy::StrategyKeys;
use crate::{EvalSpec, ParameterServersConfig, PublishConfig, RunConfig, TrainSpec};

section! {
    /// Keys at the top of a job file.
    #[derive(Debug)]
    pub(crate) struct TopKeys {
        /// folder of checkpoints, evaluations and exports. A relative path is relative to the working folder. On a cluster,
        /// a folder that all hosts share, or a path in a bucket: `s3://bucket/path`, `gs://bucket/path`, or in HDFS:
        /// `hdfs://host:port/path` ([below](#a-model-folder-in-a-bucket))
        model_dir: Option<String> = nonempty_path().required_or_invalid("\"runs/census\"");
        /// if `model_dir` is in a bucket: folder on this machine for the logs of servers, dead letters, and files that are
        /// still being written
        local_dir: Option<String> = path().optional(
            "`/var/tmp/trainyard-s3-bucket+path`. A `/` is written as `+`. Every other character except letters, digits, \
             `.`, `-` and `_` is written as `%` and hexadecimal digits, so two paths never share a folder"
        );
    }
}

/// The default of a table that a job file may lack.
const OF_ITS_KEYS: Preset = Preset::Words("the defaults of its keys");

/// Returns the keys of a job file.
pub fn keys() -> Vec<Key> {
    let mut keys = TopKeys::keys();
    keys.extend([
        table(
            "run",
            OF_ITS_KEYS,
            Takes::Table(RunConfig::keys()),
            "operation of the run",
        ),
        table(
            "input",
            Preset::Required,
            Takes::Table(InputKeys::keys()),
            "input of training and evaluation",
        ),
        table(
            "feature",
            Preset::Words("required, but for baselines and custom models"),
            Takes::TablesByKind(crate::section::feature::kinds()),
            "feature columns",
        ),
        table(
            "model",
            Preset::Required,
            Takes::Table(crate::section::model::keys()),
            "the model",
        ),
        table(
            "train",
            OF_ITS_KEYS,
            Takes::Table(TrainSpec::keys()),
            "end of training",
        ),
        table(
            "eval",
            OF_ITS_KEYS,
            Takes::Table(EvalSpec::keys()),
            "schedule and kind of evaluations",
        ),
        table(
            "evaluation",
            OF_ITS_KEYS,
            Takes::Tables(evaluation_keys()),
            "further evaluations",
        ),
        table(
            "exporter",
            OF_ITS_KEYS,
            Takes::Tables(ExporterKeys::keys()),
            "exports after evaluations",
        ),
        table(
            "strategy",
            OF_ITS_KEYS,
            Takes::Table(StrategyKeys::keys()),
            "distribution of training",
        ),
        table(
            "parameter_servers",
            OF_ITS_KEYS,
            Takes::Table(ParameterServersConfig::keys()),
            "durability, memory and guard of parameter servers",
        ),
        table(
            "publish",
            OF_ITS_KEYS,
            Takes::Table(PublishConfig::keys()),
            "publication of the values of a running job",
        ),
    ]);
    keys
}

fn table(name: &'static str, preset: Preset, takes: Takes, meaning: &'static str) -> Key {
    Key {
        name,
        takes,
        preset,
        meaning,
    }
}
