//! Input from S3, and model folders in it, as a server process and its faults give it. The server is moto's: `TRAINYARD_MOTO` names its program
//! `moto_server`, otherwise it is looked for in the search path; without it the tests are skipped. Input from Google Cloud Storage is that of
//! fake-gcs-server, whose program `TRAINYARD_GCS` names.

mod crashes;
mod door;
mod gcs;
mod model_dir;
pub(crate) mod server;

use std::path::Path;

use trainyard_tests::{Blow, Direction, Ended, LIMIT, Program, Proxy};

use crate::storage::server::{Server, refusing};

/// Runs `trainyard` against a store at an address.
fn trainyard(address: &str, arguments: &[&str]) -> Ended {
    let endpoint = format!("http://{address}");
    let environment = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    Program::start("trainyard", arguments, &environment).wait(LIMIT)
}

/// Records that are long enough for several ranges, and no two alike.
fn records(rows: usize) -> String {
    let mut text = "clicked,x,words\n".to_owned();
    for row in 0..rows {
        let number = (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.push_str(&format!(
            "{},{},{number:016x}{:016x}\n",
            row % 2,
            row % 1000,
            number.rotate_left(17)
        ));
    }
    text
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder
        .write_all(text.as_bytes())
        .expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

/// Trains a job by what runs `trainyard`, and returns its report, which lies in a folder then.
fn trained(folder: &Path, job: &str, run: impl Fn(&[&str]) -> Ended) -> serde_json::Value {
    let report = path(folder, "report.json");
    let ended = run(&["train", job, "--report", &report]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    serde_json::from_slice(&std::fs::read(report).expect("the report")).expect("JSON")
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

trial!(files_in_s3_are_read_as_those_at_home, needs S3);
fn files_in_s3_are_read_as_those_at_home() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let first = records(3000);
    let second = records(120_000);
    server.put("data/part-0.csv.gz", &gzip(&first));
    server.put("data/part-1.csv.gz", &gzip(&second));
    server.put("data/other/part-2.csv.gz", b"`*` does not match a folder");
    for (name, text) in [("part-0.csv", &first), ("part-1.csv", &second)] {
        std::fs::write(folder.path().join(name), text).expect("the file is written");
    }
    let here = path(folder.path(), "here.parquet");
    let there = path(folder.path(), "there.parquet");
    let ended = trainyard(
        &server.address,
        &["convert", &path(folder.path(), "part-*.csv"), &here],
    );
    assert_eq!(ended.code, 0, "{}", ended.output);
    let ended = trainyard(
        &server.address,
        &["convert", "s3://data/part-*.csv.gz", &there],
    );
    assert_eq!(ended.code, 0, "{}", ended.output);
    let read = |name: &str| std::fs::read(name).expect("the file was written");
    assert_eq!(read(&here), read(&there));
    // Parquet itself, read in ranges of its columns.
    server.put("data/part.parquet", &read(&there));
    let back = path(folder.path(), "back.csv");
    let again = path(folder.path(), "again.csv");
    for (from, to) in [(there.as_str(), &back), ("s3://data/part.parquet", &again)] {
        let ended = trainyard(&server.address, &["convert", from, to]);
        assert_eq!(ended.code, 0, "{}", ended.output);
    }
    assert_eq!(read(&back), read(&again));
    assert_eq!(
        read(&back).split(|byte| *byte == b'\n').count(),
        123_000 + 2
    );
}

trial!(a_job_trains_from_s3_in_data_shards, needs S3);
fn a_job_trains_from_s3_in_data_shards() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    server.put("data/train.csv", records(4000).as_bytes());
    server.put("data/eval.csv", records(300).as_bytes());
    let job = path(folder.path(), "job.toml");
    let text = format!(
        "model_dir = {:?}\n[input]\nlabel = {{ column = \"clicked\" }}\n[input.train]\nfiles = [\"s3://data/tr*.csv\"]\n\
         epochs = 2\nbatch_size = 100\n[input.eval]\nfiles = [\"s3://data/eval.csv\"]\n[[feature]]\ncolumn = \"x\"\n\
         kind = \"numeric\"\n[model]\nkind = \"linear_classifier\"\n",
        path(folder.path(), "model")
    );
    std::fs::write(&job, text).expect("the job is written");
    let ended = trainyard(&server.address, &["check", &job]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    let report = trained(folder.path(), &job, |arguments| {
        trainyard(&server.address, arguments)
    });
    assert_eq!(
        (report["global_step"].as_u64(), report["examples"].as_u64()),
        (Some(80), Some(8000)),
        "{report}"
    );
}

trial!(a_connection_cut_in_the_middle_is_made_again, needs S3);
fn a_connection_cut_in_the_middle_is_made_again() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let text = records(120_000);
    server.put("data/train.csv", text.as_bytes());
    for (blow, bytes) in [(Blow::Reset, 700_000), (Blow::HalfClose, 2_500_000)] {
        let proxy = Proxy::new(&server.address);
        proxy.strike_after(Direction::Replies, bytes, blow);
        let out = path(folder.path(), "out.tsv");
        let ended = trainyard(
            proxy.address(),
            &["convert", "--force", "s3://data/train.csv", &out],
        );
        assert_eq!(ended.code, 0, "{}", ended.output);
        assert!(proxy.has_struck(), "nothing was cut");
        assert!(ended.output.contains("tried again"), "{}", ended.output);
        let read = std::fs::read_to_string(&out).expect("the file was written");
        assert!(read == text.replace(',', "\t"), "the records differ");
    }
}

trial!(answers_of_503_are_waited_out, needs S3);
fn answers_of_503_are_waited_out() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let text = records(1000);
    server.put("data/train.csv", text.as_bytes());
    let address = refusing(&server.address, 4);
    let out = path(folder.path(), "out.tsv");
    let ended = trainyard(
        &address,
        &["convert", "--force", "s3://data/train.csv", &out],
    );
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(
        ended.output.contains("503") && ended.output.contains("tried again"),
        "{}",
        ended.output
    );
    assert_eq!(
        std::fs::read_to_string(&out).expect("the file was written"),
        text.replace(',', "\t")
    );
}

trial!(what_is_wrong_is_told_with_what_to_do, needs S3);
fn what_is_wrong_is_told_with_what_to_do() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let cut = gzip(&records(5000));
    server.put("data/cut.csv.gz", &cut[..cut.len() / 2]);
    let out = path(folder.path(), "out.tsv");
    let told = |from: &str, code: i32, parts: &[&str]| {
        let ended = trainyard(&server.address, &["convert", from, &out]);
        assert_eq!(ended.code, code, "{from}: {}", ended.output);
        for part in parts.iter().chain(&["help: "]) {
            assert!(
                ended.output.contains(part),
                "{from}: expected {part} in {}",
                ended.output
            );
        }
        assert!(!Path::new(&out).exists(), "{from}: half a file was left");
    };
    told(
        "s3://nobucket/train.csv",
        66,
        &["bucket `nobucket` does not exist", "AWS_ENDPOINT_URL"],
    );
    told(
        "s3://nobucket/train-*.csv",
        66,
        &["bucket `nobucket` does not exist"],
    );
    told(
        "s3://data/missing.csv",
        66,
        &["s3://data/missing.csv does not exist"],
    );
    told("s3://data/missing-*.csv", 66, &["matches no file"]);
    told(
        "s3://data/cut.csv.gz",
        66,
        &[
            "s3://data/cut.csv.gz",
            "the gzip content is cut short",
            "copy the file again",
        ],
    );
    told(
        "s4://data/train.csv",
        78,
        &["`s4` is no scheme", "did you mean `s3://`?"],
    );
    told(
        "hdfs://name/train.csv",
        78,
        &["built without `hdfs`", "--features hdfs"],
    );
}

trial!(http_files_are_read, needs S3);
fn http_files_are_read() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let text = records(20_000);
    server.put("data/train.csv", text.as_bytes());
    let (url, out) = (
        format!("http://{}/data/train.csv", server.address),
        path(folder.path(), "out.tsv"),
    );
    let ended = trainyard(&server.address, &["convert", &url, &out]);
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(
        std::fs::read_to_string(&out).expect("the file was written") == text.replace(',', "\t")
    );
}
