//! The programs from outside: command lines, benchmarks, and a program with a model of its own.

mod bench;
mod codes;
mod custom_model;
mod program;
