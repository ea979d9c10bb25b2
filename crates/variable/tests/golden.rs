//! Partitioners and placement, compared with recordings of TensorFlow.
#![expect(
    clippy::unwrap_used,
    reason = "a recorded case that is not as its README says fails the test"
)]

use serde_json::Value;
use trainyard_testing::{Golden, list};
use trainyard_variable::{Access, Initializer, Layout, Partitioner, Placement, VariableSpec};

const FILE: &str = "partitioners.json";

fn sizes(shape: &Value) -> Vec<usize> {
    list(shape)
        .iter()
        .map(|size| size.as_u64().unwrap() as usize)
        .collect()
}

/// Returns our rule for TensorFlow's partitioner, or `None` if its arguments are out of range.
fn partitioner(name: &str, args: &Value) -> Option<Partitioner> {
    let number = |key: &str, default: u64| args[key].as_u64().unwrap_or(default) as usize;
    let rule = match name.rsplit('.').next().unwrap() {
        "FixedShardsPartitioner" | "fixed_size_partitioner" => Partitioner::Fixed {
            num_shards: number("num_shards", 1),
        },
        "MinSizePartitioner" => Partitioner::MinSize {
            min_shard_bytes: number("min_shard_bytes", 256 << 10),
            max_shards: Some(number("max_shards", 1)),
        },
        // TensorFlow 1's name of the same rule.
        "min_max_variable_partitioner" => Partitioner::MinSize {
            min_shard_bytes: number("min_slice_size", 256 << 10),
            max_shards: Some(number("max_partitions", 1)),
        },
        "MaxSizePartitioner" | "variable_axis_size_partitioner" => Partitioner::MaxSize {
            max_shard_bytes: number("max_shard_bytes", 0),
            max_shards: args["max_shards"].as_u64().map(|most| most as usize),
        },
        other => panic!("no rule for {other}"),
    };
    rule.validate().is_ok().then_some(rule)
}

/// Returns the bytes of a value. For a string, the case says how many.
fn value_bytes(case: &Value) -> usize {
    let keys = ["bytes_per_string", "bytes_per_string_element"];
    let string = keys
        .iter()
        .find_map(|key| case["args"][*key].as_u64())
        .unwrap_or(16);
    match case["dtype"].as_str().unwrap_or("float32") {
        "float32" => 4,
        "float64" => 8,
        "string" => string as usize,
        other => panic!("no type {other}"),
    }
}

#[test]
fn golden_partitioners_cut_as_tensorflow_does() {
    let golden = Golden::find();
    let mut cut = 0;
    let mut refused = 0;
    let mut wider = Vec::new();
    let mut narrower = Vec::new();
    let cases = golden.cases(FILE, "cases");
    for case in &cases {
        let rule = partitioner(case["partitioner"].as_str().unwrap(), &case["args"]);
        match (rule, case.get("partitions")) {
            (None, None) => refused += 1,
            (Some(rule), Some(partitions)) => {
                let shape = sizes(&case["shape"]);
                // Layouts only cut along axis 0, but the rule holds along any axis.
                let axis = case["args"]["axis"].as_u64().unwrap_or(0) as usize;
                let row_bytes = shape.iter().product::<usize>() / shape[axis] * value_bytes(case);
                let mut expected = sizes(partitions);
                assert_eq!(
                    rule.num_slices(shape[axis], row_bytes, 1),
                    expected.remove(axis),
                    "{case}"
                );
                assert!(expected.iter().all(|along| *along == 1), "{case}");
                cut += 1;
            }
            (None, Some(_)) => narrower.push(case),
            (Some(_), None) => wider.push(case),
        }
    }
    // TensorFlow 1 takes a bound of 0 for no bound.
    let bounded_by_0 = |case: &&Value| {
        case["args"]
            .as_object()
            .unwrap()
            .values()
            .any(|bound| *bound == 0)
    };
    let others: Vec<&&Value> = narrower.iter().filter(|case| !bounded_by_0(case)).collect();
    assert!(
        others.is_empty() && wider.is_empty(),
        "{others:?} {wider:?}"
    );
    golden.assert_counts(
        "partitioners.json, cases",
        &[
            ("cut equally", cut, 253),
            ("refused by both", refused, 60),
            ("refused here alone", narrower.len(), 24),
            ("refused by TensorFlow alone", wider.len(), 0),
        ],
    );
}

fn spec(name: &str, shape: Vec<usize>) -> VariableSpec {
    let access = Access::Whole;
    let initializer = Initializer::Zeros;
    VariableSpec {
        name: name.into(),
        shape,
        access,
        initializer,
        optimizer_group: "g".into(),
    }
}

#[test]
fn golden_slices_hold_tensorflows_rows() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut other_axis = 0;
    for case in &golden.cases(FILE, "row_ranges") {
        if case["args"]["axis"].as_u64().unwrap_or(0) > 0 {
            // Only TensorFlow 1 cuts along another axis than the first.
            other_axis += 1;
            continue;
        }
        let rule = partitioner(case["partitioner"].as_str().unwrap(), &case["args"]).unwrap();
        let layout = Layout::new(
            &[spec("emb", sizes(&case["shape"]))],
            rule,
            Placement::RoundRobin,
            1,
        );
        let given: Vec<[u64; 2]> = layout
            .slices
            .iter()
            .map(|slice| [slice.rows.start as u64, slice.rows.end as u64])
            .collect();
        let range = |shard: &Value| {
            [&shard["row_begin"], &shard["row_end"]].map(|end| end.as_u64().unwrap())
        };
        let expected: Vec<[u64; 2]> = list(&case["shards"]).iter().map(range).collect();
        assert_eq!(given, expected, "{case}");
        equal += 1;
    }
    let counts = [
        ("equal", equal, 14),
        ("cut along another axis", other_axis, 1),
    ];
    golden.assert_counts("partitioners.json, row_ranges", &counts);
}

#[test]
fn golden_rows_lie_where_tensorflows_div_strategy_puts_them() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut dealt_out = 0;
    for case in &golden.cases(FILE, "embedding_lookup_partition") {
        // Our rule is "div": the rows of a part are adjacent. "mod" distributes the rows one by one.
        if case["strategy"] == "mod" {
            dealt_out += 1;
            continue;
        }
        let rows = case["n_rows"].as_u64().unwrap() as usize;
        let rule = Partitioner::Fixed {
            num_shards: case["num_shards"].as_u64().unwrap() as usize,
        };
        let layout = Layout::new(
            &[spec("emb", vec![rows, 2])],
            rule,
            Placement::RoundRobin,
            1,
        );
        let places = sizes(&case["shard"])
            .into_iter()
            .zip(sizes(&case["row_in_shard"]));
        for (id, (shard, place)) in sizes(&case["ids"]).into_iter().zip(places) {
            let slice = &layout.slices[shard];
            assert_eq!(
                (slice.rows.contains(&id), id - slice.rows.start),
                (true, place),
                "{case}"
            );
        }
        equal += 1;
    }
    let counts = [("equal", equal, 5), ("dealt out row by row", dealt_out, 5)];
    golden.assert_counts("partitioners.json, embedding_lookup_partition", &counts);
}

#[test]
fn golden_variables_are_placed_where_tensorflow_places_them() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut without_ps = 0;
    for case in &golden.cases(FILE, "placement") {
        let num_ps = case["num_ps"].as_u64().unwrap() as usize;
        if num_ps == 0 {
            // Without a parameter server, nothing is placed.
            without_ps += 1;
            continue;
        }
        let placement = match case["strategy"].as_str().unwrap() {
            "round_robin" => Placement::RoundRobin,
            _ => Placement::Greedy,
        };
        let device = |entry: &Value| {
            let device = entry["device"].as_str().unwrap();
            device.rsplit(':').next().unwrap().parse::<usize>().unwrap()
        };
        // Each shard takes its turn, as a variable of one slice. The global step is not one of our variables, and slots
        // live with their variable.
        let ours = |entry: &&Value| {
            let name = entry["name"].as_str().unwrap();
            name != "global_step" && !name.ends_with("_power") && !name.contains("/Adam")
        };
        // Some cases hold the list in Python's notation.
        let created = match &case["placement_in_creation_order"] {
            Value::String(text) => serde_json::from_str(&text.replace('\'', "\"")).unwrap(),
            list => list.clone(),
        };
        let variables: Vec<&Value> = list(&created).iter().filter(ours).collect();
        let named = |entry: &&Value| spec(entry["name"].as_str().unwrap(), sizes(&entry["shape"]));
        let specs: Vec<VariableSpec> = variables.iter().map(named).collect();
        let layout = Layout::new(
            &specs,
            Partitioner::Fixed { num_shards: 1 },
            placement,
            num_ps,
        );
        let given: Vec<usize> = layout.slices.iter().map(|slice| slice.ps).collect();
        let expected: Vec<usize> = variables.iter().map(|entry| device(entry)).collect();
        assert_eq!(
            given, expected,
            "{} over {num_ps}: {specs:?}",
            case["strategy"]
        );
        equal += 1;
    }
    golden.assert_counts(
        "partitioners.json, placement",
        &[("equal", equal, 23), ("without a ps", without_ps, 2)],
    );
}
