//! The shipped jobs, trained as their files say on the data that `trainyard datagen` makes for them.

use std::path::{Path, PathBuf};

use crate::end_to_end::solo::{json, trainyard};

/// A job of the folder `configs`.
fn shipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../configs")
        .join(name);
    path.to_string_lossy().into_owned()
}

/// Makes data, and returns its folder.
fn datagen(folder: &Path, name: &str, arguments: &[&str]) -> PathBuf {
    let out = folder.join(name);
    let (kind, more) = arguments.split_first().expect("a kind of data");
    trainyard(
        &[&["datagen", kind, "--out", &out.to_string_lossy()], more].concat(),
        0,
    );
    out
}

/// The only value of an evaluation.
fn score(output: &str, metric: &str) -> f64 {
    let scores = json(output);
    let found = scores["metrics"]
        .as_object()
        .and_then(|metrics| metrics.get(metric))
        .or(scores.get(metric));
    found
        .and_then(serde_json::Value::as_f64)
        .unwrap_or_else(|| panic!("no {metric} in {output}"))
}

/// Trains a job by a command with this data, and returns AUC and average loss of its first checkpoint and of its last, which is
/// of this step.
fn train(job: &str, command: &[&str], set: &[String], model: &Path, last: u64) -> [(f64, f64); 2] {
    let job = shipped(job);
    let model = model.to_string_lossy().into_owned();
    let mut more = vec!["--model-dir", &model];
    more.extend(
        set.iter()
            .flat_map(|assignment| ["--set", assignment.as_str()]),
    );
    let trained = trainyard(
        &[&command[..1], &[job.as_str()], &command[1..], &more[..]].concat(),
        0,
    );
    [0, last].map(|step| {
        let step = step.to_string();
        let scored = [
            &["evaluate", &job, "--format", "json", "--step", &step],
            &more[..],
        ]
        .concat();
        let scored = trainyard(&scored, 0);
        println!("step {step}: {scored}");
        assert!(!trained.is_empty());
        (score(&scored, "auc"), score(&scored, "average_loss"))
    })
}

trial!(the_census_job_learns_from_the_data_that_is_made_for_it);
fn the_census_job_learns_from_the_data_that_is_made_for_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = datagen(
        folder.path(),
        "data",
        &["census", "--rows", "6000", "--eval-rows", "3000"],
    );
    let set = [
        format!("input.train.files=[{:?}]", data.join("train.csv")),
        format!("input.eval.files=[{:?}]", data.join("eval.csv")),
        "train.max_steps=300".to_owned(),
    ];
    let model = folder.path().join("model");
    let [(_, before), (auc, after)] = train("census.toml", &["train"], &set, &model, 300);
    assert!(auc > 0.84, "auc {auc}");
    assert!(after < 0.7 * before, "average loss {before}, then {after}");
    let best = std::fs::read_to_string(model.join("export/best/best.json"))
        .expect("its exporter keeps the best");
    assert!(best.contains("300"), "{best}");
}

trial!(the_click_through_job_learns_on_a_cluster_from_the_data_that_is_made_for_it);
fn the_click_through_job_learns_on_a_cluster_from_the_data_that_is_made_for_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = datagen(
        folder.path(),
        "data",
        &[
            "ctr",
            "--rows",
            "12800",
            "--eval-rows",
            "4000",
            "--shards",
            "2",
        ],
    );
    let set = [
        format!("input.train.files=[{:?}]", data.join("ctr-train-*.tsv")),
        format!("input.eval.files=[{:?}]", data.join("ctr-eval-*.tsv")),
    ];
    let model = folder.path().join("model");
    // As the head of its file says; one pass over 100 batches.
    let up = ["up", "--cluster", "local:ps=1,worker=1"];
    let [(_, before), (auc, after)] = train("ctr.toml", &up, &set, &model, 100);
    assert!(auc > 0.62, "auc {auc}");
    assert!(after < 0.97 * before, "average loss {before}, then {after}");
}

/// Names and contents of a folder.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, std::fs::read(&path).expect("a file"))
        })
        .collect();
    found.sort();
    found
}

trial!(data_of_one_seed_is_the_same_and_that_of_another_is_not);
fn data_of_one_seed_is_the_same_and_that_of_another_is_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for kind in ["census", "ctr"] {
        let made = |name: &str, seed: &str| {
            let arguments = [
                kind,
                "--rows",
                "500",
                "--eval-rows",
                "100",
                "--shards",
                "2",
                "--seed",
                seed,
            ];
            contents(&datagen(
                folder.path(),
                &format!("{kind}-{name}"),
                &arguments,
            ))
        };
        let one = made("one", "5");
        let again = made("again", "5");
        let other = made("other", "6");
        assert!(one == again, "{kind}: the same seed");
        let names = |made: &[(String, Vec<u8>)]| {
            made.iter()
                .map(|(name, _)| name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&one), names(&other));
        assert!(
            one.iter().zip(&other).all(|(one, other)| one.1 != other.1),
            "{kind}: another seed"
        );
        let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        let header = usize::from(kind == "census");
        let evaluation = one
            .iter()
            .find(|(name, _)| name.contains("eval"))
            .expect("evaluation data");
        assert_eq!(lines(&evaluation.1), 100 + header, "{kind}");
        let training: usize = one
            .iter()
            .filter(|(name, _)| name.contains("train"))
            .map(|(_, bytes)| lines(bytes))
            .sum();
        assert_eq!(training, 500 + header, "{kind}");
    }
}

trial!(a_record_is_the_same_however_many_files_and_records_there_are);
fn a_record_is_the_same_however_many_files_and_records_there_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let train = |name: &str, rows: &str, shards: &str| -> Vec<u8> {
        let arguments = [
            "ctr",
            "--rows",
            rows,
            "--eval-rows",
            "1",
            "--shards",
            shards,
        ];
        let made = contents(&datagen(folder.path(), name, &arguments));
        made.into_iter()
            .filter(|(name, _)| name.contains("train"))
            .flat_map(|(_, bytes)| bytes)
            .collect()
    };
    let whole = train("whole", "300", "1");
    assert!(
        whole == train("three", "300", "3"),
        "the files of three hold what one holds"
    );
    let first = train("first", "100", "1");
    assert!(whole.starts_with(&first) && whole.len() > 2 * first.len());
}
