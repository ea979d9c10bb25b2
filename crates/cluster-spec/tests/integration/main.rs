//! Cluster files and `TF_CONFIG`: what they say, their mistakes, and how TensorFlow reads the same.

mod cluster;
mod golden;
