//! A server of predictions under the memory limit of a control group.

use trainyard_tests::{MemoryGroup, write_job};

use crate::serving::{LIMIT, run};

/// 77 MB of values.
const TABLE: &str = r#"
[[feature]]
column = "x"
name = "x hash"
kind = "hashed"
buckets = 150000
deep = { embedding = 128 }
"#;

trial!(a_version_that_does_not_fit_the_memory_limit_is_refused_and_answers_once_it_does, needs MemoryGroups);
fn a_version_that_does_not_fit_the_memory_limit_is_refused_and_answers_once_it_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(
        folder.path(),
        400,
        &format!("[train]\nmax_steps = 20\n{TABLE}"),
    );
    let job = job.to_string_lossy();
    run(&["train", &job, "--no-evaluation", "--log-level", "error"]);
    let model_dir = folder.path().join("model");
    let model_dir = model_dir.to_string_lossy();
    let group = MemoryGroup::of(100 << 20);
    let arguments = ["serve", "--listen", "127.0.0.1:0", &model_dir];
    let mut server = group.start_program("trainyard", &arguments, &[]);
    let line = server.wait_for("E3009", LIMIT);
    for part in ["the limit of 104857600 bytes", "no version answers yet"] {
        assert!(line.contains(part), "no `{part}`: {line}");
    }
    group.set_limit(400 << 20);
    server.wait_for("the version answers model=model version=20 ", LIMIT);
    // There is no room for a second version beside the first one.
    group.set_limit(200 << 20);
    run(&[
        "train",
        &job,
        "--no-evaluation",
        "--set",
        "train.max_steps=40",
        "--log-level",
        "error",
    ]);
    let line = server.wait_for("goes on answering", LIMIT);
    assert!(
        line.contains("E3009") && line.contains("version 20 goes on answering"),
        "{line}"
    );
    group.set_limit(600 << 20);
    server.wait_for("the version answers model=model version=40 ", LIMIT);
    assert_eq!(group.kills(), 0);
}
