//! Tests with a real Hadoop file system of one NameNode and one DataNode. `TRAINYARD_HDFS` is the Java class path of
//! both (`hadoop-hdfs`, `hadoop-common` and their dependencies). Without it, the tests print `skipped`.

mod server;

use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use trainyard_storage::{Error, Storage};

use crate::server::Hdfs;

/// Largest object that is read at once.
const BYTES_MAX: u64 = 1 << 30;

/// Starts a file system in which all users may write below `/open`.
fn start() -> Option<(Hdfs, Storage)> {
    let hdfs = Hdfs::start()?;
    let runtime = tokio::runtime::Runtime::new().expect("threads start");
    let client = hdfs_native::ClientBuilder::new()
        .with_url(hdfs.url(""))
        .with_user("hdfs");
    let client = client
        .with_io_runtime(runtime.handle().clone())
        .build()
        .expect("a client");
    runtime.block_on(async {
        client
            .mkdirs("/open", 0o777, true)
            .await
            .expect("its user may");
        client
            .set_permission("/open", 0o777)
            .await
            .expect("its user may");
    });
    Some((hdfs, Storage::default()))
}

/// Returns a local file whose bytes depend on their place.
fn file(bytes: u64) -> std::fs::File {
    let mut file = tempfile::tempfile().expect("a file");
    let words: Vec<u8> = (0..bytes / 8)
        .flat_map(|nth| (nth * 0x9e37_79b9).to_le_bytes())
        .collect();
    file.write_all(&words)
        .and_then(|()| file.rewind())
        .expect("it is written");
    file
}

fn names(storage: &Storage, folder: &str) -> Vec<String> {
    let entries = storage.entries(Path::new(folder)).expect("it is listed");
    entries.into_iter().map(|entry| entry.name).collect()
}

#[test]
fn objects_are_put_read_listed_and_removed_with_their_folders() {
    let Some((hdfs, storage)) = start() else {
        return;
    };
    let url = |name: &str| hdfs.url(&format!("open/job/{name}"));
    assert!(
        names(&storage, &url("none")).is_empty(),
        "a folder that is not there holds nothing"
    );
    for (name, text) in [
        ("a/one", "first"),
        ("a/one", "second"),
        ("a/b/two", ""),
        ("three", "3"),
    ] {
        storage
            .put(Path::new(&url(name)), text.into())
            .expect("it is put");
    }
    let read = |name: &str| {
        storage
            .read(Path::new(&url(name)), BYTES_MAX)
            .expect("it is read")
    };
    assert_eq!(read("a/one").as_deref(), Some(b"second".as_slice()));
    assert_eq!(
        (read("a/b/two").as_deref(), read("a/none")),
        (Some(b"".as_slice()), None)
    );
    assert_eq!(names(&storage, &hdfs.url("open/job")), ["a", "three"]);
    assert_eq!(names(&storage, &url("a")), ["b", "one"]);
    let entries = storage.entries(Path::new(&url("a"))).expect("it is listed");
    assert_eq!(
        entries
            .iter()
            .map(|entry| entry.modified.is_some())
            .collect::<Vec<_>>(),
        [false, true]
    );
    let found = storage.expand(&url("*/o?e")).expect("it matches");
    assert_eq!(found, [Path::new(&url("a/one"))]);
    storage
        .remove_all(Path::new(&url("a")), Some("one"))
        .expect("it is removed");
    // No empty folder remains.
    assert_eq!(names(&storage, &hdfs.url("open/job")), ["three"]);
    storage
        .remove_all(Path::new(&url("a")), None)
        .expect("what is not there has been");
}

#[test]
fn of_those_that_put_one_name_at_once_one_succeeds() {
    const RIVALS: usize = 8;
    let Some((hdfs, storage)) = start() else {
        return;
    };
    for round in 0..10 {
        let name = hdfs.url(&format!("open/epochs/{round}"));
        let put = |rival: usize| storage.put_if_absent(Path::new(&name), format!("{rival}").into());
        let won: Vec<usize> = std::thread::scope(|scope| {
            let rivals: Vec<_> = (0..RIVALS)
                .map(|rival| (rival, scope.spawn(move || put(rival))))
                .collect();
            let won = rivals.into_iter().filter_map(|(rival, thread)| {
                thread
                    .join()
                    .expect("no panic")
                    .expect("it is asked")
                    .then_some(rival)
            });
            won.collect()
        });
        let read = storage
            .read(Path::new(&name), BYTES_MAX)
            .expect("it is read")
            .expect("it is there");
        assert_eq!(
            won.iter().map(usize::to_string).collect::<Vec<_>>(),
            [String::from_utf8_lossy(&read)]
        );
        assert!(
            !storage
                .put_if_absent(Path::new(&name), "later".into())
                .expect("it is asked")
        );
    }
    // The temporary files of the late writers are removed.
    assert_eq!(
        names(&storage, &hdfs.url("open/epochs")),
        (0..10).map(|round| round.to_string()).collect::<Vec<_>>()
    );
}

#[test]
fn a_file_that_is_sent_while_servers_die_is_whole_once_it_has_its_name() {
    const BYTES: u64 = 200 << 20;
    let Some((mut hdfs, storage)) = start() else {
        return;
    };
    let name = hdfs.url("open/large");
    let sent = std::thread::spawn({
        let storage = storage.clone();
        let name = name.clone();
        move || storage.upload(file(BYTES), BYTES, Path::new(&name))
    });
    // During the upload, the file has a temporary name.
    let begun = |storage: &Storage| {
        names(storage, &hdfs.url("open"))
            .iter()
            .any(|name| name.contains(".tmp."))
    };
    while !begun(&storage) && !sent.is_finished() {
        std::thread::yield_now();
    }
    assert!(
        storage
            .read(Path::new(&name), BYTES_MAX)
            .expect("it is asked")
            .is_none(),
        "half a file has its name"
    );
    hdfs.kill_datanode();
    assert!(!sent.is_finished(), "it was sent before anything died");
    hdfs.start_datanode();
    hdfs.kill_namenode();
    hdfs.start_namenode();
    sent.join().expect("no panic").expect("it is sent");
    let read = storage
        .read(Path::new(&name), BYTES_MAX)
        .expect("it is read")
        .expect("it is there");
    assert_eq!(read.len() as u64, BYTES);
    let differs = read
        .chunks(8)
        .enumerate()
        .find(|(nth, word)| **word != (*nth as u64 * 0x9e37_79b9).to_le_bytes());
    assert_eq!(differs, None);
}

#[test]
fn what_is_wrong_is_told() {
    let Some((mut hdfs, storage)) = start() else {
        return;
    };
    let storage = storage.with_deadline(Duration::from_secs(5));
    let url = |name: &str| hdfs.url(name);
    let missing = storage
        .open(Path::new(&url("open/none.csv")))
        .expect_err("it is not there");
    assert!(
        matches!(Error::of(&missing), Some(Error::Missing { .. })),
        "{missing}"
    );
    let none = storage
        .expand(&url("open/none-*.csv"))
        .expect_err("nothing matches");
    assert!(matches!(none, Error::NoMatch { .. }), "{none}");
    let denied = storage
        .put(Path::new(&url("closed/name")), "text".into())
        .expect_err("it is not ours");
    assert!(
        matches!(denied, Error::Denied { .. }) && denied.to_string().contains("Permission denied"),
        "{denied}"
    );
    storage
        .put(Path::new(&url("open/file")), "text".into())
        .expect("it is put");
    let name = url("open/file");
    hdfs.kill_datanode();
    let lost = storage
        .read(Path::new(&name), BYTES_MAX)
        .expect_err("nobody has it");
    assert!(matches!(lost, Error::Unreachable { .. }), "{lost}");
    let lost = storage
        .put(Path::new(&name), "other".into())
        .expect_err("nobody takes it");
    assert!(matches!(lost, Error::Unreachable { .. }), "{lost}");
    assert_eq!(
        names(&storage, &hdfs.url("open")),
        ["file"],
        "something is left of what came to nothing"
    );
    hdfs.kill_namenode();
    let refused = storage
        .read(Path::new(&name), BYTES_MAX)
        .expect_err("nobody is there");
    assert!(matches!(refused, Error::Unreachable { .. }), "{refused}");
    assert!(
        refused
            .to_string()
            .to_lowercase()
            .contains("connection refused"),
        "{refused}"
    );
}
