//! Vocabularies and boundaries that `trainyard analyze` makes of the training data.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::end_to_end::solo::trainyard;

const JOB: &str = r#"
[input]
label = { column = "y" }
train = { files = ["train.csv"], epochs = 2, batch_size = 16 }
eval = { files = ["train.csv"] }
[[feature]]
column = "word"
kind = "vocabulary"
file = "made/words.txt"
min_count = 5
deep = { embedding = 4 }
[[feature]]
columns = ["x", "z"]
kind = "bucketized"
boundaries_file = "made/bounds.toml"
quantiles = 6
normalizer = "signed_log1p"
deep = { embedding = 4 }
[[feature]]
column = "x"
kind = "numeric"
name = "x_bins"
boundaries_file = "made/bounds.toml"
quantiles = 3
encoding = "piecewise_linear"
[[feature]]
column = "x"
kind = "numeric"
name = "x_shares"
boundaries_file = "made/bounds.toml"
quantiles = 5
normalizer = "quantile"
[model]
kind = "dnn_classifier"
hidden_units = [4]
"#;

/// A job beside its data: words of which some are rare, a skewed number, and one of few values.
fn write(folder: &Path) -> String {
    let mut rows = "word,x,z,y\n".to_owned();
    for row in 0..200_u32 {
        let word = match row {
            0..=3 => "rare".to_owned(),
            4 => "once".to_owned(),
            _ => format!("w{}", row % 3),
        };
        let x = if row % 5 == 0 {
            i64::from(row) - 100
        } else {
            0
        };
        rows += &format!("{word},{x},{},{}\n", row % 4, row % 2);
    }
    std::fs::write(folder.join("train.csv"), rows).expect("the data is written");
    let model_dir = folder.join("model");
    let path = folder.join("job.toml");
    std::fs::write(&path, format!("model_dir = {model_dir:?}\n{JOB}")).expect("the job is written");
    path.to_string_lossy().into_owned()
}

/// Probabilities that a job predicts for rows.
fn predicted(job: &str, folder: &Path, rows: &str) -> Vec<f64> {
    let path = folder.join("rows.csv");
    std::fs::write(&path, format!("word,x,z,y\n{rows}")).expect("the rows are written");
    let input = path.to_string_lossy().into_owned();
    let told = trainyard(&["predict", job, "--input", &input], 0);
    let of = |line: &str| serde_json::from_str::<Value>(line).ok()?["logits"][0].as_f64();
    told.lines().filter_map(of).collect()
}

trial!(a_job_trains_and_predicts_by_the_vocabulary_and_the_boundaries_of_its_training_data);
fn a_job_trains_and_predicts_by_the_vocabulary_and_the_boundaries_of_its_training_data() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write(folder);
    let told = trainyard(&["train", &job], 66);
    assert_eq!(
        told.matches("`trainyard analyze JOB.toml` makes it from the training data")
            .count(),
        2,
        "{told}"
    );
    let told = trainyard(&["analyze", &job], 0);
    assert!(
        told.contains(
            "3 of 5 values of `word` occur at least 5 times, which are 97.5 % of 200 occurrences"
        ),
        "{told}"
    );
    let words = std::fs::read_to_string(folder.join("made/words.txt")).expect("made");
    assert_eq!(words, "w0\nw1\nw2\n");
    let bounds = std::fs::read_to_string(folder.join("made/bounds.toml")).expect("made");
    let bounds: BTreeMap<String, Vec<f32>> = toml::from_str(&bounds).expect("TOML");
    // Each of few values has a bucket of its own, in the numbers of the normalizer.
    let logs = [1, 2, 3].map(|number: u8| f32::from(number).ln_1p());
    assert_eq!(bounds["z_bucketized"], logs);
    let skewed = &bounds["x_bucketized"];
    assert!(
        skewed.contains(&0.0) && skewed.len() > 2 && skewed.len() <= 6,
        "{skewed:?}"
    );
    assert!(skewed.is_sorted() && skewed[0] < 0.0, "{skewed:?}");
    let edges = &bounds["x_bins"];
    assert_eq!(
        (edges[0], edges[edges.len() - 1]),
        (-100.0, 95.0),
        "{edges:?}"
    );
    assert!(edges.is_sorted() && edges.len() <= 5, "{edges:?}");
    // Four fifths of the numbers are 0.
    let shares = &bounds["x_shares"];
    assert_eq!(shares, &[-100.0, 0.0, 0.0, 0.0, 95.0]);
    let trained = trainyard(&["train", &job], 0);
    assert!(trained.contains("trained to step 26"), "{trained}");
    let logits = predicted(
        &job,
        folder,
        "rare,1,0,0\nonce,1,0,0\nnever,1,0,0\nw1,1,0,0\n",
    );
    assert_eq!(logits.len(), 4, "{logits:?}");
    assert!(
        logits[0] == logits[1] && logits[1] == logits[2],
        "one row is shared: {logits:?}"
    );
    assert!(logits[2] != logits[3], "{logits:?}");
    // The job in the model's folder finds the files wherever it is.
    let of_model = folder.join("model/job.toml");
    let again = predicted(
        &of_model.to_string_lossy(),
        folder,
        "rare,1,0,0\nonce,1,0,0\nnever,1,0,0\nw1,1,0,0\n",
    );
    assert_eq!(again, logits);
}

trial!(files_of_an_analysis_stay_as_they_are_whatever_the_data_becomes);
fn files_of_an_analysis_stay_as_they_are_whatever_the_data_becomes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write(folder);
    trainyard(&["analyze", &job], 0);
    let made = || {
        ["made/words.txt", "made/bounds.toml"]
            .map(|name| std::fs::read_to_string(folder.join(name)).expect("made"))
    };
    let first = made();
    std::fs::write(
        folder.join("train.csv"),
        format!("word,x,z,y\n{}", "new,7,9,1\nnew,8,9,0\n".repeat(40)),
    )
    .expect("other data");
    let told = trainyard(&["analyze", &job], 64);
    assert!(
        told.contains("exists") && told.contains("--force"),
        "{told}"
    );
    trainyard(&["train", &job], 0);
    let told = trainyard(&["analyze", &job, "--force"], 65);
    assert!(
        told.contains("holds a model that was trained with it, to step 10"),
        "{told}"
    );
    assert_eq!(made(), first);
    let other = folder.join("other").to_string_lossy().into_owned();
    let told = trainyard(&["analyze", &job, "--force", "--model-dir", &other], 65);
    assert!(
        told.contains("the feature `z_bucketized` has one number in all training records"),
        "{told}"
    );
    assert_eq!(made(), first, "nothing is written before all of it can be");
    // The model that was trained knows the boundaries with which it was.
    let bounds = folder.join("made/bounds.toml");
    let text = std::fs::read_to_string(&bounds).expect("made");
    std::fs::write(&bounds, text.replacen("[", "[-9.0, ", 1)).expect("written");
    let told = trainyard(&["evaluate", &job], 65);
    assert!(told.contains("E3002"), "{told}");
}

trial!(mistakes_about_files_of_an_analysis_are_told);
fn mistakes_about_files_of_an_analysis_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = write(folder);
    for (set, what) in [
        (
            "feature.0.min_count=1000",
            "no value of `word` occurs 1000 times in the training data: the most frequent one occurs 65 times",
        ),
        ("feature.1.boundaries_file=\"train.csv\"", "train.csv"),
    ] {
        let ended =
            trainyard_tests::Program::start("trainyard", &["analyze", &job, "--set", set], &[])
                .wait(crate::end_to_end::LIMIT);
        assert!(
            ended.code != 0 && ended.output.contains(what),
            "{}",
            ended.output
        );
    }
    let told = trainyard(
        &[
            "analyze",
            &job,
            "--set",
            "feature=[{ column = \"x\", kind = \"numeric\" }]",
        ],
        78,
    );
    assert!(told.contains("nothing to make"), "{told}");
    trainyard(&["analyze", &job], 0);
    let renamed = "feature.1.columns=[\"x\", \"y\"]";
    let told = trainyard(&["check", &job, "--set", renamed], 78);
    assert!(
        told.contains("bounds.toml has no boundaries of the feature `y_bucketized`")
            && told.contains("analyze --force"),
        "{told}"
    );
    std::fs::write(
        folder.join("made/bounds.toml"),
        "x_bucketized = [2, 1]\nz_bucketized = [1, \"b\"]\n",
    )
    .expect("written");
    let told = trainyard(&["check", &job], 78);
    assert!(
        told.contains("boundaries of `x_bucketized` in")
            && told.contains("must ascend, given 2 before 1")
            && told.contains("must be a list of numbers"),
        "{told}"
    );
}
