//! Models built from job files: gradients, names, exported graphs, threads, and TensorFlow's records.

mod attention;
mod bad_records;
mod canned;
mod dynamic;
mod golden;
mod gradients;
mod network;
mod onnx;
mod pytorch;
mod tasks;
mod threads;
