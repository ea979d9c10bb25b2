//! Order of the columns that the first dense layer reads. The job and TensorFlow both sort columns by name.

use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_run_config::{FeatureConfig, Job};

/// A column that feeds the first dense layer.
#[derive(Debug, PartialEq)]
struct Column<'a> {
    feature: &'a FeatureConfig,
    /// Name by which the job sorts the column.
    ours: String,
    /// Name by which TensorFlow sorted the column, according to the renames.
    theirs: String,
    /// Name of the feature in TensorFlow.
    their_feature: String,
}

/// Columns of the first dense layer, in the order of their rows in its kernel. Empty if the model has no such layer.
#[derive(Debug)]
pub(super) struct InputOrder<'a> {
    columns: Vec<Column<'a>>,
}

impl<'a> InputOrder<'a> {
    /// Reads the columns of a job, and their TensorFlow names from `rename`: `linear/linear_model/A/weights` and
    /// `.../A_embedding/embedding_weights` contain the name of the column.
    pub(super) fn new(job: &'a Job, rename: &[(String, String)]) -> Self {
        let mut columns = Vec::new();
        if job.model.kind.has_dnn() && !job.model.kind.is_custom() {
            columns = job
                .features
                .iter()
                .filter_map(|feature| column(feature, rename))
                .collect();
        }
        columns.sort_by(|one, other| one.ours.cmp(&other.ours));
        Self { columns }
    }

    /// Returns the names of the columns in order.
    pub(super) fn names(&self) -> Vec<&str> {
        self.columns
            .iter()
            .map(|column| column.ours.as_str())
            .collect()
    }

    /// Refuses renamed columns that TensorFlow sorted elsewhere: their rows of the kernel would belong to other
    /// columns.
    pub(super) fn check(&self) -> Result<(), Diagnostic> {
        let mut theirs: Vec<&Column<'_>> = self.columns.iter().collect();
        theirs.sort_by(|one, other| one.theirs.cmp(&other.theirs));
        if theirs
            .iter()
            .zip(&self.columns)
            .all(|(one, other)| *one == other)
        {
            return Ok(());
        }
        let list = |names: Vec<&str>| names.join(", ");
        let their_names = theirs.iter().map(|column| column.theirs.as_str()).collect();
        let message = "the first kernel's rows would belong to other columns: it reads its input in the order of the \
                       columns' names, and the renamed ones sort elsewhere than in the checkpoint";
        let mut problem = Diagnostic::error(Code::E3002, message)
            .note(format!("in the checkpoint: {}", list(their_names)))
            .note(format!("in the job: {}", list(self.names())));
        for column in self
            .columns
            .iter()
            .filter(|column| column.ours != column.theirs)
        {
            let ours = &column.feature.name;
            let theirs = &column.their_feature;
            problem = problem.note(format!("the feature `{ours}` needs name = \"{theirs}\""));
        }
        Err(problem.help(
            "give these features the checkpoint's names with the key `name` (`column` stays what it is), and leave out their --rename",
        ))
    }
}

fn column<'a>(feature: &'a FeatureConfig, rename: &[(String, String)]) -> Option<Column<'a>> {
    let deep = feature.deep.as_ref()?;
    let ours = deep.column_name(&feature.name);
    let mut their_feature = feature.name.clone();
    let suffix = ours.strip_prefix(&feature.name).unwrap_or_default();
    for (our_variable, their_variable) in rename {
        let (Some(our_part), Some(their_part)) = (scope(our_variable), scope(their_variable))
        else {
            continue;
        };
        if our_part == feature.name {
            their_feature = their_part.to_owned();
        } else if our_part == ours {
            their_feature = their_part
                .strip_suffix(suffix)
                .unwrap_or(their_part)
                .to_owned();
        }
    }
    let theirs = deep.column_name(&their_feature);
    Some(Column {
        feature,
        ours,
        theirs,
        their_feature,
    })
}

/// Returns the last but one part of a variable's name.
pub(super) fn scope(variable: &str) -> Option<&str> {
    let (front, _) = variable.rsplit_once('/')?;
    front.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const JOB: &str = r#"
model_dir = "model"
[input]
label = { column = "y" }
train = { files = ["train.csv"], epochs = 1 }
[[feature]]
column = "education-num"
kind = "numeric"
wide = true
[[feature]]
column = "education"
kind = "hashed"
buckets = 10
deep = "indicator"
[model]
kind = "dnn_linear_combined_classifier"
hidden_units = [4]
"#;

    fn rename() -> Vec<(String, String)> {
        let scope = "linear/linear_model";
        vec![(
            format!("{scope}/education-num/weights"),
            format!("{scope}/education_num/weights"),
        )]
    }

    fn parse(text: &str) -> Job {
        Job::parse(Path::new("job.toml"), text, &[]).expect("the job holds")
    }

    #[test]
    fn a_renamed_column_that_sorts_elsewhere_is_refused_with_the_key_that_cures_it() {
        // '-' sorts before '_', which sorts before 'n'.
        let job = parse(JOB);
        let order = InputOrder::new(&job, &rename());
        assert_eq!(order.names(), ["education-num", "education_indicator"]);
        let refused = order.check().expect_err("the order differs");
        let cure = "the feature `education-num` needs name = \"education_num\"";
        assert!(refused.notes.iter().any(|note| note == cure), "{refused:?}");
        assert!(
            refused
                .notes
                .iter()
                .any(|note| note == "in the checkpoint: education_indicator, education_num")
        );
    }

    #[test]
    fn a_renamed_column_that_keeps_its_place_is_taken() {
        let job = parse(&JOB.replace("education-num", "hours"));
        let rename = [(
            "linear/linear_model/hours/weights".to_owned(),
            "linear/linear_model/hrs/weights".to_owned(),
        )];
        assert_eq!(InputOrder::new(&job, &rename).check(), Ok(()));
    }

    #[test]
    fn the_cure_gives_the_order_of_the_checkpoint() {
        let named = "column = \"education-num\"\nname = \"education_num\"";
        let job = parse(&JOB.replace("column = \"education-num\"", named));
        let order = InputOrder::new(&job, &[]);
        assert_eq!(order.names(), ["education_indicator", "education_num"]);
        assert_eq!(order.check(), Ok(()));
    }
}
