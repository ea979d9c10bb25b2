//! Checkpoints on disk: complete, damaged, interrupted at every step, and read by other numbers of servers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use trainyard_checkpoint::*;
use trainyard_diagnostic::Diagnostic;
use trainyard_model_dir::{
    JobPhase, JobState, cluster_id, known_cluster_id, note_prepared, prepared_epoch,
};
use trainyard_optimizer::OptimizerConfig;
use trainyard_variable::{Access, Initializer, Layout, Partitioner, Placement, VariableSpec};

fn variables() -> Vec<VariableSpec> {
    let spec = |name: &str, shape: &[usize]| VariableSpec {
        name: name.into(),
        shape: shape.into(),
        access: Access::Rows,
        initializer: Initializer::Zeros,
        optimizer_group: "dnn".into(),
    };
    vec![
        spec("dnn/table", &[37, 3]),
        spec("dnn/bias", &[11]),
        spec("scalar", &[]),
    ]
}

fn optimizers() -> BTreeMap<String, OptimizerConfig> {
    let adagrad = OptimizerConfig::adagrad(0.1);
    BTreeMap::from([("dnn".to_owned(), adagrad)])
}

/// Returns the value at a place of a variable or slot. All places have different values.
fn value(variable: usize, slot: bool, place: usize) -> f32 {
    (variable * 1000 + place) as f32 + if slot { 0.5 } else { 0.25 }
}

fn layout(num_ps: usize) -> Layout {
    Layout::new(
        &variables(),
        Partitioner::Fixed { num_shards: num_ps },
        Placement::Greedy,
        num_ps,
    )
}

fn write_files(folder: &Path, num_ps: usize) -> Vec<ShardRecord> {
    let layout = layout(num_ps);
    let variables = variables();
    let write = |ps: usize| {
        let slices: Vec<_> = layout.of_ps(ps).map(|(_, slice)| slice.clone()).collect();
        let buffers: Vec<[Vec<f32>; 2]> = slices
            .iter()
            .map(|slice| {
                let places = slice.rows.start * slice.width..slice.rows.end * slice.width;
                [false, true].map(|slot| {
                    places
                        .clone()
                        .map(|place| value(slice.variable, slot, place))
                        .collect()
                })
            })
            .collect();
        let sources: Vec<InMemory<'_>> = buffers
            .iter()
            .map(|[values, slot]| InMemory {
                values,
                slots: vec![slot],
            })
            .collect();
        let views: Vec<SliceView<'_>> = slices
            .iter()
            .zip(&sources)
            .map(|(slice, source)| SliceView {
                variable: &variables[slice.variable].name,
                part: slice.part,
                rows: slice.rows.clone(),
                width: slice.width,
                slot_names: vec!["accumulator"],
                held: None,
                source,
            })
            .collect();
        let positions = vec![PositionRecord {
            shard: 3,
            pass: 1,
            batch: 40,
            ahead: vec![42..43, 45..47],
        }];
        let state = ShardState {
            ps,
            num_ps,
            version: 9,
            positions,
            ..ShardState::default()
        };
        write_shard(folder, &state, &views, &[]).expect("a shard is written")
    };
    (0..num_ps).map(write).collect()
}

fn manifest(step: u64, epoch: u64, shards: Vec<ShardRecord>) -> Manifest {
    Manifest {
        num_ps: shards.len(),
        variables: variables(),
        optimizers: optimizers(),
        shards,
        ..Manifest::new("c1".into(), epoch, step, 1000 + step)
    }
}

fn save(model_dir: &Path, step: u64, num_ps: usize) -> Checkpoint {
    let folder = begin(model_dir, step, "test", 1000).expect("a checkpoint begins");
    let shards = write_files(&folder, num_ps);
    commit(model_dir, &folder, &manifest(step, 1, shards)).expect("a checkpoint is committed")
}

/// Looks for the newest checkpoint as a chief does.
fn latest(model_dir: &Path) -> (Option<u64>, Vec<Diagnostic>) {
    let mut warnings = Vec::new();
    let mut warn = |warning| warnings.push(warning);
    let step = loop {
        let found = trainyard_checkpoint::latest(model_dir, &mut warn);
        let Some(checkpoint) = found.expect("the folder is readable") else {
            break None;
        };
        match checkpoint.verify() {
            Ok(()) => break Some(checkpoint.manifest().global_step),
            Err(damage) => set_aside(model_dir, checkpoint.path(), damage, &mut warn)
                .expect("it can be renamed"),
        }
    };
    (step, warnings)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]
    #[test]
    fn any_number_of_servers_reads_what_any_other_wrote(written in 1_usize..=5, read in 1_usize..=5) {
        let folder = folder();
        let checkpoint = save(folder.path(), 7, written);
        checkpoint.verify().expect("it is whole");
        for slice in &layout(read).slices {
            let spec = &variables()[slice.variable];
            for slot in [None, Some("accumulator")] {
                let mut out = vec![0.0; slice.rows.len() * slice.width];
                checkpoint.read_rows(&spec.name, slot, slice.rows.clone(), &mut out).expect("rows are read");
                let first = slice.rows.start * slice.width;
                let expected: Vec<f32> = (0..out.len()).map(|place| value(slice.variable, slot.is_some(), first + place)).collect();
                prop_assert_eq!(out, expected);
            }
        }
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_found_before_a_value_is_served(at in 0.0_f64..1.0, bit in 0_u8..8, cut in any::<bool>()) {
        let folder = folder();
        save(folder.path(), 1, 1);
        let checkpoint = save(folder.path(), 2, 2);
        let path = checkpoint.path().join("shard-1-of-2.safetensors");
        let mut bytes = std::fs::read(&path).expect("the shard is there");
        let place = (at * bytes.len() as f64) as usize;
        if cut { bytes.truncate(place) } else { bytes[place] ^= 1 << bit }
        std::fs::write(&path, bytes).expect("the shard is damaged");
        let (step, warnings) = latest(folder.path());
        prop_assert_eq!(step, Some(1));
        let text = warnings[0].render();
        prop_assert!(text.contains("step 2 is damaged and was set aside") && text.contains("using step 1 instead"), "{}", text);
        prop_assert!(folder.path().join("damaged.model.ckpt-2/manifest.json").exists(), "nothing is deleted");
    }
}

#[test]
fn files_are_readable_by_the_safetensors_library() {
    let folder = folder();
    let checkpoint = save(folder.path(), 1, 1);
    let bytes = std::fs::read(checkpoint.path().join("shard-0-of-1.safetensors"))
        .expect("the shard is there");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("it is a safetensors file");
    let table = tensors
        .tensor("dnn/table/part_0")
        .expect("the table is in it");
    assert_eq!(
        (table.shape(), table.dtype()),
        ([37, 3].as_slice(), safetensors::Dtype::F32)
    );
    assert_eq!(table.data()[..4], value(0, false, 0).to_le_bytes());
}

/// Interrupts a save after each of its steps, like a crash, and checks the latest checkpoint.
#[test]
fn a_save_cut_off_anywhere_leaves_the_one_before() {
    let folder = folder();
    let dir = folder.path();
    save(dir, 1, 2);
    let temporary = begin(dir, 2, "crash", 10).expect("a checkpoint begins");
    assert_eq!(latest(dir).0, Some(1), "after begin");
    let shards = write_files(&temporary, 2);
    assert_eq!(latest(dir).0, Some(1), "after the shards");
    std::fs::write(temporary.join("manifest.json"), b"{\"half\":").expect("a cut manifest");
    assert_eq!(latest(dir).0, Some(1), "in the manifest");
    // After a crash between rename and state file, only the manifest counts.
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let committed =
        commit(elsewhere.path(), &temporary, &manifest(2, 1, shards)).expect("a checkpoint");
    std::fs::rename(committed.path(), dir.join("model.ckpt-2")).expect("the rename");
    assert_eq!(latest(dir).0, Some(2), "after the rename");
    let left = begin(dir, 3, "left", 10).expect("a checkpoint begins");
    sweep(dir).expect("the folder is swept");
    assert!(!left.exists() && latest(dir).0 == Some(2));
}

#[test]
fn a_failed_save_hides_nothing() {
    let folder = folder();
    save(folder.path(), 1, 2);
    let temporary = begin(folder.path(), 2, "short", 10).expect("a checkpoint begins");
    let shards = write_files(&temporary, 2);
    std::fs::remove_file(temporary.join("shard-0-of-2.safetensors")).expect("a shard is lost");
    assert!(commit(folder.path(), &temporary, &manifest(2, 1, shards)).is_err());
    assert_eq!(latest(folder.path()).0, Some(1));
    let space = begin(folder.path(), 3, "huge", u64::MAX / 4);
    assert!(matches!(space, Err(Error::Space { .. })), "{space:?}");
}

#[test]
fn a_later_epoch_wins_over_a_higher_step() {
    let folder = folder();
    save(folder.path(), 50, 1);
    let temporary = begin(folder.path(), 40, "again", 10).expect("a checkpoint begins");
    let shards = write_files(&temporary, 1);
    commit(folder.path(), &temporary, &manifest(40, 2, shards)).expect("a checkpoint is committed");
    assert_eq!(latest(folder.path()).0, Some(40));
}

#[test]
fn the_best_checkpoint_stays_however_old_and_becomes_the_latest_when_those_after_it_go() {
    let folder = folder();
    for step in 1..=6 {
        save(folder.path(), step, 1);
    }
    let steps = || {
        list(folder.path())
            .expect("a list")
            .iter()
            .map(|found| found.step)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        retain(
            folder.path(),
            Keep {
                best: Some(2),
                ..Keep::newest(2)
            }
        )
        .expect("retention"),
        [1, 3, 4]
    );
    assert_eq!(steps(), [2, 5, 6]);
    assert_eq!(
        remove_after(folder.path(), 4).expect("it is not there"),
        None
    );
    assert_eq!(steps(), [2, 5, 6]);
    assert_eq!(
        remove_after(folder.path(), 2).expect("they go"),
        Some(vec![5, 6])
    );
    assert_eq!((steps(), latest(folder.path()).0), (vec![2], Some(2)));
    let state = std::fs::read_to_string(folder.path().join("checkpoint")).expect("the state file");
    assert_eq!(
        state.lines().next(),
        Some("model_checkpoint_path: \"model.ckpt-2\"")
    );
    assert_eq!(
        remove_after(folder.path(), 2).expect("nothing is after it"),
        Some(Vec::new())
    );
}

#[test]
fn checkpoints_that_wait_for_their_evaluation_stay_where_every_one_is_evaluated() {
    let folder = folder();
    for step in 1..=6 {
        save(folder.path(), step, 1);
    }
    let keep = Keep {
        unevaluated: true,
        ..Keep::newest(1)
    };
    assert_eq!(
        retain(folder.path(), keep).expect("none was evaluated"),
        [0_u64; 0]
    );
    std::fs::create_dir(folder.path().join("eval")).expect("there is room");
    let result = r#"{"cluster_epoch": 1, "global_step": 3, "metrics": {}}"#;
    std::fs::write(folder.path().join("eval/result.json"), result).expect("there is room");
    assert_eq!(retain(folder.path(), keep).expect("retention"), [1, 2, 3]);
    assert_eq!(
        retain(folder.path(), Keep::newest(1)).expect("retention"),
        [4, 5]
    );
}

#[test]
fn old_checkpoints_go_but_never_a_pinned_one_nor_the_last_good() {
    let folder = folder();
    for step in 1..=5 {
        save(folder.path(), step, 1);
    }
    let guard = pin(&folder.path().join("model.ckpt-2"), "reader").expect("a pin");
    assert_eq!(
        retain(folder.path(), Keep::newest(2)).expect("retention"),
        [1, 3]
    );
    let steps = || {
        list(folder.path())
            .expect("a list")
            .iter()
            .map(|found| found.step)
            .collect::<Vec<_>>()
    };
    assert_eq!(steps(), [2, 4, 5]);
    drop(guard);
    let newest = folder.path().join("model.ckpt-5/shard-0-of-1.safetensors");
    let good = std::fs::read(&newest).expect("the shard is there");
    std::fs::write(&newest, &good[1..]).expect("the newest is damaged");
    assert!(retain(folder.path(), Keep::newest(1)).is_err());
    assert_eq!(
        steps(),
        [2, 4, 5],
        "nothing goes while the newest is not whole"
    );
    std::fs::write(&newest, good).expect("the newest is mended");
    assert_eq!(
        retain(folder.path(), Keep::newest(2)).expect("retention"),
        [2]
    );
    let state = std::fs::read_to_string(folder.path().join("checkpoint")).expect("the state file");
    assert_eq!(
        state.lines().next(),
        Some("model_checkpoint_path: \"model.ckpt-5\"")
    );
    assert_eq!(state.lines().count(), 3, "{state}");
}

#[test]
fn every_difference_to_a_model_is_listed() {
    let mut model = variables();
    model[0].shape = vec![37, 4];
    model[1].name = "dnn/other".into();
    let sgd = BTreeMap::from([("dnn".to_owned(), OptimizerConfig::sgd(0.1))]);
    let text = misfit(&manifest(12, 1, Vec::new()), &model, &sgd)
        .expect("it does not fit")
        .render();
    for part in [
        "checkpoint step 12 does not fit the model (4 differences)",
        "dnn/table   checkpoint f32[37, 3]   model f32[37, 4]   shape",
        "dnn/bias   checkpoint f32[11]   model -   not in model",
        "dnn/other   checkpoint -   model f32[11]   not in checkpoint",
        "scalar   checkpoint slots [\"accumulator\"]   model slots []",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn a_reader_passes_over_damaged_checkpoints_and_leaves_them_as_they_are() {
    let folder = folder();
    save(folder.path(), 1, 1);
    let newer = save(folder.path(), 2, 1).path().to_owned();
    let newest = save(folder.path(), 3, 1).path().to_owned();
    let shard = newer.join("shard-0-of-1.safetensors");
    let mut bytes = std::fs::read(&shard).expect("the shard");
    *bytes.last_mut().expect("values") ^= 1;
    std::fs::write(&shard, &bytes).expect("damage");
    std::fs::write(newest.join("manifest.json"), "{}").expect("damage");
    let mut told = Vec::new();
    let mut warn = |warning: Diagnostic| told.push(warning.render());
    let found = latest_good(folder.path(), &mut warn).expect("a list");
    assert_eq!(found.map(|found| found.manifest().global_step), Some(1));
    for (text, step) in told.iter().zip([3, 2]) {
        let expected = format!("checkpoint step {step} is damaged and was passed over");
        assert!(text.contains(&expected), "{text}");
    }
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(newer.is_dir() && newest.is_dir(), "nothing is renamed");
}

#[test]
fn a_shard_may_be_a_link_to_a_file_and_to_nothing_else() {
    let folder = folder();
    let path: PathBuf = save(folder.path(), 1, 1).path().to_owned();
    let shard = path.join("shard-0-of-1.safetensors");
    let outside = folder.path().join("outside");
    std::fs::rename(&shard, &outside).expect("the shard moves");
    std::os::unix::fs::symlink(&outside, &shard).expect("a link in its place");
    assert_eq!(latest(folder.path()).0, Some(1), "it has the same bytes");
    std::fs::remove_file(&outside).expect("it is there");
    std::fs::create_dir(&outside).expect("a folder in its place");
    assert!(matches!(
        Checkpoint::open(&path),
        Err(Error::ModelDir(trainyard_model_dir::Error::Damaged { .. }))
    ));
}

#[test]
fn escapes_in_a_checkpoint_are_refused() {
    let folder = folder();
    let path: PathBuf = save(folder.path(), 1, 1).path().to_owned();
    let manifest = path.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("the manifest");
    // An attacker could choose the format without a checksum.
    let text = text.replace("shard-0-of-1.safetensors", "../outside");
    let (front, _) = text.rsplit_once(",\n  \"crc32c\"").expect("a checksum");
    let text = front.replace("\"format_version\": 3", "\"format_version\": 1") + "}";
    std::fs::write(&manifest, text).expect("an escape");
    let error = Checkpoint::open(&path)
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("file name `../outside` is not plain"),
        "{error}"
    );
}

#[test]
fn a_checkpoint_of_the_format_without_a_checksum_is_read() {
    let folder = folder();
    let path = save(folder.path(), 1, 2).path().to_owned();
    let manifest = path.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("the manifest");
    let (front, _) = text.rsplit_once(",\n  \"crc32c\"").expect("a checksum");
    let old = front.replace("\"format_version\": 3", "\"format_version\": 1") + "}";
    std::fs::write(&manifest, &old).expect("an older manifest");
    assert_eq!(latest(folder.path()).0, Some(1));
    std::fs::write(
        &manifest,
        text.replace("\"format_version\": 3", "\"format_version\": 1"),
    )
    .expect("a lie");
    let error = Checkpoint::open(&path)
        .expect_err("it has a checksum")
        .to_string();
    assert!(
        error.contains("format version 1, this release reads 2 to 4"),
        "{error}"
    );
    std::fs::write(
        &manifest,
        old.replace("\"format_version\": 1", "\"format_version\": 5"),
    )
    .expect("a newer one");
    let error = Checkpoint::open(&path)
        .expect_err("it is newer")
        .to_string();
    assert!(
        error.contains("format version 5, this release reads 2 to 4"),
        "{error}"
    );
}

#[test]
fn a_checkpoint_of_the_format_before_rows_were_listed_is_read_and_holds_all_of_them() {
    let folder = folder();
    let path = save(folder.path(), 1, 2).path().to_owned();
    let manifest = path.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("the manifest");
    let (front, _) = text.rsplit_once(",\n  \"crc32c\"").expect("a checksum");
    let old = front.replace("\"format_version\": 3", "\"format_version\": 2");
    assert!(
        !old.contains("\"held\"") && !old.contains("\"others\""),
        "as it was written then"
    );
    let crc32c = crc32c::crc32c(old.as_bytes());
    std::fs::write(
        &manifest,
        format!("{old},\n  \"crc32c\": \"{crc32c:08x}\"\n}}"),
    )
    .expect("written");
    let checkpoint = Checkpoint::open(&path).expect("it is read");
    assert_eq!(
        checkpoint.held("dnn/table", 5..30).expect("rows"),
        vec![5..19, 19..30]
    );
    assert_eq!(checkpoint.first_rows("dnn/table"), None);
    assert_eq!(
        checkpoint.read("dnn/table").expect("values")[37],
        value(0, false, 37)
    );
}

#[test]
fn a_chief_that_has_a_successor_replaces_none_of_its_checkpoints() {
    let folder = folder();
    let dir = folder.path();
    let earlier = claim_epoch(dir).expect("an epoch");
    let stood_still = begin(dir, 4, "earlier", 10).expect("a checkpoint begins");
    let shards = write_files(&stood_still, 1);
    let later = claim_epoch(dir).expect("an epoch");
    for _ in 0..2 {
        // A chief may replace its own checkpoint of the same step.
        let temporary = begin(dir, 4, "later", 10).expect("a checkpoint begins");
        let shards = write_files(&temporary, 1);
        commit(dir, &temporary, &manifest(4, later, shards)).expect("it leads");
    }
    let refused =
        commit(dir, &stood_still, &manifest(4, earlier, shards)).expect_err("it leads no more");
    assert!(
        matches!(
            refused,
            Error::ModelDir(trainyard_model_dir::Error::Deposed {
                epoch: 1,
                highest: 2,
                ..
            })
        ),
        "{refused}"
    );
    let found = list(dir).expect("a list");
    assert_eq!(
        found
            .iter()
            .map(|found| (found.step, found.epoch))
            .collect::<Vec<_>>(),
        [(4, later)]
    );
}

#[test]
fn a_checkpoint_that_is_saved_again_while_it_is_opened_is_read_whole() {
    let folder = folder();
    let dir = folder.path();
    let path = save(dir, 4, 1).path().to_owned();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The files of the two differ in name and number.
            for save_number in 0..100 {
                save(dir, 4, 1 + save_number % 2);
            }
            is_over.store(true, std::sync::atomic::Ordering::Release);
        });
        while !is_over.load(std::sync::atomic::Ordering::Acquire) {
            let opened = Checkpoint::open(&path).expect("one of the two");
            opened.verify().expect("every byte is of one save");
        }
    });
}

#[test]
fn an_epoch_file_that_was_put_back_makes_no_new_checkpoint_look_old() {
    let folder = folder();
    save(folder.path(), 1, 1);
    let temporary = begin(folder.path(), 2, "later", 10).expect("a checkpoint begins");
    let shards = write_files(&temporary, 1);
    commit(folder.path(), &temporary, &manifest(2, 7, shards)).expect("a checkpoint is committed");
    std::fs::write(folder.path().join("cluster_epoch"), "2\n").expect("an older copy");
    assert_eq!(claim_epoch(folder.path()).expect("an epoch"), 8);
}

#[test]
fn identity_and_epoch_outlive_a_restart() {
    let folder = folder();
    assert_eq!(cluster_id(folder.path(), 5).expect("an id"), 5);
    assert_eq!(cluster_id(folder.path(), 6).expect("the id"), 5);
    assert_eq!(
        [1, 2, 3].map(|_| claim_epoch(folder.path()).expect("an epoch")),
        [1, 2, 3]
    );
    let phase = JobPhase::Done;
    let reason = "max_steps".to_owned();
    let state = JobState {
        phase,
        global_step: 4,
        reason,
        cluster_epoch: 3,
        epochs: Some(2),
        early_stopping: None,
        finished_before: false,
    };
    assert_eq!(JobState::read(folder.path()).expect("no marker"), None);
    state.write(folder.path()).expect("a marker");
    assert_eq!(
        JobState::read(folder.path()).expect("the marker"),
        Some(state)
    );
}

/// The servers rely on these files, so a wrong value must be an error.
#[test]
fn a_damaged_note_is_an_error_that_says_file_value_expectation_and_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(prepared_epoch(folder.path()).expect("none yet"), 0);
    assert_eq!(known_cluster_id(folder.path()).expect("none yet"), None);
    note_prepared(folder.path(), 7).expect("there is room");
    assert_eq!(prepared_epoch(folder.path()).expect("as noted"), 7);
    type Read = fn(&Path) -> Option<Error>;
    let readers: [(&str, &str, Read); 3] = [
        ("prepared_epoch", "an epoch", |folder| {
            prepared_epoch(folder).err().map(Error::from)
        }),
        ("cluster_epoch", "an epoch", |folder| {
            claim_epoch(folder).err()
        }),
        ("cluster_id", "32 hexadecimal digits", |folder| {
            known_cluster_id(folder).err().map(Error::from)
        }),
    ];
    for (name, expected, read) in readers {
        let path = folder.path().join(name);
        for value in ["", "sev\u{7}en", "-1"] {
            std::fs::write(&path, value).expect("written");
            let told = Diagnostic::from(read(folder.path()).expect("it is damaged")).render();
            let shown = format!(
                "{} holds `{}`, expected",
                path.display(),
                value.escape_default()
            );
            assert!(
                told.contains(&shown) && told.contains(expected) && told.contains("help:"),
                "{told}"
            );
        }
        std::fs::remove_file(&path).expect("it was there");
        // A folder in the place of the file cannot be read, even by root.
        std::fs::create_dir(&path).expect("its place is free");
        let told = Diagnostic::from(read(folder.path()).expect("it is no file")).render();
        assert!(
            told.contains(&format!("cannot read {}", path.display())),
            "{told}"
        );
        std::fs::remove_dir(&path).expect("it was there");
        assert!(read(folder.path()).is_none(), "no file is no error: {name}");
    }
}

/// Each kind of failure has its own code, by which supervisors decide whether to retry.
#[test]
fn each_failure_has_the_code_of_its_kind_and_a_cure() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let no_space = begin(folder.path(), 1, "a", u64::MAX / 2).expect_err("no disk has as much");
    let no_folder = begin(&file.join("model"), 1, "a", 0).expect_err("a file holds no folder");
    let denied = || std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let denied = Error::from(trainyard_model_dir::Error::Io {
        action: "write",
        path: file.clone(),
        source: denied(),
    });
    std::fs::write(folder.path().join("prepared_epoch"), "x").expect("written");
    let damaged = prepared_epoch(folder.path()).expect_err("no epoch");
    for (error, code) in [
        (no_space, "E3006"),
        (no_folder, "E3003"),
        (denied, "E1202"),
        (damaged.into(), "E3001"),
    ] {
        let told = Diagnostic::from(error);
        assert_eq!(told.code.name, code, "{}", told.render());
        assert!(told.help.is_some(), "{}", told.render());
    }
}
