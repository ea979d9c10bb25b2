//! Input from Google Cloud Storage, as fake-gcs-server gives it: objects are found, listed and read in ranges as there. What it does
//! not take is what writes a model folder: objects that are put by name, with a condition, or in parts.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use trainyard_tests::{Blow, Direction, Ended, Need, Program, Proxy};

use crate::storage::server::{Process, ask};
use crate::storage::{LIMIT, gzip, path, records, trained};

/// Longest wait for the server to listen.
const START_MAX: Duration = Duration::from_secs(60);
/// Ports that are tried: between the choice of one and its use, another process may take it.
const PORTS: usize = 5;

/// A server with the bucket `data`. It ends when it is dropped.
struct Server {
    process: Process,
    /// Where it listens, `host:port`.
    address: String,
}

impl Server {
    /// Starts the server.
    fn start() -> Self {
        let program = Need::Gcs.program();
        let server = (0..PORTS).find_map(|_| Self::listening(&program));
        let server = server.unwrap_or_else(|| panic!("{} does not start", program.display()));
        ask(
            &server.address,
            "POST",
            "storage/v1/b",
            b"{\"name\":\"data\"}",
        );
        server
    }

    /// Starts the server at a free port, which it does not choose by itself.
    fn listening(program: &Path) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0")
            .expect("a free port")
            .local_addr()
            .expect("it listens");
        let port = free.port().to_string();
        let address = free.to_string();
        let mut command = Command::new(program);
        command.args([
            "-backend",
            "memory",
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            &port,
        ]);
        command.args(["-public-host", "127.0.0.1"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = Self {
            process: Process(command.spawn().ok()?),
            address,
        };
        let until = Instant::now() + START_MAX;
        while Instant::now() < until
            && server
                .process
                .0
                .try_wait()
                .is_ok_and(|ended| ended.is_none())
        {
            if TcpStream::connect(&server.address).is_ok() {
                return Some(server);
            }
            std::thread::yield_now();
        }
        None
    }

    /// Puts an object of the bucket.
    fn put(&self, key: &str, content: &[u8]) {
        ask(
            &self.address,
            "POST",
            &format!("upload/storage/v1/b/data/o?uploadType=media&name={key}"),
            content,
        );
    }
}

/// Runs `trainyard` against a server at an address.
fn trainyard(address: &str, arguments: &[&str]) -> Ended {
    let endpoint = format!("http://{address}");
    let environment = [
        ("GOOGLE_BASE_URL", endpoint.as_str()),
        ("GOOGLE_SKIP_SIGNATURE", "true"),
    ];
    Program::start("trainyard", arguments, &environment).wait(LIMIT)
}

trial!(files_in_google_cloud_storage_are_read_as_those_at_home, needs Gcs);
fn files_in_google_cloud_storage_are_read_as_those_at_home() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let first = records(3000);
    let second = records(120_000);
    server.put("day=1/part-0.csv.gz", &gzip(&first));
    server.put("day=1/part-1.csv.gz", &gzip(&second));
    server.put("day=1/other/part-2.csv.gz", b"`*` does not match a folder");
    for (name, text) in [("part-0.csv", &first), ("part-1.csv", &second)] {
        std::fs::write(folder.path().join(name), text).expect("the file is written");
    }
    let here = path(folder.path(), "here.parquet");
    let there = path(folder.path(), "there.parquet");
    let good = |arguments: &[&str]| {
        let ended = trainyard(&server.address, arguments);
        assert_eq!(ended.code, 0, "{}", ended.output);
    };
    good(&["convert", &path(folder.path(), "part-*.csv"), &here]);
    good(&["convert", "gs://data/day=1/part-*.csv.gz", &there]);
    let read = |name: &str| std::fs::read(name).expect("the file was written");
    assert_eq!(read(&here), read(&there));
    // Parquet itself, read in ranges of its columns.
    server.put("part.parquet", &read(&there));
    let back = path(folder.path(), "back.csv");
    let again = path(folder.path(), "again.csv");
    good(&["convert", &there, &back]);
    good(&["convert", "gs://data/part.parquet", &again]);
    assert_eq!(read(&back), read(&again));
    assert_eq!(
        read(&back).split(|byte| *byte == b'\n').count(),
        123_000 + 2
    );
}

trial!(a_job_trains_from_google_cloud_storage, needs Gcs);
fn a_job_trains_from_google_cloud_storage() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    server.put("train.csv", records(4000).as_bytes());
    let job = path(folder.path(), "job.toml");
    let text = format!(
        "model_dir = {:?}\n[input]\nlabel = {{ column = \"clicked\" }}\n[input.train]\nfiles = [\"gs://data/tr*.csv\"]\n\
         epochs = 2\nbatch_size = 100\n[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n[model]\nkind = \"linear_classifier\"\n",
        path(folder.path(), "model")
    );
    std::fs::write(&job, text).expect("the job is written");
    let report = trained(folder.path(), &job, |arguments| {
        trainyard(&server.address, arguments)
    });
    assert_eq!(
        (report["global_step"].as_u64(), report["examples"].as_u64()),
        (Some(80), Some(8000)),
        "{report}"
    );
}

trial!(a_connection_to_google_cloud_storage_that_is_cut_is_made_again, needs Gcs);
fn a_connection_to_google_cloud_storage_that_is_cut_is_made_again() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let text = records(120_000);
    server.put("train.csv", text.as_bytes());
    let proxy = Proxy::new(&server.address);
    proxy.strike_after(Direction::Replies, 700_000, Blow::Reset);
    let out = path(folder.path(), "out.tsv");
    let ended = trainyard(
        proxy.address(),
        &["convert", "--force", "gs://data/train.csv", &out],
    );
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert!(
        proxy.has_struck() && ended.output.contains("tried again"),
        "{}",
        ended.output
    );
    assert!(
        std::fs::read_to_string(&out).expect("the file was written") == text.replace(',', "\t")
    );
    let ended = trainyard(
        &server.address,
        &["convert", "--force", "gs://data/missing.csv", &out],
    );
    assert_eq!(ended.code, 66, "{}", ended.output);
    assert!(
        ended
            .output
            .contains("gs://data/missing.csv does not exist"),
        "{}",
        ended.output
    );
}
