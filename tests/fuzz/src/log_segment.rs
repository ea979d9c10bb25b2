//! Segments of a log: any bytes; and real ones that were cut, flipped or written over, of which nothing but what was
//! written is read, in its order.

use std::io::Cursor;

use bytes::Bytes;
use trainyard_write_ahead_log::{
    EarlierSegments, Entry, Folder, Log, Next, Origin, Reader, Record,
};

use crate::numbers::Numbers;
use crate::scratch;

/// Reads up to the first that is no whole record.
fn records(bytes: &[u8]) -> Vec<Record> {
    let Ok(Ok(mut reader)) = Reader::new(Cursor::new(bytes), bytes.len() as u64) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    loop {
        match reader.read().expect("bytes can be read") {
            Next::Record(record) => found.push(record),
            Next::End => return found,
            Next::Bad(bad) => {
                assert!(
                    bad.place + bad.rest == bytes.len() as u64 && !bad.fault.to_string().is_empty()
                );
                let _ = reader.proof_of_damage(&bad).expect("bytes can be read");
                assert_eq!(
                    reader.read().expect("bytes can be read"),
                    Next::Bad(bad),
                    "it stays bad"
                );
                return found;
            }
        }
    }
}

/// Reads the input as a segment, then writes a log, damages it as the input says and reads it.
pub fn run(data: &[u8]) {
    let _ = records(data);
    let mut input = Numbers(data);
    let scratch = scratch::folder();
    let path = scratch.path().join("log");
    let log = Log::open(Folder::open(&path).expect("a folder"), None).expect("a log");
    let count = input.below(6);
    let entries: Vec<Entry> = (0..count)
        .map(|place| {
            let parts = (0..input.below(3)).map(|_| {
                let length = input.below(200);
                Bytes::from(input.bytes(length))
            });
            Entry::new(place as u16, parts.collect()).numbered(input.wide())
        })
        .collect();
    log.begin(
        Origin {
            owner: 7,
            member: 1,
            prepared_epoch: 2,
        },
        entries,
        EarlierSegments::Obsolete,
    );
    log.commit(log.end()).expect("it is written");
    let folder = std::fs::read_dir(&path).expect("the folder");
    let file = folder
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .next()
        .expect("a segment");
    let mut bytes = std::fs::read(&file).expect("its bytes");
    log.clear().expect("it is removed");
    drop(log);
    let whole = records(&bytes);
    assert_eq!(whole.len(), count, "what was written is read");
    while !input.is_empty() {
        let place = (input.wide() as usize) % bytes.len().max(1);
        match input.below(4) {
            0 => bytes.truncate(place),
            1 => bytes.extend(input.bytes(64)),
            _ => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= input.byte();
                }
            }
        }
    }
    let left = records(&bytes);
    assert!(
        left.len() <= count && left == whole[..left.len()],
        "nothing else is read"
    );
}
