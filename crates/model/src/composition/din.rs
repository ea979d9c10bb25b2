//! DIN (Zhou et al. 2018, "Deep Interest Network for Click-Through Rate Prediction").
//!
//! Each id of a history is weighed by dense layers over its vector, the vector of the target, their difference and their product;
//! all ids have the same layers. The history becomes the weighted sum of its vectors, without a softmax (equation 3). A tower reads
//! these sums and all other columns of the input.

use std::ops::Range;

use trainyard_run_config::AttentionConfig;

use super::builder::{Builder, Value};
use super::{Contraction, Layer, Pairs, Transposition};
use crate::Error;
use crate::input_layer::{Lookup, Piece};

/// Columns of the vectors of a history, and of the numbers that are 1 where there is one.
struct History {
    vectors: Range<usize>,
    mask: Range<usize>,
    dimension: usize,
}

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let mut values = Vec::new();
    let others = other_columns(builder);
    if !others.is_empty() {
        values.push(builder.input_columns("din/others", others));
    }
    let model = builder.model;
    for attention in &model.attention {
        values.push(attend(builder, attention)?);
    }
    let all = builder.concatenate("din/input", &values);
    Ok(vec![builder.logits(all)])
}

/// Returns the weighted sum of the vectors of a history.
fn attend(builder: &mut Builder<'_>, attention: &AttentionConfig) -> Result<Value, Error> {
    let scope = format!("din/{}", attention.history);
    let [history, target] = [&attention.history, &attention.target];
    let found = find(builder, history, |begin, piece| match piece {
        Piece::History(lookup, slots) => {
            let end = begin + slots.count * lookup.dimension;
            Some(History {
                vectors: begin..end,
                mask: end..end + slots.count,
                dimension: lookup.dimension,
            })
        }
        _ => None,
    })?;
    let columns = find(builder, target, |begin, piece| match piece {
        Piece::Embedding(lookup) => Some(begin..begin + lookup.dimension),
        _ => None,
    })?;
    let (count, dimension) = (found.mask.len(), found.dimension);
    let target = builder.input_columns(&format!("{scope}/target"), [columns]);
    let vectors = builder.input_columns(&format!("{scope}/vectors"), [found.vectors]);
    let mask = builder.input_columns(&format!("{scope}/mask"), [found.mask]);
    let pairs = Pairs { count, dimension };
    let name = format!("{scope}/pairs");
    let mut hidden = builder.add(
        &name,
        Layer::Pairs(pairs),
        &[target, vectors],
        pairs.width(),
    );
    let model = builder.model;
    for (index, units) in model.attention_units.iter().enumerate() {
        let name = format!("{scope}/hiddenlayer_{index}");
        let below = builder.dense_blocks(&name, hidden, count, *units);
        let activation = Layer::Activation(model.activation);
        hidden = builder.add(&format!("{name}/output"), activation, &[below], below.width);
    }
    let weights = builder.dense_blocks(&format!("{scope}/weights"), hidden, count, 1);
    let masked = builder.add(
        &format!("{scope}/masked"),
        Layer::Product,
        &[weights, mask],
        count,
    );
    let transposition = Layer::Transposition(Transposition {
        rows: count,
        columns: dimension,
    });
    let name = format!("{scope}/transposed");
    let transposed = builder.add(&name, transposition, &[vectors], vectors.width);
    let sum = Layer::Contraction(Contraction {
        blocks: dimension,
        width: count,
    });
    Ok(builder.add(
        &format!("{scope}/sum"),
        sum,
        &[transposed, masked],
        dimension,
    ))
}

/// Returns what `take` makes of the piece of a feature and its first column.
fn find<T>(
    builder: &Builder<'_>,
    feature: &str,
    take: impl Fn(usize, &Piece) -> Option<T>,
) -> Result<T, Error> {
    let is_named = |lookup: &Lookup| builder.columns.categorical[lookup.feature].name == *feature;
    let mut pieces = builder.input.pieces.iter();
    let found = pieces.find_map(|(begin, piece)| match piece {
        Piece::Embedding(lookup) | Piece::History(lookup, _) if is_named(lookup) => {
            take(*begin, piece)
        }
        _ => None,
    });
    found.ok_or_else(|| {
        let message = format!("model.attention names `{feature}`, which feeds no embedding");
        Error::Invalid(message)
    })
}

/// Returns the columns of the input that belong to no history, in ascending order.
fn other_columns(builder: &Builder<'_>) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut end = 0;
    for (begin, piece) in &builder.input.pieces {
        if let Piece::History(lookup, slots) = piece {
            if end < *begin {
                ranges.push(end..*begin);
            }
            end = begin + slots.count * (lookup.dimension + 1);
        }
    }
    if end < builder.input.width() {
        ranges.push(end..builder.input.width());
    }
    ranges
}
