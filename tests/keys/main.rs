//! Each key of a job file and of a cluster file does something: for every key that the readers know there is a row, with two
//! jobs that differ in the key alone, and something named in which they must differ.

mod cluster_file;
mod feature;
mod input;
mod known;
mod model;
mod optimizer;
mod parameter_servers;
mod publish;
mod row;
mod run;
mod see;
mod site;
mod strategy;
mod tiny_records;
mod train;

use std::collections::BTreeSet;

use row::{Row, Workshop};

/// Names that keys have where a job does not say them.
const DEFAULTS: [(&str, &str); 20] = [
    ("exporter.format", "safetensors"),
    ("feature.bucketized.normalizer", "none"),
    ("feature.bucketized.time_unit", "seconds"),
    ("feature.deep.combiner", "mean"),
    ("feature.numeric.normalizer", "none"),
    ("feature.numeric.time_unit", "seconds"),
    ("input.bad_rows", "fail"),
    ("input.format", "csv"),
    ("input.train.sharding", "dynamic"),
    ("model.defaults", "trainyard"),
    ("model.loss_reduction", "sum_over_batch_size"),
    ("model.sparse_combiner", "sum"),
    ("parameter_servers.durability", "shared_memory"),
    ("parameter_servers.guard.nonfinite", "reject"),
    ("strategy.kind", "parameter_server"),
    ("strategy.partitioner.kind", "min_size"),
    ("strategy.placement", "greedy"),
    ("strategy.replication", "between_graph"),
    ("strategy.update", "async"),
    ("train.clip_gradients.kind", "global_norm"),
];

/// The rows of all sections.
fn rows() -> Vec<Row> {
    let sections = [
        run::rows(),
        input::rows(),
        feature::rows(),
        model::rows(),
        optimizer::rows(),
        train::rows(),
        strategy::rows(),
        parameter_servers::rows(),
        publish::rows(),
        cluster_file::rows(),
    ];
    sections.into_iter().flatten().collect()
}

trial!(every_key_has_a_row_and_every_row_a_key);
fn every_key_has_a_row_and_every_row_a_key() {
    let known = known::known();
    let rows: BTreeSet<String> = rows().into_iter().map(|row| row.key).collect();
    let without: Vec<&String> = known.keys.difference(&rows).collect();
    let unknown: Vec<&String> = rows.difference(&known.keys).collect();
    assert!(
        known.keys.len() > 200,
        "only {} keys: {:?}",
        known.keys.len(),
        known.keys
    );
    assert!(without.is_empty(), "keys without a row: {without:#?}");
    assert!(
        unknown.is_empty(),
        "rows of keys that no section knows: {unknown:#?}"
    );
}

trial!(every_name_that_a_key_takes_is_in_a_row);
fn every_name_that_a_key_takes_is_in_a_row() {
    let rows = rows();
    let mut without = Vec::new();
    for (key, names) in known::known().choices {
        let mentioned =
            |name: &&String| rows.iter().any(|row| row.key == key && row.mentions(name));
        let mut missing: Vec<&String> = names.iter().filter(|name| !mentioned(name)).collect();
        missing.retain(|name| !DEFAULTS.contains(&(&key, name)));
        if !missing.is_empty() {
            without.push(format!("{key}: {missing:?}"));
        }
    }
    assert!(without.is_empty(), "names without a row: {without:#?}");
}

trial!(each_key_of_the_run_does_something);
fn each_key_of_the_run_does_something() {
    Workshop::new().check(&run::rows());
}

trial!(each_key_of_the_input_does_something);
fn each_key_of_the_input_does_something() {
    let workshop = Workshop::new();
    tiny_records::convert(workshop.data());
    workshop.check(&input::rows());
}

trial!(each_key_of_a_feature_does_something);
fn each_key_of_a_feature_does_something() {
    Workshop::new().check(&feature::rows());
}

trial!(each_key_of_the_model_does_something);
fn each_key_of_the_model_does_something() {
    Workshop::new().check(&model::rows());
}

trial!(each_hyper_parameter_changes_what_is_trained);
fn each_hyper_parameter_changes_what_is_trained() {
    Workshop::new().check(&optimizer::rows());
}

trial!(each_key_of_training_evaluation_and_export_does_something);
fn each_key_of_training_evaluation_and_export_does_something() {
    Workshop::new().check(&train::rows());
}

trial!(each_key_of_the_strategy_does_something);
fn each_key_of_the_strategy_does_something() {
    Workshop::new().check(&strategy::rows());
}

trial!(each_key_of_the_parameter_servers_does_something);
fn each_key_of_the_parameter_servers_does_something() {
    Workshop::new().check(&parameter_servers::rows());
}

trial!(each_key_of_publication_does_something);
fn each_key_of_publication_does_something() {
    Workshop::new().check(&publish::rows());
}

trial!(each_key_of_a_cluster_file_does_something);
fn each_key_of_a_cluster_file_does_something() {
    Workshop::new().check(&cluster_file::rows());
}
