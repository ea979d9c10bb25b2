//! Warm start: chooses the variables of a new model that begin with the values of another run
//! (`tf.estimator.WarmStartSettings`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use regex::Regex;
use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_variable::VariableSpec;

use crate::Origin;

/// Variables of a model, with their names in another checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmStart {
    /// Path of the checkpoint, for [`Origin::open`].
    pub path: PathBuf,
    /// Name in the checkpoint, by variable.
    pub names: BTreeMap<String, String>,
}

impl WarmStart {
    /// Finds the variables whose whole name matches `pattern`, under their own name or the name that `rename` gives.
    /// Also returns the variables that match but are not in the checkpoint. They keep their initial values.
    ///
    /// # Errors
    /// No variable is found, a renamed variable is absent, or shapes differ.
    pub fn find(
        path: &Path,
        origin: &Origin,
        pattern: &str,
        rename: &[(String, String)],
        variables: &[VariableSpec],
    ) -> Result<(Self, Vec<String>), Diagnostic> {
        let there: BTreeMap<String, Vec<usize>> = origin.variables().into_iter().collect();
        let near = |name: &str| suggest(name, there.keys().map(String::as_str)).map(str::to_owned);
        let pattern = Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
            Diagnostic::error(Code::E1002, format!("train.warm_start.variables: {error}"))
        })?;
        if let Some((unknown, _)) = rename
            .iter()
            .find(|(variable, _)| !variables.iter().any(|spec| spec.name == *variable))
        {
            let message = format!(
                "train.warm_start.rename names `{unknown}`, which is no variable of the model"
            );
            let problem = Diagnostic::error(Code::E1006, message);
            return Err(
                match suggest(unknown, variables.iter().map(|spec| spec.name.as_str())) {
                    Some(near) => problem.help(format!("did you mean `{near}`?")),
                    None => problem.help("see the variables with trainyard check"),
                },
            );
        }
        // A dynamic table starts from a dynamic table. Their capacities may differ.
        let alike = |spec: &VariableSpec, name: &str, shape: &[usize]| match spec.dynamic() {
            Some(_) => origin.is_dynamic(name) && shape.get(1..) == spec.shape.get(1..),
            None => !origin.is_dynamic(name) && shape == spec.shape,
        };
        let shown = |dynamic: bool, shape: &[usize]| {
            if dynamic {
                format!("[dynamic, {}]", shape.iter().skip(1).product::<usize>())
            } else {
                format!("{shape:?}")
            }
        };
        let mut names = BTreeMap::new();
        let mut absent = Vec::new();
        let mut differing = Vec::new();
        for spec in variables.iter().filter(|spec| pattern.is_match(&spec.name)) {
            let renamed = rename
                .iter()
                .find(|(variable, _)| *variable == spec.name)
                .map(|(_, name)| name);
            let name = renamed.unwrap_or(&spec.name);
            match there.get(name) {
                Some(shape) if alike(spec, name, shape) => {
                    drop(names.insert(spec.name.clone(), name.clone()));
                }
                Some(shape) => {
                    let here = shown(spec.dynamic().is_some(), &spec.shape);
                    let there = shown(origin.is_dynamic(name), shape);
                    differing.push(format!("{}: {here} here, {there} there", spec.name));
                }
                None if renamed.is_some() => {
                    let message = format!("{} holds no variable `{name}`", path.display());
                    let problem = Diagnostic::error(Code::E3002, message);
                    return Err(match near(name) {
                        Some(near) => problem.help(format!("did you mean `{near}`?")),
                        None => problem.help(
                            "see what it holds with trainyard inspect or trainyard import-tf",
                        ),
                    });
                }
                None => absent.push(spec.name.clone()),
            }
        }
        if !differing.is_empty() {
            let message = format!(
                "{} variables of {} have another shape",
                differing.len(),
                path.display()
            );
            let problem = Diagnostic::error(Code::E3002, message);
            let problem = differing.into_iter().fold(problem, Diagnostic::note);
            return Err(
                problem.help("leave them out with train.warm_start.variables, or change the job")
            );
        }
        if names.is_empty() {
            let message = format!(
                "{} holds no variable of this model that matches `{}`",
                path.display(),
                pattern
            );
            let problem = Diagnostic::error(Code::E3002, message);
            let first = there.keys().take(8).cloned().collect::<Vec<_>>().join(", ");
            return Err(problem
                .note(format!(
                    "it holds {first}{}",
                    if there.len() > 8 { ", ..." } else { "" }
                ))
                .help(
                    "correct train.warm_start.variables, or name them in train.warm_start.rename",
                ));
        }
        Ok((
            Self {
                path: path.to_owned(),
                names,
            },
            absent,
        ))
    }
}
