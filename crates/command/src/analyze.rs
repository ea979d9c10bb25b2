//! `trainyard analyze`: makes the vocabularies and boundaries of a job from its training data.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use trainyard_checkpoint::list;
use trainyard_diagnostic::{Code, Diagnostic};
use trainyard_feature_column::FeatureColumns;
use trainyard_input::{Batch, Cells, Dataset, FieldKind, Fraction, Schema};
use trainyard_model::{Part, Shard, input_options};
use trainyard_model_dir::{create_folder, write_result};
use trainyard_run_config::{
    Analysis, AnalysisRule, BoundaryPurpose, FeatureConfig, FeatureKind, Job, Normalizer, Numbers,
};

use crate::arguments::JobArguments;
use crate::init::quoted;
use crate::output::print;
use crate::quantiles::{Sample, boundaries};
use crate::targets::{Existing, check_targets};

/// Description of the command.
pub(crate) const ANALYZE: &str = "Makes the files that features learn of the training data before training:
the vocabularies of features with `min_count`, and the boundaries of features with `quantiles`.

All training records are read once, as training reads them. A file stays as it is until --force makes it again, so that
a model keeps its vocabularies and boundaries whatever becomes of the data.";

#[derive(Debug, Args)]
pub(crate) struct Analyze {
    #[command(flatten)]
    pub(crate) job: JobArguments,
    /// Makes files again that exist.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Makes the files of a job.
pub(crate) fn analyze(arguments: &Analyze) -> Result<(), Vec<Diagnostic>> {
    let mut job = Job::load_before_analysis(&arguments.job.job, &arguments.job.set)?;
    if let Some(folder) = &arguments.job.model_dir {
        job.model_dir.clone_from(folder);
    }
    make(&job, Existing::by_force(arguments.force)).map_err(|problem| vec![problem])
}

fn make(job: &Job, existing: Existing) -> Result<(), Diagnostic> {
    let mut schema = Schema::default();
    // Records that the features cannot use have no part in training.
    FeatureColumns::new(&job.features, &mut schema);
    let mut vocabularies = vocabularies(job, &mut schema)?;
    let mut bounds = Bounds::new(job, &mut schema);
    let files = vocabularies.iter().map(|one| one.file.clone());
    let files: Vec<PathBuf> = files.chain(bounds.files()).collect();
    if files.is_empty() {
        let message = "nothing to make: no feature of the job has min_count or quantiles";
        return Err(Diagnostic::error(Code::E1005, message).help(
            "give a vocabulary feature `file` and `min_count`, or a feature of numbers `boundaries_file` and `quantiles`",
        ));
    }
    let options = input_options(job, Part::TrainForEvaluation, Shard::WHOLE, None)?;
    let mut inputs = options.files.clone();
    inputs.push(job.path.clone());
    check_targets(&files, &inputs, existing)?;
    refuse_trained(job, &files)?;
    let mut records = 0_u64;
    for batch in Dataset::open(options, schema)? {
        let batch = batch?;
        records += batch.rows as u64;
        for vocabulary in &mut vocabularies {
            vocabulary.see(&batch);
        }
        bounds.see(&batch)?;
    }
    if records == 0 {
        let message = "the training input holds no record that can be used";
        return Err(Diagnostic::error(Code::E4001, message)
            .help("`trainyard check` says what is wrong with them"));
    }
    let made: Result<Vec<Made>, Diagnostic> = vocabularies
        .iter()
        .map(Vocabulary::made)
        .chain(bounds.made())
        .collect();
    let mut text = String::new();
    // Nothing is written before all of it can be.
    for Made {
        file,
        content,
        told,
    } in made?
    {
        if let Some(folder) = file.parent().filter(|folder| *folder != Path::new("")) {
            create_folder(folder)?;
        }
        write_result(&file, content.as_bytes())?;
        text += &told;
    }
    print(&text)
}

/// Refuses to make files again with which a model has been trained: its rows would get another meaning.
fn refuse_trained(job: &Job, files: &[PathBuf]) -> Result<(), Diagnostic> {
    let Some(file) = files.iter().find(|file| file.exists()) else {
        return Ok(());
    };
    let Some(trained) = list(&job.model_dir)?
        .into_iter()
        .rev()
        .find(|found| found.step > 0)
    else {
        return Ok(());
    };
    let message = format!(
        "{} stays as it is: {} holds a model that was trained with it, to step {}",
        file.display(),
        job.model_dir.display(),
        trained.step
    );
    Err(Diagnostic::error(Code::E3002, message)
        .help("give another file in the job, with another model_dir; or remove the model"))
}

/// A file to write.
struct Made {
    file: PathBuf,
    content: String,
    /// What is said of it, in lines.
    told: String,
}

/// Counts of the values of the features that name one file.
struct Vocabulary {
    file: PathBuf,
    min_count: u64,
    /// Names of the columns, for messages.
    columns: Vec<String>,
    fields: Vec<usize>,
    counts: HashMap<Vec<u8>, u64>,
    total: u64,
}

/// Returns the vocabularies of a job, and adds the fields of their features to a schema.
///
/// # Errors
/// Features that name the same file differ in what is listed there.
fn vocabularies(job: &Job, schema: &mut Schema) -> Result<Vec<Vocabulary>, Diagnostic> {
    let mut all: Vec<Vocabulary> = Vec::new();
    for Analysis {
        feature,
        file,
        rule,
    } in job.analyses()
    {
        let AnalysisRule::Vocabulary { min_count } = *rule else {
            continue;
        };
        let feature = &job.features[*feature];
        let FeatureKind::Vocabulary {
            column, integers, ..
        } = &feature.kind
        else {
            continue;
        };
        let separator = feature.separator;
        let kind = if *integers {
            FieldKind::Int {
                separator,
                fraction: Fraction::Refused,
            }
        } else {
            FieldKind::Bytes { separator }
        };
        let field = schema.want(column, kind);
        let Some(vocabulary) = all.iter_mut().find(|one| one.file == *file) else {
            all.push(Vocabulary {
                file: file.clone(),
                min_count,
                columns: vec![column.clone()],
                fields: vec![field],
                counts: HashMap::new(),
                total: 0,
            });
            continue;
        };
        if vocabulary.min_count != min_count {
            let message = format!(
                "features that name {} must have one min_count, given {} and {min_count}",
                file.display(),
                vocabulary.min_count
            );
            return Err(Diagnostic::error(Code::E1006, message).help("give each a file of its own"));
        }
        // Two features may read one column in the same way.
        if !vocabulary.fields.contains(&field) {
            vocabulary.columns.push(column.clone());
            vocabulary.fields.push(field);
        }
    }
    Ok(all)
}

impl Vocabulary {
    fn see(&mut self, batch: &Batch) {
        for &field in &self.fields {
            match &batch.columns[field].cells {
                Cells::Bytes(texts) => {
                    for place in 0..texts.len() {
                        count(&mut self.counts, &mut self.total, texts.get(place));
                    }
                }
                Cells::Int(numbers) => {
                    for number in numbers.iter().filter(|number| **number != -1) {
                        count(
                            &mut self.counts,
                            &mut self.total,
                            number.to_string().as_bytes(),
                        );
                    }
                }
                Cells::Float(_) => {}
            }
        }
    }

    /// Returns the file, with the most frequent value first.
    fn made(&self) -> Result<Made, Diagnostic> {
        let mut listed: Vec<(&str, u64)> = Vec::new();
        let mut unwritable = 0_u64;
        for (value, count) in &self.counts {
            if *count < self.min_count {
                continue;
            }
            match std::str::from_utf8(value) {
                Ok(text) if is_line(text) => listed.push((text, *count)),
                _ => unwritable += 1,
            }
        }
        let file = self.file.display();
        let columns = self.columns.join("`, `");
        if listed.is_empty() {
            let most = self.counts.values().max().copied().unwrap_or(0);
            let message = format!(
                "no value of `{columns}` occurs {} times in the training data: the most frequent one occurs {most} times",
                self.min_count
            );
            return Err(Diagnostic::error(Code::E4005, message).help("lower min_count"));
        }
        listed.sort_unstable_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
        let occurrences: u64 = listed.iter().map(|(_, count)| count).sum();
        let mut told = format!(
            "{file}: {} of {} values of `{columns}` occur at least {} times, which are {:.1} % of {} occurrences; the rest share \
             the ids of oov_buckets\n",
            listed.len(),
            self.counts.len(),
            self.min_count,
            100.0 * occurrences as f64 / self.total.max(1) as f64,
            self.total
        );
        if unwritable > 0 {
            let _ = writeln!(
                told,
                "{file}: {unwritable} more are no line of UTF-8, and share those ids, too"
            );
        }
        let content = listed.iter().map(|(text, _)| format!("{text}\n"));
        Ok(Made {
            file: self.file.clone(),
            content: content.collect(),
            told,
        })
    }
}

/// Returns whether a text is a line of a vocabulary file, which is read as the same text.
fn is_line(text: &str) -> bool {
    !text.contains('\n') && !text.ends_with('\r') && !text.starts_with('\u{feff}')
}

/// Counts a value. An empty text is no value.
fn count(counts: &mut HashMap<Vec<u8>, u64>, total: &mut u64, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    *total += 1;
    match counts.get_mut(value) {
        Some(count) => *count += 1,
        None => drop(counts.insert(value.to_vec(), 1)),
    }
}

/// The numbers of the features whose boundaries are made.
struct Bounds {
    /// The features as numeric ones, by names of their own.
    columns: FeatureColumns,
    features: Vec<Bounded>,
}

struct Bounded {
    name: String,
    file: PathBuf,
    quantiles: usize,
    purpose: BoundaryPurpose,
    /// Place of its first number in a row, and their number.
    begin: usize,
    width: usize,
    sample: Sample,
}

impl Bounds {
    /// Returns the numbers, and adds their fields to a schema.
    fn new(job: &Job, schema: &mut Schema) -> Self {
        let mut numeric = Vec::new();
        let mut features = Vec::new();
        for Analysis {
            feature,
            file,
            rule,
        } in job.analyses()
        {
            let AnalysisRule::Boundaries { quantiles, purpose } = *rule else {
                continue;
            };
            let feature = &job.features[*feature];
            let numbers = match &feature.kind {
                FeatureKind::Bucketized { numbers, .. } | FeatureKind::Numeric(numbers) => {
                    let normalizer = match purpose {
                        BoundaryPurpose::Buckets | BoundaryPurpose::Bins => {
                            numbers.normalizer.clone()
                        }
                        // They are what it is made of.
                        BoundaryPurpose::Quantiles => Normalizer::None,
                    };
                    Numbers {
                        normalizer,
                        piecewise_linear: None,
                        ..numbers.clone()
                    }
                }
                _ => continue,
            };
            // As numeric features they are in the order of these names.
            let name = format!("{:08}", features.len());
            numeric.push(FeatureConfig {
                name,
                kind: FeatureKind::Numeric(numbers.clone()),
                separator: feature.separator,
                ..FeatureConfig::numeric(numbers.column.clone())
            });
            features.push(Bounded {
                name: feature.name.clone(),
                file: file.clone(),
                quantiles,
                purpose,
                begin: 0,
                width: numbers.width,
                sample: Sample::default(),
            });
        }
        let columns = FeatureColumns::new(&numeric, schema);
        for (feature, column) in features.iter_mut().zip(&columns.numeric) {
            feature.begin = column.begin;
        }
        Self { columns, features }
    }

    /// Returns the files, each once.
    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.features.iter().map(|one| one.file.clone()).collect();
        files.sort_unstable();
        files.dedup();
        files
    }

    fn see(&mut self, batch: &Batch) -> Result<(), Diagnostic> {
        if self.features.is_empty() {
            return Ok(());
        }
        let transformed = self.columns.transform(batch).map_err(|error| {
            Diagnostic::error(Code::E4005, error.to_string())
                .help("`trainyard check` looks at the records")
        })?;
        for row in transformed.numbers.chunks_exact(self.columns.numbers_width) {
            for feature in &mut self.features {
                for number in &row[feature.begin..feature.begin + feature.width] {
                    feature.sample.add(*number);
                }
            }
        }
        Ok(())
    }

    /// Returns the files: TOML, with the boundaries of each feature that names one.
    fn made(&self) -> Vec<Result<Made, Diagnostic>> {
        let mut by_file: BTreeMap<&Path, Vec<&Bounded>> = BTreeMap::new();
        for feature in &self.features {
            by_file.entry(&feature.file).or_default().push(feature);
        }
        by_file
            .into_iter()
            .map(|(file, features)| file_of(file, &features))
            .collect()
    }
}

/// Tells that a feature has one number, or none.
fn nothing_to_divide(name: &str, only: Option<f32>) -> Diagnostic {
    let Some(only) = only else {
        let message = format!("the feature `{name}` has no number in any training record");
        return Diagnostic::error(Code::E4005, message).help("leave the feature out");
    };
    let step = f64::from(only.abs().next_up()) - f64::from(only.abs());
    let message = format!(
        "the feature `{name}` has one number in all training records, {only}: there is nothing to divide"
    );
    Diagnostic::error(Code::E4005, message)
        .note(format!(
            "features have floats of 32 bits, which are {step} apart there: numbers of the files that are closer to each other may be one"
        ))
        .help("leave the feature out; where the files tell such numbers apart, subtract a constant near their mean from them in the files")
}

fn file_of(file: &Path, features: &[&Bounded]) -> Result<Made, Diagnostic> {
    let mut content =
        "# Boundaries of buckets and bins, and quantiles, by the name of the feature. `trainyard analyze` has made them.\n"
            .to_owned();
    let mut told = String::new();
    let mut known: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
    for feature in features {
        let found = boundaries(&feature.sample, feature.quantiles, feature.purpose);
        let name = feature.name.as_str();
        if found.is_empty() {
            return Err(nothing_to_divide(name, feature.sample.first()));
        }
        match known.get(name) {
            // The same feature may feed several parts of the model.
            Some(before) if *before == found => continue,
            Some(_) => {
                let message = format!(
                    "two features `{name}` name {}, and have other boundaries there",
                    file.display()
                );
                return Err(Diagnostic::error(Code::E1006, message)
                    .help("give one of them another name, or another boundaries_file"));
            }
            None => {}
        }
        // Debug writes the digits that are read as the same number.
        let numbers: Vec<String> = found.iter().map(|number| format!("{number:?}")).collect();
        let _ = writeln!(content, "{} = [{}]", quoted(name), numbers.join(", "));
        let _ = writeln!(
            told,
            "{}: {} boundaries of `{name}`, of {} numbers",
            file.display(),
            found.len(),
            feature.sample.seen()
        );
        known.insert(name, found);
    }
    Ok(Made {
        file: file.to_owned(),
        content,
        told,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_one_in_32_bits_are_told_with_the_distance_that_they_lack() {
        let mut sample = Sample::default();
        [1_000_000_001.0_f64, 1_000_000_002.0]
            .into_iter()
            .for_each(|number| sample.add(number as f32));
        let told = nothing_to_divide("a", sample.first()).render();
        for part in ["`a`", "1000000000", "64 apart", "subtract a constant"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let none = nothing_to_divide("a", Sample::default().first()).render();
        assert!(none.contains("no number in any"), "{none}");
    }
}
