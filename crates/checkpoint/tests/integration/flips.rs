//! Damage: any damage of a checkpoint is found before its values are served.

use std::path::{Path, PathBuf};

use trainyard_checkpoint::*;
use trainyard_testing::Seed;
use trainyard_variable::{
    Access, Candidate, DynamicRows, FirstRows, Idle, Initializer, VariableSpec,
};

/// Number of flips and cuts.
const SAMPLES: u64 = 10_000;

/// Random number generator (xorshift).
struct Draw(u64);

impl Draw {
    /// Returns a generator. The seed is spread over all bits, so that adjacent seeds differ. The state must not be 0.
    fn new(seed: Seed) -> Self {
        Self(
            seed.get()
                .wrapping_add(1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                | 1,
        )
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % bound
    }
}

/// Saves a checkpoint of two servers, with slots and a dynamic table.
fn save(model_dir: &Path, step: u64) -> Checkpoint {
    let folder = begin(model_dir, step, "test", 1000).expect("a checkpoint begins");
    let mut manifest = Manifest::new("c1".to_owned(), 1, step, step);
    for ps in 0..2 {
        let name = format!("dnn/kernel_{ps}");
        let spec = VariableSpec {
            name: name.clone(),
            shape: vec![300, 3],
            access: Access::Rows,
            initializer: Initializer::Zeros,
            optimizer_group: "dnn".to_owned(),
        };
        // The second server holds only some of its rows.
        let first = FirstRows::new(&spec, 5);
        let held = HeldView {
            rows: vec![0..90, 95..101, 200..300],
            others: OtherRows::Initial {
                first: &first,
                first_slots: &[0.5],
            },
        };
        let (held, rows) = if ps == 0 {
            (None, 300)
        } else {
            (Some(held), 196)
        };
        let values = vec![0.5 + step as f32; 3 * rows];
        let slot = vec![0.0; 3 * rows];
        let source = InMemory {
            values: &values,
            slots: vec![&slot],
        };
        let slices = [SliceView {
            variable: &name,
            part: 0,
            rows: 0..300,
            width: 3,
            slot_names: vec!["accumulator"],
            held,
            source: &source,
        }];
        let rows = DynamicRows {
            ids: vec![3, 5, 900],
            idle: vec![Idle { pushes: 1, secs: 2 }; 3],
            values: vec![0.25; 6],
            slots: vec![vec![0.0; 6]],
            candidates: vec![Candidate {
                id: 8,
                idle: Idle { pushes: 3, secs: 4 },
                occurrences: 1,
            }],
        };
        let slot_names = vec!["accumulator"];
        let table = TableView {
            variable: "table",
            part: ps,
            width: 2,
            slot_names,
            first: None,
            source: &rows,
            increment: None,
        };
        let positions = vec![PositionRecord {
            shard: 0,
            pass: 1,
            batch: 40,
            ahead: vec![42..43, 45..47],
        }];
        let state = ShardState {
            ps,
            num_ps: 2,
            version: 9,
            positions,
            ..ShardState::default()
        };
        manifest
            .shards
            .push(write_shard(&folder, &state, &slices, &[table]).expect("a shard is written"));
        manifest.variables.push(spec);
    }
    manifest.num_ps = 2;
    commit(model_dir, &folder, &manifest).expect("a checkpoint is committed")
}

/// Returns the reason why a checkpoint is refused; nothing if it is accepted.
fn refusal(path: &Path) -> Option<String> {
    let whole = Checkpoint::open(path).and_then(|checkpoint| checkpoint.verify());
    whole.err().map(|error| error.to_string())
}

fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(path)
        .expect("the checkpoint")
        .map(|entry| entry.expect("a file").path());
    entries
        .map(|path| (path.clone(), std::fs::read(path).expect("a file")))
        .collect()
}

#[test]
fn a_flipped_bit_of_any_byte_of_a_manifest_and_every_cut_is_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkpoint = save(folder.path(), 1);
    let path = checkpoint.path().join("manifest.json");
    let good = std::fs::read(&path).expect("the manifest");
    for place in 0..good.len() {
        // Near the ends of the file, where its structure is stored, all eight bits are flipped; elsewhere one bit per
        // byte.
        let bits = if place < 40 || place + 40 > good.len() {
            0..8
        } else {
            place % 8..place % 8 + 1
        };
        for bit in bits {
            let mut bad = good.clone();
            bad[place] ^= 1 << bit;
            std::fs::write(&path, bad).expect("damage");
            assert!(
                refusal(checkpoint.path()).is_some(),
                "bit {bit} of byte {place} of {}",
                good.len()
            );
        }
        std::fs::write(&path, &good[..place]).expect("damage");
        assert!(
            refusal(checkpoint.path()).is_some(),
            "cut to {place} of {} bytes",
            good.len()
        );
    }
    std::fs::write(&path, &good).expect("mended");
    assert_eq!(refusal(checkpoint.path()), None);
}

#[test]
fn ten_thousand_flips_and_cuts_of_all_files_are_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkpoint = save(folder.path(), 1);
    let files = files(checkpoint.path());
    assert_eq!(files.len(), 3);
    let seed = Seed::of_environment(1);
    let mut draw = Draw::new(seed);
    let mut found = 0;
    let mut missed = Vec::new();
    for sample in 0..SAMPLES {
        let (path, good) = &files[draw.below(3) as usize];
        let place = draw.below(good.len() as u64) as usize;
        let bit = draw.below(8);
        let mut bad = good.clone();
        match sample % 5 {
            0 => bad.truncate(place),
            _ => bad[place] ^= 1 << bit,
        }
        std::fs::write(path, bad).expect("damage");
        match refusal(checkpoint.path()) {
            Some(_) => found += 1,
            None => missed.push(format!(
                "sample {sample}: bit {bit} of byte {place} of {}",
                path.display()
            )),
        }
        std::fs::write(path, good).expect("mended");
    }
    println!("{seed}: {found} of {SAMPLES} found");
    assert!(
        missed.is_empty(),
        "{seed}, {} missed:\n{}",
        missed.len(),
        missed.join("\n")
    );
}

/// All values that a restore reads from a checkpoint.
#[derive(Debug, PartialEq)]
struct Restored {
    rows: Vec<Vec<f32>>,
    tables: Vec<DynamicRows>,
}

/// Restores a checkpoint with `servers` servers. Each reads its rows in steps of `step`, and all checksums are
/// compared.
fn restore(path: &Path, servers: usize, step: usize) -> Result<Restored, Error> {
    let mut restored = Restored {
        rows: Vec::new(),
        tables: Vec::new(),
    };
    let mut parts = Vec::new();
    for server in 0..servers {
        let checkpoint = Checkpoint::open(path)?;
        let own = 300 * server / servers..300 * (server + 1) / servers;
        for name in ["dnn/kernel_0", "dnn/kernel_1"] {
            for slot in [None, Some("accumulator")] {
                // The last rows are read first, because the order must not matter.
                for begin in own.clone().step_by(step).rev() {
                    let rows = begin..(begin + step).min(own.end);
                    let mut out = vec![0.0; 3 * rows.len()];
                    checkpoint.read_rows(name, slot, rows, &mut out)?;
                    restored.rows.push(out);
                }
            }
        }
        let id = |server: usize| (1 << 10) * server as u128 / servers as u128;
        restored.tables.push(checkpoint.read_dynamic(
            "table",
            &["accumulator"],
            id(server)..id(server + 1),
        )?);
        parts.extend(checkpoint.check_read()?);
    }
    assert!(
        servers > 1 || parts.is_empty(),
        "one server has read all: {parts:?}"
    );
    Checkpoint::open(path)?.check_parts(parts)?;
    Ok(restored)
}

#[test]
fn a_flipped_bit_is_found_by_those_who_restore_whatever_parts_they_read_or_changes_nothing_of_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkpoint = save(folder.path(), 1);
    let seed = Seed::of_environment(11);
    let mut draw = Draw::new(seed);
    let files: Vec<(PathBuf, Vec<u8>)> = files(checkpoint.path())
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|kind| kind == "safetensors"))
        .collect();
    let mut found = 0;
    for _ in 0..SAMPLES / 10 {
        let servers = 1 + draw.below(5) as usize;
        let step = 1 + draw.below(100) as usize;
        let good = restore(checkpoint.path(), servers, step).expect("nothing is damaged");
        let (path, bytes) = &files[draw.below(files.len() as u64) as usize];
        let place = draw.below(bytes.len() as u64) as usize;
        let mut bad = bytes.clone();
        bad[place] ^= 1 << draw.below(8);
        std::fs::write(path, bad).expect("damage");
        match restore(checkpoint.path(), servers, step) {
            Ok(restored) => {
                assert_eq!(restored, good, "{seed}: byte {place} of {}", path.display())
            }
            Err(error) => {
                assert!(!error.is_unreadable(), "{error}");
                found += 1;
            }
        }
        std::fs::write(path, bytes).expect("mended");
    }
    // The other bits are in headers, which a restore does not read.
    assert!(
        found > SAMPLES / 20,
        "{seed}: {found} of {} found",
        SAMPLES / 10
    );
}

#[test]
fn a_damaged_newest_is_passed_over_whatever_file_of_it_is_damaged_and_is_never_removed() {
    for place in 0..3 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        save(folder.path(), 1);
        let newest = save(folder.path(), 2).path().to_owned();
        let (path, mut bytes) = files(&newest).swap_remove(place);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("damage");
        let removed = retain(folder.path(), Keep::newest(2));
        assert!(newest.is_dir(), "damaged ones are not removed: {removed:?}");
        let mut told = Vec::new();
        let found =
            latest_good(folder.path(), &mut |warning| told.push(warning.render())).expect("a list");
        assert_eq!(
            found.map(|found| found.manifest().global_step),
            Some(1),
            "{}",
            path.display()
        );
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(
            told.len() == 1 && told[0].contains(&name) && told[0].contains("crc32c"),
            "{told:?}"
        );
        assert!(path.is_file(), "a reader renames nothing");
    }
}
