//! xDeepFM (Lian et al. 2018, "xDeepFM: Combining Explicit and Implicit Feature Interactions for Recommender Systems").
//!
//! A compressed interaction network over the embeddings `X⁰`: row `h` of layer `k` is `Σᵢⱼ Wᵏʰᵢⱼ (Xᵏ⁻¹ᵢ ⊙ X⁰ⱼ)` (equation 6,
//! without an activation, which the paper found best). The sums of the rows of all layers over the embeddings' dimension give
//! logits, to which those of a tower over the input and of the linear part are added. All rows of a layer go both to the
//! next layer and to the sums.

use super::builder::{Builder, Value};
use super::{BlockSum, Layer, Outer, Transposition};
use crate::Error;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    if builder.model.cin_units.is_empty() {
        let message = "cin_units must name at least 1 layer, given none";
        return Err(Error::Invalid(message.to_owned()));
    }
    let embeddings = builder.embeddings(2)?;
    let dimension = embeddings.dimension;
    // Numbers of one place of all embeddings lie side by side, so that a layer is a product of each place and a kernel.
    let transposed = Layer::Transposition(Transposition {
        rows: embeddings.count,
        columns: dimension,
    });
    let width = embeddings.value.width;
    let first = builder.add("cin/embeddings", transposed, &[embeddings.value], width);
    let mut below = first;
    let mut sums = Vec::new();
    let model = builder.model;
    for (index, units) in model.cin_units.iter().enumerate() {
        let scope = format!("cin/layer_{index}");
        let outer = Outer {
            blocks: dimension,
            left: below.width / dimension,
            right: embeddings.count,
        };
        let width = below.width * embeddings.count;
        let name = format!("{scope}/pairs");
        let pairs = builder.add(&name, Layer::Outer(outer), &[below, first], width);
        below = builder.product(&scope, pairs, dimension, *units);
        let sum = Layer::BlockSum(BlockSum {
            blocks: dimension,
            width: *units,
        });
        sums.push(builder.add(&format!("{scope}/sums"), sum, &[below], *units));
    }
    let sums = builder.concatenate("cin/sums", &sums);
    let units = builder.units();
    let input = builder.whole_input();
    Ok(vec![
        builder.product("cin/logits", sums, 1, units),
        builder.logits(input),
    ])
}
