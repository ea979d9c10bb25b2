//! Models that begin where others ended: ours, and TensorFlow's.

use std::path::{Path, PathBuf};

use trainyard_tests::write_job;

use crate::end_to_end::solo::trainyard;

/// A combined classifier that `tf.compat.v1.estimator` trained for 20 steps.
pub(super) fn tensorflow() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/tensorflow")
}

/// The job of that classifier.
pub(super) const JOB: &str = r#"
[input]
label = { column = "y" }
train = { files = ["train.csv"], epochs = 1, batch_size = 2 }
eval = { files = ["train.csv"] }
[[feature]]
column = "x"
kind = "numeric"
[[feature]]
column = "c"
kind = "hashed"
buckets = 10
wide = true
deep = { embedding = 4 }
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [4, 3]
defaults = "tensorflow1"
"#;

/// The rows that TensorFlow predicted.
pub(super) const ROWS: &str = "x,c,y\n0.1,a,0\n0.9,b,1\n-2.0,c,0\n3.5,zebra,1\n";

fn job(folder: &Path) -> String {
    let path = folder.join("job.toml");
    let model_dir = folder.join("model");
    std::fs::write(&path, format!("model_dir = {model_dir:?}\n{JOB}")).expect("the job is written");
    std::fs::write(folder.join("train.csv"), ROWS).expect("the data is written");
    path.to_string_lossy().into_owned()
}

trial!(a_tensorflow_checkpoint_predicts_what_tensorflow_predicts_and_trains_on);
fn a_tensorflow_checkpoint_predicts_what_tensorflow_predicts_and_trains_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = job(folder.path());
    let from = tensorflow().to_string_lossy().into_owned();
    let listed = trainyard(&["import-tf", &from], 0);
    assert!(listed.contains("dnn/logits/kernel/Adagrad"), "{listed}");
    let matched = trainyard(&["import-tf", &from, "--job", &job], 0);
    assert!(
        matched.contains("at step 20") && !matched.contains("NOT THERE"),
        "{matched}"
    );
    let written = trainyard(&["import-tf", &from, "--job", &job, "--write"], 0);
    assert!(
        written.contains("model.ckpt-20")
            && written.contains("0 optimizer slots start from their initial values"),
        "{written}"
    );
    let again = trainyard(&["import-tf", &from, "--job", &job, "--write"], 78);
    assert!(
        again.contains("holds a checkpoint of step 20 already"),
        "{again}"
    );
    let predicted = trainyard(&["predict", &job], 0);
    let logits: Vec<f64> = predicted
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|line| line["logits"].as_array()?[0].as_f64())
        .collect();
    // What TensorFlow 2.15 predicts from the same files.
    let expected = [
        -0.299_007_296_562_194_8,
        -0.527_061_104_774_475_1,
        -0.002_811_035_607_010_126,
        -1.961_603_164_672_851_6,
    ];
    assert_eq!(logits.len(), expected.len(), "{predicted}");
    for (given, expected) in logits.iter().zip(expected) {
        assert!((given - expected).abs() < 1e-5, "{given} is not {expected}");
    }
    let trained = trainyard(&["train", &job], 0);
    assert!(trained.contains("step=22"), "{trained}");
}

trial!(a_renamed_column_that_sorts_elsewhere_than_in_tensorflow_is_refused);
fn a_renamed_column_that_sorts_elsewhere_than_in_tensorflow_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = job(folder.path());
    let from = tensorflow().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(&job).expect("the job is read");
    std::fs::write(&job, text.replace("column = \"c\"", "column = \"z\""))
        .expect("the job is written");
    let layer = "dnn/input_from_feature_columns/input_layer";
    let deep =
        format!("{layer}/z_embedding/embedding_weights={layer}/c_embedding/embedding_weights");
    let wide = "linear/linear_model/z/weights=linear/linear_model/c/weights";
    let refused = trainyard(
        &[
            "import-tf",
            &from,
            "--job",
            &job,
            "--rename",
            &deep,
            "--rename",
            wide,
            "--write",
        ],
        65,
    );
    assert!(
        refused.contains("in the checkpoint: c_embedding, x"),
        "{refused}"
    );
    assert!(
        refused.contains("the feature `z` needs name = \"c\""),
        "{refused}"
    );
    std::fs::write(
        &job,
        text.replace("column = \"c\"", "column = \"z\"\nname = \"c\""),
    )
    .expect("the job is written");
    let written = trainyard(&["import-tf", &from, "--job", &job, "--write"], 0);
    assert!(
        written.contains("the first kernel reads, in this order: c_embedding, x"),
        "{written}"
    );
}

trial!(a_new_model_starts_from_another_whatever_the_number_of_servers);
fn a_new_model_starts_from_another_whatever_the_number_of_servers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = write_job(folder.path(), 400, "[train]\nmax_steps = 60\n")
        .to_string_lossy()
        .into_owned();
    let old = folder.path().join("model");
    let new = folder.path().join("new").to_string_lossy().into_owned();
    trainyard(&["train", &job], 0);
    let warm = format!("train.warm_start={{ from = \"{}\" }}", old.display());
    let cluster = [
        "--cluster",
        "local:ps=2,worker=1",
        "--model-dir",
        &new,
        "--set",
        &warm,
    ];
    let output = trainyard(
        &[&["up", &job, "--set", "train.max_steps=5"], &cluster[..]].concat(),
        0,
    );
    assert!(
        output.contains("the initial values come from another checkpoint"),
        "{output}"
    );
    // The first checkpoint of the new model holds what the old one ended with, in other slices.
    let scored = |arguments: &[&str]| {
        let text = trainyard(
            &[&["evaluate", &job, "--format", "json"], arguments].concat(),
            0,
        );
        // Before them may be the warning that nothing was trained.
        let text = text
            .lines()
            .find(|line| line.starts_with('{'))
            .expect("scores");
        let scores: serde_json::Value = serde_json::from_str(text).expect("scores are JSON");
        scores
            .to_string()
            .split("average_loss")
            .nth(1)
            .map(|rest| rest[..12].to_owned())
    };
    assert_eq!(scored(&["--model-dir", &new, "--step", "0"]), scored(&[]));
}

trial!(a_warm_start_that_cannot_be_says_why);
fn a_warm_start_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = job(folder.path());
    let from = tensorflow().to_string_lossy().into_owned();
    let told = |warm_start: &str, code: i32| {
        trainyard(
            &[
                "train",
                &job,
                "--set",
                &format!("train.warm_start={warm_start}"),
            ],
            code,
        )
    };
    let missing = told("{ from = \"nowhere\" }", 66);
    assert!(
        missing.contains("no checkpoint at") && missing.contains("nowhere"),
        "{missing}"
    );
    let none = told(
        &format!("{{ from = \"{from}\", variables = \"tower/.*\" }}"),
        65,
    );
    assert!(
        none.contains("holds no variable of this model that matches"),
        "{none}"
    );
    let renamed = told(
        &format!(
            "{{ from = \"{from}\", rename = {{ \"dnn/logits/bias\" = \"dnn/logits/biass\" }} }}"
        ),
        65,
    );
    assert!(
        renamed.contains("did you mean `dnn/logits/bias`?"),
        "{renamed}"
    );
    let pattern = told(&format!("{{ from = \"{from}\", variables = \"(\" }}"), 78);
    assert!(
        pattern.contains("must be a regular expression"),
        "{pattern}"
    );
    let other = trainyard(
        &[
            "train",
            &job,
            "--set",
            "model.hidden_units=[5, 3]",
            "--set",
            &format!("train.warm_start={{ from = \"{from}\" }}"),
        ],
        65,
    );
    assert!(
        other.contains("dnn/hiddenlayer_0/kernel: [5, 5] here, [5, 4] there"),
        "{other}"
    );
}

/// Writes a NumPy array of one value of this type.
fn write_array(path: &Path, kind: &str, value: &[u8]) {
    let mut header =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': (1,), }}").into_bytes();
    header.resize(117, b' ');
    header.push(b'\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header);
    file.extend(value);
    std::fs::write(path, file).expect("there is room");
}

trial!(initial_values_that_are_not_finite_are_refused_with_their_file);
fn initial_values_that_are_not_finite_are_refused_with_their_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let job = job(folder.path());
    let path = folder.path().join("bias.npy");
    let warm_start = format!(
        "train.warm_start={{ from = \"{}\", variables = \"dnn/logits/bias\", rename = {{ \"dnn/logits/bias\" = \"bias\" }} }}",
        path.display()
    );
    let arguments = [
        "train",
        &job,
        "--set",
        &warm_start,
        "--set",
        "train.max_steps=1",
    ];
    write_array(&path, "<f8", &1.5_f64.to_le_bytes());
    trainyard(&arguments, 0);
    std::fs::remove_dir_all(folder.path().join("model")).expect("the model");
    for (kind, value, told) in [
        ("<f4", f32::NAN.to_le_bytes().to_vec(), "NaN"),
        ("<f4", f32::NEG_INFINITY.to_le_bytes().to_vec(), "-inf"),
        // Beyond float32.
        ("<f8", 1e300_f64.to_le_bytes().to_vec(), "inf"),
    ] {
        write_array(&path, kind, &value);
        let refused = trainyard(&arguments, 65);
        let expected = format!(
            "the values of `bias` in {} must be finite float32 numbers, given {told} for row 0",
            path.display()
        );
        assert!(refused.contains(&expected), "{refused}");
    }
}

trial!(a_warm_start_whose_rows_or_classes_mean_something_else_is_refused_by_check_and_train);
fn a_warm_start_whose_rows_or_classes_mean_something_else_is_refused_by_check_and_train() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut rows = "x,c,y\n".to_owned();
    for row in 0..200 {
        let (word, label) = [("a", "yes"), ("b", "yes"), ("c", "no")][row % 3];
        rows.push_str(&format!("0.{row},{word},{label}\n"));
    }
    std::fs::write(folder.path().join("rows.csv"), rows).expect("there is room");
    let write = |name: &str, words: &str, classes: &str| {
        let text = format!(
            "model_dir = \"{}\"\n[input]\nlabel = {{ column = \"y\", vocabulary = [{classes}] }}\n\
             [input.train]\nfiles = [\"rows.csv\"]\nbatch_size = 20\n\
             [[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n\
             [[feature]]\ncolumn = \"c\"\nkind = \"vocabulary\"\nvalues = [{words}]\nwide = true\ndeep = {{ embedding = 4 }}\n\
             [model]\nkind = \"dnn_linear_combined_classifier\"\nhidden_units = [4]\n[train]\nmax_steps = 5\n",
            folder.path().join(name).display()
        );
        let path = folder.path().join(format!("{name}.toml"));
        std::fs::write(&path, text).expect("there is room");
        path.to_string_lossy().into_owned()
    };
    let (words, classes) = ("\"a\",\"b\",\"c\"", "\"no\",\"yes\"");
    trainyard(&["train", &write("first", words, classes)], 0);
    let first = folder.path().join("first");
    let first = first.display();
    let from = &format!("train.warm_start={{ from = \"{first}\" }}");
    let same = write("same", words, classes);
    trainyard(&["train", &same, "--set", from], 0);
    let reordered = write("reordered", "\"c\",\"b\",\"a\"", classes);
    let reversed = write("reversed", words, "\"yes\",\"no\"");
    for (job, what) in [
        (&reordered, "`values` of feature `c`"),
        (&reversed, "`input.label.vocabulary`"),
    ] {
        for command in ["check", "train"] {
            let told = trainyard(&[command, job, "--set", from], 65);
            assert!(told.contains("E3002") && told.contains(what), "{told}");
        }
    }
    let others =
        format!("train.warm_start={{ from = \"{first}\", variables = \"dnn/hiddenlayer.*\" }}");
    trainyard(&["train", &reordered, "--set", &others], 0);
    let absent = "train.warm_start={ from = \"nowhere\" }";
    let new = folder.path().join("new").to_string_lossy().into_owned();
    let begun = ["check", &same, "--set", absent];
    let told = trainyard(&[&begun[..], &["--model-dir", &new]].concat(), 66);
    assert!(told.contains("E3004"), "{told}");
    // A run with checkpoints does not read it.
    let told = trainyard(&begun, 0);
    assert!(told.contains("not read: training continues"), "{told}");
}
