//! Heads of a model: one, or one for each of several tasks.
//!
//! A custom model uses [`Heads`] as the premade ones do. Each task has its share of the logits, a label in a column of its own, and a
//! weight. A record whose label is missing does not count in the task: loss and metrics are those of the other records. Such a label is
//! NaN.

use std::collections::BTreeMap;
use std::ops::Range;

use trainyard_input::{Batch, Cells, Column, FieldKind, RowRule, Schema};
use trainyard_run_config::{Job, ModelConfig, TaskConfig};

use super::labels::LabelOfHead;
use super::{Head, HeadMetrics};
use crate::{Error, Prediction, Scores, want_example_weight};

/// The heads of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Heads {
    /// The head of a model of one task.
    One(Head),
    /// Those of several tasks, in the order of their logits.
    OfTasks(Vec<Task>),
}

/// A task of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    name: String,
    head: Head,
    /// Weight of its loss in the loss of the model.
    weight: f32,
    weight_column: Option<String>,
}

/// Fields of the labels, and of the weights of examples in single tasks.
#[derive(Debug, Clone)]
pub struct LabelFields {
    pub(crate) labels: Vec<usize>,
    pub(crate) weights: Vec<Option<usize>>,
}

/// Place of a task in the numbers of a record: its label and weight among those of all tasks, and its logits.
#[derive(Debug, Clone, Copy)]
struct Place {
    task: usize,
    tasks: usize,
    /// First logit of the task.
    begin: usize,
    /// Logits of the task.
    width: usize,
    /// Logits of all tasks.
    units: usize,
}

impl Place {
    /// Returns the places of tasks, each with its task.
    fn each(tasks: &[Task]) -> impl Iterator<Item = (Self, &Task)> {
        let units = tasks.iter().map(|task| task.head.units()).sum();
        let mut end = 0;
        tasks.iter().enumerate().map(move |(place, task)| {
            let width = task.head.units();
            let begin = end;
            end += width;
            let place = Self {
                task: place,
                tasks: tasks.len(),
                begin,
                width,
                units,
            };
            (place, task)
        })
    }

    /// Returns the range of the task's logits of a record.
    fn logits(self, row: usize) -> Range<usize> {
        let begin = row * self.units + self.begin;
        begin..begin + self.width
    }

    /// Returns the records of a batch that have the label of the task.
    fn labelled(self, logits: &[f32], labels: &[f32], weights: Option<&[f32]>) -> Labelled {
        let of_task = |numbers: &[f32], row: &usize| numbers[row * self.tasks + self.task];
        let rows = 0..labels.len() / self.tasks;
        let rows: Vec<usize> = rows.filter(|row| !of_task(labels, row).is_nan()).collect();
        let logits = rows.iter().flat_map(|row| &logits[self.logits(*row)]);
        let weights = weights.map(|weights| rows.iter().map(|row| of_task(weights, row)).collect());
        Labelled {
            logits: logits.copied().collect(),
            labels: rows.iter().map(|row| of_task(labels, row)).collect(),
            weights,
            rows,
        }
    }
}

/// The records of a batch that have the label of a task.
struct Labelled {
    /// Their indices.
    rows: Vec<usize>,
    logits: Vec<f32>,
    labels: Vec<f32>,
    weights: Option<Vec<f32>>,
}

impl Task {
    fn new(model: &ModelConfig, task: &TaskConfig) -> Self {
        Self {
            name: task.name.clone(),
            head: Head::new(&model.of_task(task), &task.label),
            weight: task.weight,
            weight_column: task.weight_column.clone(),
        }
    }

    /// Returns the name of a metric or a prediction of the task.
    fn name_of(&self, key: &str) -> String {
        format!("{}/{key}", self.name)
    }
}

/// A head, and the text before the names of its predictions.
#[derive(Debug)]
pub(crate) struct NamedHead<'a> {
    pub(crate) head: &'a Head,
    pub(crate) before: String,
}

impl Heads {
    /// Returns the heads of a job's model.
    pub fn new(job: &Job) -> Self {
        let model = &job.model;
        if !model.kind.has_tasks() {
            return Self::One(Head::new(model, &job.input.label));
        }
        let tasks = model.tasks.iter();
        Self::OfTasks(tasks.map(|task| Task::new(model, task)).collect())
    }

    /// Returns whether the model has one task.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Returns the heads, each with the text before the names of its predictions: `task/`, or none in a model of one task.
    pub(crate) fn named(&self) -> Vec<NamedHead<'_>> {
        let named = |before, head| NamedHead { head, before };
        match self {
            Self::One(head) => vec![named(String::new(), head)],
            Self::OfTasks(tasks) => {
                let tasks = tasks.iter();
                tasks
                    .map(|task| named(task.name_of(""), &task.head))
                    .collect()
            }
        }
    }

    /// Returns the number of logits of each head.
    pub fn units_of_each(&self) -> Vec<usize> {
        match self {
            Self::One(head) => vec![head.units()],
            Self::OfTasks(tasks) => tasks.iter().map(|task| task.head.units()).collect(),
        }
    }

    /// Returns the number of logits of a record.
    pub fn units(&self) -> usize {
        match self {
            Self::One(head) => head.units(),
            Self::OfTasks(tasks) => tasks.iter().map(|task| task.head.units()).sum(),
        }
    }

    /// Adds the labels, and the weights of single tasks, to the wanted columns. Returns their fields.
    pub fn want(&self, schema: &mut Schema) -> LabelFields {
        let tasks = match self {
            Self::One(head) => {
                return LabelFields {
                    labels: vec![head.want(schema)],
                    weights: vec![None],
                };
            }
            Self::OfTasks(tasks) => tasks,
        };
        let labels: Vec<usize> = tasks
            .iter()
            .map(|task| task.head.want_if_present(schema))
            .collect();
        let fields = labels.clone();
        schema.require(labels[0], SomeLabel { fields });
        let weights = tasks.iter().map(|task| {
            let column = task.weight_column.as_ref();
            column.map(|column| want_example_weight(schema, column))
        });
        LabelFields {
            weights: weights.collect(),
            labels,
        }
    }

    /// Reads the labels of a batch: those of a head, or for each record one of each task, NaN where it is missing.
    ///
    /// # Errors
    /// A label is unknown to its head, or out of range.
    pub fn labels(&self, batch: &Batch, fields: &LabelFields) -> Result<Vec<f32>, Error> {
        match self {
            Self::One(head) => head.labels(batch, fields.labels[0]),
            Self::OfTasks(tasks) => {
                let mut out = vec![f32::NAN; batch.rows * tasks.len()];
                for (place, task) in tasks.iter().enumerate() {
                    let labels = task.head.labels_if_present(batch, fields.labels[place])?;
                    let places = out[place..].iter_mut().step_by(tasks.len());
                    places.zip(labels).for_each(|(out, label)| *out = label);
                }
                Ok(out)
            }
        }
    }

    /// Returns the weights of a batch's examples, given those of `input.weight_column`: one for each record, or in several tasks
    /// one for each record and task.
    pub fn weights(
        &self,
        batch: &Batch,
        fields: &LabelFields,
        weights: Option<Vec<f32>>,
    ) -> Option<Vec<f32>> {
        let Self::OfTasks(tasks) = self else {
            return weights;
        };
        if weights.is_none() && fields.weights.iter().all(Option::is_none) {
            return None;
        }
        let of_task = |row: usize, field: &Option<usize>| {
            let cells = field.map(|field| &batch.columns[field].cells);
            match cells {
                Some(Cells::Float(weights)) => weights[row],
                _ => 1.0,
            }
        };
        let mut out = Vec::with_capacity(batch.rows * tasks.len());
        for row in 0..batch.rows {
            let weight = weights.as_ref().map_or(1.0, |weights| weights[row]);
            let each = fields.weights.iter();
            out.extend(each.map(|field| weight * of_task(row, field)));
        }
        Some(out)
    }

    /// Writes the gradient of the loss with respect to each logit, and returns the loss: that of the head, or the sum of weight
    /// times loss of the tasks.
    pub fn loss(
        &self,
        logits: &[f32],
        labels: &[f32],
        weights: Option<&[f32]>,
        delta: &mut Vec<f32>,
    ) -> f64 {
        let tasks = match self {
            Self::One(head) => return head.loss(logits, labels, weights, delta),
            Self::OfTasks(tasks) => tasks,
        };
        delta.clear();
        delta.resize(logits.len(), 0.0);
        let mut sum = 0.0;
        let mut of_task = Vec::new();
        for (place, task) in Place::each(tasks) {
            let found = place.labelled(logits, labels, weights);
            let weights = found.weights.as_deref();
            let loss = task
                .head
                .loss(&found.logits, &found.labels, weights, &mut of_task);
            sum += f64::from(task.weight) * loss;
            for (row, of_task) in found.rows.iter().zip(of_task.chunks_exact(place.width)) {
                let delta = &mut delta[place.logits(*row)];
                for (delta, gradient) in delta.iter_mut().zip(of_task) {
                    *delta = task.weight * gradient;
                }
            }
        }
        sum
    }

    /// Returns the metrics of no record, for each head.
    pub fn metrics(&self) -> Vec<HeadMetrics> {
        vec![HeadMetrics::default(); self.units_of_each().len()]
    }

    /// Adds a batch to the metrics. `groups` holds the group of each record, in a model of one task.
    pub fn add(
        &self,
        metrics: &mut [HeadMetrics],
        logits: &[f32],
        labels: &[f32],
        weights: Option<&[f32]>,
        groups: Option<&[u64]>,
    ) {
        let tasks = match self {
            Self::One(head) => return metrics[0].add(head, logits, labels, weights, groups),
            Self::OfTasks(tasks) => tasks,
        };
        for ((place, task), metrics) in Place::each(tasks).zip(metrics) {
            let found = place.labelled(logits, labels, weights);
            if !found.rows.is_empty() {
                let weights = found.weights.as_deref();
                metrics.add(&task.head, &found.logits, &found.labels, weights, None);
            }
        }
    }

    /// Returns the metrics so far: those of the head, or those of the tasks by `task/metric`, and `loss` and `average_loss` of the
    /// model, the sums of weight times that of the task. A task without records, or of weight 0 in all of them, has
    /// none, and does not count.
    pub fn scores(&self, metrics: &[HeadMetrics]) -> Scores {
        let tasks = match self {
            Self::One(head) => return metrics[0].scores(head),
            Self::OfTasks(tasks) => tasks,
        };
        let is_empty = !metrics.iter().any(HeadMetrics::has_records);
        let mut scores = Scores::new();
        for (task, metrics) in tasks.iter().zip(metrics) {
            if !is_empty && !metrics.has_records() {
                continue;
            }
            for (name, value) in metrics.scores(&task.head) {
                if name == "loss" || name == "average_loss" {
                    *scores.entry(name.clone()).or_default() += f64::from(task.weight) * value;
                }
                scores.insert(task.name_of(&name), value);
            }
        }
        scores
    }

    /// Returns an example's predictions: those of the head by TensorFlow's keys, or those of the tasks by `task/key`.
    pub fn predict(&self, logits: &[f32]) -> BTreeMap<String, Prediction> {
        let tasks = match self {
            Self::One(head) => return head.predict(logits),
            Self::OfTasks(tasks) => tasks,
        };
        let mut rest = logits;
        let mut out = BTreeMap::new();
        for task in tasks {
            let (of_task, others) = rest.split_at(task.head.units());
            rest = others;
            let predictions = task.head.predict(of_task).into_iter();
            out.extend(predictions.map(|(key, value)| (task.name_of(&key), value)));
        }
        out
    }
}

impl Head {
    /// Adds the label of a task to the wanted columns, with the rule that the head knows it if it is there, and returns its
    /// index.
    fn want_if_present(&self, schema: &mut Schema) -> usize {
        let kind = match self.field_kind() {
            FieldKind::Float {
                width, separator, ..
            } => FieldKind::Float {
                default: Some(vec![f32::NAN; width]),
                width,
                separator,
            },
            other => other,
        };
        let field = schema.want(&self.label_column, kind);
        let rule = LabelOfHead {
            head: self.clone(),
            field,
        };
        schema.require(field, IfPresent { field, rule });
        field
    }

    /// Reads the labels of a task, NaN where they are missing.
    fn labels_if_present(&self, batch: &Batch, field: usize) -> Result<Vec<f32>, Error> {
        let column = &batch.columns[field];
        let label = |row| {
            if is_missing(column, row) {
                return Ok(f32::NAN);
            }
            self.label(column, row).map_err(|why| self.wrong(why))
        };
        (0..batch.rows).map(label).collect()
    }
}

/// Returns whether the label of a task is missing.
fn is_missing(column: &Column, row: usize) -> bool {
    match &column.cells {
        Cells::Float(values) => values[row].is_nan(),
        Cells::Bytes(texts) => texts.get(row).is_empty(),
        Cells::Int(_) => false,
    }
}

/// The rule that a field holds a label of a head, or none.
#[derive(Debug)]
struct IfPresent {
    field: usize,
    rule: LabelOfHead,
}

impl RowRule for IfPresent {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        if is_missing(&batch.columns[self.field], row) {
            return Ok(());
        }
        self.rule.check(batch, row)
    }
}

/// The rule that a record has the label of at least one task.
#[derive(Debug)]
struct SomeLabel {
    fields: Vec<usize>,
}

impl RowRule for SomeLabel {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        let is_missing = |field: &usize| is_missing(&batch.columns[*field], row);
        if self.fields.iter().all(is_missing) {
            return Err("the labels of all tasks are missing".to_owned());
        }
        Ok(())
    }
}
