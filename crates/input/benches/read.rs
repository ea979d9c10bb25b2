//! Rows a second from a file of 40 columns into batches, on one thread: `cargo bench -p trainyard-input`.

use std::fmt::Write as _;
use std::time::Instant;

use trainyard_input::*;

fn main() {
    let folder = std::env::temp_dir().join(format!("trainyard-read-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the bench");
    let path = folder.join("ctr.tsv");
    let (rows, mut text) = (200_000_u64, String::new());
    for row in 0..rows {
        let _ = write!(text, "{}", row % 2);
        for column in 0..13 {
            let _ = write!(text, "\t{}", row * 31 % (column + 97));
        }
        for column in 0..26 {
            let _ = write!(text, "\t{:08x}", row.wrapping_mul(2_654_435_761 + column) as u32);
        }
        text.push('\n');
    }
    std::fs::write(&path, &text).expect("the bench's data");
    let names = std::iter::once("label".to_owned());
    let columns: Vec<String> = names
        .chain((1..14).map(|column| format!("i{column}")))
        .chain((1..27).map(|column| format!("c{column}")))
        .collect();
    let mut schema = Schema::default();
    for name in &columns {
        let float = !name.starts_with('c');
        schema.want(
            name,
            if float {
                FieldKind::Float { width: 1, separator: None, default: Some(vec![0.0]) }
            } else {
                FieldKind::BYTES
            },
        );
    }
    for shuffle_rows in [0, 10_000] {
        let options = Options {
            files: vec![path.clone()],
            format: Format::Tsv,
            columns: Some(columns.clone()),
            trim: true,
            missing: Vec::new(),
            bad_rows: BadRows::Fail,
            bad_rows_max: 0,
            dead_letter: None,
            batch_size: 128,
            shuffle_rows,
            epochs: Some(3),
            sharding: Sharding::Row,
            shard_index: 0,
            shard_count: 1,
            seed: 1,
            skip_batches: 0,
        };
        let start = Instant::now();
        let read: usize = Dataset::open(options, schema.clone())
            .expect("the bench's data opens")
            .map(|batch| batch.expect("the bench's data is good").rows)
            .sum();
        let seconds = start.elapsed().as_secs_f64();
        let megabytes = 3.0 * text.len() as f64 / 1e6;
        println!(
            "shuffle {shuffle_rows}: {:.0} rows/s, {:.0} MB/s",
            read as f64 / seconds,
            megabytes / seconds
        );
    }
    drop(std::fs::remove_dir_all(&folder));
}
