//! Metrics say what has happened: a job of known steps and a server of known requests are counted to the last one.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;
use trainyard_cluster_spec::{LocalCounts, Role, Task};
use trainyard_tests::{Ledger, Program, Supervisor, get, metric, program, write_job};

use crate::observability::{LIMIT, POLL_INTERVAL};
use crate::serving::{Server, client, trained};

const CHIEF: Task = Task {
    role: Role::Chief,
    index: 0,
};

/// Starts a job whose checkpoint of the end comes late: all steps are done by then, and every task still answers.
fn start_with_a_late_end(tasks: &mut Supervisor) {
    let late = [
        "env",
        "FAILPOINTS=chief.ckpt.before_manifest=1*off->sleep(15000)",
    ];
    tasks.wrap_next(CHIEF, late.map(str::to_owned).to_vec());
    tasks.start_all();
}

/// A page of metrics.
struct Scraped(String);

impl Scraped {
    fn of(address: &str) -> Option<Self> {
        get(address, "/metrics", LIMIT).map(|(_, body)| Self(body))
    }

    /// The sum of a metric over the series that have all of some labels, as `name="value"`.
    fn sum(&self, name: &str, labels: &[&str]) -> u64 {
        let values = self.0.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let (given, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.split_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            let has_all = labels.iter().all(|label| given.contains(label));
            has_all.then(|| value.trim().parse::<f64>().expect("a number"))
        });
        values.sum::<f64>() as u64
    }
}

trial!(steps_examples_pushes_and_checkpoints_of_a_job_are_counted_to_the_last_one);
fn steps_examples_pushes_and_checkpoints_of_a_job_are_counted_to_the_last_one() {
    const SERVERS: usize = 2;
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger {
        rows: 1000,
        epochs: 12,
        batch_size: 16,
        lanes: 1,
        servers: SERVERS,
    };
    let job = ledger.write_saving(folder.path(), "save_checkpoints_steps = 1_000_000");
    let counts = LocalCounts {
        ps: SERVERS,
        workers: 2,
        evaluators: 0,
    };
    let program = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let mut tasks = Supervisor::new(program, folder.path(), &job, counts, &[]);
    start_with_a_late_end(&mut tasks);
    let steps_of = |tasks: &Supervisor| -> u64 {
        let training = [tasks.of_role(Role::Worker), vec![CHIEF]].concat();
        let pages = training
            .into_iter()
            .filter_map(|task| Scraped::of(tasks.admin(task)));
        pages
            .map(|page| page.sum("trainyard_steps_total", &[]))
            .sum()
    };
    let steps = ledger.steps();
    // The chief asks the servers for theirs now and then.
    tasks.wait_until("all steps are done", LIMIT, |tasks| {
        let told = metric(tasks.admin(CHIEF), "trainyard_global_step").unwrap_or(0.0);
        steps_of(tasks) >= steps && told as u64 >= steps
    });
    // What is computed twice near the end may still be on its way.
    tasks.wait_until("each push is answered and counted", LIMIT, |tasks| {
        let pages = tasks.of_role(Role::Ps).into_iter();
        pages
            .filter_map(|task| Scraped::of(tasks.admin(task)))
            .all(|page| {
                let answered = page.sum("trainyard_ps_apply_seconds_count", &[]);
                answered == steps + page.sum("trainyard_ps_duplicates_total", &[])
            })
    });
    let page = |task| Scraped::of(tasks.admin(task)).expect("it answers");
    let training: Vec<Scraped> = [tasks.of_role(Role::Worker), vec![CHIEF]]
        .concat()
        .into_iter()
        .map(page)
        .collect();
    let servers: Vec<Scraped> = tasks.of_role(Role::Ps).into_iter().map(page).collect();
    let sum = |pages: &[Scraped], name: &str| -> u64 {
        pages.iter().map(|page| page.sum(name, &[])).sum()
    };
    // Near the end a task that has nothing left computes what others have not finished: servers know it twice. Each may have one
    // more on its way, and one that it gave up. Both tasks count a step of which each was the first at one of the servers.
    let again = sum(&servers, "trainyard_ps_duplicates_total");
    let counted = sum(&training, "trainyard_steps_total");
    let most = steps + again / SERVERS as u64;
    assert!(
        (steps..=most).contains(&counted),
        "{counted} of {steps}, {again} came again"
    );
    let computed = sum(&training, "trainyard_step_compute_seconds_count");
    let twice = sum(&training, "trainyard_duplicate_steps_total");
    let expected = counted + twice..=counted + twice + 2 * training.len() as u64;
    assert!(expected.contains(&computed), "{computed} of {expected:?}");
    let examples = ledger.lines() * ledger.epochs;
    let of_steps = examples..=examples + (counted - steps) * ledger.batch_size as u64;
    let trained = sum(&training, "trainyard_examples_total");
    assert!(of_steps.contains(&trained), "{trained} of {of_steps:?}");
    for server in &servers {
        assert_eq!(server.sum("trainyard_ps_pushes_total", &[]), steps);
        let twice = server.sum("trainyard_ps_duplicates_total", &[]);
        let answered = server.sum("trainyard_ps_apply_seconds_count", &[]);
        // A push that came again may be between the two.
        let expected = steps + twice..=steps + twice + training.len() as u64;
        assert!(expected.contains(&answered), "{answered} of {expected:?}");
        for none in ["trainyard_ps_stale_total", "trainyard_ps_rejected_total"] {
            assert_eq!(server.sum(none, &[]), 0, "{none}");
        }
    }
    let chief = page(CHIEF);
    assert_eq!(chief.sum("trainyard_global_step", &[]), steps);
    assert_eq!(chief.sum("trainyard_checkpoints_total", &[]), 1);
    assert_eq!(chief.sum("trainyard_checkpoint_step", &[]), 0);
    assert_eq!(chief.sum("trainyard_leases_lost_total", &[]), 0);
    assert_eq!(chief.sum("trainyard_cluster_epoch", &[]), 1);
    let sent = sum(&servers, "trainyard_ps_sent_bytes_total");
    let received = sum(&servers, "trainyard_ps_received_bytes_total");
    // What a server answered once more, and what was on its way to a task that had nothing left to do, is known on one side alone.
    let on_its_way = (training.len() * SERVERS) as u64;
    let calls = SERVERS as u64 * steps;
    for (name, of_servers) in [
        ("trainyard_pulled_bytes_total", sent),
        ("trainyard_pushed_bytes_total", received),
    ] {
        let of_tasks = sum(&training, name);
        let apart = of_tasks.abs_diff(of_servers);
        let largest = 2 * of_servers / calls;
        assert!(
            of_tasks > 0 && apart <= (again + on_its_way) * largest,
            "{name}: {of_tasks}, of servers {of_servers}, {again} answered once more"
        );
    }
    assert!(tasks.wait_for_end_of(CHIEF, LIMIT));
    assert_eq!(tasks.finish(LIMIT), [], "all end by themselves");
}

trial!(requests_rows_and_refusals_of_a_server_of_predictions_are_counted_to_the_last_one);
fn requests_rows_and_refusals_of_a_server_of_predictions_are_counted_to_the_last_one() {
    const ROW: &str = r#"{"x": 0.5, "z": -1, "word": "w1"}"#;
    let folder = tempfile::tempdir().expect("a folder");
    let job = trained(folder.path(), 20);
    let mut server = Server::start(&[&job]);
    server.wait_for_version("job", 20);
    let admin = server.program.admin_address(LIMIT);
    let address = &*server.address;
    let infer = r#"{"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]},
        {"name": "z", "shape": [2], "datatype": "FP32", "data": [1, 2]},
        {"name": "word", "shape": [2], "datatype": "BYTES", "data": ["a", "b"]}]}"#;
    for rows in 1..=5 {
        let rows = vec![ROW; rows].join(",");
        let body = format!(r#"{{"instances": [{rows}]}}"#);
        let (status, told) = client::post(address, "/v1/models/job:predict", &body);
        assert_eq!(status, 200, "{told}");
    }
    for _ in 0..3 {
        let (status, told) = client::post(address, "/v2/models/job/infer", infer);
        assert_eq!(status, 200, "{told}");
    }
    for body in ["{}", r#"{"instances": [{"x": "no number", "z": 1}]}"#] {
        let (status, told) = client::post(address, "/v1/models/job:predict", body);
        assert_eq!(status, 400, "{told}");
    }
    // An answer may be on its way before it is counted.
    let begun = Instant::now();
    let answered = ["model=\"job\"", "outcome=\"answered\""];
    let page = loop {
        let page = Scraped::of(&admin).expect("it answers");
        if page.sum("trainyard_serving_requests_total", &["model=\"job\""]) >= 10 {
            break page;
        }
        assert!(begun.elapsed() < LIMIT, "{}", page.0);
        std::thread::sleep(POLL_INTERVAL);
    };
    let requests = |labels: &[&str]| page.sum("trainyard_serving_requests_total", labels);
    assert_eq!(requests(&answered), 8, "{}", page.0);
    assert_eq!(
        requests(&["outcome=\"answered\"", "protocol=\"tensorflow-rest\""]),
        5
    );
    assert_eq!(
        requests(&["outcome=\"answered\"", "protocol=\"inference-rest\""]),
        3
    );
    assert_eq!(
        requests(&["outcome=\"refused\"", "protocol=\"tensorflow-rest\""]),
        2
    );
    assert_eq!(
        requests(&["outcome=\"failed\""]) + requests(&["outcome=\"busy\""]),
        0
    );
    let rows = 1 + 2 + 3 + 4 + 5 + 3 * 2;
    assert_eq!(page.sum("trainyard_serving_rows_total", &[]), rows);
    assert_eq!(page.sum("trainyard_serving_batch_rows_sum", &[]), rows);
    assert_eq!(page.sum("trainyard_serving_request_seconds_count", &[]), 8);
    assert_eq!(page.sum("trainyard_serving_queue_requests", &[]), 0);
    assert_eq!(page.sum("trainyard_serving_model_version", &[]), 20);
    assert_eq!(page.sum("trainyard_serving_versions_refused_total", &[]), 0);
    assert_eq!(page.sum("trainyard_serving_looks_failed_total", &[]), 0);
}

trial!(rows_of_a_dynamic_table_and_gradients_without_a_row_are_counted);
fn rows_of_a_dynamic_table_and_gradients_without_a_row_are_counted() {
    /// Ids that occur often, and ids that occur once and so have no row.
    const OFTEN: u64 = 40;
    const ONCE: u64 = 100;
    const TIMES: u64 = 20;
    const BATCH: u64 = 20;
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = "user,y\n".to_owned();
    for row in 0..OFTEN * TIMES {
        let _ = writeln!(text, "u{},{}", row % OFTEN, row % 2);
        if row % (OFTEN * TIMES / ONCE) == 0 {
            let _ = writeln!(text, "once{row},{}", row % 2);
        }
    }
    std::fs::write(folder.path().join("train.csv"), text).expect("written");
    let job = format!(
        r#"model_dir = '{}'
[input]
label = {{ column = "y" }}
train = {{ files = ["train.csv"], batch_size = {BATCH}, epochs = 1 }}
[[feature]]
column = "user"
kind = "dynamic"
rows_max = 1000
admit_after = 2
deep = {{ embedding = 4 }}
[model]
kind = "dnn_classifier"
hidden_units = [4]
[run]
save_checkpoints_steps = 1_000_000
"#,
        folder.path().join("model").display()
    );
    let path = folder.path().join("job.toml");
    std::fs::write(&path, job).expect("written");
    let counts = LocalCounts {
        ps: 2,
        workers: 1,
        evaluators: 0,
    };
    let mut tasks = Supervisor::new(&program("trainyard"), folder.path(), &path, counts, &[]);
    start_with_a_late_end(&mut tasks);
    let steps = (OFTEN * TIMES + ONCE).div_ceil(BATCH);
    tasks.wait_until("all steps are done", LIMIT, |tasks| {
        let told = metric(tasks.admin(CHIEF), "trainyard_global_step");
        told.is_some_and(|told| told as u64 >= steps)
    });
    let sum = |tasks: &Supervisor, name: &str| -> u64 {
        let pages = tasks.of_role(Role::Ps).into_iter();
        let pages = pages.filter_map(|task| Scraped::of(tasks.admin(task)));
        pages.map(|page| page.sum(name, &[])).sum()
    };
    // Servers count their rows now and then.
    tasks.wait_until("the rows are counted", LIMIT, |tasks| {
        sum(tasks, "trainyard_dynamic_rows") == OFTEN
    });
    assert_eq!(sum(&tasks, "trainyard_dynamic_evicted_total"), 0);
    // Those of the ids that occur once, and the first ones of the others, before and with their admission. Where the other task has read
    // an id for the second time before the first gradient comes, that one has a row.
    let dropped = sum(&tasks, "trainyard_dynamic_gradients_dropped_total");
    assert!((ONCE..=ONCE + 4 * OFTEN).contains(&dropped), "{dropped}");
    tasks.kill_all();
}

trial!(rows_that_a_full_table_gives_away_and_rows_that_expire_are_counted_to_the_last_one);
fn rows_that_a_full_table_gives_away_and_rows_that_expire_are_counted_to_the_last_one() {
    /// Each record has a user and an item that no other record has.
    const IDS: u64 = 1200;
    const BATCH: u64 = 20;
    const USERS_MAX: u64 = 200;
    const STEPS_OF_ITEMS: u64 = 15;
    let folder = tempfile::tempdir().expect("a folder");
    let mut text = "user,item,y\n".to_owned();
    for row in 0..IDS {
        let _ = writeln!(text, "u{row},i{row},{}", row % 2);
    }
    std::fs::write(folder.path().join("train.csv"), text).expect("written");
    let job = format!(
        r#"model_dir = '{}'
[input]
label = {{ column = "y" }}
train = {{ files = ["train.csv"], batch_size = {BATCH}, epochs = 1 }}
[[feature]]
column = "user"
kind = "dynamic"
rows_max = {USERS_MAX}
deep = {{ embedding = 4 }}
[[feature]]
column = "item"
kind = "dynamic"
rows_max = 100_000
expire_after_steps = {STEPS_OF_ITEMS}
deep = {{ embedding = 4 }}
[model]
kind = "dnn_classifier"
hidden_units = [4]
[run]
save_checkpoints_steps = 1_000_000
"#,
        folder.path().join("model").display()
    );
    let path = folder.path().join("job.toml");
    std::fs::write(&path, job).expect("written");
    let counts = LocalCounts {
        ps: 1,
        workers: 1,
        evaluators: 0,
    };
    let mut tasks = Supervisor::new(&program("trainyard"), folder.path(), &path, counts, &[]);
    start_with_a_late_end(&mut tasks);
    let server = tasks.of_role(Role::Ps)[0];
    let rows = |page: &Scraped, of: &str| page.sum("trainyard_dynamic_rows", &[of]);
    let evicted = |page: &Scraped, of: &str, reason: &str| {
        let reason = format!("reason=\"{reason}\"");
        page.sum("trainyard_dynamic_evicted_total", &[of, &reason])
    };
    // A push counts once, whoever else computes its step at the end.
    tasks.wait_until("each id has had its row", LIMIT, |tasks| {
        Scraped::of(tasks.admin(server)).is_some_and(|page| {
            rows(&page, "user") + evicted(&page, "user", "room") == IDS
                && rows(&page, "item") + evicted(&page, "item", "expired") == IDS
        })
    });
    let page = Scraped::of(tasks.admin(server)).expect("it answers");
    assert_eq!(rows(&page, "user"), USERS_MAX, "{}", page.0);
    // Both tasks may have been some steps apart.
    let left = STEPS_OF_ITEMS * BATCH..=(STEPS_OF_ITEMS + 2) * BATCH;
    assert!(left.contains(&rows(&page, "item")), "{}", page.0);
    assert_eq!(evicted(&page, "user", "expired"), 0);
    assert_eq!(evicted(&page, "item", "room"), 0);
    tasks.kill_all();
}

trial!(published_cuts_and_those_that_could_not_be_published_are_counted);
fn published_cuts_and_those_that_could_not_be_published_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let end = "[train]\nmax_steps = 100_000_000\n[publish]\nevery_secs = 1\n";
    let job = write_job(folder.path(), 400, end);
    let job = job.to_string_lossy();
    let arguments = ["train", &job, "--admin-listen", "127.0.0.1:0"];
    let mut training = Program::start("trainyard", &arguments, &[]);
    let admin = training.admin_address(LIMIT);
    let begun = Instant::now();
    let wait_for = |what: &str, holds: &dyn Fn(&Scraped) -> bool| {
        loop {
            let page = Scraped::of(&admin).expect("it answers");
            if holds(&page) {
                return page;
            }
            assert!(begun.elapsed() < LIMIT, "{what}: {}", page.0);
            std::thread::sleep(POLL_INTERVAL);
        }
    };
    let cuts = |page: &Scraped| page.sum("trainyard_published_cuts_total", &[]);
    let failures = |page: &Scraped| page.sum("trainyard_publish_failures_total", &[]);
    let page = wait_for("cuts", &|page| cuts(page) >= 2);
    assert_eq!(failures(&page), 0, "{}", page.0);
    assert!(page.sum("trainyard_published_bytes_total", &[]) > 0);
    assert!(page.sum("trainyard_published_unix_seconds", &[]) > 0);
    let timed = page.sum("trainyard_publish_seconds_count", &[]);
    assert!((cuts(&page)..=cuts(&page) + 1).contains(&timed), "{timed}");

    // Nothing can be published where a file has the folder's name.
    let publish = folder.path().join("model/publish");
    let away = folder.path().join("away");
    std::fs::rename(&publish, &away).expect("it goes away");
    std::fs::write(&publish, "no folder").expect("it is written");
    let page = wait_for("failures", &|page| failures(page) >= 2);
    let before = cuts(&page);
    std::fs::remove_file(&publish).expect("it is removed");
    std::fs::rename(&away, &publish).expect("it comes back");
    wait_for("cuts again", &|page| cuts(page) >= before + 2);
    training.signal(Signal::KILL);
}

trial!(roles_and_links_of_replicas_tell_of_a_server_that_stands_still_and_of_its_return);
fn roles_and_links_of_replicas_tell_of_a_server_that_stands_still_and_of_its_return() {
    /// Backup in sync, and primary whose answers wait for it; primary without a backup; connection in sync.
    const IN_SYNC: [u64; 2] = [2, 4];
    const ALONE: u64 = 3;
    const LINKED: u64 = 3;
    let servers = [0, 1].map(|index| Task {
        role: Role::Ps,
        index,
    });
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = Ledger {
        rows: 1000,
        epochs: Ledger::ENDLESS,
        batch_size: 16,
        lanes: 1,
        servers: 2,
    };
    let job = ledger.write_saving(folder.path(), "save_checkpoints_steps = 1_000_000");
    let counts = LocalCounts {
        ps: 2,
        workers: 1,
        evaluators: 0,
    };
    let settings = ["parameter_servers.durability=replica".to_owned()];
    let nemesis = Path::new(env!("CARGO_BIN_EXE_nemesis"));
    let mut tasks = Supervisor::new(nemesis, folder.path(), &job, counts, &settings);
    tasks.start_all();
    let of = |tasks: &Supervisor, server: Task, name: &str, shard: usize| {
        let page = Scraped::of(tasks.admin(server))?;
        Some(page.sum(name, &[&format!("shard=\"{shard}\"")]))
    };
    let of_both = |tasks: &Supervisor, name: &str, shard: usize| {
        let mut values = servers.map(|server| of(tasks, server, name, shard).unwrap_or_default());
        values.sort_unstable();
        values
    };
    let are_in_sync = |tasks: &Supervisor| {
        (0..2).all(|shard| {
            of_both(tasks, "trainyard_replica_role", shard) == IN_SYNC
                && of_both(tasks, "trainyard_replica_link", shard) == [0, LINKED]
        })
    };
    // Of both shards of a server.
    let lag = |tasks: &Supervisor, server: Task| {
        let page = Scraped::of(tasks.admin(server))?;
        let sum = |of| page.sum(&format!("trainyard_replica_lag_{of}"), &[]);
        Some((sum("records"), sum("bytes")))
    };
    tasks.wait_until("both shards are in sync", LIMIT, are_in_sync);
    tasks.signal(servers[1], Signal::STOP);
    tasks.wait_until("the other server is alone", LIMIT, |tasks| {
        (0..2).all(|shard| {
            of(tasks, servers[0], "trainyard_replica_role", shard) == Some(ALONE)
                && of(tasks, servers[0], "trainyard_replica_link", shard) < Some(LINKED)
        })
    });
    // It goes on with its own shard, of which the backup lacks more and more.
    tasks.wait_until("the other server lacks changes", LIMIT, |tasks| {
        of(tasks, servers[0], "trainyard_replica_lag_records", 0) > Some(200)
    });
    tasks.signal(servers[1], Signal::CONT);
    tasks.wait_until("both shards are in sync again", LIMIT, are_in_sync);
    for task in tasks.tasks() {
        if task.role != Role::Ps {
            tasks.signal(task, Signal::STOP);
        }
    }
    tasks.wait_until("the backups have confirmed all", LIMIT, |tasks| {
        servers
            .iter()
            .all(|server| lag(tasks, *server) == Some((0, 0)))
    });
    tasks.kill_all();
}
