//! `trainyard import-tf`: shows a TensorFlow checkpoint, matches it to a job, and imports it.

mod import;
mod order;
mod slots;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use order::{InputOrder, scope};
use serde_json::json;
use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_model::{AnyModel, Build};
use trainyard_run_config::Job;
use trainyard_tensorflow_formats::tensor_bundle::{Bundle, Values};
use trainyard_variable::VariableSpec;

use crate::arguments::Format;
use crate::output::print;
use crate::text_table::width;

#[derive(Debug, Args)]
pub(crate) struct ImportTf {
    /// The prefix of the checkpoint (`model.ckpt-1000`), its index file, or its folder.
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// The job whose variables are matched. Without it, the tensors are listed.
    #[arg(long, value_name = "JOB.toml")]
    pub(crate) job: Option<PathBuf>,
    /// Overrides the job's model_dir.
    #[arg(long, value_name = "DIR", requires = "job")]
    pub(crate) model_dir: Option<PathBuf>,
    /// Sets one key of the job file. May be given more than once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", requires = "job")]
    pub(crate) set: Vec<String>,
    /// Takes a variable of the job from a tensor of another name. May be given more than once.
    #[arg(long, value_name = "OURS=THEIRS", requires = "job")]
    pub(crate) rename: Vec<String>,
    /// Writes a checkpoint into model_dir, from which training resumes.
    #[arg(long, requires = "job")]
    pub(crate) write: bool,
    /// Format of the output.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
}

/// A variable of the job, or one of its slots, and the tensor that matches it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Match {
    /// Variable of the job.
    variable: String,
    /// Slot; absent = the values.
    slot: Option<&'static str>,
    shape: Vec<usize>,
    found: Found,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    /// A tensor of this name and the right shape.
    Tensor(String),
    /// A tensor of this name with this other shape.
    OtherShape(String, Vec<usize>),
    Nothing,
    /// No tensor is needed: TensorFlow has none, and the variable starts with its initial values.
    Initial,
}

/// Lists the tensors, or matches them to the variables of a job and writes a checkpoint.
pub(crate) fn import_tf(arguments: &ImportTf, build: Build) -> Result<(), Vec<Diagnostic>> {
    let one = |problem: Diagnostic| vec![problem];
    let bundle = Bundle::open(&arguments.checkpoint).map_err(|error| one(error.into()))?;
    let Some(path) = &arguments.job else {
        return list(&bundle, arguments.format).map_err(one);
    };
    let mut job = Job::load(path, &arguments.set)?;
    if let Some(folder) = &arguments.model_dir {
        job.model_dir.clone_from(folder);
    }
    let model = build(&job).map_err(|error| one(error.into()))?;
    let rename = arguments.rename.iter().map(|text| {
        text.split_once('=')
            .map(|(ours, theirs)| (ours.to_owned(), theirs.to_owned()))
            .ok_or_else(|| {
                let problem = Diagnostic::error(
                    Code::E1002,
                    format!("--rename must be OURS=THEIRS, given `{text}`"),
                );
                one(problem.help("for example --rename dnn/logits/bias=head/bias"))
            })
    });
    let rename = rename.collect::<Result<Vec<_>, _>>()?;
    let matches = matches(&bundle, &*model, &rename);
    let order = InputOrder::new(&job, &rename);
    if arguments.write {
        return import::write(&bundle, &job, &*model, &matches, &order).map_err(one);
    }
    show(&bundle, &matches, &order, arguments.format).map_err(one)?;
    order.check().map_err(one)
}

fn list(bundle: &Bundle, format: Format) -> Result<(), Diagnostic> {
    if format == Format::Json {
        let tensors: Vec<_> = bundle
            .tensors()
            .map(|tensor| json!({"name": tensor.name, "dtype": tensor.dtype.to_string(), "shape": tensor.shape}))
            .collect();
        return print(&format!(
            "{}\n",
            json!({"prefix": bundle.prefix(), "tensors": tensors})
        ));
    }
    let width = width(bundle.tensors().map(|tensor| tensor.name.as_str()));
    let mut text = String::new();
    for tensor in bundle.tensors() {
        let cut = if tensor.slices > 0 {
            format!("  in {} slices", tensor.slices)
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "{:width$}  {}{:?}{cut}",
            tensor.name, tensor.dtype, tensor.shape
        );
    }
    print(&text)
}

/// Matches every variable of the model, and every slot of its optimizer.
fn matches(bundle: &Bundle, model: &AnyModel, rename: &[(String, String)]) -> Vec<Match> {
    let rules = model.optimizers();
    let mut out = Vec::new();
    let shared_rows: BTreeSet<String> = model
        .variables()
        .iter()
        .filter_map(|spec| Some(spec.shared_row()?.name))
        .collect();
    // TensorFlow has no dynamic tables, so they start without rows, and their shared rows anew.
    for spec in model
        .variables()
        .iter()
        .filter(|spec| spec.dynamic().is_none())
    {
        let renamed = rename.iter().find(|(ours, _)| *ours == spec.name);
        let name = renamed.map_or(spec.name.as_str(), |(_, theirs)| theirs);
        let found = match find(bundle, spec, &[name.to_owned()]) {
            Found::Nothing if shared_rows.contains(&spec.name) => Found::Initial,
            found => found,
        };
        out.push(Match {
            variable: spec.name.clone(),
            slot: None,
            shape: spec.shape.clone(),
            found,
        });
        if let Some(rule) = rules.get(&spec.optimizer_group) {
            for slot in rule.slots() {
                let found = find(bundle, spec, &slots::names(bundle, rule, slot.name, name));
                out.push(Match {
                    variable: spec.name.clone(),
                    slot: Some(slot.name),
                    shape: spec.shape.clone(),
                    found,
                });
            }
        }
    }
    out
}

fn find(bundle: &Bundle, spec: &VariableSpec, names: &[String]) -> Found {
    match names.iter().find_map(|name| bundle.tensor(name)) {
        Some(tensor) if tensor.shape == spec.shape && tensor.dtype.is_float() => {
            Found::Tensor(tensor.name.clone())
        }
        Some(tensor) => Found::OtherShape(tensor.name.clone(), tensor.shape.clone()),
        None => Found::Nothing,
    }
}

/// Returns the global step of a checkpoint, or 0 if it has none.
fn global_step(bundle: &Bundle) -> Result<u64, Diagnostic> {
    if bundle.tensor("global_step").is_none() {
        return Ok(0);
    }
    Ok(match bundle.read("global_step")?.values {
        Values::I64(values) => values
            .first()
            .copied()
            .map_or(0, |step| u64::try_from(step).unwrap_or(0)),
        _ => 0,
    })
}

fn show(
    bundle: &Bundle,
    matches: &[Match],
    order: &InputOrder<'_>,
    format: Format,
) -> Result<(), Diagnostic> {
    let step = global_step(bundle)?;
    if format == Format::Json {
        let rows: Vec<_> = matches
            .iter()
            .map(|row| {
                let (tensor, other) = match &row.found {
                    Found::Tensor(name) => (Some(name), None),
                    Found::OtherShape(name, shape) => (Some(name), Some(shape)),
                    Found::Nothing | Found::Initial => (None, None),
                };
                json!({"variable": row.variable, "slot": row.slot, "shape": row.shape, "tensor": tensor, "other_shape": other})
            })
            .collect();
        return print(&format!(
            "{}\n",
            json!({"global_step": step, "variables": rows, "first_kernel_inputs": order.names()})
        ));
    }
    let title = |row: &Match| match row.slot {
        Some(slot) => format!("  {slot}"),
        None => row.variable.clone(),
    };
    let titles: Vec<String> = matches.iter().map(title).collect();
    let width = width(titles.iter().map(String::as_str));
    let mut text = format!("checkpoint {} at step {step}\n", bundle.prefix().display());
    for row in matches {
        let found = match &row.found {
            Found::Tensor(name) => name.clone(),
            Found::OtherShape(name, shape) => format!("{name} HAS SHAPE {shape:?}"),
            Found::Initial => "starts anew".to_owned(),
            Found::Nothing if row.slot.is_some() => "starts anew".to_owned(),
            Found::Nothing => match near(bundle, &row.variable) {
                Some(near) => format!("NOT THERE; did you mean {}?", cure(&row.variable, &near)),
                None => "NOT THERE".to_owned(),
            },
        };
        let shape = if row.slot.is_none() {
            format!("{:?}", row.shape)
        } else {
            String::new()
        };
        let _ = writeln!(text, "{:width$}  {shape:12}  {found}", title(row));
    }
    print(&(text + &told(order)))
}

/// Returns the setting that maps a variable to its name in the checkpoint: the name of its feature, or a rename.
fn cure(ours: &str, theirs: &str) -> String {
    // `linear/linear_model/A/weights` and `.../A_embedding/embedding_weights` name their column.
    let column = |variable: &'_ str| -> Option<String> {
        let of_column = variable.ends_with("/weights") || variable.ends_with("/embedding_weights");
        let part = scope(variable).filter(|_| of_column)?;
        Some(part.strip_suffix("_embedding").unwrap_or(part).to_owned())
    };
    match (column(ours), column(theirs)) {
        (Some(feature), Some(other)) if feature != other => {
            format!("name = \"{other}\" for the feature `{feature}`, or --rename {ours}={theirs}")
        }
        _ => format!("--rename {ours}={theirs}"),
    }
}

/// Describes the order of the first kernel's input. The checkpoint must have had the same order.
fn told(order: &InputOrder<'_>) -> String {
    let names = order.names();
    if names.is_empty() {
        return String::new();
    }
    format!(
        "the first kernel reads, in this order: {}\n\
         the checkpoint must have had the same order: a column that had another name there needs that name, \
         by the key `name` of its feature\n",
        names.join(", ")
    )
}

fn near(bundle: &Bundle, name: &str) -> Option<String> {
    suggest(name, bundle.tensors().map(|tensor| tensor.name.as_str())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::cure;

    #[test]
    fn a_column_of_another_name_is_told_to_be_named_and_any_other_variable_to_be_renamed() {
        let told = cure(
            "linear/linear_model/education-num/weights",
            "linear/linear_model/education_num/weights",
        );
        assert!(
            told.starts_with(
                "name = \"education_num\" for the feature `education-num`, or --rename"
            ),
            "{told}"
        );
        let told = cure(
            "a/user_embedding/embedding_weights",
            "b/user_id_embedding/embedding_weights",
        );
        assert!(
            told.starts_with("name = \"user_id\" for the feature `user`"),
            "{told}"
        );
        let told = cure("dnn/logits/kernel", "head/logits/kernel");
        assert_eq!(told, "--rename dnn/logits/kernel=head/logits/kernel");
    }
}
