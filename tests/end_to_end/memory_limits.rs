//! Parameter servers under the memory limit of a control group: they refuse what does not fit before the kernel kills them.

use trainyard_tests::{MemoryGroup, Program, TestCluster, program, write_job};

use crate::end_to_end::LIMIT;

/// Two dynamic tables of 40,000 ids each, of 4 kB a row with its slot.
const GROWING: &str = r#"
[[feature]]
column = "x"
name = "x id"
kind = "dynamic"
deep = { embedding = 512 }
[[feature]]
column = "z"
name = "z id"
kind = "dynamic"
deep = { embedding = 512 }
"#;
/// Small tables, of which each batch changes much.
const BUSY: &str = r#"
[[feature]]
column = "x"
name = "x hash"
kind = "hashed"
buckets = 2000
deep = { embedding = 256 }
[[feature]]
column = "z"
name = "z hash"
kind = "hashed"
buckets = 2000
deep = { embedding = 256 }
"#;

/// Settings of a job that saves no checkpoint by itself, and tells often how far it is.
const UNSAVED: [&str; 6] = [
    "--set",
    "input.train.batch_size=64",
    "--set",
    "run.log_step_count_steps=100",
    "--set",
    "run.save_checkpoints_steps=1000000",
];

fn all_of(programs: impl IntoIterator<Item = Program>) -> Vec<(i32, String)> {
    programs
        .into_iter()
        .map(|program| program.wait(LIMIT))
        .map(|ended| (ended.code, ended.output))
        .collect()
}

trial!(a_table_that_outgrows_the_memory_limit_of_its_server_ends_the_job_and_kills_nothing, needs MemoryGroups);
fn a_table_that_outgrows_the_memory_limit_of_its_server_ends_the_job_and_kills_nothing() {
    let group = MemoryGroup::of(160 << 20);
    let cluster = TestCluster::new(
        1,
        1,
        60_000,
        &format!("[train]\nmax_steps = 100000\n{GROWING}"),
    );
    let settings = ["--set", "input.train.batch_size=64"];
    let server = group.start(&cluster, "ps", 0, &settings, &[]);
    let worker = cluster.start("worker", 0, &settings);
    let chief = cluster.start("chief", 0, &settings);
    let ended = all_of([chief, worker]);
    assert_eq!(group.kills(), 0, "{}", ended[0].1);
    assert_eq!(ended[0].0, 73, "{}", ended[0].1);
    for part in [
        "E3009",
        "the limit of 167772160 bytes of the control group",
        "rows of new ids",
    ] {
        assert!(ended[0].1.contains(part), "no `{part}`: {}", ended[0].1);
    }
    server.signal(rustix::process::Signal::KILL);
    drop(server.wait(LIMIT));
}

trial!(a_server_pushes_more_than_its_memory_limit_and_trains_to_the_end, needs MemoryGroups);
fn a_server_pushes_more_than_its_memory_limit_and_trains_to_the_end() {
    let group = MemoryGroup::of(160 << 20);
    let cluster = TestCluster::new(1, 1, 60_000, &format!("[train]\nmax_steps = 3000\n{BUSY}"));
    let settings = [
        "--set",
        "input.train.batch_size=128",
        "--set",
        "run.save_checkpoints_steps=1000000",
    ];
    let server = group.start(&cluster, "ps", 0, &settings, &[]);
    let worker = cluster.start("worker", 0, &settings);
    let chief = cluster.start("chief", 0, &settings);
    let ended = all_of([chief, worker, server]);
    assert_eq!(group.kills(), 0, "{}", ended[2].1);
    for (code, output) in &ended {
        assert_eq!(*code, 0, "{output}");
    }
    assert_eq!(cluster.job_state()["global_step"].as_u64(), Some(3000));
}

trial!(a_job_with_another_optimizer_goes_on_from_values_of_more_than_half_of_the_memory_limit, needs MemoryGroups);
fn a_job_with_another_optimizer_goes_on_from_values_of_more_than_half_of_the_memory_limit() {
    let group = MemoryGroup::of(400 << 20);
    let cluster = TestCluster::new(
        1,
        1,
        60_000,
        &format!("[train]\nmax_steps = 700\n{GROWING}"),
    );
    let memory = tempfile::tempdir().expect("a temporary folder");
    let memory_dir = memory.path().to_string_lossy();
    let environment = [("TRAINYARD_SHARED_MEMORY_DIR", &*memory_dir)];
    let settings = |optimizer| [&UNSAVED[..], &["--set", optimizer]].concat();
    let first = settings("model.dnn_optimizer={ kind = \"adagrad\", learning_rate = 0.05 }");
    let server = group.start(&cluster, "ps", 0, &first, &environment);
    let worker = cluster.start("worker", 0, &first);
    let mut chief = cluster.start("chief", 0, &first);
    for _ in 0..2 {
        chief.wait_for_next("training step=", LIMIT);
    }
    for program in [chief, worker, server] {
        program.signal(rustix::process::Signal::KILL);
        drop(program.wait(LIMIT));
    }
    let second = settings("model.dnn_optimizer={ kind = \"adagrad\", learning_rate = 0.04 }");
    let server = group.start(&cluster, "ps", 0, &second, &environment);
    let worker = cluster.start("worker", 0, &second);
    let chief = cluster.start("chief", 0, &second);
    let ended = chief.wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let ended = all_of([worker, server]);
    for (code, output) in &ended {
        assert_eq!(*code, 0, "{output}");
    }
    assert_eq!(group.kills(), 0);
}

trial!(a_server_whose_memory_limit_is_below_what_any_server_needs_says_so, needs MemoryGroups);
fn a_server_whose_memory_limit_is_below_what_any_server_needs_says_so() {
    let group = MemoryGroup::of(48 << 20);
    let cluster = TestCluster::new(1, 1, 100, "[train]\nmax_steps = 1\n");
    let ended = group.start(&cluster, "ps", 0, &[], &[]).wait(LIMIT);
    assert_eq!((ended.code, group.kills()), (73, 0), "{}", ended.output);
    for part in [
        "E3009",
        "needs 67108864 bytes",
        "the limit of 50331648 bytes",
    ] {
        assert!(ended.output.contains(part), "no `{part}`: {}", ended.output);
    }
}

trial!(a_server_whose_memory_limit_does_not_hold_its_log_says_so_and_recovers_under_a_larger_one, needs MemoryGroups);
fn a_server_whose_memory_limit_does_not_hold_its_log_says_so_and_recovers_under_a_larger_one() {
    let large = MemoryGroup::of(700 << 20);
    let cluster = TestCluster::new(
        1,
        1,
        60_000,
        &format!("[train]\nmax_steps = 2000\n{GROWING}"),
    );
    let memory = tempfile::tempdir().expect("a temporary folder");
    let memory_dir = memory.path().to_string_lossy();
    let environment = [("TRAINYARD_SHARED_MEMORY_DIR", &*memory_dir)];
    let server = large.start(&cluster, "ps", 0, &UNSAVED, &environment);
    let worker = cluster.start("worker", 0, &UNSAVED);
    let mut chief = cluster.start("chief", 0, &UNSAVED);
    for _ in 0..8 {
        chief.wait_for_next("training step=", LIMIT);
    }
    server.signal(rustix::process::Signal::KILL);
    drop(server.wait(LIMIT));
    let small = MemoryGroup::of(100 << 20);
    for _attempt in 0..2 {
        let refused = small
            .start(&cluster, "ps", 0, &UNSAVED, &environment)
            .wait(LIMIT);
        assert_eq!(refused.code, 73, "{}", refused.output);
        for part in [
            "E3009",
            "what its log leads to",
            "the limit of 104857600 bytes",
            "no update is lost",
        ] {
            assert!(
                refused.output.contains(part),
                "no `{part}`: {}",
                refused.output
            );
        }
    }
    assert_eq!(small.kills(), 0);
    let mut server = large.start(&cluster, "ps", 0, &UNSAVED, &environment);
    server.wait_for("recovered the values from the log", LIMIT);
    let ended = all_of([chief, worker, server]);
    for (code, output) in &ended {
        assert_eq!(*code, 0, "{output}");
    }
    assert!(!ended[0].1.contains("restoring every"), "{}", ended[0].1);
    assert_eq!(
        (large.kills(), cluster.job_state()["global_step"].as_u64()),
        (0, Some(2000))
    );
}

trial!(check_names_the_limits_of_this_machine_before_a_job_starts);
fn check_names_the_limits_of_this_machine_before_a_job_starts() {
    // Its largest checkpoint fits any machine.
    let growing = GROWING.replace("dynamic\"\n", "dynamic\"\nrows_max = 1_000\n");
    let cluster = TestCluster::new(1, 1, 100, &format!("[train]\nmax_steps = 1\n{growing}"));
    let job = cluster.job.to_string_lossy();
    let ended = Program::start("trainyard", &["check", &job], &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    for line in [
        "ok  memory",
        "ok  log",
        "ok  open files",
        "ok  dynamic table",
    ] {
        assert!(ended.output.contains(line), "no `{line}`: {}", ended.output);
    }
    // 512 values and as many of each of Adam's two slots, and what goes with a row.
    assert!(
        ended
            .output
            .contains("about 6224 bytes of a server's memory an id"),
        "{}",
        ended.output
    );
}

trial!(check_names_limits_of_the_shell_and_shared_memory_that_cannot_be_written);
fn check_names_limits_of_the_shell_and_shared_memory_that_cannot_be_written() {
    let cluster = TestCluster::new(1, 1, 100, "[train]\nmax_steps = 1\n");
    let job = cluster.job.to_string_lossy();
    let command = program("trainyard");
    let limited = "ulimit -f 2000000 && ulimit -v 64000000 && exec \"$@\"";
    let arguments = [
        "-c",
        limited,
        "bash",
        &*command.to_string_lossy(),
        "check",
        &job,
    ];
    let environment = [("TRAINYARD_SHARED_MEMORY_DIR", "/nowhere")];
    let ended = Program::start("bash", &arguments, &environment).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    for line in [
        "at most 2048000000 bytes by `ulimit -f`",
        "at most 65536000000 bytes by `ulimit -v`",
        "in /nowhere, which cannot be written here",
    ] {
        assert!(ended.output.contains(line), "no `{line}`: {}", ended.output);
    }
}

trial!(check_warns_of_limits_with_which_no_task_starts_and_up_ends_with_their_code);
fn check_warns_of_limits_with_which_no_task_starts_and_up_ends_with_their_code() {
    let cluster = TestCluster::new(1, 1, 100, "[train]\nmax_steps = 1\n");
    let job = cluster.job.to_string_lossy();
    let command = program("trainyard");
    let limited = |limit: &str, arguments: &[&str]| {
        let script = format!("{limit} && exec \"$@\"");
        let command = command.to_string_lossy();
        let all = [&["-c", &script, "bash", &*command], arguments].concat();
        Program::start("bash", &all, &[]).wait(LIMIT)
    };
    let checked = limited(
        "ulimit -n 20 && ulimit -f 1024",
        &["check", &job, "--cluster", "local:ps=1,worker=1"],
    );
    assert_eq!(checked.code, 0, "{}", checked.output);
    for line in [
        "warning[E3010]: a task may have 20 open files, and needs 64 at least",
        "warning[E1202]: a file may have 1048576 bytes, and a file of a server's log has 8388608",
    ] {
        assert!(
            checked.output.contains(line),
            "no `{line}`: {}",
            checked.output
        );
    }
    for limit in [
        "ulimit -n 5",
        "ulimit -n 14",
        "ulimit -n 20",
        "ulimit -v 500000",
    ] {
        let ended = limited(limit, &["up", &job, "--cluster", "local:ps=1,worker=1"]);
        assert_eq!(ended.code, 73, "{limit}: {}", ended.output);
        let code = if limit.contains("-v") {
            "E3009"
        } else {
            "E3010"
        };
        assert!(ended.output.contains(code), "{limit}: {}", ended.output);
    }
    let absent = "export TMPDIR=/nowhere/at/all";
    let ended = limited(absent, &["up", &job, "--cluster", "local:ps=1,worker=1"]);
    assert_eq!(ended.code, 77, "{}", ended.output);
    assert!(
        ended.output.contains("let TMPDIR name a folder"),
        "{}",
        ended.output
    );
}

trial!(a_folder_for_logs_in_memory_that_is_empty_text_or_lies_on_a_disk_is_told);
fn a_folder_for_logs_in_memory_that_is_empty_text_or_lies_on_a_disk_is_told() {
    let cluster = TestCluster::new(1, 1, 100, "[train]\nmax_steps = 1\n");
    let job = cluster.job.to_string_lossy();
    let run = |arguments: &[&str], folder: &str| {
        let environment = [("TRAINYARD_SHARED_MEMORY_DIR", folder)];
        let ended = Program::start("trainyard", arguments, &environment).wait(LIMIT);
        (ended.code, ended.output)
    };
    let model_dir = cluster.model_dir();
    let on_disk = model_dir.parent().expect("a folder");
    let on_disk = on_disk.to_string_lossy();
    let (code, checked) = run(&["check", &job], "");
    assert_eq!(code, 0, "{checked}");
    assert!(
        checked.contains("TRAINYARD_SHARED_MEMORY_DIR is empty"),
        "{checked}"
    );
    let up = ["up", &job, "--cluster", "local:ps=1,worker=1"];
    let (code, told) = run(&up, "");
    assert_eq!(code, 64, "{told}");
    assert!(told.contains("unset TRAINYARD_SHARED_MEMORY_DIR"), "{told}");
    let (code, checked) = run(&["check", &job], &on_disk);
    assert_eq!(code, 0, "{checked}");
    assert!(checked.contains("lies on a disk"), "{checked}");
    let (code, told) = run(&up, &on_disk);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("lies on a disk"), "{told}");
}

/// A dense layer whose activations take a gigabyte for a batch of many rows.
const WIDE: &[&str] = &[
    "--set",
    "model.hidden_units=[4096]",
    "--set",
    "input.train.batch_size=60000",
    "--set",
    "strategy.partitioner={ kind = \"fixed\", num_shards = 1 }",
];

trial!(a_worker_whose_batches_outgrow_its_memory_limit_ends_with_a_message_before_the_kernel_kills_it, needs MemoryGroups);
fn a_worker_whose_batches_outgrow_its_memory_limit_ends_with_a_message_before_the_kernel_kills_it()
{
    let group = MemoryGroup::of(300 << 20);
    let cluster = TestCluster::new(1, 1, 60_000, "[train]\nmax_steps = 1000\n");
    let server = cluster.start("ps", 0, WIDE);
    let chief = cluster.start(
        "chief",
        0,
        &[WIDE, &["--set", "strategy.chief_trains=false"]].concat(),
    );
    let worker = group.start(&cluster, "worker", 0, WIDE, &[]);
    let ended = worker.wait(LIMIT);
    assert_eq!(group.kills(), 0, "{}", ended.output);
    assert_told_of_limit(&ended.output, ended.code);
    drop((server, chief));
}

trial!(a_job_in_one_process_that_outgrows_its_memory_limit_ends_with_a_message, needs MemoryGroups);
fn a_job_in_one_process_that_outgrows_its_memory_limit_ends_with_a_message() {
    for more in [WIDE, &["--set", "input.train.batch_size=64"]] {
        let group = MemoryGroup::of(160 << 20);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let end = format!("[train]\nmax_steps = 100000\n{GROWING}");
        let job = write_job(folder.path(), 60_000, &end);
        let job = job.to_string_lossy();
        let arguments = [&["train", &*job, "--no-evaluation"], more].concat();
        let ended = group
            .start_program("trainyard", &arguments, &[])
            .wait(LIMIT);
        assert_eq!(group.kills(), 0, "{}", ended.output);
        assert_told_of_limit(&ended.output, ended.code);
    }
}

trial!(whoever_reads_a_checkpoint_that_its_memory_limit_does_not_hold_says_so_before_it_reads, needs MemoryGroups);
fn whoever_reads_a_checkpoint_that_its_memory_limit_does_not_hold_says_so_before_it_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let end = format!("[train]\nmax_steps = 300\n{GROWING}");
    let job = write_job(folder.path(), 60_000, &end);
    let set = ["--set", "input.train.batch_size=256"];
    let job = job.to_string_lossy();
    let trained = [&["train", &*job, "--no-evaluation"], &set[..]].concat();
    let ended = Program::start("trainyard", &trained, &[]).wait(LIMIT);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let out = folder.path().join("out");
    let out = out.to_string_lossy();
    let cluster = folder.path().join("cluster.toml");
    std::fs::write(&cluster, "[cluster]\nchief = [\"127.0.0.1:1\"]\n").expect("written");
    let cluster = cluster.to_string_lossy();
    let readers: [(&str, &[&str]); 4] = [
        ("trainyard", &["evaluate", &job]),
        ("trainyard", &["predict", &job, "--output", &out]),
        ("trainyard", &["export", &job, "--output", &out]),
        (
            "trainyard-evaluator",
            &["--job", &job, "--cluster", &cluster, "--index", "0"],
        ),
    ];
    for (program, arguments) in readers {
        let group = MemoryGroup::of(80 << 20);
        let ended = group.start_program(program, arguments, &[]).wait(LIMIT);
        assert_eq!(group.kills(), 0, "{}", ended.output);
        assert_told_of_limit(&ended.output, ended.code);
        assert!(
            ended.output.contains("bytes of values"),
            "{arguments:?}: {}",
            ended.output
        );
    }
}

/// Returns the nice value of a thread of a process, by its name.
fn nice_of(process: u32, name: &str) -> Option<i32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    threads.filter_map(Result::ok).find_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        let (head, fields) = stat.rsplit_once(") ")?;
        // Behind the name come the fields from the third on; the 19th is the nice value.
        let nice = fields.split_ascii_whitespace().nth(16)?;
        head.ends_with(&format!("({name}"))
            .then(|| nice.parse().ok())?
    })
}

trial!(the_guard_of_memory_has_its_turn_before_other_threads, needs MemoryGroups);
fn the_guard_of_memory_has_its_turn_before_other_threads() {
    let group = MemoryGroup::of(300 << 20);
    let cluster = TestCluster::new(1, 1, 100, "[train]\nmax_steps = 1\n");
    let mut server = group.start(&cluster, "ps", 0, &[], &[]);
    server.wait_for("serving", LIMIT);
    let begun = std::time::Instant::now();
    // It starts beside the others.
    while nice_of(server.id(), "memory guard") != Some(-20) {
        assert!(
            begun.elapsed() < LIMIT && server.runs(),
            "{:?}",
            nice_of(server.id(), "memory guard")
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let others = nice_of(server.id(), "tokio-rt-worker");
    assert!(others.is_none_or(|nice| nice == 0), "{others:?}");
}

fn assert_told_of_limit(output: &str, code: i32) {
    assert_eq!(code, 73, "{output}");
    for part in ["E3009", "of the control group", "raise the memory limit"] {
        assert!(output.contains(part), "no `{part}`: {output}");
    }
}
