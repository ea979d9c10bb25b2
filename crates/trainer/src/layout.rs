//! The cut of a job's variables: the same in every task.

use trainyard_run_config::{Job, PartitionerConfig, PlacementConfig};
use trainyard_variable::{Layout, Partitioner, Placement, VariableSpec};

/// Returns the layout that a job's strategy calls for.
pub fn plan_layout(job: &Job, variables: &[VariableSpec], num_ps: usize) -> Layout {
    let partitioner = match job.strategy.partitioner {
        PartitionerConfig::Fixed { num_shards } => Partitioner::Fixed { num_shards },
        PartitionerConfig::MinSize { min_shard_bytes, max_shards } => {
            Partitioner::MinSize { min_shard_bytes, max_shards: max_shards.unwrap_or(num_ps) }
        }
        PartitionerConfig::MaxSize { max_shard_bytes, max_shards } => {
            Partitioner::MaxSize { max_shard_bytes, max_shards }
        }
    };
    let placement = match job.strategy.placement {
        PlacementConfig::RoundRobin => Placement::RoundRobin,
        PlacementConfig::Greedy => Placement::Greedy,
    };
    Layout::new(variables, partitioner, placement, num_ps)
}
