//! The jobs under test: every kind of model with every head, every activation, every kind of feature.

use std::path::{Path, PathBuf};

use crate::onnx::rows::MISSING;

/// A model: its name, and what the job says of it.
pub(crate) struct Case {
    pub(crate) name: String,
    family: &'static str,
    head: &'static str,
    /// More lines of `[model]`.
    model: String,
    /// Whether features are hashed, too.
    pub(crate) hashed: bool,
}

/// Families of models.
const FAMILIES: [&str; 13] = [
    "baseline",
    "linear",
    "dnn",
    "dnn_linear_combined",
    "fm",
    "deepfm",
    "dcn",
    "dlrm",
    "autoint",
    "xdeepfm",
    "final_mlp",
    "masknet",
    "din",
];
/// Heads, with their labels.
const HEADS: [(&str, &str); 6] = [
    ("binary", r#"{ column = "binary" }"#),
    (
        "multi_class",
        r#"{ column = "class", vocabulary = ["low", "middle", "high"] }"#,
    ),
    (
        "multi_label",
        r#"{ column = "labels", vocabulary = ["p", "q", "r"] }"#,
    ),
    ("regression", r#"{ column = "amounts" }"#),
    ("poisson", r#"{ column = "count" }"#),
    ("logistic_regression", r#"{ column = "share" }"#),
];
/// Kinds of models of several tasks, with their keys.
const OF_TASKS: [(&str, &str); 4] = [
    ("shared_bottom", "hidden_units = [8]\ntower_units = [5]\n"),
    (
        "mmoe",
        "hidden_units = [8]\nexperts = 3\ntower_units = [5]\nbatch_norm = true\n",
    ),
    ("ple", "hidden_units = [8]\nexperts = 2\ntask_experts = 1\n"),
    ("esmm", "tower_units = [8, 5]\n"),
];
/// Heads of tasks, with their labels. Some of the second are missing.
const TASKS: [(&str, &str); 5] = [
    ("binary", r#"{ column = "binary" }"#),
    (
        "multi_class",
        r#"{ column = "class", vocabulary = ["low", "middle", "high"] }"#,
    ),
    ("regression", r#"{ column = "slot" }"#),
    ("poisson", r#"{ column = "count" }"#),
    ("logistic_regression", r#"{ column = "share" }"#),
];
/// Activations besides `relu`.
const ACTIVATIONS: [&str; 10] = [
    "relu6",
    "leaky_relu",
    "elu",
    "selu",
    "tanh",
    "sigmoid",
    "softplus",
    "softsign",
    "swish",
    "linear",
];
/// Features that ONNX can say: what they are, and how they feed the deep part.
const FEATURES: [(&str, &str); 30] = [
    (
        r#"column = "age"; kind = "numeric"; normalizer = "standardize"; mean = 45.0; stddev = 15.0; default = 40.0"#,
        "true",
    ),
    (
        r#"column = "income"; kind = "numeric"; normalizer = "log1p"; name = "income_log""#,
        "true",
    ),
    (
        r#"column = "pair"; kind = "numeric"; shape = 2; normalizer = "signed_log1p"; encoding = "piecewise_linear"; boundaries = [-0.5, 0, 0.5]; name = "pair_bins""#,
        "true",
    ),
    (
        r#"column = "income"; kind = "numeric"; encoding = "piecewise_linear"; normalizer = "log1p"; boundaries = [1, 9]; name = "income_line""#,
        "true",
    ),
    (
        r#"column = "income"; kind = "numeric"; normalizer = "quantile"; boundaries = [0, 0, 20, 100, 100, 100, 4000, 9000]; name = "income_share""#,
        "true",
    ),
    (
        r#"column = "pair"; kind = "numeric"; shape = 2; normalizer = "quantile"; output_distribution = "normal"; boundaries = [-1, -0.5, 0, 0, 1]; name = "pair_scores""#,
        "true",
    ),
    (
        r#"column = "pair"; kind = "numeric"; shape = 2; encoding = "periodic"; frequencies = 3; sigma = 0.5; encoding_units = 4; name = "pair_waves""#,
        "true",
    ),
    (
        r#"column = "age"; kind = "numeric"; normalizer = "standardize"; mean = 45.0; stddev = 15.0; default = 40.0; encoding = "periodic"; frequencies = 3; sigma = 0.3; name = "age_waves""#,
        "true",
    ),
    (
        r#"column = "income"; kind = "numeric"; normalizer = "log"; name = "income_logarithm""#,
        "true",
    ),
    (
        r#"column = "income"; kind = "numeric"; clip = [0, 9000]; normalizer = "min_max"; min = 0; max = 9000; name = "income_range""#,
        "true",
    ),
    (
        r#"column = "pair"; kind = "numeric"; shape = 2; minus = "pair"; name = "nothing""#,
        "true",
    ),
    (
        r#"column = "age"; kind = "numeric"; divided_by = "level"; default = 2.0; clip = [-5, 5]; name = "age_by_level""#,
        "true",
    ),
    (
        r#"column = "moment"; kind = "numeric"; time = "hour"; default = 12; normalizer = "min_max"; min = 0; max = 23"#,
        "true",
    ),
    (
        r#"column = "moment"; kind = "bucketized"; time = "weekday"; default = 3; boundaries = [1, 2, 3, 4, 5, 6]; name = "weekday""#,
        "INDICATOR",
    ),
    (
        r#"column = "income"; kind = "bucketized"; minus = "age"; default = 40.0; boundaries = [0, 100]; name = "beyond_age""#,
        "INDICATOR",
    ),
    (r#"column = "pair"; kind = "numeric"; shape = 2"#, "true"),
    (
        r#"column = "age"; kind = "bucketized"; boundaries = [25, 40.5, 60]; default = 40.0"#,
        "{ embedding = 4 }",
    ),
    (
        r#"column = "income"; kind = "bucketized"; normalizer = "log1p"; boundaries = [3, 6, 9]"#,
        "INDICATOR",
    ),
    (
        r#"column = "pair"; kind = "bucketized"; shape = 2; boundaries = [-1, 0, 1]"#,
        r#"{ embedding = 4, combiner = "sqrtn" }"#,
    ),
    (
        r#"column = "city"; kind = "vocabulary"; values = ["city0", "city1", "city2", "city3"]"#,
        "{ embedding = 4, max_norm = 0.8 }",
    ),
    (
        r#"column = "color"; kind = "vocabulary"; values = ["color0", "color1", "color2"]; default = 1"#,
        "INDICATOR",
    ),
    (
        r#"column = "tags"; kind = "vocabulary"; values = ["tag0", "tag1", "tag2", "tag3", "tag4"]; separator = "|"; weights = "tag_weights""#,
        r#"{ embedding = 4, combiner = "sqrtn" }"#,
    ),
    (
        r#"column = "tags"; kind = "vocabulary"; values = ["tag4", "tag3", "tag2"]; default = 2; separator = "|"; name = "tags_again""#,
        "INDICATOR",
    ),
    (
        r#"column = "code"; kind = "vocabulary"; values = [0, 10, 20, 40]"#,
        r#"{ embedding = 4, combiner = "sum" }"#,
    ),
    (
        r#"column = "level"; kind = "identity"; buckets = 5; default = 3"#,
        "{ embedding = 4 }",
    ),
    (
        r#"column = "slot"; kind = "identity"; buckets = 5"#,
        "INDICATOR",
    ),
    (
        r#"column = "visits"; kind = "identity"; buckets = 8; separator = "|""#,
        r#"{ embedding = 4, combiner = "mean" }"#,
    ),
    (
        r#"column = "origin"; kind = "identity"; buckets = 5"#,
        r#"{ embedding = 4, table = "places", max_norm = 0.9 }"#,
    ),
    (
        r#"column = "target"; kind = "identity"; buckets = 5"#,
        r#"{ embedding = 4, table = "places" }"#,
    ),
    (
        r#"column = "level"; kind = "numeric"; name = "level_number""#,
        "true",
    ),
];
/// A history, and two targets.
const OF_HISTORIES: [(&str, &str); 3] = [
    (
        r#"column = "visits"; kind = "identity"; buckets = 8; separator = "|"; name = "visited""#,
        r#"{ embedding = 4, table = "stops", max_norm = 0.8 }"#,
    ),
    (
        r#"column = "visits"; kind = "identity"; buckets = 8; separator = "|"; name = "visited_first""#,
        r#"{ embedding = 4, table = "stops" }"#,
    ),
    (
        r#"column = "origin"; kind = "identity"; buckets = 8; name = "stop""#,
        r#"{ embedding = 4, table = "stops" }"#,
    ),
];
/// Features that need FarmHash.
const HASHED: [(&str, &str); 5] = [
    (
        r#"column = "word"; kind = "hashed"; buckets = 20"#,
        "{ embedding = 4 }",
    ),
    (
        r#"column = "visits"; kind = "hashed"; integers = true; buckets = 6; separator = "|"; name = "visits_hashed""#,
        "INDICATOR",
    ),
    (
        r#"column = "brand"; kind = "vocabulary"; values = ["brand0", "brand1"]; oov_buckets = 3"#,
        "{ embedding = 4 }",
    ),
    (
        r#"columns = ["age_bucketized", "city"]; kind = "crossed"; buckets = 30"#,
        "{ embedding = 4 }",
    ),
    (
        r#"column = "tags"; kind = "hashed"; buckets = 9; separator = "|"; weights = "tag_weights"; name = "tags_hashed""#,
        "{ embedding = 4 }",
    ),
];

/// Returns whether models of a family are factorization machines, which have one logit.
fn has_one_logit(family: &str) -> bool {
    matches!(family, "fm" | "deepfm")
}

impl Case {
    fn new(
        name: String,
        family: &'static str,
        head: &'static str,
        model: &str,
        hashed: bool,
    ) -> Self {
        Self {
            name,
            family,
            head,
            model: model.to_owned(),
            hashed,
        }
    }

    /// Returns the names of the features that need FarmHash and this model reads.
    pub(crate) fn hashed_features(&self) -> &'static [&'static str] {
        match self.family {
            "baseline" => &[],
            _ if self.hashed => &[
                "word",
                "visits_hashed",
                "tags_hashed",
                "brand",
                "age_bucketized_X_city",
            ],
            _ => &[],
        }
    }

    fn has_tasks(&self) -> bool {
        OF_TASKS.iter().any(|(family, _)| *family == self.family)
    }

    /// Returns the lines of `[model]` that say what is predicted, and the tasks, if the model has several.
    fn kind(&self) -> (String, String) {
        let (family, head) = (self.family, self.head);
        if !self.has_tasks() {
            let kind = format!("kind = \"{family}_estimator\"\nhead = \"{head}\"\n");
            return (kind, String::new());
        }
        let tasks = match family {
            "esmm" => vec![TASKS[0]; 2],
            _ => TASKS.to_vec(),
        };
        let tasks = tasks.iter().enumerate().map(|(place, (head, label))| {
            format!("[[model.task]]\nname = \"task{place}\"\nhead = \"{head}\"\nlabel = {label}\n")
        });
        (format!("kind = \"{family}\"\n"), tasks.collect())
    }

    fn features(&self) -> String {
        let of_histories = match self.family {
            "din" => OF_HISTORIES.as_slice(),
            _ => &[],
        };
        let (linear, deep) = match self.family {
            "baseline" => return String::new(),
            "linear" => (true, false),
            "dnn" | "dcn" | "dlrm" | "autoint" | "final_mlp" | "masknet" | "din" => (false, true),
            _ if self.has_tasks() => (false, true),
            _ => (true, true),
        };
        let factorized = self.family.contains("fm");
        let hashed = if self.hashed { HASHED.as_slice() } else { &[] };
        let mut out = String::new();
        for (said, fed) in FEATURES.iter().chain(hashed).chain(of_histories) {
            out.push_str(&format!(
                "[[feature]]\n{}\nwide = {linear}\n",
                said.replace("; ", "\n")
            ));
            if deep {
                // A factorization machine multiplies embeddings; what it has no vector of stays in its linear part.
                let fed = fed.replace(
                    "INDICATOR",
                    if factorized {
                        "{ embedding = 4 }"
                    } else {
                        "\"indicator\""
                    },
                );
                out.push_str(&format!("deep = {fed}\n"));
            }
        }
        out
    }

    /// Writes the job into the case's own folder, and returns its path.
    pub(crate) fn write(&self, folder: &Path, rows: &Path) -> PathBuf {
        let label = HEADS
            .iter()
            .find(|(head, _)| *head == self.head)
            .map_or("", |(_, label)| label);
        let factorized = has_one_logit(self.family);
        let label = if factorized {
            label.replace("amounts", "amount")
        } else {
            label.to_owned()
        };
        let dimension = match self.head {
            "regression" if !factorized => "label_dimension = 2\n",
            "regression" => "label_mean = 3.0\nlabel_stddev = 2.0\n",
            _ => "",
        };
        let (dnn, wide) = match self.family {
            "baseline" | "linear" => (false, true),
            "fm" | "dnn_linear_combined" | "deepfm" | "xdeepfm" => (true, true),
            _ => (true, false),
        };
        let mut more = self.model.clone();
        let has_layers = more.lines().any(|line| line.starts_with("hidden_units"));
        if dnn && !["fm", "esmm"].contains(&self.family) && !has_layers {
            more.push_str("hidden_units = [12, 6]\n");
        }
        // As the hidden layers, far smaller than the defaults.
        match self.family {
            // Each layer of attention amplifies the rounding of the one below it: three over numbers of other scales, 1e-5 tenfold.
            "autoint" if !more.contains("attention_dim") => {
                more.push_str("attention_layers = 1\nattention_dim = 4\n");
            }
            "xdeepfm" if !more.contains("cin_units") => more.push_str("cin_units = [6, 4]\n"),
            "masknet" if !more.contains("mask_units") => more.push_str("mask_units = [8, 8]\n"),
            "din" if !more.contains("attention_units") => {
                more.push_str("attention_units = [6, 4]\n");
            }
            _ => {}
        }
        if wide {
            more.push_str("linear_optimizer = { kind = \"adagrad\", learning_rate = 0.2 }\n");
        }
        if dnn {
            // Attention grows faster, and the exponential of a Poisson head with it.
            let rate = if self.family == "autoint" { 0.01 } else { 0.1 };
            more.push_str(&format!(
                "dnn_optimizer = {{ kind = \"adagrad\", learning_rate = {rate} }}\n"
            ));
        }
        let label = if self.has_tasks() {
            String::new()
        } else {
            format!("label = {label}\n")
        };
        let (kind, mut tasks) = self.kind();
        if self.family == "din" {
            tasks.push_str(
                "[[model.attention]]\nhistory = \"visited\"\ntarget = \"stop\"\nhistory_max = 2\n\
                 [[model.attention]]\nhistory = \"visited_first\"\ntarget = \"stop\"\nhistory_max = 2\nkeep = \"first\"\n",
            );
        }
        let job = format!(
            "model_dir = {model_dir:?}\n[input]\n{label}missing = {missing:?}\nmissing_of = {missing_of}\n[input.train]\nfiles = [{rows:?}]\nbatch_size = 32\n\
             [input.eval]\nfiles = [{rows:?}]\n[model]\n{kind}{dimension}{more}{tasks}\
             [train]\nmax_steps = 60\n[[exporter]]\nkind = \"final\"\nformat = [\"onnx\", \"safetensors\"]\n\
             hashed_as_ids = {hashed}\n{features}",
            model_dir = folder.join("model").display().to_string(),
            missing = [MISSING[0]],
            missing_of = missing_of(),
            rows = rows.display().to_string(),
            hashed = self.hashed,
            features = self.features(),
        );
        let path = folder.join("job.toml");
        std::fs::write(&path, job).expect("the job is written");
        path
    }
}

/// Returns the missing values of single columns: a number in those of numbers, and none in one of words, whose feature has an id
/// for words that it does not list.
fn missing_of() -> String {
    let numbers = ["age", "code", "slot", "visits", "moment"];
    let numbers = numbers.map(|column| format!("{column} = [{:?}]", MISSING[1]));
    format!("{{ {}, color = [] }}", numbers.join(", "))
}

/// Returns every case.
pub(crate) fn cases() -> Vec<Case> {
    let mut out = Vec::new();
    for family in FAMILIES {
        for (head, _) in HEADS {
            let several = head.starts_with("multi");
            if !(has_one_logit(family) && several) {
                out.push(Case::new(
                    format!("{family} {head}"),
                    family,
                    head,
                    "",
                    true,
                ));
            }
        }
    }
    for (family, model) in OF_TASKS {
        let name = format!("{family} of tasks");
        out.push(Case::new(name, family, "tasks", model, true));
    }
    for activation in ACTIVATIONS {
        let model = format!("activation = \"{activation}\"\n");
        out.push(Case::new(
            format!("dnn binary {activation}"),
            "dnn",
            "binary",
            &model,
            true,
        ));
    }
    let more: [(&str, &'static str, &str, bool); 13] = [
        (
            "batch_norm and dropout",
            "dnn",
            "batch_norm = true\ndropout = 0.3\n",
            true,
        ),
        ("batch_norm", "deepfm", "batch_norm = true\n", false),
        ("mean", "linear", "sparse_combiner = \"mean\"\n", true),
        (
            "sqrtn",
            "dnn_linear_combined",
            "sparse_combiner = \"sqrtn\"\n",
            false,
        ),
        (
            "three cross layers",
            "dcn",
            "cross_layers = 3\nhidden_units = [5]\n",
            false,
        ),
        (
            "cross layers of low rank",
            "dcn",
            "cross_projection_dim = 4\n",
            false,
        ),
        ("hidden layers below", "dlrm", "bottom_units = [7]\n", false),
        (
            "attention alone",
            "autoint",
            "attention_layers = 2\nattention_heads = 3\nattention_dim = 5\nhidden_units = []\n",
            false,
        ),
        (
            "one layer of products",
            "xdeepfm",
            "cin_units = [3]\n",
            false,
        ),
        (
            "heads and another stream",
            "final_mlp",
            "second_hidden_units = [8, 4]\nfusion_heads = 2\nbatch_norm = true\ndropout = 0.3\n",
            false,
        ),
        (
            "serial blocks",
            "masknet",
            "mask_units = [9, 5]\nmask_ratio = 1\nmask_blocks = \"serial\"\nhidden_units = []\n",
            false,
        ),
        (
            "without hidden layers of attention",
            "din",
            "attention_units = []\nactivation = \"sigmoid\"\nbatch_norm = true\n",
            false,
        ),
        ("no hashing", "dnn_linear_combined", "", false),
    ];
    for (name, family, model, hashed) in more {
        out.push(Case::new(
            format!("{family} binary {name}"),
            family,
            "binary",
            model,
            hashed,
        ));
    }
    out
}
