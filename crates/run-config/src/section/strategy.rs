//! `[strategy]`: distribution of training.

use trainyard_diagnostic::{Code, Diagnostic, Section};

use crate::{
    Encoding, InputConfig, Partitioner, Placement, Replication, Sharding, StrategyConfig,
    StrategyKind, Update, UpdateSection,
};

/// Most slices of a variable.
const SHARDS_MAX: u64 = 1_000_000;
/// Most steps whose parameters a task may read ahead.
const PIPELINE_DEPTH_MAX: u64 = 8;
/// Largest size of a slice that can be configured, in bytes.
const SHARD_BYTES_MAX: u64 = 1 << 40;

/// Most batches of a synchronous step, and most replicas of a process.
const REPLICAS_MAX: u64 = 4096;
/// Largest staleness bound.
const STALENESS_MAX: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Async,
    Sync,
    Ssp,
}

#[derive(Clone, Copy)]
enum Cut {
    Fixed,
    MinSize,
    MaxSize,
}

pub(crate) fn read(section: Option<Section<'_>>) -> Option<StrategyConfig> {
    let Some(section) = section else {
        return Some(StrategyConfig {
            kind: StrategyKind::ParameterServer,
            update: UpdateSection::default(),
            replication: Replication::BetweenGraph,
            replicas: None,
            scale_learning_rate: false,
            partitioner: Partitioner::default(),
            placement: Placement::default(),
            chief_trains: true,
            pipeline_depth: 0,
            payload: Encoding::default(),
        });
    };
    // All keys are read before an early return, so that every mistake is reported.
    let kinds = [
        ("parameter_server", StrategyKind::ParameterServer),
        ("multi_worker_mirrored", StrategyKind::MultiWorkerMirrored),
        ("hybrid", StrategyKind::Hybrid),
        ("mirrored", StrategyKind::Mirrored),
        ("central_storage", StrategyKind::CentralStorage),
        ("one_device", StrategyKind::OneDevice),
    ];
    let kind = choice(&section, "kind", "strategy", &kinds);
    let update = read_update(&section, kind);
    let replications = [
        ("between_graph", Replication::BetweenGraph),
        ("in_graph", Replication::InGraph),
    ];
    let replication = choice(&section, "replication", "replication", &replications);
    let replicas = section
        .integer("replicas", 1..=REPLICAS_MAX)
        .map(|count| count as usize);
    let scale_learning_rate = section.flag("scale_learning_rate").unwrap_or(false);
    let placement = choice(&section, "placement", "placement", &Placement::NAMES);
    let chief_trains = section.flag("chief_trains");
    let pipeline_depth = section
        .integer("pipeline_depth", 0..=PIPELINE_DEPTH_MAX)
        .unwrap_or(0) as usize;
    let payload = choice(&section, "payload", "payload", &Encoding::NAMES);
    let partitioner = match section.section("partitioner") {
        Some(partitioner) => read_partitioner(partitioner),
        None => Some(Partitioner::default()),
    };
    check(
        &section,
        kind,
        update,
        replication,
        replicas.is_some(),
        pipeline_depth,
    );
    section.finish();
    Some(StrategyConfig {
        kind: kind?,
        update: update?,
        replication: replication?,
        replicas,
        scale_learning_rate,
        partitioner: partitioner?,
        placement: placement?,
        // Under in-graph replication, the chief reads the input for the workers, like TensorFlow's coordinator.
        chief_trains: chief_trains.unwrap_or(replication != Some(Replication::InGraph)),
        pipeline_depth,
        payload: payload?,
    })
}

/// Reads `update` and its parameters.
fn read_update(section: &Section<'_>, kind: Option<StrategyKind>) -> Option<UpdateSection> {
    let modes = [
        ("async", Mode::Async),
        ("sync", Mode::Sync),
        ("ssp", Mode::Ssp),
    ];
    let aggregate = section
        .integer("replicas_to_aggregate", 1..=REPLICAS_MAX)
        .map(|count| count as usize);
    let staleness = section.integer("staleness_steps_max", 0..=STALENESS_MAX);
    // The other strategies support synchronous updates only.
    let together = kind.is_some_and(|kind| {
        !matches!(
            kind,
            StrategyKind::ParameterServer | StrategyKind::OneDevice
        )
    });
    let mode = match section.node("update") {
        Some(_) => section.choice("update", "update", &modes)?,
        None if together => Mode::Sync,
        None => Mode::Async,
    };
    let only = |key: &'static str, of: &str| {
        if section.node(key).is_some() {
            section.fail(
                Code::E1006,
                key,
                format!("{key} belongs to update = \"{of}\""),
            );
        }
    };
    if mode != Mode::Sync {
        only("replicas_to_aggregate", "sync");
    }
    if mode != Mode::Ssp {
        only("staleness_steps_max", "ssp");
    }
    match mode {
        Mode::Async => Some(Update::Async.into()),
        Mode::Sync => Some(UpdateSection {
            mode: Update::Sync,
            replicas_to_aggregate: aggregate,
        }),
        Mode::Ssp => {
            if section.node("staleness_steps_max").is_none() {
                section.missing("staleness_steps_max", "3");
            }
            staleness.map(|staleness_steps_max| {
                Update::StaleSynchronous {
                    staleness_steps_max,
                }
                .into()
            })
        }
    }
}

/// Reports settings that contradict each other.
fn check(
    section: &Section<'_>,
    kind: Option<StrategyKind>,
    update: Option<UpdateSection>,
    replication: Option<Replication>,
    replicas: bool,
    pipeline_depth: usize,
) {
    let fail =
        |key: &'static str, message: &str| section.fail(Code::E1006, key, message.to_owned());
    if pipeline_depth > 0 && update.is_some_and(|update| update.mode == Update::Sync) {
        fail(
            "pipeline_depth",
            "pipeline_depth must be 0 where update is \"sync\": what is read ahead is stale",
        );
    }
    let Some(kind) = kind else { return };
    if kind != StrategyKind::ParameterServer && section.node("update").is_some() {
        let message = "update can be chosen under kind = \"parameter_server\" only: the others are synchronous, \
                       one device needs none";
        fail("update", message);
    }
    if kind != StrategyKind::ParameterServer && replication == Some(Replication::InGraph) {
        fail(
            "replication",
            "replication = \"in_graph\" goes with kind = \"parameter_server\" only",
        );
    }
    if replicas && !kind.has_replicas() {
        fail(
            "replicas",
            "replicas belongs to kind = \"mirrored\" and kind = \"central_storage\"",
        );
    }
}

/// Reports input settings that the strategy does not support.
pub(crate) fn settle(root: &Section<'_>, strategy: &StrategyConfig, input: &InputConfig) {
    let sharding = input.train.sharding;
    if sharding == Sharding::Dynamic {
        return;
    }
    let what = match (strategy.update.mode, strategy.replication) {
        (_, Replication::InGraph) => "replication = \"in_graph\": the chief assigns the data",
        (Update::Sync, _) => {
            "synchronous training: any worker must be able to compute any batch of a step"
        }
        _ => return,
    };
    let given = format!("{sharding:?}").to_lowercase();
    let message =
        format!("input.train.sharding must be \"dynamic\" under {what}, given \"{given}\"");
    root.problems()
        .push(Diagnostic::error(Code::E1006, message).help("leave out input.train.sharding"));
}

/// Reads a choice. Without the key, it is the first known value.
fn choice<T: Copy>(
    section: &Section<'_>,
    key: &'static str,
    what: &str,
    known: &[(&str, T)],
) -> Option<T> {
    match section.node(key) {
        Some(_) => section.choice(key, what, known),
        None => known.first().map(|(_, value)| *value),
    }
}

fn read_partitioner(section: Section<'_>) -> Option<Partitioner> {
    if section.node("kind").is_none() {
        section.missing("kind", "\"min_size\"");
    }
    let known = [
        ("fixed", Cut::Fixed),
        ("min_size", Cut::MinSize),
        ("max_size", Cut::MaxSize),
    ];
    let Some(kind) = section
        .node("kind")
        .and_then(|_| section.choice("kind", "partitioner", &known))
    else {
        section.know(&[
            "num_shards",
            "min_shard_bytes",
            "max_shard_bytes",
            "max_shards",
        ]);
        section.finish();
        return None;
    };
    let required = |key: &'static str, most: u64, example: &str| {
        if section.node(key).is_none() {
            section.missing(key, example);
        }
        section.integer(key, 1..=most).map(|number| number as usize)
    };
    let max_shards = || {
        section
            .integer("max_shards", 1..=SHARDS_MAX)
            .map(|count| count as usize)
    };
    let config = match kind {
        Cut::Fixed => required("num_shards", SHARDS_MAX, "2")
            .map(|num_shards| Partitioner::Fixed { num_shards }),
        Cut::MinSize => {
            let bytes = section.integer("min_shard_bytes", 1..=SHARD_BYTES_MAX);
            Some(Partitioner::MinSize {
                min_shard_bytes: bytes.map_or(Partitioner::MIN_SHARD_BYTES, |bytes| bytes as usize),
                max_shards: max_shards(),
            })
        }
        Cut::MaxSize => {
            let max_shards = max_shards();
            required("max_shard_bytes", SHARD_BYTES_MAX, "16_777_216").map(|max_shard_bytes| {
                Partitioner::MaxSize {
                    max_shard_bytes,
                    max_shards,
                }
            })
        }
    };
    section.finish();
    config
}
