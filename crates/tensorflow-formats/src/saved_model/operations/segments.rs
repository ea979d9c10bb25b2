//! Sums over the values of a row, and crosses of sparse tensors.

use super::of_type;
use crate::generated::DataType;
use crate::saved_model::{Attribute, Edge, Graph, Sparse, Variable};

/// Combination of the vectors of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segments {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// Their sum, divided by the square root of their number.
    SqrtN,
}

/// Keys of a cross, and its hash.
#[derive(Debug)]
pub struct Cross<'a> {
    /// Keys with any number of values in a row.
    pub sparse: &'a [Sparse],
    /// Keys with the same number of values in every row.
    pub dense: &'a [Edge],
    /// Number of ids.
    pub buckets: i64,
    /// Initial value of the hash.
    pub hash_key: i64,
}

impl Graph {
    /// Combines rows of a variable: the rows `ids` of each of `count` segments. Segments ascend; one without ids gives
    /// zeros.
    pub fn combined_rows(
        &mut self,
        name: &str,
        operation: Segments,
        variable: &Variable,
        [ids, segments, count]: [&Edge; 3],
    ) -> Edge {
        let operation = match operation {
            Segments::Sum => "SparseSegmentSumWithNumSegments",
            Segments::Mean => "SparseSegmentMeanWithNumSegments",
            Segments::SqrtN => "SparseSegmentSqrtNWithNumSegments",
        };
        let dtype = variable.spec.dtype;
        let attributes = vec![
            of_type("T", dtype),
            of_type("Tidx", ids.dtype()),
            of_type("Tnumsegments", count.dtype()),
            of_type("Tsegmentids", segments.dtype()),
        ];
        let inputs = [variable.read(), ids, segments, count];
        self.one(operation, name, &inputs, (attributes, dtype))
    }

    /// Returns the sums of the values of each of `count` segments.
    pub fn segment_sums(&mut self, name: &str, [values, segments, count]: [&Edge; 3]) -> Edge {
        let attributes = vec![
            of_type("T", values.dtype()),
            of_type("Tindices", segments.dtype()),
            of_type("Tnumsegments", count.dtype()),
        ];
        let inputs = [values, segments, count];
        self.one(
            "UnsortedSegmentSum",
            name,
            &inputs,
            (attributes, values.dtype()),
        )
    }

    /// Returns the ids of all combinations of the keys of each row (`sparse_cross_hashed`).
    pub fn crossed(&mut self, name: &str, cross: &Cross<'_>) -> Sparse {
        let indices = cross.sparse.iter().map(|key| &key.indices);
        let values = cross.sparse.iter().map(|key| &key.values);
        let shapes = cross.sparse.iter().map(|key| &key.shape);
        let inputs: Vec<&Edge> = indices
            .chain(values.clone())
            .chain(shapes)
            .chain(cross.dense)
            .collect();
        let attributes = vec![
            ("N", Attribute::Int(cross.sparse.len() as i64)),
            (
                "dense_types",
                Attribute::Types(cross.dense.iter().map(Edge::dtype).collect()),
            ),
            ("hash_key", Attribute::Int(cross.hash_key)),
            ("hashed_output", Attribute::Bool(true)),
            of_type("internal_type", DataType::DtInt64),
            ("num_buckets", Attribute::Int(cross.buckets)),
            of_type("out_type", DataType::DtInt64),
            (
                "sparse_types",
                Attribute::Types(values.map(Edge::dtype).collect()),
            ),
        ];
        let mut outputs = self.node(crate::saved_model::Node {
            operation: "SparseCross",
            name,
            inputs: &inputs,
            after: &[],
            attributes,
            outputs: &[DataType::DtInt64; 3],
        });
        let shape = outputs.remove(2);
        let values = outputs.remove(1);
        let indices = outputs.remove(0);
        Sparse {
            indices,
            values,
            shape,
        }
    }
}
