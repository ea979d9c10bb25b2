//! AutoInt (Song et al. 2019, "AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural Networks").
//!
//! Each feature is a vector: an embedding, a learned vector times a number, or the product of an indicator, or of the periodic embedding
//! of a number, and a kernel. A
//! layer is multi-head self-attention over the vectors, plus a product of each vector and a kernel, under an activation. The
//! logits are a product of all vectors of the last layer, and with hidden layers also those of a tower over the input
//! (AutoInt+).

use trainyard_variable::Initializer;

use super::builder::{Builder, Value, Vectors};
use super::{Attention, Layer, Scale};
use crate::Error;
use crate::input_layer::Piece;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let mut vectors = fields(builder)?;
    for index in 0..builder.model.attention_layers {
        vectors = attend(builder, &format!("autoint/attention_{index}"), vectors);
    }
    let units = builder.units();
    let mut logits = vec![builder.dense("autoint/logits", vectors.value, units)];
    if !builder.model.hidden_units.is_empty() {
        let input = builder.whole_input();
        logits.push(builder.logits(input));
    }
    Ok(logits)
}

/// Returns a vector for each feature.
fn fields(builder: &mut Builder<'_>) -> Result<Vectors, Error> {
    let embeddings = builder.embeddings(2)?;
    let dimension = embeddings.dimension;
    let mut values = vec![embeddings.value];
    let mut count = embeddings.count;
    for (begin, piece) in &builder.input.pieces {
        match piece {
            Piece::Embedding(_) | Piece::History(..) => {}
            Piece::Numbers(first, width) => {
                let mut named = builder.columns.numeric.iter();
                let column = named.find(|column| column.begin == *first);
                let scope = format!("autoint/{}", column.map_or("", |column| &column.name));
                let numbers = builder.input_columns(&scope, std::iter::once(*begin..begin + width));
                let kernel = builder.variable(
                    format!("{scope}/kernel"),
                    vec![*width, dimension],
                    Initializer::GlorotUniform,
                );
                let scale = Scale {
                    kernel,
                    numbers: *width,
                    dimension,
                    regularizer: builder.model.kernel_regularizer,
                };
                let scaled = Layer::Scale(scale);
                values.push(builder.add(&scope, scaled, &[numbers], width * dimension));
                count += width;
            }
            Piece::Periodic(periodic) => {
                let mut named = builder.columns.numeric.iter();
                let column = named.find(|column| column.begin == periodic.begin);
                let scope = format!("autoint/{}", column.map_or("", |column| &column.name));
                let columns = *begin..begin + periodic.size();
                let embedding = builder.input_columns(&scope, std::iter::once(columns));
                values.push(builder.product(&scope, embedding, 1, dimension));
                count += 1;
            }
            Piece::Indicator(feature, buckets) => {
                let scope = format!("autoint/{}", builder.columns.categorical[*feature].name);
                let indicator =
                    builder.input_columns(&scope, std::iter::once(*begin..begin + buckets));
                values.push(builder.product(&scope, indicator, 1, dimension));
                count += 1;
            }
        }
    }
    Ok(Vectors {
        value: builder.concatenate("autoint/fields", &values),
        count,
        dimension,
    })
}

fn attend(builder: &mut Builder<'_>, scope: &str, vectors: Vectors) -> Vectors {
    let attention = Attention {
        vectors: vectors.count,
        heads: builder.model.attention_heads,
        dimension: builder.model.attention_dim,
    };
    let dimension = attention.heads * attention.dimension;
    let [query, key, value, residual] = ["query", "key", "value", "residual"].map(|name| {
        let scope = format!("{scope}/{name}");
        builder.product(&scope, vectors.value, vectors.count, dimension)
    });
    let width = attention.width();
    let layer = Layer::Attention(attention);
    let attended = builder.add(scope, layer, &[query, key, value], width);
    let sum = builder.add(
        &format!("{scope}/sum"),
        Layer::Sum,
        &[attended, residual],
        width,
    );
    let activation = Layer::Activation(builder.model.activation);
    Vectors {
        value: builder.add(&format!("{scope}/output"), activation, &[sum], width),
        dimension,
        ..vectors
    }
}
