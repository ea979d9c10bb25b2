//! Numbers, indicators and embeddings side by side, one row per example (`tf.compat.v1.feature_column.input_layer`).

use trainyard_feature_column::{FeatureColumns, Features};
use trainyard_run_config::{Combiner, Deep};
use trainyard_variable::{Gradients, Initializer, Reads, Values, VariableSpec};

use crate::table::{self, access};

/// One piece of a row.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// Numbers of [`Features::numbers`]: first place and width.
    Numbers(usize, usize),
    /// Ids by place: one position per id, its count or summed weight.
    Indicator(usize),
    /// A learned vector per id.
    Embedding(Lookup),
}

/// An embedding: ids by place, and the variable they look up.
#[derive(Debug, Clone)]
pub(crate) struct Lookup {
    /// The feature, by place among the categorical ones.
    pub(crate) feature: usize,
    ids: usize,
    pub(crate) variable: usize,
    pub(crate) dimension: usize,
    pub(crate) combiner: Combiner,
    pub(crate) max_norm: Option<f32>,
}

/// The layer: which pieces a row has, in ascending order of TensorFlow's column name.
#[derive(Debug, Clone)]
pub struct InputLayer {
    /// (first place in the row, piece).
    pub(crate) pieces: Vec<(usize, Piece)>,
    width: usize,
}

impl InputLayer {
    /// Adds the tables of the layer to `variables`, named `<scope>/<column>_embedding/embedding_weights` as TensorFlow
    /// does, updated by `optimizer_group`. Vectors start from a normal distribution of deviation `1/√dimension`, cut at
    /// two deviations.
    pub fn new(
        columns: &FeatureColumns,
        scope: &str,
        optimizer_group: &str,
        variables: &mut Vec<VariableSpec>,
    ) -> Self {
        let mut named: Vec<(String, Piece, usize)> = Vec::new();
        for column in columns.numeric.iter().filter(|column| column.deep) {
            named.push((column.name.clone(), Piece::Numbers(column.begin, column.width), column.width));
        }
        for (place, column) in columns.categorical.iter().enumerate() {
            match &column.deep {
                Some(Deep::Embedding(embedding)) => {
                    let own = format!("{}_embedding", column.name);
                    let shared = embedding.table.as_ref();
                    let table = shared.unwrap_or(&own);
                    let name = format!("{scope}/{table}/embedding_weights");
                    let dimension = embedding.dimension;
                    let have = variables.iter().position(|variable| variable.name == name);
                    let variable = have.unwrap_or_else(|| {
                        variables.push(VariableSpec {
                            name,
                            shape: vec![column.buckets as usize, dimension],
                            access: access(column),
                            initializer: Initializer::TruncatedNormal {
                                stddev: 1.0 / (dimension as f32).sqrt(),
                            },
                            optimizer_group: optimizer_group.to_owned(),
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
                    };
                    let shown =
                        if shared.is_some() { format!("{}_shared_embedding", column.name) } else { own };
                    named.push((shown, Piece::Embedding(lookup), dimension));
                }
                Some(deep) => {
                    // A bucketized column is dense by itself; all others need an indicator around them.
                    let dense = *deep == Deep::Dense;
                    let name = if dense { column.name.clone() } else { format!("{}_indicator", column.name) };
                    named.push((name, Piece::Indicator(place), column.buckets as usize));
                }
                None => {}
            }
        }
        named.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let (mut pieces, mut width) = (Vec::new(), 0);
        for (_, piece, size) in named {
            pieces.push((width, piece));
            width += size;
        }
        Self { pieces, width }
    }

    /// Returns the values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns whether any piece has something to learn.
    pub fn learns(&self) -> bool {
        self.pieces.iter().any(|(_, piece)| matches!(piece, Piece::Embedding(_)))
    }

    /// Returns the first place and the dimension of each embedding of a row.
    pub fn embeddings(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pieces.iter().filter_map(|(begin, piece)| match piece {
            Piece::Embedding(lookup) => Some((*begin, lookup.dimension)),
            _ => None,
        })
    }

    /// Names the rows of the tables that a batch reads.
    pub fn reads(&self, features: &Features, reads: &mut Reads) {
        for (_, piece) in &self.pieces {
            if let Piece::Embedding(lookup) = piece {
                reads[lookup.variable] = table::lookup(&features.ids[lookup.ids]);
            }
        }
    }

    /// Writes the layer's output, `rows x width`.
    pub fn forward(&self, features: &Features, values: &Values, out: &mut Vec<f32>) {
        out.clear();
        out.resize(features.rows * self.width, 0.0);
        let numbers = features.numbers.len().checked_div(features.rows).unwrap_or(0);
        for &(begin, ref piece) in &self.pieces {
            let rows = out.chunks_exact_mut(self.width.max(1)).map(|row| &mut row[begin..]).enumerate();
            match piece {
                Piece::Numbers(from, width) => rows.for_each(|(row, out)| {
                    let given = &features.numbers[row * numbers + from..][..*width];
                    out[..*width].copy_from_slice(given);
                }),
                Piece::Indicator(feature) => {
                    let ids = &features.ids[*feature];
                    rows.for_each(|(row, out)| {
                        let add = |place: usize, weight: f32| out[ids.unique[place] as usize] += weight;
                        ids.shares(row, Combiner::Sum, add);
                    });
                }
                Piece::Embedding(lookup) => {
                    let (ids, dimension) = (&features.ids[lookup.ids], lookup.dimension);
                    let table = &values[lookup.variable];
                    let scales = lookup.scales(table);
                    rows.for_each(|(row, out)| {
                        ids.shares(row, lookup.combiner, |place, share| {
                            let share = scales.as_ref().map_or(share, |scales| share * scales[place]);
                            let vector = &table[place * dimension..][..dimension];
                            out.iter_mut().zip(vector).for_each(|(out, value)| *out += share * value);
                        });
                    });
                }
            }
        }
    }

    /// Adds the gradients of the tables, given that of the output.
    pub fn backward(&self, features: &Features, values: &Values, delta: &[f32], gradients: &mut Gradients) {
        for &(begin, ref piece) in &self.pieces {
            let Piece::Embedding(lookup) = piece else { continue };
            let (ids, dimension) = (&features.ids[lookup.ids], lookup.dimension);
            let gradient = &mut gradients[lookup.variable];
            let scales = lookup.scales(&values[lookup.variable]);
            // Of a table that is clipped, this piece's gradient is taken apart from that of others that share it.
            let mut own = scales.as_ref().map(|_| vec![0.0; gradient.len()]);
            for (row, delta) in delta.chunks_exact(self.width).enumerate() {
                let target = own.as_mut().unwrap_or(gradient);
                ids.shares(row, lookup.combiner, |place, share| {
                    let out = &mut target[place * dimension..][..dimension];
                    out.iter_mut().zip(&delta[begin..]).for_each(|(out, delta)| *out += share * delta);
                });
            }
            if let (Some(own), Some(scales)) = (own, scales) {
                lookup.through_clip(&values[lookup.variable], &scales, &own, gradient);
            }
        }
    }
}

impl Lookup {
    /// With a bound on the norm, what each vector is multiplied by to keep it (`tf.clip_by_norm`).
    pub(crate) fn scales(&self, table: &[f32]) -> Option<Vec<f32>> {
        let most = self.max_norm?;
        let scale = |vector: &[f32]| {
            let norm = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
            if norm > most { most / norm } else { 1.0 }
        };
        Some(table.chunks_exact(self.dimension).map(scale).collect())
    }

    /// Adds the gradient of the vectors, given that of the clipped ones: `s (g - x (x·g) / |x|²)` where clipped.
    fn through_clip(&self, table: &[f32], scales: &[f32], clipped: &[f32], gradient: &mut [f32]) {
        let vectors = table.chunks_exact(self.dimension).zip(clipped.chunks_exact(self.dimension));
        for ((out, (x, g)), scale) in gradient.chunks_exact_mut(self.dimension).zip(vectors).zip(scales) {
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
