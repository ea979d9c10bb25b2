//! Benchmark of reading: rows per second from files of 40 columns into batches, on one thread
//! (`cargo bench -p trainyard-input`). Time is the thread's CPU time where the system reports it. The fastest of three
//! passes over each file counts.
#![expect(
    clippy::disallowed_types,
    reason = "a benchmark measures the time of the machine"
)]

use std::fmt::Write as _;
use std::time::Instant;

use trainyard_input::*;
use trainyard_tensorflow_formats::tfrecord::write_frame;

const ROWS: u64 = 200_000;

/// Returns the CPU time of this thread in seconds, or the time since `start` where the system does not report it.
fn seconds(start: Instant) -> f64 {
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = ran.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    ran.map_or_else(
        || start.elapsed().as_secs_f64(),
        |nanoseconds| nanoseconds / 1e9,
    )
}

/// Returns a protobuf field of bytes, at most 16383 of them. All fields but records are shorter than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = match bytes.len() {
        length @ ..128 => vec![length as u8],
        length => vec![length as u8 | 0x80, (length >> 7) as u8],
    };
    [&[number << 3 | 2], length.as_slice(), bytes].concat()
}

/// Returns a row as a framed record of a TFRecord file.
fn record(columns: &[String], row: &str) -> Vec<u8> {
    let entry = |(name, value): (&String, &str)| {
        let feature = if name.starts_with('c') {
            field(1, &field(1, value.as_bytes()))
        } else {
            field(
                2,
                &field(1, &value.parse::<f32>().unwrap_or_default().to_le_bytes()),
            )
        };
        field(1, &[field(1, name.as_bytes()), field(2, &feature)].concat())
    };
    let example = field(
        1,
        &columns
            .iter()
            .zip(row.split('\t'))
            .flat_map(entry)
            .collect::<Vec<_>>(),
    );
    let mut framed = Vec::new();
    write_frame(&mut framed, &example).expect("memory takes it");
    framed
}

/// Writes the rows as numbers and texts.
#[cfg(feature = "parquet")]
fn write_parquet(path: &std::path::Path, columns: &[String], text: &str) {
    let cells = |line: &str| -> Vec<Cell> {
        let values = columns.iter().zip(line.split('\t'));
        let cell = |(name, value): (&String, &str)| Cell {
            values: vec![if name.starts_with('c') {
                Value::Text(value.as_bytes().to_vec())
            } else {
                Value::Int(value.parse().unwrap_or_default())
            }],
            list: false,
        };
        values.map(cell).collect()
    };
    let mut layout = Layout::default();
    // The letters of a text may all be digits, so several rows decide on the types.
    for line in text.lines().take(1000) {
        layout.see(columns, &cells(line));
    }
    let mut writer = TableWriter::create(path, Format::Parquet, layout).expect("a file");
    for line in text.lines() {
        writer.write(&cells(line)).expect("the file takes a row");
    }
    writer.finish().expect("the file is written");
}

/// Runs a benchmark three times. Returns its rows and the seconds of the fastest run.
fn best(mut run: impl FnMut(u64) -> usize) -> (usize, f64) {
    let start = Instant::now();
    let mut rows = 0;
    let mut least = f64::MAX;
    for pass in 0..3 {
        let began = seconds(start);
        rows = run(pass);
        least = least.min(seconds(start) - began);
    }
    (rows, least)
}

fn planner(batch_size: usize, shuffle_rows: usize) -> ShardPlanner {
    let count = |number: usize| {
        let number = u32::try_from(number)
            .ok()
            .and_then(std::num::NonZeroU32::new);
        number.expect("the bench's counts are not 0")
    };
    ShardPlanner {
        batch_size: count(batch_size),
        lanes: count(1),
        batches_per_shard: count(16),
        shuffle: shuffle_rows > 0,
        window_rows: shuffle_rows as u64,
        seed: 1,
    }
}

fn indexed(options: &Options, planner: &ShardPlanner) -> usize {
    let mut indexer =
        Indexer::open(options.clone(), planner.batch_size).expect("the bench's data is there");
    indexer
        .advance(u64::MAX)
        .expect("the bench's data is read")
        .rows() as usize
}

fn dataset(options: &Options, schema: &Schema) -> usize {
    let mut dataset =
        Dataset::open(options.clone(), schema.clone()).expect("the bench's data opens");
    let mut batch = Batch::default();
    let mut rows = 0;
    while dataset.read(&mut batch).expect("the bench's data is good") {
        rows += batch.rows;
    }
    rows
}

fn planned(
    reader: &mut ShardReader,
    planner: &ShardPlanner,
    index: &RecordIndex,
    pass: u64,
) -> usize {
    let mut batch = Batch::default();
    let mut rows = 0;
    let mut round = 0;
    while let Answer::Shard(shard) = planner.shard(index, pass, round, 0) {
        reader
            .begin(shard, 0..u32::MAX, Direction::Forward)
            .expect("the data shard is sound");
        while reader.read(&mut batch).expect("the bench's data is good") {
            rows += batch.rows;
        }
        round += 1;
    }
    rows
}

fn main() {
    let folder = std::env::temp_dir().join(format!("trainyard-read-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the bench");
    let names = std::iter::once("label".to_owned());
    let columns: Vec<String> = names
        .chain((1..14).map(|column| format!("i{column}")))
        .chain((1..27).map(|column| format!("c{column}")))
        .collect();
    let mut text = String::new();
    let mut records = Vec::new();
    for row in 0..ROWS {
        let begin = text.len();
        let _ = write!(text, "{}", row % 2);
        for column in 0..13 {
            let _ = write!(text, "\t{}", row * 31 % (column + 97));
        }
        for column in 0..26 {
            let _ = write!(
                text,
                "\t{:08x}",
                row.wrapping_mul(2_654_435_761 + column) as u32
            );
        }
        records.extend(record(&columns, &text[begin..]));
        text.push('\n');
    }
    let mut schema = Schema::default();
    for name in &columns {
        let float = FieldKind::Float {
            width: 1,
            separator: None,
            default: Some(vec![0.0]),
        };
        schema.want(
            name,
            if name.starts_with('c') {
                FieldKind::BYTES
            } else {
                float
            },
        );
    }
    #[cfg(feature = "parquet")]
    let parquet = {
        let path = folder.join("rows.parquet");
        write_parquet(&path, &columns, &text);
        std::fs::read(path).expect("the bench's data")
    };
    let formats = [
        (Format::Tsv, "ctr.tsv", text.as_bytes()),
        (
            Format::Csv,
            "ctr.csv",
            &text.replace('\t', ",").into_bytes(),
        ),
        (Format::TfRecord, "ctr.tfrecord", &records),
        #[cfg(feature = "parquet")]
        (Format::Parquet, "ctr.parquet", &parquet),
    ];
    for (format, name, bytes) in formats {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("the bench's data");
        for (shuffle_rows, batch_size) in [(0, 128), (0, 512), (10_000, 128)] {
            let options = Options {
                columns: matches!(format, Format::Csv | Format::Tsv).then(|| columns.clone()),
                trim: true,
                batch_size,
                shuffle_rows,
                sharding: Sharding::Row,
                seed: 1,
                ..Options::new(vec![path.clone()], format)
            };
            let told = |what: &str, (rows, spent): (usize, f64)| {
                let rate = rows as f64 / spent;
                let megabytes = bytes.len() as f64 / 1e6 / spent;
                println!(
                    "{name}, batch {batch_size}, shuffle {shuffle_rows}, {what}: {rate:.0} rows/s, {megabytes:.0} MB/s"
                );
            };
            let planner = planner(batch_size, shuffle_rows);
            let mut indexer = Indexer::open(options.clone(), planner.batch_size)
                .expect("the bench's data is there");
            told("index", best(|_| indexed(&options, &planner)));
            indexer.advance(u64::MAX).expect("the bench's data is read");
            told("dataset", best(|_| dataset(&options, &schema)));
            let mut reader =
                ShardReader::open(options.clone(), schema.clone()).expect("the bench's data opens");
            told(
                "data shards",
                best(|pass| planned(&mut reader, &planner, indexer.index(), pass)),
            );
        }
    }
    drop(std::fs::remove_dir_all(&folder));
}
