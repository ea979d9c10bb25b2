//! Parameter servers that remember: killed at any moment, they come back with all that they had acknowledged.

use std::collections::BTreeMap;
use std::path::PathBuf;

use trainyard_write_ahead_log::SegmentFile;

use super::Trial;
use super::trial::{ENDLESS, Tasks, kill, side_by_side, wait_until_it_trains};
use crate::end_to_end::LIMIT;

const BROUGHT_BACK: &str = "recovered the values from the log";

/// Returns the files of the segments of a server's log, in order.
fn logs(trial: &Trial, ps: usize) -> Vec<PathBuf> {
    let folder = trial
        .cluster
        .model_dir()
        .join("wal")
        .join(format!("ps-{ps}"));
    let segments = SegmentFile::all(&folder).expect("the log's folder");
    let parts = segments.into_iter().flat_map(|segment| segment.parts);
    parts.map(|part| part.path).collect()
}

/// Returns the bytes of a file up to the last one that is not zero.
fn used(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last + 1)
}

/// Runs a job while `disturb` does what it does, and then to an end. Returns its passes, and what was learned.
fn learned(
    way: &[&str],
    lanes: u64,
    disturb: impl FnOnce(&Trial, Tasks) -> Tasks,
) -> (u64, BTreeMap<String, Vec<u32>>) {
    let trial = Trial::new(2, 2, 8000, &[way, &[ENDLESS]].concat());
    let tasks = disturb(&trial, trial.start_all());
    let (passes, output) = trial.end(tasks);
    assert!(
        !output.contains("restoring every parameter server"),
        "{output}"
    );
    assert_eq!(
        trial.global_step(),
        passes * 500_u64.div_ceil(lanes),
        "{way:?}"
    );
    trial.assert_applied(passes * 500);
    assert!(
        logs(&trial, 0).is_empty(),
        "the log goes when the job is done"
    );
    (passes, trial.bits())
}

/// Kills servers again and again, and waits each time until training has gone on.
fn kill_servers(trial: &Trial, mut tasks: Tasks, times: usize) -> Tasks {
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    for time in 0..times {
        let ps = time % 2;
        let said = tasks.chief.said();
        kill(tasks.servers.remove(ps));
        let mut back = trial.start("ps", ps);
        back.wait_for(BROUGHT_BACK, LIMIT);
        tasks.servers.insert(ps, back);
        tasks
            .chief
            .wait_for_after(said, "was restarted, and has recovered all updates", LIMIT);
        tasks.chief.wait_for_next("training step=", LIMIT);
    }
    tasks
}

trial!(servers_killed_again_and_again_lose_nothing_in_every_way_to_train);
fn servers_killed_again_and_again_lose_nothing_in_every_way_to_train() {
    let ways: [&[&str]; 4] = [
        &["strategy.update=async"],
        // The log lies on the disk.
        &[
            "strategy.update=async",
            "parameter_servers.shared_memory_bytes_max=0",
        ],
        &["strategy.update=ssp", "strategy.staleness_steps_max=2"],
        &[
            "strategy.update=async",
            "strategy.pipeline_depth=2",
            "strategy.payload=bfloat16",
        ],
    ];
    let one = |way: &[&str]| {
        let settings = [way, &["run.save_checkpoints_steps=400"]].concat();
        learned(&settings, 1, |trial, tasks| kill_servers(trial, tasks, 5));
    };
    let trials = ways.map(|way| move || one(way));
    let trials: Vec<&(dyn Fn() + Sync)> = trials.iter().map(|trial| trial as _).collect();
    trials.chunks(2).for_each(side_by_side);
}

trial!(synchronous_training_has_the_same_bits_when_servers_are_killed);
fn synchronous_training_has_the_same_bits_when_servers_are_killed() {
    let settings = ["strategy.update=sync", "run.save_checkpoints_steps=150"];
    let (passes, killed) = learned(&settings, 3, |trial, tasks| kill_servers(trial, tasks, 5));
    let reference = Trial::new(
        2,
        2,
        8000,
        &[settings[0], &format!("input.train.epochs={passes}")],
    );
    reference.start_all().end();
    assert!(reference.bits() == killed, "values and slots");
}

trial!(all_daemons_killed_at_once_come_back_with_everything);
fn all_daemons_killed_at_once_come_back_with_everything() {
    let one = |way: &str, lanes: u64| {
        // No checkpoint but the first: everything else is in the logs.
        learned(
            &[way, "run.save_checkpoints_steps=1000000000"],
            lanes,
            |trial, mut tasks| {
                tasks.workers.iter_mut().for_each(wait_until_it_trains);
                tasks
                    .workers
                    .into_iter()
                    .chain([tasks.chief])
                    .chain(tasks.servers)
                    .for_each(kill);
                let mut tasks = trial.start_all();
                tasks
                    .servers
                    .iter_mut()
                    .for_each(|server| drop(server.wait_for(BROUGHT_BACK, LIMIT)));
                let line = tasks
                    .chief
                    .wait_for("taking over a job that is running", LIMIT);
                assert!(!line.contains(" step=0"), "{line}");
                wait_until_it_trains(&mut tasks.chief);
                tasks
            },
        );
    };
    side_by_side(&[&|| one("strategy.update=async", 1), &|| {
        one("strategy.update=sync", 3)
    }]);
}

/// Kills all when they have trained for a while without a checkpoint but the first, changes the log of a server, and
/// returns the job, which has eight passes.
fn with_log_of_a_server(change: impl FnOnce(&mut Vec<u8>)) -> Trial {
    let settings = ["input.train.epochs=8", "run.save_checkpoints_steps=1000000"];
    let trial = Trial::new(2, 1, 8000, &settings);
    let mut tasks = trial.start_all();
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    for _ in 0..20 {
        tasks.workers[0].wait_for_next("training step=", LIMIT);
    }
    tasks
        .workers
        .into_iter()
        .chain([tasks.chief])
        .chain(tasks.servers)
        .for_each(kill);
    let log = &logs(&trial, 1).pop().expect("a segment");
    let mut bytes = std::fs::read(log).expect("the log");
    change(&mut bytes);
    std::fs::write(log, bytes).expect("the log");
    trial
}

trial!(a_log_that_is_damaged_in_its_middle_is_put_aside_and_the_checkpoint_restored);
fn a_log_that_is_damaged_in_its_middle_is_put_aside_and_the_checkpoint_restored() {
    let trial = with_log_of_a_server(|bytes| {
        let middle = used(bytes) / 4;
        let header = bytes[middle..]
            .windows(4)
            .position(|bytes| bytes == b"TYwr");
        bytes[middle + header.expect("the header of a record") + 9] ^= 0x10;
    });
    let mut tasks = trial.start_all();
    let line = tasks.servers[1].wait_for("is damaged, and the server has set it aside", LIMIT);
    assert!(line.contains(".log") && line.contains("at byte "), "{line}");
    assert!(
        line.contains("crc32c") && line.contains("expected"),
        "{line}"
    );
    tasks.chief.wait_for("restoring", LIMIT);
    tasks.end();
    assert_eq!(trial.global_step(), 8 * 500);
    trial.assert_applied(8 * 500);
    let aside = trial.cluster.model_dir().join("wal/ps-1.set-aside");
    assert!(aside.read_dir().expect("it is there").count() > 0);
}

trial!(a_log_with_a_torn_end_is_cut_and_goes_on);
fn a_log_with_a_torn_end_is_cut_and_goes_on() {
    let trial = with_log_of_a_server(|bytes| {
        let end = used(bytes).next_multiple_of(8);
        bytes[end..end + 100].fill(7);
    });
    let mut tasks = trial.start_all();
    let line = tasks.servers[1].wait_for("the torn end of the log was cut off", LIMIT);
    assert!(line.contains("bytes="), "{line}");
    tasks
        .chief
        .wait_for("taking over a job that is running", LIMIT);
    tasks.end();
    assert_eq!(trial.global_step(), 8 * 500);
    trial.assert_applied(8 * 500);
}

trial!(a_job_whose_file_has_changed_goes_on_from_where_its_logs_end);
fn a_job_whose_file_has_changed_goes_on_from_where_its_logs_end() {
    let trial = with_log_of_a_server(|_| ());
    let more = ["--set", "input.train.epochs=9"];
    let start = |role, index| trial.start_with(role, index, &more);
    let mut tasks = Tasks {
        servers: vec![start("ps", 0), start("ps", 1)],
        chief: start("chief", 0),
        workers: vec![start("worker", 0)],
    };
    tasks.chief.wait_for("training is open", LIMIT);
    tasks.end();
    assert_eq!(trial.global_step(), 9 * 500);
    trial.assert_applied(9 * 500);
    // Another number of steps is a setting of the servers.
    let trial = with_log_of_a_server(|_| ());
    let more = ["--set", "train.max_steps=3900"];
    let start = |role, index| trial.start_with(role, index, &more);
    let mut tasks = Tasks {
        servers: vec![start("ps", 0), start("ps", 1)],
        chief: start("chief", 0),
        workers: vec![start("worker", 0)],
    };
    tasks
        .chief
        .wait_for("the job file has changed since", LIMIT);
    let line = tasks.chief.wait_for("checkpoint saved", LIMIT);
    assert!(!line.contains("step=0 "), "{line}");
    tasks.end();
    assert_eq!(trial.global_step(), 3900);
}

trial!(a_model_folder_that_was_removed_is_begun_anew_whatever_the_logs_say);
fn a_model_folder_that_was_removed_is_begun_anew_whatever_the_logs_say() {
    let state = tempfile::tempdir().expect("a folder");
    let more = ["--state-dir", state.path().to_str().expect("a name")];
    let settings = ["input.train.epochs=8", "run.save_checkpoints_steps=1000000"];
    let trial = Trial::new(1, 1, 8000, &settings);
    let start = || Tasks {
        servers: vec![trial.start_with("ps", 0, &more)],
        chief: trial.start("chief", 0),
        workers: vec![trial.start("worker", 0)],
    };
    let mut tasks = start();
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    tasks
        .workers
        .into_iter()
        .chain([tasks.chief])
        .chain(tasks.servers)
        .for_each(kill);
    std::fs::remove_dir_all(trial.cluster.model_dir()).expect("removed");
    let mut tasks = start();
    tasks.servers[0].wait_for("the server has set a log aside: it is of cluster", LIMIT);
    tasks.end();
    assert_eq!(trial.global_step(), 8 * 500);
}

trial!(a_server_whose_log_cannot_be_written_ends_with_a_reason);
fn a_server_whose_log_cannot_be_written_ends_with_a_reason() {
    let on_disk = "parameter_servers.shared_memory_bytes_max=0";
    let settings = [ENDLESS, "run.save_checkpoints_steps=200", on_disk];
    let trial = Trial::new(1, 1, 8000, &settings);
    let mut tasks = trial.start_all();
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    // Its next segment, at the next checkpoint, finds no folder.
    std::fs::remove_dir_all(trial.cluster.model_dir().join("wal")).expect("removed");
    let ended = tasks.servers.remove(0).wait(LIMIT);
    assert_eq!(ended.code, 74, "{}", ended.output);
    let message = "error[E3007]: the log of this parameter server failed: cannot ";
    assert!(
        ended.output.contains(message) && ended.output.contains("wal/ps-0/"),
        "{}",
        ended.output
    );
    tasks.servers.push(trial.start("ps", 0));
    tasks
        .chief
        .wait_for("restoring every parameter server", LIMIT);
    tasks.chief.wait_for_next("training step=", LIMIT);
}

trial!(
    a_synchronous_job_that_changes_while_a_step_is_half_applied_finishes_the_step_and_loses_nothing
);
fn a_synchronous_job_that_changes_while_a_step_is_half_applied_finishes_the_step_and_loses_nothing()
{
    let settings = [
        "strategy.update=sync",
        "run.save_checkpoints_steps=1000000000",
        ENDLESS,
    ];
    let trial = Trial::new(2, 2, 8000, &settings);
    let mut tasks = trial.start_all();
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    // All lanes of a step come to the first server, and none to the second.
    tasks.servers[1].signal(rustix::process::Signal::STOP);
    tasks.chief.wait_for("waiting: chief:0 for ps:1", LIMIT);
    let step = tasks.chief.wait_for("training step=", LIMIT);
    tasks
        .workers
        .into_iter()
        .chain([tasks.chief])
        .chain([tasks.servers.remove(1)])
        .for_each(kill);
    let more = [
        "--set",
        "model.dnn_optimizer.learning_rate=0.002",
        "--set",
        "input.train.epochs=3",
    ];
    let mut chief = trial.start_with("chief", 0, &more);
    let mut servers = tasks.servers;
    servers.push(trial.start_with("ps", 1, &more));
    let workers = (0..2).map(|index| trial.start_with("worker", index, &more));
    let workers = workers.collect();
    chief.wait_for("only some servers have completed the latest step", LIMIT);
    let saved = chief.wait_for("restoring step=", LIMIT);
    assert!(!saved.contains("step=0 "), "{step}: {saved}");
    let tasks = Tasks {
        servers,
        chief,
        workers,
    };
    tasks.end();
    // Passes of 500 batches, three a step.
    assert_eq!(trial.global_step(), 3 * 167);
    trial.assert_applied(3 * 500);
}

trial!(an_input_that_changes_and_changes_back_between_two_checkpoints_is_read_from_its_start);
fn an_input_that_changes_and_changes_back_between_two_checkpoints_is_read_from_its_start() {
    let settings = ["run.save_checkpoints_steps=1000000000", ENDLESS];
    let trial = Trial::new(1, 1, 8000, &settings);
    let run = |more: &[&str]| {
        let mut tasks = trial.start_all_with(more);
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        tasks
    };
    let kill_all_but_servers = |tasks: Tasks| {
        tasks
            .workers
            .into_iter()
            .chain([tasks.chief])
            .for_each(kill);
        tasks.servers
    };
    let other = ["--set", "input.train.batch_size=32"];
    let servers = kill_all_but_servers(run(&[]));
    let mut chief = trial.start_with("chief", 0, &other);
    let mut worker = trial.start_with("worker", 0, &other);
    chief.wait_for("the division of the input has changed", LIMIT);
    wait_until_it_trains(&mut worker);
    [worker, chief].into_iter().for_each(kill);
    let mut chief = trial.start("chief", 0);
    let worker = trial.start("worker", 0);
    chief.wait_for("the division of the input has changed", LIMIT);
    chief.wait_for("training is open", LIMIT);
    [worker, chief].into_iter().chain(servers).for_each(kill);
}
