//! The parameters of a model in memory, read as a training step reads a parameter server.

use std::collections::BTreeMap;
use std::sync::Arc;

use trainyard_checkpoint::{Changes, Checkpoint, Origin, TensorFiles, misfit};
use trainyard_diagnostic::{Code, Diagnostic, suggest};
use trainyard_model::AnyModel;
use trainyard_variable::{
    Access, DynamicRows, InitialRows, Read, Reads, SharedRow, Values, VariableSpec, shared_rows,
};

use crate::array::Array;
use crate::room::check_room;

/// All ids of a dynamic table.
pub const ALL_IDS: std::ops::Range<u128> = 0..1 << 64;

/// Share of the rows of a variable that may have changed since they were stored, as one in this many. With more of them, the
/// rows are stored again, together.
const NEWER_SHARE: usize = 4;

/// The values of all variables of a model.
#[derive(Debug)]
pub struct Parameters {
    variables: Vec<Variable>,
    /// Dynamic tables whose ids without a row share one.
    shared_rows: Vec<SharedRow>,
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

/// A variable. The versions that follow each other share what has not changed.
#[derive(Debug, Clone)]
struct Variable {
    width: usize,
    stored: Arc<Stored>,
    /// Rows that have changed since.
    newer: Arc<Newer>,
}

/// The values of a variable as they were read.
#[derive(Debug)]
struct Stored {
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
        if let Some(problem) = problem {
            return Err(problem);
        }
        if let Origin::Own(checkpoint) = origin {
            check_room(checkpoint.manifest().value_bytes())?;
        }
        Self::read_all(origin, variables)
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
                let values = values.into();
                return Ok(Variable::new(width, Stored { values, held: None }));
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
            let values = values.into();
            let held = Some(Held {
                rows: rows.into(),
                first,
            });
            Ok(Variable::new(width, Stored { values, held }))
        });
        Ok(Self {
            variables: read.collect::<Result<_, Diagnostic>>()?,
            shared_rows: shared_rows(variables),
            identity: Arc::default(),
        })
    }

    /// Returns the parameters after an increment, which has the variables of the model. These parameters do not change.
    ///
    /// # Errors
    /// The increment is damaged, lacks a variable, or cannot be read.
    pub fn after(&self, increment: &Checkpoint, model: &AnyModel) -> Result<Self, Diagnostic> {
        let specs = model.variables();
        if let Some(problem) = misfit(increment.manifest(), specs, &model.optimizers()) {
            return Err(problem);
        }
        let changed = specs.iter().zip(&self.variables).map(|(spec, variable)| {
            let changes = increment.changes(&spec.name)?;
            Ok(variable.after(&changes))
        });
        Ok(Self {
            variables: changed.collect::<Result<_, Diagnostic>>()?,
            shared_rows: self.shared_rows.clone(),
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
        let of_variables = reads.iter().zip(&self.variables).enumerate();
        for ((place, (read, variable)), (out, is_whole)) in of_variables.zip(outs) {
            let was_whole = std::mem::replace(is_whole, matches!(read, Read::Whole));
            if was_whole && *is_whole {
                continue;
            }
            out.clear();
            match read {
                Read::Nothing => {}
                Read::Whole => variable.whole(out),
                Read::Rows(rows) => rows.iter().for_each(|row| variable.row((*row).into(), out)),
                Read::Ids(ids) => match self.shared_row(place) {
                    None => ids.iter().for_each(|id| variable.row(*id, out)),
                    Some(shared) => ids.iter().for_each(|id| match variable.held_row(*id) {
                        Some(row) => out.extend_from_slice(row),
                        None => out.extend_from_slice(&shared),
                    }),
                },
            }
        }
    }

    /// Returns the values that ids without a row read, if they share a row.
    fn shared_row(&self, table: usize) -> Option<Vec<f32>> {
        let shared = self.shared_rows.iter().find(|row| row.table == table)?;
        let mut row = Vec::new();
        self.variables[shared.row].row(0, &mut row);
        Some(row)
    }
}

impl Variable {
    fn new(width: usize, stored: Stored) -> Self {
        Self {
            width,
            stored: Arc::new(stored),
            newer: Arc::default(),
        }
    }

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
        Ok(Some(Self::new(spec.width(), Stored { values, held })))
    }

    /// Returns the values of a row, or of an id. `None` if it has its initial values.
    fn held_row(&self, row: u64) -> Option<&[f32]> {
        match self.newer.find(row) {
            Some(Some(place)) => Some(&self.newer.values[place * self.width..][..self.width]),
            Some(None) => None,
            None => {
                let place = self.stored.place(row)?;
                Some(&self.stored.values[place * self.width..][..self.width])
            }
        }
    }

    /// Appends the values of a row, or of an id.
    fn row(&self, row: u64, out: &mut Vec<f32>) {
        if let Some(values) = self.held_row(row) {
            return out.extend_from_slice(values);
        }
        let begin = out.len();
        out.resize(begin + self.width, 0.0);
        if let Some(held) = &self.stored.held {
            held.first.fill(row, &mut out[begin..]);
        }
    }

    /// Appends the values of all rows of a variable that is read whole.
    fn whole(&self, out: &mut Vec<f32>) {
        let begin = out.len();
        out.extend_from_slice(&self.stored.values);
        self.newer.write(self.width, &mut out[begin..]);
    }

    /// Returns the variable after changes.
    fn after(&self, changes: &Changes) -> Self {
        if changes.rows.is_empty() && changes.gone.is_empty() {
            return self.clone();
        }
        let newer = self.newer.after(changes, self.width);
        let stored_rows = self.stored.values.len() / self.width.max(1);
        if newer.rows.len() <= stored_rows / NEWER_SHARE {
            return Self {
                width: self.width,
                stored: Arc::clone(&self.stored),
                newer: Arc::new(newer),
            };
        }
        Self::new(self.width, self.stored.after(&newer, self.width))
    }
}

impl Stored {
    /// Returns the place of a row; nothing if it has its initial values.
    fn place(&self, row: u64) -> Option<usize> {
        match &self.held {
            None => Some(row as usize),
            Some(held) => held.rows.binary_search(&row).ok(),
        }
    }

    /// Returns the values with those of changed rows.
    fn after(&self, newer: &Newer, width: usize) -> Self {
        let Some(held) = &self.held else {
            let mut values = self.values.to_vec();
            newer.write(width, &mut values);
            return Self {
                values: values.into(),
                held: None,
            };
        };
        let mut rows = Vec::with_capacity(held.rows.len() + newer.rows.len());
        let mut values = Vec::with_capacity(self.values.len() + newer.values.len());
        let mut place = 0;
        for (changed, to) in newer.rows.iter().zip(&newer.places) {
            let end = place + held.rows[place..].partition_point(|row| row < changed);
            rows.extend_from_slice(&held.rows[place..end]);
            values.extend_from_slice(&self.values[place * width..end * width]);
            let was_held = held.rows.get(end) == Some(changed);
            place = end + usize::from(was_held);
            if let Some(to) = to {
                rows.push(*changed);
                values.extend_from_slice(&newer.values[to * width..][..width]);
            }
        }
        rows.extend_from_slice(&held.rows[place..]);
        values.extend_from_slice(&self.values[place * width..]);
        Self {
            values: values.into(),
            held: Some(Held {
                rows: rows.into(),
                first: held.first.clone(),
            }),
        }
    }
}

/// Rows that have changed since the values were stored.
#[derive(Debug, Default)]
struct Newer {
    /// Rows or ids, ascending.
    rows: Vec<u64>,
    /// Place of each row among the values; nothing if the id has lost its row.
    places: Vec<Option<usize>>,
    values: Vec<f32>,
}

impl Newer {
    /// Returns the place of a row; nothing if it has not changed, and no place if it is gone.
    fn find(&self, row: u64) -> Option<Option<usize>> {
        let at = self.rows.binary_search(&row).ok()?;
        Some(self.places[at])
    }

    /// Writes the values of the changed rows into those of all rows.
    fn write(&self, width: usize, values: &mut [f32]) {
        for (row, place) in self.rows.iter().zip(&self.places) {
            let begin = *row as usize * width;
            if let (Some(place), Some(out)) = (place, values.get_mut(begin..begin + width)) {
                out.copy_from_slice(&self.values[place * width..][..width]);
            }
        }
    }

    /// Returns these changes and later ones. Ids that are gone may have a row again, so rows come after them.
    fn after(&self, changes: &Changes, width: usize) -> Self {
        let most = self.rows.len() + changes.rows.len() + changes.gone.len();
        let mut all = Self {
            rows: Vec::with_capacity(most),
            places: Vec::with_capacity(most),
            values: Vec::with_capacity(self.values.len() + changes.values.len()),
        };
        let mut old = self.rows.iter().zip(&self.places).peekable();
        let mut new = changes.rows.iter().enumerate().peekable();
        let mut gone = changes.gone.iter().peekable();
        loop {
            let next = [
                old.peek().map(|(row, _)| **row),
                new.peek().map(|(_, row)| **row),
                gone.peek().map(|row| **row),
            ];
            let Some(row) = next.into_iter().flatten().min() else {
                return all;
            };
            let mut held = None;
            if let Some((_, place)) = old.next_if(|(own, _)| **own == row) {
                held = place.map(|place| &self.values[place * width..][..width]);
            }
            if gone.next_if(|own| **own == row).is_some() {
                held = None;
            }
            if let Some((place, _)) = new.next_if(|(_, own)| **own == row) {
                held = Some(&changes.values[place * width..][..width]);
            }
            all.rows.push(row);
            all.places
                .push(held.map(|_| all.values.len() / width.max(1)));
            all.values.extend_from_slice(held.unwrap_or_default());
        }
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
            variables: vec![Variable::new(
                1,
                Stored {
                    values: vec![value, value + 1.0].into(),
                    held: None,
                },
            )],
            shared_rows: Vec::new(),
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

    /// Rows 0 to 9, of which the even ones are stored, in one of two forms.
    fn variable(held: Option<Held>) -> Variable {
        let values = match held {
            Some(_) => vec![0.0, 2.0, 4.0, 6.0, 8.0],
            None => (0..10).map(|row| row as f32).collect(),
        };
        let values = values.into();
        Variable::new(1, Stored { values, held })
    }

    fn ids() -> Held {
        let spec = VariableSpec {
            name: "user".into(),
            shape: vec![10, 1],
            access: Access::Dynamic(DynamicTable::KEEP_ALL),
            initializer: Initializer::Constant { value: -1.0 },
            optimizer_group: "g".into(),
        };
        Held {
            rows: vec![0, 2, 4, 6, 8].into(),
            first: InitialRows::new(&spec, 7),
        }
    }

    fn all(variable: &Variable) -> Vec<f32> {
        let mut out = Vec::new();
        (0..10).for_each(|row| variable.row(row, &mut out));
        out
    }

    fn changes(rows: &[u64], to: f32, gone: &[u64]) -> Changes {
        Changes {
            rows: rows.to_vec(),
            values: vec![to; rows.len()],
            gone: gone.to_vec(),
        }
    }

    #[test]
    fn increments_change_rows_forget_ids_and_leave_the_version_before_as_it_was() {
        let first = variable(Some(ids()));
        let before = all(&first);
        assert_eq!(before, [0., -1., 2., -1., 4., -1., 6., -1., 8., -1.]);
        let one = first.after(&changes(&[3], 30.0, &[]));
        assert_eq!(one.newer.rows, [3], "few rows lie beside the stored ones");
        let two = one.after(&changes(&[4, 5], 50.0, &[0, 3, 4]));
        assert!(two.newer.rows.is_empty(), "many are stored together");
        let three = two.after(&changes(&[], 0.0, &[5]));
        let four = three.after(&changes(&[5], 55.0, &[]));
        assert_eq!(all(&one), [0., -1., 2., 30., 4., -1., 6., -1., 8., -1.]);
        assert_eq!(all(&two), [-1., -1., 2., -1., 50., 50., 6., -1., 8., -1.]);
        assert_eq!(all(&three), [-1., -1., 2., -1., 50., -1., 6., -1., 8., -1.]);
        assert_eq!(all(&four), [-1., -1., 2., -1., 50., 55., 6., -1., 8., -1.]);
        assert_eq!(all(&first), before);
    }

    #[test]
    fn ids_without_a_row_read_the_shared_row_of_their_table() {
        let parameters = |row: f32, gone: &[u64]| Parameters {
            variables: vec![
                variable(Some(ids())).after(&changes(&[], 0.0, gone)),
                Variable::new(
                    1,
                    Stored {
                        values: vec![row].into(),
                        held: None,
                    },
                ),
            ],
            shared_rows: vec![SharedRow { table: 0, row: 1 }],
            identity: Arc::default(),
        };
        let reads = vec![Read::Ids(Arc::from([0, 1, 4, 11]))];
        let mut gathered = Gathered::default();
        parameters(0.5, &[]).gather(&reads, &mut gathered);
        assert_eq!(*gathered.values(), [[0.0, 0.5, 4.0, 0.5]]);
        parameters(0.75, &[4]).gather(&reads, &mut gathered);
        assert_eq!(*gathered.values(), [[0.0, 0.75, 0.75, 0.75]]);
    }

    #[test]
    fn a_variable_that_is_read_whole_has_the_rows_of_increments() {
        let first = variable(None);
        let later = first.after(&changes(&[1], 10.0, &[]));
        let whole = |variable: &Variable| {
            let mut out = Vec::new();
            variable.whole(&mut out);
            out
        };
        assert_eq!(later.newer.rows, [1]);
        assert_eq!(whole(&later), [0., 10., 2., 3., 4., 5., 6., 7., 8., 9.]);
        let last = later.after(&changes(&[2, 3, 4], 20.0, &[]));
        assert!(last.newer.rows.is_empty());
        assert_eq!(whole(&last), all(&last));
        assert_eq!(all(&last), [0., 10., 20., 20., 20., 5., 6., 7., 8., 9.]);
    }
}
