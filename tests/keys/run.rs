//! Rows of the top level and of `[run]`.

use crate::keys::row::{Row, row};
use crate::keys::see::{checkpoints, count, events, files, has_checkpoint_between};
use crate::keys::site::{ENDLESS, How, LIMIT, Ran, Site, TRAIN_IN_PARTS};

/// Asks for a run of `trainyard up` of a job, which says where it has looked.
const STATUS: How = How {
    name: "status",
    run: |site| {
        let ran = site.run("status", &[]);
        // There is none: that it is not found is what is to be seen.
        site.ran(i32::from(ran.code == 0), ran.output)
    },
};

/// Trains without end: until a checkpoint is saved beyond the first where the job asks for them by time, otherwise for a
/// moment.
const TRAIN_FOR_A_MOMENT: How = How {
    name: "for a moment",
    run: for_a_moment,
};

fn for_a_moment(site: &Site) -> Ran {
    let asked = site.job_text().contains("save_checkpoints_secs");
    let mut program = site.start("train", &["--no-evaluation"]);
    program.wait_for("checkpoint saved step=0", LIMIT);
    let mut saved = false;
    // Where none is asked for, there is none however often it is looked.
    for _ in 0..if asked { 1 } else { 5 } {
        let line = program.wait_for_next(if asked { "checkpoint saved" } else { " step=" }, LIMIT);
        saved |= line.contains("checkpoint saved");
    }
    site.ran(0, format!("saved by itself: {saved}"))
}

/// Starts a chief whose server is not there.
const CHIEF_WITHOUT_SERVER: How = How {
    name: "chief without server",
    run: chief_without_server,
};

fn chief_without_server(site: &Site) -> Ran {
    let job = site.job();
    let cluster = site.cluster();
    let job = job.to_string_lossy();
    let cluster = cluster.to_string_lossy();
    let arguments = [
        "run",
        "--role",
        "chief",
        "--job",
        &job,
        "--cluster",
        &cluster,
    ];
    let mut program = trainyard_tests::Program::start("trainyard", &arguments, &[]);
    // It says that it waits after 2 s; with a deadline of 1 s it has given up before.
    let told = program.wait_for("ps:0", LIMIT);
    if told.contains("waiting: ") {
        return site.ran(0, "waits for longer than 2 s".to_owned());
    }
    let ended = program.wait(LIMIT);
    site.ran(ended.code, ended.output)
}

pub(crate) fn rows() -> Vec<Row> {
    let folders = |ran: &Ran| {
        let names = files(ran)
            .into_iter()
            .filter(|name| name.ends_with("/job_state.json"));
        names.collect::<Vec<_>>().join(" ")
    };
    let bucket = [("model_dir", "\"s3://bucket/jobs\"")];
    let parts = [
        ("run.keep_checkpoint_max", "1"),
        ("input.train.epochs", "-"),
    ];
    vec![
        row("model_dir")
            .to("\"{run}/other\"")
            .sees(folders)
            .gives("model/job_state.json", "other/job_state.json"),
        row("local_dir")
            .by(STATUS)
            .over(&bucket)
            .to("\"/somewhere/else\"")
            .sees(|ran| {
                let default = ran
                    .output
                    .contains("there is no /var/tmp/trainyard-s3-bucket+jobs/");
                let other = ran.output.contains("there is no /somewhere/else/");
                format!("default: {default}, other: {other}")
            })
            .gives("default: true, other: false", "default: false, other: true"),
        row("run.seed").to("4"),
        row("run.save_checkpoints_secs")
            .by(TRAIN_FOR_A_MOMENT)
            .over(&ENDLESS)
            .over(&[("run.log_step_count_steps", "1000")])
            .to("1")
            .sees(|ran| ran.output.clone())
            .gives("saved by itself: false", "saved by itself: true"),
        row("run.save_checkpoints_steps")
            .over(&[
                ("input.train.epochs", "600"),
                ("run.keep_checkpoint_max", "0"),
            ])
            .to("20")
            .sees(has_checkpoint_between)
            .gives("false", "true"),
        row("run.keep_checkpoint_max")
            .by(TRAIN_IN_PARTS)
            .over(&[("input.train.epochs", "-")])
            .to("2")
            .sees(checkpoints)
            .gives("0 3 6 9 12", "9 12"),
        // Whatever the age of a checkpoint, it is one in so short a time; the next hour has not come.
        row("run.keep_checkpoint_every_n_hours")
            .by(TRAIN_IN_PARTS)
            .over(&parts)
            .to("0.0000001")
            .sees(checkpoints)
            .gives("12", "0 3 6 9 12"),
        row("run.keep_checkpoint_every_n_hours")
            .by(TRAIN_IN_PARTS)
            .over(&parts)
            .to("1.0")
            .sees(checkpoints)
            .gives("12", "0 12"),
        row("run.save_summary_steps")
            .to("1")
            .sees(|ran| events(ran, "loss"))
            .gives("1", "6"),
        row("run.summary_histograms")
            .to("true")
            .sees(|ran| events(ran, "dnn/hiddenlayer_0/kernel"))
            .gives("0", "2"),
        row("run.log_step_count_steps")
            .to("2")
            .sees(|ran| count(ran, " training step="))
            .gives("0", "3"),
        row("run.session_creation_timeout_secs")
            .by(CHIEF_WITHOUT_SERVER)
            .over(&[
                ("cluster file.cluster.chief", "[\"127.0.0.1:{port0}\"]"),
                ("cluster file.cluster.ps", "[\"127.0.0.1:{port1}\"]"),
            ])
            .to("1")
            .fails("was not ready for 1 s"),
        row("run.intra_op_parallelism_threads")
            .over(&[("run.intra_op_parallelism_threads", "1")])
            .to("3")
            .sees(|ran| count(ran, "computing threads=3"))
            .gives("0", "1"),
    ]
}
