//! Dynamic features in job files.
#![expect(
    clippy::unwrap_used,
    reason = "a job that is not as the test says fails the test"
)]

use std::path::Path;

use trainyard_diagnostic::{Diagnostic, render_all};
use trainyard_run_config::{CrossKey, Deep, DynamicConfig, FeatureKind, Job};

const JOB: &str = r#"
model_dir = "runs/users"
[input]
label = { column = "y" }
train = { files = ["train.csv"] }
[[feature]]
column = "user"
kind = "dynamic"
deep = { embedding = 16 }
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [8]
[train]
max_steps = 10
"#;

fn parse(text: &str) -> Result<Job, Vec<Diagnostic>> {
    Job::parse(Path::new("job.toml"), text, &[])
}

fn refused(from: &str, to: &str, expected: &[&str]) {
    assert!(JOB.contains(from), "{from} is not in the job");
    let problems = parse(&JOB.replacen(from, to, 1)).unwrap_err();
    let text = render_all(&problems);
    assert_eq!(problems.len(), 1, "{text}");
    for part in expected {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn what_is_not_said_has_its_default() {
    let job = parse(JOB).unwrap();
    let table = DynamicConfig {
        rows_max: 1_000_000,
        admit_after: 1,
        expire_after_steps: None,
        expire_after_secs: None,
        shared_row: false,
    };
    let expected = FeatureKind::Dynamic {
        column: "user".into(),
        integers: false,
        table,
    };
    assert_eq!(
        (&job.features[0].kind, job.features[0].wide),
        (&expected, false)
    );
}

#[test]
fn every_rule_is_read() {
    let said = "kind = \"dynamic\"\nadmit_after = 3\nexpire_after_steps = 100_000\nexpire_after_secs = 3600\n\
                rows_max = 5000\nshared_row = true\nintegers = true\nwide = true";
    let job = parse(&JOB.replace("kind = \"dynamic\"", said)).unwrap();
    let table = DynamicConfig {
        rows_max: 5000,
        admit_after: 3,
        expire_after_steps: Some(100_000),
        expire_after_secs: Some(3600),
        shared_row: true,
    };
    let expected = FeatureKind::Dynamic {
        column: "user".into(),
        integers: true,
        table,
    };
    assert_eq!(
        (&job.features[0].kind, job.features[0].wide),
        (&expected, true)
    );
    assert!(
        matches!(&job.features[0].deep, Some(Deep::Embedding(embedding)) if embedding.dimension == 16)
    );
}

#[test]
fn mistakes_say_what_a_dynamic_feature_needs() {
    refused(
        "deep = { embedding = 16 }\n",
        "",
        &[
            "feature `user` is used by no part",
            "set wide = true, or deep = { embedding = 8 }\n",
        ],
    );
    refused(
        "deep = { embedding = 16 }",
        "deep = { indicator = true }",
        &["deep of a dynamic feature must be { embedding = 8 } or false"],
    );
    let rule = "deep of a dynamic feature must be { embedding = 8 } or false";
    refused("deep = { embedding = 16 }", "deep = \"indicator\"", &[rule]);
    refused(
        "deep = {",
        "buckets = 10\ndeep = {",
        &["unknown key `buckets`", "rows_max"],
    );
    refused(
        "deep = {",
        "rows_max = 0\ndeep = {",
        &["rows_max must be 1 to 4294967295, given 0"],
    );
    refused(
        "deep = {",
        "rows_max = 5_000_000_000\ndeep = {",
        &["rows_max must be 1 to 4294967295"],
    );
    refused(
        "deep = {",
        "admit_after = 0\ndeep = {",
        &["admit_after must be", "given 0"],
    );
    refused(
        "deep = {",
        "expire_after_steps = 0\ndeep = {",
        &["expire_after_steps must be", "given 0"],
    );
    refused(
        "deep = {",
        "shared_row = \"yes\"\ndeep = {",
        &["shared_row must be", "yes"],
    );
    refused(
        "deep = {",
        "expire_after_secs = \"1h\"\ndeep = {",
        &["expire_after_secs must be"],
    );
    refused(
        "\"dynamic\"",
        "\"dinamic\"",
        &["unknown feature kind `dinamic`", "did you mean `dynamic`?"],
    );
}

#[test]
fn a_cross_takes_the_values_of_a_dynamic_feature_and_not_its_ids() {
    let cross = |keys: &str| {
        let cross = format!(
            "[[feature]]\nkind = \"crossed\"\ncolumns = {keys}\nbuckets = 50\nwide = true\n[model]"
        );
        parse(&JOB.replacen("[model]", &cross, 1))
    };
    let job = cross("[\"user\", \"item\"]").unwrap();
    let FeatureKind::Crossed { keys, .. } = &job.features[1].kind else {
        panic!("{:?}", job.features[1])
    };
    assert_eq!(
        keys,
        &[CrossKey::Text("user".into()), CrossKey::Text("item".into())]
    );
    let text = render_all(&cross("[\"ids(user)\", \"item\"]").unwrap_err());
    assert!(
        text.contains("a cross cannot hold the ids of the dynamic feature `user`"),
        "{text}"
    );
    assert!(
        text.contains("cross its values, `user`") && text.contains("ids(user)"),
        "{text}"
    );
}

#[test]
fn features_that_share_a_table_share_its_rules() {
    let two = |more: &str| {
        let other = format!(
            "deep = {{ embedding = 16, table = \"t\" }}\n[[feature]]\ncolumn = \"friend\"\n{more}\n\
             deep = {{ embedding = 16, table = \"t\" }}"
        );
        parse(&JOB.replacen("deep = { embedding = 16 }", &other, 1))
    };
    assert_eq!(two("kind = \"dynamic\"").unwrap().features.len(), 2);
    for more in [
        "kind = \"dynamic\"\nadmit_after = 2",
        "kind = \"dynamic\"\nshared_row = true",
        "kind = \"hashed\"\nbuckets = 1000000",
    ] {
        let text = render_all(&two(more).unwrap_err());
        assert!(
            text.contains("features `user` and `friend` share the table `t`"),
            "{text}"
        );
        assert!(
            text.contains("give them the same kind, rows_max, admit_after, expiry and shared_row"),
            "{text}"
        );
    }
}

#[test]
fn features_of_a_table_that_have_other_rows_for_a_value_are_told() {
    let told = |one: &str, other: &str| -> String {
        let deep = "deep = { embedding = 4, table = \"t\" }";
        let features = format!(
            "column = \"user\"\n{one}\n{deep}\n[[feature]]\ncolumn = \"friend\"\n{other}\n{deep}"
        );
        let job = JOB.replacen(
            "column = \"user\"\nkind = \"dynamic\"\ndeep = { embedding = 16 }",
            &features,
            1,
        );
        assert_ne!(job, JOB);
        let job = parse(&job).expect("a job");
        let warnings = job.warnings().iter();
        warnings
            .map(|warning| format!("{}\n", warning.message))
            .collect()
    };
    let words = |values: &str| format!("kind = \"vocabulary\"\nvalues = [{values}]");
    for (one, other, expected) in [
        (
            words("\"a\", \"b\""),
            words("\"b\", \"a\""),
            "the value `a` has row 0 for `user` and row 1 for `friend`",
        ),
        (
            words("\"a\", \"b\""),
            words("\"a\", \"c\""),
            "the value `b` has row 1 for `user` and no row for `friend`",
        ),
        (
            words("\"a\", \"b\""),
            "kind = \"hashed\"\nbuckets = 2".to_owned(),
            "`user` and `friend` are of other kinds",
        ),
        (words("\"a\", \"b\""), words("\"a\", \"b\""), ""),
    ] {
        let text = told(&one, &other);
        let is_told = text.contains("read other rows for a value");
        assert_eq!(is_told, !expected.is_empty(), "{one} {other}: {text}");
        assert!(text.contains(expected), "{one} {other}: {text}");
    }
}

#[test]
fn a_table_with_the_name_of_another_features_own_table_is_refused_until_both_name_it() {
    let with = |deep: &str, friend: &str| {
        let other = format!(
            "deep = {deep}\n[[feature]]\ncolumn = \"friend\"\nkind = \"dynamic\"\ndeep = {friend}"
        );
        parse(&JOB.replacen("deep = { embedding = 16 }", &other, 1))
    };
    let named = "{ embedding = 16, table = \"user_embedding\" }";
    let text = render_all(&with("{ embedding = 16 }", named).unwrap_err());
    assert!(
        text.contains("E1006")
            && text.contains(
                "feature `friend` has the table `user_embedding`, which is that of feature `user`"
            ),
        "{text}"
    );
    assert_eq!(with(named, named).unwrap().features.len(), 2);
}
