//! Models as a job file makes them: gradients, names, exported graphs, threads, and TensorFlow's records of all of it.

mod canned;
mod dynamic;
mod golden;
mod gradients;
mod onnx;
mod threads;
