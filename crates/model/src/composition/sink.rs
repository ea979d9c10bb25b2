//! Gradients of the values of a composition. Several layers may read a value; their gradients are added.

/// The gradients.
#[derive(Debug, Default)]
pub(super) struct Sink {
    gradients: Vec<Vec<f32>>,
    is_written: Vec<bool>,
    needed: Vec<bool>,
    spare: Vec<f32>,
    /// Buffer for a transposed kernel.
    pub(super) transposed: Vec<f32>,
}

impl Sink {
    /// Begins a backward pass. The buffer of the input's gradient is kept in `of_input` between passes.
    pub(super) fn start(&mut self, needed: &[bool], of_input: &mut Vec<f32>) {
        self.gradients.resize_with(needed.len(), Vec::new);
        self.is_written.clear();
        self.is_written.resize(needed.len(), false);
        self.needed.clear();
        self.needed.extend_from_slice(needed);
        std::mem::swap(&mut self.gradients[0], of_input);
    }

    /// Adds a gradient of a value, if it is used. `write` overwrites all elements that it is given.
    pub(super) fn write(&mut self, value: usize, len: usize, write: impl FnOnce(&mut [f32])) {
        if !self.needed[value] {
            return;
        }
        let gradient = &mut self.gradients[value];
        if !self.is_written[value] {
            gradient.resize(len, 0.0);
            write(gradient);
            self.is_written[value] = true;
            return;
        }
        self.spare.resize(len, 0.0);
        write(&mut self.spare);
        gradient
            .iter_mut()
            .zip(&self.spare)
            .for_each(|(sum, value)| *sum += value);
    }

    /// Takes the gradient of a value whose readers are all done, or `None` if no layer reads it.
    pub(super) fn take(&mut self, value: usize) -> Option<Vec<f32>> {
        self.is_written[value].then(|| std::mem::take(&mut self.gradients[value]))
    }

    /// Keeps a buffer for the next pass.
    pub(super) fn give_back(&mut self, value: usize, buffer: Vec<f32>) {
        self.gradients[value] = buffer;
    }

    /// Ends the pass: `of_input` is the gradient of the input, empty if it is not used.
    pub(super) fn finish(&mut self, of_input: &mut Vec<f32>) {
        std::mem::swap(&mut self.gradients[0], of_input);
        if !self.is_written[0] {
            of_input.clear();
        }
    }
}
