//! Cluster files and `TF_CONFIG`: contents, mistakes, and agreement with TensorFlow.

mod cluster;
mod golden;
