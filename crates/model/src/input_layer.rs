//! The input layer: numbers, indicators and embeddings side by side, one row per example
//! (`tf.compat.v1.feature_column.input_layer`).

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use trainyard_feature_column::{FeatureColumns, Features};
use trainyard_run_config::{AttentionConfig, Combiner, Deep, FeatureConfig, KeptIds, Regularizer};
use trainyard_tensor::{VectorColumns, for_rows, gather, join, scatter_add, threads};
use trainyard_variable::{FROZEN, Gradients, Initializer, Reads, Values, VariableSpec};

use crate::VariableScope;
use crate::periodic::{self, Periodic};
use crate::regularizer::add_penalty;
use crate::table::{self, access};

/// Rows that are filled piece by piece before the next rows. They are few enough to stay in the first-level cache.
const BLOCK_ROWS: usize = 16;
/// Fewest rows for which another thread is used.
const PART_ROWS_MIN: usize = 64;

/// One piece of a row: the columns of one feature.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// Numbers of [`Features::numbers`]: first column and width.
    Numbers(usize, usize),
    /// A periodic embedding of such numbers.
    Periodic(Periodic),
    /// Indicator: index of the ids, and number of ids. Each id has one column with its count or summed weight.
    Indicator(usize, usize),
    /// A learned vector per id, combined over the ids of a row.
    Embedding(Lookup),
    /// Learned vectors of the ids of a row, each in a slot of its own.
    History(Lookup, Slots),
}

/// Slots for the ids of a row: a vector for each, and then a number for each that is 1 if it holds an id. Slots without an id are
/// zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slots {
    pub(crate) count: usize,
    /// The first slot holds the last id with [`KeptIds::Last`], and the first id with [`KeptIds::First`].
    pub(crate) keep: KeptIds,
}

impl Slots {
    /// Calls `take` with each slot that holds an id, and the id's index.
    #[inline(always)]
    fn fill(self, places: &[u32], mut take: impl FnMut(usize, usize)) {
        let mut slot = 0;
        let mut take = |place: &u32| {
            take(slot, *place as usize);
            slot += 1;
        };
        match self.keep {
            KeptIds::Last => places.iter().rev().take(self.count).for_each(&mut take),
            KeptIds::First => places.iter().take(self.count).for_each(&mut take),
        }
    }
}

impl Piece {
    /// Returns the lookup in a table, and the number of vectors in a row.
    fn lookup(&self) -> Option<(&Lookup, usize)> {
        match self {
            Self::Embedding(lookup) => Some((lookup, 1)),
            Self::History(lookup, slots) => Some((lookup, slots.count)),
            Self::Numbers(..) | Self::Periodic(_) | Self::Indicator(..) => None,
        }
    }
}

/// An embedding: its ids, and the variable that holds its table.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    /// Index of the feature among the categorical features.
    pub(crate) feature: usize,
    ids: usize,
    pub(crate) variable: usize,
    pub(crate) dimension: usize,
    pub(crate) combiner: Combiner,
    pub(crate) max_norm: Option<f32>,
    trainable: bool,
    regularizer: Option<Regularizer>,
}

/// The input layer. The pieces of a row are in ascending order of TensorFlow's column names.
#[derive(Debug, Clone)]
pub struct InputLayer {
    /// First column in the row, and piece.
    pub(crate) pieces: Vec<(usize, Piece)>,
    /// Trainable tables, in ascending order of their variables.
    tables: Vec<Table>,
    width: usize,
}

/// A table, and the indices of the pieces that look it up.
#[derive(Debug, Clone)]
struct Table {
    variable: usize,
    pieces: Vec<usize>,
    regularizer: Option<Regularizer>,
}

/// A piece, and its place in a row.
#[derive(Clone, Copy)]
struct PieceColumns<'a> {
    piece: &'a Piece,
    /// First column.
    begin: usize,
    /// Factor of each vector of the piece, if its vectors are clipped.
    scales: Option<&'a [f32]>,
}

/// Consecutive rows of the output.
struct Block<'a> {
    /// Number of the first row in the batch.
    first: usize,
    rows: &'a mut [f32],
}

/// The gradient of the output, and the batch and the values that the output came from.
#[derive(Clone, Copy)]
struct OutputGradient<'a> {
    features: &'a Features,
    values: &'a Values,
    delta: &'a [f32],
}

/// A piece, and its names.
struct NamedPiece {
    /// Name of the feature.
    feature: String,
    /// TensorFlow's name of the column.
    column: String,
    piece: Piece,
    /// Values in a row.
    size: usize,
}

/// Returns the pieces of the columns, and adds their tables to `variables`.
fn pieces(
    columns: &FeatureColumns,
    histories: &[AttentionConfig],
    scope: VariableScope<'_>,
    variables: &mut Vec<VariableSpec>,
) -> Vec<NamedPiece> {
    let VariableScope {
        name: scope,
        optimizer_group,
    } = scope;
    let mut named = Vec::new();

    for column in columns.numeric.iter().filter(|column| column.deep) {
        let place = [column.begin, column.width];
        let (piece, size) = match column.numbers.periodic {
            None => (Piece::Numbers(column.begin, column.width), column.width),
            Some(config) => {
                let of_part = VariableScope {
                    name: scope,
                    optimizer_group,
                };
                let periodic = Periodic::new(&column.name, place, config, of_part, variables);
                let size = periodic.size();
                (Piece::Periodic(periodic), size)
            }
        };
        named.push(NamedPiece {
            feature: column.name.clone(),
            column: column.name.clone(),
            piece,
            size,
        });
    }
    for (place, column) in columns.categorical.iter().enumerate() {
        match &column.deep {
            Some(deep @ Deep::Embedding(embedding)) => {
                let own = format!("{}_embedding", column.name);
                let shared = embedding.table.as_ref();
                let table = shared.unwrap_or(&own);
                let name = format!("{scope}/{table}/embedding_weights");
                let dimension = embedding.dimension;
                let group = if embedding.trainable {
                    optimizer_group
                } else {
                    FROZEN
                };
                let have = variables.iter().position(|variable| variable.name == name);
                let variable = have.unwrap_or_else(|| {
                    variables.push(VariableSpec {
                        name,
                        shape: vec![column.buckets as usize, dimension],
                        access: access(column),
                        initializer: embedding.initializer.clone().unwrap_or_else(|| {
                            Initializer::TruncatedNormal {
                                stddev: 1.0 / (dimension as f32).sqrt(),
                            }
                        }),
                        optimizer_group: group.to_owned(),
                    });
                    variables.len() - 1
                });
                let lookup = Lookup {
                    feature: place,
                    ids: columns.embedding_ids(place),
                    variable,
                    dimension,
                    combiner: embedding.combiner,
                    max_norm: embedding.max_norm,
                    trainable: embedding.trainable,
                    regularizer: embedding.regularizer,
                };
                let mut histories = histories.iter();
                let history = histories.find(|history| history.history == column.name);
                let slots = history.map(|history| Slots {
                    count: history.history_max,
                    keep: history.keep,
                });
                named.push(NamedPiece {
                    feature: column.name.clone(),
                    column: deep.column_name(&column.name),
                    size: slots.map_or(dimension, |slots| slots.count * (dimension + 1)),
                    piece: match slots {
                        Some(slots) => Piece::History(lookup, slots),
                        None => Piece::Embedding(lookup),
                    },
                });
            }
            Some(deep) => {
                // A bucketized column is dense by itself. All other columns need an indicator around them.
                named.push(NamedPiece {
                    feature: column.name.clone(),
                    column: deep.column_name(&column.name),
                    piece: Piece::Indicator(place, column.buckets as usize),
                    size: column.buckets as usize,
                });
            }
            None => {}
        }
    }
    named
}

impl InputLayer {
    /// Makes the layer, and adds its tables to `variables`. The tables are named
    /// `<scope>/<column>_embedding/embedding_weights` as in TensorFlow, and updated by `optimizer_group`. Vectors start
    /// from a normal distribution of deviation `1/√dimension`, truncated at two deviations.
    pub fn new(
        columns: &FeatureColumns,
        scope: &str,
        optimizer_group: &str,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let scope = VariableScope {
            name: scope,
            optimizer_group,
        };
        Self::with_histories(columns, &[], scope, variables)
    }

    /// As [`InputLayer::new`]. The vectors of the ids of a history are not combined.
    pub(crate) fn with_histories(
        columns: &FeatureColumns,
        histories: &[AttentionConfig],
        scope: VariableScope<'_>,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let mut pieces = pieces(columns, histories, scope, variables);
        pieces.sort_by(|a, b| a.column.cmp(&b.column));
        Self::of(pieces)
    }

    /// As [`InputLayer::new`], with the pieces of a row in the order of `features`.
    pub(crate) fn in_order(
        columns: &FeatureColumns,
        features: &[FeatureConfig],
        scope: VariableScope<'_>,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let ranks: HashMap<&str, usize> = features
            .iter()
            .enumerate()
            .map(|(rank, feature)| (feature.name.as_str(), rank))
            .collect();
        let mut pieces = pieces(columns, &[], scope, variables);
        pieces.sort_by_key(|piece| ranks.get(piece.feature.as_str()).copied());
        Self::of(pieces)
    }

    fn of(named: Vec<NamedPiece>) -> Self {
        let mut pieces = Vec::new();
        let mut width = 0;
        for NamedPiece { piece, size, .. } in named {
            pieces.push((width, piece));
            width += size;
        }
        let mut tables: BTreeMap<usize, Table> = BTreeMap::new();
        for (place, (_, piece)) in pieces.iter().enumerate() {
            if let Some((lookup, _)) = piece.lookup()
                && lookup.trainable
            {
                let table = tables.entry(lookup.variable).or_insert_with(|| Table {
                    variable: lookup.variable,
                    pieces: Vec::new(),
                    regularizer: lookup.regularizer,
                });
                table.pieces.push(place);
            }
        }
        let tables = tables.into_values().collect();
        Self {
            pieces,
            tables,
            width,
        }
    }

    /// Returns the number of values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the output columns from the first to the last piece that is trainable, whose gradient
    /// [`InputLayer::backward`] reads. The range is empty if there is none.
    pub fn learned(&self) -> Range<usize> {
        let learned = || {
            self.pieces.iter().filter_map(|(begin, piece)| {
                if let Piece::Periodic(periodic) = piece {
                    return Some(*begin..begin + periodic.size());
                }
                let (lookup, vectors) = piece.lookup().filter(|(lookup, _)| lookup.trainable)?;
                Some(*begin..begin + vectors * lookup.dimension)
            })
        };
        match (learned().next(), learned().next_back()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        }
    }

    /// Returns the first column and the dimension of each embedding of a row.
    pub fn embeddings(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pieces.iter().filter_map(|(begin, piece)| match piece {
            Piece::Embedding(lookup) => Some((*begin, lookup.dimension)),
            _ => None,
        })
    }

    /// Writes the rows of the tables that a batch reads into `reads`.
    pub fn reads(&self, features: &Features, reads: &mut Reads) {
        for (_, piece) in &self.pieces {
            if let Some((lookup, _)) = piece.lookup() {
                reads[lookup.variable] = table::lookup(&features.ids[lookup.ids]);
            }
        }
    }

    /// Writes the layer's output, `rows x width`.
    pub fn forward(&self, features: &Features, values: &Values, out: &mut Vec<f32>) {
        // All earlier values are overwritten.
        out.resize(features.rows * self.width, 0.0);
        if self.width == 0 {
            return;
        }
        let scale = |piece: &Piece| {
            let (lookup, _) = piece.lookup()?;
            lookup.scales(&values[lookup.variable])
        };
        let scales: Vec<Option<Vec<f32>>> =
            self.pieces.iter().map(|(_, piece)| scale(piece)).collect();
        for_rows(out, self.width, PART_ROWS_MIN, &|mut row, part| {
            for block in part.chunks_mut(BLOCK_ROWS * self.width) {
                for ((begin, piece), scales) in self.pieces.iter().zip(&scales) {
                    let columns = PieceColumns {
                        piece,
                        begin: *begin,
                        scales: scales.as_deref(),
                    };
                    let block = Block {
                        first: row,
                        rows: &mut *block,
                    };
                    self.fill(features, values, columns, block);
                }
                row += BLOCK_ROWS;
            }
        });
    }

    /// Writes a piece of some rows.
    fn fill(
        &self,
        features: &Features,
        values: &Values,
        columns: PieceColumns<'_>,
        block: Block<'_>,
    ) {
        let PieceColumns {
            piece,
            begin,
            scales,
        } = columns;
        let Block { first, rows: out } = block;
        let count = out.len() / self.width;
        let rows = out
            .chunks_exact_mut(self.width)
            .map(|row| &mut row[begin..])
            .zip(first..);
        match piece {
            Piece::Numbers(from, width) => {
                let numbers = features.numbers.len() / features.rows;
                rows.for_each(|(out, row)| {
                    out[..*width]
                        .copy_from_slice(&features.numbers[row * numbers + from..][..*width]);
                });
            }
            Piece::Periodic(periodic) => {
                let numbers = features.numbers.len() / features.rows;
                rows.for_each(|(out, row)| {
                    let numbers = &features.numbers[row * numbers + periodic.begin..];
                    let size = periodic.size();
                    periodic.forward(&numbers[..periodic.numbers], values, &mut out[..size]);
                });
            }
            Piece::Indicator(feature, buckets) => {
                let ids = &features.ids[*feature];
                rows.for_each(|(out, row)| {
                    out[..*buckets].fill(0.0);
                    let add = |place: usize, weight: f32| out[ids.unique[place] as usize] += weight;
                    ids.shares(row, Combiner::Sum, add);
                });
            }
            Piece::Embedding(lookup) => {
                let ids = &features.ids[lookup.ids];
                let dimension = lookup.dimension;
                let table = &values[lookup.variable];
                if let (Some(places), None) = (ids.one_of_each(first..first + count), scales) {
                    let columns = VectorColumns {
                        dimension,
                        begin,
                        width: self.width,
                    };
                    gather(table, places, out, columns);
                    return;
                }
                rows.for_each(|(out, row)| {
                    let out = &mut out[..dimension];
                    out.fill(0.0);
                    ids.shares(row, lookup.combiner, |place, share| {
                        let share = scales.map_or(share, |scales| share * scales[place]);
                        let vector = &table[place * dimension..][..dimension];
                        out.iter_mut()
                            .zip(vector)
                            .for_each(|(out, value)| *out += share * value);
                    });
                });
            }
            Piece::History(lookup, slots) => {
                let ids = &features.ids[lookup.ids];
                let dimension = lookup.dimension;
                let table = &values[lookup.variable];
                rows.for_each(|(out, row)| {
                    let (vectors, rest) = out.split_at_mut(slots.count * dimension);
                    let mask = &mut rest[..slots.count];
                    vectors.fill(0.0);
                    mask.fill(0.0);
                    slots.fill(ids.of_row(row), |slot, place| {
                        mask[slot] = 1.0;
                        let scale = scales.map_or(1.0, |scales| scales[place]);
                        let vector = &table[place * dimension..][..dimension];
                        vectors[slot * dimension..][..dimension]
                            .iter_mut()
                            .zip(vector)
                            .for_each(|(out, value)| *out = scale * value);
                    });
                });
            }
        }
    }

    /// Adds the gradients of the variables, given the gradient of the output. Columns outside of [`InputLayer::learned`]
    /// are not read.
    pub fn backward(
        &self,
        features: &Features,
        values: &Values,
        delta: &[f32],
        gradients: &mut Gradients,
    ) {
        let output = OutputGradient {
            features,
            values,
            delta,
        };
        self.scatter(&self.tables, &output, 0, gradients);
        for (begin, piece) in &self.pieces {
            let Piece::Periodic(periodic) = piece else {
                continue;
            };
            let numbers = features.numbers.len().checked_div(features.rows);
            let rows = periodic::Rows {
                numbers: &features.numbers,
                delta,
                widths: [numbers.unwrap_or(1).max(1), self.width],
                begins: [periodic.begin, *begin],
            };
            periodic.backward(rows, values, gradients);
        }
    }

    /// Adds the gradients of some tables. `gradients` holds those of the variables from `from` on.
    fn scatter(
        &self,
        tables: &[Table],
        output: &OutputGradient<'_>,
        from: usize,
        gradients: &mut [Vec<f32>],
    ) {
        if let ([_, _, ..], true) = (tables, threads() > 1) {
            let (tables, others) = tables.split_at(tables.len() / 2);
            let cut = others[0].variable;
            let (gradients, of_others) = gradients.split_at_mut(cut - from);
            join(
                || self.scatter(tables, output, from, gradients),
                || self.scatter(others, output, cut, of_others),
            );
            return;
        }
        for table in tables {
            for (begin, piece) in table.pieces.iter().map(|place| &self.pieces[*place]) {
                let gradient = &mut gradients[table.variable - from];
                match piece {
                    Piece::Embedding(lookup) => {
                        self.scatter_piece(lookup, *begin, output, gradient);
                    }
                    Piece::History(lookup, slots) => {
                        self.scatter_history(lookup, *slots, *begin, output, gradient);
                    }
                    Piece::Numbers(..) | Piece::Periodic(_) | Piece::Indicator(..) => {}
                }
            }
            let read = &output.values[table.variable];
            add_penalty(
                table.regularizer,
                read,
                &mut gradients[table.variable - from],
            );
        }
    }

    fn scatter_piece(
        &self,
        lookup: &Lookup,
        begin: usize,
        output: &OutputGradient<'_>,
        gradient: &mut [f32],
    ) {
        let OutputGradient {
            features,
            values,
            delta,
        } = *output;
        let table = &values[lookup.variable];
        let ids = &features.ids[lookup.ids];
        let dimension = lookup.dimension;
        let scales = lookup.scales(table);
        if let (Some(places), None) = (ids.one_of_each(0..features.rows), &scales) {
            let columns = VectorColumns {
                dimension,
                begin,
                width: self.width,
            };
            scatter_add(delta, places, gradient, columns);
            return;
        }
        lookup.scatter(scales.as_deref(), table, gradient, |target| {
            for (row, delta) in delta.chunks_exact(self.width).enumerate() {
                let delta = &delta[begin..][..dimension];
                ids.shares(row, lookup.combiner, |place, share| {
                    let out = &mut target[place * dimension..][..dimension];
                    out.iter_mut()
                        .zip(delta)
                        .for_each(|(out, delta)| *out += share * delta);
                });
            }
        });
    }

    fn scatter_history(
        &self,
        lookup: &Lookup,
        slots: Slots,
        begin: usize,
        output: &OutputGradient<'_>,
        gradient: &mut [f32],
    ) {
        let OutputGradient {
            features,
            values,
            delta,
        } = *output;
        let table = &values[lookup.variable];
        let ids = &features.ids[lookup.ids];
        let dimension = lookup.dimension;
        let scales = lookup.scales(table);
        lookup.scatter(scales.as_deref(), table, gradient, |target| {
            for (row, delta) in delta.chunks_exact(self.width).enumerate() {
                let delta = &delta[begin..];
                slots.fill(ids.of_row(row), |slot, place| {
                    let out = &mut target[place * dimension..][..dimension];
                    out.iter_mut()
                        .zip(&delta[slot * dimension..][..dimension])
                        .for_each(|(out, delta)| *out += delta);
                });
            }
        });
    }
}

impl Lookup {
    /// With a bound on the norm, returns the factor that brings each vector within it (`tf.clip_by_norm`).
    pub(crate) fn scales(&self, table: &[f32]) -> Option<Vec<f32>> {
        let most = self.max_norm?;
        let scale = |vector: &[f32]| {
            let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            if norm > most { most / norm } else { 1.0 }
        };
        Some(table.chunks_exact(self.dimension).map(scale).collect())
    }

    /// Adds the gradient of the vectors that `add` adds, through the clipping of these scales. The clipping of a piece applies to its own
    /// gradient, not to that of other pieces that share the table.
    fn scatter(
        &self,
        scales: Option<&[f32]>,
        table: &[f32],
        gradient: &mut [f32],
        add: impl FnOnce(&mut [f32]),
    ) {
        let Some(scales) = scales else {
            return add(gradient);
        };
        let mut own = vec![0.0; gradient.len()];
        add(&mut own);
        self.through_clip(table, scales, &own, gradient);
    }

    /// Adds the gradient of the vectors, given that of the clipped vectors: `s (g - x (x·g) / |x|²)` for a clipped
    /// vector.
    fn through_clip(&self, table: &[f32], scales: &[f32], clipped: &[f32], gradient: &mut [f32]) {
        let vectors = table
            .chunks_exact(self.dimension)
            .zip(clipped.chunks_exact(self.dimension));
        for ((out, (x, g)), scale) in gradient
            .chunks_exact_mut(self.dimension)
            .zip(vectors)
            .zip(scales)
        {
            let along = if *scale < 1.0 {
                let dot: f32 = x.iter().zip(g).map(|(x, g)| x * g).sum();
                dot / x.iter().map(|x| x * x).sum::<f32>()
            } else {
                0.0
            };
            for ((out, x), g) in out.iter_mut().zip(x).zip(g) {
                *out += scale * (g - x * along);
            }
        }
    }
}
