//! Every named point of the daemons at which a process may die: it does, once, in a job whose every update is counted.

use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Account, Ledger, Supervisor};

use crate::end_to_end::LIMIT;

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const SERVER: Task = Task {
    role: Role::Ps,
    index: 1,
};
const WORKER: Task = Task {
    role: Role::Worker,
    index: 0,
};

/// Name, the task that dies there, times that it passes before, and whether it is in its second life.
const POINTS: [(&str, Task, u32, bool); 20] = [
    ("worker.after_pull", WORKER, 20, false),
    ("worker.between_ps_pushes", WORKER, 21, false),
    ("worker.after_ack", WORKER, 20, false),
    ("ps.push.after_apply_before_wal", SERVER, 50, false),
    ("ps.push.after_wal_before_ack", SERVER, 50, false),
    ("ps.wal.before_segment", SERVER, 0, false),
    ("ps.wal.before_segment", SERVER, 1, false),
    ("ps.wal.before_segment_header", SERVER, 1, false),
    ("ps.ckpt.before_fsync", SERVER, 1, false),
    ("ps.ckpt.after_fsync", SERVER, 1, false),
    ("chief.ckpt.before_manifest", CHIEF, 1, false),
    ("chief.ckpt.after_manifest", CHIEF, 1, false),
    ("chief.ckpt.before_rename", CHIEF, 1, false),
    ("chief.ckpt.after_rename", CHIEF, 1, false),
    ("chief.epoch.before_claim", CHIEF, 0, true),
    ("chief.epoch.after_claim", CHIEF, 0, true),
    ("restore.before_serve", CHIEF, 0, false),
    ("restore.before_serve", CHIEF, 0, true),
    ("restore.after_read", SERVER, 0, false),
    ("restore.after_read", SERVER, 0, true),
];

/// Runs a job in which a task dies at a point.
fn survives((name, task, before, again): (&str, Task, u32, bool)) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = folder.path();
    let ledger = Ledger {
        rows: 1000,
        epochs: 8,
        batch_size: 16,
        lanes: 1,
        servers: 2,
    };
    // By steps, so that a slow run comes to the same points as a fast one: four times, and at the end.
    let job = ledger.write_saving(folder, "save_checkpoints_steps = 150");
    let counts = LocalCounts {
        ps: 2,
        workers: 1,
        evaluators: 0,
    };
    let settings = ["run.keep_checkpoint_max=2"].map(str::to_owned);
    let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let mut tasks = Supervisor::new(program, folder, &job, counts, &settings);
    let point = || {
        vec![
            "env".to_owned(),
            format!("FAILPOINTS={name}={before}*off->panic"),
        ]
    };
    if !again {
        tasks.wrap_next(task, point());
    }
    tasks.start_all();
    if again {
        let until = std::time::Instant::now() + LIMIT;
        while tasks.lines(CHIEF, "training is open").is_empty() {
            if std::time::Instant::now() > until {
                return Err("training has not begun".to_owned());
            }
            tasks.look();
            std::thread::sleep(Duration::from_millis(5));
        }
        tasks.wrap_next(task, point());
        tasks.signal(task, Signal::KILL);
    }
    if !tasks.wait_for_end_of(CHIEF, LIMIT) {
        return Err(format!(
            "the job did not end: {:?}",
            tasks.failed_for_good()
        ));
    }
    let late = tasks.finish(LIMIT);
    if !late.is_empty() {
        return Err(format!("did not end by themselves: {late:?}"));
    }
    if tasks
        .lines(task, &format!("failpoint {name} panic"))
        .is_empty()
    {
        return Err("it was not reached".to_owned());
    }
    let account = Account::of_model_dir(&folder.join("model"), &ledger)?;
    if account.is_exact() {
        Ok(())
    } else {
        Err(account.to_string())
    }
}

trial!(every_update_counts_once_whichever_point_a_task_dies_at);
fn every_update_counts_once_whichever_point_a_task_dies_at() {
    let failed = |part: &[(&'static str, Task, u32, bool)]| -> Vec<String> {
        let failed = part.iter().filter_map(|point| {
            let problem = survives(*point).err()?;
            Some(format!("{} of {}: {problem}", point.0, point.1))
        });
        failed.collect()
    };
    // They wait more than they compute.
    let (one, other) = POINTS.split_at(POINTS.len() / 2);
    let failures = std::thread::scope(|scope| {
        let other = scope.spawn(|| failed(other));
        let mut failures = failed(one);
        failures.extend(other.join().expect("no panic"));
        failures
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
