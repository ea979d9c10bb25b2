//! The benchmarks from outside, on the smallest load that they take.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use trainyard_tests::program;

/// Runs a benchmark and returns its figures.
fn bench(arguments: &[&str]) -> Value {
    let output = Command::new(program("trainyard"))
        .arg("bench")
        .args(arguments)
        .args(["--format", "json"])
        .env_remove("TF_CONFIG")
        .env_remove("TRAINYARD_LOG")
        .output()
        .expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    // Workers stop before the chief writes the last checkpoint.
    assert!(
        !told.contains("updates since its last one are lost"),
        "{told}"
    );
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}\n{told}",
            String::from_utf8_lossy(&output.stdout)
        )
    })
}

trial!(a_job_that_trains_in_one_process_and_a_picture_without_a_folder_are_refused_before_the_measurement);
fn a_job_that_trains_in_one_process_and_a_picture_without_a_folder_are_refused_before_the_measurement()
 {
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/iris.toml");
    let job = job.to_string_lossy();
    let refused = |more: &[&str], part: &str| {
        let scale = ["bench", "scale", "--train", &job, "--seconds", "1"];
        let output = Command::new(program("trainyard"))
            .args([&scale[..], more].concat())
            .output()
            .expect("the program starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(part), "{told}");
        assert!(
            !told.contains("[ps:0]") && output.stdout.is_empty(),
            "{told}"
        );
    };
    for kind in ["one_device", "mirrored", "central_storage"] {
        let set = format!("strategy.kind=\"{kind}\"");
        refused(&["--set", &set], "trains in one process");
    }
    refused(&["--plot", "nowhere/curve.svg"], "nowhere/curve.svg");
}

/// Trains the bundled irises for a second.
fn bench_iris(cluster: &str) -> Value {
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/iris.toml");
    let job = job.to_string_lossy();
    bench(&[
        "train",
        &job,
        "--cluster",
        cluster,
        "--seconds",
        "1",
        "--warmup",
        "0.2",
    ])
}

fn positive(figures: &Value, pointer: &str) -> f64 {
    let value = figures
        .pointer(pointer)
        .and_then(Value::as_f64)
        .unwrap_or(0.0);
    assert!(value > 0.0, "{pointer} of {figures:#}");
    value
}

trial!(a_job_on_a_cluster_is_measured_by_role);
fn a_job_on_a_cluster_is_measured_by_role() {
    let figures = bench_iris("local:ps=1,worker=1");
    let steps = positive(&figures, "/steps_per_second");
    let examples = positive(&figures, "/examples_per_second");
    assert!(
        (examples / steps - 32.0).abs() < 3.0,
        "batches of 32: {figures:#}"
    );
    assert_eq!(
        (&figures["durability"], &figures["transport"]),
        (&"shared_memory".into(), &"socket files".into()),
        "{figures:#}"
    );
    let whole = positive(&figures, "/cpu_ms_per_step");
    let mut parts = 0.0;
    for role in ["chief", "worker", "ps"] {
        parts += positive(&figures, &format!("/roles/{role}/cpu_ms_per_step"));
        positive(&figures, &format!("/roles/{role}/first_step_seconds"));
        assert!(
            positive(&figures, &format!("/roles/{role}/peak_bytes")) > 1e6,
            "{figures:#}"
        );
    }
    assert!((whole - parts).abs() < 1e-6 * whole, "{figures:#}");
    // Two layers of 10, one of 3: 4*10+10 + 10*10+10 + 10*3+3 values, each with a slot of adagrad.
    assert_eq!(
        figures["roles"]["ps"]["value_bytes"],
        193 * 2 * 4,
        "{figures:#}"
    );
    for phase in ["input", "compute"] {
        positive(&figures, &format!("/phases/{phase}/share"));
    }
    let shares: f64 = figures["phases"]
        .as_object()
        .expect("phases")
        .values()
        .filter_map(|phase| phase["share"].as_f64())
        .sum();
    assert!((shares - 1.0).abs() < 0.05, "{figures:#}");
    for task in ["chief:0", "worker:0", "ps:0"] {
        assert_eq!(figures["exit"][task], 0, "{figures:#}");
    }
    // Its 1000 steps would have been over before the measurement began.
    assert!(
        figures["changed"]
            .to_string()
            .contains("train.max_steps is 1000"),
        "{figures:#}"
    );
}

trial!(a_job_in_one_process_is_measured);
fn a_job_in_one_process_is_measured() {
    let figures = bench_iris("none");
    positive(&figures, "/steps_per_second");
    positive(&figures, "/roles/chief/first_step_seconds");
    assert_eq!(
        figures["roles"].as_object().map(serde_json::Map::len),
        Some(1),
        "{figures:#}"
    );
    assert_eq!(figures["exit"]["chief:0"], 0, "{figures:#}");
}

trial!(workers_that_compute_share_a_process);
fn workers_that_compute_share_a_process() {
    let load = [
        "--dense",
        "100",
        "--rows",
        "10",
        "--table-rows",
        "1000",
        "--seconds",
        "1",
    ];
    let shape = [
        "--workers",
        "5",
        "--workers-per-process",
        "3",
        "--compute-ms",
        "20",
        "--zipf",
        "1.1",
    ];
    let figures = bench(&[&["ps"], &load[..], &shape[..]].concat());
    // Five workers that wait 20 ms in every step; without the wait each would make some thousand.
    let steps = positive(&figures, "/steps_per_second");
    assert!(steps <= 5.0 / 0.020, "{figures:#}");
    // The first ranks come more than once among ten draws: fewer rows than drawn.
    assert!(
        positive(&figures, "/rows_per_second") < 9.9 * steps,
        "{figures:#}"
    );
    positive(&figures, "/p50_ms");
}

trial!(a_slow_server_slows_every_step);
fn a_slow_server_slows_every_step() {
    let figures = bench(&[
        "ps",
        "--dense",
        "100",
        "--ps",
        "2",
        "--slow-ps-ms",
        "10",
        "--durability",
        "none",
        "--seconds",
        "1",
    ]);
    assert_eq!(figures["durability"], "none", "{figures:#}");
    // A step asks the slow server at least once: there and back.
    assert!(positive(&figures, "/p50_ms") >= 20.0, "{figures:#}");
}

trial!(each_number_of_workers_is_measured);
fn each_number_of_workers_is_measured() {
    let load = [
        "--dense",
        "10",
        "--rows",
        "0",
        "--ps",
        "1",
        "--compute-ms",
        "40",
        "--seconds",
        "0.5",
    ];
    let figures = bench(&[&["scale", "--workers", "4,1"], &load[..]].concat());
    let of = |place: usize, key: &str| positive(&figures, &format!("/points/{place}/{key}"));
    assert_eq!(
        (of(0, "workers"), of(1, "workers")),
        (1.0, 4.0),
        "{figures:#}"
    );
    assert!(
        of(1, "steps_per_second") > of(0, "steps_per_second"),
        "workers that wait do not wait for each other"
    );
    let linear = of(0, "steps_per_second") * 4.0;
    assert!(
        (of(1, "share_of_linear") - of(1, "steps_per_second") / linear).abs() < 1e-9,
        "{figures:#}"
    );
}

trial!(the_training_of_a_job_is_measured_with_each_number_of_trainers_and_drawn);
fn the_training_of_a_job_is_measured_with_each_number_of_trainers_and_drawn() {
    let job = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/iris.toml");
    let folder = tempfile::tempdir().expect("a folder");
    let picture = folder.path().join("curve.svg");
    let figures = bench(&[
        "scale",
        "--train",
        &job.to_string_lossy(),
        "--ps",
        "1",
        "--workers",
        "2,1",
        "--warmup",
        "0.2",
        "--seconds",
        "1",
        "--plot",
        &picture.to_string_lossy(),
    ]);
    for (place, trainers) in [(0, 1.0), (1, 2.0)] {
        let of = |key: &str| positive(&figures, &format!("/points/{place}/{key}"));
        assert_eq!(of("workers"), trainers, "{figures:#}");
        let per_step = of("examples_per_second") / of("steps_per_second");
        assert!((per_step - 32.0).abs() < 3.0, "batches of 32: {figures:#}");
        of("cpu_ms_per_step");
        of("busiest_ps_cores");
        let limit = figures["points"][place]["limit"].as_str().expect("a limit");
        assert!(
            ["none", "cores", "neighbours", "server", "waiting"].contains(&limit),
            "{figures:#}"
        );
    }
    let drawn = std::fs::read_to_string(&picture).expect("a picture");
    assert!(
        drawn.starts_with("<svg") && drawn.contains("examples/s"),
        "{drawn}"
    );
}
