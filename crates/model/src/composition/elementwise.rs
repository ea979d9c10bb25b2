//! Sums, differences, products and activations of values, element by element.

use trainyard_run_config::Activation;

use super::{Backward, Forward, Sink};
use crate::activation;

pub(super) fn activate(function: Activation, pass: &Forward<'_>, out: &mut [f32]) {
    out.copy_from_slice(pass.inputs[0]);
    activation::apply(function, out);
}

pub(super) fn activate_backward(function: Activation, pass: &Backward<'_>, sink: &mut Sink) {
    sink.write(pass.reads[0], pass.delta.len(), |out| {
        let kept = if activation::needs_input(function) {
            pass.inputs[0]
        } else {
            pass.output
        };
        out.copy_from_slice(pass.delta);
        activation::backward(function, kept, out);
    });
}

pub(super) fn add(pass: &Forward<'_>, out: &mut [f32]) {
    out.copy_from_slice(pass.inputs[0]);
    for input in &pass.inputs[1..] {
        out.iter_mut()
            .zip(*input)
            .for_each(|(sum, value)| *sum += value);
    }
}

pub(super) fn add_backward(pass: &Backward<'_>, sink: &mut Sink) {
    for read in pass.reads {
        sink.write(*read, pass.delta.len(), |out| {
            out.copy_from_slice(pass.delta);
        });
    }
}

pub(super) fn multiply(pass: &Forward<'_>, out: &mut [f32]) {
    let pairs = pass.inputs[0].iter().zip(pass.inputs[1]);
    out.iter_mut()
        .zip(pairs)
        .for_each(|(out, (a, b))| *out = a * b);
}

pub(super) fn multiply_backward(pass: &Backward<'_>, sink: &mut Sink) {
    let [a, b] = [0, 1].map(|input| (pass.reads[input], pass.inputs[input]));
    for ((read, _), (_, other)) in [(a, b), (b, a)] {
        sink.write(read, pass.delta.len(), |out| {
            let pairs = pass.delta.iter().zip(other);
            out.iter_mut()
                .zip(pairs)
                .for_each(|(out, (delta, other))| *out = delta * other);
        });
    }
}

pub(super) fn subtract(pass: &Forward<'_>, out: &mut [f32]) {
    let pairs = pass.inputs[0].iter().zip(pass.inputs[1]);
    out.iter_mut()
        .zip(pairs)
        .for_each(|(out, (a, b))| *out = a - b);
}

pub(super) fn subtract_backward(pass: &Backward<'_>, sink: &mut Sink) {
    sink.write(pass.reads[0], pass.delta.len(), |out| {
        out.copy_from_slice(pass.delta);
    });
    sink.write(pass.reads[1], pass.delta.len(), |out| {
        out.iter_mut()
            .zip(pass.delta)
            .for_each(|(out, delta)| *out = -delta);
    });
}
