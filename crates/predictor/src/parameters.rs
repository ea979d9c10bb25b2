//! The parameters of a model in memory, read as a training step reads a parameter server.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_checkpoint::{Origin, TensorFiles, misfit};
use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_model::AnyModel;
use trainyard_variable::{Access, DynamicRows, InitialRows, Read, Reads, Values, VariableSpec};

use crate::array::Array;

/// All ids of a dynamic table.
pub const ALL_IDS: std::ops::Range<u128> = 0..1 << 64;

/// The values of all variables of a model.
#[derive(Debug)]
pub struct Parameters {
    variables: Vec<Variable>,
    /// What tells these parameters from others.
    identity: Arc<()>,
}

/// The values that a step reads, gathered by [`Parameters::gather`]. A variable that every step reads whole is copied once.
#[derive(Debug, Default)]
pub struct Gathered {
    values: Values,
    /// Whether the values of each variable are all of its values.
    whole: Vec<bool>,
    /// The parameters whose values these are.
    source: Option<Arc<()>>,
}

impl Gathered {
    /// Returns the values, in the order of the variables.
    pub fn values(&self) -> &Values {
        &self.values
    }
}

#[derive(Debug)]
struct Variable {
    width: usize,
    /// Values of all rows, or of the held rows.
    values: Array<f32>,
    held: Option<Held>,
}

/// The held rows of a dynamic table, or of a variable of which not all rows are held.
#[derive(Debug)]
struct Held {
    /// Held rows or ids, ascending.
    rows: Array<u64>,
    /// Initial values that all other rows read, as in training.
    first: InitialRows,
}

impl Parameters {
    /// Reads the parameters of a model from a checkpoint, an export, or files of other programs. Tables of local tensor files
    /// are mapped, and their rows are read when they are needed.
    ///
    /// # Errors
    /// The parameters belong to another model, or cannot be read.
    pub fn read(origin: &Origin, model: &AnyModel) -> Result<Self, Diagnostic> {
        let variables = model.variables();
        let problem = match origin {
            Origin::Own(checkpoint) => {
                misfit(checkpoint.manifest(), variables, &model.optimizers())
            }
            Origin::TensorFlow(_) | Origin::Tensors(_) => differences(origin, variables),
        };
        match problem {
            Some(problem) => Err(problem),
            None => Self::read_all(origin, variables),
        }
    }

    fn read_all(origin: &Origin, variables: &[VariableSpec]) -> Result<Self, Diagnostic> {
        let read = variables.iter().map(|spec| {
            let name = spec.name.as_str();
            let width = spec.width();
            if let Origin::Tensors(files) = origin
                && let Some(variable) = Variable::mapped(files, spec)?
            {
                return Ok(variable);
            }
            let first = origin.first_rows(name).map(InitialRows::of);
            let Some(first) = first.filter(|_| spec.access != Access::Whole) else {
                let mut values = vec![0.0; spec.len()];
                origin.read_rows(name, 0..spec.rows(), &mut values)?;
                return Ok(Variable {
                    width,
                    values: values.into(),
                    held: None,
                });
            };
            let (rows, values) = if spec.dynamic().is_some() {
                let lots = origin.lots(name, ALL_IDS)?.collect::<Result<Vec<_>, _>>()?;
                let all = DynamicRows::united(lots);
                (all.ids, all.values)
            } else {
                let held = origin.held(name, 0..spec.rows())?.into_iter().flatten();
                let rows: Vec<u64> = held.map(|row| row as u64).collect();
                let mut values = vec![0.0; rows.len() * width];
                origin.read_held(name, 0..spec.rows(), &mut values)?;
                (rows, values)
            };
            Ok(Variable {
                width,
                values: values.into(),
                held: Some(Held {
                    rows: rows.into(),
                    first,
                }),
            })
        });
        Ok(Self {
            variables: read.collect::<Result<_, Diagnostic>>()?,
            identity: Arc::default(),
        })
    }

    /// Gathers what a step reads. What `gathered` holds from a step before is used again.
    pub fn gather(&self, reads: &Reads, gathered: &mut Gathered) {
        let source = gathered.source.as_ref();
        if !source.is_some_and(|source| Arc::ptr_eq(source, &self.identity)) {
            gathered.source = Some(Arc::clone(&self.identity));
            gathered.whole.clear();
        }
        gathered.values.resize_with(reads.len(), Vec::new);
        gathered.whole.resize(reads.len(), false);
        let outs = gathered.values.iter_mut().zip(&mut gathered.whole);
        for ((read, variable), (out, is_whole)) in reads.iter().zip(&self.variables).zip(outs) {
            let was_whole = std::mem::replace(is_whole, matches!(read, Read::Whole));
            if was_whole && *is_whole {
                continue;
            }
            out.clear();
            match read {
                Read::Nothing => {}
                Read::Whole => out.extend_from_slice(&variable.values),
                Read::Rows(rows) => rows.iter().for_each(|row| variable.row((*row).into(), out)),
                Read::Ids(ids) => ids.iter().for_each(|id| variable.row(*id, out)),
            }
        }
    }
}

impl Variable {
    /// Maps a table of tensor files. Returns nothing for a variable that every step reads whole, and for values that cannot
    /// be mapped.
    fn mapped(files: &TensorFiles, spec: &VariableSpec) -> Result<Option<Self>, Diagnostic> {
        let name = spec.name.as_str();
        if spec.access == Access::Whole {
            return Ok(None);
        }
        let Some(values) = files.mapped(name)?.map(Array::Mapped) else {
            return Ok(None);
        };
        let mut held = None;
        if spec.dynamic().is_some() {
            let first = files.first_rows(name).map(InitialRows::of);
            let rows = files.mapped_ids(name)?.map(Array::Mapped);
            let (Some(first), Some(rows)) = (first, rows) else {
                return Ok(None);
            };
            held = Some(Held { rows, first });
        }
        let width = spec.width();
        Ok(Some(Self {
            width,
            values,
            held,
        }))
    }

    /// Appends the values of a row, or of an id.
    fn row(&self, row: u64, out: &mut Vec<f32>) {
        let place = match &self.held {
            None => row as usize,
            Some(Held { rows, first }) => match rows.binary_search(&row) {
                Ok(place) => place,
                Err(_) => {
                    let begin = out.len();
                    out.resize(begin + self.width, 0.0);
                    first.fill(row, &mut out[begin..]);
                    return;
                }
            },
        };
        out.extend_from_slice(&self.values[place * self.width..][..self.width]);
    }
}

/// Returns the error that names the variables of the model that are absent from these values or have another shape.
fn differences(origin: &Origin, variables: &[VariableSpec]) -> Option<Diagnostic> {
    let there: BTreeMap<String, Vec<usize>> = origin.variables().into_iter().collect();
    let mut found = Vec::new();
    for spec in variables {
        let name = &spec.name;
        match there.get(name) {
            None => found.push(match suggest(name, there.keys().map(String::as_str)) {
                Some(near) => format!("{name} is not there; `{near}` is"),
                None => format!("{name} is not there"),
            }),
            Some(shape) if spec.dynamic().is_some() => {
                if !origin.is_dynamic(name) || shape.get(1..) != spec.shape.get(1..) {
                    let width = spec.width();
                    found.push(format!(
                        "{name}: rows of {width} by id, `{name}/ids`, are needed; it has {shape:?}"
                    ));
                } else if origin.first_rows(name).is_none() {
                    found.push(format!(
                        "{name}: it does not say what ids without a row read: model.json of the export does"
                    ));
                }
            }
            Some(shape) if *shape != spec.shape => {
                found.push(format!(
                    "{name}: {:?} in the model, {shape:?} there",
                    spec.shape
                ));
            }
            Some(_) => {}
        }
    }
    if found.is_empty() {
        return None;
    }
    let message = format!(
        "these values do not fit the model ({} differences)",
        found.len()
    );
    let problem = Diagnostic::error(Code::E3002, message).help(
        "use the job that they belong to; train.warm_start takes what fits, under other names, too",
    );
    Some(found.into_iter().fold(problem, Diagnostic::note))
}

#[cfg(test)]
mod tests {
    use trainyard_checkpoint::{Manifest, ShardState, TableView, begin, commit, write_shard};
    use trainyard_variable::{DynamicTable, Idle, Initializer};

    use super::*;

    #[test]
    fn ids_without_a_row_read_the_first_values_that_training_reads() {
        let spec = VariableSpec {
            name: "user".into(),
            shape: vec![9, 2],
            access: Access::Dynamic(DynamicTable::KEEP_ALL),
            initializer: Initializer::Uniform {
                low: 1.0,
                high: 2.0,
            },
            optimizer_group: "g".into(),
        };
        let rows = DynamicRows {
            ids: vec![3, u64::MAX],
            idle: vec![Idle::default(); 2],
            values: vec![10.0, 11.0, 12.0, 13.0],
            ..DynamicRows::default()
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let temporary = begin(folder.path(), 1, "test", 0).expect("a checkpoint begins");
        let state = ShardState {
            ps: 0,
            num_ps: 1,
            version: 1,
            positions: Vec::new(),
            ..ShardState::default()
        };
        let variable = spec.name.as_str();
        let slot_names = Vec::new();
        let view = TableView {
            variable,
            part: 0,
            width: 2,
            slot_names,
            first: None,
            source: &rows,
            increment: None,
        };
        let shard = write_shard(&temporary, &state, &[], &[view]).expect("a shard");
        let seed = 7;
        let shards = vec![shard];
        let variables = vec![spec.clone()];
        let manifest = Manifest {
            seed,
            shards,
            variables,
            ..Manifest::new("c".into(), 1, 1, 0)
        };
        let checkpoint = commit(folder.path(), &temporary, &manifest).expect("a checkpoint");
        let parameters = Parameters::read_all(
            &Origin::Own(Arc::new(checkpoint)),
            std::slice::from_ref(&spec),
        )
        .expect("parameters");
        let mut gathered = Gathered::default();
        let reads = vec![Read::Ids(Arc::from([3, 4, u64::MAX]))];
        parameters.gather(&reads, &mut gathered);
        let mut first = [0.0; 2];
        InitialRows::new(&spec, seed).fill(4, &mut first);
        assert_eq!(
            *gathered.values(),
            [[10.0, 11.0, first[0], first[1], 12.0, 13.0]]
        );
    }

    #[test]
    fn what_was_gathered_whole_is_replaced_by_other_reads_and_by_other_parameters() {
        let of = |value: f32| Parameters {
            variables: vec![Variable {
                width: 1,
                values: vec![value, value + 1.0].into(),
                held: None,
            }],
            identity: Arc::default(),
        };
        let first = of(1.0);
        let second = of(5.0);
        let whole = vec![Read::Whole];
        let row = vec![Read::Rows(Arc::from([1]))];
        let mut gathered = Gathered::default();
        for (parameters, reads, expected) in [
            (&first, &whole, vec![1.0, 2.0]),
            (&first, &whole, vec![1.0, 2.0]),
            (&first, &row, vec![2.0]),
            (&first, &whole, vec![1.0, 2.0]),
            (&second, &whole, vec![5.0, 6.0]),
            (&second, &row, vec![6.0]),
            (&first, &row, vec![2.0]),
        ] {
            parameters.gather(reads, &mut gathered);
            assert_eq!(*gathered.values(), [expected]);
        }
    }
}
