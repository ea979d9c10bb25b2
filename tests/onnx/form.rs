//! The form of a graph: names, inputs and outputs, and that nothing is read before it is made.

use std::collections::BTreeSet;
use std::path::Path;

use prost::Message as _;
use serde_json::Value;
use trainyard_onnx::{ModelProto, ValueInfoProto};

use crate::onnx::jobs::Case;

fn names(ports: &[ValueInfoProto]) -> Vec<&str> {
    ports.iter().map(|port| port.name.as_str()).collect()
}

fn described<'a>(signature: &'a Value, ports: &str) -> Vec<&'a str> {
    let ports = signature["onnx"][ports].as_array().expect("a list");
    ports
        .iter()
        .map(|port| port["name"].as_str().expect("a name"))
        .collect()
}

/// Checks the graph in the folder of an export.
pub(crate) fn check(case: &Case, export: &Path) {
    let bytes = std::fs::read(export.join("model.onnx")).expect("the graph");
    let model = ModelProto::decode(bytes.as_slice()).expect("the graph decodes");
    let graph = model.graph.expect("a graph");
    let signature = std::fs::read(export.join("model.json")).expect("the signature");
    let signature: Value = serde_json::from_slice(&signature).expect("JSON");
    let inputs = names(&graph.input);
    let outputs = names(&graph.output);
    assert_eq!(inputs, described(&signature, "inputs"), "{}", case.name);
    assert_eq!(outputs, described(&signature, "outputs"), "{}", case.name);
    for feature in case.hashed_features() {
        assert!(
            inputs.contains(&format!("{feature}/ids").as_str()),
            "{}: {feature}",
            case.name
        );
    }
    let first = std::fs::read_to_string(export.join("predictions.jsonl")).expect("predictions");
    let first: Value = serde_json::from_str(first.lines().next().expect("a line")).expect("JSON");
    let keys: BTreeSet<&str> = first
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        outputs.iter().copied().collect::<BTreeSet<_>>(),
        keys,
        "{}",
        case.name
    );
    let mut made: BTreeSet<&str> = inputs.into_iter().collect();
    let constants = graph.initializer.iter().map(|tensor| tensor.name.as_str());
    for name in constants {
        assert!(made.insert(name), "{}: {name} is made twice", case.name);
    }
    for node in &graph.node {
        let unmade = node.input.iter().find(|name| !made.contains(name.as_str()));
        assert_eq!(
            unmade, None,
            "{}: read by {} before it is made",
            case.name, node.name
        );
        let [output] = node.output.as_slice() else {
            panic!("{} has one output", node.name)
        };
        assert!(made.insert(output), "{}: {output} is made twice", case.name);
    }
    assert!(
        outputs.iter().all(|name| made.contains(name)),
        "{}",
        case.name
    );
    assert!(export.join("model.safetensors").exists(), "{}", case.name);
}
