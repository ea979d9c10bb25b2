//! Comparison with recorded pipelines of TensorFlow 2.15's `tf.data`: the same pipelines give the same elements.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trainyard_diagnostic::Diagnostic;
use trainyard_input::*;
use trainyard_testing::{Golden, list};

/// Steps of recorded pipelines that a [`Dataset`] does not have, each with the reason.
const NOT_EXPRESSED: [(&str, &str); 8] = [
    (
        "batch before repeat",
        "batches cross passes: repeat comes before batch",
    ),
    (
        "repeat before shard",
        "records are divided by their number in a pass",
    ),
    (
        "take before repeat",
        "a part of the records is a part of the files",
    ),
    ("shard of batches", "records are divided, not batches"),
    ("map", "the model computes"),
    ("filter", "the model computes"),
    ("cache", "the system keeps files in memory"),
    ("window", "a record is in one batch of a pass"),
];

/// A recorded error whose value the options cannot express.
const NO_SUCH_VALUE: &str = "[[\"shard\",2,-1]]";

const FILE: &str = "dataset.json";

fn size(value: &Value) -> usize {
    value.as_u64().expect("a count") as usize
}

fn options(files: Vec<PathBuf>) -> Options {
    Options {
        columns: Some(vec!["line".to_owned()]),
        seed: 1,
        ..Options::new(files, Format::Tsv)
    }
}

/// A recorded pipeline, as options of an input.
struct Pipeline {
    /// The lines of each file.
    files: Vec<Vec<i64>>,
    options: Options,
    /// Number of batches to read.
    take: usize,
    /// Whether elements are batches.
    batched: bool,
}

impl Pipeline {
    /// Translates the steps. The error is the step that cannot be expressed.
    fn of(case: &Value) -> Result<Self, &'static str> {
        let rows = case["source"]["range"].as_i64().expect("a range");
        let files = vec![(0..rows).collect()];
        let options = options(Vec::new());
        let mut pipeline = Self {
            files,
            options,
            take: usize::MAX,
            batched: false,
        };
        let mut before: Vec<&str> = Vec::new();
        for step in list(&case["ops"]) {
            let name = step[0].as_str().expect("a name");
            pipeline.add(name, step, &before)?;
            before.push(name);
        }
        Ok(pipeline)
    }

    fn add(&mut self, name: &str, step: &Value, before: &[&str]) -> Result<(), &'static str> {
        let options = &mut self.options;
        let batched = self.batched;
        match name {
            "shard" if batched => return Err("shard of batches"),
            "shard" if before.contains(&"repeat") => return Err("repeat before shard"),
            "shard" => {
                let Some(index) = step[2].as_u64() else {
                    return Err(NO_SUCH_VALUE);
                };
                (options.sharding, options.shard_count) = (Sharding::Row, size(&step[1]));
                options.shard_index = index as usize;
            }
            "batch" => {
                assert!(
                    !before.contains(&"take"),
                    "elements are taken after they are in batches"
                );
                (options.batch_size, self.batched) = (size(&step[1]), true);
                // Options count the skip in batches. The step before counted it in elements.
                let skipped = options.skip_batches;
                let size = options.batch_size.max(1) as u64;
                assert!(
                    skipped.is_multiple_of(size),
                    "{skipped} elements are no whole batches"
                );
                options.skip_batches = skipped / size;
                options.drop_remainder = step[2].as_bool().expect("true or false");
            }
            "unbatch" => self.batched = false,
            "repeat" if batched => return Err("batch before repeat"),
            "repeat" if before.contains(&"take") => return Err("take before repeat"),
            "repeat" => options.epochs = step[1].as_u64(),
            "take" => self.take = step[1].as_u64().map_or(usize::MAX, |count| count as usize),
            "skip" => options.skip_batches = step[1].as_u64().expect("a count"),
            "prefetch" => {}
            "shuffle_1" => options.shuffle_rows = 1,
            "concatenate_range" => {
                self.files.push(
                    (step[1].as_i64().expect("from")..step[2].as_i64().expect("to")).collect(),
                );
            }
            "interleave_ranges" | "interleave_uneven" | "flat_map_ranges" => {
                self.interleave(name, step)
            }
            "map_add" => return Err("map"),
            "filter_even" | "filter_none" => return Err("filter"),
            "cache" => return Err("cache"),
            "window_flat" => return Err("window"),
            name => panic!("unknown step {name}"),
        }
        Ok(())
    }

    /// Turns each element so far into a file.
    fn interleave(&mut self, name: &str, step: &Value) {
        let elements = std::mem::take(&mut self.files).concat();
        let (cycle, count) = match name {
            "flat_map_ranges" => (Interleave::default(), &step[1]),
            _ => {
                let interleave = Interleave {
                    cycle_length: size(&step[1]),
                    block_length: size(&step[2]),
                };
                (interleave, &step[3])
            }
        };
        let file = |x: i64| match name {
            "interleave_uneven" => vec![x; x as usize],
            _ => (10 * x..10 * x + count.as_i64().expect("a count")).collect(),
        };
        self.files = elements.into_iter().map(file).collect();
        self.options.interleave = cycle;
        if self.options.sharding == Sharding::Row {
            self.options.sharding = Sharding::File;
        }
    }

    /// Reads the batches through a [`Prefetch`], which must keep their order.
    fn read(mut self, folder: &Path) -> Result<Vec<Vec<i64>>, Error> {
        for (number, lines) in self.files.iter().enumerate() {
            let path = folder.join(number.to_string());
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(&path, text).expect("a file is written");
            self.options.files.push(path);
        }
        let mut schema = Schema::default();
        schema.want("line", FieldKind::INT);
        let dataset = Dataset::open(self.options, schema)?;
        let values = |batch: &Batch| match &batch.columns[0].cells {
            Cells::Int(values) => Ok::<_, String>(values.clone()),
            cells => Err(format!("{cells:?}")),
        };
        let mut prefetch = Prefetch::spawn(dataset, 2, values).expect("a thread");
        let batches = std::iter::from_fn(|| prefetch.blocking_next()).take(self.take);
        let read = batches.map(|item| match item {
            Ok((_, values)) => Ok(values),
            Err(PrefetchError::Input(error)) => Err(error),
            Err(error) => panic!("{error:?}"),
        });
        read.collect()
    }
}

/// Returns the recorded elements, each as a batch.
fn elements(case: &Value) -> Vec<Vec<i64>> {
    let number = |value: &Value| value.as_i64().expect("a number");
    let element = |element: &Value| match element {
        Value::Array(values) => values.iter().map(number).collect(),
        value => vec![number(value)],
    };
    list(&case["elements"]).iter().map(element).collect()
}

#[test]
fn golden_pipelines_give_elements_in_tensorflows_order() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut refused = 0;
    let mut empty = 0;
    let mut left = BTreeMap::<&str, Vec<String>>::new();
    for case in &golden.cases(FILE, "cases") {
        let name = format!("range({}) {}", case["source"]["range"], case["ops"]);
        let pipeline = match Pipeline::of(case) {
            Ok(pipeline) => pipeline,
            Err(reason) => {
                left.entry(reason).or_default().push(name);
                continue;
            }
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let batched = pipeline.batched;
        let shards = pipeline.options.shard_count;
        let rows: usize = pipeline.files.iter().map(Vec::len).sum();
        let read = pipeline.read(folder.path());
        if case["error"].is_string() {
            let error = read.expect_err(&name);
            assert!(matches!(error, Error::Setting { .. }), "{name}: {error:?}");
            assert!(!Diagnostic::from(error).render().is_empty());
            refused += 1;
            continue;
        }
        // An input without records is an error here, because a wrong path is the usual cause.
        if rows == 0 && shards == 1 {
            assert!(matches!(read, Err(Error::Empty { .. })), "{name}: {read:?}");
            empty += 1;
            continue;
        }
        let mut read = read.unwrap_or_else(|error| panic!("{name}: {error}"));
        if !batched {
            read = read.concat().into_iter().map(|value| vec![value]).collect();
        }
        assert_eq!(case["truncated_to_60"], Value::Bool(false), "{name}");
        assert_eq!(read, elements(case), "{name}");
        equal += 1;
    }
    for (what, cases) in &left {
        let reason = NOT_EXPRESSED
            .iter()
            .find(|(known, _)| known == what)
            .map(|(_, reason)| reason);
        println!(
            "not expressed: {what} ({}): {cases:?}",
            reason.unwrap_or(&"no such value")
        );
    }
    let known =
        |what: &str| what == NO_SUCH_VALUE || NOT_EXPRESSED.iter().any(|(known, _)| *known == what);
    assert!(left.keys().all(|what| known(what)), "{left:?}");
    let reasons = left.len();
    let left = left.values().map(Vec::len).sum();
    golden.assert_counts(
        "dataset.json, cases",
        &[
            ("equal", equal, 52),
            ("refused by both", refused, 4),
            ("without a record, refused here alone", empty, 2),
            ("not expressed", left, 15),
            ("reasons for that", reasons, NOT_EXPRESSED.len() + 1),
        ],
    );
}

/// Reads the first column as text.
fn lines(options: Options) -> Result<Vec<String>, Error> {
    let mut schema = Schema::default();
    schema.want("line", FieldKind::BYTES);
    let mut lines = Vec::new();
    for batch in Dataset::open(options, schema)? {
        let batch = batch?;
        let Cells::Bytes(texts) = &batch.columns[0].cells else {
            panic!("{batch:?}")
        };
        lines.extend(
            (0..batch.rows).map(|row| String::from_utf8_lossy(texts.get(row)).into_owned()),
        );
    }
    Ok(lines)
}

fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    value.as_array().expect("a list").iter().map(text).collect()
}

#[test]
fn golden_files_are_divided_and_interleaved_as_in_tensorflow() {
    let golden = Golden::find();
    let Some(recorded) = golden.json(FILE) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut files = Vec::new();
    for (name, lines) in recorded["files"].as_object().expect("files") {
        files.push(folder.path().join(name));
        std::fs::write(folder.path().join(name), texts(lines).join("\n"))
            .expect("a file is written");
    }
    files.sort();
    let cases = list(&recorded["file_cases"]);
    for case in cases {
        let interleave = Interleave {
            cycle_length: size(&case["cycle_length"]),
            block_length: size(&case["block_length"]),
        };
        let options = Options {
            sharding: Sharding::File,
            shard_count: size(&case["num_shards"]),
            shard_index: size(&case["index"]),
            interleave,
            ..options(files.clone())
        };
        assert_eq!(lines(options), Ok(texts(&case["lines"])), "{case}");
    }
    golden.assert_counts("dataset.json, file_cases", &[("equal", cases.len(), 16)]);
}

#[test]
fn golden_texts_have_the_lines_that_tensorflow_reads() {
    let golden = Golden::find();
    let cases = golden.cases(FILE, "text_lines");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("text");
    for case in &cases {
        std::fs::write(&path, case["text"].as_str().expect("a text")).expect("a file is written");
        // An empty line is not a record.
        let wanted: Vec<String> = texts(&case["lines"])
            .into_iter()
            .filter(|line| !line.is_empty())
            .collect();
        match lines(options(vec![path.clone()])) {
            Err(Error::Empty { .. }) => assert!(wanted.is_empty(), "{case}"),
            read => assert_eq!(read, Ok(wanted), "{case}"),
        }
    }
    golden.assert_counts("dataset.json, text_lines", &[("equal", cases.len(), 6)]);
}

/// The properties of `shuffle_note` in dataset.json.
#[test]
fn a_shuffle_has_the_properties_of_tensorflows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("numbers");
    let text: String = (0..500).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, text).expect("a file is written");
    for (shuffle_rows, seed) in [(1, 3), (7, 1), (7, 2), (100, 1), (500, 1), (1000, 9)] {
        let sharding = Sharding::Row;
        let made = Options {
            shuffle_rows,
            seed,
            sharding,
            epochs: Some(2),
            ..options(vec![path.clone()])
        };
        let read = lines(made).expect("the file is read");
        let passes: Vec<Vec<usize>> = read
            .chunks(500)
            .map(|pass| {
                pass.iter()
                    .map(|line| line.parse().expect("a number"))
                    .collect()
            })
            .collect();
        assert_eq!(passes.len(), 2);
        for pass in &passes {
            for (place, row) in pass.iter().enumerate() {
                assert!(
                    *row < place + shuffle_rows,
                    "{row} is read at {place} of a buffer of {shuffle_rows}"
                );
            }
            let mut sorted = pass.clone();
            sorted.sort_unstable();
            assert!(
                sorted.into_iter().eq(0..500),
                "each pass ends before the next begins"
            );
        }
        assert_eq!(passes[0] == passes[1], shuffle_rows == 1, "{shuffle_rows}");
    }
}
