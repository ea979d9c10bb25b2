//! What a client has to know of a model beyond the types of its columns and keys: units, listed values, and the classes.

use std::collections::BTreeMap;

use trainyard_diagnostic::listed;
use trainyard_model::Prediction;
use trainyard_run_config::{
    FeatureConfig, FeatureKind, Format, IndexBase, Job, LabelConfig, Numbers, TimePart,
};

use crate::json::write_text;

/// Most values of a vocabulary that are named.
const VALUES_MAX: usize = 5;

/// Descriptions of columns and keys, and the names of the classes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// By column.
    pub(crate) inputs: BTreeMap<String, String>,
    /// By key.
    pub(crate) outputs: BTreeMap<String, String>,
    /// By task; the name of a lone one is empty.
    classes: BTreeMap<String, Vec<String>>,
}

impl About {
    /// Describes the model of a job, which has made this prediction.
    pub(crate) fn of(job: &Job, row: &BTreeMap<String, Prediction>) -> Self {
        let mut about = Self::default();
        for feature in &job.features {
            about.add_feature(feature, job.input.format);
        }
        for (key, values) in row {
            let (task, key) = key.rsplit_once('/').unwrap_or(("", key));
            if let ("all_classes", Prediction::Texts(names)) = (key, values) {
                about.classes.insert(task.to_owned(), names.clone());
            }
        }
        for key in row.keys() {
            let (task, name) = key.rsplit_once('/').unwrap_or(("", key));
            let of_task = job.model.tasks.iter().find(|one| one.name == task);
            let label = of_task.map_or(&job.input.label, |task| &task.label);
            let classes = about.classes.get(task);
            if let Some(text) = classes.and_then(|classes| output(name, classes, label)) {
                about.outputs.insert(key.clone(), text);
            }
        }
        about
    }

    fn add_feature(&mut self, feature: &FeatureConfig, format: Format) {
        let (column, text) = match &feature.kind {
            FeatureKind::Numeric(numbers) | FeatureKind::Bucketized { numbers, .. } => {
                if let Some(operand) = &numbers.operand {
                    self.add(operand.column(), number(numbers));
                }
                (&numbers.column, number(numbers))
            }
            FeatureKind::Vocabulary {
                column,
                values,
                integers,
                ..
            } => {
                let first: Vec<String> = values
                    .iter()
                    .take(VALUES_MAX)
                    .map(|value| format!("`{value}`"))
                    .collect();
                let what = if *integers { "whole numbers" } else { "texts" };
                let count = values.len();
                let which = if count > first.len() {
                    "the first are"
                } else {
                    "they are"
                };
                let text = format!("one of {count} {what}; {which} {}", first.join(", "));
                (column, text)
            }
            FeatureKind::Identity {
                column, buckets, ..
            } => {
                // Requests count the indices of libsvm as its files do.
                let first = match format {
                    Format::LibSvm(IndexBase::One) if column == "index" => 1,
                    _ => 0,
                };
                let last = u64::from(*buckets) - 1 + first;
                (column, format!("a whole number from {first} to {last}"))
            }
            FeatureKind::Hashed {
                column, integers, ..
            }
            | FeatureKind::Dynamic {
                column, integers, ..
            } => {
                let what = if *integers { "whole number" } else { "text" };
                (column, format!("any {what}"))
            }
            FeatureKind::Crossed { .. } => return,
        };
        self.add(column, text);
    }

    /// Adds what one of the features of a column takes.
    fn add(&mut self, column: &str, text: String) {
        let known = self.inputs.entry(column.to_owned()).or_default();
        if known.split(" | ").any(|one| one == text) {
            return;
        }
        if !known.is_empty() {
            known.push_str(" | ");
        }
        known.push_str(&text);
    }

    /// Returns JSON members, each after a comma: descriptions of columns and keys, and the classes.
    pub(crate) fn members(&self) -> String {
        let mut text = String::new();
        for (name, all) in [("inputs", &self.inputs), ("outputs", &self.outputs)] {
            let described = all.iter().map(|(name, description)| {
                let mut one = String::new();
                write_text(&mut one, name);
                one.push_str(":{\"description\":");
                write_text(&mut one, description);
                one.push('}');
                one
            });
            let described = described.collect::<Vec<_>>().join(",");
            text.push_str(&format!(",\"{name}\":{{{described}}}"));
        }
        for (task, names) in &self.classes {
            let key = |what: &str| match task.as_str() {
                "" => what.to_owned(),
                task => format!("{task}/{what}"),
            };
            text.push(',');
            write_text(&mut text, &key("n_classes"));
            text.push_str(&format!(":{},", names.len()));
            write_text(&mut text, &key("classes"));
            let quoted = names.iter().map(|name| {
                let mut one = String::new();
                write_text(&mut one, name);
                one
            });
            text.push_str(&format!(":[{}]", quoted.collect::<Vec<_>>().join(",")));
        }
        text
    }
}

/// Describes the numbers of a feature.
fn number(numbers: &Numbers) -> String {
    let text = match numbers.time {
        Some(time) => {
            let part = match time.part {
                TimePart::Hour => "hour of the day",
                TimePart::Weekday => "day of the week",
            };
            format!(
                "a time, as a whole number of {} since 1970 in UTC: the model takes its {part}",
                time.unit.name()
            )
        }
        None if numbers.width > 1 => format!("{} numbers", numbers.width),
        None => "a number".to_owned(),
    };
    match numbers.default {
        Some(_) => text,
        None => text + "; it must be there",
    }
}

/// Describes a key of predictions of classes.
fn output(key: &str, classes: &[String], label: &LabelConfig) -> Option<String> {
    let positive = label.positive.as_ref().map_or(String::new(), |text| {
        format!(", `{text}` in the training data")
    });
    match key {
        "probabilities" => Some(format!(
            "a number for each of {} classes, in this order: {}",
            classes.len(),
            listed(classes)
        )),
        "logistic" => Some(format!("the probability of the class 1{positive}")),
        "class_ids" => Some("the number of the most probable class, from 0".to_owned()),
        "classes" => Some("the name of the most probable class".to_owned()),
        "all_class_ids" => Some("the numbers of all classes, in their order".to_owned()),
        "all_classes" => Some("the names of all classes, in their order".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn ids_of_libsvm_are_told_as_its_files_count_them() {
        let told = |format: &str| {
            let text = format!(
                "model_dir = \"m\"\n[input]\n{format}\nlabel = {{ column = \"label\" }}\ntrain = {{ files = [\"a\"], epochs = 1 }}\n\
                 [[feature]]\ncolumn = \"index\"\nkind = \"identity\"\nbuckets = 7\nseparator = \" \"\n\
                 [model]\nkind = \"linear_classifier\"\n"
            );
            let job = Job::parse(Path::new("job.toml"), &text, &[]).expect("the job is good");
            About::of(&job, &BTreeMap::new()).inputs["index"].clone()
        };
        for (format, expected) in [
            ("format = \"libsvm\"", "a whole number from 1 to 7"),
            (
                "format = \"libsvm\"\nindex_base = 0",
                "a whole number from 0 to 6",
            ),
            ("format = \"csv\"", "a whole number from 0 to 6"),
        ] {
            assert_eq!(told(format), expected, "{format}");
        }
    }

    #[test]
    fn units_values_and_classes_are_told_to_a_client_that_has_no_job_file() {
        let text = r#"
            model_dir = "m"
            input = { label = { column = "y", positive = "yes" }, train = { files = ["a.csv"], epochs = 1 } }
            model = { kind = "linear_classifier" }
            [[feature]]
            column = "at"
            kind = "bucketized"
            time = "hour"
            time_unit = "milliseconds"
            boundaries = [6, 12]
            [[feature]]
            column = "color"
            kind = "vocabulary"
            values = ["red", "green"]
            [[feature]]
            column = "age"
            kind = "numeric"
            default = 0.0
        "#;
        let job = Job::parse(Path::new("job.toml"), text, &[]).expect("the job is good");
        let names = ["0", "1"].map(str::to_owned).to_vec();
        let row = BTreeMap::from([
            ("all_classes".to_owned(), Prediction::Texts(names)),
            ("logistic".to_owned(), Prediction::Floats(vec![0.5])),
            ("logits".to_owned(), Prediction::Floats(vec![0.0])),
        ]);
        let about = About::of(&job, &row);
        assert_eq!(
            about.inputs["at"],
            "a time, as a whole number of milliseconds since 1970 in UTC: the model takes its hour of the day; it must be there"
        );
        assert_eq!(
            about.inputs["color"],
            "one of 2 texts; they are `red`, `green`"
        );
        assert_eq!(about.inputs["age"], "a number");
        assert_eq!(
            about.outputs["logistic"],
            "the probability of the class 1, `yes` in the training data"
        );
        let members = about.members();
        assert!(
            members.contains(r#""n_classes":2,"classes":["0","1"]"#),
            "{members}"
        );
    }
}
