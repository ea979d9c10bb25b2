//! The configuration page and the reader of job files have the same keys in each section, with the same defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trainyard_diagnostic::{Diagnostic, render_all};
use trainyard_run_config::{FOREIGN_NAMES, Job};

/// A job with every section, every kind of feature and every table of keys.
const JOB: &str = r#"
model_dir = "runs/census"
[run]
[input]
label = { column = "salary", positive = ">50K" }
[input.train]
files = ["train.csv"]
[input.eval]
files = ["eval.csv"]
[[feature]]
column = "age"
kind = "numeric"
[[feature]]
column = "hours"
kind = "bucketized"
boundaries = [10, 20]
wide = true
[[feature]]
column = "occupation"
kind = "hashed"
buckets = 100
wide = true
deep = { embedding = 8 }
[[feature]]
column = "education"
kind = "vocabulary"
values = ["none", "school"]
wide = true
[[feature]]
column = "place"
kind = "identity"
buckets = 10
wide = true
[[feature]]
column = "user"
kind = "dynamic"
wide = true
[[feature]]
columns = ["education", "place"]
kind = "crossed"
buckets = 50
wide = true
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [10]
[model.linear_optimizer]
kind = "ftrl"
[model.dnn_optimizer]
kind = "adagrad"
[train]
max_steps = 10
clip_gradients = { kind = "global_norm", clip = 5.0 }
warm_start = { from = "runs/old" }
[train.early_stopping]
stop_at = 0.5
[train.reduce_on_plateau]
[eval]
[[evaluation]]
name = "mobile"
files = ["mobile.csv"]
[[exporter]]
kind = "best"
[strategy]
partitioner = { kind = "min_size" }
[parameter_servers]
[parameter_servers.guard]
[publish]
"#;
/// Kinds of the features of that job, in its order.
const FEATURES: [&str; 7] = [
    "numeric",
    "bucketized",
    "hashed",
    "vocabulary",
    "identity",
    "dynamic",
    "crossed",
];
/// No key resembles this one, so the message lists all known keys.
const UNKNOWN: &str = "qqqqqqqq";

fn parse(text: &str, overrides: &[String]) -> Result<Job, Vec<Diagnostic>> {
    Job::parse(Path::new("job.toml"), text, overrides)
}

/// Returns the known keys of a section, as the message about an unknown key lists them.
fn known_in(job: &str, section: &str) -> BTreeSet<String> {
    let key = if section.is_empty() {
        UNKNOWN.to_owned()
    } else {
        format!("{section}.{UNKNOWN}")
    };
    let problems = parse(job, &[format!("{key}=1")]).expect_err("no key is named so");
    let asked = format!("unknown key `{UNKNOWN}`");
    let told = problems
        .iter()
        .find(|problem| problem.message == asked)
        .and_then(|problem| problem.help.as_deref());
    let known = told.and_then(|help| help.strip_prefix("known: "));
    let known = known.unwrap_or_else(|| panic!("[{section}]: {}", render_all(&problems)));
    known.split(", ").map(str::to_owned).collect()
}

fn known(section: &str) -> BTreeSet<String> {
    known_in(JOB, section)
}

/// Returns the path of the first section of a list of sections.
fn place_of(section: &str) -> &str {
    match section {
        "evaluation" => "evaluation.0",
        "exporter" => "exporter.0",
        once => once,
    }
}

/// Returns the job with another kind of model, and its settings.
fn with_model(kind: &str, lines: &str) -> String {
    let (front, rest) = JOB.split_once("[model]\n").expect("a model");
    let (_, end) = rest.split_once("[train]\n").expect("what follows it");
    format!("{front}[model]\nkind = \"{kind}\"\n{lines}\n[train]\n{end}")
}

/// A feature of a libsvm file.
const LIBSVM: &str =
    "column = \"index\"\nkind = \"identity\"\nbuckets = 10\nseparator = \" \"\nweights = \"value\"";

/// Returns a small job with another kind of model, or with files in another format.
fn job_of(model: &str, format: &str, feature: &str) -> String {
    format!(
        "model_dir = \"runs/small\"\n[input]\nformat = \"{format}\"\nlabel = {{ column = \"label\" }}\n\
         [input.train]\nfiles = [\"train\"]\n[[feature]]\n{feature}\n[model]\nkind = \"{model}\"\n\
         [train]\nmax_steps = 10\n"
    )
}

/// A row of a table in the page: its keys, and its other cells.
struct Row {
    keys: Vec<String>,
    cells: Vec<String>,
}

/// Returns the texts between backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Reads the page: the tables below each heading. The first row of a table holds its titles.
fn page() -> BTreeMap<String, Vec<Vec<Row>>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let mut page: BTreeMap<String, Vec<Vec<Row>>> = BTreeMap::new();
    let mut heading = String::new();
    let mut within = false;
    for line in text.lines() {
        if let Some(title) = line.strip_prefix('#') {
            heading = title.trim_start_matches('#').trim().to_owned();
        }
        let row = line
            .strip_prefix("| ")
            .and_then(|row| row.strip_suffix(" |"));
        let tables = page.entry(heading.clone()).or_default();
        match row {
            Some(_) if !within => tables.push(Vec::new()),
            _ => {}
        }
        within = line.starts_with('|');
        let (Some(row), Some(table)) = (row, tables.last_mut()) else {
            continue;
        };
        // An escaped bar does not separate cells.
        let row = row.replace("\\|", "\u{1}");
        let cells: Vec<String> = row
            .split(" | ")
            .map(|cell| cell.trim().replace('\u{1}', "|"))
            .collect();
        let keys = code(&cells[0]).map(str::to_owned).collect();
        table.push(Row { keys, cells });
    }
    page
}

/// Returns the rows of the first table of keys below a heading.
fn rows<'a>(page: &'a BTreeMap<String, Vec<Vec<Row>>>, heading: &str) -> &'a [Row] {
    let tables = page
        .get(heading)
        .unwrap_or_else(|| panic!("no heading `{heading}`: {:?}", page.keys()));
    let table = tables.iter().find(|table| table[0].cells[0] == "key");
    &table.unwrap_or_else(|| panic!("no table of keys below `{heading}`"))[1..]
}

/// Returns the rows that apply to one of two sections with a common table.
fn of_section<'a>(rows: &'a [Row], section: &str) -> Vec<&'a Row> {
    let elsewhere =
        |row: &&Row| section == "input.eval" && row.cells[1].starts_with("`[input.train]` only");
    rows.iter().filter(|row| !elsewhere(row)).collect()
}

/// Sections with a table of keys of their own, and its heading.
const SECTIONS: [(&str, &str); 12] = [
    ("", "Top level"),
    ("run", "`[run]` (TensorFlow's `RunConfig`)"),
    ("input", "`[input]`"),
    ("input.train", "`[input.train]` and `[input.eval]`"),
    ("input.eval", "`[input.train]` and `[input.eval]`"),
    ("model", "`[model]`"),
    ("train.early_stopping", "`[train.early_stopping]`"),
    ("train.reduce_on_plateau", "`[train.reduce_on_plateau]`"),
    ("strategy", "`[strategy]`"),
    ("parameter_servers", "`[parameter_servers]`"),
    ("parameter_servers.guard", "`[parameter_servers.guard]`"),
    ("publish", "`[publish]`"),
];
/// Sections with a common table, in which the name of the section precedes the key.
const TOGETHER: [&str; 4] = ["train", "eval", "evaluation", "exporter"];
const TOGETHER_HEADING: &str = "`[train]`, `[eval]`, `[[evaluation]]`, `[[exporter]]`";
/// Keys that are sections. They have headings or sentences instead of a row.
const TABLES: [(&str, &[&str]); 4] = [
    (
        "",
        &[
            "run",
            "input",
            "feature",
            "model",
            "train",
            "eval",
            "evaluation",
            "exporter",
            "strategy",
            "parameter_servers",
            "publish",
        ],
    ),
    ("input", &["train", "eval", "label"]),
    (
        "model",
        &[
            "linear_optimizer",
            "dnn_optimizer",
            "optimizer",
            "task",
            "attention",
        ],
    ),
    ("parameter_servers", &["guard"]),
];

/// Key of `[model]` that is in the page, and known to custom models only.
const OF_CUSTOM_MODELS: &str = "params";

fn without_tables(section: &str, known: BTreeSet<String>) -> BTreeSet<String> {
    let tables = TABLES
        .iter()
        .find(|(of, _)| *of == section)
        .map_or(&[][..], |(_, tables)| *tables);
    known
        .into_iter()
        .filter(|key| !tables.contains(&key.as_str()))
        .collect()
}

fn documented<'a>(rows: impl IntoIterator<Item = &'a Row>, prefix: &str) -> BTreeSet<String> {
    let keys = rows.into_iter().flat_map(|row| &row.keys);
    keys.filter_map(|key| key.strip_prefix(prefix))
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_section_has_the_keys_of_its_table_in_the_page_and_no_others() {
    let page = page();
    for (section, heading) in SECTIONS {
        let rows = of_section(rows(&page, heading), section);
        let own: BTreeSet<String> = documented(rows, "")
            .into_iter()
            .filter(|key| !key.contains('.'))
            // Other models do not know it.
            .filter(|key| !(section == "model" && key == OF_CUSTOM_MODELS))
            .collect();
        assert_eq!(
            without_tables(section, known(section)),
            own,
            "[{section}] and its table below `{heading}`"
        );
    }
    for section in TOGETHER {
        let keys = documented(rows(&page, TOGETHER_HEADING), &format!("{section}."));
        let place = place_of(section);
        assert_eq!(known(place), keys, "[{section}]");
    }
    let of_all = documented(rows(&page, TOGETHER_HEADING), "");
    let named = |key: &String| {
        TOGETHER
            .iter()
            .any(|section| key.starts_with(&format!("{section}.")))
    };
    assert!(of_all.iter().all(named), "{of_all:?}");
    let label = documented(rows(&page, "`[input]`"), "label.");
    assert_eq!(known("input.label"), label, "input.label");
    let custom = known_in(&with_model("custom_classifier", ""), "model");
    assert!(custom.contains("optimizer"), "{custom:?}");
    assert!(custom.contains(OF_CUSTOM_MODELS), "{custom:?}");
    let tasks = documented(rows(&page, "`[model]`"), "task.");
    let job = with_model("mmoe", "hidden_units = [4]\n[[model.task]]");
    let job = job.replace("label = {", "# label = {");
    assert_eq!(known_in(&job, "model.task.0"), tasks, "[[model.task]]");
    let attention = documented(rows(&page, "`[model]`"), "attention.");
    let job = with_model("din_classifier", "hidden_units = [4]\n[[model.attention]]");
    assert_eq!(
        known_in(&job, "model.attention.0"),
        attention,
        "[[model.attention]]"
    );
    let model = documented(rows(&page, "`[model]`"), "");
    assert!(model.contains(OF_CUSTOM_MODELS), "{model:?}");
}

#[test]
fn each_kind_of_feature_has_keys_of_the_table_and_each_key_belongs_to_a_kind() {
    let page = page();
    let table = documented(rows(&page, "`[[feature]]`"), "");
    let of_kind = |place: usize| known(&format!("feature.{place}"));
    let all: BTreeSet<String> = (0..FEATURES.len()).flat_map(of_kind).collect();
    assert_eq!(all, table);
    // The keys of a row belong to the kinds that the row names.
    for row in rows(&page, "`[[feature]]`") {
        let kinds = kinds_of(row);
        for (place, kind) in FEATURES.iter().enumerate() {
            for key in row.keys.iter().filter(|_| kinds.contains(kind)) {
                assert!(
                    of_kind(place).contains(key),
                    "{key} is a key of kind = \"{kind}\""
                );
            }
        }
    }
}

/// Returns the kinds of features at the beginning of a row: `numeric, bucketized: ...`.
fn kinds_of(row: &Row) -> Vec<&str> {
    let front = row.cells[1].split(':').next().expect("a text");
    let kinds: Vec<&str> = front.split(", ").collect();
    if kinds.iter().all(|kind| FEATURES.contains(kind)) {
        kinds
    } else {
        Vec::new()
    }
}

#[test]
fn the_keys_of_tables_within_a_key_are_in_its_row() {
    let page = page();
    let named = |row: &Row, key: &str| {
        let words = row.cells[1].split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words.into_iter().any(|word| word == key)
    };
    let row = |heading: &str, key: &str| {
        rows(&page, heading)
            .iter()
            .find(|row| row.keys == [key])
            .unwrap_or_else(|| panic!("no row of {key}"))
    };
    let mut keys = 0;
    for (section, heading, key) in [
        (
            "train.clip_gradients",
            TOGETHER_HEADING,
            "train.clip_gradients",
        ),
        ("train.warm_start", TOGETHER_HEADING, "train.warm_start"),
        ("strategy.partitioner", "`[strategy]`", "partitioner"),
    ] {
        for inner in known(section) {
            assert!(
                named(row(heading, key), &inner),
                "the row of {key} lacks {inner}"
            );
            keys += 1;
        }
    }
    for kind in [
        "max_size\", max_shard_bytes = 1, max_shards = 2",
        "fixed\", num_shards = 2",
    ] {
        let job = JOB.replace(
            "kind = \"min_size\"",
            &format!("kind = \"{}", kind.trim_end_matches('"')),
        );
        for inner in known_in(&job, "strategy.partitioner") {
            assert!(
                named(row("`[strategy]`", "partitioner"), &inner),
                "the row of partitioner lacks {inner}"
            );
            keys += 1;
        }
    }
    assert!(keys >= 10, "{keys} keys");
}

/// Returns the keys in a row of optimizers or schedules. `the same` stands for those of the row before.
fn hyper_parameters(text: &str, before: &BTreeSet<String>) -> BTreeSet<String> {
    let same = if text.starts_with("the same") {
        before.clone()
    } else {
        BTreeSet::new()
    };
    let named = code(text).filter(|code| !["true", "false"].contains(code));
    named.map(str::to_owned).chain(same).collect()
}

#[test]
fn each_optimizer_and_each_schedule_has_the_keys_of_its_row_and_no_others() {
    let page = page();
    let tables = &page["`[model]`"];
    let table = |title: &str| {
        tables
            .iter()
            .find(|table| table[0].cells[0] == title)
            .expect("a table")
    };
    let mut kinds = 0;
    let mut check = |title: &str, replaced: &dyn Fn(&str) -> (String, &'static str)| {
        let mut before = BTreeSet::new();
        for row in &table(title)[1..] {
            let keys = hyper_parameters(&row.cells[1], &before);
            for kind in &row.keys {
                let (job, section) = replaced(kind);
                let mut known = known_in(&job, section);
                assert!(known.remove("kind"), "{known:?}");
                assert_eq!(known, keys, "{kind}");
                kinds += 1;
            }
            before = keys;
        }
    };
    check("kind", &|kind| {
        (
            JOB.replace("kind = \"adagrad\"", &format!("kind = \"{kind}\"")),
            "model.dnn_optimizer",
        )
    });
    check("schedule", &|kind| {
        let lines = format!("kind = \"adagrad\"\nlearning_rate = {{ kind = \"{kind}\" }}");
        (
            JOB.replace("kind = \"adagrad\"", &lines),
            "model.dnn_optimizer.learning_rate",
        )
    });
    assert_eq!(kinds, 12 + 9, "optimizers and schedules");
}

/// Returns a default as a value of TOML, if the page states one that always holds, with that of the evaluation's input.
fn stated(cell: &str, section: &str) -> Option<String> {
    let cell = match cell.split_once("; ") {
        Some((_, eval)) if section == "input.eval" => eval.strip_suffix(" for eval")?,
        Some((train, _)) => train,
        None => cell,
    };
    let cell = cell.strip_suffix(" if neither is given").unwrap_or(cell);
    if cell.parse::<f64>().is_ok() || ["true", "false"].contains(&cell) {
        return Some(cell.to_owned());
    }
    let text = cell.strip_prefix('`')?.strip_suffix('`')?.trim_matches('"');
    (!text.contains('`')).then(|| format!("\"{text}\""))
}

/// Setting a key to the default on the page changes nothing.
#[test]
fn the_defaults_that_the_page_states_are_those_of_the_reader() {
    let page = page();
    let jobs = [
        JOB.to_owned(),
        job_of(
            "dcn_classifier",
            "csv",
            "column = \"age\"\nkind = \"numeric\"",
        ),
        job_of(
            "autoint_classifier",
            "csv",
            "column = \"age\"\nkind = \"numeric\"",
        ),
        job_of(
            "masknet_classifier",
            "csv",
            "column = \"age\"\nkind = \"numeric\"",
        ),
        job_of(
            "masknet_classifier",
            "csv",
            "column = \"age\"\nkind = \"numeric\"",
        )
        .replace(
            "masknet_classifier\"",
            "final_mlp_classifier\"\nhidden_units = [4]",
        ),
        job_of(
            "linear_regressor",
            "csv",
            "column = \"age\"\nkind = \"numeric\"",
        ),
        job_of(
            "din_classifier",
            "csv",
            "column = \"seen\"\nkind = \"identity\"\nbuckets = 9\nseparator = \"|\"\ndeep = { embedding = 2, table = \"t\" }\n\
             [[feature]]\ncolumn = \"item\"\nkind = \"identity\"\nbuckets = 9\ndeep = { embedding = 2, table = \"t\" }",
        )
        .replace(
            "[train]",
            "hidden_units = [4]\n[[model.attention]]\nhistory = \"seen\"\ntarget = \"item\"\n[train]",
        ),
        job_of(
            "linear_regressor",
            "csv",
            "column = \"age\"\nkind = \"numeric\"\nencoding = \"periodic\"\nnormalizer = \"quantile\"\nboundaries = [0, 1]",
        ),
        job_of("linear_classifier", "libsvm", LIBSVM),
        job_of("ple", "csv", "column = \"age\"\nkind = \"numeric\"")
            .replace("label = ", "# label = ")
            .replace(
                "[train]",
                "hidden_units = [4]\n[[model.task]]\nname = \"a\"\nhead = \"binary\"\nlabel = { column = \"y\" }\n[train]",
            ),
        JOB.replace(
            "hidden_units = [10]",
            "hidden_units = [10]\nloss = \"focal\"",
        ),
        JOB.replace("kind = \"numeric\"", "kind = \"numeric\"\ntime = \"hour\"")
            .replace(
                "kind = \"bucketized\"",
                "kind = \"bucketized\"\ntime = \"hour\"",
            ),
    ];
    for job in &jobs {
        parse(job, &[]).unwrap_or_else(|problems| panic!("{}", render_all(&problems)));
    }
    let mut checked = Vec::new();
    let mut check = |section: &str, key: &str, cell: &str| {
        let Some(value) = stated(cell, section) else {
            return;
        };
        let place = if section.is_empty() {
            key.to_owned()
        } else {
            format!("{section}.{key}")
        };
        let place = place
            .replace("model.task.", "model.task.0.")
            .replace("model.attention.", "model.attention.0.");
        let given = vec![format!("{place}={value}")];
        // A kind of model without this key refuses it. The next job is tried then.
        let found = jobs
            .iter()
            .find_map(|job| Some((parse(job, &[]).ok()?, parse(job, &given).ok()?)));
        let (without, with) = found.unwrap_or_else(|| panic!("no job takes {given:?}"));
        assert_eq!(
            without, with,
            "the page says that {place} is {cell} by default"
        );
        checked.push(place);
    };
    for (section, heading) in SECTIONS {
        for row in of_section(rows(&page, heading), section) {
            row.keys
                .iter()
                .for_each(|key| check(section, key, &row.cells[2]));
        }
    }
    for row in rows(&page, TOGETHER_HEADING) {
        for key in &row.keys {
            let (section, key) = key.split_once('.').expect("a section");
            let section = place_of(section);
            check(section, key, &row.cells[2]);
        }
    }
    for row in rows(&page, "`[[feature]]`") {
        for kind in kinds_of(row) {
            let place = FEATURES
                .iter()
                .position(|known| *known == kind)
                .expect("a kind");
            row.keys
                .iter()
                .for_each(|key| check(&format!("feature.{place}"), key, &row.cells[2]));
        }
    }
    println!("{} defaults: {}", checked.len(), checked.join(", "));
    assert!(
        checked.len() >= 45,
        "only {} defaults were found: {checked:?}",
        checked.len()
    );
}

#[test]
fn every_section_has_a_heading_or_an_example() {
    let page = page();
    for (section, tables) in TABLES {
        let known = known(section);
        for table in tables
            .iter()
            .filter(|table| !(section == "model" && **table == "optimizer"))
        {
            assert!(known.contains(*table), "[{section}] has no {table}");
        }
    }
    let headings: Vec<&String> = page.keys().collect();
    for section in TABLES[0].1 {
        let named = |heading: &&String| {
            heading.contains(&format!("[{section}]")) || heading.contains(&format!("[{section}."))
        };
        assert!(headings.iter().any(named), "{section} has no heading");
    }
}

#[test]
fn each_name_of_tensorflow_is_a_key_or_a_value_that_the_reader_knows() {
    let features: BTreeSet<String> = (0..FEATURES.len())
        .flat_map(|place| known(&format!("feature.{place}")))
        .collect();
    for foreign in FOREIGN_NAMES {
        let (section, key) = foreign.key.rsplit_once('.').expect("a key has a section");
        let known = match section {
            "feature" => features.clone(),
            "exporter" | "evaluation" => known(place_of(section)),
            _ => known(section),
        };
        assert!(
            known.contains(key),
            "{}: [{section}] has {known:?}",
            foreign.name
        );
        let Some(value) = foreign.value else { continue };
        let place = foreign.key.replace("feature.", "feature.0.");
        let problems = parse(JOB, &[format!("{place}={value:?}")])
            .err()
            .unwrap_or_default();
        let unknown = problems
            .iter()
            .find(|problem| problem.message.contains(&format!("`{value}`")));
        assert_eq!(unknown, None, "{}", foreign.name);
    }
    let names: BTreeSet<&str> = FOREIGN_NAMES.iter().map(|foreign| foreign.name).collect();
    assert_eq!(names.len(), FOREIGN_NAMES.len(), "each name once");
}

#[test]
fn a_name_of_tensorflow_is_answered_with_the_key_of_the_job() {
    let told = |assignment: &str| {
        let problems = parse(JOB, &[assignment.to_owned()]).expect_err("the job has no such key");
        render_all(&problems)
    };
    let seed = told("run.tf_random_seed=1");
    assert!(
        seed.contains("TensorFlow's `tf_random_seed` is `seed` in [run]"),
        "{seed}"
    );
    let buckets = told("feature.2.hash_bucket_size=1");
    assert!(
        buckets.contains("`hash_bucket_size` is `buckets` in [[feature]]"),
        "{buckets}"
    );
    let weights = told("model.weight_column=\"w\"");
    assert!(
        weights.contains("`weight_column` is a key of [input]"),
        "{weights}"
    );
    let model = told("model.kind=\"DNNLinearCombinedClassifier\"");
    assert!(
        model.contains("is `kind = \"dnn_linear_combined_classifier\"` in [model]"),
        "{model}"
    );
    let loss = told("model.loss_fn=\"focal\"");
    assert!(
        loss.contains("`loss` in [model]") && !loss.contains("loss_reduction"),
        "{loss}"
    );
    let own = told("run.sed=1");
    assert!(own.contains("did you mean `seed`?"), "{own}");
}
