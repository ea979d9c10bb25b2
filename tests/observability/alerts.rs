//! Each alert fires in a real Prometheus that scrapes real tasks, once what it tells of has been done to them.

use std::fmt::Write as _;
use std::path::Path;
use std::time::SystemTime;

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_security::Authority;
use trainyard_tests::{
    Ledger, MemoryGroup, Mount, Need, Program, Supervisor, census_rows, program,
};

use crate::end_to_end::security::{DAY, call_as, write_credentials};
use crate::observability::prometheus::Prometheus;
use crate::observability::{LIMIT, repository};
use crate::serving::{Server, client, run, trained};

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};
const WORKER: Task = Task {
    role: Role::Worker,
    index: 0,
};
const SERVER: Task = Task {
    role: Role::Ps,
    index: 1,
};
/// What is said in minutes for people, in seconds for a test: what is there, and what takes its place.
const QUICKER: [(&str, &str); 6] = [
    ("[1h]", "[60s]"),
    ("[30m]", "[60s]"),
    ("[15m]", "[120s]"),
    ("[5m]", "[10s]"),
    ("[2m]", "[60s]"),
    // Of the age of a checkpoint.
    ("_interval_seconds + 120)", "_interval_seconds + 5)"),
];

/// The rules of `deploy/prometheus`, each with less patience.
fn quick_rules(folder: &Path) -> std::path::PathBuf {
    let text = std::fs::read_to_string(repository().join("deploy/prometheus/alerts.yml"));
    let mut text = text.expect("the rules");
    for (words, others) in QUICKER {
        assert!(text.contains(words), "{words}");
        text = text.replace(words, others);
    }
    let lines = text.lines().map(|line| {
        let (begin, _) = line.split_once("for: ").unwrap_or((line, ""));
        let wait = if begin == line { "" } else { "for: 1s" };
        format!("{begin}{wait}\n")
    });
    let path = folder.join("alerts.yml");
    std::fs::write(&path, lines.collect::<String>()).expect("the rules are written");
    path
}

fn write_job(folder: &Path, model_dir: &Path) -> std::path::PathBuf {
    census_rows(&folder.join("train.csv"), 400, 1);
    let mut text = std::fs::read_to_string(folder.join("train.csv")).expect("rows");
    // One row in 400 leads to an infinite gradient: one batch in 20 is rejected.
    let _ = writeln!(text, "3e38,3e38,w0,1000");
    std::fs::write(folder.join("train.csv"), text).expect("written");
    let job = format!(
        r#"model_dir = '{}'
[input]
label = {{ column = "y" }}
train = {{ files = ["train.csv"], batch_size = 20 }}
[[feature]]
columns = ["x", "z"]
kind = "numeric"
[model]
kind = "linear_regressor"
[train]
max_steps = 100_000_000
[run]
save_checkpoints_secs = 2
[parameter_servers.guard]
quarantine_after = 0
"#,
        model_dir.display()
    );
    let path = folder.join("job.toml");
    std::fs::write(&path, job).expect("the job is written");
    path
}

/// A cluster of which nothing runs yet.
fn cluster(folder: &Path, model_dir: &Path) -> Supervisor {
    let job = write_job(folder, model_dir);
    let counts = LocalCounts {
        ps: 2,
        workers: 1,
        evaluators: 0,
    };
    let mut tasks = Supervisor::new(&program("trainyard"), folder, &job, counts, &[]);
    tasks.slow_down();
    tasks
}

/// Starts a cluster, and waits until its worker trains.
fn start(tasks: &mut Supervisor) {
    tasks.start_all();
    tasks.wait_until("it trains", LIMIT, |tasks| {
        !tasks.lines(WORKER, "training").is_empty()
    });
}

/// A Prometheus that scrapes its tasks.
fn scraping(folder: &Path, tasks: &Supervisor) -> Prometheus {
    let scraped = tasks.tasks().into_iter().map(|task| {
        let address = tasks.admin(task).to_owned();
        (task.to_string(), address)
    });
    let scraped: Vec<_> = scraped.collect();
    let rules = quick_rules(folder);
    Prometheus::start_with(&Need::Prometheus.program(), folder, &scraped, &rules)
}

trial!(each_alert_of_training_fires_once_its_fault_is_there, needs Prometheus Disks);
fn each_alert_of_training_fires_once_its_fault_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Mount::disk(64 << 20);
    let mut tasks = cluster(folder.path(), &disk.path().join("model"));
    tasks.start_all();
    tasks.wait_until("it trains", LIMIT, |tasks| {
        !tasks.lines(CHIEF, "checkpoint saved").is_empty()
            && !tasks.lines(WORKER, "training").is_empty()
    });
    let prometheus = scraping(folder.path(), &tasks);
    let fires = |alert: &str, of: Option<Task>| {
        prometheus.wait_for_alert(
            &format!("Trainyard{alert}"),
            of.map(|task| task.to_string()).as_deref(),
        );
    };
    let ends = |alert: &str| prometheus.wait_for_no_alert(&format!("Trainyard{alert}"));
    fires("BatchesRejected", None);
    for alert in [
        "TaskDown",
        "NotTraining",
        "NoSteps",
        "WorkerGone",
        "CheckpointTooOld",
        "CheckpointFailed",
        "FilesHang",
        "LogDiskLow",
        "TasksFallSilent",
    ] {
        ends(alert);
    }

    disk.fill("ballast", 0);
    fires("CheckpointFailed", None);
    fires("CheckpointTooOld", None);
    disk.free("ballast");
    ends("CheckpointTooOld");

    let frozen = disk.freeze();
    fires("FilesHang", None);
    drop(frozen);
    ends("FilesHang");

    for _ in 0..3 {
        tasks.signal(WORKER, Signal::STOP);
        fires("TaskDown", Some(WORKER));
        fires("WorkerGone", None);
        tasks.signal(WORKER, Signal::CONT);
        ends("TaskDown");
        ends("WorkerGone");
    }
    fires("TasksFallSilent", None);

    tasks.signal(SERVER, Signal::STOP);
    fires("NotTraining", Some(CHIEF));
    fires("NoSteps", None);
    tasks.signal(SERVER, Signal::CONT);
    ends("NoSteps");

    tasks.kill_all();
    fires("JobGone", None);
}

trial!(an_alert_tells_of_tasks_that_wait_for_their_input, needs Prometheus);
fn an_alert_tells_of_tasks_that_wait_for_their_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = write_job(folder.path(), &folder.path().join("model"));
    let rows = std::fs::read_to_string(folder.path().join("train.csv")).expect("rows");
    let good = rows.lines().filter(|row| !row.starts_with("3e38"));
    // Columns that nothing reads take longer to get over than a step.
    let wide = good.enumerate().map(|(place, row)| {
        let others = (0..3000).map(|column| match place {
            0 => format!(",c{column}"),
            _ => format!(",{column}"),
        });
        format!("{row}{}\n", others.collect::<String>())
    });
    let wide: String = wide.collect();
    std::fs::write(folder.path().join("train.csv"), wide).expect("written");
    let job = job.to_string_lossy();
    let arguments = [
        "train",
        &job,
        "--set",
        "input.train.batch_size=400",
        "--admin-listen",
        "127.0.0.1:0",
    ];
    let mut training = Program::start("trainyard", &arguments, &[]);
    let task = ("chief:0".to_owned(), training.admin_address(LIMIT));
    let rules = quick_rules(folder.path());
    let prometheus =
        Prometheus::start_with(&Need::Prometheus.program(), folder.path(), &[task], &rules);
    prometheus.wait_for_alert("TrainyardInputStarving", Some("chief:0"));
}

trial!(alerts_tell_of_a_server_near_its_memory_bound_and_of_one_with_little_room_for_its_log, needs Prometheus Disks);
fn alerts_tell_of_a_server_near_its_memory_bound_and_of_one_with_little_room_for_its_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let disk = Mount::disk(64 << 20);
    let mut tasks = cluster(folder.path(), &disk.path().join("model"));
    tasks.set("parameter_servers.shared_memory_bytes_max=0");
    let job = folder.path().join("job.toml");
    let text = std::fs::read_to_string(&job).expect("the job");
    let table = "[[feature]]\ncolumn = \"word\"\nkind = \"hashed\"\nbuckets = 40_000\ndeep = { embedding = 16 }\n[model]";
    std::fs::write(&job, text.replace("[model]", table)).expect("written");
    tasks.set("model.kind=\"dnn_regressor\"");
    tasks.set("model.hidden_units=[8]");
    start(&mut tasks);
    let prometheus = scraping(folder.path(), &tasks);
    let held = "max(sum by (task) (trainyard_ps_memory_bytes{kind!=\"messages\"}))";
    let held = prometheus.wait_for(held, |held| held.iter().any(|held| *held > 1e6))[0];
    for alert in ["MemoryNearBound", "LogDiskLow"] {
        prometheus.wait_for_no_alert(&format!("Trainyard{alert}"));
    }

    tasks.kill_all();
    let bound = (held / 0.95) as u64;
    tasks.set(&format!("parameter_servers.memory_bytes_max={bound}"));
    start(&mut tasks);
    prometheus.wait_for_alert("TrainyardMemoryNearBound", None);

    disk.fill("ballast", 1 << 20);
    prometheus.wait_for_alert("TrainyardLogDiskLow", None);
    disk.free("ballast");
    prometheus.wait_for_no_alert("TrainyardLogDiskLow");
    tasks.kill_all();
}

trial!(alerts_tell_of_certificates_that_end_of_refused_calls_and_of_stale_gradients, needs Prometheus);
fn alerts_tell_of_certificates_that_end_of_refused_calls_and_of_stale_gradients() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger {
        rows: 1000,
        epochs: 1000,
        batch_size: 4,
        lanes: 1,
        servers: 1,
    };
    let job = ledger.write_saving(folder.path(), "save_checkpoints_steps = 1_000_000");
    let counts = LocalCounts {
        ps: 1,
        workers: 6,
        evaluators: 0,
    };
    let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let mut tasks = Supervisor::new(program, folder.path(), &job, counts, &[]);
    let authority = Authority::new().expect("random numbers");
    let of = |task: Task| {
        folder
            .path()
            .join(format!("tls-{}-{}", task.role, task.index))
    };
    let until = SystemTime::now() + DAY * 3;
    for task in tasks.tasks() {
        write_credentials(
            &of(task),
            task,
            (&authority, &authority),
            "127.0.0.1",
            until,
        );
    }
    let pattern = folder.path().join("tls-{role}-{index}");
    tasks.protect(&pattern.to_string_lossy());
    // The chief makes many steps while each of the others makes one.
    let slow = |millis: u64| format!("FAILPOINTS=worker.after_pull=sleep({millis})");
    tasks.wrap_next(CHIEF, vec!["env".to_owned(), slow(2)]);
    for worker in tasks.of_role(Role::Worker) {
        tasks.wrap_next(worker, vec!["env".to_owned(), slow(150)]);
    }
    start(&mut tasks);
    let prometheus = scraping(folder.path(), &tasks);
    prometheus.wait_for_alert("TrainyardCertificateEnds", Some("worker:5"));
    prometheus.wait_for_alert("TrainyardStalenessHigh", None);

    prometheus.wait_for_no_alert("TrainyardCallsRefused");
    let server = Task {
        role: Role::Ps,
        index: 0,
    };
    let credentials = of(WORKER);
    let code = call_as(
        WORKER,
        &credentials.to_string_lossy(),
        tasks.cluster(),
        server,
        "/trainyard.v1.ParameterService/SaveShard",
    );
    assert_eq!(code, Some(tonic::Code::PermissionDenied));
    prometheus.wait_for_alert("TrainyardCallsRefused", Some("ps:0"));
    tasks.kill_all();
}

trial!(an_alert_tells_of_a_task_that_is_quarantined, needs Prometheus);
fn an_alert_tells_of_a_task_that_is_quarantined() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut tasks = cluster(folder.path(), &folder.path().join("model"));
    let [good, bad] = ["good.csv", "bad.csv"].map(|name| folder.path().join(name));
    census_rows(&good, 400, 1);
    let rows = "3e38,3e38,w0,1000\n".repeat(400);
    std::fs::write(&bad, format!("x,z,word,y\n{rows}")).expect("written");
    // The first file is the chief's, the other one the worker's.
    tasks.set(&format!("input.train.files=[{good:?}, {bad:?}]"));
    tasks.set("input.train.sharding=\"file\"");
    tasks.set("parameter_servers.guard.quarantine_after=16");
    for task in tasks.tasks() {
        if task != WORKER {
            tasks.start(task);
        }
    }
    let prometheus = scraping(folder.path(), &tasks);
    // It counts what has happened since it looks.
    prometheus.wait_for("trainyard_quarantined_total", |found| found == [0.0]);
    tasks.start(WORKER);
    prometheus.wait_for_alert("TrainyardTaskQuarantined", Some("chief:0"));
    let told = tasks.lines(CHIEF, "worker:0 is quarantined");
    assert!(!told.is_empty(), "{}", tasks.last_lines());
    tasks.kill_all();
}

trial!(an_alert_tells_of_a_process_near_its_memory_limit, needs Prometheus MemoryGroups Mounts);
fn an_alert_tells_of_a_process_near_its_memory_limit() {
    const LIMIT_BYTES: u64 = 1 << 30;
    let folder = tempfile::tempdir().expect("a folder");
    let group = MemoryGroup::of(LIMIT_BYTES);
    let job = write_job(folder.path(), &folder.path().join("model"));
    let job = job.to_string_lossy();
    let arguments = ["train", &job, "--admin-listen", "127.0.0.1:0"];
    let mut training = group.start_program("trainyard", &arguments, &[]);
    let task = ("chief:0".to_owned(), training.admin_address(LIMIT));
    let rules = quick_rules(folder.path());
    let prometheus =
        Prometheus::start_with(&Need::Prometheus.program(), folder.path(), &[task], &rules);
    prometheus.wait_for("trainyard_memory_limit_bytes", |limit| {
        limit == [LIMIT_BYTES as f64]
    });
    prometheus.wait_for_no_alert("TrainyardMemoryNearLimit");

    // Files in memory count. A process that has little of what is in use goes on.
    let memory = Mount::of("1g");
    let used = group.used().expect("the kernel tells");
    let megabytes = ((LIMIT_BYTES * 96 / 100 - used) >> 20).to_string();
    let ballast = memory.path().join("ballast");
    let (file, count) = (
        format!("of={}", ballast.display()),
        format!("count={megabytes}"),
    );
    let filled = group.start_program("dd", &["if=/dev/zero", &file, "bs=1M", &count], &[]);
    assert_eq!(filled.wait(LIMIT).code, 0);
    prometheus.wait_for_alert("TrainyardMemoryNearLimit", Some("chief:0"));

    std::fs::remove_file(ballast).expect("it is removed");
    prometheus.wait_for_no_alert("TrainyardMemoryNearLimit");
    assert!(training.runs() && group.kills() == 0, "it trains on");
}

trial!(an_alert_tells_of_a_server_that_no_chief_has_claimed, needs Prometheus);
fn an_alert_tells_of_a_server_that_no_chief_has_claimed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut tasks = cluster(folder.path(), &folder.path().join("model"));
    tasks.start(SERVER);
    let prometheus = scraping(folder.path(), &tasks);
    prometheus.wait_for_alert("TrainyardServerNotReady", Some("ps:1"));
    // The tasks that were not started do not answer.
    prometheus.wait_for_alert("TrainyardTaskDown", Some("chief:0"));
    tasks.kill_all();
}

trial!(each_alert_of_serving_fires_once_its_fault_is_there, needs Prometheus);
fn each_alert_of_serving_fires_once_its_fault_is_there() {
    const ROW: &str = r#"{"instances": [{"x": 0.5, "z": -1, "word": "w1"}]}"#;
    const PREDICT: &str = "/v1/models/model:predict";
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let job = trained(folder.path(), 20);
    let file = path("serving.toml");
    let model = path("model");
    let text = format!(
        "queue_requests_max = 1\nbatch_delay_max_us = 200_000\n[[model]]\nname = \"model\"\npath = {model:?}\n"
    );
    std::fs::write(&file, text).expect("the configuration is written");
    let mut server = Server::start(&["--config", &file]);
    server.wait_for_version("model", 20);
    let task = ("serving".to_owned(), server.program.admin_address(LIMIT));
    let rules = quick_rules(folder.path());
    let prometheus =
        Prometheus::start_with(&Need::Prometheus.program(), folder.path(), &[task], &rules);
    for alert in ["VersionRefused", "ModelUnreachable", "ServingBusy"] {
        prometheus.wait_for_no_alert(&format!("Trainyard{alert}"));
    }

    let is_busy = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while is_busy.load(std::sync::atomic::Ordering::Relaxed) {
                    let (status, told) = client::post(&server.address, PREDICT, ROW);
                    assert!([200, 429].contains(&status), "{told}");
                }
            });
        }
        prometheus.wait_for_alert("TrainyardServingBusy", None);
        is_busy.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    prometheus.wait_for_no_alert("TrainyardServingBusy");

    // The next checkpoint is damaged on its way.
    let elsewhere = path("elsewhere");
    crate::serving::versions::copy(Path::new(&model), Path::new(&elsewhere));
    let more = ["--model-dir", &elsewhere, "--set", "train.max_steps=40"];
    run(&[&["train", &job][..], &more, &["--log-level", "error"]].concat());
    let name = "model.ckpt-40";
    let arriving = Path::new(&elsewhere).join(name);
    crate::serving::versions::damage(&arriving);
    std::fs::rename(arriving, Path::new(&model).join(name)).expect("it arrives");
    prometheus.wait_for_alert("TrainyardVersionRefused", None);

    let away = path("away");
    std::fs::rename(&model, &away).expect("it goes away");
    std::fs::write(&model, "no folder").expect("it is written");
    prometheus.wait_for_alert("TrainyardModelUnreachable", None);
}
