//! Classes and numbers among the predictions of a row, by the keys of Estimator's heads.

use std::collections::BTreeMap;

use trainyard_model::Prediction;

use crate::Error;
use crate::signature::Signature;

/// Keys of the names of all classes, the first one before the second.
const CLASSES: [&str; 2] = ["all_classes", "classes"];
/// Key of the scores of all classes.
const SCORES: &str = "probabilities";
/// Keys of the number of a row, the first one before the second.
const NUMBERS: [&str; 2] = ["predictions", "logistic"];

/// Classes of a row, and their scores in the same order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Classes<'a> {
    pub(crate) names: &'a [String],
    pub(crate) scores: &'a [f32],
}

/// Returns the classes of a row.
///
/// # Errors
/// The model has no classes.
pub(crate) fn classes(row: &BTreeMap<String, Prediction>) -> Result<Classes<'_>, Error> {
    let names = CLASSES.iter().find_map(|key| row.get(*key));
    match (names, row.get(SCORES)) {
        (Some(Prediction::Texts(names)), Some(Prediction::Floats(scores))) => {
            Ok(Classes { names, scores })
        }
        _ if has_tasks(row) => Err(of_several_tasks("classify")),
        _ => Err(Error::Request(
            "the model has no classes: use regress or predict".to_owned(),
        )),
    }
}

/// Returns the number of a row; several, if the label has several dimensions.
///
/// # Errors
/// The model does not predict a number.
pub(crate) fn numbers(row: &BTreeMap<String, Prediction>) -> Result<&[f32], Error> {
    match NUMBERS.iter().find_map(|key| row.get(*key)) {
        Some(Prediction::Floats(values)) => Ok(values),
        _ if has_tasks(row) => Err(of_several_tasks("regress")),
        _ => Err(Error::Request(
            "the model does not predict a number: use classify or predict".to_owned(),
        )),
    }
}

/// Returns whether the predictions of a row are those of several tasks, `task/key`.
fn has_tasks(row: &BTreeMap<String, Prediction>) -> bool {
    row.keys().any(|key| key.contains('/'))
}

fn of_several_tasks(method: &str) -> Error {
    Error::Request(format!(
        "the model has several tasks, and {method} has one result: use predict"
    ))
}

/// Returns whether the rows of a model have classes.
pub(crate) fn has_classes(signature: &Signature) -> bool {
    signature.has_output(SCORES) && CLASSES.iter().any(|key| signature.has_output(key))
}

/// Returns whether the rows of a model have a number.
pub(crate) fn has_numbers(signature: &Signature) -> bool {
    NUMBERS.iter().any(|key| signature.has_output(key))
}
