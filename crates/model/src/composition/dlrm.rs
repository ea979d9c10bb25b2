//! DLRM (Naumov et al. 2019, "Deep Learning Recommendation Model for Personalization and Recommendation Systems").
//!
//! Dense layers, the bottom, bring the inputs that are no embedding to the dimension of the embeddings. The products of all
//! pairs of these vectors, beside the output of the bottom, are the input of the dense layers that end in the logits.
//! Without such inputs there is no bottom, and the products are the whole input.

use super::builder::{Builder, Value};
use super::{Dots, Layer};
use crate::Error;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let embeddings = builder.embeddings(2)?;
    let others = builder.other_columns();
    let bottom = (!others.is_empty()).then(|| {
        let numbers = builder.input_columns("dlrm/numbers", others);
        let mut units = builder.model.bottom_units.clone();
        units.push(embeddings.dimension);
        builder.hidden("dlrm/bottom", numbers, &units)
    });
    let vectors: Vec<Value> = bottom.into_iter().chain([embeddings.value]).collect();
    let layer = Dots {
        vectors: embeddings.count + vectors.len() - 1,
        dimension: embeddings.dimension,
    };
    let vectors = builder.concatenate("dlrm/vectors", &vectors);
    let dots = builder.add("dlrm/dots", Layer::Dots(layer), &[vectors], layer.width());
    let top: Vec<Value> = bottom.into_iter().chain([dots]).collect();
    let top = builder.concatenate("dlrm/interactions", &top);
    Ok(vec![builder.logits(top)])
}
