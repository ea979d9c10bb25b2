//! From data to a trained model: `trainyard init`, then `trainyard train`.

use std::path::Path;

use serde_json::Value;
use trainyard_tests::{Draw, Program};

use crate::end_to_end::LIMIT;

fn run(arguments: &[&str], code: i32) -> String {
    let ended = Program::start("trainyard", arguments, &[]).wait(LIMIT);
    assert_eq!(ended.code, code, "{arguments:?}: {}", ended.output);
    ended.output
}

/// Clicks of users on items: numbers, texts of few and of many values, missing ones, a time, and a column that says nothing.
fn clicks(path: &Path, rows: usize) {
    let mut draw = Draw::new(7);
    let mut text = "user_id,age,town,amount,seconds,note,clicked\n".to_owned();
    for row in 0..rows {
        let user = draw.below(300);
        let age = 18 + draw.below(60);
        let town = draw.below(12);
        let amount = (draw.fraction() * 9.0).exp();
        let missing = if draw.below(10) == 0 {
            String::new()
        } else {
            age.to_string()
        };
        let likes =
            (user % 7) as f64 * 0.5 + (town % 3) as f64 - amount.ln() * 0.3 + draw.fraction();
        let clicked = if likes > 2.0 { "yes" } else { "no" };
        text += &format!(
            "{user},{missing},town {town},{amount:.2},{},same,{clicked}\n",
            1_600_000_000 + row
        );
    }
    std::fs::write(path, text).expect("the records are written");
}

/// Makes a job of data by the rules, trains it, and returns what `init` said, and the metrics.
fn trained(data: &str, out: &Path, more: &[&str]) -> (String, Value) {
    trained_with(data, out, more, &[])
}

/// The same with settings of the training.
fn trained_with(data: &str, out: &Path, more: &[&str], settings: &[&str]) -> (String, Value) {
    let folder = out.to_string_lossy().into_owned();
    let init = ["init", data, "--out", &folder, "--seconds", "0"];
    let told = run(&[&init, more].concat(), 0);
    let job = out.join("job.toml").to_string_lossy().into_owned();
    let checked = run(&["check", &job], 0);
    assert!(!checked.contains("warning"), "{checked}");
    run(&[&["train", &job, "--no-evaluation"], settings].concat(), 0);
    let scores = run(&["evaluate", &job, "--format", "json"], 0);
    let scores: Value = serde_json::from_str(&scores).expect("JSON");
    (told, scores["metrics"].clone())
}

trial!(data_of_any_format_becomes_a_job_that_learns_in_two_commands);
fn data_of_any_format_becomes_a_job_that_learns_in_two_commands() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let csv = folder.join("clicks.csv");
    clicks(&csv, 6000);
    let csv = csv.to_string_lossy().into_owned();
    // A part of its passes is enough to learn, and to differ by a single value that is read otherwise.
    let trained = |data: &str, out: &Path| {
        let settings = ["--set", "train.max_steps=500"];
        trained_with(data, out, &["--time", "seconds"], &settings)
    };
    let (told, scores) = trained(&csv, &folder.join("of csv"));
    for words in [
        "`clicked`: two classes, `yes` is positive",
        "left out   `note`: it has the same value in all records",
        "600 of 6000 records, those later than 1600005399 by `seconds`",
    ] {
        assert!(told.contains(words), "`{words}` in {told}");
    }
    let auc = scores["auc"].as_f64().expect("an auc");
    assert!(auc > 0.85, "{scores}");
    for format in ["parquet", "tfrecord", "tsv"] {
        let path = folder
            .join(format!("clicks.{format}"))
            .to_string_lossy()
            .into_owned();
        run(&["convert", &csv, &path], 0);
        let (_, same) = trained(&path, &folder.join(format!("of {format}")));
        assert_eq!(same["auc"], scores["auc"], "{format}");
    }
}

trial!(lines_of_libsvm_and_files_without_names_become_jobs);
fn lines_of_libsvm_and_files_without_names_become_jobs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let mut draw = Draw::new(3);
    let mut lines = String::new();
    let mut rows = String::new();
    for _ in 0..3000 {
        let a = draw.below(40);
        let b = draw.below(40);
        let label = u8::from(a.is_multiple_of(3) || b.is_multiple_of(5));
        lines += &format!("{label} {}:1 {}:0.5\n", a + 1, 41 + b);
        rows += &format!("{label}\t{a}\tt{b}\n");
    }
    let svm = folder.join("rows.svm");
    std::fs::write(&svm, lines).expect("the lines are written");
    let (told, scores) = trained(&svm.to_string_lossy(), &folder.join("svm"), &[]);
    assert!(
        told.contains("features   1 identity") && told.contains("at random"),
        "{told}"
    );
    assert!(scores["auc"].as_f64() > Some(0.9), "{scores}");
    let tsv = folder.join("rows.tsv");
    std::fs::write(&tsv, rows).expect("the rows are written");
    let (told, scores) = trained(&tsv.to_string_lossy(), &folder.join("tsv"), &[]);
    assert!(told.contains("`column_1`: 0 or 1"), "{told}");
    // The rest of a number by 3 is not to be learned of the number alone.
    assert!(scores["auc"].as_f64() > Some(0.7), "{scores}");
}

trial!(what_init_cannot_know_it_asks_for_and_it_writes_over_nothing);
fn what_init_cannot_know_it_asks_for_and_it_writes_over_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("rows.csv");
    let rows: String = (0..500)
        .map(|row| format!("{},{},{}\n", row % 2, row % 3 % 2, row % 50))
        .collect();
    std::fs::write(&data, format!("a,b,c\n{rows}")).expect("the rows are written");
    let data = data.to_string_lossy().into_owned();
    let out = folder.path().join("out").to_string_lossy().into_owned();
    let told = run(&["init", &data, "--out", &out], 64);
    assert!(told.contains("name it by --label COLUMN"), "{told}");
    let told = run(&["init", &data, "--out", &out, "--label", "d"], 65);
    assert!(
        told.contains("--label d: the data has no such column"),
        "{told}"
    );
    assert!(!Path::new(&out).exists());
    run(
        &[
            "init",
            &data,
            "--out",
            &out,
            "--label",
            "a",
            "--seconds",
            "0",
        ],
        0,
    );
    let job = std::fs::read(Path::new(&out).join("job.toml")).expect("a job");
    let told = run(&["init", &data, "--out", &out, "--label", "b"], 64);
    assert!(told.contains("give --force to write over it"), "{told}");
    assert_eq!(
        std::fs::read(Path::new(&out).join("job.toml")).expect("a job"),
        job
    );
    let label = ["--label", "b", "--force", "--seconds", "0"];
    run(&[&["init", &data, "--out", &out][..], &label].concat(), 0);
    let few = folder.path().join("few.csv");
    std::fs::write(&few, "x,y\n1,0\n2,1\n3,0\n").expect("the rows are written");
    let few_out = folder.path().join("few").to_string_lossy().into_owned();
    let told = run(&["init", &few.to_string_lossy(), "--out", &few_out], 0);
    assert!(told.contains("3 records are too few"), "{told}");
    run(&["check", &format!("{few_out}/job.toml")], 0);
    std::fs::write(&few, "x,x,y\n1,0,1\n2,1,0\n").expect("the rows are written");
    let told = run(
        &["init", &few.to_string_lossy(), "--out", &out, "--force"],
        65,
    );
    assert!(told.contains("column `x` is there twice in"), "{told}");
    let told = run(&["init", &format!("{data}x"), "--out", &out, "--force"], 66);
    assert!(told.contains("did you mean `rows.csv`?"), "{told}");
}

/// A table of two columns of names whose label follows the product of two numbers, one of each name, and neither alone.
fn products(path: &Path, rows: usize) {
    let mut draw = Draw::new(5);
    let mut text = "user,item,click\n".to_owned();
    for _ in 0..rows {
        let user = draw.below(60);
        let item = draw.below(60);
        let likes = user.is_multiple_of(2) == item.is_multiple_of(2);
        let click = u8::from(likes == (draw.below(10) > 0));
        text += &format!("u{user},i{item},{click}\n");
    }
    std::fs::write(path, text).expect("the records are written");
}

/// Returns the numbers of a line of the table that `init` prints: metric, second metric, seconds.
fn row(told: &str, name: &str) -> Vec<f64> {
    let line = told
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(name))
        .unwrap_or_else(|| panic!("no line `{name}` in {told}"));
    let words = line.split_whitespace();
    words.map_while(|word| word.parse().ok()).collect()
}

trial!(init_measures_models_on_a_sample_and_writes_the_best_with_its_figures);
fn init_measures_models_on_a_sample_and_writes_the_best_with_its_figures() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("rows.csv");
    products(&data, 4000);
    let out = folder.path().join("out");
    let init = [
        "init",
        &data.to_string_lossy(),
        "--out",
        &out.to_string_lossy(),
        "--seconds",
        "20",
    ];
    let told = run(&init, 0);
    let linear = row(&told, "linear ");
    assert!(linear[0] < 0.6, "{told}");
    let baseline = row(&told, "baseline: the same for each record");
    assert!(baseline[0] == 0.5 && baseline[1] < 0.694, "{told}");
    let chosen = told.lines().find(|line| line.contains("  chosen"));
    let chosen = chosen.expect("a row is chosen").trim();
    let auc: f64 = chosen
        .split_whitespace()
        .find_map(|word| {
            word.strip_prefix("0.")
                .and(word.parse().ok())
                .filter(|auc| *auc > 0.5)
        })
        .expect("an AUC");
    assert!(auc > 0.8, "{told}");
    let job = std::fs::read_to_string(out.join("job.toml")).expect("a job");
    assert!(
        job.lines()
            .any(|line| line.starts_with('#') && line.contains(chosen)),
        "{job}"
    );
    assert!(!job.contains("kind = \"linear_classifier\""), "{job}");
    let left: Vec<_> = std::fs::read_dir(&out).expect("a folder").collect();
    assert!(!out.join("model").exists(), "{left:?}");
    let path = out.join("job.toml").to_string_lossy().into_owned();
    run(&["check", &path], 0);
    let trained = run(&["train", &path], 0);
    let auc = trained
        .lines()
        .find_map(|line| line.trim().strip_prefix("auc "));
    let auc: f64 = auc.and_then(|auc| auc.trim().parse().ok()).expect("an AUC");
    assert!(auc > 0.8, "{trained}");
    assert!(!trained.contains("no better than a constant"), "{trained}");
}

trial!(init_reads_lists_of_which_each_record_has_another_one_and_tries_attention_to_them);
fn init_reads_lists_of_which_each_record_has_another_one_and_tries_attention_to_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("seen.csv");
    let mut draw = Draw::new(11);
    let mut text = "seen,item,hour,clicked\n".to_owned();
    for _ in 0..5000 {
        let liked = draw.below(10);
        let seen: Vec<String> = (0..6 + draw.below(4))
            .map(|_| format!("i{}", liked * 10 + draw.below(10)))
            .collect();
        let item = match draw.below(2) {
            0 => liked * 10 + draw.below(10),
            _ => draw.below(100),
        };
        // Some click without a reason, so that no model is perfect, which would end the search.
        let clicked = u64::from((item / 10 == liked) != (draw.below(5) == 0));
        text += &format!("{},i{item},{},{clicked}\n", seen.join("|"), draw.below(24));
    }
    std::fs::write(&data, text).expect("the records are written");
    let (data, out) = (data.to_string_lossy(), folder.path().join("job"));
    let init = [
        "init",
        &data,
        "--out",
        &out.to_string_lossy(),
        "--label",
        "clicked",
    ];
    let told = run(&[&init[..], &["--seconds", "30"]].concat(), 0);
    let attention = told
        .lines()
        .find(|line| line.split_whitespace().next() == Some("din"));
    let area = attention.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    assert!(area.is_some_and(|area| area > 0.5), "{told}");
    let job = std::fs::read_to_string(out.join("job.toml")).expect("a job");
    for column in ["seen", "item"] {
        assert!(job.contains(&format!("column = \"{column}\"")), "{job}");
    }
    run(&["check", &out.join("job.toml").to_string_lossy()], 0);
}

trial!(init_says_that_no_model_is_better_than_a_constant);
fn init_says_that_no_model_is_better_than_a_constant() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("rows.csv");
    let mut draw = Draw::new(11);
    let mut text = "x,town,label\n".to_owned();
    for _ in 0..1000 {
        let (x, town, label) = (draw.fraction(), draw.below(5), draw.below(2));
        text += &format!("{x:.4},t{town},{label}\n");
    }
    std::fs::write(&data, text).expect("the records are written");
    let data = data.to_string_lossy().into_owned();
    let out = folder.path().join("out").to_string_lossy().into_owned();
    let init = ["init", &data, "--out", &out, "--seconds", "20"];
    let told = run(&init, 0);
    assert!(
        told.contains("no model is better than the baseline"),
        "{told}"
    );
    let quick = [&init[..4], &["--force", "--seconds", "0"]].concat();
    let told = run(&quick, 0);
    assert!(
        !told.contains("baseline") && told.contains("--seconds was 0"),
        "{told}"
    );
}

/// Writes records as a spreadsheet of a German user exports them: Latin-1, semicolons, decimal commas, units, words for missing
/// values, an index without a name. The label follows an exclusive or of the town and the sign of the change.
fn exported(path: &Path, rows: usize) {
    let mut draw = Draw::new(7);
    let mut text = ";Ort;Änderung;Anteil;clicked\n".to_owned();
    for row in 0..rows {
        let town = ["Köln", "Bonn", "Essen"][(draw.fraction() * 3.0) as usize];
        let change = draw.fraction() * 4000.0 - 2000.0;
        let clicked = (town == "Köln") != (change > 0.0);
        let clicked = clicked != (draw.fraction() < 0.1);
        let share = format!("{:.1} %", draw.fraction() * 100.0).replace('.', ",");
        let written = format!("{:.2}", change.abs());
        let (whole, cents) = written.split_once('.').expect("two decimals");
        let whole = match whole.len() {
            4 => format!("{}.{}", &whole[..1], &whole[1..]),
            _ => whole.to_owned(),
        };
        let sign = if change < 0.0 { "-" } else { "" };
        let change = match row % 20 {
            0 => "n/a".to_owned(),
            _ => format!("{sign}{whole},{cents}"),
        };
        let label = match row % 50 {
            0 => String::new(),
            _ => u8::from(clicked).to_string(),
        };
        text += &format!("{row};{town};{change};{share};{label}\n");
    }
    let latin1: Vec<u8> = text.chars().map(|character| character as u8).collect();
    std::fs::write(path, latin1).expect("the records are written");
}

trial!(a_table_that_a_spreadsheet_exports_is_read_as_it_is_meant);
fn a_table_that_a_spreadsheet_exports_is_read_as_it_is_meant() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("export.txt");
    exported(&data, 6000);
    let out = folder.path().join("out");
    let (told, scores) = trained(&data.to_string_lossy(), &out, &[]);
    for said in [
        "delimiter \";\"",
        "encoding \"latin1\"",
        "decimal \",\"",
        "thousands \".\"",
        "units [\"%\"]",
        "missing [\"n/a\"]",
        "120 records without a label",
        "left out   ``: it counts the records",
        "2 numeric, 1 vocabulary",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    let auc = scores["auc"].as_f64().expect("an AUC");
    assert!(auc > 0.85, "{auc}");
}

trial!(prices_far_from_zero_are_predicted_far_better_than_by_their_mean);
fn prices_far_from_zero_are_predicted_far_better_than_by_their_mean() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("houses.csv");
    let mut draw = Draw::new(5);
    let mut text = "area,town,price\n".to_owned();
    for _ in 0..1200 {
        let area = 40.0 + draw.fraction() * 160.0;
        let town = draw.below(4);
        let price = 100_000.0 + area * 1500.0 * (1.0 + town as f64 / 4.0);
        text += &format!("{area:.1},town {town},{price:.0}\n");
    }
    std::fs::write(&data, text).expect("the records are written");
    let (told, scores) = trained(&data.to_string_lossy(), &folder.path().join("out"), &[]);
    assert!(told.contains("a number, here from"), "{told}");
    let of = |name: &str| scores[name].as_f64().expect("a metric");
    let off = of("average_loss").sqrt();
    let mean = of("prediction/mean");
    // The deviation of the prices is some 100 000.
    assert!(off < 20_000.0, "{scores}");
    assert!((mean / of("label/mean") - 1.0).abs() < 0.05, "{scores}");
}
