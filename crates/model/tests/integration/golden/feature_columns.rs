//! `feature_columns.json`: ids, input layers and linear models.

use std::path::Path;

use serde_json::Value;
use trainyard_feature_column::{FeatureColumns, Features};
use trainyard_input::Schema;
use trainyard_model::{InputLayer, LinearModel, VariableScope};
use trainyard_run_config::{Combiner, Job};
use trainyard_testing::{Golden, difference, flat, list};
use trainyard_variable::{Read, Reads, Values, VariableSpec};

use super::batch::{batch, recorded};
use super::columns::{Part, Sections};
use super::report;

/// Unsupported: an embedding as a dense column of a linear model.
const APART: [&str; 1] = ["linear/embedding_as_dense"];
/// Ids out of range. TensorFlow passes them on and fails at the lookup; here they are errors of the batch.
const PASSED_THROUGH: [&str; 2] = [
    "identity/oor_no_default_passes_through",
    "identity/negative_no_default_passes_through",
];

/// Result of a case.
enum Computed {
    Ids(Vec<Vec<u32>>, Option<Vec<f32>>, u32),
    Output(Vec<f32>),
}

fn compute(case: &Value, folder: &Path) -> Result<Computed, String> {
    let kind = case["kind"].as_str().unwrap();
    let part = if kind == "linear_model" {
        Part::Wide
    } else {
        Part::Deep
    };
    let mut sections = Sections::new(&case["features"], folder);
    match kind {
        // Ids are compared as an indicator sees them.
        "ids" => {
            for column in list(&case["columns"]) {
                let indicator =
                    serde_json::json!({"type": "indicator_column", "categorical_column": column});
                sections.add(&Value::Array(vec![indicator]), part);
            }
        }
        _ => sections.add(&case["columns"], part),
    }
    let model = if part == Part::Wide {
        "linear_regressor\""
    } else {
        "dnn_regressor\"\nhidden_units = [1]"
    };
    let text = format!(
        "model_dir = \"m\"\n[input]\ntrim = false\nlabel = {{ column = \"label__\" }}\n[input.train]\nfiles = [\"t\"]\nepochs = 1\n\
         {}[model]\nkind = \"{model}\n",
        sections.finish()
    );
    let job = Job::parse(&folder.join("job.toml"), &text, &[])
        .map_err(|problems| format!("{text}\n{}", trainyard_diagnostic::render_all(&problems)))?;
    let mut schema = Schema::default();
    let columns = FeatureColumns::new(&job.features, &mut schema);
    let given = recorded(&case["features"]);
    let rows: Vec<usize> =
        (0..given.values().next().map_or(0, |column| column.rows.len())).collect();
    let batch = batch(&schema, &given, &rows, 0)?;
    let features = columns
        .transform(&batch)
        .map_err(|error| error.to_string())?;
    if kind == "ids" {
        // Columns are sorted by name, so a cross may precede its parts. Only the column under test has a deep part.
        let place = columns
            .categorical
            .iter()
            .position(|column| column.deep.is_some())
            .unwrap();
        let ids = &features.ids[place];
        let of_row = |row: &usize| {
            ids.of_row(*row)
                .iter()
                .map(|place| ids.unique[*place as usize])
                .collect()
        };
        let out = rows.iter().map(of_row).collect();
        return Ok(Computed::Ids(
            out,
            ids.weights.clone(),
            columns.categorical[place].buckets,
        ));
    }
    let mut variables = Vec::new();
    let mut out = Vec::new();
    if kind == "linear_model" {
        let units = case["linear_args"]["units"].as_u64().unwrap_or(1) as usize;
        let name = case["linear_args"]["sparse_combiner"]
            .as_str()
            .unwrap_or("sum");
        let combiner = Combiner::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .unwrap()
            .1;
        let linear = LinearModel::new(
            &columns,
            units,
            combiner,
            VariableScope {
                name: "linear_model",
                optimizer_group: "g",
            },
            &mut variables,
        );
        let values = lookup(case, &variables, |reads| linear.reads(&features, reads))?;
        out.resize(rows.len() * units, 0.0);
        linear.forward(&features, &values, &mut out);
    } else {
        let layer = InputLayer::new(&columns, kind, "g", &mut variables);
        let values = lookup(case, &variables, |reads| layer.reads(&features, reads))?;
        layer.forward(&features, &values, &mut out);
        let width = case["expected"]["shape"][1].as_u64();
        assert_eq!(
            width.unwrap_or(layer.width() as u64),
            layer.width() as u64,
            "{}",
            case["name"]
        );
    }
    let _: &Features = &features;
    Ok(Computed::Output(out))
}

/// Returns the recorded values that a batch reads.
fn lookup(
    case: &Value,
    variables: &[VariableSpec],
    name_rows: impl Fn(&mut Reads),
) -> Result<Values, String> {
    let mut reads: Reads = vec![Read::Whole; variables.len()];
    name_rows(&mut reads);
    let recorded = case["variables"].as_object().cloned().unwrap_or_default();
    let mut values = Values::new();
    for (spec, read) in variables.iter().zip(&reads) {
        let found = recorded.iter().find(|(name, _)| **name == spec.name);
        // In TensorFlow 2, shared tables lie outside of the layer's scope.
        let found = found.or_else(|| {
            recorded
                .iter()
                .find(|(name, _)| spec.name.split('/').any(|part| part == *name))
        });
        let Some((_, variable)) = found else {
            return Err(format!("{} was not recorded", spec.name));
        };
        assert_eq!(
            flat(&variable["shape"]),
            spec.shape
                .iter()
                .map(|&size| size as f32)
                .collect::<Vec<_>>()
        );
        let all = flat(&variable["value"]);
        values.push(match read {
            Read::Rows(rows) => {
                let width = spec.width();
                rows.iter()
                    .flat_map(|row| all[*row as usize * width..][..width].to_vec())
                    .collect()
            }
            _ => all,
        });
    }
    Ok(values)
}

/// Returns whether TensorFlow refused the columns or the batch.
fn is_error(case: &Value) -> bool {
    case["expected"].get("error").is_some()
}

fn check(case: &Value, folder: &Path) -> Result<(), String> {
    let computed = compute(case, folder);
    let expected = &case["expected"];
    if is_error(case) {
        return match computed {
            Err(_) => Ok(()),
            Ok(_) => Err(format!("no error, TensorFlow says {}", expected["error"])),
        };
    }
    match computed? {
        Computed::Output(out) => {
            difference(&out, &flat(&expected["output"]), 1e-5, 1e-6).map_or(Ok(()), Err)
        }
        Computed::Ids(ids, weights, buckets) => {
            let mut want = vec![Vec::new(); ids.len()];
            let mut want_weights = Vec::new();
            let all_weights = expected
                .get("weights")
                .map_or_else(Vec::new, |weights| flat(&weights["values"]));
            for (place, (index, id)) in list(&expected["ids"]["indices"])
                .iter()
                .zip(list(&expected["ids"]["values"]))
                .enumerate()
            {
                // An id of -1 is missing. An indicator also ignores an id out of range.
                let id = id.as_i64().unwrap();
                if (0..i64::from(buckets)).contains(&id) {
                    want[index[0].as_u64().unwrap() as usize].push(id as u32);
                    want_weights.extend(all_weights.get(place));
                } else if id >= 0 && !PASSED_THROUGH.contains(&case["name"].as_str().unwrap()) {
                    return Err(format!("id {id} is out of range"));
                }
            }
            if ids != want {
                return Err(format!("ids {ids:?}, not {want:?}"));
            }
            match weights {
                Some(weights) => {
                    difference(&weights, &want_weights, 1e-5, 1e-6).map_or(Ok(()), Err)
                }
                None if want_weights.is_empty() => Ok(()),
                None => Err("no weights, where TensorFlow has some".to_owned()),
            }
        }
    }
}

#[test]
fn golden_feature_columns_give_tensorflows_ids_and_outputs() {
    let golden = Golden::find();
    let mut equal = 0;
    let mut refused = 0;
    let mut passed_through = 0;
    let mut apart = 0;
    let mut failures = Vec::new();
    for case in &golden.cases("feature_columns.json", "cases") {
        let name = case["name"].as_str().unwrap();
        if APART.contains(&name) {
            apart += 1;
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        match check(case, folder.path()) {
            Ok(()) if is_error(case) => refused += 1,
            Ok(()) if PASSED_THROUGH.contains(&name) => passed_through += 1,
            Ok(()) => equal += 1,
            Err(problem) => failures.push(format!("{name}: {problem}")),
        }
    }
    report(
        &golden,
        "feature_columns.json",
        &failures,
        &[
            ("equal", equal, 137 - 26 - 2 - 1),
            ("refused by both", refused, 26),
            (
                "with ids out of range, which TensorFlow hands on",
                passed_through,
                2,
            ),
            ("not offered here", apart, 1),
        ],
    );
}
