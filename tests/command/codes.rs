//! Mistakes and mishaps of the command line: which code each is told with, which exit code it has, and that a cure is named.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainyard_tests::program;

/// Fails unless the command ends with this code, by its name and by its number.
fn ends_with(code: &str, exit: i32, arguments: &[&str]) -> String {
    let output = Command::new(program("trainyard"))
        .args(arguments)
        .env_remove("TF_CONFIG")
        .env_remove("TRAINYARD_LOG")
        .output()
        .expect("the program starts");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains(&format!("[{code}]")),
        "{arguments:?} is not told with {code}: {told}"
    );
    assert!(
        told.contains("help:"),
        "{arguments:?} names no cure: {told}"
    );
    assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {told}");
    told
}

fn iris() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/iris.toml")
}

trial!(a_benchmark_of_nothing_is_a_mistake_of_the_command_line);
fn a_benchmark_of_nothing_is_a_mistake_of_the_command_line() {
    ends_with("E1000", 64, &["bench", "ps", "--dense", "0", "--rows", "0"]);
}

trial!(a_port_that_is_taken_is_told_before_anything_starts);
fn a_port_that_is_taken_is_told_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = held.local_addr().expect("its address");
    let cluster = folder.path().join("cluster.toml");
    std::fs::write(
        &cluster,
        format!("[cluster]\nchief = [\"127.0.0.1:1\"]\nps = [\"{address}\"]\n"),
    )
    .expect("written");
    let cluster = cluster.to_string_lossy();
    let iris = iris();
    let model_dir = folder.path().join("model");
    let told = ends_with(
        "E2001",
        73,
        &[
            "run",
            "--role",
            "ps",
            "--job",
            &iris.to_string_lossy(),
            "--cluster",
            &cluster,
            "--index",
            "0",
            "--model-dir",
            &model_dir.to_string_lossy(),
        ],
    );
    assert!(told.contains(&address.to_string()), "{told}");
}

trial!(a_folder_without_a_checkpoint_is_told_with_what_to_do);
fn a_folder_without_a_checkpoint_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let job = iris();
    let model_dir = folder.path().to_string_lossy().into_owned();
    let job = job.to_string_lossy();
    for command in ["evaluate", "predict", "export"] {
        let told = ends_with("E3004", 66, &[command, &job, "--model-dir", &model_dir]);
        assert!(told.contains(&model_dir), "{told}");
        ends_with(
            "E3004",
            66,
            &[command, &job, "--model-dir", &model_dir, "--step", "5"],
        );
    }
}

trial!(a_checkpoint_that_is_damaged_is_told_with_its_file);
/// A checkpoint that is asked for by its step is not passed over in silence.
fn a_checkpoint_that_is_damaged_is_told_with_its_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = folder.path().join("model.ckpt-5");
    std::fs::create_dir(&checkpoint).expect("there is room");
    std::fs::write(checkpoint.join("manifest.json"), "{}").expect("written");
    let job = iris();
    let model_dir = folder.path().to_string_lossy().into_owned();
    let job = job.to_string_lossy();
    let told = ends_with(
        "E3001",
        65,
        &["evaluate", &job, "--model-dir", &model_dir, "--step", "5"],
    );
    assert!(
        told.contains(&checkpoint.join("manifest.json").display().to_string()),
        "{told}"
    );
}

trial!(a_folder_that_cannot_be_made_is_told_as_failed_output);
fn a_folder_that_cannot_be_made_is_told_as_failed_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let job = iris();
    let model_dir = file.join("model").to_string_lossy().into_owned();
    ends_with(
        "E9002",
        74,
        &["up", &job.to_string_lossy(), "--model-dir", &model_dir],
    );
}
