//! Values of requests are those of the files of training: indices of libsvm, times, padded rows.

use std::path::Path;

use crate::serving::client::post;
use crate::serving::equality::bits;
use crate::serving::{Server, run};

/// Trains a job on one file, and returns its path.
fn train(folder: &Path, data: (&str, &str), of_input: &str, features: &str) -> String {
    let (name, text) = data;
    std::fs::write(folder.join(name), text).expect("the records are written");
    let job = folder.join("job.toml");
    let text = format!(
        "model_dir = {:?}\n[input]\n{of_input}\n[input.train]\nfiles = [{name:?}]\nbatch_size = 4\n{features}\n\
         [model]\nkind = \"linear_classifier\"\n[train]\nmax_steps = 20\n",
        folder.join("model").display().to_string()
    );
    std::fs::write(&job, text).expect("the job is written");
    let job = job.to_string_lossy().into_owned();
    run(&["train", &job, "--no-evaluation", "--log-level", "error"]);
    job
}

/// Returns the logits that `trainyard predict` has for the records of a file.
fn predicted(folder: &Path, job: &str, data: (&str, &str)) -> Vec<serde_json::Value> {
    let input = folder.join(data.0);
    std::fs::write(&input, data.1).expect("the records are written");
    let out = folder.join("predictions.jsonl");
    let [input, shown] = [&input, &out].map(|path| path.to_string_lossy().into_owned());
    run(&["predict", job, "--input", &input, "--output", &shown]);
    let lines = std::fs::read_to_string(out).expect("predictions");
    let logits = lines.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        bits(&line["logits"])
    });
    logits.collect()
}

/// Returns the logits that a server has for rows of JSON.
fn served(job: &str, instances: &str) -> Vec<serde_json::Value> {
    let mut server = Server::start(&[job]);
    server.wait_for_version("job", 20);
    let body = format!("{{\"instances\": [{instances}]}}");
    let (status, answer) = post(&server.address, "/v1/models/job:predict", &body);
    assert_eq!(status, 200, "{answer}");
    let rows = answer["predictions"].as_array().expect("predictions");
    rows.iter().map(|row| bits(&row["logits"])).collect()
}

trial!(an_index_of_libsvm_is_served_as_its_files_have_it);
fn an_index_of_libsvm_is_served_as_its_files_have_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = train(
        folder,
        ("train.svm", "1 3:1\n0 4:1\n0 2:1\n1 3:1 5:2\n"),
        "format = \"libsvm\"\nlabel = { column = \"label\" }",
        "[[feature]]\ncolumn = \"index\"\nkind = \"identity\"\nseparator = \" \"\nbuckets = 9\nweights = \"value\"\nwide = true",
    );
    let records = ("rows.svm", "0 3:1\n0 4:1\n0 2:1\n0 2:1 5:2\n");
    let rows = r#"{"index": [3], "value": [1]}, {"index": 4, "value": 1}, {"index": 2, "value": 1},
        {"index": [2, 5], "value": [1, 2]}"#;
    assert_eq!(served(&job, rows), predicted(folder, &job, records));
}

trial!(a_model_with_a_time_without_default_is_served);
fn a_model_with_a_time_without_default_is_served() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = train(
        folder,
        ("train.csv", "y,at\n1,3600\n0,7200\n1,90000\n0,100\n"),
        "label = { column = \"y\" }",
        "[[feature]]\ncolumn = \"at\"\nkind = \"numeric\"\ntime = \"hour\"\nwide = true",
    );
    let records = ("rows.csv", "y,at\n0,3600\n0,7200\n");
    assert_eq!(
        served(&job, r#"{"at": 3600}, {"at": 7200}"#),
        predicted(folder, &job, records)
    );
}

trial!(missing_values_pad_the_rows_of_a_list);
fn missing_values_pad_the_rows_of_a_list() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let job = train(
        folder,
        ("train.csv", "y,tags\n1,a\n0,b\n1,a|c\n0,b|c\n"),
        "label = { column = \"y\" }\nmissing = [\"?\"]",
        "[[feature]]\ncolumn = \"tags\"\nkind = \"hashed\"\nbuckets = 50\nseparator = \"|\"\nwide = true",
    );
    let records = ("rows.csv", "y,tags\n0,a\n0,a|b\n0,\n");
    let expected = predicted(folder, &job, records);
    let rows = r#"{"tags": ["a", "", "?"]}, {"tags": ["a", "b", ""]}, {"tags": ["", ""]}"#;
    assert_eq!(served(&job, rows), expected);
}

trial!(a_prediction_that_is_not_finite_is_refused_with_its_row_by_every_method);
fn a_prediction_that_is_not_finite_is_refused_with_its_row_by_every_method() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    // The coefficient becomes so large that the product of a number with it is beyond 32 bits.
    let job = train(
        folder,
        ("train.csv", "x,y\n0.01,1\n-0.01,0\n0.01,1\n-0.01,0\n"),
        "label = { column = \"y\" }",
        "[[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\nwide = true\n[model.linear_optimizer]\nkind = \"sgd\"\nlearning_rate = 10000.0",
    );
    let mut server = Server::start(&[&job]);
    server.wait_for_version("job", 20);
    let model = "/v1/models/job";
    let finite = r#"{"x": 0.25}"#;
    let rows = format!(r#"[{finite}, {{"x": 3e38}}]"#);
    let tensor = r#"{"name":"x","shape":[2],"datatype":"FP32","data":[0.25,3e38]}"#;
    for (path, body) in [
        (
            format!("{model}:predict"),
            format!(r#"{{"instances": {rows}}}"#),
        ),
        (
            format!("{model}:classify"),
            format!(r#"{{"examples": {rows}}}"#),
        ),
        (
            format!("{model}:regress"),
            format!(r#"{{"examples": {rows}}}"#),
        ),
        (
            "/v2/models/job/infer".to_owned(),
            format!(r#"{{"inputs": [{tensor}]}}"#),
        ),
    ] {
        let (status, answer) = post(&server.address, &path, &body);
        let told = answer["error"].as_str().unwrap_or_default();
        assert!(
            status == 500 && told.contains("row 2: the prediction is not finite"),
            "{path}: {status} {answer}"
        );
    }
    let body = format!(r#"{{"instances": [{finite}]}}"#);
    let (status, answer) = post(&server.address, &format!("{model}:predict"), &body);
    assert_eq!(status, 200, "{answer}");
}
