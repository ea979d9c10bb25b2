//! Experts, hidden layers side by side, and their mixtures: sums that a gate weighs.

use super::builder::{Builder, Value};
use super::{Contraction, Layer, Transposition};
use crate::Error;

/// Returns the outputs of experts of the model's `hidden_units`.
///
/// # Errors
/// `hidden_units` names no layer.
pub(super) fn experts(
    builder: &mut Builder<'_>,
    scope: &str,
    input: Value,
    count: usize,
) -> Result<Vec<Value>, Error> {
    let units = &builder.model.hidden_units;
    if units.is_empty() {
        let message = "hidden_units must name at least 1 layer of an expert, given none";
        return Err(Error::Invalid(message.to_owned()));
    }
    let expert = |index| builder.hidden(&format!("{scope}/expert_{index}"), input, units);
    Ok((0..count).map(expert).collect())
}

/// Returns experts as a matrix for each row, of a column for each expert.
pub(super) fn columns(builder: &mut Builder<'_>, scope: &str, experts: &[Value]) -> Value {
    let matrix = Transposition {
        rows: experts.len(),
        columns: experts[0].width,
    };
    let rows = builder.concatenate(&format!("{scope}/experts"), experts);
    let layer = Layer::Transposition(matrix);
    builder.add(&format!("{scope}/columns"), layer, &[rows], rows.width)
}

/// Returns the mixture of the columns of `count` experts that a gate over `input` weighs: `Σᵢ softmax(input W)ᵢ expertᵢ`.
pub(super) fn mixture(
    builder: &mut Builder<'_>,
    scope: &str,
    input: Value,
    columns: Value,
    count: usize,
) -> Value {
    let gate = builder.product(&format!("{scope}/gate"), input, 1, count);
    let gate = builder.add(&format!("{scope}/weights"), Layer::Softmax, &[gate], count);
    let layer = Contraction {
        blocks: columns.width / count,
        width: count,
    };
    builder.add(
        &format!("{scope}/mixture"),
        Layer::Contraction(layer),
        &[columns, gate],
        layer.blocks,
    )
}
