//! Detects that all labels of a task are the same. Nothing is learned from a single class, and the loss does not show
//! it.

use trainyard_input::{Batch, Cells, Schema};
use trainyard_run_config::{Job, LabelConfig};

/// Number of records with one label after which a warning is given. A class with a share of one in a thousand has about
/// ten records by then.
const RECORDS: u64 = 10_000;

/// A label, in the form in which the model distinguishes labels.
#[derive(Debug, Clone, PartialEq)]
enum Label {
    IsPositive(bool),
    Number(f32),
    Whole(i64),
    Text(Vec<u8>),
}

/// Checks labels until two of them differ, or the warning has been given.
#[derive(Debug)]
pub(crate) struct LabelWatch {
    label: LabelConfig,
    /// Key of the job that has the label.
    key: &'static str,
    /// Index of the label in a batch; absent once the check has ended.
    field: Option<usize>,
    seen: Option<Label>,
    records: u64,
}

impl LabelWatch {
    /// Returns the checks of the labels of a job, one for each task of the model.
    pub(crate) fn of(job: &Job, schema: &Schema) -> Vec<Self> {
        let key = if job.model.tasks.is_empty() {
            "input.label"
        } else {
            "the label of [[model.task]]"
        };
        let labels = job.labels().into_iter();
        labels
            .map(|(label, _)| Self::new(label.clone(), key, schema))
            .collect()
    }

    fn new(label: LabelConfig, key: &'static str, schema: &Schema) -> Self {
        // A feature of the same column may come first, with another type.
        let field = schema
            .fields
            .iter()
            .rposition(|field| field.name == label.column);
        Self {
            label,
            key,
            field,
            seen: None,
            records: 0,
        }
    }

    /// Checks a batch. Returns the warning, once.
    pub(crate) fn see(&mut self, batch: &Batch) -> Option<String> {
        let column = batch.columns.get(self.field?)?;
        if column.offsets.is_some() {
            // Records have several labels each.
            self.field = None;
            return None;
        }
        let mut missing = 0;
        for place in 0..column.cells.len() {
            let label = match &column.cells {
                // The label of one of several tasks is missing.
                Cells::Float(values) if values[place].is_nan() => {
                    missing += 1;
                    continue;
                }
                Cells::Bytes(texts) if texts.get(place).is_empty() => {
                    missing += 1;
                    continue;
                }
                Cells::Float(values) => Label::Number(values[place]),
                Cells::Int(values) => Label::Whole(values[place]),
                Cells::Bytes(texts) => self.of_text(texts.get(place)),
            };
            if *self.seen.get_or_insert_with(|| label.clone()) != label {
                self.field = None;
                return None;
            }
        }
        self.records += (batch.rows as u64).saturating_sub(missing);
        if self.records < RECORDS {
            return None;
        }
        self.field = None;
        let column = &self.label.column;
        let what = match self.seen.take()? {
            Label::IsPositive(true) => format!("`{}`, the positive class", self.positive()),
            Label::IsPositive(false) => format!("not `{}`, the positive class", self.positive()),
            Label::Number(number) => number.to_string(),
            Label::Whole(number) => number.to_string(),
            Label::Text(text) => format!("`{}`", String::from_utf8_lossy(&text).escape_debug()),
        };
        Some(format!(
            "all labels of the first {} records are {what}: a model learns nothing from equal \
            labels. Check {} and the column `{column}`, and whether the files are \
            sorted by it",
            self.records, self.key
        ))
    }

    fn positive(&self) -> &str {
        self.label.positive.as_deref().unwrap_or_default()
    }

    fn of_text(&self, text: &[u8]) -> Label {
        match self.label.positive.as_deref() {
            None => Label::Text(text.to_vec()),
            Some(positive) => Label::IsPositive(match positive.strip_suffix('*') {
                Some(beginning) => text.starts_with(beginning.as_bytes()),
                None => text == positive.as_bytes(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use trainyard_input::{Bytes, Column, FieldKind};

    use super::*;

    fn watch(label: &str, kind: FieldKind) -> LabelWatch {
        let text = format!(
            "model_dir = \"m\"\n[input]\nlabel = {label}\ntrain = {{ files = [\"a.csv\"], epochs = 1 }}\n\
             [[feature]]\ncolumn = \"x\"\nkind = \"numeric\"\n[model]\nkind = \"linear_classifier\"\n"
        );
        let job = Job::parse(std::path::Path::new("job.toml"), &text, &[]).expect("a job");
        let mut schema = Schema::default();
        schema.want("x", FieldKind::FLOAT);
        schema.want("y", kind);
        LabelWatch::of(&job, &schema).remove(0)
    }

    fn batch(labels: Column, rows: usize) -> Batch {
        Batch {
            rows,
            columns: vec![Column::floats(vec![0.0; rows]), labels],
            ..Batch::default()
        }
    }

    fn texts(texts: &[&str], rows: usize) -> Batch {
        let mut bytes = Bytes::default();
        (0..rows).for_each(|row| bytes.push(texts[row % texts.len()].as_bytes()));
        batch(Column::bytes(bytes), rows)
    }

    #[test]
    fn a_positive_class_that_never_comes_is_warned_of_once_after_ten_thousand_records() {
        let mut watch = watch("{ column = \"y\", positive = \">50k\" }", FieldKind::BYTES);
        let batch = texts(&["<=50K", ">50K"], 5000);
        assert_eq!(watch.see(&batch), None);
        let told = watch.see(&batch).expect("a warning");
        assert!(
            told.starts_with(
                "all labels of the first 10000 records are not `>50k`, the positive class"
            ),
            "{told}"
        );
        assert_eq!(watch.see(&batch), None);
    }

    #[test]
    fn labels_that_differ_are_looked_at_no_longer() {
        let mut watch = watch("{ column = \"y\", positive = \">50*\" }", FieldKind::BYTES);
        assert_eq!(watch.see(&texts(&["<=50K", ">50K."], 10)), None);
        assert_eq!(watch.see(&texts(&["<=50K"], 20_000)), None);
    }

    #[test]
    fn a_missing_label_of_a_task_is_no_label() {
        let mut watch = watch("{ column = \"y\" }", FieldKind::FLOAT);
        let labels = |missing: usize| {
            let rows = (0..10_000).map(|row| if row < missing { f32::NAN } else { 1.0 });
            batch(Column::floats(rows.collect()), 10_000)
        };
        assert_eq!(watch.see(&labels(1)), None);
        let told = watch.see(&labels(0)).expect("a warning");
        assert!(told.starts_with("all labels of the first 19999"), "{told}");
    }

    #[test]
    fn numbers_of_one_value_are_warned_of() {
        let mut watch = watch("{ column = \"y\" }", FieldKind::FLOAT);
        let told = watch
            .see(&batch(Column::floats(vec![1.0; 10_000]), 10_000))
            .expect("a warning");
        assert!(
            told.contains("are 1: a model learns nothing from equal labels"),
            "{told}"
        );
    }
}
