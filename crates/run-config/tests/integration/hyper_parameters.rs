//! The declared defaults of hyper-parameters are those of the update rules.

use serde_json::{Map, Value, json};
use trainyard_diagnostic::{Key, Kinds, Preset, Takes};
use trainyard_optimizer::OptimizerConfig;
use trainyard_run_config::keys;

/// Returns the kinds of optimizers.
fn optimizers() -> Kinds {
    let model = keys().into_iter().find(|key| key.name == "model");
    let Takes::Table(keys) = model.expect("a section").takes else {
        panic!("[model] is a table");
    };
    let optimizer = keys.into_iter().find(|key| key.name == "dnn_optimizer");
    match optimizer.expect("a key").takes {
        Takes::TableByKind(kinds) => kinds,
        other => panic!("an optimizer has a kind: {other:?}"),
    }
}

/// Returns the schedules that a learning rate of these keys may follow.
fn schedules(keys: &[Key]) -> Kinds {
    let rate = keys.iter().find(|key| key.name == "learning_rate");
    let Takes::AnyOf(forms) = &rate.expect("a rate").takes else {
        panic!("a rate may be a schedule");
    };
    let schedules = forms.iter().find_map(|form| match form {
        Takes::TableByKind(kinds) => Some(kinds.clone()),
        _ => None,
    });
    schedules.expect("a rate may be a schedule")
}

/// Returns the declared defaults.
fn defaults(keys: &[Key]) -> Map<String, Value> {
    let default = |key: &Key| match &key.preset {
        Preset::Value(text) => Some((
            key.name.to_owned(),
            serde_json::from_str(text).expect("a number or a flag is JSON"),
        )),
        _ => None,
    };
    keys.iter().filter_map(default).collect()
}

fn rule(fields: &Map<String, Value>) -> OptimizerConfig {
    serde_json::from_value(fields.clone().into())
        .unwrap_or_else(|error| panic!("{fields:?}: {error}"))
}

#[test]
fn each_rule_has_the_declared_defaults() {
    let mut compared = 0;
    for kind in optimizers().kinds {
        let given = defaults(&kind.keys);
        let mut fields = Map::from_iter([("kind".to_owned(), json!(kind.name))]);
        if !given.contains_key("learning_rate") {
            fields.insert("learning_rate".to_owned(), json!(0.5));
        }
        let left_out = rule(&fields);
        compared += given.len();
        fields.extend(given);
        assert_eq!(left_out, rule(&fields), "{}", kind.name);
    }
    assert!(compared >= 35, "only {compared} defaults");
}

#[test]
fn each_schedule_has_the_declared_defaults() {
    let sgd = optimizers()
        .kinds
        .into_iter()
        .find(|kind| kind.name == "sgd");
    let mut compared = 0;
    for kind in schedules(&sgd.expect("a kind").keys).kinds {
        let mut schedule = Map::from_iter([("kind".to_owned(), json!(kind.name))]);
        for key in &kind.keys {
            let value = match (&key.preset, &key.takes) {
                (Preset::Required, Takes::Numbers) if key.name == "values" => json!([0.5, 0.25]),
                (Preset::Required, Takes::Numbers) => json!([3.0]),
                (Preset::Required, _) => json!(0.5),
                _ => continue,
            };
            schedule.insert(key.name.to_owned(), value);
        }
        let of = |schedule: &Map<String, Value>| {
            let fields = [("kind", json!("sgd")), ("learning_rate", json!(schedule))];
            rule(&Map::from_iter(
                fields.map(|(name, value)| (name.to_owned(), value)),
            ))
        };
        let left_out = of(&schedule);
        let given = defaults(&kind.keys);
        compared += given.len();
        schedule.extend(given);
        assert_eq!(left_out, of(&schedule), "{}", kind.name);
    }
    assert!(compared >= 12, "only {compared} defaults");
}
