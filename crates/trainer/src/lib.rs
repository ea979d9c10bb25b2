//! The training loop: pull, compute, push, repeat.
