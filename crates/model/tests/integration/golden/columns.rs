//! TensorFlow's feature columns and optimizers, as sections of a job file.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use trainyard_testing::list;

/// Part of a model that a list of columns feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Wide,
    Deep,
    /// A cross only, no part by itself.
    Cross,
}

/// Writes `[[feature]]` sections.
pub(crate) struct Sections<'a> {
    /// The recorded features, which give the types of crossed columns.
    pub(crate) features: &'a Value,
    /// Folder of vocabulary files.
    pub(crate) folder: &'a Path,
    pub(crate) text: String,
    /// Names that have a section already.
    named: Vec<String>,
    /// Columns of crosses, to be written after all others.
    crossed: Vec<Value>,
}

/// Returns a value as TOML. Strings and lists of TOML are those of JSON.
fn toml(value: &Value) -> String {
    match value {
        // Hash keys are recorded as decimal strings.
        Value::String(text)
            if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            text.clone()
        }
        other => other.to_string(),
    }
}

impl<'a> Sections<'a> {
    pub(crate) fn new(features: &'a Value, folder: &'a Path) -> Self {
        Self {
            features,
            folder,
            text: String::new(),
            named: Vec::new(),
            crossed: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, columns: &Value, part: Part) {
        list(columns)
            .iter()
            .for_each(|column| self.column(column, part));
    }

    /// Writes the columns of an optional argument.
    pub(crate) fn add_argument(&mut self, arguments: &Value, name: &str, part: Part) {
        if let Some(columns) = arguments.get(name).filter(|columns| !columns.is_null()) {
            self.add(columns, part);
        }
    }

    /// Writes the columns of crosses, and returns the text.
    pub(crate) fn finish(mut self) -> String {
        while let Some(column) = self.crossed.pop() {
            if !self.named.contains(&name(&column)) {
                self.column(&column, Part::Cross);
            }
        }
        self.text
    }

    fn column(&mut self, column: &Value, part: Part) {
        let part_of = |deep: &str| match part {
            Part::Wide => "wide = true\ndeep = false\n".to_owned(),
            Part::Deep => format!("wide = false\ndeep = {deep}\n"),
            Part::Cross => "wide = false\ndeep = false\n".to_owned(),
        };
        match column["type"].as_str().unwrap() {
            "indicator_column" => self.plain(
                &column["categorical_column"],
                "wide = false\ndeep = { indicator = true }\n",
            ),
            "embedding_column" => {
                let deep = embedding(column, None);
                self.plain(&column["categorical_column"], &deep);
            }
            "shared_embedding_columns" | "shared_embeddings" => {
                let mut names: Vec<String> = list(&column["categorical_columns"])
                    .iter()
                    .map(name)
                    .collect();
                names.sort();
                let table = column["shared_embedding_collection_name"].as_str();
                let table = table.map_or_else(
                    || format!("{}_shared_embedding", names.join("_")),
                    str::to_owned,
                );
                for categorical in list(&column["categorical_columns"]) {
                    self.plain(categorical, &embedding(column, Some(&table)));
                }
            }
            _ => self.plain(column, &part_of("true")),
        }
    }

    /// Writes a column that is not wrapped. `parts` holds its `wide` and `deep` keys.
    fn plain(&mut self, column: &Value, parts: &str) {
        let (inner, weights) = match column["type"].as_str() {
            Some("weighted_categorical_column") => (
                &column["categorical_column"],
                column["weight_feature_key"].as_str(),
            ),
            _ => (column, None),
        };
        self.text.push_str("[[feature]]\n");
        let kind = inner["type"].as_str().unwrap();
        let key = |out: &mut String, ours: &str, theirs: &str| {
            if let Some(value) = inner.get(theirs).filter(|value| !value.is_null()) {
                let _ = writeln!(out, "{ours} = {}", toml(value));
            }
        };
        let integers = inner["dtype"]
            .as_str()
            .is_some_and(|dtype| dtype.starts_with("int"));
        match kind {
            "numeric_column" => {
                self.text.push_str("kind = \"numeric\"\n");
                self.numbers(inner);
            }
            "bucketized_column" => {
                self.text.push_str("kind = \"bucketized\"\n");
                key(&mut self.text, "boundaries", "boundaries");
                self.numbers(&inner["source_column"]);
            }
            "categorical_column_with_identity" => {
                self.text.push_str("kind = \"identity\"\n");
                key(&mut self.text, "column", "key");
                key(&mut self.text, "buckets", "num_buckets");
                key(&mut self.text, "default", "default_value");
            }
            "categorical_column_with_hash_bucket" => {
                let _ = writeln!(self.text, "kind = \"hashed\"\nintegers = {integers}");
                key(&mut self.text, "column", "key");
                key(&mut self.text, "buckets", "hash_bucket_size");
            }
            "categorical_column_with_vocabulary_list"
            | "categorical_column_with_vocabulary_file" => {
                let _ = writeln!(self.text, "kind = \"vocabulary\"\nintegers = {integers}");
                key(&mut self.text, "column", "key");
                key(&mut self.text, "values", "vocabulary_list");
                key(&mut self.text, "size", "vocabulary_size");
                key(&mut self.text, "default", "default_value");
                key(&mut self.text, "oov_buckets", "num_oov_buckets");
                if let Some(content) = inner["vocabulary_file_content"].as_str() {
                    let file = format!("{}.txt", self.named.len());
                    std::fs::write(self.folder.join(&file), content).unwrap();
                    let _ = writeln!(self.text, "file = \"{file}\"");
                }
            }
            "crossed_column" => {
                let keys: Vec<String> = list(&inner["keys"])
                    .iter()
                    .map(|key| self.cross_key(key))
                    .collect();
                let _ = writeln!(
                    self.text,
                    "kind = \"crossed\"\ncolumns = {}",
                    Value::from(keys)
                );
                key(&mut self.text, "buckets", "hash_bucket_size");
                key(&mut self.text, "hash_key", "hash_key");
            }
            other => panic!("no such column: {other}"),
        }
        if let Some(weights) = weights {
            let _ = writeln!(self.text, "weights = \"{weights}\"");
        }
        self.text.push_str(parts);
        self.named.push(name(column));
    }

    fn numbers(&mut self, column: &Value) {
        let _ = writeln!(self.text, "column = {}", toml(&column["key"]));
        if let Some(shape) = column.get("shape") {
            let _ = writeln!(self.text, "shape = {shape}");
        }
        if let Some(default) = column.get("default_value").filter(|value| !value.is_null()) {
            let _ = writeln!(self.text, "default = {}", toml(default));
        }
        if let Some(normalizer) = column.get("normalizer").filter(|value| !value.is_null()) {
            let mean = toml(&normalizer["sub"]);
            let stddev = toml(&normalizer["div"]);
            let _ = writeln!(
                self.text,
                "normalizer = \"standardize\"\nmean = {mean}\nstddev = {stddev}"
            );
        }
    }

    fn cross_key(&mut self, key: &Value) -> String {
        let Some(column) = key.as_str() else {
            self.crossed.push(key.clone());
            return match key["type"].as_str() {
                Some("crossed_column") => name(key),
                _ => format!("ids({})", name(key)),
            };
        };
        match self.features[column]["dtype"].as_str() {
            Some("string") | None => column.to_owned(),
            Some(_) => format!("int({column})"),
        }
    }
}

/// Returns TensorFlow's `.name` of a column that is not wrapped.
fn name(column: &Value) -> String {
    if let Some(key) = column.as_str() {
        return key.to_owned();
    }
    match column["type"].as_str().unwrap() {
        "bucketized_column" => format!("{}_bucketized", name(&column["source_column"])),
        "weighted_categorical_column" => {
            let weights = column["weight_feature_key"].as_str().unwrap();
            format!(
                "{}_weighted_by_{weights}",
                name(&column["categorical_column"])
            )
        }
        "crossed_column" => {
            let mut leaves = Vec::new();
            leaf_names(column, &mut leaves);
            leaves.sort();
            leaves.join("_X_")
        }
        _ => column["key"].as_str().unwrap().to_owned(),
    }
}

fn leaf_names(cross: &Value, out: &mut Vec<String>) {
    for key in list(&cross["keys"]) {
        match key["type"].as_str() {
            Some("crossed_column") => leaf_names(key, out),
            _ => out.push(name(key)),
        }
    }
}

fn embedding(column: &Value, table: Option<&str>) -> String {
    let mut deep = format!(
        "wide = false\ndeep = {{ embedding = {}",
        column["dimension"]
    );
    for key in ["combiner", "max_norm"] {
        if let Some(value) = column.get(key).filter(|value| !value.is_null()) {
            let _ = write!(deep, ", {key} = {}", toml(value));
        }
    }
    if let Some(table) = table {
        let _ = write!(deep, ", table = \"{table}\"");
    }
    deep + " }\n"
}

/// Writes an optimizer as a section.
pub(crate) fn optimizer(heading: &str, recorded: &Value) -> String {
    let class = recorded["class"].as_str().unwrap();
    let keras = class.contains("keras");
    let kind = match class.rsplit('.').next().unwrap() {
        "SGD" if recorded["args"].get("momentum").is_some() => "keras_momentum",
        "SGD" | "GradientDescentOptimizer" => "sgd",
        "Adagrad" | "AdagradOptimizer" => "adagrad",
        "Adam" | "AdamOptimizer" => "adam",
        "RMSprop" => "keras_rmsprop",
        "Ftrl" | "FtrlOptimizer" => "ftrl",
        other => panic!("no rule for {other}"),
    };
    let mut text = format!("[model.{heading}]\nkind = \"{kind}\"\n");
    for (name, value) in recorded["args"].as_object().unwrap() {
        let name = match name.as_str() {
            "beta_1" => "beta1",
            "beta_2" => "beta2",
            "rho" if keras => "decay",
            name => name,
        };
        let _ = writeln!(text, "{name} = {}", toml(value));
    }
    text
}
