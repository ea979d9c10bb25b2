//! Valid job files, and the messages about invalid ones.
#![expect(
    clippy::unwrap_used,
    reason = "a job that is not as the test says fails the test"
)]

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;
use trainyard_diagnostic::{Diagnostic, Place, render_all};
use trainyard_run_config::{
    Compression, Deep, Durability, ExportFormat, FeatureKind, Format, Guard, GuardSection,
    IndexBase, Job, Nonfinite, OptimizerSection, ParameterServersConfig, Replication, Sharding,
    StrategyKind, Update, UpdateSection, ambiguous_files, resolve_files,
};
use trainyard_variable::Initializer;
use trainyard_vocabulary::Words;

const CENSUS: &str = r#"
model_dir = "runs/census"
[run]
seed = 7
save_checkpoints_secs = 30
[input]
format = "csv"
label = { column = "salary", positive = ">50K" }
[input.train]
files = ["train.csv"]
batch_size = 128
shuffle_rows = 10_000
epochs = 10
[input.eval]
files = ["eval.csv"]
batch_size = 512
[[feature]]
column = "age"
kind = "bucketized"
boundaries = [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]
wide = true
[[feature]]
column = "occupation"
kind = "hashed"
buckets = 100
wide = true
deep = { embedding = 8 }
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [100, 50]
[model.linear_optimizer]
kind = "ftrl"
[model.dnn_optimizer]
kind = "adagrad"
learning_rate = 0.05
[train]
max_steps = 5_000
[eval]
throttle_secs = 10
[[exporter]]
kind = "best"
"#;

fn parse(text: &str, overrides: &[&str]) -> Result<Job, Vec<Diagnostic>> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Job::parse(Path::new("job.toml"), text, &overrides)
}

/// Asserts that the changed text is refused with a message that contains all of `expected`.
fn refused(from: &str, to: &str, expected: &[&str]) {
    assert!(CENSUS.contains(from), "{from} is not in the job");
    let problems = parse(&CENSUS.replacen(from, to, 1), &[]).unwrap_err();
    let text = render_all(&problems);
    for part in expected {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn keys_that_would_do_nothing_are_refused() {
    for key in ["sharding = \"row\"", "prefetch_batches = 2"] {
        let name = key.split(' ').next().unwrap();
        let eval = format!("files = [\"eval.csv\"]\n{key}");
        refused(
            "files = [\"eval.csv\"]",
            &eval,
            &[&format!("unknown key `{name}`"), "[input.eval]"],
        );
    }
    let cross = "[[feature]]\ncolumns = [\"age_bucketized\", \"occupation\"]\nkind = \"crossed\"\nbuckets = 10\n\
                 wide = true\nseparator = \"|\"\n[model]";
    refused(
        "[model]",
        cross,
        &["separator of a crossed feature stands between its weights"],
    );
    let weighted = cross.replace("[model]", "weights = \"w\"\n[model]");
    let job = parse(&CENSUS.replacen("[model]", &weighted, 1), &[]).unwrap();
    assert_eq!(job.features.last().unwrap().separator, Some(b'|'));
}

#[test]
fn threads_of_a_step_are_left_to_the_machine_or_counted() {
    let threads = |overrides: &[&str]| {
        parse(CENSUS, overrides).map(|job| job.run.intra_op_parallelism_threads)
    };
    assert_eq!(threads(&[]).unwrap(), 0);
    assert_eq!(threads(&["run.intra_op_parallelism_threads=3"]).unwrap(), 3);
    assert_eq!(
        threads(&[
            "run.intra_op_parallelism_threads=0",
            "run.intra_op_parallelism_threads=2"
        ])
        .unwrap(),
        2
    );
    assert!(threads(&["run.intra_op_parallelism_threads=2000"]).is_err());
}

#[test]
fn parameter_servers_have_a_guard_and_bounds() {
    let job = parse(CENSUS, &[]).unwrap();
    let expected = ParameterServersConfig {
        durability: Durability::SharedMemory,
        log_bytes_max: 4 << 30,
        shared_memory_bytes_max: None,
        memory_bytes_max: None,
        guard: GuardSection::default(),
    };
    assert_eq!(job.parameter_servers, expected);
    let guard = job.parameter_servers.guard;
    assert_eq!(
        (guard.bounds, guard.quarantine_after),
        (
            Guard {
                nonfinite: Nonfinite::Reject,
                max_norm: None,
                max_abs: None
            },
            16
        )
    );
    let job = parse(
        CENSUS,
        &[
            "parameter_servers.guard.nonfinite=halt",
            "parameter_servers.guard.max_norm=2.5",
            "parameter_servers.guard.max_abs=1e3",
            "parameter_servers.guard.quarantine_after=0",
            "parameter_servers.memory_bytes_max=1_048_576",
        ],
    );
    let servers = job.unwrap().parameter_servers;
    let max_norm = Some(2.5);
    let max_abs = Some(1e3);
    let guard = GuardSection {
        bounds: Guard {
            nonfinite: Nonfinite::Halt,
            max_norm,
            max_abs,
        },
        quarantine_after: 0,
    };
    assert_eq!(
        (servers.guard, servers.memory_bytes_max),
        (guard, Some(1 << 20))
    );
    for (wrong, rule) in [
        ("guard.nonfinite=ignore", "ignore"),
        ("guard.max_norm=0", "max_norm must be > 0, given 0"),
        ("guard.max_abs=-1", "max_abs must be > 0, given -1"),
        ("guard.quarantine_after=65", "65"),
        ("guard.max=1", "max"),
        ("memory_bytes_max=4096", "4096"),
    ] {
        let problems = parse(CENSUS, &[&format!("parameter_servers.{wrong}")]).unwrap_err();
        assert!(
            render_all(&problems).contains(rule),
            "{wrong}: {}",
            render_all(&problems)
        );
    }
}

#[test]
fn an_exporter_names_its_formats() {
    let form = |text: &str| {
        let job = parse(
            &CENSUS.replace("kind = \"best\"", &format!("kind = \"best\"\n{text}")),
            &[],
        )
        .unwrap();
        (
            job.exporters[0].form.formats.clone(),
            job.exporters[0].form.hashed_as_ids,
        )
    };
    assert_eq!(form(""), (vec![ExportFormat::Safetensors], false));
    assert_eq!(
        form("format = \"onnx\"\nhashed_as_ids = true"),
        (vec![ExportFormat::Onnx], true)
    );
    let both = vec![ExportFormat::Onnx, ExportFormat::Safetensors];
    assert_eq!(form("format = [\"onnx\", \"safetensors\"]"), (both, false));
    let best = "kind = \"best\"";
    refused(
        best,
        "kind = \"best\"\nformat = \"onx\"",
        &["E1101", "onx", "`onnx`"],
    );
    refused(
        best,
        "kind = \"best\"\nformat = [\"onx\"]",
        &["E1101", "`onx`", "did you mean `onnx`?"],
    );
    refused(
        best,
        "kind = \"best\"\nformat = []",
        &["at least one format, given none"],
    );
    refused(
        best,
        "kind = \"best\"\nhashed_as_ids = true",
        &["without format = \"onnx\""],
    );
}

#[test]
fn the_example_of_the_design_loads() {
    let job = parse(CENSUS, &[]).unwrap();
    assert_eq!(
        (
            job.run.save_checkpoints_secs,
            job.run.save_checkpoints_steps
        ),
        (Some(30), None)
    );
    assert_eq!(
        (job.train.max_steps, job.input.train.epochs),
        (Some(5000), Some(10))
    );
    assert_eq!(job.input.train.sharding, Sharding::Dynamic);
    assert_eq!(
        (
            job.features[0].name.as_str(),
            job.features[0].wide,
            job.features[0].deep.clone()
        ),
        ("age_bucketized", true, None)
    );
    let Some(Deep::Embedding(embedding)) = &job.features[1].deep else {
        panic!("{:?}", job.features[1])
    };
    assert_eq!(embedding.dimension, 8);
    assert_eq!(
        (job.model.n_classes, job.exporters[0].metric.as_str()),
        (2, "loss")
    );
}

#[test]
fn the_tfrecord_job_of_the_page_of_configuration_loads() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|block| block.split("```").next());
    let block = blocks
        .into_iter()
        .find(|block| block.contains("format = \"tfrecord\""))
        .unwrap();
    let rest = "[model]\nkind = \"dnn_classifier\"\nhidden_units = [8]\n[train]\nmax_steps = 5\n";
    let job = parse(&format!("model_dir = \"runs/t\"\n{block}{rest}"), &[]).unwrap();
    assert_eq!(
        (job.input.format, job.input.compression),
        (Format::TfRecord, Some(Compression::Gzip))
    );
    let FeatureKind::Numeric(numbers) = &job.features[1].kind else {
        panic!("{:?}", job.features[1])
    };
    assert_eq!((numbers.width, job.features[0].separator), (64, Some(b'|')));
    let json = serde_json::to_value(&job.input).unwrap();
    assert_eq!(
        (json["format"].as_str(), json["compression"].as_str()),
        (Some("tfrecord"), Some("gzip"))
    );
}

#[test]
fn the_libsvm_job_of_the_page_of_configuration_loads() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let block = blocks
        .find(|block| block.contains("format = \"libsvm\""))
        .unwrap();
    let job = Job::parse(
        "job.toml".as_ref(),
        &format!("model_dir = \"m\"\n{block}"),
        &[],
    )
    .unwrap();
    assert_eq!(job.input.format, Format::LibSvm(IndexBase::One));
    let json = serde_json::to_value(&job.input).unwrap();
    assert_eq!(
        (json["format"].as_str(), json["index_base"].as_u64()),
        (Some("libsvm"), Some(1))
    );
    assert_eq!(job.features[0].weights.as_deref(), Some("value"));
}

#[test]
fn keys_of_other_formats_are_refused() {
    for (key, value) in [
        ("columns", "[\"a\"]"),
        ("trim", "false"),
        ("compression", "\"gzip\""),
    ] {
        let (format, line) = ("input.format=parquet", format!("input.{key}={value}"));
        let told = render_all(&parse(CENSUS, &[format, line.as_str()]).unwrap_err());
        assert!(
            told.contains(&format!("{key} is for other formats")),
            "{told}"
        );
    }
    let told = render_all(&parse(CENSUS, &["input.index_base=0"]).unwrap_err());
    assert!(
        told.contains("index_base is for format = \"libsvm\""),
        "{told}"
    );
    let told =
        render_all(&parse(CENSUS, &["input.format=libsvm", "input.index_base=2"]).unwrap_err());
    assert!(told.contains("index_base"), "{told}");
}

#[test]
fn urls_of_input_files_are_not_looked_for_here() {
    let files = |url: &str| {
        let job = parse(CENSUS, &[&format!("input.train.files=[\"{url}\"]")]).unwrap();
        resolve_files(&job, &job.input.train)
    };
    assert_eq!(
        files("https://host/train.csv").unwrap(),
        [Path::new("https://host/train.csv")]
    );
    for (url, part) in [
        ("https://host/*.csv", "cannot be listed"),
        ("sss://b/k", "is no scheme"),
        ("s3://b", "there is no file"),
    ] {
        let told = render_all(&[files(url).unwrap_err()]);
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn tfrecord_takes_no_keys_of_text() {
    let with = |line: &str| format!("format = \"tfrecord\"\n{line}");
    refused(
        "format = \"csv\"",
        &with("columns = [\"age\"]"),
        &["E1006", "columns is for text"],
    );
    refused(
        "format = \"csv\"",
        &with("trim = true"),
        &["E1006", "trim is for text"],
    );
    refused(
        "format = \"csv\"",
        &with("compression = \"zip\""),
        &["E1101", "`gzip`"],
    );
    assert_eq!(
        parse(CENSUS, &["input.format=tfrecord"])
            .unwrap()
            .input
            .compression,
        None
    );
}

#[test]
fn overrides_win_and_are_checked_like_the_file() {
    let job = parse(
        CENSUS,
        &[
            "train.max_steps=77",
            "feature.1.buckets=10",
            "model_dir=elsewhere",
        ],
    )
    .unwrap();
    assert_eq!(
        (job.train.max_steps, job.model_dir.to_str()),
        (Some(77), Some("elsewhere"))
    );
    assert!(matches!(
        job.features[1].kind,
        FeatureKind::Hashed { buckets: 10, .. }
    ));
    let text =
        render_all(&parse(CENSUS, &["train.max_stepz=1", "run.seed=x", "nothing"]).unwrap_err());
    for part in [
        "unknown key `max_stepz`",
        "did you mean `max_steps`?",
        "from: flag --set train.max_stepz=1",
        "seed must be a whole number",
        "--set must be section.key=value",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn every_mistake_is_reported_at_once() {
    let text = CENSUS
        .replace("seed = 7", "sead = 7")
        .replace("learning_rate = 0.05", "learning_rate = -1")
        .replace("kind = \"hashed\"", "kind = \"hashd\"")
        .replace("max_steps = 5_000", "max_steps = \"many\"");
    let problems = parse(&text, &[]).unwrap_err();
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| problem.code.name.to_owned())
        .collect();
    assert_eq!(
        lines,
        ["E1001", "E1101", "E1002", "E1002"],
        "{}",
        render_all(&problems)
    );
}

/// Returns the lines and codes of the messages about CENSUS after a change.
fn told(from: &str, to: &str) -> Vec<String> {
    assert!(CENSUS.contains(from), "{from} is not in the job");
    let problems = parse(&CENSUS.replacen(from, to, 1), &[]).unwrap_err();
    let line = |problem: &Diagnostic| match &problem.place {
        Some(Place::Source { text, .. }) => text.trim().to_owned(),
        other => format!("{other:?}"),
    };
    problems
        .iter()
        .map(|problem| format!("{} {}", problem.code.name, line(problem)))
        .collect()
}

#[test]
fn one_mistake_gives_one_message() {
    for (from, to, expected) in [
        ("buckets = 100", "buckets = \"x\"", "E1002 buckets = \"x\""),
        ("buckets = 100\n", "", "E1005 [[feature]]"),
        ("column = \"occupation\"\n", "", "E1005 [[feature]]"),
        (
            "column = \"occupation\"",
            "column = \"\"",
            "E1002 column = \"\"",
        ),
        (
            "column = \"occupation\"",
            "columns = []",
            "E1002 columns = []",
        ),
        ("column = \"occupation\"", "column = 5", "E1002 column = 5"),
        (
            "[18, 25, ",
            "[25, 18, ",
            "E1002 boundaries = [25, 18, 30, 35, 40, 45, 50, 55, 60, 65]",
        ),
        (
            "embedding = 8",
            "embedding = 0",
            "E1002 deep = { embedding = 0 }",
        ),
        (
            "embedding = 8",
            "embeding = 8",
            "E1001 deep = { embeding = 8 }",
        ),
        ("{ embedding = 8 }", "{}", "E1002 deep = {}"),
        (
            "learning_rate = 0.05",
            "learning_rate = 1e39",
            "E1002 learning_rate = 1e39",
        ),
        (
            "learning_rate = 0.05",
            "learning_rate = 1e-50",
            "E1002 learning_rate = 1e-50",
        ),
        (
            "learning_rate = 0.05",
            "learning_rate = nan",
            "E1002 learning_rate = nan",
        ),
        (
            "60, 65]",
            "60, 1e39]",
            "E1002 boundaries = [18, 25, 30, 35, 40, 45, 50, 55, 60, 1e39]",
        ),
        (
            "hidden_units = [100, 50]",
            "hidden_units = [100, 50",
            "E1003 [model.linear_optimizer]",
        ),
    ] {
        assert_eq!(told(from, to), [expected], "{to}");
    }
    for set in ["feature=[]", "feature=5"] {
        assert_eq!(parse(CENSUS, &[set]).unwrap_err().len(), 1, "{set}");
    }
}

#[test]
fn a_mistake_hides_no_other_of_its_section() {
    let strategy = "[strategy]\nkind = \"mirored\"\nupdate = \"bsp\"\nplacement = \"x\"\n\
                    partitioner = { kind = \"fixed\", num_shard = 2 }\nfoo = 1\n[train]";
    let expected = [
        "E1101 kind = \"mirored\"",
        "E1101 update = \"bsp\"",
        "E1101 placement = \"x\"",
    ];
    let partitioner = "partitioner = { kind = \"fixed\", num_shard = 2 }";
    let rest = [
        format!("E1005 {partitioner}"),
        format!("E1001 {partitioner}"),
        "E1001 foo = 1".to_owned(),
    ];
    assert_eq!(
        told("[train]", strategy),
        [expected.map(str::to_owned).as_slice(), &rest].concat()
    );
    let exporter = told(
        "kind = \"best\"",
        "kind = \"bst\"\nmetrc = \"auc\"\nname = \"../x\"",
    );
    assert_eq!(
        exporter,
        [
            "E1101 kind = \"bst\"",
            "E1001 metrc = \"auc\"",
            "E1002 name = \"../x\""
        ]
    );
    let feature = told(
        "buckets = 100\nwide = true",
        "buckets = 0\nwide = 1\nnormalizer = \"log1p\"",
    );
    assert_eq!(
        feature,
        [
            "E1002 buckets = 0",
            "E1002 wide = 1",
            "E1001 normalizer = \"log1p\""
        ]
    );
}

#[test]
fn missing_sections_are_told_as_sections() {
    let text = render_all(&parse("", &[]).unwrap_err());
    for part in [
        "missing key `model_dir`\n",
        "missing section [model]\n",
        "missing section [input]\n",
        "missing section [[feature]]\n",
        "add it, for example [model] with kind = \"dnn_classifier\"",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn a_vocabulary_file_is_read_as_tensorflow_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("job.toml");
    let text = CENSUS.replace(
        "kind = \"hashed\"\nbuckets = 100",
        "kind = \"vocabulary\"\nfile = \"words.txt\"",
    );
    let load_with = |words: &str, overrides: &[&str]| {
        std::fs::write(folder.path().join("words.txt"), words).unwrap();
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Job::parse(&path, &text, &overrides).map(|job| job.features[1].kind.clone())
    };
    let load = |words: &str| load_with(words, &[]);
    let kept = ["input.trim=false"];
    let expected = FeatureKind::Vocabulary {
        column: "occupation".into(),
        values: Words::new(["a", " b ", "c"].into_iter().collect()).unwrap(),
        oov_buckets: 0,
        default: None,
        integers: false,
    };
    assert_eq!(load_with("a\r\n b \nc", &kept).unwrap(), expected);
    let marked = load_with("\u{feff}a\r\n b \r\nc\r\n", &kept);
    assert_eq!(marked.unwrap(), expected, "a byte order mark is no text");
    let listed = ["feature.1.separator=\"|\""];
    assert_eq!(load_with("a\n b \nc", &listed).unwrap(), expected);
    for (words, rule) in [
        ("a\n b \n", "given ` b ` in line 2 of"),
        ("a\nb\t\n", "given `b\\t` in line 2 of"),
        ("a\n\nb\n", "words.txt:2 is empty"),
        ("a\nb\na\n", "`a` is given twice, in lines 1 and 3 of"),
        ("", "at least one"),
    ] {
        let text = render_all(&load(words).unwrap_err());
        assert!(
            text.contains(rule) && text.contains("file = \"words.txt\""),
            "{text}"
        );
    }
    let missing = Job::parse(&path, &text.replace("words.txt", "wrds.txt"), &[]).unwrap_err();
    assert_eq!(missing[0].exit_code(), 66, "{}", render_all(&missing));
}

#[test]
fn features_that_name_the_same_file_share_its_words() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("words.txt"), "1\n2\n+3\n2\n").unwrap();
    let feature = |keys: &str| format!("[[feature]]\nkind = \"vocabulary\"\n{keys}\n");
    let text = [
        "model_dir = \"m\"\n[input]\nlabel = { column = \"y\" }\n",
        "train = { files = [\"a.csv\"], epochs = 1 }\n[model]\nkind = \"linear_classifier\"\n",
        &feature("columns = [\"a\", \"b\"]\nfile = \"words.txt\"\nsize = 3"),
        &feature("column = \"c\"\nfile = \"words.txt\"\nsize = 3\nintegers = true"),
        &feature("column = \"d\"\nfile = \"words.txt\"\nsize = 2\noov_buckets = 1"),
    ]
    .concat();
    let parse = |text: &str| Job::parse(&folder.path().join("job.toml"), text, &[]);
    let job = parse(&text).unwrap();
    let words: Vec<&Words> = job
        .features
        .iter()
        .map(|feature| match &feature.kind {
            FeatureKind::Vocabulary { values, .. } => values,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(words[3].iter().collect::<Vec<_>>(), ["1", "2"]);
    assert!(words[1..3].iter().all(|other| other.is_clone_of(words[0])));
    assert_eq!(words[2].id_of_int(3), Some(2));
    let refused = |text: &str| render_all(&parse(text).unwrap_err());
    let repeated = refused(&text.replace("size = 3\nintegers", "integers"));
    assert!(
        repeated.contains("`2` is given twice, in lines 2 and 4 of"),
        "{repeated}"
    );
    std::fs::write(folder.path().join("words.txt"), "1\n2\nx\n").unwrap();
    let text = refused(&text);
    assert!(text.contains("given `x` in line 3 of"), "{text}");
}

#[test]
fn input_files_are_found_beside_the_job_and_patterns_are_sorted() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b-2.csv", "b-1.csv", "train.csv"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    let with = |files: &str| {
        let job = Job::parse(
            &folder.path().join("job.toml"),
            CENSUS,
            &[format!("input.train.files={files}")],
        )
        .unwrap();
        resolve_files(&job, &job.input.train)
    };
    let names = |files: Vec<std::path::PathBuf>| {
        let name =
            |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        files.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(
        names(with("[\"train.csv\", \"b-*.csv\"]").unwrap()),
        ["train.csv", "b-1.csv", "b-2.csv"]
    );
    let twice = with("[\"b-1.csv\", \"b-*.csv\"]").unwrap_err().render();
    for part in [
        "E1006",
        "by `b-1.csv` and by `b-*.csv`",
        "name each file once",
    ] {
        assert!(twice.contains(part), "no `{part}` in\n{twice}");
    }
    let missing = with("trian.csv").unwrap_err().render();
    for part in [
        "E4002",
        "input file `trian.csv` does not exist",
        "did you mean `train.csv`?",
    ] {
        assert!(missing.contains(part), "no `{part}` in\n{missing}");
    }
    assert!(
        missing.contains(&format!("looked in {}", folder.path().display())),
        "{missing}"
    );
    assert!(
        with("c-*.csv")
            .unwrap_err()
            .message
            .contains("input pattern `c-*.csv` matches no file")
    );
}

#[test]
fn mistakes_name_value_place_and_rule() {
    refused(
        "seed = 7",
        "sead = 7",
        &[
            "unknown key `sead`",
            "job.toml:4:1",
            "not a key of [run]",
            "did you mean `seed`?",
        ],
    );
    refused(
        "kind = \"adagrad\"",
        "kind = \"adagrat\"",
        &[
            "unknown optimizer `adagrat`",
            "known: sgd, momentum, keras_momentum, adagrad",
            "did you mean `adagrad`?",
        ],
    );
    refused(
        "save_checkpoints_secs = 30",
        "save_checkpoints_secs = 30\nsave_checkpoints_steps = 5",
        &["cannot be both set"],
    );
    refused(
        "batch_size = 128",
        "batch_size = 0",
        &["batch_size must be 1 to", "given 0"],
    );
    refused(
        "[18, 25,",
        "[25, 18,",
        &["boundaries must ascend, given 25 before 18"],
    );
    refused(
        "deep = { embedding = 8 }\n",
        "deep = { embeding = 8 }\n",
        &["unknown key `embeding`"],
    );
    refused(
        "wide = true\ndeep = { embedding = 8 }\n",
        "",
        &["used by no part of the model", "deep = { embedding = 8 }"],
    );
    refused(
        "hidden_units = [100, 50]\n",
        "",
        &["missing key `hidden_units`"],
    );
    refused(
        "format = \"csv\"",
        "format = \"cvs\"",
        &["unknown input format `cvs`", "did you mean `csv`?"],
    );
    refused(
        "throttle_secs = 10",
        "throttle_secs = -10",
        &["throttle_secs must be >= 0, given -10"],
    );
    refused(
        "column = \"occupation\"",
        "column = \"occupation\"\ncolumns = [\"a\"]",
        &["cannot be both set"],
    );
    refused(
        "positive = \">50K\"",
        "vocabulary = [\"a\", \"a\"]",
        &["`a` is given twice"],
    );
    refused(
        "[model]",
        "[modle]",
        &["unknown key `modle`", "missing key `kind` in [model]"],
    );
    refused(
        "model_dir = \"runs/census\"",
        "model_dir = runs",
        &["not valid TOML", "job.toml:2:"],
    );
}

#[test]
fn a_cross_holds_buckets_and_columns_but_no_numbers() {
    let cross = "[[feature]]\nkind = \"crossed\"\ncolumns = [\"age_bucketized\", \"education\"]\nbuckets = 50\nwide = true\n[model]";
    let job = parse(&CENSUS.replacen("[model]", cross, 1), &[]).unwrap();
    assert_eq!(job.features[2].name, "age_bucketized_X_education");
    let numeric = format!(
        "[[feature]]\ncolumn = \"age\"\nkind = \"numeric\"\n{}",
        cross.replace("age_bucketized", "age")
    );
    let text = render_all(&parse(&CENSUS.replacen("[model]", &numeric, 1), &[]).unwrap_err());
    assert!(
        text.contains("a cross cannot hold the numeric feature `age`")
            && text.contains("`age_bucketized`"),
        "{text}"
    );
}

#[test]
fn alike_columns_share_one_section() {
    let many = "column = \"occupation\"\nkind = \"hashed\"\nbuckets = 100";
    let text = CENSUS.replace(
        many,
        "columns = [\"c1\", \"c2\"]\nkind = \"hashed\"\nbuckets = [5, 6]",
    );
    let job = parse(&text, &[]).unwrap();
    assert!(
        matches!(&job.features[2].kind, FeatureKind::Hashed { column, buckets: 6, .. } if column == "c2")
    );
}

#[test]
fn training_without_an_end_is_refused() {
    let text = CENSUS
        .replace("epochs = 10\n", "")
        .replace("max_steps = 5_000\n", "");
    assert!(render_all(&parse(&text, &[]).unwrap_err()).contains("training would never end"));
}

#[test]
fn every_shipped_job_loads() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs");
    let mut loaded = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && !name.starts_with("cluster")
        {
            Job::load(&path, &[])
                .unwrap_or_else(|problems| panic!("{name}:\n{}", render_all(&problems)));
            loaded += 1;
        }
    }
    assert!(loaded >= 3, "only {loaded} jobs in configs");
}

#[test]
fn a_custom_model_needs_no_feature_and_no_layer() {
    let text = r#"
model_dir = "runs/custom"
[input]
label = { column = "y" }
train = { files = ["train.csv"] }
[model]
kind = "custom_classifier"
n_classes = 10
[model.optimizer]
kind = "adam"
learning_rate = 0.01
[train]
max_steps = 10
"#;
    let job = parse(text, &[]).unwrap();
    assert!(job.features.is_empty() && job.model.hidden_units.is_empty());
    assert_eq!(job.model.n_classes, 10);
    let optimizer = job.model.optimizer.unwrap();
    assert_eq!(
        (optimizer.kind.as_str(), &optimizer.values["learning_rate"]),
        ("adam", &0.01.into())
    );
    for (key, told) in [
        (
            "model.label_mean=3.0",
            "label_mean has no meaning for a custom model",
        ),
        (
            "model.optimizer.learning_rate=-1",
            "learning_rate must be > 0",
        ),
        ("model.kind=\"dnn_classifier\"", "optimizer"),
    ] {
        let problems = render_all(&parse(text, &[key]).unwrap_err());
        assert!(problems.contains(told), "{key}: {problems}");
    }
}

proptest! {
    #[test]
    fn edited_jobs_never_panic_and_rejections_say_where(at in 0..1000_usize, remove in 0..12_usize, insert in "[ -~\n]{0,6}") {
        let at = at % CENSUS.len();
        let mut text = CENSUS.to_owned();
        text.replace_range(at..(at + remove).min(CENSUS.len()), &insert);
        if let Err(problems) = parse(&text, &[]) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().all(|problem| problem.place.is_some() || problem.help.is_some()), "{}", render_all(&problems));
            prop_assert!(problems.iter().all(|problem| problem.code.name != "E9001"), "{text}\n{}", render_all(&problems));
        }
    }
}

/// Returns the messages about a job with this strategy.
fn strategy(lines: &str) -> Vec<String> {
    told("[train]", &format!("[strategy]\n{lines}\n[train]"))
}

#[test]
fn ways_to_train_are_read_and_what_does_not_go_together_is_told() {
    let read = |lines: &str| {
        let text = CENSUS.replace("[train]", &format!("[strategy]\n{lines}\n[train]"));
        parse(&text, &[]).unwrap().strategy
    };
    assert_eq!(read("").update, UpdateSection::default());
    let sync = read("update = \"sync\"\nreplicas_to_aggregate = 3");
    assert_eq!(
        sync.update,
        UpdateSection {
            mode: Update::Sync,
            replicas_to_aggregate: Some(3)
        }
    );
    let ssp = read("update = \"ssp\"\nstaleness_steps_max = 0");
    assert_eq!(
        ssp.update.mode,
        Update::StaleSynchronous {
            staleness_steps_max: 0
        }
    );
    let in_graph = read("replication = \"in_graph\"");
    assert_eq!(
        (in_graph.replication, in_graph.chief_trains),
        (Replication::InGraph, false)
    );
    let mirrored = read("kind = \"mirrored\"\nreplicas = 2");
    assert_eq!(
        (mirrored.kind, mirrored.replicas),
        (StrategyKind::Mirrored, Some(2))
    );
    for (lines, expected) in [
        (
            "update = \"ssp\"\nstaleness_steps_max = -1",
            "E1002 staleness_steps_max = -1",
        ),
        ("update = \"ssp\"", "E1005 [strategy]"),
        ("staleness_steps_max = 1", "E1006 staleness_steps_max = 1"),
        (
            "kind = \"multi_worker_mirrored\"\nchief_trains = false",
            "E1006 chief_trains = false",
        ),
        (
            "kind = \"hybrid\"\nchief_trains = false",
            "E1006 chief_trains = false",
        ),
        (
            "replicas_to_aggregate = 2",
            "E1006 replicas_to_aggregate = 2",
        ),
        (
            "update = \"sync\"\nreplicas_to_aggregate = 0",
            "E1002 replicas_to_aggregate = 0",
        ),
        (
            "update = \"sync\"\npipeline_depth = 1",
            "E1006 pipeline_depth = 1",
        ),
        (
            "kind = \"multi_worker_mirrored\"\nupdate = \"async\"",
            "E1006 update = \"async\"",
        ),
        (
            "kind = \"mirrored\"\nreplication = \"in_graph\"",
            "E1006 replication = \"in_graph\"",
        ),
        ("replicas = 2", "E1006 replicas = 2"),
    ] {
        assert_eq!(strategy(lines), [expected], "{lines}");
    }
    let fixed = parse(
        CENSUS,
        &["strategy.update=\"sync\"", "input.train.sharding=\"row\""],
    )
    .unwrap_err();
    assert!(
        fixed[0].message.contains("sharding must be \"dynamic\""),
        "{fixed:?}"
    );
}

#[test]
fn several_columns_take_a_name_each() {
    let columns = "columns = [\"hours-per-week\", \"age\"]";
    let one = "column = \"age\"\nkind = \"bucketized\"";
    let named = |names: &str| {
        parse(
            &CENSUS.replace(
                one,
                &format!("{columns}\nname = {names}\nkind = \"bucketized\""),
            ),
            &[],
        )
    };
    let job = named("[\"hours_per_week\", \"years\"]").unwrap();
    let names: Vec<&str> = job
        .features
        .iter()
        .map(|feature| feature.name.as_str())
        .collect();
    assert_eq!(names, ["hours_per_week", "years", "occupation"]);
    assert!(
        matches!(&job.features[1].kind, FeatureKind::Bucketized { numbers, .. } if numbers.column == "age")
    );
    for (names, given) in [
        ("[\"hours\"]", 1),
        ("\"hours\"", 1),
        ("[\"a\", \"b\", \"c\"]", 3),
    ] {
        let told = render_all(&named(names).unwrap_err());
        assert!(
            told.contains(&format!("a name for each of the 2 columns, given {given}")),
            "{told}"
        );
    }
}

const OWN: &str = r#"
model_dir = "runs/own"
[input]
label = { column = "y" }
[input.train]
files = ["train.csv"]
[model]
kind = "custom_regressor"
[model.params]
units = 16
margin = 0.5
names = ["a", "b"]
[train]
max_steps = 10
"#;

#[test]
fn keys_of_a_custom_models_own_are_read_by_type() {
    let params = parse(OWN, &[]).unwrap().model.params;
    assert_eq!(params.get::<usize>("units").unwrap(), 16);
    assert_eq!(params.get::<f32>("margin").unwrap(), 0.5);
    assert_eq!(params.get::<Vec<String>>("names").unwrap(), ["a", "b"]);
    assert_eq!(params.get_or("units", 3_u8).unwrap(), 16);
    assert!(params.get_or("deep", true).unwrap());
    let moved = OWN.replace("units = 16", "\n\nunits = 16");
    assert_eq!(parse(&moved, &[]).unwrap().model.params, params);
    let changed = parse(OWN, &["model.params.units=17"]).unwrap();
    assert_ne!(changed.model.params, params);
}

#[test]
fn a_key_of_a_custom_models_own_of_another_type_is_told_with_its_place() {
    let params = parse(OWN, &[]).unwrap().model.params;
    let told = |problem: Diagnostic| render_all(&[problem]);
    let wrong = told(params.get::<bool>("units").unwrap_err().into());
    assert!(
        wrong.contains("E1002") && wrong.contains("model.params.units"),
        "{wrong}"
    );
    assert!(wrong.contains("expected a boolean"), "{wrong}");
    assert!(wrong.contains("job.toml:10:9"), "{wrong}");
    let missing = told(params.get::<bool>("depth").unwrap_err().into());
    assert!(
        missing.contains("E1005") && missing.contains("missing key `depth`"),
        "{missing}"
    );
}

#[test]
fn params_are_a_table_of_finite_numbers_of_a_custom_model() {
    let refused = |override_: &str| {
        let problems = parse(OWN, &[override_]).unwrap_err();
        render_all(&problems)
    };
    assert!(refused("model.params=3").contains("params must be a table, given a whole number"));
    assert!(
        refused("model.params.deep=[1.0, [inf]]").contains("must hold finite numbers, given inf")
    );
    let premade = refused("model.kind=\"linear_regressor\"");
    assert!(premade.contains("unknown key `params`"), "{premade}");
}

#[test]
fn the_best_model_is_chosen_by_the_direction_of_its_metric_or_by_the_direction_that_is_given() {
    let with = |keys: &str| {
        let early = format!("\n[train.early_stopping]\nstop_at = 1.0\n{keys}\n[eval]\n");
        parse(
            &format!("{}{keys}\n", CENSUS.replace("[eval]\n", &early)),
            &[],
        )
    };
    for (metric, higher) in [
        ("loss", false),
        ("holdout/loss", false),
        ("calibration_error", false),
        ("auc", true),
        ("holdout/accuracy/positive_threshold_0.2", true),
    ] {
        let job = with(&format!("metric = \"{metric}\"")).unwrap();
        assert_eq!(job.exporters[0].higher_is_better, higher, "{metric}");
        let early = job.train.early_stopping.unwrap();
        assert_eq!(early.higher_is_better, higher, "{metric}");
    }
    for metric in ["rmse", "holdout/rmse", "prediction/mean"] {
        let problems = with(&format!("metric = \"{metric}\"")).unwrap_err();
        assert_eq!(problems.len(), 2, "{problems:?}");
        for problem in problems {
            let text = render_all(&[problem]);
            for part in ["E1005", metric, "higher_is_better = true or false"] {
                assert!(text.contains(part), "no `{part}`: {text}");
            }
        }
        for higher in [false, true] {
            let keys = format!("metric = \"{metric}\"\nhigher_is_better = {higher}");
            assert_eq!(with(&keys).unwrap().exporters[0].higher_is_better, higher);
        }
    }
}

#[test]
fn embeddings_begin_with_their_own_initial_values_or_else_with_those_of_the_model() {
    let given = |own: &str, model: &str, kind: &str| {
        let text = CENSUS
            .replace("{ embedding = 8 }", &format!("{{ embedding = 8{own} }}"))
            .replace("kind = \"hashed\"\nbuckets = 100", kind)
            .replace(
                "hidden_units = [100, 50]\n",
                &format!("hidden_units = [100, 50]\n{model}\n"),
            );
        parse(&text, &[])
    };
    let hashed = "kind = \"hashed\"\nbuckets = 100";
    let of = |own: &str, model: &str| match &given(own, model, hashed).unwrap().features[1].deep {
        Some(Deep::Embedding(embedding)) => embedding.initializer.clone(),
        other => panic!("{other:?}"),
    };
    let normal = "embedding_initializer = { kind = \"normal\", stddev = 0.5 }";
    assert_eq!(of("", ""), Some(Initializer::Normal { stddev: 0.01 }));
    for tensorflow in ["tensorflow1", "tensorflow2"] {
        // Those that the layer has in TensorFlow.
        assert_eq!(of("", &format!("defaults = \"{tensorflow}\"")), None);
    }
    assert_eq!(of("", normal), Some(Initializer::Normal { stddev: 0.5 }));
    for (own, expected) in [
        (
            "normal\", stddev = 0.5",
            Initializer::Normal { stddev: 0.5 },
        ),
        (
            "truncated_normal\", stddev = 0.5",
            Initializer::TruncatedNormal { stddev: 0.5 },
        ),
        (
            "uniform\", low = -1, high = 2",
            Initializer::Uniform {
                low: -1.0,
                high: 2.0,
            },
        ),
        ("glorot_uniform\"", Initializer::GlorotUniform),
        ("he_normal\"", Initializer::HeNormal),
        ("zeros\"", Initializer::Zeros),
        (
            "constant\", value = 3",
            Initializer::Constant { value: 3.0 },
        ),
    ] {
        let own = format!(", initializer = {{ kind = \"{own} }}");
        assert_eq!(of(&own, normal), Some(expected), "{own}");
    }
    for (own, kind, part) in [
        (
            "uniform\", low = 2, high = 1",
            hashed,
            "high must be more than low",
        ),
        ("normal\"", hashed, "missing key `stddev`"),
        ("normal\", stddev = 0", hashed, "stddev"),
        ("orthogonal\"", hashed, "unknown initializer `orthogonal`"),
        ("zeros\", stddev = 1", hashed, "stddev"),
        (
            "he_normal\"",
            "kind = \"dynamic\"",
            "depends on the number of rows",
        ),
    ] {
        let own = format!(", initializer = {{ kind = \"{own} }}");
        let text = render_all(&given(&own, "", kind).unwrap_err());
        assert!(text.contains(part), "no `{part}`: {text}");
    }
}

#[test]
fn a_job_file_that_is_a_device_or_huge_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge.toml");
    std::fs::File::create(&huge)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    for (path, why) in [
        (Path::new("/dev/zero"), "it is no regular file"),
        (&huge, "at most 16777216 are read"),
    ] {
        let told = render_all(&Job::load(path, &[]).unwrap_err());
        assert!(told.contains("E1201") && told.contains(why), "{told}");
    }
}

#[test]
fn a_relative_name_means_the_folder_of_the_job_before_the_working_folder() {
    let folder = tempfile::tempdir().unwrap();
    // The working folder of tests is the folder of the crate.
    std::fs::create_dir(folder.path().join("src")).unwrap();
    let beside = folder.path().join("src").join("lib.rs");
    std::fs::write(&beside, "").unwrap();
    let job = |files: &str| {
        let path = folder.path().join("job.toml");
        Job::parse(&path, CENSUS, &[format!("input.train.files={files}")]).unwrap()
    };
    let both = job("src/lib.rs");
    assert_eq!(resolve_files(&both, &both.input.train).unwrap(), [beside]);
    let [ambiguous] = &ambiguous_files(&both, &both.input.train)[..] else {
        panic!("one name is ambiguous")
    };
    assert_eq!(ambiguous.other, Path::new("src/lib.rs"));
    let here = job("src/files.rs");
    assert_eq!(
        resolve_files(&here, &here.input.train).unwrap(),
        [Path::new("src/files.rs")]
    );
    assert!(ambiguous_files(&here, &here.input.train).is_empty());
}

/// A job with keys and features of all parts, for switching its kind.
const OF_ALL_PARTS: &str = r#"
model_dir = "runs/parts"
[input]
label = { column = "y" }
train = { files = ["train.csv"] }
[[feature]]
column = "x"
kind = "numeric"
[[feature]]
column = "x"
name = "tenths"
kind = "bucketized"
boundaries = [1.0, 2.0]
wide = true
deep = false
[[feature]]
column = "c"
kind = "hashed"
buckets = 10
wide = true
deep = { embedding = 4 }
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [8]
dropout = 0.1
sparse_combiner = "mean"
embedding_regularizer = { l2 = 1e-4 }
[model.linear_optimizer]
kind = "ftrl"
learning_rate = 0.1
[model.dnn_optimizer]
kind = "adam"
[train]
max_steps = 10
"#;

/// A history and its target, with their features.
const ATTENTION: &str = r#"
[[feature]]
column = "seen"
kind = "identity"
buckets = 9
separator = "|"
deep = { embedding = 4, table = "items" }
[[feature]]
column = "item"
kind = "identity"
buckets = 9
deep = { embedding = 4, table = "items" }
[[model.attention]]
history = "seen"
target = "item"
"#;

#[test]
fn a_history_and_its_target_are_features_of_one_table_and_others_are_refused_by_name() {
    let text = format!("{OF_ALL_PARTS}{ATTENTION}")
        .replace("dnn_linear_combined_classifier", "din_classifier");
    let job = parse(&text, &[]).unwrap_or_else(|problems| panic!("{}", render_all(&problems)));
    let [attention] = job.model.attention.as_slice() else {
        panic!("{:?}", job.model.attention);
    };
    assert_eq!(
        (attention.history.as_str(), attention.target.as_str()),
        ("seen", "item")
    );
    assert_eq!(
        (attention.history_max, attention.keep),
        (50, trainyard_run_config::KeptIds::Last)
    );
    assert_eq!(job.model.attention_units, [80, 40]);
    let refused = |from: &str, to: &str| match parse(&text.replace(from, to), &[]) {
        Ok(_) => panic!("taken: {to}"),
        Err(problems) => render_all(&problems),
    };
    let history = "history = \"seen\"";
    let of_seen = "separator = \"|\"\ndeep = { embedding = 4, table = \"items\" }";
    for (from, to, told) in [
        (
            history,
            "history = \"sen\"",
            "attention.history names no feature, given `sen`",
        ),
        (
            history,
            "history = \"x\"",
            "attention.history needs an embedding, the feature `x` has none",
        ),
        (
            history,
            "history = \"item\"",
            "attention.history needs a feature of several ids, `item` has one",
        ),
        (
            "target = \"item\"",
            "target = \"seen\"",
            "attention.target needs a feature of one id, `seen` has a separator",
        ),
        (
            "target = \"item\"",
            "target = \"c\"",
            "`seen` has table = \"items\", and `c` a table of its own",
        ),
        (
            of_seen,
            "separator = \"|\"\nweights = \"w\"\nname = \"seen\"\ndeep = { embedding = 4, table = \"items\" }",
            "needs ids without weights, `seen` has weights = \"w\"",
        ),
        (
            history,
            "history = \"seen\"\nhistory_max = 0",
            "history_max must be",
        ),
        (history, "histroy = \"seen\"", "did you mean `history`"),
        (
            "[[model.attention]]",
            "[[model.attention]]\nhistory = \"seen\"\ntarget = \"item\"\n[[model.attention]]",
            "each history has one target, `seen` is the history of two",
        ),
    ] {
        let found = refused(from, to);
        assert!(found.contains(told), "{found}");
    }
    let without = text.replace(
        "[[model.attention]]\nhistory = \"seen\"\ntarget = \"item\"\n",
        "",
    );
    let found = match parse(&without, &[]) {
        Ok(_) => panic!("taken"),
        Err(problems) => render_all(&problems),
    };
    assert!(
        found.contains("missing section [[model.attention]]"),
        "{found}"
    );
    let combined = text.replace(
        of_seen,
        "separator = \"|\"\ndeep = { embedding = 4, table = \"items\", combiner = \"sum\" }",
    );
    let job = parse(&combined, &[]).unwrap_or_else(|problems| panic!("{}", render_all(&problems)));
    let warned = job.warnings().iter().any(|warning| {
        warning
            .message
            .starts_with("`combiner` of the feature `seen` does nothing")
    });
    assert!(warned, "{:?}", job.warnings());
    // Another kind keeps the table, and is warned of it.
    let job = parse(&text, &["model.kind=\"dnn_classifier\""]);
    let job = job.unwrap_or_else(|problems| panic!("{}", render_all(&problems)));
    assert!(job.model.attention.is_empty());
    let warned = job.warnings().iter().any(|warning| {
        warning.message == "`attention` of [model] does nothing in a dnn_classifier"
    });
    assert!(warned, "{:?}", job.warnings());
}

#[test]
fn a_job_keeps_what_another_kind_of_model_uses_and_is_warned_of_it_by_name() {
    let switched = |kind: &str| {
        let job = parse(OF_ALL_PARTS, &[&format!("model.kind=\"{kind}\"")]);
        job.unwrap_or_else(|problems| panic!("{kind}: {}", render_all(&problems)))
    };
    for (kind, warnings) in [
        ("dnn_linear_combined_classifier", &[][..]),
        ("deepfm_classifier", &[]),
        (
            "linear_classifier",
            &[
                "`hidden_units` of [model] does nothing in a linear_classifier",
                "`dropout` of [model] does nothing in a linear_classifier",
                "`embedding_regularizer` of [model] does nothing in a linear_classifier",
                "`dnn_optimizer` of [model] does nothing in a linear_classifier",
                "`deep` of feature `c` does nothing: a linear_classifier has no such part",
            ],
        ),
        (
            "dcn_classifier",
            &[
                "`linear_optimizer` of [model] does nothing in a dcn_classifier",
                "`sparse_combiner` of [model] does nothing in a dcn_classifier",
                "a dcn_classifier leaves out the feature `tenths`: it has no linear part",
                "`wide` of features `tenths`, `c` does nothing: a dcn_classifier has no such part",
            ],
        ),
    ] {
        let job = switched(kind);
        let told: Vec<&str> = job
            .warnings()
            .iter()
            .map(|warning| warning.message.as_str())
            .collect();
        assert_eq!(told, warnings, "{kind}");
    }
    let dlrm = switched("dlrm_classifier");
    assert!(dlrm.model.bottom_units.is_empty());
    let linear = switched("linear_classifier");
    assert!(linear.model.hidden_units.is_empty() && linear.model.dnn_optimizer.is_none());
    assert_eq!(linear.model.dropout, 0.0);
    assert!(
        linear
            .features
            .iter()
            .all(|feature| feature.wide && feature.deep.is_none())
    );
    let dcn = switched("dcn_classifier");
    assert!(dcn.features.iter().all(|feature| !feature.wide));
    assert_eq!(
        dcn.model.sparse_combiner,
        trainyard_run_config::Combiner::Sum
    );
}

#[test]
fn a_key_of_one_kind_is_read_by_it_and_left_out_by_others_with_a_warning() {
    for (kind, change) in [
        ("dlrm_classifier", "model.bottom_units=[16, 8]"),
        ("xdeepfm_classifier", "model.cin_units=[4]"),
        ("final_mlp_classifier", "model.second_hidden_units=[4]"),
        ("final_mlp_classifier", "model.fusion_heads=2"),
        ("masknet_classifier", "model.mask_units=[8]"),
        ("masknet_classifier", "model.mask_ratio=1"),
        ("masknet_classifier", "model.mask_blocks=\"serial\""),
        ("din_classifier", "model.attention_units=[8]"),
        ("autoint_classifier", "model.attention_layers=2"),
        ("autoint_classifier", "model.attention_heads=4"),
        ("autoint_classifier", "model.attention_dim=8"),
    ] {
        let (key, given) = change.split_once('=').expect("a value");
        let key = key.strip_prefix("model.").expect("a key of the model");
        let of = |kind: &str| {
            let changes = [&format!("model.kind=\"{kind}\""), change];
            let text = match kind.starts_with("din") {
                true => format!("{OF_ALL_PARTS}{ATTENTION}"),
                false => OF_ALL_PARTS.to_owned(),
            };
            let job = parse(&text, &changes);
            job.unwrap_or_else(|problems| panic!("{kind}: {}", render_all(&problems)))
        };
        let warns = |job: &Job| {
            let told = format!("`{key}` of [model] does nothing in a dnn_classifier");
            job.warnings().iter().any(|warning| warning.message == told)
        };
        let shown = |job: &Job| serde_json::to_value(&job.model).expect("JSON")[key].clone();
        let given: serde_json::Value = serde_json::from_str(given).expect("JSON");
        assert_eq!(shown(&of(kind)), given);
        assert!(!warns(&of(kind)), "{key}");
        assert_eq!(shown(&of("dnn_classifier")), serde_json::Value::Null);
        assert!(warns(&of("dnn_classifier")), "{key}");
    }
}

#[test]
fn a_given_key_that_another_key_makes_idle_is_warned_of_and_no_other() {
    let stop = "train.early_stopping={ max_evaluations_without_improvement = 3, min_delta = 0.1 }";
    let eval = "input.eval.files=[\"eval.csv\"]";
    let halts = "training ends at the first gradient that is no number";
    let guard = "parameter_servers.guard={ max_norm = 1.0 }";
    let none = "which has no parameter servers";
    let cases: &[(&[&str], &[String])] = &[
        (&[guard, "strategy.payload=\"bfloat16\""], &[]),
        (&["parameter_servers.durability=\"none\""], &[]),
        (&["strategy.kind=\"one_device\"", guard], &[]),
        (
            &["strategy.kind=\"hybrid\"", guard],
            &[format!(
                "`guard` of [parameter_servers] does nothing under strategy.kind = \"hybrid\": {halts}"
            )],
        ),
        (
            &["strategy.kind=\"mirrored\"", "strategy.payload=\"float16\""],
            &["`payload` of [strategy] does nothing under strategy.kind = \"mirrored\", which has no network".to_owned()],
        ),
        (
            &[
                "strategy.kind=\"multi_worker_mirrored\"",
                "strategy.payload=\"float16\"",
                "strategy.placement=\"round_robin\"",
                "parameter_servers.log_bytes_max=1048576",
            ],
            &[
                format!("`placement` of [strategy] does nothing under strategy.kind = \"multi_worker_mirrored\", {none}"),
                format!("`log_bytes_max` of [parameter_servers] does nothing under strategy.kind = \"multi_worker_mirrored\", {none}"),
            ],
        ),
        (
            &["input.bad_rows_max=3"],
            &["`bad_rows_max` of [input] does nothing with bad_rows = \"fail\"".to_owned()],
        ),
        (&["input.bad_rows_max=3", "input.bad_rows=\"skip\""], &[]),
        (
            &["input.bad_rows_max=0", "input.bad_rows=\"skip\""],
            &["`bad_rows_max` of [input] is 0, and the first bad row ends a task, as with bad_rows = \"fail\"".to_owned()],
        ),
        (
            &["input.missing=[\" NA\"]"],
            &["`missing` of [input] has \" NA\", which no field is: input.trim removes the blanks around the fields".to_owned()],
        ),
        (&["input.missing=[\" NA\"]", "input.trim=false"], &[]),
        (
            &["input.missing_of={ age = [\"NA \"] }"],
            &["`missing_of` of [input] has \"NA \", which no field is: input.trim removes the blanks around the fields".to_owned()],
        ),
        (
            &["input.train.shuffle_rows=1"],
            &["`shuffle_rows` of [input.train] does nothing at 1: one record has one order".to_owned()],
        ),
        (
            &["input.label.separator=\";\""],
            &["`separator` of [input.label] does nothing without several labels in a field".to_owned()],
        ),
        (
            &[
                "input.label.separator=\";\"",
                "model.kind=\"dnn_linear_combined_regressor\"",
                "model.label_dimension=2",
            ],
            &[],
        ),
        (&["model.thresholds=[0.3]"], &[]),
        (
            &["model.thresholds=[0.3]", "model.n_classes=3"],
            &["`thresholds` of [model] does nothing for a multi_class head".to_owned()],
        ),
        (
            &[eval, "exporter=[{ kind = \"latest\", metric = \"auc\" }]"],
            &["`metric` of [[exporter]] does nothing without kind = \"best\"".to_owned()],
        ),
        (&[eval, "exporter=[{ kind = \"best\", metric = \"auc\" }]"], &[]),
        (&[eval, stop], &[]),
        (
            &[eval, "train.early_stopping={ stop_at = 0.9, metric = \"auc\", min_delta = 0.1 }"],
            &["`min_delta` of [train.early_stopping] does nothing without max_evaluations_without_improvement or \
               max_steps_without_improvement"
                .to_owned()],
        ),
        (&[eval, "train.early_stopping={ stop_at = 90.0 }"], &[]),
        (
            &[eval, "train.early_stopping={ stop_at = 2.0, metric = \"own\", higher_is_better = false }"],
            &[],
        ),
        (
            &[eval, "train.early_stopping={ stop_at = 90.0, metric = \"accuracy\" }"],
            &["`stop_at` of [train.early_stopping] does nothing at 90: `accuracy` is from 0 to 1".to_owned()],
        ),
    ];
    for (changes, warnings) in cases {
        assert_eq!(warnings_of(changes), *warnings, "{changes:?}");
    }
    for (changes, told) in [
        (
            &["model.n_classes=2", "model.class_weights=[0.0, 0.0]"][..],
            "class_weights are all 0",
        ),
        (
            &[
                "feature.0.normalizer=\"standardize\"",
                "feature.0.mean=0.0",
                "feature.0.stddev=-1.0",
            ],
            "stddev must be > 0, given -1",
        ),
    ] {
        let problems = parse(OF_ALL_PARTS, changes).expect_err("it is refused");
        let text = render_all(&problems);
        assert!(text.contains(told), "{changes:?}: {text}");
    }
}

/// Returns the warnings of [`OF_ALL_PARTS`] with changes.
fn warnings_of(changes: &[&str]) -> Vec<String> {
    let job = parse(OF_ALL_PARTS, changes);
    let job = job.unwrap_or_else(|problems| panic!("{changes:?}: {}", render_all(&problems)));
    let messages = job.warnings().iter().map(|found| found.message.clone());
    messages.collect()
}

#[test]
fn a_periodic_encoding_is_warned_of_where_the_feature_feeds_no_deep_part() {
    let of = |deep: &str| {
        let number = "column = \"x\", kind = \"numeric\", encoding = \"periodic\", wide = true";
        let feature = format!(
            "feature=[{{ {number}, deep = {deep} }}, {{ column = \"z\", kind = \"numeric\" }}]"
        );
        let linear_and_deep = "model.kind=\"dnn_linear_combined_classifier\"";
        warnings_of(&[&feature, linear_and_deep])
    };
    let is_told = |warnings: &[String]| {
        let mut warnings = warnings.iter();
        warnings.any(|warning| warning.contains("`encoding`") && warning.contains("does nothing"))
    };
    assert!(is_told(&of("false")));
    assert!(!is_told(&of("true")));
}

#[test]
fn steps_after_the_end_and_bounds_that_nothing_exceeds_are_warned_of() {
    let eval = "input.eval.files=[\"eval.csv\"]";
    let plateau = |keys: &str| format!("train.reduce_on_plateau={{ {keys} }}");
    let clip = |kind: &str| format!("train.clip_gradients={{ kind = \"{kind}\", clip = 5.0 }}");
    let guard = |keys: &str| format!("parameter_servers.guard={{ {keys} }}");
    let rate = |keys: &str| format!("model.dnn_optimizer.learning_rate={{ {keys} }}");
    let momentum = |keys: &str| format!("model.dnn_optimizer={{ kind = \"momentum\", {keys} }}");
    let stops = "train.early_stopping={ max_evaluations_without_improvement = 2 }";
    let exporter = "exporter=[{ kind = \"latest\", format = \"onnx\", hashed_as_ids = true }]";
    let numbers = "feature=[{ column = \"x\", kind = \"numeric\", wide = true }]";
    let dynamic = |steps: u64| {
        format!(
            "feature=[{{ column = \"x\", kind = \"dynamic\", wide = true, deep = {{ embedding = 2 }}, expire_after_steps = {steps} }}]"
        )
    };
    let dynamic_optimizer = "model.dnn_optimizer={ kind = \"adagrad\" }";
    let cases: [(Vec<String>, Option<&str>); 23] = [
        (
            vec![plateau("min_factor = 0.5")],
            Some("`min_factor` of [train.reduce_on_plateau] is 0.5, and factor is 0.1"),
        ),
        (vec![plateau("min_factor = 0.05")], None),
        (
            vec![plateau("metric = \"auc\", min_delta = 1.0")],
            Some("no evaluation is better than the first: `auc` is from 0 to 1"),
        ),
        (
            vec![plateau("patience = 2"), stops.to_owned()],
            Some("`reduce_on_plateau` of [train] does nothing with patience = 2"),
        ),
        (vec![plateau("patience = 1"), stops.to_owned()], None),
        (
            vec!["run.save_checkpoints_steps=10".to_owned(), stops.to_owned()],
            Some("the only evaluation is that of the end"),
        ),
        (vec!["run.save_checkpoints_steps=10".to_owned()], None),
        (
            vec!["run.save_checkpoints_steps=9".to_owned(), stops.to_owned()],
            Some("makes 2 evaluations of them"),
        ),
        (
            vec!["run.save_checkpoints_steps=3".to_owned(), stops.to_owned()],
            None,
        ),
        (
            vec![clip("global_norm"), guard("max_norm = 6.0")],
            Some("`max_norm` of [parameter_servers.guard] does nothing at 6"),
        ),
        (vec![clip("global_norm"), guard("max_norm = 4.0")], None),
        (vec![clip("value"), guard("max_norm = 6.0")], None),
        (
            vec![clip("value"), guard("max_abs = 6.0")],
            Some("`max_abs` of [parameter_servers.guard] does nothing at 6"),
        ),
        (
            vec![rate(
                "kind = \"warmup\", warmup_steps = 11, learning_rate = 0.1",
            )],
            Some("the rate never gets to its value"),
        ),
        (
            vec![rate(
                "kind = \"warmup\", warmup_steps = 10, learning_rate = 0.1",
            )],
            None,
        ),
        (
            vec![rate(
                "kind = \"piecewise_constant\", boundaries = [5, 10], values = [0.3, 0.2, 0.1]",
            )],
            Some("has 10, after which there is no step"),
        ),
        (
            vec![rate(
                "kind = \"piecewise_constant\", boundaries = [5], values = [0.3, 0.2]",
            )],
            None,
        ),
        (
            vec![momentum("momentum = 0.0, use_nesterov = true")],
            Some("`use_nesterov` of [model.dnn_optimizer] does nothing with momentum = 0"),
        ),
        (vec![momentum("momentum = 0.5, use_nesterov = true")], None),
        (
            vec![exporter.to_owned(), numbers.to_owned()],
            Some(
                "`hashed_as_ids` of [[exporter]] does nothing without a hashed or crossed feature",
            ),
        ),
        (vec![exporter.to_owned()], None),
        (
            vec![dynamic(10), dynamic_optimizer.to_owned()],
            Some("`expire_after_steps` of [[feature]] does nothing at 10"),
        ),
        (vec![dynamic(9), dynamic_optimizer.to_owned()], None),
    ];
    for (changes, told) in cases {
        let mut all: Vec<&str> = changes.iter().map(String::as_str).collect();
        all.push(eval);
        let found = warnings_of(&all);
        // Other features may make other keys idle.
        let of_others = |text: &&String| {
            !text.contains("embedding_regularizer") && !text.contains("sparse_combiner")
        };
        let found: Vec<&String> = found.iter().filter(of_others).collect();
        match told {
            Some(told) => assert!(
                found.len() == 1 && found[0].contains(told),
                "{changes:?}: {found:?}"
            ),
            None => assert!(found.is_empty(), "{changes:?}: {found:?}"),
        }
    }
}

#[test]
fn a_bound_of_early_stopping_that_a_model_without_knowledge_reaches_is_warned_of() {
    for (metric, keys, is_told) in [
        ("auc", "stop_at = 0.5", true),
        ("auc", "stop_at = 0.0", true),
        ("auc", "stop_at = 0.51", false),
        ("holdout/auc", "stop_at = 0.4", true),
        ("accuracy", "stop_at = 0.5", true),
        ("accuracy", "stop_at = 0.9", false),
        ("average_loss", "stop_at = 0.7", true),
        ("average_loss", "stop_at = 0.69", false),
        ("loss", "stop_at = 90.0", false),
    ] {
        let found = warnings_of_stopping(metric, keys, &[]);
        let told = found.iter().any(|text| text.contains("learnt nothing"));
        assert_eq!(told, is_told, "{metric} {keys}: {found:?}");
    }
    let hinge = ["model.loss=\"hinge\""];
    assert!(warnings_of_stopping("average_loss", "stop_at = 0.7", &hinge).is_empty());
}

/// Returns what a job is told or refused with a feature in place of its own.
fn told_of_feature(feature: &str, changes: &[&str]) -> String {
    let features = format!("feature=[{{ {feature}, wide = true, deep = false }}]");
    let changes = [
        &[features.as_str(), "model.kind=\"linear_classifier\""],
        changes,
    ]
    .concat();
    match parse(OF_ALL_PARTS, &changes) {
        Ok(job) => job
            .warnings()
            .iter()
            .filter(|warning| !warning.message.contains("in a linear_classifier"))
            .map(|warning| format!("warning: {}\n", warning.message))
            .collect(),
        Err(problems) => render_all(&problems),
    }
}

#[test]
fn values_of_a_vocabulary_that_no_field_has_are_refused_or_told() {
    let words =
        |values: &str| format!("column = \"c\", kind = \"vocabulary\", values = [{values}]");
    let na = "input.missing=[\"NA\", \"-1\"]";
    let apart = ", separator = \"|\"";
    for (feature, changes, told) in [
        (
            words("\"NA\", \"a\""),
            &[na][..],
            "warning: the value `NA` of [[feature]] never occurs: input.missing",
        ),
        (
            words("7, -1"),
            &[na],
            "warning: the value `-1` of [[feature]] never occurs: input.missing",
        ),
        (
            words("\"NA\", \"a\""),
            &["input.missing_of={ c = [\"NA\"] }"],
            "warning: the value `NA` of [[feature]] never occurs: input.missing_of",
        ),
        (
            words("\"NA\", \"a\""),
            &[na, "input.missing_of={ c = [] }"],
            "",
        ),
        (
            words("7, -1"),
            &[],
            "warning: the value `-1` of [[feature]] never occurs: -1 among integers",
        ),
        (
            words("\"\", \"a\""),
            &[],
            "warning: the value `` of [[feature]] never occurs: a field without text",
        ),
        (
            words("\"a|b\"") + apart,
            &[],
            "must not hold the feature's separator `|`",
        ),
        (words("\"a|b\""), &[], ""),
        (words("\"a|b\"") + apart, &["input.format=\"tfrecord\""], ""),
        (
            words("\"a\", \" b\""),
            &[],
            "must not begin or end with a blank",
        ),
        (words("\"a\", \" b\"") + apart, &[], ""),
        (words("\"a\", \"-1\""), &[], ""),
    ] {
        let found = told_of_feature(&feature, changes);
        assert_eq!(
            found.is_empty(),
            told.is_empty(),
            "{feature} {changes:?}: {found}"
        );
        assert!(found.contains(told), "{feature} {changes:?}: {found}");
    }
}

#[test]
fn separators_that_divide_nothing_or_numbers_are_told_or_refused() {
    let number = "column = \"x\", kind = \"numeric\", separator = \",\"";
    let comma = "input.decimal=\",\"";
    let thousands = "input.thousands=\",\"";
    let weighted =
        "column = \"c\", kind = \"hashed\", buckets = 9, separator = \",\", weights = \"w\"";
    for (feature, changes, told) in [
        (
            number.to_owned(),
            &[][..],
            "`separator` of [[feature]] does nothing without a `shape`",
        ),
        (number.to_owned(), &["input.format=\"parquet\""], ""),
        (format!("{number}, shape = 2"), &[], ""),
        (
            format!("{number}, shape = 2"),
            &[comma],
            "separator must be no character of a number",
        ),
        (
            format!("{number}, shape = 2"),
            &[thousands],
            "separator must be no character of a number",
        ),
        (
            weighted.to_owned(),
            &[comma],
            "separator must be no character of a number",
        ),
        (weighted.to_owned(), &[], ""),
    ] {
        let found = told_of_feature(&feature, changes);
        assert_eq!(
            found.is_empty(),
            told.is_empty(),
            "{feature} {changes:?}: {found}"
        );
        assert!(found.contains(told), "{feature} {changes:?}: {found}");
    }
    let combined = |keys: &str| {
        let feature = format!(
            "feature=[{{ column = \"c\", kind = \"hashed\", buckets = 9{keys}, deep = {{ embedding = 2, combiner = \"sum\" }} }}]"
        );
        let found = warnings_of(&[&feature, "model.kind=\"dnn_classifier\""]);
        found.iter().any(|text| text.starts_with("`combiner` of"))
    };
    assert!(combined(""));
    assert!(!combined(", separator = \"|\""));
    assert!(!combined(", weights = \"w\""));
}

#[test]
fn classes_that_no_label_can_be_are_refused_with_the_reason() {
    let positive = |text: &str| format!("input.label={{ column = \"y\", positive = {text:?} }}");
    let classes =
        |text: &str| format!("input.label={{ column = \"y\", vocabulary = [\"a\", {text:?}] }}");
    let na = "input.missing=[\"NA\"]";
    for (label, changes, told) in [
        (positive("NA"), &[na][..], "must not be in input.missing"),
        (classes("NA"), &[na], "must not be in input.missing"),
        (classes("NA"), &[na, "input.missing_of={ y = [] }"], ""),
        (
            classes("?"),
            &["input.missing_of={ y = [\"?\"] }"],
            "must not be in input.missing_of",
        ),
        (positive("N*"), &[na], ""),
        (positive(""), &[], "must not be empty"),
        (classes(""), &[], "must not be empty"),
        (positive(" yes"), &[], "must not begin or end with a blank"),
        (classes("b "), &[], "must not begin or end with a blank"),
        (classes("b "), &["input.trim=false"], ""),
        (classes("b|c"), &[], ""),
    ] {
        let all = [&[label.as_str()], changes].concat();
        let found = match parse(OF_ALL_PARTS, &all) {
            Ok(_) => String::new(),
            Err(problems) => render_all(&problems),
        };
        assert_eq!(found.is_empty(), told.is_empty(), "{all:?}: {found}");
        assert!(found.contains(told), "{all:?}: {found}");
    }
    let heads = [
        "model.kind=\"dnn_linear_combined_estimator\"",
        "model.head=\"multi_label\"",
    ];
    let label = classes("b|c");
    let found = parse(OF_ALL_PARTS, &[heads[0], heads[1], &label]).expect_err("refused");
    let found = render_all(&found);
    assert!(
        found.contains("must not hold label.separator `|`"),
        "{found}"
    );
}

#[test]
fn a_local_dir_beside_a_local_model_dir_is_told_of_the_folder_that_counts() {
    let mut job = parse(OF_ALL_PARTS, &["local_dir=\"/tmp/l\""]).expect("good");
    let told: Vec<String> = job
        .warnings_of_folders()
        .into_iter()
        .map(|one| one.message)
        .collect();
    assert_eq!(
        told,
        ["`local_dir` does nothing without a model_dir in a bucket: all files are in model_dir"]
    );
    job.model_dir = "s3://bucket/model".into();
    assert!(job.warnings_of_folders().is_empty());
}

/// Returns the warnings of early stopping by a metric, with further changes.
fn warnings_of_stopping(metric: &str, keys: &str, changes: &[&str]) -> Vec<String> {
    let stopping = format!("train.early_stopping={{ metric = \"{metric}\", {keys} }}");
    let eval = "input.eval.files=[\"eval.csv\"]";
    warnings_of(&[&[eval, &stopping], changes].concat())
}

#[test]
fn a_bound_of_early_stopping_beyond_the_range_of_its_metric_is_warned_of() {
    let regression = "model.kind=\"dnn_linear_combined_regressor\"";
    let custom = "model.kind=\"custom_classifier\"";
    let share = "is from 0 to 1";
    let higher = "higher_is_better = true, stop_at = 90.0";
    let lower = "higher_is_better = false, stop_at = -0.5";
    for (metric, keys, changes, range) in [
        ("loss", "stop_at = -0.5", &[][..], Some("is 0 or more")),
        (
            "average_loss",
            "stop_at = -0.5",
            &[regression],
            Some("is 0 or more"),
        ),
        ("loss", "stop_at = 90.0", &[], None),
        ("accuracy_baseline", higher, &[], Some(share)),
        ("calibration_error", "stop_at = -0.5", &[], Some(share)),
        ("label/mean", higher, &[], Some(share)),
        ("holdout/label/mean", lower, &[], Some(share)),
        ("prediction/mean", lower, &[], Some(share)),
        ("prediction/mean", lower, &[regression], None),
        ("label/mean", higher, &[regression], None),
        // No evaluation is below 0, and the first one is not above it.
        (
            "accuracy_baseline",
            "higher_is_better = true, stop_at = -0.5",
            &[],
            None,
        ),
        ("rmse", higher, &[], None),
    ] {
        let warnings = warnings_of_stopping(metric, keys, changes);
        let told = warnings.iter().find(|told| told.contains("stop_at"));
        let expected = range.map(|range| format!(": `{metric}` {range}"));
        assert_eq!(
            told.map(|told| &told[told.find(": ").unwrap()..]),
            expected.as_deref(),
            "{metric} {keys} {changes:?}"
        );
    }
    let of_custom = warnings_of_stopping("loss", "stop_at = -0.5", &[custom]);
    assert!(
        !of_custom.iter().any(|told| told.contains("stop_at")),
        "{of_custom:?}"
    );
}

#[test]
fn an_improvement_that_is_wider_than_the_range_of_its_metric_is_warned_of() {
    let keys = "max_evaluations_without_improvement = 3, min_delta = 2.0";
    assert_eq!(
        warnings_of_stopping("auc", keys, &[]),
        [
            "`min_delta` of [train.early_stopping] is 2, and no evaluation is better than the first: `auc` is from 0 to 1"
        ]
    );
    assert!(warnings_of_stopping("loss", keys, &[]).is_empty());
    let keys = "max_steps_without_improvement = 3, min_delta = 0.5";
    assert!(warnings_of_stopping("calibration_error", keys, &[]).is_empty());
}

#[test]
fn steps_of_early_stopping_beyond_the_end_of_training_are_warned_of() {
    let keys = "stop_at = 0.9, min_steps = 20";
    assert_eq!(
        warnings_of_stopping("auc", keys, &[]),
        [
            "`min_steps` of [train.early_stopping] is 20, and no evaluation ends the job: train.max_steps is 10"
        ]
    );
    assert!(warnings_of_stopping("auc", keys, &["train.max_steps=20"]).is_empty());
    let keys = "max_steps_without_improvement = 20";
    assert_eq!(
        warnings_of_stopping("auc", keys, &[]),
        [
            "`max_steps_without_improvement` of [train.early_stopping] does nothing at 20: train.max_steps is 10"
        ]
    );
    assert!(warnings_of_stopping("auc", keys, &["train.max_steps=20"]).is_empty());
}

#[test]
fn evaluations_that_a_run_does_not_have_are_warned_of() {
    let keys = "max_evaluations_without_improvement = 2";
    let every = |steps: &str| format!("run.save_checkpoints_steps={steps}");
    let told = warnings_of_stopping("auc", keys, &[&every("4")]);
    assert!(
        told.len() == 1
            && told[0].contains("does nothing at 2: train.max_steps is 10")
            && told[0].contains("makes 3 evaluations"),
        "{told:?}"
    );
    assert!(warnings_of_stopping("auc", keys, &[&every("3")]).is_empty());
    let plateau = "train.reduce_on_plateau={ patience = 2 }";
    let eval = "input.eval={ files = [\"e.csv\"] }";
    let told = warnings_of(&[eval, plateau, "train.max_steps=10", &every("4")]);
    assert!(
        told.iter().any(|one| one.contains(
            "`reduce_on_plateau` of [train] does nothing with patience = 2: train.max_steps is 10"
        )),
        "{told:?}"
    );
    let told = warnings_of(&[eval, plateau, "train.max_steps=10", &every("3")]);
    assert!(!told.iter().any(|one| one.contains("patience")), "{told:?}");
}

#[test]
fn a_norm_of_batches_of_one_record_is_warned_of() {
    let norm = "model.batch_norm=true";
    let told = warnings_of(&[norm, "input.train.batch_size=1"]);
    assert!(
        told.iter()
            .any(|one| one.contains("`batch_norm` of [model] makes 0 of every hidden unit")),
        "{told:?}"
    );
    let told = warnings_of(&[norm, "input.train.batch_size=2"]);
    assert!(
        !told.iter().any(|one| one.contains("batch_norm")),
        "{told:?}"
    );
}

#[test]
fn hours_between_kept_checkpoints_are_idle_where_all_are_kept() {
    let hours = "run.keep_checkpoint_every_n_hours=2.0";
    assert_eq!(
        warnings_of(&[hours, "run.keep_checkpoint_max=0"]),
        [
            "`keep_checkpoint_every_n_hours` of [run] does nothing with keep_checkpoint_max = 0, which keeps all"
        ]
    );
    assert!(warnings_of(&[hours, "run.keep_checkpoint_max=1"]).is_empty());
}

#[test]
fn bounds_of_a_log_are_idle_without_one() {
    let log = [
        "parameter_servers.shared_memory_bytes_max=0",
        "parameter_servers.log_bytes_max=1048576",
        "parameter_servers.memory_bytes_max=1048576",
    ];
    let none = "parameter_servers.durability=\"none\"";
    let why = "of [parameter_servers] does nothing with durability = \"none\", which keeps no log";
    assert_eq!(
        warnings_of(&[&log[..], &[none]].concat()),
        [
            format!("`shared_memory_bytes_max` {why}"),
            format!("`log_bytes_max` {why}"),
        ]
    );
    assert!(warnings_of(&log).is_empty());
    let without_servers = "strategy.kind=\"mirrored\"";
    let told = warnings_of(&[&log[..], &[none, without_servers]].concat());
    let of_log = told.iter().filter(|told| told.contains("`log_bytes_max`"));
    assert_eq!(of_log.count(), 1, "each key is warned of once: {told:?}");
}

#[test]
fn keys_of_several_tasks_are_idle_in_one() {
    let alone = "strategy.kind=\"one_device\"";
    let under = "under strategy.kind = \"one_device\"";
    let timeout = "run.session_creation_timeout_secs=60";
    let scale = "strategy.scale_learning_rate=true";
    assert_eq!(
        warnings_of(&[alone, timeout, scale]),
        [
            format!(
                "`scale_learning_rate` of [strategy] does nothing {under}: a step is one batch"
            ),
            format!(
                "`session_creation_timeout_secs` of [run] does nothing {under}, which has no other tasks"
            ),
        ]
    );
    assert!(warnings_of(&[timeout, scale]).is_empty());
    assert!(warnings_of(&["strategy.kind=\"mirrored\"", scale]).is_empty());
}

/// Rejections end a job in one process, too: its only task is quarantined.
#[test]
fn the_guard_and_its_quarantine_are_no_idle_keys_of_one_device() {
    let guard = "parameter_servers.guard={ max_norm = 1.0, quarantine_after = 3 }";
    assert!(warnings_of(&["strategy.kind=\"one_device\"", guard]).is_empty());
}

#[test]
fn keys_of_another_head_are_warned_of() {
    let estimator = "model.kind=\"dnn_linear_combined_estimator\"";
    let classes = "model.classes_for_class_based_metrics=[0]";
    let groups = "eval.group_auc_column=\"c\"";
    let [binary, poisson, regression, several] = ["binary", "poisson", "regression", "multi_label"]
        .map(|head| format!("model.head=\"{head}\""));
    for (changes, told) in [
        (
            &[classes][..],
            Some("`classes_for_class_based_metrics` of [model] does nothing for a binary head"),
        ),
        (
            &[estimator, &regression, classes],
            Some("`classes_for_class_based_metrics` of [model] does nothing for a regression head"),
        ),
        (&[estimator, &several, classes], None),
        (
            &[estimator, &poisson, "model.thresholds=[0.3]"],
            Some("`thresholds` of [model] does nothing for a poisson head"),
        ),
        (
            &[estimator, &poisson, "model.n_classes=3"],
            Some("`n_classes` of [model] does nothing for a poisson head"),
        ),
        (
            &[estimator, &binary, "model.label_dimension=3"],
            Some("`label_dimension` of [model] does nothing for a binary head"),
        ),
        (&[estimator, &regression, "model.label_dimension=3"], None),
        (&[groups], None),
        (
            &[estimator, &poisson, groups],
            Some("`group_auc_column` of [eval] does nothing for a poisson head"),
        ),
    ] {
        assert_eq!(warnings_of(changes), Vec::from_iter(told), "{changes:?}");
    }
}

#[test]
fn keys_of_hidden_layers_are_idle_in_a_cross_network_without_them() {
    let job = |kind: &str| {
        OF_ALL_PARTS
            .replace("hidden_units = [8]\n", "")
            .replace("dnn_linear_combined_classifier", kind)
    };
    let idle = |kind: &str| {
        let job = parse(&job(kind), &["model.activation=\"tanh\""]).unwrap();
        let messages = job.warnings().iter().map(|found| found.message.clone());
        messages
            .filter(|told| told.contains("hidden_units"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        idle("dcn_classifier"),
        [
            "`activation` of [model] does nothing without hidden_units",
            "`dropout` of [model] does nothing without hidden_units",
        ]
    );
    assert!(idle("custom_classifier").is_empty());
}

#[test]
fn wide_is_told_as_idle_in_a_custom_model() {
    let job = parse(CENSUS, &["model={ kind = \"custom_classifier\" }"]).unwrap();
    let is_told = |told: &Diagnostic| {
        let message = &told.message;
        message.starts_with("`wide` of feature")
            && message.contains("a custom_classifier has no such part")
    };
    assert!(job.warnings().iter().any(is_told), "{:?}", job.warnings());
}

#[test]
fn values_of_embeddings_are_idle_where_each_embedding_has_its_own() {
    let initializer = "model.embedding_initializer={ kind = \"zeros\" }";
    assert!(warnings_of(&[initializer]).is_empty());
    let embedding = "feature.2.deep={ embedding = 4, initializer = { kind = \"normal\", stddev = 0.1 }, regularizer = { l1 = 0.1 } }";
    let why = "of [model] does nothing without an embedding that names none of its own";
    for deep in [embedding, "feature.2.deep=\"indicator\""] {
        assert_eq!(
            warnings_of(&[initializer, deep]),
            [
                format!("`embedding_initializer` {why}"),
                format!("`embedding_regularizer` {why}"),
            ]
        );
    }
}

#[test]
fn evaluations_and_exports_are_idle_in_a_job_without_evaluation_input() {
    let schedule = [
        "eval.throttle_secs=5",
        "eval.on_training_data=true",
        "exporter=[{ kind = \"best\" }]",
        // `trainyard evaluate` takes files of its own.
        "eval.steps=3",
    ];
    let without = "without [input.eval]";
    assert_eq!(
        warnings_of(&schedule),
        [
            format!("`throttle_secs` of [eval] does nothing {without}"),
            format!("`on_training_data` of [eval] does nothing {without}"),
            format!("`exporter` does nothing {without}"),
        ]
    );
    assert_eq!(
        warnings_of(&["eval.every_checkpoint=true"]),
        [format!(
            "`every_checkpoint` of [eval] keeps checkpoints for evaluations: {without} there are none"
        )]
    );
    let eval = "input.eval.files=[\"eval.csv\"]";
    assert!(warnings_of(&[&schedule[..], &[eval]].concat()).is_empty());
}

#[test]
fn a_penalty_of_vectors_that_training_does_not_change_is_warned_of() {
    let frozen = "feature.2.deep={ embedding = 4, trainable = false, regularizer = { l1 = 0.1 } }";
    assert_eq!(
        warnings_of(&[frozen]),
        [
            "`regularizer` of [feature.deep] does nothing with trainable = false",
            "`embedding_regularizer` of [model] does nothing without an embedding that names none of its own",
        ]
    );
}

#[test]
fn a_bound_of_gradients_above_the_largest_that_is_accepted_is_warned_of() {
    let guard = "parameter_servers.guard={ max_abs = 1e20 }";
    assert_eq!(
        warnings_of(&[guard]),
        [
            "`max_abs` of [parameter_servers.guard] does nothing at 1e20: no gradient of 2^50, about 1.1e15, or more is accepted"
        ]
    );
    assert!(warnings_of(&["parameter_servers.guard={ max_abs = 1e15 }"]).is_empty());
    let without_guard = warnings_of(&["strategy.kind=\"mirrored\"", guard]);
    assert_eq!(without_guard.len(), 1, "{without_guard:?}");
}

#[test]
fn a_renamed_variable_that_a_warm_start_leaves_out_is_warned_of() {
    let start = |variables: &str| {
        format!(
            "train.warm_start={{ from = \"old\", variables = \"{variables}\", rename = {{ \"linear/x\" = \"x\" }} }}"
        )
    };
    assert_eq!(
        warnings_of(&[&start("dnn/.*")]),
        [
            "`rename` of [train.warm_start] does nothing to `linear/x`, which variables = \"dnn/.*\" leaves out"
        ]
    );
    assert!(warnings_of(&[&start("linear/.*")]).is_empty());
}

/// A job file does not say whether `trainyard train` or `trainyard up` trains it.
#[test]
fn keys_of_a_cluster_are_warned_of_where_one_process_trains() {
    let alone = |changes: &[&str]| {
        let job = parse(OF_ALL_PARTS, changes);
        let job = job.unwrap_or_else(|problems| panic!("{changes:?}: {}", render_all(&problems)));
        let warnings = job.warnings_in_one_process();
        let messages = warnings.iter().map(|found| found.message.clone());
        messages.collect::<Vec<_>>()
    };
    let payload = "strategy.payload=\"bfloat16\"";
    let of_servers = "in one process, which has no parameter servers";
    assert_eq!(
        alone(&[
            payload,
            "strategy.placement=\"round_robin\"",
            "strategy.update=\"ssp\"",
            "strategy.staleness_steps_max=3",
            "strategy.scale_learning_rate=true",
            "run.session_creation_timeout_secs=60",
            "parameter_servers.log_bytes_max=1048576",
            "parameter_servers.memory_bytes_max=1048576",
            "parameter_servers.durability=\"replica\"",
        ]),
        [
            "`payload` of [strategy] does nothing in one process, which has no network".to_owned(),
            "`update` of [strategy] does nothing in one process, which has one task".to_owned(),
            "`staleness_steps_max` of [strategy] does nothing in one process, which has one task".to_owned(),
            "`scale_learning_rate` of [strategy] does nothing in one process, which has one task".to_owned(),
            "`session_creation_timeout_secs` of [run] does nothing in one process, which has one task".to_owned(),
            format!("`placement` of [strategy] does nothing {of_servers}"),
            format!("`memory_bytes_max` of [parameter_servers] does nothing {of_servers}"),
            format!("`log_bytes_max` of [parameter_servers] does nothing {of_servers}"),
            format!("`durability` of [parameter_servers] does nothing {of_servers}: what its last checkpoint lacks is lost with it"),
        ]
    );
    for changes in [
        &["strategy.pipeline_depth=1", "strategy.update=\"async\""][..],
        // The checkpoints of one process have slices, too.
        &["strategy.partitioner={ kind = \"fixed\", num_shards = 2 }"],
        &["parameter_servers.durability=\"none\""],
        // The job itself is warned of these.
        &["strategy.kind=\"one_device\"", payload],
        &[
            "parameter_servers.durability=\"none\"",
            "parameter_servers.log_bytes_max=1048576",
        ],
    ] {
        assert!(
            alone(changes).is_empty(),
            "{changes:?}: {:?}",
            alone(changes)
        );
    }
}

#[test]
fn the_jobs_of_this_repository_have_no_idle_key() {
    let configs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs"));
    for name in ["census", "ctr", "ctr-tensorflow", "iris"] {
        let job = Job::load(&configs.join(name).with_extension("toml"), &[]);
        let job = job.unwrap_or_else(|problems| panic!("{name}: {}", render_all(&problems)));
        let warnings = [job.warnings(), &job.warnings_in_one_process()].concat();
        assert!(warnings.is_empty(), "{name}: {}", render_all(&warnings));
    }
}

#[test]
fn what_a_kind_of_model_would_misunderstand_is_still_refused() {
    for (change, told) in [
        // Which part the feature should feed is not said.
        (
            &[
                "model.kind=\"dcn_classifier\"",
                "feature.2.deep=false",
                "feature.1.deep={ indicator = true }",
            ][..],
            "",
        ),
        (
            &["model.kind=\"dnn_regressor\"", "model.n_classes=3"],
            "n_classes has no meaning for a regressor",
        ),
        (
            &["model.label_mean=3.0"],
            "label_mean has no meaning for a classifier",
        ),
        (&["model.hiden_units=[3]"], "unknown key `hiden_units`"),
        (
            &["model.focal_gamma=1.0"],
            "focal_gamma has no meaning without loss",
        ),
        (
            &["model.optimizer.kind=\"adam\""],
            "unknown key `optimizer`",
        ),
    ] {
        match parse(OF_ALL_PARTS, change) {
            Ok(_) => assert!(told.is_empty(), "{change:?}"),
            Err(problems) => {
                let text = render_all(&problems);
                assert!(
                    !told.is_empty() && text.contains(told),
                    "{change:?}: {text}"
                );
            }
        }
    }
    let wide_alone = OF_ALL_PARTS
        .replace("deep = false\n", "")
        .replace("deep = { embedding = 4 }\n", "");
    let problems = parse(&wide_alone, &["model.kind=\"dnn_classifier\""]).unwrap_err();
    let text = render_all(&problems);
    assert!(
        text.contains("feature `c` is used by no part of the model"),
        "{text}"
    );
    let named = parse(
        OF_ALL_PARTS,
        &["model.focal_gamma=1.0", "model.loss=\"cross_entropy\""],
    )
    .unwrap();
    assert_eq!(
        named.warnings()[0].message,
        "`focal_gamma` of [model] does nothing without loss = \"focal\""
    );
}

#[test]
fn an_optimizer_without_a_kind_is_the_usual_one_with_the_values_that_are_given() {
    let linear = |defaults: &str, sets: &[&str]| {
        let named = "[model.linear_optimizer]\nkind = \"ftrl\"\n[model.dnn_optimizer]\nkind = \"adagrad\"\nlearning_rate = 0.05\n";
        assert!(CENSUS.contains(named));
        let text = CENSUS.replace(named, &format!("defaults = \"{defaults}\"\n"));
        let sets: Vec<String> = sets.iter().map(|set| format!("model.{set}")).collect();
        let model = parse(&text, &sets.iter().map(String::as_str).collect::<Vec<_>>())
            .unwrap()
            .model;
        let shown = |section: Option<OptimizerSection>| {
            serde_json::to_value(section.unwrap().fields()).unwrap()
        };
        (shown(model.linear_optimizer), shown(model.dnn_optimizer))
    };
    let adagrad =
        json!({"kind": "adagrad", "learning_rate": 0.1, "initial_accumulator_value": 1e-4});
    let adam = json!({"kind": "adam", "learning_rate": 0.001, "lazy": true});
    assert_eq!(linear("trainyard", &[]), (adagrad.clone(), adam));
    let (slower, eager) = linear(
        "trainyard",
        &[
            "linear_optimizer.learning_rate=0.01",
            "dnn_optimizer.lazy=false",
        ],
    );
    let expected =
        json!({"kind": "adagrad", "learning_rate": 0.01, "initial_accumulator_value": 1e-4});
    assert_eq!(slower, expected);
    assert_eq!(
        eager,
        json!({"kind": "adam", "learning_rate": 0.001, "lazy": false})
    );
    // A kind that is named has the values of TensorFlow.
    let (named, _) = linear("trainyard", &["linear_optimizer.kind=adagrad"]);
    assert_eq!(named, json!({"kind": "adagrad"}));
    for tensorflow in ["tensorflow1", "tensorflow2"] {
        let (ftrl, adagrad) = linear(tensorflow, &[]);
        assert_eq!(
            (ftrl, adagrad),
            (json!({"kind": "ftrl"}), json!({"kind": "adagrad"}))
        );
        let (ftrl, _) = linear(tensorflow, &["linear_optimizer.learning_rate=0.01"]);
        assert_eq!(ftrl, json!({"kind": "ftrl", "learning_rate": 0.01}));
    }
}

#[test]
fn a_key_that_is_set_twice_and_a_metric_whose_worst_value_would_be_the_best_are_told() {
    let told = |sets: &[&str]| -> String {
        let job = parse(CENSUS, sets).unwrap();
        job.warnings()
            .iter()
            .map(|warning| warning.render())
            .collect()
    };
    let twice = told(&["train.max_steps=1", "train.max_steps=2"]);
    assert!(
        twice.contains("`train.max_steps=2` replaces `train.max_steps=1`"),
        "{twice}"
    );
    assert_eq!(told(&["train.max_steps=1"]), "");
    for (metric, given, is_told) in [
        ("auc", false, true),
        ("auc", true, false),
        ("loss", true, true),
        ("loss", false, false),
    ] {
        let sets = [
            format!("train.early_stopping.metric={metric}"),
            "train.early_stopping.max_evaluations_without_improvement=3".to_owned(),
            format!("train.early_stopping.higher_is_better={given}"),
        ];
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let found = told(&sets);
        assert_eq!(
            found.contains("takes the worst for the best"),
            is_told,
            "{found}"
        );
    }
}

/// A job of two tasks.
const TASKS: &str = r#"
model_dir = "m"
[input]
[input.train]
files = ["t.csv"]
epochs = 1
[input.eval]
files = ["e.csv"]
[[feature]]
column = "x"
kind = "numeric"
deep = true
[model]
kind = "mmoe"
hidden_units = [4]
[[model.task]]
name = "click"
head = "binary"
label = { column = "clicked", positive = "yes" }
[[model.task]]
name = "spent"
head = "regression"
label = { column = "spent" }
weight = 0.5
weight_column = "w"
[train.early_stopping]
metric = "spent/average_loss"
max_evaluations_without_improvement = 3
[[exporter]]
kind = "best"
metric = "click/auc"
"#;

fn of_tasks(overrides: &[&str]) -> Result<Job, String> {
    let overrides: Vec<String> = overrides.iter().map(|one| (*one).to_owned()).collect();
    Job::parse(Path::new("job.toml"), TASKS, &overrides)
        .map_err(|problems| trainyard_diagnostic::render_all(&problems))
}

#[test]
fn tasks_have_labels_heads_and_weights_and_their_metrics_have_directions() {
    let job = of_tasks(&[]).expect("a good job");
    let [click, spent] = job.model.tasks.as_slice() else {
        panic!("{:?}", job.model.tasks);
    };
    assert_eq!(
        (click.name.as_str(), click.weight, click.n_classes),
        ("click", 1.0, 2)
    );
    assert_eq!(
        (spent.weight, spent.weight_column.as_deref()),
        (0.5, Some("w"))
    );
    let columns: Vec<&str> = job
        .labels()
        .iter()
        .map(|(label, _)| label.column.as_str())
        .collect();
    assert_eq!(columns, ["clicked", "spent"]);
    assert!(job.exporters[0].higher_is_better);
    let stopping = job.train.early_stopping.as_ref().expect("the section");
    assert!(!stopping.higher_is_better);
    assert_eq!(job.warnings(), []);
    let agreement = trainyard_run_config::Agreement::of(&job);
    assert_eq!(
        agreement.of_task("click", "label.positive"),
        Some("\"yes\"")
    );
    assert_eq!(agreement.of_task("spent", "head"), Some("\"regression\""));
    // Keys of other kinds with tasks do nothing.
    let job = of_tasks(&["model.task_experts=2"]).expect("a good job");
    let told = job.warnings()[0].message.clone();
    assert!(
        told.contains("`task_experts` of [model] does nothing in a mmoe"),
        "{told}"
    );
}

#[test]
fn a_custom_model_has_tasks_and_keys_of_its_own() {
    let custom = "model={ kind = \"custom_multi_task\", params = { width = 3 }, optimizer = { kind = \"sgd\" }, task = [{ name = \
                  \"click\", head = \"binary\", label = { column = \"clicked\" } }] }";
    let rest = [custom, "train.early_stopping.metric=\"click/auc\""];
    let job = of_tasks(&rest).expect("a good job");
    assert!(job.model.kind.is_custom() && job.model.kind.has_tasks());
    assert_eq!(job.model.tasks.len(), 1);
    assert_eq!(job.model.params.get::<usize>("width").expect("a number"), 3);
    let bare = "model={ kind = \"custom_multi_task\" }";
    let told = of_tasks(&[bare]).expect_err("no task");
    assert!(told.contains("[[model.task]]"), "{told}");
}

#[test]
fn what_a_model_of_several_tasks_does_not_have_is_refused_with_the_reason() {
    let esmm = "model.kind=\"esmm\"";
    for (overrides, told) in [
        (
            &["input.label={ column = \"y\" }"][..],
            "label has no meaning for a model of several tasks",
        ),
        (
            &["model.loss=\"focal\""],
            "loss has no meaning for a model of several tasks",
        ),
        (
            &["model.label_mean=2.0"],
            "label_mean has no meaning for a model of several tasks",
        ),
        (
            &["model.thresholds=[0.3]"],
            "each [[model.task]] has a head of its own",
        ),
        (
            &["model.top_k=[3]"],
            "top_k has no meaning for a model of several tasks",
        ),
        (
            &["eval.group_auc_column=\"u\""],
            "group_auc_column has no meaning for a model of several tasks",
        ),
        (
            &["model.kind=\"dnn_classifier\""],
            "task has no meaning for a model of one task",
        ),
        (&["model.task.1.name=\"click\""], "`click` is given twice"),
        (
            &["model.task.1.name=\"auc\""],
            "must not be the name of a metric",
        ),
        (&["model.task.1.name=\"a/b\""], "must be letters, digits"),
        (
            &["model.task.1.head=\"multi_label\""],
            "unknown head `multi_label`",
        ),
        (
            &["model.task.1.head=\"multi_class\""],
            "needs n_classes, or label.vocabulary",
        ),
        (
            &["model.task.1.n_classes=3"],
            "n_classes has no meaning for a regression head",
        ),
        (
            &["model.task.0.n_classes=3"],
            "n_classes has no meaning for a binary head",
        ),
        (
            &["model.task.1.label.positive=\"a\""],
            "label.positive has no meaning for a regression head",
        ),
        (
            &["model.task.1.label.separator=\";\""],
            "unknown key `separator`",
        ),
        (&["model.task.1.weight=0.0"], "weight"),
        (&["model.task=[]"], "a model has 1 to 64 tasks, given 0"),
        (
            &["evaluation=[{ name = \"click\", files = [\"c.csv\"] }]"],
            "the name of a task and of an evaluation",
        ),
        (
            &[esmm, "model.tower_units=[4]"],
            "esmm has 2 tasks of binary heads, the click and the click with a conversion, given 2 (binary, regression)",
        ),
        (&[esmm, "model.task.1.head=\"binary\""], "tower_units"),
    ] {
        let found = of_tasks(overrides).expect_err("a mistake");
        assert!(found.contains(told), "{overrides:?}: {found}");
    }
}

#[test]
fn a_path_with_a_part_that_only_a_shell_replaces_is_refused_in_every_key_of_paths() {
    let vocabulary = "feature=[{ column = \"c\", kind = \"vocabulary\", file = \"~/v\", wide = true, deep = false }]";
    let bounds = "feature=[{ column = \"c\", kind = \"bucketized\", boundaries_file = \"~ann/v\", wide = true }]";
    for (change, part) in [
        ("model_dir=\"~/m\"", "~"),
        ("model_dir=\"$HOME/m\"", "$HOME"),
        ("local_dir=\"${TMP}/m\"", "${TMP}"),
        ("input.train.files=[\"a.csv\", \"~/b.csv\"]", "~"),
        ("input.eval.files=\"/data/$USER/*.csv\"", "$USER"),
        ("train.warm_start={ from = \"~/old\" }", "~"),
        (vocabulary, "~"),
        (bounds, "~ann"),
    ] {
        let found = parse(OF_ALL_PARTS, &[change]).expect_err(change);
        let found = render_all(&found);
        let told = format!("has `{part}`, which would be the name of a folder");
        assert!(found.contains(&told), "{change}: {found}");
    }
    parse(OF_ALL_PARTS, &["model_dir=\"./~/m\""]).expect("a folder of that name");
}
