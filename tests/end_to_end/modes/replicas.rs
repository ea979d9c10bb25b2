//! Parameter servers in pairs: whoever dies, and whatever disk is lost, the other one goes on with all that was acknowledged.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_checkpoint::PositionRecord;

use super::Trial;
use super::trial::{ENDLESS, Tasks, kill, wait_until_it_trains};
use crate::end_to_end::LIMIT;

const TAKEN_OVER: &str = "the primary of this shard is gone, and its backup is the primary now";
const REPLICA: &str = "parameter_servers.durability=replica";
/// So little that the logs are cut again and again, and their begin is soon given up.
const LITTLE_MEMORY: &str = "parameter_servers.shared_memory_bytes_max=65536";
const FROM_A_CUT: &str = "this backup begins from a cut of its primary's log";

/// Runs a job of pairs while `disturb` does what it does, stops it, and checks that each batch has counted once on every
/// shard and that nobody went back to a checkpoint. Returns the output of the chief.
fn exact(disturb: impl FnOnce(&Trial, Tasks) -> Tasks) -> String {
    // No checkpoint is due for a long time: everything is in the logs and the replicas.
    let settings = [
        REPLICA,
        LITTLE_MEMORY,
        ENDLESS,
        "run.save_checkpoints_steps=1000000000",
    ];
    let trial = Trial::new(2, 2, 8000, &settings);
    let tasks = disturb(&trial, trial.start_all());
    let output = tasks.stop();
    assert!(
        !output.contains("restoring every parameter server"),
        "{output}"
    );
    let checkpoint = trial.checkpoint();
    let step = checkpoint.manifest().global_step;
    assert!(step > 0);
    for shard in &checkpoint.manifest().shards {
        let ahead = |known: &PositionRecord| {
            known
                .ahead
                .iter()
                .map(|range| range.end - range.start)
                .sum::<u64>()
        };
        let applied: u64 = shard
            .positions
            .iter()
            .map(|known| known.batch + ahead(known))
            .sum();
        assert_eq!((applied, shard.version), (step, step), "ps:{}", shard.ps);
    }
    output
}

/// Who serves each shard, and whether it has a backup, as the chief has written last.
fn shards(trial: &Trial) -> Vec<(u64, bool)> {
    let folder = trial.cluster.model_dir().join("shard_map");
    let files = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let latest = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .max();
    let text = latest
        .and_then(|path| std::fs::read(path).ok())
        .unwrap_or_default();
    let map: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let shards = map["shards"].as_array().into_iter().flatten();
    shards
        .map(|shard| {
            let primary = shard["primary"].as_u64();
            let paired = shard["paired"].as_bool();
            (primary.expect("a number"), paired.expect("a truth"))
        })
        .collect()
}

fn wait_until(trial: &Trial, what: &str, is_so: impl Fn(&[(u64, bool)]) -> bool) {
    let begun = Instant::now();
    while !is_so(&shards(trial)) {
        assert!(begun.elapsed() < LIMIT, "{what}: {:?}", shards(trial));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait_until_paired(trial: &Trial) {
    wait_until(trial, "two replicas of each", |shards| {
        shards.len() == 2 && shards.iter().all(|(_, paired)| *paired)
    });
}

/// Waits until both shards are served without this server.
fn wait_until_gone(trial: &Trial, ps: usize) {
    wait_until(trial, "the other one serves", |shards| {
        shards.len() == 2
            && shards
                .iter()
                .all(|&(primary, paired)| primary != ps as u64 && !paired)
    });
}

trial!(servers_killed_again_and_again_with_and_without_their_disks_lose_nothing);
fn servers_killed_again_and_again_with_and_without_their_disks_lose_nothing() {
    let output = exact(|trial, mut tasks| {
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        for time in 0..4 {
            let ps = time % 2;
            kill(tasks.servers.remove(ps));
            wait_until_gone(trial, ps);
            tasks.chief.wait_for_next("training step=", LIMIT);
            if time >= 2 {
                // The host is gone, with all that was on it.
                let logs = trial.cluster.model_dir().join("wal");
                std::fs::remove_dir_all(logs.join(format!("ps-{ps}"))).expect("removed");
                std::fs::remove_dir_all(logs.join(format!("ps-{}.backup", 1 - ps)))
                    .expect("removed");
            }
            tasks.servers.insert(ps, trial.start("ps", ps));
            tasks.servers[ps].wait_for_next(FROM_A_CUT, LIMIT);
            wait_until_paired(trial);
            tasks.chief.wait_for_next("training step=", LIMIT);
        }
        tasks
    });
    assert!(output.contains(TAKEN_OVER), "{output}");
}

trial!(both_servers_killed_at_one_moment_while_the_chief_lives_lose_nothing);
fn both_servers_killed_at_one_moment_while_the_chief_lives_lose_nothing() {
    exact(|trial, mut tasks| {
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        for time in 0..6 {
            wait_until_paired(trial);
            tasks.chief.wait_for_next("training step=", LIMIT);
            // The chief hears of one before the other, in either order: it may still take the other for the one that has all.
            let order = if time % 2 == 0 { [0, 1] } else { [1, 0] };
            order
                .iter()
                .for_each(|ps| tasks.servers[*ps].signal(Signal::KILL));
            tasks.servers.drain(..).for_each(kill);
            tasks.servers = vec![trial.start("ps", 0), trial.start("ps", 1)];
        }
        wait_until_paired(trial);
        tasks.chief.wait_for_next("training step=", LIMIT);
        tasks
    });
}

trial!(synchronous_training_has_the_same_bits_when_backups_take_over);
fn synchronous_training_has_the_same_bits_when_backups_take_over() {
    let settings = [REPLICA, LITTLE_MEMORY, "strategy.update=sync"];
    let trial = |epochs: &str| Trial::new(2, 2, 8000, &[&settings[..], &[epochs]].concat());
    let disturbed = trial(ENDLESS);
    let mut tasks = disturbed.start_all();
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    for ps in [0, 1] {
        kill(tasks.servers.remove(ps));
        wait_until_gone(&disturbed, ps);
        tasks.servers.insert(ps, disturbed.start("ps", ps));
        wait_until_paired(&disturbed);
    }
    let (passes, output) = disturbed.end(tasks);
    assert!(
        !output.contains("restoring every parameter server"),
        "{output}"
    );
    // Each of the two servers led a shard at least when it was killed.
    assert!(
        output.matches(TAKEN_OVER).count() >= 2,
        "a backup takes over each time: {output}"
    );
    assert_eq!(disturbed.global_step(), passes * 500_u64.div_ceil(3));
    let reference = trial(&format!("input.train.epochs={passes}"));
    reference.start_all().end();
    assert!(reference.bits() == disturbed.bits(), "values and slots");
}

trial!(a_primary_that_stood_still_past_its_replacement_acknowledges_nothing_more_and_follows);
fn a_primary_that_stood_still_past_its_replacement_acknowledges_nothing_more_and_follows() {
    exact(|trial, mut tasks| {
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        tasks.servers[0].signal(Signal::STOP);
        let begun = Instant::now();
        wait_until_gone(trial, 0);
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it is noticed by its silence"
        );
        tasks.chief.wait_for_next("training step=", LIMIT);
        let said = tasks.servers[0].said();
        tasks.servers[0].signal(Signal::CONT);
        let backup = tasks.servers[0].wait_for_after(said, "role=\"backup\"", LIMIT);
        assert!(backup.contains("ps:"), "{backup}");
        wait_until_paired(trial);
        tasks.chief.wait_for_next("training step=", LIMIT);
        tasks
    });
}

trial!(all_daemons_killed_at_once_come_back_with_everything);
fn all_daemons_killed_at_once_come_back_with_everything() {
    exact(|trial, mut tasks| {
        tasks.workers.iter_mut().for_each(wait_until_it_trains);
        // One shard has moved: its log lies with the other server.
        kill(tasks.servers.remove(0));
        wait_until_gone(trial, 0);
        tasks.servers.insert(0, trial.start("ps", 0));
        wait_until_paired(trial);
        tasks
            .workers
            .into_iter()
            .chain([tasks.chief])
            .chain(tasks.servers)
            .for_each(kill);
        let mut tasks = trial.start_all();
        let line = tasks.chief.wait_for("training is open", LIMIT);
        if line.contains(" step=0 ") {
            let servers = tasks.servers.into_iter().map(|server| {
                server.signal(Signal::TERM);
                server.wait(LIMIT).output
            });
            panic!(
                "the values are lost: {line}\n{}",
                servers.collect::<String>()
            );
        }
        // A batch that one shard had when all died, and the other had not, is among those that are given out first.
        for _ in 0..3 {
            tasks.chief.wait_for_next("training step=", LIMIT);
        }
        tasks
    });
}

trial!(a_cluster_of_one_server_cannot_have_backups);
fn a_cluster_of_one_server_cannot_have_backups() {
    let trial = Trial::new(1, 1, 800, &[REPLICA]);
    for role in ["ps", "chief", "worker"] {
        let ended = trial.start(role, 0).wait(LIMIT);
        assert_eq!(ended.code, 78, "{role}: {}", ended.output);
        assert!(
            ended
                .output
                .contains("needs two parameter servers at least, the cluster has 1"),
            "{}",
            ended.output
        );
    }
}

trial!(the_old_log_of_a_shard_that_another_server_took_over_is_not_used_when_replicas_are_given_up);
fn the_old_log_of_a_shard_that_another_server_took_over_is_not_used_when_replicas_are_given_up() {
    const MEMORY: [&str; 2] = ["--set", "parameter_servers.durability=shared_memory"];
    let trial = Trial::new(2, 2, 8000, &[REPLICA, ENDLESS]);
    let mut tasks = trial.start_all();
    wait_until_paired(&trial);
    tasks.workers.iter_mut().for_each(wait_until_it_trains);
    kill(tasks.servers.remove(0));
    tasks.chief.wait_for(TAKEN_OVER, LIMIT);
    for _ in 0..4 {
        tasks.workers[0].wait_for_next("training step=", LIMIT);
    }
    tasks.stop();
    let stopped = trial.checkpoint().manifest().global_step;
    let mut resumed = trial.start_all_with(&MEMORY);
    let line = resumed.chief.wait_for("restoring step=", LIMIT);
    assert!(
        line.contains(&format!("restoring step={stopped} ")),
        "{line}"
    );
    assert!(
        resumed
            .chief
            .has_said("another server had taken these shards over")
    );
    resumed.workers.iter_mut().for_each(wait_until_it_trains);
    resumed.stop();
    // The map of before says nothing of the logs any more.
    assert_eq!(shards(&trial), []);
    let (passes, output) = trial.end(trial.start_all());
    assert!(!output.contains("restoring every"), "{output}");
    assert_eq!(trial.global_step(), passes * 500);
    trial.assert_applied(passes * 500);
}
