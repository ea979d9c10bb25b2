//! Segments that are truncated, damaged, rotated and written by many threads.

use std::io::Cursor;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use trainyard_write_ahead_log::{
    Bad, EarlierSegments, Entry, Fault, Folder, Log, MemoryUse, Next, Origin, Reader, Record,
    SEGMENT_HEADER_BYTES, SegmentFile, SharedMemory,
};

const ORIGIN: Origin = Origin {
    owner: 7,
    member: 1,
    prepared_epoch: 3,
};

fn entry(kind: u16, number: u64, body: &[u8]) -> Entry {
    // In two parts, like a header and a payload.
    let (head, rest) = body.split_at(body.len() / 3);
    Entry::new(
        kind,
        vec![Bytes::copy_from_slice(head), Bytes::copy_from_slice(rest)],
    )
    .numbered(number)
}

/// Returns the file of a log of these records, each committed before the next.
fn file_of(bodies: &[Vec<u8>]) -> Vec<u8> {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = Folder::open(&scratch.path().join("log")).expect("it is free");
    let log = Log::open(folder, None).expect("it opens");
    log.begin(ORIGIN, [], EarlierSegments::Obsolete);
    for (number, body) in bodies.iter().enumerate() {
        log.add(entry(number as u16, 1000 + number as u64, body));
        log.commit(log.end()).expect("it is written");
    }
    let end = log.bytes();
    drop(log);
    let folder = Folder::open(&scratch.path().join("log")).expect("it is free");
    let [segment] = &folder.segments().expect("readable")[..] else {
        panic!("one segment")
    };
    let bytes = std::fs::read(segment.path()).expect("readable");
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
        let (records, end, _) = read(&file_of(&bodies));
        prop_assert_eq!(end, Next::End);
        let found: Vec<_> = records.iter().map(|record| record.body.to_vec()).collect();
        prop_assert_eq!(found, bodies);
        prop_assert!(records.iter().zip(1000..).all(|(record, number)| record.number == number));
    }

    /// At every length, whole records are read and the rest is reported. No record is made up.
    #[test]
    fn a_file_cut_anywhere_holds_the_records_before_the_cut(bodies in bodies()) {
        let whole = file_of(&bodies);
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

    /// A flipped bit hides its record and all records after it. It is reported as damage if there is a later record.
    #[test]
    fn a_flipped_bit_is_found_and_is_not_taken_for_a_torn_end(bodies in bodies(), at: prop::sample::Index, bit in 0..8) {
        let mut bytes = file_of(&bodies);
        let (all, ..) = read(&bytes);
        let at = SEGMENT_HEADER_BYTES + at.index(bytes.len() - SEGMENT_HEADER_BYTES);
        bytes[at] ^= 1_u8 << bit;
        let (records, end, proof) = read(&bytes);
        let hit = all.iter().rposition(|record| record.place <= at as u64).expect("one of them");
        prop_assert_eq!(&records[..], &all[..hit]);
        let Next::Bad(bad) = end else { return Err(TestCaseError::fail("it is taken for whole")) };
        prop_assert_eq!(bad.place, all[hit].place);
        prop_assert_eq!(proof, all.get(hit + 1).map(|record| record.place));
    }

    /// Random bytes after any prefix of a segment, as a fuzzer makes them.
    #[test]
    fn no_bytes_make_the_reader_panic_or_take_more_memory_than_they_have(
        noise in prop::collection::vec(any::<u8>(), 0..400), at: prop::sample::Index, bodies in bodies(),
    ) {
        let mut bytes = file_of(&bodies);
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
    let bytes = file_of(&[vec![1; 40]]);
    let short = SEGMENT_HEADER_BYTES + 44;
    let (records, end, _) = read(&bytes[..short]);
    assert!(records.is_empty());
    assert_eq!(
        end,
        Next::Bad(Bad {
            place: 88,
            rest: 44,
            fault: Fault::Short {
                expected: 72,
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
        Log::open(folder, last.as_ref()).expect("it opens")
    };
    let add = |log: &Log, body: &[u8]| {
        log.add(entry(1, 1, body));
        log.commit(log.end()).expect("it is written");
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
        let (records, end, _) = read(&std::fs::read(segment.path()).expect("readable"));
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
    log.commit(log.end()).expect("it is written");
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
    let log = Log::open(Folder::open(&path).expect("free"), None);
    let log = Arc::new(log.expect("it opens"));
    log.begin(ORIGIN, [], EarlierSegments::Obsolete);
    std::thread::scope(|scope| {
        for thread in 0..4_u16 {
            let log = Arc::clone(&log);
            scope.spawn(move || {
                for number in 0..50_u64 {
                    log.add(entry(thread, number, &[thread as u8; 100]));
                    log.commit(log.end()).expect("it is written");
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
    let (records, end, _) = read(&std::fs::read(segment.path()).expect("readable"));
    assert_eq!((end, records.len()), (Next::End, 200));
    for thread in 0..4 {
        let of = records
            .iter()
            .filter(|record| record.kind == thread)
            .map(|record| record.number);
        assert!(of.eq(0..50), "{thread}");
    }
}

#[test]
fn a_folder_belongs_to_one_and_can_be_put_aside() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("log");
    let mut folder = Folder::open(&path).expect("it is free");
    let second = std::thread::scope(|scope| {
        scope
            .spawn(|| Folder::open(&path))
            .join()
            .expect("no panic")
    });
    let message = second.expect_err("taken").to_string();
    let holder = format!("is in use by process {} (", std::process::id());
    assert!(message.contains(&holder), "{message}");
    for round in [b"first", b"other"] {
        std::fs::write(path.join("0000000000000001-000000.log"), round).expect("written");
        let aside = folder.set_aside().expect("renamed");
        assert!(folder.segments().expect("readable").is_empty());
        assert_eq!(
            std::fs::read(aside.join("0000000000000001-000000.log")).expect("kept"),
            round
        );
    }
    std::fs::write(path.join("0000000000000002-000000.log"), b"no segment").expect("written");
    let segment = folder.segments().expect("readable").remove(0);
    let message = segment.read().expect_err("too short").to_string();
    assert!(
        message.contains("0000000000000002-000000.log: a segment has 88 bytes at least, given 10"),
        "{message}"
    );
}

#[test]
fn a_log_that_cannot_be_written_acknowledges_nothing_more() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("log");
    let log = Log::open(Folder::open(&path).expect("it is free"), None).expect("it opens");
    // Without its folder the log can begin no file.
    std::fs::remove_dir_all(&path).expect("removed");
    log.begin(ORIGIN, [entry(1, 1, b"lost")], EarlierSegments::Obsolete);
    let message = log.commit(log.end()).expect_err("no folder").to_string();
    assert!(message.starts_with("cannot create "), "{message}");
    log.add(entry(1, 2, b"lost too"));
    assert!(log.commit(log.end()).is_err() && log.failure().is_some());
}

/// Returns the bodies of all records of the log in `folder`, in order.
fn all_bodies(folder: &std::path::Path) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    for segment in SegmentFile::all(folder).expect("readable") {
        let mut reader = segment.read().expect("a segment");
        loop {
            match reader.read().expect("readable") {
                Next::Record(record) => bodies.push(record.body),
                Next::End => break,
                Next::Bad(bad) => panic!("{bad:?}"),
            }
        }
    }
    bodies
}

#[test]
fn segments_are_removed_only_when_the_one_that_goes_on_is_written() {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("ps-0");
    let log = Log::open(Folder::open(&path).expect("it is free"), None).expect("it opens");
    log.begin(ORIGIN, [entry(0, 0, b"head")], EarlierSegments::Obsolete);
    log.commit(log.end()).expect("it is written");
    let second = log.begin(ORIGIN, [entry(0, 0, b"head again")], EarlierSegments::Kept);
    log.retire(second).expect("removed");
    drop(log);
    let folder = Folder::open(&path).expect("it is free");
    let segments = folder.segments().expect("readable");
    let numbers: Vec<u64> = segments.iter().map(|segment| segment.number).collect();
    assert_eq!(numbers, [second]);
    let (records, _, _) = read(&std::fs::read(segments[0].path()).expect("readable"));
    assert_eq!(records[0].body, "head again");
}

#[test]
fn a_closed_log_leaves_shared_memory_if_it_is_short_and_goes_on_from_its_own_folder() {
    let scratch = tempfile::tempdir().expect("a folder");
    let logs = scratch.path().join("logs");
    let path = logs.join("ps-0");
    let memory = SharedMemory {
        folder: scratch.path().join("shm"),
        bytes_max: 64 << 20,
    };
    let open = || {
        let mut folder = Folder::open(&path).expect("it is free");
        folder.use_memory(&memory).expect("it has memory");
        folder
    };
    let log = Log::open(open(), None).expect("it opens");
    log.begin(ORIGIN, [entry(0, 0, b"head")], EarlierSegments::Obsolete);
    log.add(entry(1, 1, b"a change"));
    log.commit(log.end()).expect("it is written");
    drop(log);
    let used = MemoryUse::of_logs(&logs).expect("readable");
    let [MemoryUse { log, folder, bytes }] = &used[..] else {
        panic!("{used:?}")
    };
    assert_eq!(log, "ps-0");
    assert!(bytes.is_some_and(|bytes| (1..1 << 20).contains(&bytes)));
    // A process that died while it copied the log has left a copy.
    let [segment] = &SegmentFile::all(&path).expect("readable")[..] else {
        panic!("one segment")
    };
    let name = segment.path().file_name().expect("a name");
    std::fs::copy(segment.path(), path.join(name)).expect("copied");
    let closed = Folder::open(&path).expect("it is free");
    assert!(!path.join(name).exists());
    closed.leave_memory(1).expect("it may stay");
    assert!(folder.exists(), "it is longer than that");
    closed.leave_memory(1 << 20).expect("it leaves");
    assert!(!folder.exists());
    assert_eq!(MemoryUse::of_logs(&logs).expect("readable"), []);
    drop(closed);
    let folder = open();
    assert_eq!(folder.lost_memory(), None);
    let segments = folder.segments().expect("readable");
    let log = Log::open(folder, segments.last()).expect("it opens");
    log.add(entry(1, 2, b"another"));
    log.commit(log.end()).expect("it is written");
    drop(log);
    assert_eq!(all_bodies(&path), ["head", "a change", "another"]);
    assert_eq!(
        MemoryUse::of_logs(&logs).expect("readable"),
        [],
        "a log without files there takes none of it"
    );
    let folder = open();
    let segments = folder.segments().expect("readable");
    let log = Log::open(folder, segments.last()).expect("it opens");
    log.begin(
        ORIGIN,
        [entry(0, 3, b"head again")],
        EarlierSegments::Obsolete,
    );
    log.commit(log.end()).expect("it is written");
    drop(log);
    // A copy of the folders names the memory of the originals.
    let copy = scratch.path().join("copy/ps-0");
    std::fs::create_dir_all(&copy).expect("made");
    std::fs::copy(path.join("memory"), copy.join("memory")).expect("copied");
    let of_copy = MemoryUse::of_logs(&scratch.path().join("copy"));
    assert_eq!(of_copy.expect("readable"), []);
    assert_eq!(MemoryUse::of_logs(&logs).expect("readable").len(), 1);
}

#[test]
fn a_log_lies_in_shared_memory_as_far_as_there_is_room_and_uses_its_files_again() {
    const FILE: usize = 8 << 20;
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("log");
    let memory = SharedMemory {
        folder: scratch.path().join("shm"),
        bytes_max: 3 * FILE as u64,
    };
    let open = || {
        let mut folder = Folder::open(&path).expect("it is free");
        folder.use_memory(&memory).expect("it has memory");
        folder
    };
    let files = |segments: Vec<SegmentFile>| {
        let parts = segments.into_iter().flat_map(|segment| segment.parts);
        let (disk, memory): (Vec<_>, Vec<_>) = parts.partition(|part| part.path.starts_with(&path));
        (memory.len(), disk.len())
    };
    let log = Log::open(open(), None).expect("it opens");
    log.begin(ORIGIN, [entry(0, 0, b"head")], EarlierSegments::Obsolete);
    let body = |number: u8| vec![number; FILE / 3];
    let add = |log: &Log, numbers: std::ops::Range<u8>| {
        for number in numbers {
            log.add(entry(1, number.into(), &body(number)));
            log.commit(log.end()).expect("it is written");
        }
    };
    // Two of these fit into a file.
    add(&log, 0..10);
    assert_eq!(files(SegmentFile::all(&path).expect("readable")), (3, 2));
    let expected = |numbers: &[u8]| -> Vec<Bytes> {
        numbers.iter().map(|number| body(*number).into()).collect()
    };
    let numbers: Vec<u8> = (0..10).collect();
    assert_eq!(all_bodies(&path)[1..], expected(&numbers));
    log.begin(ORIGIN, [], EarlierSegments::Kept);
    add(&log, 10..11);
    log.retire(2).expect("retired");
    add(&log, 11..15);
    // The files of the first segment are used again, and what they held is not read.
    let numbers: Vec<u8> = (10..15).collect();
    assert_eq!(all_bodies(&path), expected(&numbers));
    let (in_memory, on_disk) = files(SegmentFile::all(&path).expect("readable"));
    assert_eq!((in_memory, on_disk), (2, 1));
    // The process dies: nothing is truncated, and the next one goes on behind the last record.
    std::mem::forget(log);
    let copy = scratch.path().join("copy");
    std::fs::create_dir(&copy).expect("made");
    for part in SegmentFile::all(&path)
        .expect("readable")
        .iter()
        .flat_map(|segment| &segment.parts)
    {
        let name = part.path.file_name().expect("a name");
        std::fs::copy(&part.path, copy.join(name)).expect("copied");
    }
    assert_eq!(all_bodies(&copy), expected(&numbers));
    let folder = Folder::open(&copy).expect("it is free");
    let last = folder
        .segments()
        .expect("readable")
        .pop()
        .expect("a segment");
    let mut reader = last.read().expect("a segment");
    while reader.read().expect("readable") != Next::End {}
    let last = last.ending_at(reader.place());
    let log = Log::open(folder, Some(&last)).expect("it opens");
    add(&log, 15..18);
    drop(log);
    let numbers: Vec<u8> = (10..18).collect();
    assert_eq!(all_bodies(&copy), expected(&numbers));
    // A file that is missing in the middle is no end.
    let segment = SegmentFile::all(&copy).expect("readable").remove(0);
    std::fs::remove_file(&segment.parts[1].path).expect("removed");
    let segment = SegmentFile::all(&copy).expect("readable").remove(0);
    let mut reader = segment.read().expect("a segment");
    let end = loop {
        match reader.read().expect("readable") {
            Next::Record(_) => {}
            end => break end,
        }
    };
    assert!(
        matches!(
            end,
            Next::Bad(Bad {
                fault: Fault::Gap { .. },
                ..
            })
        ),
        "{end:?}"
    );
}

#[test]
fn a_log_on_the_disk_keeps_its_spare_files_through_a_kill_and_gives_back_what_closed_segments_do_not_need()
 {
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("log");
    let spare_files = || {
        let entries = std::fs::read_dir(&path).expect("readable");
        let names = entries.map(|entry| entry.expect("readable").file_name());
        let free = names.filter(|name| name.to_string_lossy().starts_with("free-"));
        free.count()
    };
    let log = Log::open(Folder::open(&path).expect("it is free"), None).expect("it opens");
    log.begin(ORIGIN, [entry(0, 0, b"head")], EarlierSegments::Obsolete);
    log.add(entry(1, 1, &[7; 5000]));
    log.begin(ORIGIN, [entry(0, 2, b"head again")], EarlierSegments::Kept);
    log.commit(log.end()).expect("it is written");
    assert_eq!(spare_files(), 2);
    // The next process has what a killed one leaves behind.
    std::mem::forget(log);
    std::fs::remove_file(scratch.path().join("log.lock")).expect("it lies beside the log");
    let folder = Folder::open(&path).expect("it is free");
    let segments = folder.segments().expect("readable");
    let before = all_bodies(&path);
    let place = |segment: &SegmentFile| {
        let mut reader = segment.read().expect("a segment");
        while reader.read().expect("readable") != Next::End {}
        reader.place()
    };
    let [first, last] = &segments[..] else {
        panic!("two segments")
    };
    let given_back = folder.give_back(first, place(first));
    given_back.expect("the file system can");
    let file = std::fs::metadata(first.path()).expect("it is there");
    assert!(file.blocks() * 512 < 1 << 20, "{} blocks", file.blocks());
    assert_eq!(all_bodies(&path), before);
    let last = last.clone().ending_at(place(last));
    let log = Log::open(folder, Some(&last)).expect("it opens");
    let size = |segment: &SegmentFile| std::fs::metadata(segment.path()).map(|file| file.len());
    let sizes = (size(&last).ok(), size(first).ok());
    assert_eq!(
        sizes,
        (Some(8 << 20), Some(8 << 20)),
        "no room of a file is given up"
    );
    assert_eq!(spare_files(), 2);
    log.add(entry(1, 3, b"and on"));
    log.commit(log.end()).expect("it is written");
    assert_eq!(all_bodies(&path).len(), before.len() + 1);
}
