//! Jobs that count, with their model folder in a bucket: whoever dies in the middle of whatever the store is asked for, every
//! update counts once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trainyard_checkpoint::Checkpoint;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Account, Draw, Ledger, Supervisor, is_thorough, seed};

use crate::storage::LIMIT;
use crate::storage::door::{Door, Fate};
use crate::storage::server::Server;

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const SERVER: Task = Task {
    role: Role::Ps,
    index: 1,
};
const PROGRAM: &str = env!("CARGO_BIN_EXE_nemesis");

/// What a task needs to reach the store.
fn environment(address: &str) -> Vec<String> {
    [
        "env".to_owned(),
        format!("AWS_ENDPOINT_URL=http://{address}"),
    ]
    .into_iter()
    .chain(["AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test"].map(str::to_owned))
    .collect()
}

/// What the newest checkpoint below a prefix of the bucket says, copied into a folder.
///
/// # Panics
/// There is none, or a manifest whose checkpoint is not whole.
fn account(server: &Server, prefix: &str, folder: &Path, ledger: &Ledger) -> Account {
    let folder = folder.join("copy");
    server.fetch(prefix, &folder);
    let open = |entry: std::fs::DirEntry| {
        let manifest = entry.path().join("manifest.json");
        manifest
            .is_file()
            .then(|| Checkpoint::open(&entry.path()).expect("a manifest makes a whole checkpoint"))
    };
    let entries = std::fs::read_dir(folder.join(prefix)).expect("the folder");
    let checkpoints = entries.filter_map(|entry| open(entry.expect("it is read")));
    let newest = checkpoints.max_by_key(|checkpoint| {
        let manifest = checkpoint.manifest();
        (manifest.cluster_epoch, manifest.global_step)
    });
    let newest = newest.expect("there is a checkpoint");
    newest.verify().expect("it is whole");
    Account::of(&newest, ledger).expect("it is of the job")
}

/// Starts a job in one process.
fn train(address: &str, folder: &Path, job: &Path, model: &str, more: &[&str]) -> Child {
    let words = environment(address);
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args([PROGRAM, "train"])
        .arg(job)
        .args(["--model-dir", &format!("s3://data/{model}")]);
    command.args([
        "--set",
        &format!("local_dir={}", folder.join("local").display()),
    ]);
    for setting in more {
        command.args(["--set", setting]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("it starts")
}

fn code_of(mut child: Child) -> Option<i32> {
    let until = Instant::now() + LIMIT;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // It may have ended this moment.
    let _ = child.kill();
    None
}

trial!(every_update_counts_once_whichever_write_a_process_dies_at, needs S3);
fn every_update_counts_once_whichever_write_a_process_dies_at() {
    const AT_ONCE: usize = 4;
    /// One of so many places is tried, unless all are asked for.
    const SHARE: u64 = 3;
    let server = Server::start();
    let ledger = Ledger {
        rows: 100,
        epochs: 4,
        batch_size: 16,
        lanes: 1,
        servers: 1,
    };
    let settings = ["run.keep_checkpoint_max=1"];
    // A run by itself tells how many writes there are.
    let folder = tempfile::tempdir().expect("a folder");
    let door = Door::new(&server.address, |_, _| Fate::Answered);
    let child = train(
        &door.address,
        folder.path(),
        &ledger.write(folder.path()),
        "whole",
        &settings,
    );
    assert_eq!(code_of(child), Some(0));
    let writes = door.writes();
    assert!(writes > 10, "{writes} writes");
    let mut places: Vec<(usize, Fate)> = (0..writes)
        .flat_map(|nth| [Fate::HeldBefore, Fate::HeldAfter].map(|fate| (nth, fate)))
        .collect();
    if !is_thorough() {
        let mut draw = Draw::new(seed("writes to die at"));
        places.retain(|_| draw.below(SHARE) == 0);
        assert!(
            !places.is_empty(),
            "of {writes} writes one at least is drawn"
        );
    }
    let killed_at = |(nth, fate): (usize, Fate)| -> Result<(), String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let folder = folder.path();
        let model = format!("{nth}-{fate:?}");
        let job = ledger.write(folder);
        let judge = move |write, _: &str| if write == nth { fate } else { Fate::Answered };
        let door = Door::new(&server.address, judge);
        let mut child = train(&door.address, folder, &job, &model, &settings);
        // The last of them may not come: what runs side by side writes now more, now less.
        let held = loop {
            match door.held.recv_timeout(Duration::from_millis(20)) {
                Ok(held) => break held,
                Err(_) if child.try_wait().is_ok_and(|ended| ended.is_some()) => {
                    break "its end".to_owned();
                }
                Err(_) => {}
            }
        };
        child
            .kill()
            .and_then(|()| child.wait())
            .map_err(|error| error.to_string())?;
        let code = code_of(train(&server.address, folder, &job, &model, &settings));
        if code != Some(0) {
            return Err(format!("{held}: the next start ended with {code:?}"));
        }
        let account = account(&server, &format!("{model}/"), folder, &ledger);
        if account.is_exact() {
            Ok(())
        } else {
            Err(format!("{held}: {account}"))
        }
    };
    let problems = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for first in 0..AT_ONCE {
            let places = &places;
            let problems = &problems;
            let killed_at = &killed_at;
            scope.spawn(move || {
                for place in places.iter().skip(first).step_by(AT_ONCE) {
                    if let Err(problem) = killed_at(*place) {
                        problems
                            .lock()
                            .expect("no panic")
                            .push(format!("{place:?}: {problem}"));
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().expect("no panic");
    assert!(
        problems.is_empty(),
        "{} of {}: {}",
        problems.len(),
        places.len(),
        problems.join("\n")
    );
}

trial!(a_put_whose_answer_is_lost_is_made_again_and_counts_once, needs S3);
fn a_put_whose_answer_is_lost_is_made_again_and_counts_once() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger {
        rows: 100,
        epochs: 4,
        batch_size: 16,
        lanes: 1,
        servers: 1,
    };
    let job = ledger.write(folder.path());
    // The first answer to each kind of write: the name without its numbers.
    let seen = Mutex::new(BTreeSet::new());
    let door = Door::new(&server.address, move |_, line| {
        let kind: String = line
            .chars()
            .take_while(|letter| *letter != '?')
            .filter(|letter| !letter.is_ascii_hexdigit())
            .collect();
        if seen.lock().expect("no panic").insert(kind) {
            Fate::Lost
        } else {
            Fate::Answered
        }
    });
    let child = train(
        &door.address,
        folder.path(),
        &job,
        "m",
        &["run.keep_checkpoint_max=1"],
    );
    assert_eq!(code_of(child), Some(0));
    let account = account(&server, "m/", folder.path(), &ledger);
    assert!(account.is_exact(), "{account}");
    // The number whose claim was lost is nobody's; the next one is.
    let leaders: Vec<String> = server.keys("m/epochs/");
    assert_eq!(leaders.len(), 2, "{leaders:?}");
}

trial!(of_chiefs_that_start_at_once_no_two_have_the_same_epoch, needs S3);
fn of_chiefs_that_start_at_once_no_two_have_the_same_epoch() {
    const CHIEFS: usize = 6;
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger {
        rows: 100,
        epochs: 1,
        batch_size: 16,
        lanes: 1,
        servers: 1,
    };
    let job = ledger.write(folder.path());
    let chiefs: Vec<Child> = (0..CHIEFS)
        .map(|_| train(&server.address, folder.path(), &job, "m", &[]))
        .collect();
    // `env` becomes the program: the process is the same.
    let started: BTreeSet<u64> = chiefs.iter().map(|child| u64::from(child.id())).collect();
    chiefs.into_iter().for_each(|child| {
        // They may disturb each other.
        let _ = code_of(child);
    });
    let said = server.keys("m/epochs/").into_iter().map(|key| {
        let leader: serde_json::Value =
            serde_json::from_slice(&server.get(&key)).expect("a leader");
        (
            leader["process_id"].as_u64().expect("a number"),
            leader["cluster_epoch"].as_u64().expect("a number"),
        )
    });
    let epochs: BTreeMap<u64, u64> = said.collect();
    assert_eq!(
        epochs.keys().copied().collect::<BTreeSet<_>>(),
        started,
        "{epochs:?}"
    );
    assert_eq!(
        epochs.values().collect::<BTreeSet<_>>().len(),
        CHIEFS,
        "{epochs:?}"
    );
}

/// A job whose model folder is in a bucket, and its cluster.
struct Clustered<'a> {
    ledger: &'a Ledger,
    /// The model folder's name in the bucket `data`.
    model: &'a str,
    save_checkpoints_steps: u64,
    evaluators: usize,
    durability: &'a str,
}

/// Prepares a cluster.
fn cluster(server: &Server, folder: &Path, clustered: &Clustered) -> Supervisor {
    let ledger = clustered.ledger;
    // By steps, so that a slow run comes to the same points as a fast one.
    let saving = format!(
        "save_checkpoints_steps = {}",
        clustered.save_checkpoints_steps
    );
    let job = ledger.write_saving(folder, &saving);
    let counts = LocalCounts {
        ps: ledger.servers,
        workers: 1,
        evaluators: clustered.evaluators,
    };
    let durability = format!("parameter_servers.durability={}", clustered.durability);
    let local = format!("local_dir={}", folder.join("local").display());
    let model_dir = format!("model_dir=s3://data/{}", clustered.model);
    let settings = [
        "run.keep_checkpoint_max=2",
        model_dir.as_str(),
        local.as_str(),
        durability.as_str(),
    ];
    let mut tasks = Supervisor::new(
        Path::new(PROGRAM),
        folder,
        &job,
        counts,
        &settings.map(str::to_owned),
    );
    for task in tasks.tasks() {
        tasks.start_by(task, environment(&server.address));
    }
    tasks
}

trial!(a_cluster_whose_tasks_die_in_the_middle_of_a_save_counts_every_update_once, needs S3);
fn a_cluster_whose_tasks_die_in_the_middle_of_a_save_counts_every_update_once() {
    let points = [
        ("ps.ckpt.before_fsync", SERVER, false),
        ("ps.ckpt.after_fsync", SERVER, false),
        ("chief.ckpt.before_manifest", CHIEF, false),
        ("chief.ckpt.after_manifest", CHIEF, false),
        ("chief.epoch.after_claim", CHIEF, true),
    ];
    let server = Server::start();
    for (name, task, again) in points {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = Ledger {
            rows: 1000,
            epochs: 8,
            batch_size: 16,
            lanes: 1,
            servers: 2,
        };
        let clustered = Clustered {
            ledger: &ledger,
            model: name,
            save_checkpoints_steps: 150,
            evaluators: 0,
            durability: "shared_memory",
        };
        let mut tasks = cluster(&server, folder.path(), &clustered);
        let before = if again { 0 } else { 1 };
        let point = vec![
            "env".to_owned(),
            format!("FAILPOINTS={name}={before}*off->panic"),
        ];
        if !again {
            tasks.wrap_next(task, point.clone());
        }
        tasks.start_all();
        if again {
            tasks.wait_until("training is open", LIMIT, |tasks| {
                !tasks.lines(CHIEF, "training is open").is_empty()
            });
            tasks.wrap_next(task, point);
            tasks.signal(task, Signal::KILL);
        }
        assert!(
            tasks.wait_for_end_of(CHIEF, LIMIT),
            "{name}: {:?}",
            tasks.failed_for_good()
        );
        assert_eq!(tasks.finish(LIMIT), [], "all end by themselves");
        assert!(
            !tasks
                .lines(task, &format!("failpoint {name} panic"))
                .is_empty(),
            "{name} was not reached"
        );
        let account = account(&server, &format!("{name}/"), folder.path(), &ledger);
        assert!(account.is_exact(), "{name}: {account}");
    }
}

trial!(a_cluster_that_is_lost_with_all_its_disks_goes_on_from_the_bucket, needs S3);
fn a_cluster_that_is_lost_with_all_its_disks_goes_on_from_the_bucket() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger {
        rows: 1000,
        epochs: 40,
        batch_size: 16,
        lanes: 1,
        servers: 2,
    };
    let clustered = Clustered {
        ledger: &ledger,
        model: "m",
        save_checkpoints_steps: 400,
        evaluators: 1,
        durability: "shared_memory",
    };
    let mut tasks = cluster(&server, folder.path(), &clustered);
    tasks.start_all();
    tasks.wait_until("two checkpoints", LIMIT, |tasks| {
        tasks.lines(CHIEF, "checkpoint saved").len() >= 2
    });
    tasks.kill_all();
    std::fs::remove_dir_all(folder.path().join("local")).expect("the disks are lost");
    tasks.start_all();
    assert!(
        tasks.wait_for_end_of(CHIEF, LIMIT),
        "{:?}",
        tasks.failed_for_good()
    );
    assert_eq!(tasks.finish(LIMIT), [], "all end by themselves");
    assert!(
        !tasks.lines(CHIEF, "restoring").is_empty(),
        "nothing was restored"
    );
    let account = account(&server, "m/", folder.path(), &ledger);
    assert!(account.is_exact(), "{account}");
    let result: serde_json::Value =
        serde_json::from_slice(&server.get("m/eval/result.json")).expect("a result");
    assert_eq!(
        result["global_step"].as_u64(),
        Some(ledger.steps()),
        "the evaluator has not seen the end"
    );
}

trial!(a_server_of_a_pair_that_is_lost_for_good_costs_nothing_where_the_model_folder_is_a_bucket, needs S3);
fn a_server_of_a_pair_that_is_lost_for_good_costs_nothing_where_the_model_folder_is_a_bucket() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger {
        rows: 1000,
        epochs: 40,
        batch_size: 16,
        lanes: 1,
        servers: 2,
    };
    let clustered = Clustered {
        ledger: &ledger,
        model: "m",
        save_checkpoints_steps: 400,
        evaluators: 0,
        durability: "replica",
    };
    let mut tasks = cluster(&server, folder.path(), &clustered);
    tasks.start_all();
    tasks.wait_until("a checkpoint", LIMIT, |tasks| {
        tasks.lines(CHIEF, "checkpoint saved").len() >= 2
    });
    tasks.lose(SERVER);
    assert!(
        tasks.wait_for_end_of(CHIEF, LIMIT),
        "{:?}",
        tasks.failed_for_good()
    );
    assert_eq!(tasks.finish(LIMIT), [], "all end by themselves");
    let account = account(&server, "m/", folder.path(), &ledger);
    assert!(account.is_exact(), "{account}");
}

trial!(a_chief_that_is_lost_is_followed_by_the_one_that_stands_by_where_the_model_folder_is_a_bucket, needs S3);
fn a_chief_that_is_lost_is_followed_by_the_one_that_stands_by_where_the_model_folder_is_a_bucket() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger {
        rows: 1000,
        epochs: 40,
        batch_size: 16,
        lanes: 1,
        servers: 2,
    };
    let clustered = Clustered {
        ledger: &ledger,
        model: "m",
        save_checkpoints_steps: 400,
        evaluators: 0,
        durability: "shared_memory",
    };
    let mut tasks = cluster(&server, folder.path(), &clustered);
    let standby = tasks.add_standby();
    tasks.start_by(standby, environment(&server.address));
    tasks.start_all_then_standbys(LIMIT);
    tasks.wait_until("the second stands by", LIMIT, |tasks| {
        !tasks.lines(standby, "standing by").is_empty()
    });
    let leads = |tasks: &Supervisor| !tasks.lines(standby, "training is open").is_empty();
    // A chief that a busy machine keeps from its lease is followed, too.
    tasks.wait_until("a checkpoint", LIMIT, |tasks| {
        tasks.lines(CHIEF, "checkpoint saved").len() >= 2 || leads(tasks)
    });
    tasks.lose(CHIEF);
    let led = tasks.wait_until("the second leads", LIMIT, leads);
    println!("the second leads after {led:?}");
    assert!(
        tasks.wait_for_end_of(standby, LIMIT),
        "{:?}",
        tasks.failed_for_good()
    );
    assert_eq!(tasks.finish(LIMIT), [], "all end by themselves");
    let account = account(&server, "m/", folder.path(), &ledger);
    assert!(account.is_exact(), "{account}");
}
