//! A server of predictions under the memory limit of a control group.

use trainyard_tests::{MemoryGroup, write_job};

use crate::serving::{LIMIT, run};

/// Some 64 MB of values: each of two columns has some 31,000 ids.
const TABLES: &str = r#"
[[feature]]
column = "x"
name = "x id"
kind = "dynamic"
deep = { embedding = 256 }
[[feature]]
column = "z"
name = "z id"
kind = "dynamic"
deep = { embedding = 256 }
"#;

trial!(a_version_that_does_not_fit_the_memory_limit_is_refused_and_answers_once_it_does, needs MemoryGroups);
fn a_version_that_does_not_fit_the_memory_limit_is_refused_and_answers_once_it_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(
        folder.path(),
        60_000,
        &format!("[train]\nmax_steps = 120\n{TABLES}"),
    );
    let job = job.to_string_lossy();
    run(&[
        "train",
        &job,
        "--no-evaluation",
        "--set",
        "input.train.batch_size=512",
        "--log-level",
        "error",
    ]);
    let model_dir = folder.path().join("model");
    let model_dir = model_dir.to_string_lossy();
    let group = MemoryGroup::of(64 << 20);
    let arguments = ["serve", "--listen", "127.0.0.1:0", &model_dir];
    let mut server = group.start_program("trainyard", &arguments, &[]);
    let line = server.wait_for("E3009", LIMIT);
    for part in ["the limit of 67108864 bytes", "no version answers yet"] {
        assert!(line.contains(part), "no `{part}`: {line}");
    }
    group.set_limit(400 << 20);
    server.wait_for("the version answers model=model version=120 ", LIMIT);
    assert_eq!(group.kills(), 0);
}
