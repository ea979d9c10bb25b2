//! `[[model.task]]`: the tasks of a model, each with a label, a head and a weight.

use trainyard_diagnostic::{Bound, Code, Section, Takes, section};

use super::input::{SEPARATOR, check_texts, duplicate};
use super::model::CLASSES_MAX;
use crate::metric::is_metric;
use crate::{EvaluationConfig, HeadKind, LabelConfig, TaskConfig};

/// Most tasks of a model.
const TASKS_MAX: usize = 64;
/// Longest name of a task, in bytes.
const NAME_BYTES_MAX: usize = 64;

section! {
    /// Keys of `[[model.task]]`.
    #[derive(Debug)]
    pub(crate) struct TaskKeys {
        /// name of the task, before those of its metrics and predictions: `click/auc`, `click/probabilities`. Letters, digits, `_` and `-`
        name: Option<String> = nonempty_text().required_or_invalid("\"click\"");
        /// its label: `column`, and `positive` or `vocabulary`, which mean what they mean in `input.label`. The job has no `input.label`.
        /// A record whose label is missing does not count in the task
        label: Option<LabelConfig> = custom(read_task_label, label_takes, "").required_or_invalid("{ column = \"click\" }");
        /// `binary` `multi_class` `regression` `poisson` `logistic_regression`
        head: Option<HeadKind> = choice("head", &HeadKind::OF_TASKS).required_or_invalid("\"binary\"");
        /// `multi_class`: number of classes
        n_classes: Option<usize> = integer(2..=CLASSES_MAX).optional("the length of the label's vocabulary");
        /// weight of the task's loss in the loss of the model
        weight: f32 = single(Bound::Positive).or(1.0);
        /// column of the examples' weights in this task, times that of `input.weight_column`
        weight_column: Option<String> = text().optional("none");
    }
}

section! {
    /// Keys of the label of a task.
    #[derive(Debug)]
    pub(crate) struct TaskLabelKeys {
        /// column of the label
        column: Option<String> = nonempty_text().required_or_invalid("\"click\"");
        /// text of the positive class of a binary task; a trailing `*` matches any ending
        positive: Option<String> = text().optional("the label is 0 or 1");
        /// texts of the classes, in class order
        vocabulary: Option<Vec<String>> = texts().optional("the label is a class number");
    }
}

fn label_takes() -> Takes {
    Takes::Table(TaskLabelKeys::keys())
}

fn read_task_label(section: &Section<'_>, key: &'static str) -> Option<LabelConfig> {
    let section = section.section(key)?;
    let keys = TaskLabelKeys::read_keys(&section)?;
    check_texts(&section, keys.positive.as_ref(), keys.vocabulary.as_ref());
    section.finish();
    Some(LabelConfig {
        column: keys.column?,
        positive: keys.positive,
        vocabulary: keys.vocabulary,
        separator: SEPARATOR,
    })
}

pub(super) fn tasks_taken() -> Takes {
    Takes::Tables(TaskKeys::keys())
}

/// Reads the tasks, and reports all mistakes.
pub(super) fn read_tasks(model: &Section<'_>, key: &'static str) -> Option<Vec<TaskConfig>> {
    let sections = model.sections(key);
    let count = sections.len();
    let tasks: Vec<TaskConfig> = sections.into_iter().filter_map(read).collect();
    if !(1..=TASKS_MAX).contains(&count) {
        let message = format!("a model has 1 to {TASKS_MAX} tasks, given {count}");
        model.fail(Code::E1002, key, message);
        return None;
    }
    let names: Vec<String> = tasks.iter().map(|task| task.name.clone()).collect();
    if let Some(twice) = duplicate(&names) {
        let message = format!("tasks must have unique names, `{twice}` is given twice");
        model.fail(Code::E1002, key, message);
    }
    (tasks.len() == count).then_some(tasks)
}

fn read(section: Section<'_>) -> Option<TaskConfig> {
    let keys = TaskKeys::read_keys(&section)?;
    if let Some(name) = &keys.name {
        check_name(&section, name);
    }
    let classes = match (&keys.label, keys.head) {
        (Some(label), Some(head)) => classes(&section, label, head, keys.n_classes),
        _ => None,
    };
    section.finish();
    Some(TaskConfig {
        name: keys.name?,
        label: keys.label?,
        head: keys.head?,
        n_classes: classes?,
        weight: keys.weight,
        weight_column: keys.weight_column,
    })
}

fn check_name(section: &Section<'_>, name: &str) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
        let message = format!(
            "task.name must be letters, digits, `_` and `-`, at most {NAME_BYTES_MAX}, given `{}`",
            name.escape_default()
        );
        section.fail(Code::E1002, "name", message);
    } else if is_metric(name) {
        let message =
            format!("task.name must not be the name of a metric, which follows it, given `{name}`");
        section.fail(Code::E1002, "name", message);
    }
}

/// Returns the number of classes, and reports a label or a number that the head does not have.
fn classes(
    section: &Section<'_>,
    label: &LabelConfig,
    head: HeadKind,
    given: Option<usize>,
) -> Option<usize> {
    let named = label.vocabulary.as_ref().map(Vec::len);
    let name = head.name();
    if given.is_some() && head != HeadKind::MultiClass {
        let message = format!("n_classes has no meaning for a {name} head");
        section.fail(Code::E1006, "n_classes", message);
    }
    if label.positive.is_some() && head != HeadKind::Binary {
        let message = format!("label.positive has no meaning for a {name} head");
        section.fail(Code::E1006, "label", message);
    }
    match (head, named, given) {
        (HeadKind::Binary, None | Some(2), _) => Some(2),
        (HeadKind::Binary, Some(count), _) => {
            let message = format!("a binary head has 2 classes, given {count}");
            section.fail(Code::E1006, "label", message);
            None
        }
        (HeadKind::MultiClass, Some(named), Some(given)) if named != given => {
            let message = format!("label.vocabulary names {named} classes, n_classes says {given}");
            section.fail(Code::E1006, "n_classes", message);
            None
        }
        (HeadKind::MultiClass, None, None) => {
            let message = "a multi_class head needs n_classes, or label.vocabulary";
            section.fail(Code::E1005, "head", message);
            None
        }
        (HeadKind::MultiClass, named, given) => named.or(given),
        (_, Some(_), _) => {
            let message = format!("label.vocabulary has no meaning for a {name} head");
            section.fail(Code::E1006, "label", message);
            None
        }
        (_, None, _) => Some(1),
    }
}

/// Refuses tasks that ESMM does not have: it predicts a click, and a click with a conversion.
pub(super) fn check_esmm(model: &Section<'_>, tasks: &[TaskConfig]) {
    let is_binary = |task: &TaskConfig| task.head == HeadKind::Binary;
    if tasks.len() != 2 || !tasks.iter().all(is_binary) {
        let heads: Vec<&str> = tasks.iter().map(|task| task.head.name()).collect();
        let message = format!(
            "esmm has 2 tasks of binary heads, the click and the click with a conversion, given {} ({})",
            tasks.len(),
            heads.join(", ")
        );
        model.fail(Code::E1006, "task", message);
    }
}

/// Refuses an evaluation of a task's name: both come before the names of metrics.
pub(crate) fn check_evaluations(
    root: &Section<'_>,
    tasks: &[TaskConfig],
    evaluations: &[EvaluationConfig],
) {
    let is_task = |one: &&EvaluationConfig| tasks.iter().any(|task| task.name == one.name);
    if let Some(both) = evaluations.iter().find(is_task) {
        let message = format!(
            "`{}` is the name of a task and of an evaluation, and both come before the names of metrics",
            both.name
        );
        root.fail(Code::E1006, "evaluation", message);
    }
}

/// Refuses groups in a model of several tasks.
pub(crate) fn refuse_groups(root: &Section<'_>) {
    if let Some(eval) = root.section("eval")
        && eval.node("group_auc_column").is_some()
    {
        let message = "group_auc_column has no meaning for a model of several tasks: it reports no metric of groups";
        eval.fail(Code::E1006, "group_auc_column", message);
    }
}
