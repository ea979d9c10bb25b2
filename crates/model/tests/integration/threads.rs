//! A step on several threads, and in the buffers of earlier steps.
#![expect(
    clippy::unwrap_used,
    reason = "a model that is not as the test says fails the test"
)]

use std::path::Path;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use trainyard_input::{Batch, Bytes, Column, FieldKind, Position};
use trainyard_model::{Canned, Model};
use trainyard_run_config::Job;
use trainyard_testing::Seed;
use trainyard_variable::{Read, Values};

/// Returns the shipped click-through model, whose layers are large enough to be divided among threads.
fn click_through(kind: &str) -> Canned {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/ctr-tensorflow.toml");
    let changes = [
        format!("model.kind=\"{kind}\""),
        "model.attention_layers=1".to_owned(),
        "model.attention_dim=4".to_owned(),
        "model.cin_units=[4, 4]".to_owned(),
        "model.mask_units=[16, 16]".to_owned(),
        "model.mask_ratio=1".to_owned(),
    ];
    let job = Job::load(&path, &changes).unwrap();
    Canned::from_job(&job).unwrap()
}

/// Returns a model of attention over a history of hashed words.
fn attentive() -> Canned {
    let job = r#"
model_dir = "unused"
input = { label = { column = "y" }, train = { files = ["unused.csv"] } }
train = { max_steps = 1 }
[[feature]]
column = "seen"
kind = "hashed"
buckets = 2000
separator = "|"
deep = { embedding = 8, table = "words" }
[[feature]]
column = "word"
kind = "hashed"
buckets = 2000
deep = { embedding = 8, table = "words" }
[model]
kind = "din_classifier"
hidden_units = [32]
attention_units = [16]
[[model.attention]]
history = "seen"
target = "word"
history_max = 5
"#;
    Canned::from_job(&Job::parse(Path::new("job.toml"), job, &[]).unwrap()).unwrap()
}

fn batch(model: &Canned, rows: usize, random: &mut ChaCha8Rng) -> Batch {
    let columns = model.schema().fields.iter().map(|field| match field.kind {
        FieldKind::Bytes { separator: Some(_) } => {
            let mut texts = Bytes::default();
            let mut offsets = vec![0];
            for _ in 0..rows {
                for _ in 0..random.random_range(0..9) {
                    texts.push(format!("{:x}", random.random_range(0..3000_u32)).as_bytes());
                }
                offsets.push(texts.len() as u32);
            }
            Column {
                offsets: Some(offsets),
                ..Column::bytes(texts)
            }
        }
        FieldKind::Bytes { .. } => {
            let mut texts = Bytes::default();
            for _ in 0..rows {
                texts.push(format!("{:x}", random.random_range(0..3000_u32)).as_bytes());
            }
            Column::bytes(texts)
        }
        FieldKind::Int { .. } => Column::ints(vec![0; rows]),
        _ => Column::floats(
            (0..rows)
                .map(|_| f32::from(u8::from(random.random_bool(0.3))))
                .collect(),
        ),
    });
    Batch {
        rows,
        columns: columns.collect(),
        position: Position::default(),
    }
}

fn values(
    model: &Canned,
    features: &<Canned as Model>::Features,
    random: &mut ChaCha8Rng,
) -> Values {
    let reads = model.reads(features);
    let sizes = reads
        .iter()
        .zip(model.variables())
        .map(|(read, spec)| match read {
            Read::Whole => spec.len(),
            Read::Rows(rows) => rows.len() * spec.width(),
            Read::Ids(ids) => ids.len() * spec.width(),
            Read::Nothing => 0,
        });
    sizes
        .map(|size| (0..size).map(|_| random.random_range(-0.1..0.1)).collect())
        .collect()
}

#[test]
fn a_step_is_the_same_bits_on_any_number_of_threads_and_in_buffers_of_other_steps() {
    let seed = Seed::of_environment(5);
    for kind in [
        "dnn_linear_combined_classifier",
        "deepfm_classifier",
        "dlrm_classifier",
        "autoint_classifier",
        "xdeepfm_classifier",
        "final_mlp_classifier",
        "masknet_classifier",
        "din_classifier",
    ] {
        let model = if kind == "din_classifier" {
            attentive()
        } else {
            click_through(kind)
        };
        let mut random = ChaCha8Rng::seed_from_u64(seed.get());
        // Many rows, then few, then many again: buffers shrink and grow.
        let steps = [600, 130, 513].map(|rows| {
            let features = model.features(&batch(&model, rows, &mut random)).unwrap();
            let values = values(&model, &features, &mut random);
            (features, values)
        });
        let alone = steps.each_ref().map(|(features, values)| {
            let mut gradients = Vec::new();
            let outcome = model
                .train(features, values, &mut gradients, &mut Default::default())
                .unwrap();
            (outcome, gradients)
        });
        for threads in 1..5 {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let mut gradients = Vec::new();
            let mut scratch = Default::default();
            for ((features, values), (expected, of_expected)) in steps.iter().zip(&alone) {
                let outcome = pool
                    .install(|| model.train(features, values, &mut gradients, &mut scratch))
                    .unwrap();
                assert_eq!(outcome, *expected, "{kind}, {threads} threads, {seed}");
                for (spec, (given, expected)) in model
                    .variables()
                    .iter()
                    .zip(gradients.iter().zip(of_expected))
                {
                    assert!(
                        given == expected,
                        "{kind}, {threads} threads, {seed}: gradient of {}",
                        spec.name
                    );
                }
            }
        }
    }
}
