//! Whether the rows of a warm start mean the same in both jobs (`tf.estimator.VocabInfo` maps them; here they must be equal).

use std::collections::BTreeSet;

use tracing::warn;
use trainyard_checkpoint::{Origin, WarmStart};
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_model_dir::absolute;
use trainyard_run_config::{Agreement, Job, WarmStartConfig, resolve_path};
use trainyard_variable::VariableSpec;

/// Keys of a feature that say which value a row stands for.
const OF_ROWS: [&str; 9] = [
    "kind",
    "values",
    "integers",
    "boundaries",
    "piecewise_linear",
    "numbers.normalizer",
    "buckets",
    "oov_buckets",
    "hash_key",
];
/// Keys of the label that say which class an output stands for.
const OF_CLASSES: [&str; 2] = ["input.label.vocabulary", "input.label.positive"];
/// Parts of the names of variables with a value for each class.
const OF_OUTPUTS: [&str; 2] = ["logits", "linear_model"];

/// Finds the initial values of a job's variables in another checkpoint. Returns also the variables that are not there.
///
/// # Errors
/// There is no such checkpoint, or its values do not fit the variables.
pub fn find_warm_start(
    job: &Job,
    start: &WarmStartConfig,
    variables: &[VariableSpec],
) -> Result<(WarmStart, Vec<String>), Diagnostic> {
    let path = absolute(&resolve_path(job, &start.from));
    let origin = Origin::open(&path, &mut |warning| warn!("{}", warning.log_line()))?;
    let found = WarmStart::find(&path, &origin, &start.variables, &start.rename, variables)?;
    let trained = origin.job();
    // Earlier releases and other programs have not recorded the job.
    if !trained.is_empty() {
        let names: Vec<&str> = found.0.names.keys().map(String::as_str).collect();
        let features = job.features.iter().map(|feature| feature.name.as_str());
        let own = Agreement::of(job);
        let trained = Agreement::recorded(trained);
        check_meaning(&trained, &own, features.clone(), &names)?;
        for told in differences_of_features(&trained, &own, features) {
            warn!("train.warm_start takes values that were trained with another feature: {told}");
        }
        let tasks = job.model.tasks.iter().map(|task| task.name.as_str());
        check_tasks(&trained, &own, tasks, &names)?;
    }
    Ok(found)
}

/// Keys of a feature that do not change what its values become.
const OF_TRAINING: [&str; 2] = ["deep.initializer", "deep.regularizer"];

/// Describes how the features of both jobs differ, one text for each.
fn differences_of_features<'a>(
    trained: &Agreement,
    own: &Agreement,
    features: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let told = features.filter_map(|feature| {
        let (there, here) = (
            trained.keys_of_feature(feature),
            own.keys_of_feature(feature),
        );
        let keys: BTreeSet<&str> = there.keys().chain(here.keys()).copied().collect();
        let differs = |key: &&str| {
            there.get(key) != here.get(key)
                && !OF_TRAINING.iter().any(|other| key.starts_with(other))
        };
        let first = keys
            .into_iter()
            .find(differs)
            .filter(|_| !there.is_empty())?;
        let shown = |value: Option<&&str>| value.map_or("not set", |value| *value).to_owned();
        Some(format!(
            "`{first}` of feature `{feature}` is {} there and {} here",
            shown(there.get(first)),
            shown(here.get(first))
        ))
    });
    told.collect()
}

/// Returns whether a variable holds rows of a feature: `.../NAME_embedding/embedding_weights`, `.../NAME/weights`.
fn is_of(variable: &str, feature: &str) -> bool {
    variable.split('/').any(|part| {
        let rest = part.strip_prefix(feature);
        rest.is_some_and(|rest| rest.is_empty() || rest == "_embedding")
    })
}

/// Checks that the variables of a warm start, by their names in this job, mean the same to the job that trained them.
/// `trained` is its record, `own` that of this job with these features.
///
/// # Errors
/// A variable has rows of a feature whose values are others, or classes that are others.
pub(crate) fn check_meaning<'a>(
    trained: &Agreement,
    own: &Agreement,
    features: impl Iterator<Item = &'a str>,
    variables: &[&str],
) -> Result<(), Diagnostic> {
    let shown = |value: Option<&str>| value.unwrap_or("not set").to_owned();
    for feature in features {
        let Some(variable) = variables.iter().find(|variable| is_of(variable, feature)) else {
            continue;
        };
        if trained.of_feature(feature, "kind").is_none() {
            continue;
        }
        for key in OF_ROWS {
            let there = trained.of_feature(feature, key);
            let here = own.of_feature(feature, key);
            if there != here {
                return Err(other(
                    variable,
                    &format!("`{key}` of feature `{feature}`"),
                    &shown(there),
                    &shown(here),
                ));
            }
        }
    }
    let of_outputs = |variable: &&&str| OF_OUTPUTS.iter().any(|part| variable.contains(part));
    let Some(variable) = variables.iter().find(of_outputs) else {
        return Ok(());
    };
    // Each task has classes of its own.
    let has_tasks = |job: &Agreement| !job.only(&["model.task"]).lines().is_empty();
    if has_tasks(own) || has_tasks(trained) {
        return Ok(());
    }
    for key in OF_CLASSES {
        let (there, here) = (trained.get(key), own.get(key));
        if there != here {
            return Err(other(
                variable,
                &format!("`{key}`"),
                &shown(there),
                &shown(here),
            ));
        }
    }
    Ok(())
}

/// Checks that the classes of the tasks whose variables a warm start has mean the same to the job that trained them.
///
/// # Errors
/// A task of the same name has other classes.
fn check_tasks<'a>(
    trained: &Agreement,
    own: &Agreement,
    tasks: impl Iterator<Item = &'a str>,
    variables: &[&str],
) -> Result<(), Diagnostic> {
    for task in tasks.filter(|task| trained.of_task(task, "head").is_some()) {
        let scope = format!("tasks/{task}/");
        let Some(variable) = variables
            .iter()
            .find(|variable| variable.starts_with(&scope))
        else {
            continue;
        };
        for key in ["head", "label.vocabulary", "label.positive"] {
            let [there, here] = [trained, own].map(|job| job.of_task(task, key));
            if there != here {
                let what = format!("`{key}` of task `{task}`");
                let [there, here] = [there, here].map(|value| value.unwrap_or("not set"));
                return Err(other(variable, &what, there, here));
            }
        }
    }
    Ok(())
}

fn other(variable: &str, what: &str, there: &str, here: &str) -> Diagnostic {
    let message = format!(
        "a warm start would give rows of `{variable}` another meaning: {what} is {there} in the job that trained it, and {here} in this one"
    );
    Diagnostic::error(Code::E3002, message).help(
        "give this job the same values in the same order, or leave the variable out by `variables` of train.warm_start",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement(lines: &[&str]) -> Agreement {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        Agreement::recorded(&lines)
    }

    const TRAINED: [&str; 3] = [
        "feature.3(city).kind=\"vocabulary\"",
        "feature.3(city).values=[\"a\",\"b\"]",
        "input.label.vocabulary=[\"no\",\"yes\"]",
    ];

    fn check(own: &[&str], variables: &[&str]) -> Result<(), Diagnostic> {
        let features = ["city", "age"].into_iter();
        check_meaning(&agreement(&TRAINED), &agreement(own), features, variables)
    }

    #[test]
    fn rows_of_a_vocabulary_in_another_order_are_refused_wherever_the_feature_stands() {
        let same = [
            "feature.0(city).kind=\"vocabulary\"",
            "feature.0(city).values=[\"a\",\"b\"]",
            TRAINED[2],
        ];
        let all = [
            "dnn/input_layer/city_embedding/embedding_weights",
            "dnn/logits/kernel",
        ];
        check(&same, &all).expect("the same words");
        let reversed = [same[0], "feature.0(city).values=[\"b\",\"a\"]", TRAINED[2]];
        let refused = check(&reversed, &all).expect_err("another order");
        assert_eq!(refused.code, Code::E3002);
        assert!(
            refused.message.contains("`values` of feature `city`"),
            "{refused}"
        );
        check(&reversed, &all[1..]).expect("the embedding is left out");
        let wide = ["linear/linear_model/city/weights"];
        assert!(check(&reversed, &wide).is_err());
    }

    #[test]
    fn features_whose_numbers_become_others_are_told_wherever_they_stand() {
        let trained = agreement(&[
            "feature.0(age).kind=\"numeric\"",
            "feature.0(age).normalizer=\"log1p\"",
            "feature.1(x%3Dy).kind=\"numeric\"",
        ]);
        let own = agreement(&[
            "feature.0(new).kind=\"numeric\"",
            "feature.1(x%3Dy).kind=\"numeric\"",
            "feature.2(age).kind=\"numeric\"",
            "feature.2(age).normalizer=\"none\"",
            "feature.2(age).deep.initializer.kind=\"zeros\"",
        ]);
        let told = differences_of_features(&trained, &own, ["new", "x=y", "age"].into_iter());
        let expected =
            "`normalizer` of feature `age` is \"log1p\" there and \"none\" here".to_owned();
        assert_eq!(told, [expected]);
        let same = differences_of_features(&own, &own, ["new", "x=y", "age"].into_iter());
        assert_eq!(same, [""; 0]);
    }

    #[test]
    fn classes_in_another_order_are_refused_where_outputs_are_taken() {
        let own = [
            TRAINED[0],
            TRAINED[1],
            "input.label.vocabulary=[\"yes\",\"no\"]",
        ];
        let refused = check(&own, &["dnn/logits/bias"]).expect_err("another order");
        assert!(
            refused.message.contains("`input.label.vocabulary`"),
            "{refused}"
        );
        check(&own, &["dnn/hiddenlayer_0/kernel"]).expect("no outputs");
    }

    #[test]
    fn a_feature_that_the_other_job_did_not_have_is_not_compared() {
        let own = ["feature.1(age).kind=\"bucketized\"", TRAINED[2]];
        check(&own, &["linear/linear_model/age/weights"]).expect("nothing is known of it");
    }

    #[test]
    fn classes_of_a_task_are_those_of_the_task_of_its_name_wherever_it_stands() {
        let trained = agreement(&[
            "input.label.positive=\"no\"",
            "model.task.0(buy).head=\"binary\"",
            "model.task.0(buy).label.positive=\"no\"",
            "model.task.1(click).head=\"binary\"",
            "model.task.1(click).label.positive=\"yes\"",
        ]);
        let own = |positive: &str| {
            let label = format!("model.task.0(click).label.positive={positive:?}");
            let first = format!("input.label.positive={positive:?}");
            agreement(&[&first, "model.task.0(click).head=\"binary\"", &label])
        };
        let variables = ["tasks/click/logits/kernel"];
        let check = |own: &Agreement| {
            check_meaning(&trained, own, [].into_iter(), &variables)?;
            check_tasks(&trained, own, ["click"].into_iter(), &variables)
        };
        assert!(check(&own("yes")).is_ok());
        let refused = check(&own("no")).expect_err("another class");
        let told = "`label.positive` of task `click` is \"yes\" in the job that trained it";
        assert!(refused.message.contains(told), "{}", refused.message);
    }
}
