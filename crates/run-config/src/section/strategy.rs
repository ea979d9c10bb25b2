//! `[strategy]`: how training is distributed.

use trainyard_diagnostic::Section;

use crate::{PartitionerConfig, PayloadType, PlacementConfig, StrategyConfig, StrategyKind};

/// TensorFlow's least size of a piece (`tf.distribute.experimental.partitioners.MinSizePartitioner`), in bytes.
const MIN_SHARD_BYTES: u64 = 256 << 10;
/// Most pieces of a variable.
const SHARDS_MAX: u64 = 1_000_000;
/// Most steps that a task may read ahead.
const PIPELINE_DEPTH_MAX: u64 = 8;
/// Largest piece that can be asked for, in bytes.
const SHARD_BYTES_MAX: u64 = 1 << 40;

#[derive(Clone, Copy)]
enum Cut {
    Fixed,
    MinSize,
    MaxSize,
}

pub(crate) fn read(section: Option<Section<'_>>) -> Option<StrategyConfig> {
    let default = PartitionerConfig::MinSize { min_shard_bytes: MIN_SHARD_BYTES as usize, max_shards: None };
    let Some(section) = section else {
        return Some(StrategyConfig {
            kind: StrategyKind::ParameterServer,
            partitioner: default,
            placement: PlacementConfig::Greedy,
            chief_trains: true,
            pipeline_depth: 0,
            payload: PayloadType::Float32,
        });
    };
    // Everything is read before anything is given up, so that every mistake is told.
    let kind = choice(&section, "kind", "strategy", &[("parameter_server", StrategyKind::ParameterServer)]);
    let update = choice(&section, "update", "update", &[("async", ())]);
    let replication = choice(&section, "replication", "replication", &[("between_graph", ())]);
    let placements = [("greedy", PlacementConfig::Greedy), ("round_robin", PlacementConfig::RoundRobin)];
    let placement = choice(&section, "placement", "placement", &placements);
    let chief_trains = section.flag("chief_trains").unwrap_or(true);
    let pipeline_depth = section.integer("pipeline_depth", 0..=PIPELINE_DEPTH_MAX).unwrap_or(0) as usize;
    let payloads = [
        ("float32", PayloadType::Float32),
        ("bfloat16", PayloadType::Bfloat16),
        ("float16", PayloadType::Float16),
    ];
    let payload = choice(&section, "payload", "payload", &payloads);
    let partitioner = match section.section("partitioner") {
        Some(partitioner) => read_partitioner(partitioner),
        None => Some(default),
    };
    section.finish();
    update.and(replication)?;
    Some(StrategyConfig {
        kind: kind?,
        partitioner: partitioner?,
        placement: placement?,
        chief_trains,
        pipeline_depth,
        payload: payload?,
    })
}

/// Returns what the name in `key` stands for, the first that is known where it is not given.
fn choice<T: Copy>(section: &Section<'_>, key: &'static str, what: &str, known: &[(&str, T)]) -> Option<T> {
    match section.node(key) {
        Some(_) => section.choice(key, what, known),
        None => known.first().map(|(_, value)| *value),
    }
}

fn read_partitioner(section: Section<'_>) -> Option<PartitionerConfig> {
    if section.node("kind").is_none() {
        section.missing("kind", "\"min_size\"");
    }
    let known = [("fixed", Cut::Fixed), ("min_size", Cut::MinSize), ("max_size", Cut::MaxSize)];
    let Some(kind) = section.node("kind").and_then(|_| section.choice("kind", "partitioner", &known)) else {
        section.know(&["num_shards", "min_shard_bytes", "max_shard_bytes", "max_shards"]);
        section.finish();
        return None;
    };
    let required = |key: &'static str, most: u64, example: &str| {
        if section.node(key).is_none() {
            section.missing(key, example);
        }
        section.integer(key, 1..=most).map(|number| number as usize)
    };
    let max_shards = || section.integer("max_shards", 1..=SHARDS_MAX).map(|count| count as usize);
    let config = match kind {
        Cut::Fixed => {
            required("num_shards", SHARDS_MAX, "2").map(|num_shards| PartitionerConfig::Fixed { num_shards })
        }
        Cut::MinSize => {
            let bytes = section.integer("min_shard_bytes", 1..=SHARD_BYTES_MAX).unwrap_or(MIN_SHARD_BYTES);
            Some(PartitionerConfig::MinSize { min_shard_bytes: bytes as usize, max_shards: max_shards() })
        }
        Cut::MaxSize => {
            let max_shards = max_shards();
            required("max_shard_bytes", SHARD_BYTES_MAX, "16_777_216")
                .map(|max_shard_bytes| PartitionerConfig::MaxSize { max_shard_bytes, max_shards })
        }
    };
    section.finish();
    config
}
