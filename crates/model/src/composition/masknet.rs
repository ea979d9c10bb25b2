//! MaskNet (Wang et al. 2021, "MaskNet: Introducing Feature-Wise Multiplication to CTR Ranking Models by Instance-Guided
//! Mask").
//!
//! A mask block multiplies its input by a mask, and ends in a product, layer normalisation and an activation. Two dense layers
//! make the mask from the whole input. Parallel blocks all read the layer-normalised embeddings and stand side by side; of
//! serial blocks, each reads the one before it. A tower over the blocks gives the logits.

use trainyard_run_config::MaskBlocks;
use trainyard_variable::Initializer;

use super::builder::{Builder, Value};
use super::{Layer, LayerNorm};
use crate::Error;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let model = builder.model;
    if model.mask_units.is_empty() {
        let message = "mask_units must name at least 1 block, given none";
        return Err(Error::Invalid(message.to_owned()));
    }
    let embeddings = builder.embeddings(1)?;
    let normalized = normalize(
        builder,
        "masknet/embeddings",
        embeddings.value,
        embeddings.count,
    );
    let mut values = vec![normalized];
    let others = builder.other_columns();
    if !others.is_empty() {
        values.push(builder.input_columns("masknet/numbers", others));
    }
    let mut below = builder.concatenate("masknet/input", &values);
    let mut blocks = Vec::new();
    for (index, units) in model.mask_units.iter().enumerate() {
        let output = block(builder, &format!("masknet/block_{index}"), below, *units);
        if model.mask_blocks == Some(MaskBlocks::Serial) {
            below = output;
            blocks.clear();
        }
        blocks.push(output);
    }
    let blocks = builder.concatenate("masknet/blocks", &blocks);
    Ok(vec![builder.logits(blocks)])
}

fn block(builder: &mut Builder<'_>, scope: &str, input: Value, units: usize) -> Value {
    let whole = builder.whole_input();
    let width = input.width;
    let aggregated = builder.dense(
        &format!("{scope}/aggregation"),
        whole,
        builder.model.mask_ratio * width,
    );
    let aggregated = activate(builder, &format!("{scope}/aggregated"), aggregated);
    let mask = builder.dense(&format!("{scope}/mask"), aggregated, width);
    let name = format!("{scope}/masked");
    let masked = builder.add(&name, Layer::Product, &[mask, input], width);
    let hidden = builder.product(&format!("{scope}/hidden"), masked, 1, units);
    let normalized = normalize(builder, &format!("{scope}/norm"), hidden, 1);
    activate(builder, &format!("{scope}/output"), normalized)
}

fn activate(builder: &mut Builder<'_>, name: &str, value: Value) -> Value {
    let activation = Layer::Activation(builder.model.activation);
    builder.add(name, activation, &[value], value.width)
}

fn normalize(builder: &mut Builder<'_>, scope: &str, value: Value, blocks: usize) -> Value {
    let shape = vec![value.width];
    let one = Initializer::Constant { value: 1.0 };
    let layer = LayerNorm {
        gamma: builder.variable(format!("{scope}/gamma"), shape.clone(), one),
        beta: builder.variable(format!("{scope}/beta"), shape, Initializer::Zeros),
        blocks,
        width: value.width / blocks,
    };
    builder.add(scope, Layer::LayerNorm(layer), &[value], value.width)
}
