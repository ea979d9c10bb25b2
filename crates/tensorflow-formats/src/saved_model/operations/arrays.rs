//! Shapes, selection and concatenation of tensors.

use super::of_type;
use crate::generated::DataType;
use crate::saved_model::{Attribute, Edge, Graph, Node, Variable};

impl Graph {
    /// Converts the elements to another type.
    pub fn cast(&mut self, name: &str, x: &Edge, dtype: DataType) -> Edge {
        if x.dtype() == dtype {
            return x.clone();
        }
        let attributes = vec![
            of_type("DstT", dtype),
            of_type("SrcT", x.dtype()),
            ("Truncate", Attribute::Bool(false)),
        ];
        self.one("Cast", name, &[x], (attributes, dtype))
    }

    /// Returns the elements in another shape. One dimension may be -1.
    pub fn reshape(&mut self, name: &str, x: &Edge, shape: &[i64]) -> Edge {
        let shape = self.list(shape);
        self.reshape_to(name, x, &shape)
    }

    /// Returns the elements in a shape that is computed.
    pub fn reshape_to(&mut self, name: &str, x: &Edge, shape: &Edge) -> Edge {
        let attributes = vec![of_type("T", x.dtype()), of_type("Tshape", shape.dtype())];
        self.one("Reshape", name, &[x, shape], (attributes, x.dtype()))
    }

    /// Returns the elements with the dimensions in another order.
    pub fn transpose(&mut self, name: &str, x: &Edge, order: &[i64]) -> Edge {
        let order = self.list(order);
        let attributes = vec![of_type("T", x.dtype()), of_type("Tperm", DataType::DtInt64)];
        self.one("Transpose", name, &[x, &order], (attributes, x.dtype()))
    }

    /// Returns the shape, as 64-bit integers.
    pub fn shape_of(&mut self, name: &str, x: &Edge) -> Edge {
        let attributes = vec![
            of_type("T", x.dtype()),
            of_type("out_type", DataType::DtInt64),
        ];
        self.one("Shape", name, &[x], (attributes, DataType::DtInt64))
    }

    /// Returns the first column of a matrix, as a vector.
    pub fn first_column(&mut self, name: &str, x: &Edge) -> Edge {
        let begin = self.list(&[0, 0]);
        let end = self.list(&[0, 1]);
        let strides = self.list(&[1, 1]);
        let attributes = vec![
            of_type("Index", DataType::DtInt64),
            of_type("T", x.dtype()),
            ("begin_mask", Attribute::Int(1)),
            ("ellipsis_mask", Attribute::Int(0)),
            ("end_mask", Attribute::Int(1)),
            ("new_axis_mask", Attribute::Int(0)),
            ("shrink_axis_mask", Attribute::Int(2)),
        ];
        let inputs = [x, &begin, &end, &strides];
        self.one("StridedSlice", name, &inputs, (attributes, x.dtype()))
    }

    /// Returns the places of the true elements, one row each, ascending.
    pub fn places_of(&mut self, name: &str, condition: &Edge) -> Edge {
        let attributes = vec![of_type("T", DataType::DtBool)];
        self.one("Where", name, &[condition], (attributes, DataType::DtInt64))
    }

    /// Returns the slices of the first dimension with these numbers.
    pub fn gather(&mut self, name: &str, x: &Edge, places: &Edge) -> Edge {
        self.gather_along(name, x, places, 0)
    }

    /// Returns the columns of a matrix with these numbers.
    pub fn gather_columns(&mut self, name: &str, x: &Edge, columns: &Edge) -> Edge {
        self.gather_along(name, x, columns, 1)
    }

    fn gather_along(&mut self, name: &str, x: &Edge, places: &Edge, dimension: i64) -> Edge {
        let axis = self.integer(dimension);
        let attributes = vec![
            of_type("Taxis", DataType::DtInt64),
            of_type("Tindices", places.dtype()),
            of_type("Tparams", x.dtype()),
            ("batch_dims", Attribute::Int(0)),
        ];
        self.one(
            "GatherV2",
            name,
            &[x, places, &axis],
            (attributes, x.dtype()),
        )
    }

    /// Returns the elements at these places, which have one row each.
    pub fn gather_elements(&mut self, name: &str, x: &Edge, places: &Edge) -> Edge {
        let attributes = vec![
            of_type("Tindices", places.dtype()),
            of_type("Tparams", x.dtype()),
        ];
        self.one("GatherNd", name, &[x, places], (attributes, x.dtype()))
    }

    /// Returns rows of a variable.
    pub fn gather_rows(&mut self, name: &str, variable: &Variable, rows: &Edge) -> Edge {
        let dtype = variable.spec.dtype;
        let attributes = vec![
            of_type("Tindices", rows.dtype()),
            ("batch_dims", Attribute::Int(0)),
            of_type("dtype", dtype),
            ("validate_indices", Attribute::Bool(true)),
        ];
        let inputs = [variable.handle(), rows];
        self.one("ResourceGather", name, &inputs, (attributes, dtype))
    }

    /// Returns elements of `a` where the condition is true, and of `b` elsewhere, with broadcasting.
    pub fn select(&mut self, name: &str, condition: &Edge, [a, b]: [&Edge; 2]) -> Edge {
        let attributes = vec![of_type("T", a.dtype())];
        self.one(
            "SelectV2",
            name,
            &[condition, a, b],
            (attributes, a.dtype()),
        )
    }

    /// Joins tensors along a dimension.
    pub fn concatenate(&mut self, name: &str, parts: &[Edge], dimension: i64) -> Edge {
        if let [one] = parts {
            return one.clone();
        }
        let dtype = parts.first().map_or(DataType::DtFloat, Edge::dtype);
        let along = self.integer(dimension);
        let attributes = vec![
            ("N", Attribute::Int(parts.len() as i64)),
            of_type("T", dtype),
            of_type("Tidx", DataType::DtInt64),
        ];
        let mut inputs: Vec<&Edge> = parts.iter().collect();
        inputs.push(&along);
        self.one("ConcatV2", name, &inputs, (attributes, dtype))
    }

    /// Returns a vector of scalars.
    pub fn vector(&mut self, name: &str, parts: &[&Edge]) -> Edge {
        let dtype = parts.first().map_or(DataType::DtInt64, |part| part.dtype());
        let attributes = vec![
            ("N", Attribute::Int(parts.len() as i64)),
            of_type("T", dtype),
            ("axis", Attribute::Int(0)),
        ];
        self.one("Pack", name, parts, (attributes, dtype))
    }

    /// Returns a tensor of this shape in which every element is `value`.
    pub fn fill(&mut self, name: &str, shape: &Edge, value: &Edge) -> Edge {
        let attributes = vec![
            of_type("T", value.dtype()),
            of_type("index_type", shape.dtype()),
        ];
        self.one("Fill", name, &[shape, value], (attributes, value.dtype()))
    }

    /// Repeats a tensor along dimensions of size 1.
    pub fn broadcast(&mut self, name: &str, x: &Edge, shape: &Edge) -> Edge {
        let attributes = vec![of_type("T", x.dtype()), of_type("Tidx", shape.dtype())];
        self.one("BroadcastTo", name, &[x, shape], (attributes, x.dtype()))
    }

    /// Returns `x`, after checking that two tensors are equal. If they are not, the run fails with the message.
    pub fn checked_equal(
        &mut self,
        name: &str,
        x: &Edge,
        [a, b]: [&Edge; 2],
        message: &str,
    ) -> Edge {
        let equal = self.compare(super::Comparison::Equal, &format!("{name}/equal"), a, b);
        let flat = self.reshape(&format!("{name}/flat"), &equal, &[-1]);
        let along = self.list(&[0]);
        let attributes = vec![
            of_type("Tidx", DataType::DtInt64),
            ("keep_dims", Attribute::Bool(false)),
        ];
        let all = self.one(
            "All",
            &format!("{name}/all"),
            &[&flat, &along],
            (attributes, DataType::DtBool),
        );
        let message = self.text(message);
        let attributes = vec![
            ("T", Attribute::Types(vec![DataType::DtString])),
            ("summarize", Attribute::Int(3)),
        ];
        let asserted = self.action(
            "Assert",
            &format!("{name}/assert"),
            &[&all, &message],
            attributes,
        );
        let mut checked = self.node(Node {
            operation: "Identity",
            name: &format!("{name}/checked"),
            inputs: &[x],
            after: &[asserted],
            attributes: vec![of_type("T", x.dtype())],
            outputs: &[x.dtype()],
        });
        checked.remove(0)
    }
}
