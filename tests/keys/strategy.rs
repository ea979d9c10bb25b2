//! Rows of `[strategy]`.

use trainyard_model::PREMADE;
use trainyard_run_config::Job;
use trainyard_tests::Program;

use crate::keys::row::{Row, row};
use crate::keys::see::{count, output, slices, steps};
use crate::keys::site::{How, LIMIT, Ran, Site, UP, UP_TWO_SERVERS};

/// Trains in a cluster whose worker has no data, and tells how the worker ends.
const UP_WITHOUT_DATA: How = How {
    name: "worker without data",
    run: without_data,
};

fn without_data(site: &Site) -> Ran {
    std::fs::copy(site.data.join("rows.csv"), site.folder.join("rows.csv"))
        .expect("the data is copied");
    let elsewhere = site.folder.join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("the folder is new");
    std::fs::copy(site.job(), elsewhere.join("job.toml")).expect("the job is copied");
    let cluster = site.cluster().to_string_lossy().into_owned();
    let start = |role: &str, job: std::path::PathBuf| {
        let job = job.to_string_lossy();
        let arguments = ["run", "--role", role, "--job", &job, "--cluster", &cluster];
        Program::start("trainyard", &arguments, &[])
    };
    let _chief = start("chief", site.job());
    let _server = start("ps", site.job());
    let ended = start("worker", elsewhere.join("job.toml")).wait(LIMIT);
    site.ran(ended.code, ended.output)
}

/// Tells what every store of the job is told of its updates.
const PLAN: How = How {
    name: "plan",
    run: |site| {
        let job = Job::load(&site.job(), &[]).unwrap_or_else(|problems| panic!("{problems:?}"));
        let model = PREMADE(&job).expect("the model is built");
        site.ran(
            0,
            format!("{:?}", trainyard_trainer::plan(&job, &*model, 1).update),
        )
    },
};

/// Two replicas in one process.
const TWO_REPLICAS: [(&str, &str); 2] = [
    ("strategy.kind", "\"mirrored\""),
    ("strategy.replicas", "2"),
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = of_kinds();
    rows.extend(of_updates());
    rows.extend(of_layout());
    rows
}

fn of_kinds() -> Vec<Row> {
    let replicas = |kind: &str| {
        row("strategy.kind")
            .to(kind)
            .set("strategy.replicas", "2")
            .sees(steps)
            .gives("6", "4")
    };
    let groups =
        |ran: &Ran| (ran.output.matches("the process group is formed").count() > 0).to_string();
    let files = [
        ("cluster file.cluster.chief", "[\"127.0.0.1:{port0}\"]"),
        ("cluster file.cluster.worker", "[\"127.0.0.1:{port1}\"]"),
        ("cluster file.cluster.ps", "[\"127.0.0.1:{port2}\"]"),
        ("input.train.files", "[\"rows.csv\"]"),
        ("input.eval", "-"),
        ("strategy.chief_trains", "false"),
    ];
    vec![
        replicas("\"mirrored\""),
        replicas("\"central_storage\""),
        // Only where each replica has parameters of its own do they meet.
        row("strategy.kind")
            .over(&TWO_REPLICAS)
            .over(&[("strategy.kind", "\"central_storage\"")])
            .to("\"mirrored\"")
            .sees(groups)
            .gives("false", "true"),
        row("strategy.kind")
            .by(UP)
            .to("\"one_device\"")
            .fails("error[E1006"),
        row("strategy.kind")
            .by(UP)
            .to("\"multi_worker_mirrored\"")
            .fails("error[E1006"),
        row("strategy.kind").to("\"hybrid\"").fails("error[E1006"),
        row("strategy.replicas")
            .over(&TWO_REPLICAS)
            .to("3")
            .sees(steps)
            .gives("4", "2"),
        row("strategy.replication")
            .by(UP_WITHOUT_DATA)
            .over(&files)
            .to("\"in_graph\"")
            .fails_before("error[E4002"),
        row("strategy.chief_trains")
            .by(UP)
            .to("false")
            .sees(|ran| count(ran, "computing threads="))
            .gives("2", "1"),
    ]
}

fn of_updates() -> Vec<Row> {
    let alone = [("strategy.chief_trains", "false"), ("input.eval", "-")];
    let halves = |one: &str, other: &str| {
        row("strategy.payload")
            .by(UP)
            .over(&alone)
            .over(&[("strategy.payload", one)])
            .to(other)
    };
    vec![
        row("strategy.update")
            .by(UP)
            .to("\"sync\"")
            .sees(steps)
            .gives("6", "4"),
        row("strategy.update")
            .by(PLAN)
            .set("strategy.update", "\"ssp\"")
            .set("strategy.staleness_steps_max", "2")
            .sees(output),
        row("strategy.replicas_to_aggregate")
            .by(UP)
            .over(&[("strategy.update", "\"sync\"")])
            .to("1")
            .sees(steps)
            .gives("4", "6"),
        row("strategy.staleness_steps_max")
            .by(PLAN)
            .over(&[
                ("strategy.update", "\"ssp\""),
                ("strategy.staleness_steps_max", "2"),
            ])
            .to("5")
            .sees(output),
        row("strategy.scale_learning_rate")
            .over(&TWO_REPLICAS)
            .to("true"),
        // Parameters that are read ahead lack the latest updates.
        row("strategy.pipeline_depth")
            .over(&[("input.train.epochs", "30")])
            .to("1"),
        halves("\"float32\"", "\"bfloat16\""),
        halves("\"float32\"", "\"float16\""),
        halves("\"bfloat16\"", "\"float16\""),
    ]
}

fn of_layout() -> Vec<Row> {
    let cut = |key: &str, text: &str| {
        row(format!("strategy.partitioner.{key}"))
            .over(&[("strategy.partitioner", text)])
            .sees(slices)
    };
    let change = |row: Row, value: &str| {
        let name = row.key.rsplit('.').next().unwrap_or_default().to_owned();
        row.set(format!("strategy.partitioner.{name}"), value)
    };
    let min = "{ kind = \"min_size\", min_shard_bytes = 12, max_shards = 4 }";
    let max = "{ kind = \"max_size\", max_shard_bytes = 12 }";
    vec![
        row("strategy.placement")
            .by(UP_TWO_SERVERS)
            .to("\"round_robin\"")
            .sees(slices),
        row("strategy.partitioner")
            .to("{ kind = \"fixed\", num_shards = 2 }")
            .sees(slices),
        change(
            cut("fixed.num_shards", "{ kind = \"fixed\", num_shards = 2 }"),
            "3",
        ),
        change(cut("min_size.min_shard_bytes", min), "40"),
        change(cut("min_size.max_shards", min), "2"),
        change(cut("max_size.max_shard_bytes", max), "40"),
        change(cut("max_size.max_shards", max), "2"),
        cut("kind", min).set("strategy.partitioner", max),
        cut("kind", max).set(
            "strategy.partitioner",
            "{ kind = \"fixed\", num_shards = 2 }",
        ),
    ]
}
