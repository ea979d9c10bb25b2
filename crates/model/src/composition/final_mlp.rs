//! FinalMLP (Mao et al. 2023, "FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction"), without feature gating.
//!
//! Two towers read the input. Of their outputs `o₁` and `o₂`, cut into a part for each head, the logits are
//! `b + w₁·o₁ + w₂·o₂ + Σₕ o₁ₕ Wₕ o₂ₕ` (equations 9 to 11).

use super::builder::{Builder, Value};
use super::{Contraction, Layer};
use crate::Error;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let model = builder.model;
    let first_units = &model.hidden_units;
    let second_units = if model.second_hidden_units.is_empty() {
        first_units
    } else {
        &model.second_hidden_units
    };
    let heads = model.fusion_heads;
    let widths = [first_units, second_units].map(|units| units.last().copied().unwrap_or(0));
    for width in widths {
        if width == 0 || width % heads != 0 {
            let message = format!(
                "fusion_heads must divide the last width of both streams, given {heads} heads and a width of {width}"
            );
            return Err(Error::Invalid(message));
        }
    }
    let input = builder.whole_input();
    let first = builder.hidden("final_mlp/stream_0", input, first_units);
    let second = builder.hidden("final_mlp/stream_1", input, second_units);
    let both = builder.concatenate("final_mlp/streams", &[first, second]);
    let units = builder.units();
    let mut logits = vec![builder.dense("final_mlp/logits", both, units)];
    for head in 0..heads {
        let scope = format!("final_mlp/head_{head}");
        let [one, other] = [(first, "first"), (second, "second")].map(|(stream, name)| {
            let width = stream.width / heads;
            let columns = head * width..(head + 1) * width;
            let name = format!("{scope}/{name}");
            builder.columns_of(&name, stream, std::iter::once(columns))
        });
        let product = builder.product(&scope, one, 1, units * other.width);
        let layer = Layer::Contraction(Contraction {
            blocks: units,
            width: other.width,
        });
        let name = format!("{scope}/logits");
        logits.push(builder.add(&name, layer, &[product, other], units));
    }
    Ok(logits)
}
