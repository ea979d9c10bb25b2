//! A model folder in a bucket is as good as one at home: the same values, checkpoints, evaluations and exports.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use trainyard_tests::{Ended, write_job};

use crate::storage::door::{Door, Fate};
use crate::storage::server::Server;
use crate::storage::{path, trainyard};

/// Runs `trainyard` with the job of a folder and another model folder.
fn on(server: &Server, folder: &Path, model_dir: &str, words: &[&str]) -> Ended {
    at(&server.address, folder, model_dir, words)
}

/// The same at an address of the store.
fn at(address: &str, folder: &Path, model_dir: &str, words: &[&str]) -> Ended {
    let job = path(folder, "job.toml");
    let local = format!("local_dir={}", path(folder, "local"));
    let (first, rest) = words.split_first().expect("a command");
    let mut arguments = vec![*first, &job, "--model-dir", model_dir, "--set", &local];
    arguments.extend(rest);
    trainyard(address, &arguments)
}

/// Names right below a folder of the bucket.
fn names(keys: &[String], folder: &str) -> BTreeSet<String> {
    let below = keys
        .iter()
        .filter_map(|key| key.strip_prefix(folder)?.split('/').next());
    below.map(str::to_owned).collect()
}

trial!(a_job_in_a_bucket_ends_as_one_at_home_and_goes_on_from_there, needs S3);
fn a_job_in_a_bucket_ends_as_one_at_home_and_goes_on_from_there() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_job(folder, 800, "[train]\nmax_steps = 200\n");
    let (here, there) = (path(folder, "here"), "s3://data/jobs/one");
    let good = |ended: Ended| {
        assert_eq!(ended.code, 0, "{}", ended.output);
        ended.output
    };
    let few = [
        "--set",
        "run.save_checkpoints_steps=20",
        "--set",
        "run.keep_checkpoint_max=3",
    ];
    for steps in ["train.max_steps=100", "train.max_steps=200"] {
        for model_dir in [here.as_str(), there] {
            let mut words = vec!["train", "--set", steps];
            words.extend(few);
            good(on(&server, folder, model_dir, &words));
        }
    }
    let predicted = |model_dir: &str| good(on(&server, folder, model_dir, &["predict"]));
    let values = |text: String| -> Vec<String> {
        text.lines()
            .filter(|line| line.starts_with('{'))
            .map(str::to_owned)
            .collect()
    };
    let at_home = values(predicted(&here));
    let in_bucket = values(predicted(there));
    assert!(
        !at_home.is_empty() && at_home == in_bucket,
        "{at_home:?} {in_bucket:?}"
    );
    let keys = server.keys("jobs/one/");
    let checkpoints = names(&keys, "jobs/one/")
        .into_iter()
        .filter(|name| name.starts_with("model.ckpt-"));
    assert_eq!(checkpoints.count(), 3, "{keys:?}");
    assert_eq!(
        names(&keys, "jobs/one/epochs/").len(),
        2,
        "one a start: {keys:?}"
    );
    let has = |name: &str| {
        assert!(
            keys.iter().any(|key| key.contains(name)),
            "{name}: {keys:?}"
        )
    };
    has("jobs/one/events.out.tfevents.");
    has("jobs/one/eval/events.out.tfevents.");
    has("jobs/one/eval/metrics.jsonl");
    assert!(
        !keys.iter().any(|key| key.ends_with("evaluator.json")),
        "nobody evaluates any more: {keys:?}"
    );
    has("jobs/one/export/best/");
    let results = |text: &[u8]| String::from_utf8_lossy(text).lines().count();
    let at_home = std::fs::read(format!("{here}/eval/metrics.jsonl")).expect("the results");
    assert!(results(&server.get("jobs/one/eval/metrics.jsonl")) > 0 && results(&at_home) > 0);
    let told = good(trainyard(&server.address, &["inspect", there]));
    assert!(
        told.contains("job done at step 200") && told.contains("verified"),
        "{told}"
    );
    assert!(good(on(&server, folder, there, &["check"])).contains("3 checkpoints"));
    // What is exported is what is exported at home.
    for (model_dir, out) in [
        (here.as_str(), path(folder, "out")),
        (there, "s3://data/exports".to_owned()),
    ] {
        good(on(
            &server,
            folder,
            model_dir,
            &["export", "--output", &out],
        ));
    }
    let second = names(&server.keys("exports/"), "exports/")
        .pop_first()
        .expect("an export");
    let home = std::fs::read_dir(folder.join("out"))
        .expect("a folder")
        .next()
        .expect("an export");
    let home = home.expect("it is read").path().join("model.safetensors");
    let there = server.get(&format!("exports/{second}/model.safetensors"));
    assert!(
        there == std::fs::read(home).expect("the export"),
        "the exports differ"
    );
    // All of it copied home is a model folder, checkpoint by checkpoint.
    server.fetch("jobs/one/", folder);
    let copied = folder.join("jobs/one").join(
        names(&keys, "jobs/one/")
            .into_iter()
            .find(|name| name.starts_with("model.ckpt-"))
            .expect("one"),
    );
    let told = good(trainyard(
        &server.address,
        &["inspect", &copied.display().to_string()],
    ));
    assert!(told.contains("verified"), "{told}");
}

trial!(a_damaged_checkpoint_in_a_bucket_is_set_aside_and_the_one_before_used, needs S3);
fn a_damaged_checkpoint_in_a_bucket_is_set_aside_and_the_one_before_used() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_job(folder, 800, "[train]\nmax_steps = 60\n");
    let there = "s3://data/jobs/two";
    let ended = on(&server, folder, there, &["train"]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let told = trainyard(&server.address, &["inspect", there, "--format", "json"]);
    let told: serde_json::Value = serde_json::from_str(told.output.trim()).expect("JSON");
    let newest = told["checkpoints"]
        .as_array()
        .and_then(|all| all.last())
        .and_then(|path| path.as_str());
    let newest = newest
        .and_then(|path| path.strip_prefix("s3://data/"))
        .expect("a checkpoint")
        .to_owned();
    let shard = format!("{newest}/shard-0-of-1.safetensors");
    let mut bytes = server.get(&shard);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x20;
    server.put(&format!("data/{shard}"), &bytes);
    let ended = on(
        &server,
        folder,
        there,
        &["train", "--set", "train.max_steps=80"],
    );
    assert_eq!(ended.code, 0, "{}", ended.output);
    for part in [
        "checkpoint step 60 is damaged",
        "using step ",
        "damaged.json",
    ] {
        assert!(ended.output.contains(part), "{part}: {}", ended.output);
    }
    let left = server.keys(&newest);
    assert!(
        left.iter().any(|key| key.ends_with("/damaged.json")) && left.contains(&shard),
        "{left:?}"
    );
    assert!(
        !left.iter().any(|key| key.ends_with("/manifest.json")),
        "{left:?}"
    );
}

trial!(what_is_wrong_with_a_bucket_is_told_with_what_to_do, needs S3);
fn what_is_wrong_with_a_bucket_is_told_with_what_to_do() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_job(folder, 100, "[train]\nmax_steps = 5\n");
    let told = |model_dir: &str, code: i32, parts: &[&str]| {
        let ended = on(&server, folder, model_dir, &["train"]);
        assert_eq!(ended.code, code, "{model_dir}: {}", ended.output);
        for part in parts.iter().chain(&["help: "]) {
            assert!(
                ended.output.contains(part),
                "{model_dir}: expected {part} in {}",
                ended.output
            );
        }
    };
    told(
        "s3://nobucket/model",
        66,
        &["bucket `nobucket` does not exist", "AWS_ENDPOINT_URL"],
    );
    told(
        "http://host/model",
        78,
        &["nothing can be written to `http`", "s3://bucket/path"],
    );
    told(
        "hdfs://host:8020/model",
        78,
        &["built without `hdfs`", "--features hdfs"],
    );
    told(
        "s4://data/model",
        78,
        &["`s4` is no scheme", "did you mean `s3://`?"],
    );
    told("s3://data", 78, &["a bucket alone is no folder"]);
    let behind = |fate: Fate, model_dir: &str| {
        let door = Door::new(&server.address, move |_, _| fate);
        let ended = at(&door.address, folder, model_dir, &["train"]);
        assert_eq!(
            ended.code,
            if fate == Fate::Denied { 77 } else { 78 },
            "{}",
            ended.output
        );
        ended.output
    };
    let told = behind(Fate::Denied, "s3://data/read-only");
    assert!(
        told.contains("access is denied") && told.contains("write to it"),
        "{told}"
    );
    let told = behind(Fate::Unconditioned, "s3://data/without-conditions");
    assert!(
        told.contains("does not keep to `If-None-Match`") && told.contains("conditional writes"),
        "{told}"
    );
}

trial!(a_large_shard_is_sent_in_parts_and_is_whole_though_the_first_answer_to_each_is_lost, needs S3);
fn a_large_shard_is_sent_in_parts_and_is_whole_though_the_first_answer_to_each_is_lost() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write_job(folder, 100, "[train]\nmax_steps = 5\n");
    let seen = Mutex::new(BTreeSet::new());
    let parts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&parts);
    let door = Door::new(&server.address, move |_, line| {
        // What begins, brings a part, or completes.
        let Some((_, what)) = line.split_once("safetensors?") else {
            return Fate::Answered;
        };
        counted.fetch_add(1, Ordering::SeqCst);
        let kind = what.split("uploadId").next().unwrap_or_default().to_owned();
        if seen.lock().expect("no panic").insert(kind) {
            Fate::Lost
        } else {
            Fate::Answered
        }
    });
    let words = ["train", "--set", "model.hidden_units=[3000, 3000]"];
    let ended = at(&door.address, folder, "s3://data/large", &words);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(
        parts.load(Ordering::SeqCst) > 8,
        "{parts:?} requests of parts: {}",
        ended.output
    );
    let told = trainyard(&server.address, &["inspect", "s3://data/large"]).output;
    assert!(
        told.contains("checkpoint step 5 ") && !told.contains("DAMAGED"),
        "{told}"
    );
}
