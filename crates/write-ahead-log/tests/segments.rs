//! Segments that are truncated, damaged, rotated and written by many threads.

use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use trainyard_write_ahead_log::{
    Bad, Durability, EarlierSegments, Entry, Fault, Folder, Log, Next, Origin, Reader, Record,
    SEGMENT_HEADER_BYTES, SegmentFile,
};

const ORIGIN: Origin = Origin {
    owner: 7,
    member: 1,
    prepared_epoch: 3,
};

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
        .block_on(work)
}

fn entry(kind: u16, number: u64, body: &[u8]) -> Entry {
    // In two parts, like a header and a payload.
    let (head, rest) = body.split_at(body.len() / 3);
    Entry::new(
        kind,
        vec![Bytes::copy_from_slice(head), Bytes::copy_from_slice(rest)],
    )
    .numbered(number)
}

/// Returns the file of a log of these records, each committed before the next. `durability` decides whether each is
/// flushed.
fn file_of(bodies: &[Vec<u8>], durability: Durability) -> Vec<u8> {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = Folder::open(&scratch.path().join("log")).expect("it is free");
    let log = Log::open(folder, durability, None).expect("it opens");
    log.begin(ORIGIN, [], EarlierSegments::Obsolete);
    for (number, body) in bodies.iter().enumerate() {
        log.add(entry(number as u16, 1000 + number as u64, body));
        block(log.commit(log.end())).expect("it is written");
    }
    let end = log.bytes();
    drop(log);
    let folder = Folder::open(&scratch.path().join("log")).expect("it is free");
    let [segment] = &folder.segments().expect("readable")[..] else {
        panic!("one segment")
    };
    let bytes = std::fs::read(&segment.path).expect("readable");
    assert_eq!(bytes.len() as u64, end);
    bytes
}

fn read(bytes: &[u8]) -> (Vec<Record>, Next, Option<u64>) {
    let mut reader = Reader::new(Cursor::new(bytes), bytes.len() as u64)
        .expect("memory")
        .expect("a segment");
    let mut records = Vec::new();
    loop {
        match reader.read().expect("memory") {
            Next::Record(record) => records.push(record),
            Next::End => return (records, Next::End, None),
            Next::Bad(bad) => {
                let proof = reader.proof_of_damage(&bad).expect("memory");
                assert_eq!(
                    reader.read().expect("memory"),
                    Next::Bad(bad.clone()),
                    "it stays so"
                );
                return (records, Next::Bad(bad), proof);
            }
        }
    }
}

fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_written_is_read(bodies in bodies()) {
        let (records, end, _) = read(&file_of(&bodies, Durability::Wal));
        prop_assert_eq!(end, Next::End);
        let found: Vec<_> = records.iter().map(|record| record.body.to_vec()).collect();
        prop_assert_eq!(found, bodies);
        prop_assert!(records.iter().zip(1000..).all(|(record, number)| record.number == number));
    }

    /// At every length, whole records are read and the rest is reported. No record is made up.
    #[test]
    fn a_file_cut_anywhere_holds_the_records_before_the_cut(bodies in bodies()) {
        let whole = file_of(&bodies, Durability::WalSync);
        let (all, ..) = read(&whole);
        for length in SEGMENT_HEADER_BYTES..whole.len() {
            let (records, end, proof) = read(&whole[..length]);
            prop_assert_eq!(&records[..], &all[..records.len()]);
            match end {
                Next::Bad(Bad { place, rest, fault: Fault::Short { .. } }) => {
                    prop_assert_eq!(place + rest, length as u64);
                    prop_assert_eq!(proof, None, "a torn end is no damage");
                }
Next::End => prop_assert!(all.iter().any(|record| record.place == length as u64) || all.is_empty()),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }

    /// A flipped bit hides its record and all records after it. It is reported as damage if a later record says that
    /// the bytes had been flushed.
    #[test]
    fn a_flipped_bit_is_found_and_is_not_taken_for_a_torn_end(bodies in bodies(), at: prop::sample::Index, bit in 0..8) {
        let mut bytes = file_of(&bodies, Durability::WalSync);
        let (all, ..) = read(&bytes);
        let at = SEGMENT_HEADER_BYTES + at.index(bytes.len() - SEGMENT_HEADER_BYTES);
        bytes[at] ^= 1_u8 << bit;
        let (records, end, proof) = read(&bytes);
        let hit = all.iter().rposition(|record| record.place <= at as u64).expect("one of them");
        prop_assert_eq!(&records[..], &all[..hit]);
        let Next::Bad(bad) = end else { return Err(TestCaseError::fail("it is taken for whole")) };
        prop_assert_eq!(bad.place, all[hit].place);
        // Each record but the last is followed by a record that was written after it was flushed.
        prop_assert_eq!(proof, all.get(hit + 1).map(|record| record.place));
    }

    /// Random bytes after any prefix of a segment, as a fuzzer makes them.
    #[test]
    fn no_bytes_make_the_reader_panic_or_take_more_memory_than_they_have(
        noise in prop::collection::vec(any::<u8>(), 0..400), at: prop::sample::Index, bodies in bodies(),
    ) {
        let mut bytes = file_of(&bodies, Durability::Wal);
        let at = at.index(bytes.len());
        bytes.truncate(at);
        bytes.extend(&noise);
        if let Ok(Ok(mut reader)) = Reader::new(Cursor::new(&bytes), bytes.len() as u64) {
            while let Ok(Next::Record(record)) = reader.read() {
                prop_assert!(record.body.len() <= bytes.len());
            }
        }
    }
}

#[test]
fn a_length_that_no_file_has_is_refused_before_memory_is_taken() {
    let bytes = file_of(&[vec![1; 40]], Durability::Wal);
    let short = SEGMENT_HEADER_BYTES + 44;
    let (records, end, _) = read(&bytes[..short]);
    assert!(records.is_empty());
    assert_eq!(
        end,
        Next::Bad(Bad {
            place: 72,
            rest: 44,
            fault: Fault::Short {
                expected: 80,
                found: 44
            }
        })
    );
}

#[test]
fn a_log_goes_on_behind_its_last_record_and_starts_anew_when_told() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("ps-0");
    let open = |go_on: bool| {
        let folder = Folder::open(&path).expect("it is free");
        let last: Option<SegmentFile> =
            folder.segments().expect("readable").pop().filter(|_| go_on);
        Log::open(folder, Durability::WalSync, last.as_ref()).expect("it opens")
    };
    let add = |log: &Log, body: &[u8]| {
        log.add(entry(1, 1, body));
        block(log.commit(log.end())).expect("it is written");
    };
    let log = open(false);
    add(&log, b"dropped: no segment is open");
    log.begin(ORIGIN, [entry(0, 0, b"head")], EarlierSegments::Obsolete);
    add(&log, b"one");
    drop(log);
    let log = open(true);
    add(&log, b"two");
    assert_eq!(
        log.begin(ORIGIN, [entry(0, 0, b"head again")], EarlierSegments::Kept),
        2
    );
    add(&log, b"three");
    let both = log.bytes();
    log.retire(2).expect("removed");
    assert!(log.bytes() < both);
    add(&log, b"four");
    drop(log);
    let bodies = |place: usize| {
        let folder = Folder::open(&path).expect("it is free");
        let segment = &folder.segments().expect("readable")[place];
        let (records, end, _) = read(&std::fs::read(&segment.path).expect("readable"));
        assert_eq!(end, Next::End);
        records
            .into_iter()
            .map(|record| record.body)
            .collect::<Vec<_>>()
    };
    assert_eq!(bodies(0), ["head again", "three", "four"]);
    let log = open(true);
    assert_eq!(
        log.begin(
            Origin {
                prepared_epoch: 4,
                ..ORIGIN
            },
            [entry(0, 0, b"another life")],
            EarlierSegments::Obsolete
        ),
        3
    );
    block(log.commit(log.end())).expect("it is written");
    drop(log);
    assert_eq!(bodies(0), ["another life"]);
    let log = open(true);
    log.clear().expect("removed");
    drop(log);
    assert!(
        Folder::open(&path)
            .expect("free")
            .segments()
            .expect("readable")
            .is_empty()
    );
}

#[test]
fn threads_that_add_at_once_lose_nothing_and_keep_their_order() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("log");
    for (durability, open) in [
        (Durability::Wal, Log::open as fn(_, _, _) -> _),
        (Durability::WalSync, Log::open),
        (Durability::WalSync, Log::open_without_thread),
    ] {
        let log: Result<Log, _> = open(Folder::open(&path).expect("free"), durability, None);
        let log = Arc::new(log.expect("it opens"));
        log.begin(ORIGIN, [], EarlierSegments::Obsolete);
        std::thread::scope(|scope| {
            for thread in 0..4_u16 {
                let log = Arc::clone(&log);
                scope.spawn(move || {
                    for number in 0..50_u64 {
                        log.add(entry(thread, number, &[thread as u8; 100]));
                        block(log.commit(log.end())).expect("it is written");
                    }
                });
            }
        });
        drop(log);
        let segment = Folder::open(&path)
            .expect("free")
            .segments()
            .expect("readable")
            .remove(0);
        let (records, end, _) = read(&std::fs::read(segment.path).expect("readable"));
        assert_eq!((end, records.len()), (Next::End, 200));
        for thread in 0..4 {
            let of = records
                .iter()
                .filter(|record| record.kind == thread)
                .map(|record| record.number);
            assert!(of.eq(0..50), "{durability:?} {thread}");
        }
    }
}

#[test]
fn a_folder_belongs_to_one_and_can_be_put_aside() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("log");
    let folder = Folder::open(&path).expect("it is free");
    let second = std::thread::scope(|scope| {
        scope
            .spawn(|| Folder::open(&path))
            .join()
            .expect("no panic")
    });
    let message = second.expect_err("taken").to_string();
    assert!(
        message.ends_with("is in use by another process"),
        "{message}"
    );
    for round in [b"first", b"other"] {
        std::fs::write(path.join("0000000000000001.log"), round).expect("written");
        let aside = folder.set_aside().expect("renamed");
        assert!(folder.segments().expect("readable").is_empty());
        assert_eq!(
            std::fs::read(aside.join("0000000000000001.log")).expect("kept"),
            round
        );
    }
    std::fs::write(path.join("0000000000000002.log"), b"no segment").expect("written");
    let segment = folder.segments().expect("readable").remove(0);
    let message = segment.read().expect_err("too short").to_string();
    assert!(
        message.contains("0000000000000002.log: a segment has 72 bytes at least, given 10"),
        "{message}"
    );
}

#[test]
fn a_log_that_cannot_be_written_acknowledges_nothing_more() {
    // Every write to this device fails for lack of space; a flush would succeed.
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("log");
    let folder = Folder::open(&path).expect("it is free");
    let full = SegmentFile {
        number: 1,
        path: "/dev/full".into(),
        bytes: 72,
    };
    let log = Log::open(folder, Durability::Wal, Some(&full)).expect("it opens");
    log.add(entry(1, 1, b"lost"));
    let message = block(log.commit(log.end()))
        .expect_err("no space")
        .to_string();
    assert!(message.starts_with("cannot write /dev/full: "), "{message}");
    log.add(entry(1, 2, b"lost too"));
    assert!(block(log.commit(log.end())).is_err() && log.failure().is_some());
}
