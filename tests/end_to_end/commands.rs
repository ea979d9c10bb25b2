//! Commands beside training, each run for real and held to the values that it tells.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use trainyard_tests::{Program, TestCluster};

use crate::end_to_end::solo::{Solo, Trained, json, trainyard};
use crate::end_to_end::{LIMIT, takeover};

fn number(value: &Value, key: &str) -> f64 {
    value[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no number {key} in {value}"))
}

trial!(no_output_of_a_command_replaces_a_file_of_its_job_or_of_its_run);
fn no_output_of_a_command_replaces_a_file_of_its_job_or_of_its_run() {
    let solo = Solo::wide_and_deep(400, "");
    let job = solo.argument("job.toml");
    trainyard(&["train", &job], 0);
    let model = solo.path("model");
    let step = std::fs::read_dir(&model)
        .expect("the model directory")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().contains("model.ckpt-"))
        .expect("a checkpoint");
    let mut files: Vec<_> = ["job.toml", "train.csv", "eval.csv"]
        .map(|name| solo.path(name))
        .into();
    files.extend([step.join("manifest.json"), model.join("job.toml")]);
    for file in &files {
        let before = std::fs::read(file).expect("it is there");
        let shown = file.to_string_lossy();
        for command in [
            &["evaluate", &job, "--output", &shown][..],
            &["predict", &job, "--output", &shown],
            &["transform", &job, "--output", &shown],
            &["train", &job, "--report", &shown],
            &[
                "up",
                &job,
                "--cluster",
                "local:ps=1,worker=1",
                "--report",
                &shown,
            ],
        ] {
            let told = trainyard(command, 64);
            assert!(told.contains("would be replaced"), "{command:?}: {told}");
            let after = std::fs::read(file).expect("it is there");
            assert_eq!(after, before, "{command:?}");
        }
    }
    let from = model.to_string_lossy().into_owned();
    let manifest = step.join("manifest.json").to_string_lossy().into_owned();
    let elsewhere = solo.argument("elsewhere");
    for command in ["evaluate", "predict"] {
        let told = trainyard(
            &[
                command,
                &job,
                "--model-dir",
                &elsewhere,
                "--from",
                &from,
                "--output",
                &manifest,
            ],
            64,
        );
        assert!(told.contains("would be replaced"), "{command}: {told}");
    }
    let beside = solo.argument("predictions.csv");
    trainyard(&["predict", &job, "--output", &beside], 0);
    trainyard(&["predict", &job, "--output", &beside], 0);
}

trial!(bench_input_reads_all_records_in_the_time_that_it_tells);
fn bench_input_reads_all_records_in_the_time_that_it_tells() {
    let solo = Solo::wide_and_deep(4000, "");
    let job = solo.argument("job.toml");
    let bench = |more: &[&str], code: i32| {
        let began = Instant::now();
        let told = trainyard(
            &[&["bench", "input", &job, "--format", "json"], more].concat(),
            code,
        );
        (told, began.elapsed().as_secs_f64())
    };
    let (told, seconds) = bench(&["--seconds", "60"], 0);
    let told = json(&told);
    // Two passes, once to read and once to make ready.
    let read = 8000.0 / number(&told, "records_per_second");
    let ready = 8000.0 / number(&told, "ready_records_per_second");
    assert!(
        read > 0.0 && ready > 0.0 && read + ready < seconds,
        "{read} s and {ready} s of {seconds} s"
    );
    // An input without end is left when the time is over.
    let endless = [
        "--seconds",
        "0.3",
        "--set",
        "input.train.epochs=1_000_000_000",
    ];
    let (told, seconds) = bench(&endless, 0);
    assert!(
        seconds > 0.6 && number(&json(&told), "records_per_second") > 0.0,
        "{seconds} s: {told}"
    );
    // It reads what a job reads, to the last row.
    solo.write("train.csv", &(solo.read("train.csv") + "1,2,w1,none\n"));
    let (told, _) = bench(&["--seconds", "60"], 65);
    assert!(told.contains("error[E4004]"), "{told}");
}

trial!(bench_model_times_the_batches_of_the_job_with_its_threads);
fn bench_model_times_the_batches_of_the_job_with_its_threads() {
    let solo = Solo::wide_and_deep(1600, "");
    let job = solo.argument("job.toml");
    for threads in [1_u64, 2] {
        let set = format!("run.intra_op_parallelism_threads={threads}");
        let arguments = [
            "bench",
            "model",
            &job,
            "--format",
            "json",
            "--seconds",
            "0.3",
            "--set",
            &set,
        ];
        let told = json(&trainyard(&arguments, 0));
        assert_eq!(told["threads"].as_u64(), Some(threads), "{told}");
        let step = number(&told, "ms_per_step");
        let rate = number(&told, "examples_per_second");
        assert!(
            (rate * step / 1e3 - 16.0).abs() < 1e-6,
            "steps of 16 examples: {told}"
        );
        // Kernels of 6 inputs (two numbers and an embedding of 4) to 8 units, and of 8 to 1; forward and two products back.
        let expected = 6.0 * rate * f64::from(6 * 8 + 8) / 1e9;
        let told = number(&told, "gflop_per_second");
        assert!(
            (told / expected - 1.0).abs() < 1e-6,
            "{told} is not {expected} GFLOP/s"
        );
    }
}

/// Runs `bench ps`.
fn bench_ps(more: &[&str]) -> Value {
    json(&trainyard(
        &[
            &["bench", "ps", "--format", "json", "--seconds", "1.5"],
            more,
        ]
        .concat(),
        0,
    ))
}

/// Bytes that a step pulls, and pushes.
fn bytes_per_step(told: &Value) -> [f64; 2] {
    ["pulled_mb_per_second", "pushed_mb_per_second"]
        .map(|rate| number(told, rate) * 1e6 / number(told, "steps_per_second"))
}

fn assert_near(given: f64, expected: f64, share: f64, what: &str) {
    assert!(
        (given / expected - 1.0).abs() < share,
        "{what}: {given} is not about {expected}"
    );
}

trial!(values_of_16_bits_halve_what_bench_ps_moves);
fn values_of_16_bits_halve_what_bench_ps_moves() {
    for (payload, bytes) in [("float32", 4.0), ("bfloat16", 2.0), ("float16", 2.0)] {
        let told = bench_ps(&["--dense", "50000", "--payload", payload, "--ps", "2"]);
        assert_eq!(
            (told["ps"].as_u64(), told["dense"].as_u64()),
            (Some(2), Some(50_000)),
            "{told}"
        );
        for moved in bytes_per_step(&told) {
            assert_near(moved, 50_000.0 * bytes, 0.05, payload);
        }
    }
}

trial!(bench_ps_reads_ahead_as_far_as_it_is_told);
fn bench_ps_reads_ahead_as_far_as_it_is_told() {
    let slow = ["--dense", "100", "--slow-ps-ms", "60", "--compute-ms", "60"];
    let step = |depth: &str| bench_ps(&[&slow[..], &["--pipeline-depth", depth]].concat());
    // One after the other: 120 ms on the way there and back, then 60 ms of work.
    let alone = step("0");
    assert!(
        number(&alone, "steps_per_second") <= 1e3 / 180.0 && number(&alone, "p50_ms") >= 120.0,
        "{alone}"
    );
    // Side by side: it works all the time, which no step after another can.
    let ahead = step("3");
    assert!(
        number(&ahead, "steps_per_second") > 1e3 / 180.0 && number(&ahead, "p50_ms") < 120.0,
        "{ahead}"
    );
}

/// Returns whether a folder holds this file, in a folder of its own.
fn holds(folder: &Path, name: &str) -> bool {
    std::fs::read_dir(folder)
        .expect("the folder")
        .filter_map(Result::ok)
        .any(|entry| entry.path().join(name).exists())
}

trial!(servers_of_bench_ps_listen_at_socket_files_where_they_are_told_to);
fn servers_of_bench_ps_listen_at_socket_files_where_they_are_told_to() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().to_string_lossy().into_owned();
    let load = [
        "bench",
        "ps",
        "--format",
        "json",
        "--seconds",
        "1",
        "--dense",
        "1000",
        "--rows",
        "100",
        "--ps",
        "2",
    ];
    for (sockets, expected) in [(&["--unix-sockets"][..], true), (&[], false)] {
        let arguments = [&load[..], sockets].concat();
        let mut program = Program::start("trainyard", &arguments, &[("TMPDIR", &place)]);
        let mut seen = false;
        while program.runs() {
            seen |= ["ps-0.sock", "ps-1.sock"]
                .iter()
                .all(|name| holds(folder.path(), name));
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        assert_eq!(seen, expected, "socket files");
        let told = json(&ended.output);
        // A row is 16 values.
        for moved in bytes_per_step(&told) {
            assert_near(
                moved,
                4.0 * (1000.0 + 100.0 * 16.0),
                0.05,
                "a vector and 100 rows",
            );
        }
        assert_near(
            number(&told, "rows_per_second"),
            100.0 * number(&told, "steps_per_second"),
            0.05,
            "rows",
        );
    }
    assert_eq!(
        std::fs::read_dir(folder.path())
            .expect("the folder")
            .count(),
        0,
        "nothing is left behind"
    );
    let both = trainyard(
        &[
            "bench",
            "ps",
            "--dense",
            "10",
            "--unix-sockets",
            "--slow-ps-ms",
            "5",
        ],
        64,
    );
    assert!(both.contains("cannot be used with"), "{both}");
    let none = trainyard(&["bench", "ps"], 64);
    assert!(none.contains("nothing to move"), "{none}");
}

trial!(renamed_variables_of_a_tensorflow_checkpoint_predict_what_tensorflow_predicts);
fn renamed_variables_of_a_tensorflow_checkpoint_predict_what_tensorflow_predicts() {
    // The column has another name than in the checkpoint.
    let solo = Solo::new(&takeover::JOB.replace("column = \"c\"", "column = \"letter\""));
    solo.write("train.csv", &takeover::ROWS.replace("x,c,y", "x,letter,y"));
    let from = takeover::tensorflow().to_string_lossy().into_owned();
    let job = solo.argument("job.toml");
    let import = |more: &[&str], code: i32| {
        trainyard(&[&["import-tf", &from, "--job", &job], more].concat(), code)
    };
    let layer = "dnn/input_from_feature_columns/input_layer";
    let [deep, wide] = [
        (
            format!("{layer}/letter_embedding/embedding_weights"),
            format!("{layer}/c_embedding/embedding_weights"),
        ),
        (
            "linear/linear_model/letter/weights".to_owned(),
            "linear/linear_model/c/weights".to_owned(),
        ),
    ];
    let refused = import(&["--write"], 65);
    assert!(
        refused.contains("error[E3002]: 2 of the job's variables cannot be taken"),
        "{refused}"
    );
    assert!(
        refused.contains(&deep.0) && refused.contains(&wide.0),
        "{refused}"
    );
    let renames = [&deep, &wide].map(|(ours, theirs)| format!("{ours}={theirs}"));
    let renames = ["--rename", &renames[0], "--rename", &renames[1]];
    let matched = json(&import(&[&renames[..], &["--format", "json"]].concat(), 0));
    assert_eq!(matched["global_step"].as_u64(), Some(20), "{matched}");
    for (ours, theirs) in [&deep, &wide] {
        let of = |slot: &Value| {
            let rows = matched["variables"].as_array().expect("variables");
            let row = rows
                .iter()
                .find(|row| row["variable"] == *ours.as_str() && row["slot"] == *slot);
            row.unwrap_or_else(|| panic!("no {ours} {slot} in {matched}"))["tensor"].clone()
        };
        assert_eq!(of(&Value::Null), *theirs.as_str());
    }
    let written = import(&[&renames[..], &["--write"]].concat(), 0);
    assert!(
        written.contains("at step 20; 0 optimizer slots start from their initial values"),
        "{written}"
    );
    let predicted = trainyard(&["predict", &job], 0);
    let logits: Vec<f64> = predicted
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok()?["logits"][0].as_f64())
        .collect();
    // What TensorFlow 2.15 predicts from the same checkpoint.
    let expected = [
        -0.299_007_296_562_194_8,
        -0.527_061_104_774_475_1,
        -0.002_811_035_607_010_126,
        -1.961_603_164_672_851_6,
    ];
    assert_eq!(logits.len(), expected.len(), "{predicted}");
    for (given, expected) in logits.iter().zip(expected) {
        assert!((given - expected).abs() < 1e-5, "{given} is not {expected}");
    }
    let wrong = import(&["--rename", "nothing"], 78);
    assert!(
        wrong.contains("error[E1002]") && wrong.contains("OURS=THEIRS"),
        "{wrong}"
    );
}

trial!(training_without_evaluation_reads_no_evaluation_data_and_trains_the_same);
fn training_without_evaluation_reads_no_evaluation_data_and_trains_the_same() {
    let solo = Solo::wide_and_deep(1000, "[train]\nmax_steps = 100\n");
    let job = solo.argument("job.toml");
    let train = |model: &str, more: &[&str], code: i32| {
        trainyard(
            &[&["train", &job, "--model-dir", &solo.argument(model)], more].concat(),
            code,
        )
    };
    let evaluated = train("evaluated", &[], 0);
    assert!(
        evaluated.contains("evaluation at step 100") && evaluated.contains("auc"),
        "{evaluated}"
    );
    assert!(
        solo.path("evaluated/eval/metrics.jsonl").exists()
            && solo.path("evaluated/export/best").exists()
    );
    std::fs::remove_file(solo.path("eval.csv")).expect("it is there");
    let missing = train("missing", &[], 66);
    assert!(missing.contains("error[E4002]"), "{missing}");
    let alone = train("alone", &["--no-evaluation"], 0);
    assert!(
        alone.contains("trained to step 100") && !alone.contains("evaluation at step"),
        "{alone}"
    );
    assert!(!solo.path("alone/eval").exists() && !solo.path("alone/export").exists());
    Trained::of(&solo.path("alone"))
        .assert_equals(&Trained::of(&solo.path("evaluated")), "--no-evaluation");
}

trial!(a_run_trains_beside_foreign_files_and_replaces_none);
fn a_run_trains_beside_foreign_files_and_replaces_none() {
    let solo = Solo::wide_and_deep(400, "");
    let (job, folder) = (solo.argument("job.toml"), solo.argument("."));
    let train = ["train", &job, "--model-dir", &folder];
    let read = |name: &str| std::fs::read(solo.path(name)).expect("it is there");
    let names = ["job.toml", "train.csv", "eval.csv"];
    let before = names.map(read);
    std::fs::write(solo.path("checkpoint"), "mine").expect("it is written");
    let told = trainyard(&train, 64);
    assert!(
        told.contains("error[E1000]") && told.contains("checkpoint is no file of a run"),
        "{told}"
    );
    assert_eq!(read("checkpoint"), b"mine");
    assert!(!solo.path("cluster_id").exists(), "nothing was begun");
    std::fs::remove_file(solo.path("checkpoint")).expect("it is there");
    trainyard(&train, 0);
    assert!(solo.path("checkpoint").exists());
    assert_eq!(names.map(read), before);
}

trial!(outputs_replace_existing_files_only_by_force);
fn outputs_replace_existing_files_only_by_force() {
    let solo = Solo::wide_and_deep(400, "");
    let (data, job) = (solo.argument("train.csv"), solo.argument("job.toml"));
    let folder = solo.argument(".");
    let before = std::fs::read(solo.path("job.toml")).expect("it is there");
    for command in [
        &["convert", "--to", "csv", &data, &job][..],
        &["datagen", "census", "--rows", "20", "--out", &folder],
        &["init", &data, "--eval-share", "0", "--out", &folder],
    ] {
        let told = trainyard(command, 64);
        assert!(told.contains("give --force"), "{command:?}: {told}");
    }
    let told = trainyard(&["convert", "--force", &data, &data], 64);
    assert!(told.contains("is read, and would be replaced"), "{told}");
    let told = trainyard(
        &["convert", "--force", "--to", "csv", &data, "/dev/null"],
        64,
    );
    assert!(told.contains("is no regular file"), "{told}");
    assert_eq!(
        std::fs::read(solo.path("job.toml")).expect("it is there"),
        before
    );
    let copy = solo.argument("copy.csv");
    trainyard(&["convert", &data, &copy], 0);
    trainyard(&["convert", "--force", &data, &copy], 0);
    trainyard(
        &[
            "datagen", "census", "--rows", "20", "--force", "--out", &folder,
        ],
        0,
    );
}

trial!(outputs_through_links_make_the_files_that_the_links_name);
fn outputs_through_links_make_the_files_that_the_links_name() {
    let solo = Solo::wide_and_deep(400, "");
    let (data, job) = (solo.argument("train.csv"), solo.argument("job.toml"));
    trainyard(&["train", &job], 0);
    for folder in ["made", "links"] {
        std::fs::create_dir(solo.path(folder)).expect("there is room");
    }
    let link = solo.argument("links/out");
    let out = solo.argument("links");
    for (name, command) in [
        (
            "out",
            &["convert", "--force", "--to", "csv", &data, &link][..],
        ),
        (
            "out",
            &["convert", "--force", "--to", "parquet", &data, &link],
        ),
        (
            "out",
            &["convert", "--force", "--to", "tfrecord", &data, &link],
        ),
        ("out", &["evaluate", &job, "--output", &link]),
        ("out", &["predict", &job, "--output", &link]),
        (
            "out",
            &["predict", &job, "--format", "parquet", "--output", &link],
        ),
        ("out", &["transform", &job, "--output", &link]),
        ("out", &["train", &job, "--report", &link]),
        (
            "train.csv",
            &[
                "datagen", "census", "--rows", "20", "--force", "--out", &out,
            ],
        ),
        (
            "job.toml",
            &["init", &data, "--force", "--seconds", "0", "--out", &out],
        ),
        ("ca.crt", &["pki", "--serving", "localhost", "--out", &out]),
    ] {
        let (link, file) = (
            solo.path(&format!("links/{name}")),
            solo.path(&format!("made/{name}")),
        );
        std::os::unix::fs::symlink(format!("../made/{name}"), &link).expect("a link");
        trainyard(command, 0);
        assert!(link.is_symlink(), "{command:?}");
        let bytes = std::fs::read(&file).expect("made");
        assert!(!bytes.is_empty(), "{command:?}");
        std::fs::remove_file(&file).expect("removed");
        std::fs::remove_file(&link).expect("removed");
    }
    std::os::unix::fs::symlink("../absent/out", &link).expect("a link");
    for command in [
        &["convert", "--force", "--to", "csv", &data, &link][..],
        &["predict", &job, "--output", &link],
        &["evaluate", &job, "--output", &link],
        &["train", &job, "--report", &link],
    ] {
        let told = trainyard(command, 66);
        for part in ["absent/out", "make the folder"] {
            assert!(told.contains(part), "{command:?} {part}: {told}");
        }
    }
}

trial!(convert_leaves_missing_values_out_and_divides_lists_as_a_job_does);
fn convert_leaves_missing_values_out_and_divides_lists_as_a_job_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let text = "age,tags\n31,a|b\n?,c\nNA,\n";
    std::fs::write(path("a.csv"), text).expect("it is written");
    let told = trainyard(&["convert", &path("a.csv"), &path("a.tfrecord")], 0);
    assert!(
        told.contains("warning[E4005]") && told.contains("`tags`") && told.contains("--separator"),
        "{told}"
    );
    let options = ["--missing", "?,NA", "--separator", "|"];
    let told = trainyard(
        &[
            &["convert", &path("a.csv"), &path("b.tfrecord")],
            &options[..],
        ]
        .concat(),
        0,
    );
    assert!(!told.contains("warning"), "{told}");
    trainyard(&["convert", &path("b.tfrecord"), &path("b.csv")], 0);
    let back = std::fs::read_to_string(path("b.csv")).expect("it was written");
    assert_eq!(back, "age,tags\n31,a|b\n,c\n,\n");
    let packed = std::fs::read(path("b.tfrecord")).expect("it was written");
    let int64_list = |bytes: &[u8]| bytes == [0x1a, 3, 0x0a, 1, 31];
    assert!(packed.windows(5).any(int64_list), "31 is a number");
    // Namibia has a column in which its name is no missing value.
    std::fs::write(path("c.csv"), "age,country\n31,NA\nNA,NL\n-9,-9\n").expect("it is written");
    let own = [
        "--missing",
        "NA",
        "--missing-of",
        "country=",
        "--missing-of",
        "age=NA",
        "--missing-of",
        "age=-9",
    ];
    trainyard(
        &[&["convert", &path("c.csv"), &path("d.csv")], &own[..]].concat(),
        0,
    );
    let back = std::fs::read_to_string(path("d.csv")).expect("it was written");
    assert_eq!(back, "age,country\n31,NA\n,NL\n,-9\n");
    let unknown = ["--missing-of", "land=NA"];
    let told = trainyard(
        &[&["convert", &path("c.csv"), &path("e.csv")], &unknown[..]].concat(),
        64,
    );
    let expected = "--missing-of land: the input has no such column";
    assert!(told.contains(expected), "{told}");
    let refused = ["--missing-of", "country"];
    let told = trainyard(
        &[&["convert", &path("c.csv"), &path("e.csv")], &refused[..]].concat(),
        64,
    );
    assert!(told.contains("must be a column and its texts"), "{told}");
}

trial!(a_file_of_a_spreadsheet_is_converted_to_plain_numbers_or_refused);
fn a_file_of_a_spreadsheet_is_converted_to_plain_numbers_or_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    // Latin-1, decimal commas, points between thousands, a unit; `code` has a text that is no number.
    let text = b"stra\xdfe;preis;anteil;code\nA\xdfweg;1.234,50;12,5 %;1.234\nHof;-7,25;3 %;x-1\n";
    std::fs::write(path("a.csv"), text).expect("there is room");
    let told = trainyard(&["convert", &path("a.csv"), &path("one.csv")], 65);
    assert!(told.contains("give --delimiter ';'"), "{told}");
    let style = [
        "--delimiter",
        ";",
        "--encoding",
        "latin1",
        "--decimal",
        ",",
        "--thousands",
        ".",
        "--units",
        "%",
    ];
    let of_style = |out: &str| {
        [&["convert"], &style[..], &[&path("a.csv"), out]]
            .concat()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for out in ["out.csv", "out.tfrecord"] {
        let arguments = of_style(&path(out));
        trainyard(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), 0);
    }
    trainyard(&["convert", &path("out.tfrecord"), &path("back.csv")], 0);
    let plain = std::fs::read_to_string(path("out.csv")).expect("the result");
    assert_eq!(
        plain,
        "straße,preis,anteil,code\nAßweg,1234.50,12.5,1.234\nHof,-7.25,3,x-1\n"
    );
    let back = std::fs::read_to_string(path("back.csv")).expect("the result");
    assert!(
        back.contains("Aßweg") && back.contains("1234.5") && back.contains("-7.25"),
        "{back}"
    );
    for wrong in [
        &[
            "convert",
            "--delimiter",
            ";",
            &path("out.tfrecord"),
            &path("x.csv"),
        ][..],
        &[
            "convert",
            "--decimal",
            ",",
            &path("out.tfrecord"),
            &path("x.csv"),
        ],
        &[
            "convert",
            "--decimal",
            ",",
            "--thousands",
            ",",
            &path("a.csv"),
            &path("x.csv"),
        ],
        &[
            "convert",
            "--encoding",
            "klingon",
            &path("a.csv"),
            &path("x.csv"),
        ],
    ] {
        trainyard(wrong, 64);
    }
}

trial!(convert_takes_names_and_formats_that_the_files_do_not_tell);
fn convert_takes_names_and_formats_that_the_files_do_not_tell() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::write(path("rows"), "1\tann\t0.5\n2\tbob, jr\t\n").expect("it is written");
    let columns = ["--columns", "id,name,score"];
    let told = trainyard(
        &[
            &["convert", "--from", "tsv", &path("rows"), &path("out.csv")],
            &columns[..],
        ]
        .concat(),
        0,
    );
    assert!(told.contains("2 records with 3 columns"), "{told}");
    let read = |name: &str| std::fs::read_to_string(path(name)).expect("it was written");
    assert_eq!(
        read("out.csv"),
        "id,name,score\n1,ann,0.5\n2,\"bob, jr\",\n"
    );
    trainyard(
        &[
            &[
                "convert",
                "--from",
                "tsv",
                "--to",
                "parquet",
                &path("rows"),
                &path("table"),
            ],
            &columns[..],
        ]
        .concat(),
        0,
    );
    trainyard(
        &[
            "convert",
            "--from",
            "parquet",
            "--to",
            "tsv",
            &path("table"),
            &path("out"),
        ],
        0,
    );
    assert_eq!(read("out"), "id\tname\tscore\n1\tann\t0.5\n2\tbob, jr\t\n");
    // What is said counts, not the name.
    trainyard(
        &[
            "convert",
            "--to",
            "csv",
            "--from",
            "tsv",
            &path("out"),
            &path("out.tsv"),
        ],
        0,
    );
    assert_eq!(read("out.tsv"), read("out.csv"));
    let untold = trainyard(
        &[&["convert", &path("rows"), &path("new.csv")], &columns[..]].concat(),
        64,
    );
    assert!(
        untold.contains("error[E1000]") && untold.contains("--from csv"),
        "{untold}"
    );
    let untold = trainyard(&["convert", &path("out.csv"), &path("new")], 64);
    assert!(
        untold.contains("error[E1000]") && untold.contains("--to csv"),
        "{untold}"
    );
    assert!(!folder.path().join("new").exists() && !folder.path().join("new.csv").exists());
}

trial!(convert_refuses_what_the_result_would_hold_as_something_else);
fn convert_refuses_what_the_result_would_hold_as_something_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let write = |name: &str, text: &[u8]| std::fs::write(path(name), text).expect("there is room");
    let read = |name: &str| std::fs::read_to_string(path(name)).expect("it was written");
    // Lists whose values hold the separator of lists.
    write("lists.csv", b"id,tags\n1,a|b;c\n2,d\n");
    let divided = ["convert", "--separator", ";"];
    let packed = path("lists.parquet");
    trainyard(&[&divided[..], &[&path("lists.csv"), &packed]].concat(), 0);
    let told = trainyard(&["convert", &packed, &path("one.csv")], 65);
    for part in ["row 1", "`tags`", "\"a|b\"", "--separator"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    trainyard(&[&divided[..], &[&packed, &path("back.csv")]].concat(), 0);
    assert_eq!(read("back.csv"), "id,tags\n1,a|b;c\n2,d\n");
    // A text that parquet cannot hold as one.
    write("bytes.csv", b"id,city\n1,Ulm\n2,K\xf6ln\n");
    let told = trainyard(&["convert", &path("bytes.csv"), &path("b.parquet")], 65);
    for part in ["row 2", "`city`", "--encoding"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Files of which one lacks a column.
    write("a.csv", b"a,b\n1,2\n");
    write("b.csv", b"a\n3\n");
    write("c.csv", b"b,a\n4,5\n");
    let told = trainyard(
        &["convert", &path("a.csv"), &path("b.csv"), &path("ab.csv")],
        65,
    );
    assert!(
        told.contains("E4003") && told.contains("column `b` of"),
        "{told}"
    );
    trainyard(
        &["convert", &path("a.csv"), &path("c.csv"), &path("ac.csv")],
        0,
    );
    assert_eq!(read("ac.csv"), "a,b\n1,2\n5,4\n");
    // Texts that are no numbers stay as they are.
    let texts = "id,big,code\n1,1,-0\n2,123456789012345678901234567890,5\n";
    write("texts.csv", texts.as_bytes());
    for name in ["texts.parquet", "texts.tfrecord"] {
        trainyard(&["convert", &path("texts.csv"), &path(name)], 0);
        trainyard(
            &["convert", "--force", &path(name), &path("texts_back.csv")],
            0,
        );
        let mut back: Vec<String> = read("texts_back.csv").lines().map(str::to_owned).collect();
        back.remove(0);
        for text in ["-0", "123456789012345678901234567890"] {
            assert!(
                back.iter()
                    .any(|line| line.split(',').any(|part| part == text)),
                "{name}: {back:?}"
            );
        }
    }
    // A file that cannot be written is none that cannot be read.
    let told = trainyard(&["convert", &path("a.csv"), &path("none/a.csv")], 66);
    assert!(
        told.contains("cannot be written") && !told.contains("input file"),
        "{told}"
    );
    for name in ["one.csv", "b.parquet", "ab.csv"] {
        assert!(!folder.path().join(name).exists(), "{name}");
    }
}

/// Reads each line as a JSON object.
fn objects(output: &str) -> Vec<Value> {
    let object = |line: &str| {
        let value: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value.is_object(), "{line}");
        value
    };
    output.lines().map(object).collect()
}

trial!(each_line_of_a_log_in_json_is_an_object_with_its_fields);
fn each_line_of_a_log_in_json_is_an_object_with_its_fields() {
    let cluster = TestCluster::new(1, 1, 2000, "");
    let json = ["--log-format", "json"];
    let tasks = [("ps", 0), ("chief", 0), ("worker", 0), ("evaluator", 0)];
    let programs = tasks.map(|(role, index)| (role, cluster.start(role, index, &json)));
    for (role, program) in programs {
        let ended = program.wait(LIMIT);
        assert_eq!(ended.code, 0, "{}", ended.output);
        let lines = objects(&ended.output);
        assert!(lines.len() > 1, "{role}: {}", ended.output);
        for line in &lines {
            for field in ["timestamp", "level", "message", "target"] {
                let text = line[field].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{role}: no {field} in {line}");
            }
            assert!(
                ["INFO", "WARN"].iter().any(|level| line["level"] == *level),
                "{role}: {line}"
            );
        }
        let told = |message: &str| lines.iter().find(|line| line["message"] == message);
        if role == "chief" {
            let saved = told("checkpoint saved")
                .unwrap_or_else(|| panic!("no checkpoint in {}", ended.output));
            assert!(saved["step"].is_u64(), "{saved}");
        }
    }
    // What ends a program is told in the same way.
    let ended = cluster
        .start(
            "chief",
            0,
            &["--log-format", "json", "--set", "train.max_stepz=5"],
        )
        .wait(LIMIT);
    assert_eq!(ended.code, 78, "{}", ended.output);
    let told = objects(&ended.output);
    let message = told.last().expect("a message");
    assert_eq!(
        (message["severity"].as_str(), message["code"].as_str()),
        (Some("error"), Some("E1001")),
        "{message}"
    );
    assert!(
        message["message"]
            .as_str()
            .is_some_and(|text| text.contains("max_stepz")),
        "{message}"
    );
    assert!(
        message["help"]
            .as_str()
            .is_some_and(|text| text.contains("max_steps")),
        "{message}"
    );
    assert!(
        message["notes"].is_array() && !message["place"].is_null(),
        "{message}"
    );
}

trial!(lines_that_up_takes_over_are_objects_that_name_their_task);
fn lines_that_up_takes_over_are_objects_that_name_their_task() {
    let solo = Solo::wide_and_deep(400, "[train]\nmax_steps = 30\n");
    let job = solo.argument("job.toml");
    let told = trainyard(
        &[
            "up",
            &job,
            "--cluster",
            "local:ps=1,worker=1",
            "--log-format",
            "json",
        ],
        0,
    );
    // Results are for people.
    let result = ["trained to step 30 ", "last evaluation:", "  ", "model: "];
    let logged = told
        .lines()
        .filter(|line| !result.iter().any(|begin| line.starts_with(begin)));
    let lines = objects(&logged.collect::<Vec<_>>().join("\n"));
    for task in ["ps:0", "chief:0", "worker:0", "evaluator:0"] {
        let of_task = |message: &str| {
            lines.iter().any(|line| {
                line["from"] == task && line["message"] == message && line["level"] == "INFO"
            })
        };
        assert!(of_task("ended"), "{task}: {told}");
    }
}

trial!(inspect_tells_the_checkpoints_of_a_folder_and_which_are_damaged);
fn inspect_tells_the_checkpoints_of_a_folder_and_which_are_damaged() {
    let solo = Solo::wide_and_deep(1000, "[train]\nmax_steps = 50\n");
    solo.train("model", &[]);
    let trained = solo.train("model", &["train.max_steps=100"]);
    let model = solo.argument("model");
    let told = json(&trainyard(&["inspect", &model, "--format", "json"], 0));
    assert_eq!(
        (
            told["job_state"]["phase"].as_str(),
            told["job_state"]["global_step"].as_u64()
        ),
        (Some("done"), Some(100))
    );
    let checkpoints = told["checkpoints"].as_array().expect("a list");
    let names: Vec<&str> = checkpoints
        .iter()
        .filter_map(|path| path.as_str()?.rsplit('/').next())
        .collect();
    assert_eq!(names, ["model.ckpt-0", "model.ckpt-50", "model.ckpt-100"]);
    assert_eq!(
        told["newest"]["global_step"].as_u64(),
        Some(trained.global_step)
    );
    let listed: Vec<&str> = told["newest"]["variables"]
        .as_array()
        .expect("variables")
        .iter()
        .filter_map(|variable| variable["name"].as_str())
        .collect();
    let mut known: Vec<&str> = trained
        .parameters
        .keys()
        .filter_map(|name| name.strip_suffix(" values"))
        .collect();
    known.sort_unstable();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, known);

    let whole = trainyard(&["inspect", &model], 0);
    assert!(whole.contains("job done at step 100"), "{whole}");
    assert_eq!(whole.matches(" verified").count(), 3, "{whole}");
    // Two numbers and an embedding of 4 go into 8 units; the table is cut in two parts.
    let variable = |name: &str| {
        whole
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap_or_default()
            .to_owned()
    };
    let kernel = variable("dnn/hiddenlayer_0/kernel");
    assert!(
        kernel.contains("f32[6, 8]") && kernel.contains("2 part(s)"),
        "{whole}"
    );
    let table = variable("linear/linear_model/word/weights");
    assert!(
        table.contains("f32[10, 1]") && table.contains("2 part(s)"),
        "{whole}"
    );
    // One checkpoint by itself.
    let one = trainyard(&["inspect", &solo.argument("model/model.ckpt-50")], 0);
    assert!(
        one.contains("checkpoint step 50 ") && !one.contains("step 100"),
        "{one}"
    );

    let folder = solo.path("model/model.ckpt-50");
    let shard = std::fs::read_dir(&folder)
        .expect("the checkpoint")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|end| end == "safetensors"))
        .expect("a shard");
    let mut bytes = std::fs::read(&shard).expect("it is read");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&shard, bytes).expect("it is written");
    let damaged = trainyard(&["inspect", &model], 0);
    let line = |step: &str| {
        damaged
            .lines()
            .find(|line| line.contains(step))
            .unwrap_or_default()
            .to_owned()
    };
    assert!(line("checkpoint step 50 ").contains("DAMAGED"), "{damaged}");
    assert!(
        line("checkpoint step 100 ").contains("verified"),
        "{damaged}"
    );
    let nothing = trainyard(
        &["inspect", &solo.argument("model/model.ckpt-50-not-there")],
        66,
    );
    assert!(nothing.contains("error[E3004]"), "{nothing}");
}

trial!(check_warns_of_a_label_that_never_matches_and_stats_shows_what_the_column_holds);
fn check_warns_of_a_label_that_never_matches_and_stats_shows_what_the_column_holds() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows: String = (0..200)
        .map(|row| format!("{row},{}\n", if row % 4 == 0 { "Yes" } else { "No" }))
        .collect();
    std::fs::write(folder.path().join("rows.csv"), format!("x,bought\n{rows}"))
        .expect("the rows are written");
    let job = folder
        .path()
        .join("job.toml")
        .to_string_lossy()
        .into_owned();
    let text = format!(
        "model_dir = \"{}\"\n[input]\nlabel = {{ column = \"bought\", positive = \"yes\" }}\n\
         train = {{ files = [\"rows.csv\"], epochs = 1 }}\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n\
         [model]\nkind = \"linear_classifier\"\n",
        folder.path().join("model").display()
    );
    std::fs::write(&job, text).expect("the job is written");
    let run = |arguments: &[&str]| {
        let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.output);
        ended.output
    };
    let checked = run(&["check", &job]);
    for words in [
        "warning[E4005]: none of 200 labels of the sample is `yes`",
        "did you mean input.label.positive = \"Yes\"?",
    ] {
        assert!(checked.contains(words), "`{words}` in {checked}");
    }
    let right = run(&["check", &job, "--set", "input.label.positive=\"Yes\""]);
    assert!(
        right.contains("25.0 % of 200 records are positive (`Yes`)") && !right.contains("warning"),
        "{right}"
    );
    let stats = run(&[
        "stats",
        &job,
        "--format",
        "json",
        "--set",
        "input.label.positive=\"Yes\"",
    ]);
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("JSON");
    let [x, bought] = [0, 1].map(|place| stats["columns"][place].clone());
    assert_eq!(
        (&stats["rows"], &x["type"], &x["mean"]),
        (&200.into(), &"int".into(), &99.5.into())
    );
    assert_eq!(
        bought["most_frequent"][0],
        serde_json::json!({"value": "No", "count": 150})
    );
    let table = run(&[
        "stats",
        &job,
        "--rows",
        "10",
        "--set",
        "input.label.positive=\"Yes\"",
    ]);
    assert!(
        table.contains("10 records, the first ones of each file")
            && table.contains("No (70.0 %), Yes (30.0 %)"),
        "{table}"
    );
}

trial!(evaluate_reads_links_and_passes_over_damage_without_a_change_of_the_folder);
fn evaluate_reads_links_and_passes_over_damage_without_a_change_of_the_folder() {
    let solo = Solo::wide_and_deep(1000, "[train]\nmax_steps = 50\n");
    solo.train("model", &[]);
    solo.train("model", &["train.max_steps=100"]);
    let (job, model) = (solo.argument("job.toml"), solo.argument("model"));
    let shard = |step: u64| {
        let folder = solo.path(&format!("model/model.ckpt-{step}"));
        let files = std::fs::read_dir(folder).expect("the checkpoint is where it was");
        let mut paths = files.filter_map(|entry| Some(entry.ok()?.path()));
        let is_shard = |path: &std::path::PathBuf| path.extension() == Some("safetensors".as_ref());
        paths.find(is_shard).expect("a shard")
    };
    let evaluate = |step: u64| {
        let told = trainyard(&["evaluate", &job, "--model-dir", &model], 0);
        assert!(told.contains(&step.to_string()), "{told}");
        told
    };
    // As tools make links that keep versions of data.
    let cache = solo.path("cache");
    std::fs::rename(shard(100), &cache).expect("it moves");
    let newest = solo.path("model/model.ckpt-100/shard-0-of-1.safetensors");
    std::os::unix::fs::symlink(&cache, newest).expect("a link");
    let told = evaluate(100);
    assert!(!told.contains("damaged"), "{told}");

    let mut bytes = std::fs::read(&cache).expect("it is read");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&cache, bytes).expect("it is written");
    for _ in 0..2 {
        let told = evaluate(50);
        let passed_over = "checkpoint step 100 is damaged and was passed over";
        assert!(told.contains(passed_over), "{told}");
    }
    assert!(shard(100).exists(), "nothing is renamed");
}

trial!(pipes_devices_and_giants_in_place_of_files_are_refused_and_nothing_waits);
fn pipes_devices_and_giants_in_place_of_files_are_refused_and_nothing_waits() {
    let solo = Solo::wide_and_deep(1000, "[train]\nmax_steps = 10\n");
    solo.train("model", &[]);
    let (job, model) = (solo.argument("job.toml"), solo.argument("model"));
    let began = Instant::now();
    let pipe = |path: &Path| {
        drop(std::fs::remove_file(path));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).expect("a pipe");
    };
    let giant = |path: &Path| {
        drop(std::fs::remove_file(path));
        let file = std::fs::File::create(path).expect("a file");
        file.set_len(3 << 30).expect("it needs no blocks");
    };
    let words = solo.path("words.txt");
    let vocabulary = format!(
        "feature=[{{ kind = \"vocabulary\", column = \"word\", file = {:?}, default = 0 }}]",
        words.display().to_string()
    );
    for (make, what) in [
        (&pipe as &dyn Fn(&Path), "it is no regular file"),
        (&giant, "it has 3221225472 bytes"),
    ] {
        let other = solo.path("other.toml");
        make(&other);
        let told = trainyard(&["check", &other.to_string_lossy()], 66);
        assert!(told.contains("other.toml") && told.contains(what), "{told}");
        make(&words);
        let told = trainyard(&["check", &job, "--set", &vocabulary], 66);
        assert!(told.contains("words.txt") && told.contains(what), "{told}");
        let state = solo.path("model/job_state.json");
        make(&state);
        let told = Program::start("trainyard", &["inspect", &model], &[]).wait(LIMIT);
        assert!(
            told.output.contains("job_state.json") && told.output.contains(what),
            "{}",
            told.output
        );
    }
    std::fs::remove_file(&words).expect("it is there");
    std::os::unix::fs::symlink("/dev/zero", &words).expect("a link");
    let told = trainyard(&["check", &job, "--set", &vocabulary], 66);
    assert!(told.contains("it is no regular file"), "{told}");
    assert!(began.elapsed() < LIMIT / 2, "{:?}", began.elapsed());
}
