//! Rows a second from files of 40 columns into batches, on one thread: `cargo bench -p trainyard-input`. Where the
//! system tells, seconds are those in which the thread ran.

use std::fmt::Write as _;
use std::time::Instant;

use trainyard_input::*;

const ROWS: u64 = 200_000;

/// Returns seconds from any time on.
fn seconds(start: Instant) -> f64 {
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = ran.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    ran.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// A field of protobuf that holds bytes; all are shorter than 128, but for records.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = match bytes.len() {
        length @ ..128 => vec![length as u8],
        length => vec![length as u8 | 0x80, (length >> 7) as u8],
    };
    [&[number << 3 | 2], length.as_slice(), bytes].concat()
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// The row as a record of a TFRecord file.
fn record(columns: &[String], row: &str) -> Vec<u8> {
    let entry = |(name, value): (&String, &str)| {
        let feature = match name.starts_with('c') {
            true => field(1, &field(1, value.as_bytes())),
            false => field(2, &field(1, &value.parse::<f32>().unwrap_or_default().to_le_bytes())),
        };
        field(1, &[field(1, name.as_bytes()), field(2, &feature)].concat())
    };
    let example = field(1, &columns.iter().zip(row.split('\t')).flat_map(entry).collect::<Vec<_>>());
    let length = (example.len() as u64).to_le_bytes();
    [length.as_slice(), &masked(&length), &example, &masked(&example)].concat()
}

fn main() {
    let folder = std::env::temp_dir().join(format!("trainyard-read-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the bench");
    let names = std::iter::once("label".to_owned());
    let columns: Vec<String> = names
        .chain((1..14).map(|column| format!("i{column}")))
        .chain((1..27).map(|column| format!("c{column}")))
        .collect();
    let (mut text, mut records) = (String::new(), Vec::new());
    for row in 0..ROWS {
        let begin = text.len();
        let _ = write!(text, "{}", row % 2);
        for column in 0..13 {
            let _ = write!(text, "\t{}", row * 31 % (column + 97));
        }
        for column in 0..26 {
            let _ = write!(text, "\t{:08x}", row.wrapping_mul(2_654_435_761 + column) as u32);
        }
        records.extend(record(&columns, &text[begin..]));
        text.push('\n');
    }
    let mut schema = Schema::default();
    for name in &columns {
        let float = FieldKind::Float { width: 1, separator: None, default: Some(vec![0.0]) };
        schema.want(name, if name.starts_with('c') { FieldKind::BYTES } else { float });
    }
    let formats = [
        (Format::Tsv, "ctr.tsv", text.as_bytes()),
        (Format::Csv, "ctr.csv", &text.replace('\t', ",").into_bytes()),
        (Format::TfRecord, "ctr.tfrecord", &records),
    ];
    for (format, name, bytes) in formats {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("the bench's data");
        for (shuffle_rows, batch_size) in [(0, 128), (0, 512), (10_000, 128)] {
            let options = Options {
                files: vec![path.clone()],
                format,
                compression: None,
                columns: (format != Format::TfRecord).then(|| columns.clone()),
                trim: true,
                missing: Vec::new(),
                bad_rows: BadRows::Fail,
                bad_rows_max: 0,
                dead_letter: None,
                batch_size,
                shuffle_rows,
                epochs: Some(3),
                sharding: Sharding::Row,
                shard_index: 0,
                shard_count: 1,
                seed: 1,
                skip_batches: 0,
            };
            let mut dataset = Dataset::open(options, schema.clone()).expect("the bench's data opens");
            let (mut batch, mut read, start) = (Batch::default(), 0, Instant::now());
            let began = seconds(start);
            while dataset.read(&mut batch).expect("the bench's data is good") {
                read += batch.rows;
            }
            let spent = seconds(start) - began;
            let (rate, megabytes) = (read as f64 / spent, 3.0 * bytes.len() as f64 / 1e6 / spent);
            println!(
                "{name}, batch {batch_size}, shuffle {shuffle_rows}: {rate:.0} rows/s, {megabytes:.0} MB/s"
            );
        }
    }
    drop(std::fs::remove_dir_all(&folder));
}
