//! Files that features name: vocabularies and boundaries.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use trainyard_diagnostic::{Code, Document, Section, Table, Value};
use trainyard_storage::read_regular_text;
use trainyard_vocabulary::Words;

use super::numbers::{Ties, ascending, check_ties};
use crate::analysis::{AnalysisRule, FilesNeeded};
use crate::{InputConfig, MissingTexts};

/// How files come to be that the job describes.
pub(super) const MADE_BY: &str = "`trainyard analyze JOB.toml` makes it from the training data";

/// Longest file of boundaries, in bytes.
const BOUNDARIES_BYTES_MAX: u64 = 64 << 20;

/// Files of the features of a job. Features that use the same values of a file share them.
pub(super) struct FeatureFiles {
    /// Folder of the job file.
    pub(super) folder: PathBuf,
    /// Fields of the input are read without the blanks around them.
    pub(super) trims: bool,
    /// Fields are texts that a separator divides into values; other formats have lists of their own.
    pub(super) are_divided: bool,
    /// Texts that mean a missing value.
    pub(super) missing: MissingTexts,
    /// Characters of numbers that divide no list of them.
    pub(super) of_numbers: Vec<u8>,
    /// Files that `trainyard analyze` makes need not be there.
    pub(super) needs: FilesNeeded,
    /// Values by the path of their file and the key `size`.
    pub(super) read: HashMap<(PathBuf, Option<usize>), Words>,
    /// Boundaries by the path of their file; absent = it cannot be read, which has been reported.
    boundaries: HashMap<PathBuf, Option<Table>>,
    /// Files that `trainyard analyze` makes for the feature that is being read.
    pub(super) made: Vec<(PathBuf, AnalysisRule)>,
}

impl FeatureFiles {
    pub(super) fn new(job_file: &Path, input: Option<&InputConfig>, needs: FilesNeeded) -> Self {
        Self {
            folder: job_file.parent().unwrap_or(Path::new("")).to_owned(),
            trims: input.is_some_and(InputConfig::trims),
            are_divided: input.is_some_and(InputConfig::are_divided),
            missing: input.map_or(MissingTexts::default(), |input| input.missing.clone()),
            of_numbers: input.map_or(Vec::new(), InputConfig::characters_of_numbers),
            needs,
            read: HashMap::new(),
            boundaries: HashMap::new(),
            made: Vec::new(),
        }
    }

    /// Returns the boundaries of a feature in a file.
    pub(super) fn boundaries(
        &mut self,
        section: &Section<'_>,
        file: &Path,
        feature: &str,
        (is_made, ties): (bool, Ties),
    ) -> Option<Vec<f32>> {
        let table = self
            .boundaries
            .entry(file.to_owned())
            .or_insert_with(|| read_boundaries(section, file, is_made));
        let reject = |message: String, help: Option<&str>| {
            let problem = section.reject(Code::E1002, "boundaries_file", message);
            section.problems().push(match help {
                Some(help) => problem.help(help),
                None => problem,
            });
        };
        let Some(node) = table.as_ref()?.get(feature) else {
            reject(
                format!(
                    "{} has no boundaries of the feature `{feature}`",
                    file.display()
                ),
                Some(if is_made {
                    "`trainyard analyze --force JOB.toml` makes the file again, for all features that name it"
                } else {
                    "it is a TOML file with a list of ascending numbers for each name of a feature"
                }),
            );
            return None;
        };
        let number = |value: &Value| match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        };
        let numbers: Option<Vec<f64>> = match &node.value {
            Value::List(items) => items.iter().map(|item| number(&item.value)).collect(),
            _ => None,
        };
        let boundaries = match numbers {
            Some(numbers) => ascending(&numbers).and_then(|boundaries| {
                check_ties(&boundaries, ties)?;
                Ok(boundaries)
            }),
            None => Err(format!(
                "must be a list of numbers, given {}",
                node.value.type_name()
            )),
        };
        match boundaries {
            Ok(boundaries) => Some(boundaries),
            Err(what) => {
                reject(
                    format!("boundaries of `{feature}` in {} {what}", file.display()),
                    None,
                );
                None
            }
        }
    }
}

fn read_boundaries(section: &Section<'_>, file: &Path, is_made: bool) -> Option<Table> {
    let text = match read_regular_text(file, BOUNDARIES_BYTES_MAX) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("boundaries_file {} cannot be read: {error}", file.display());
            let problem = section.reject(Code::E1201, "boundaries_file", message);
            section.problems().push(if is_made {
                problem.help(MADE_BY)
            } else {
                problem
            });
            return None;
        }
    };
    match Document::parse(file, &text) {
        Ok(document) => Some(document.root),
        Err(problems) => {
            for problem in problems {
                section.problems().push(problem);
            }
            None
        }
    }
}
