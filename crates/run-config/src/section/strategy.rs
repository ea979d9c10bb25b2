//! `[strategy]`: how training is distributed.

use trainyard_diagnostic::{Code, Section};

use crate::{PartitionerConfig, PlacementConfig, StrategyConfig, StrategyKind};

const MIN_SHARD_BYTES: u64 = 256 << 10;

pub(crate) fn read(section: Option<Section<'_>>) -> Option<StrategyConfig> {
    let default = PartitionerConfig::MinSize { min_shard_bytes: MIN_SHARD_BYTES as usize, max_shards: None };
    let mut strategy = StrategyConfig {
        kind: StrategyKind::ParameterServer,
        partitioner: default,
        placement: PlacementConfig::Greedy,
        chief_trains: true,
    };
    let Some(section) = section else { return Some(strategy) };
    if section.node("kind").is_some() {
        section.choice("kind", "strategy", &[("parameter_server", StrategyKind::ParameterServer)])?;
    }
    if section.node("update").is_some() {
        section.choice("update", "update", &[("async", ())])?;
    }
    if section.node("replication").is_some() {
        section.choice("replication", "replication", &[("between_graph", ())])?;
    }
    if section.node("placement").is_some() {
        let known = [("round_robin", PlacementConfig::RoundRobin), ("greedy", PlacementConfig::Greedy)];
        strategy.placement = section.choice("placement", "placement", &known)?;
    }
    strategy.chief_trains = section.flag("chief_trains").unwrap_or(true);
    if let Some(partitioner) = section.section("partitioner") {
        strategy.partitioner = read_partitioner(partitioner)?;
    }
    section.finish();
    Some(strategy)
}

fn read_partitioner(section: Section<'_>) -> Option<PartitionerConfig> {
    if section.node("kind").is_none() {
        section.missing("kind", "\"min_size\"");
        return None;
    }
    let kind = section.choice("kind", "partitioner", &[("fixed", 0), ("min_size", 1), ("max_size", 2)])?;
    let shards = |key| section.integer(key, 1..=1_000_000).map(|count| count as usize);
    let config = match kind {
        0 => match shards("num_shards") {
            Some(num_shards) => PartitionerConfig::Fixed { num_shards },
            None if section.node("num_shards").is_some() => return None,
            None => {
                section.missing("num_shards", "2");
                return None;
            }
        },
        1 => PartitionerConfig::MinSize {
            min_shard_bytes: section.integer("min_shard_bytes", 1..=1 << 40).unwrap_or(MIN_SHARD_BYTES)
                as usize,
            max_shards: shards("max_shards"),
        },
        _ => {
            let max_shards = shards("max_shards");
            match section.integer("max_shard_bytes", 1..=1 << 40) {
                Some(bytes) => PartitionerConfig::MaxSize { max_shard_bytes: bytes as usize, max_shards },
                None => {
                    section.fail(Code::E1005, "kind", "partitioner max_size needs max_shard_bytes");
                    return None;
                }
            }
        }
    };
    section.finish();
    Some(config)
}
