//! Arithmetic, comparisons, activation functions and matrix products.

use super::of_type;
use crate::generated::DataType;
use crate::saved_model::{Attribute, Edge, Graph};

/// An operation on two tensors of one type, with broadcasting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a b`.
    Multiply,
    /// `a / b`.
    Divide,
    /// `a / b`, or 0 if `b` is 0.
    DivideOrZero,
    /// `a / b`, rounded down.
    FloorDivide,
    /// The rest of [`Binary::FloorDivide`], with the sign of `b`.
    FloorModulo,
    /// The greater one.
    Maximum,
    /// The smaller one.
    Minimum,
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "AddV2",
            Self::Subtract => "Sub",
            Self::Multiply => "Mul",
            Self::Divide => "RealDiv",
            Self::DivideOrZero => "DivNoNan",
            Self::FloorDivide => "FloorDiv",
            Self::FloorModulo => "FloorMod",
            Self::Maximum => "Maximum",
            Self::Minimum => "Minimum",
        }
    }
}

/// An operation on each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unary {
    /// Natural logarithm.
    Log,
    /// `ln(1 + x)`.
    Log1p,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Square root.
    Sqrt,
    /// `x²`.
    Square,
    /// `eˣ`.
    Exp,
    /// `max(x, 0)`.
    Relu,
    /// `min(max(x, 0), 6)`.
    Relu6,
    /// `x`, or `eˣ - 1` below 0.
    Elu,
    /// Scaled [`Unary::Elu`].
    Selu,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + e⁻ˣ)`.
    Sigmoid,
    /// `ln(1 + eˣ)`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// `eˣ / Σ eˣ` along the last dimension.
    Softmax,
    /// The number below which a standard normal variable is with a probability.
    NormalQuantile,
}

impl Unary {
    fn name(self) -> &'static str {
        match self {
            Self::Log => "Log",
            Self::Log1p => "Log1p",
            Self::Sin => "Sin",
            Self::Cos => "Cos",
            Self::Sqrt => "Sqrt",
            Self::Square => "Square",
            Self::Exp => "Exp",
            Self::Relu => "Relu",
            Self::Relu6 => "Relu6",
            Self::Elu => "Elu",
            Self::Selu => "Selu",
            Self::Tanh => "Tanh",
            Self::Sigmoid => "Sigmoid",
            Self::Softplus => "Softplus",
            Self::Softsign => "Softsign",
            Self::Softmax => "Softmax",
            Self::NormalQuantile => "Ndtri",
        }
    }
}

/// A comparison of two tensors of one type, with broadcasting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `a = b`.
    Equal,
    /// `a ≠ b`.
    NotEqual,
    /// `a > b`.
    Greater,
    /// `a ≥ b`.
    GreaterEqual,
    /// `a < b`.
    Less,
}

impl Graph {
    /// Applies an operation to two tensors.
    pub fn binary(&mut self, operation: Binary, name: &str, a: &Edge, b: &Edge) -> Edge {
        let dtype = a.dtype();
        let attributes = vec![of_type("T", dtype)];
        self.one(operation.name(), name, &[a, b], (attributes, dtype))
    }

    /// Applies an operation to each element.
    pub fn unary(&mut self, operation: Unary, name: &str, x: &Edge) -> Edge {
        let attributes = vec![of_type("T", x.dtype())];
        self.one(operation.name(), name, &[x], (attributes, x.dtype()))
    }

    /// Compares two tensors.
    pub fn compare(&mut self, comparison: Comparison, name: &str, a: &Edge, b: &Edge) -> Edge {
        let operation = match comparison {
            Comparison::Equal => "Equal",
            Comparison::NotEqual => "NotEqual",
            Comparison::Greater => "Greater",
            Comparison::GreaterEqual => "GreaterEqual",
            Comparison::Less => "Less",
        };
        let mut attributes = vec![of_type("T", a.dtype())];
        if matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
            attributes.push(("incompatible_shape_error", Attribute::Bool(true)));
        }
        self.one(operation, name, &[a, b], (attributes, DataType::DtBool))
    }

    /// Returns whether each number is NaN.
    pub fn is_nan(&mut self, name: &str, x: &Edge) -> Edge {
        let attributes = vec![of_type("T", x.dtype())];
        self.one("IsNan", name, &[x], (attributes, DataType::DtBool))
    }

    /// Returns whether both are true.
    pub fn both(&mut self, name: &str, a: &Edge, b: &Edge) -> Edge {
        self.one("LogicalAnd", name, &[a, b], (Vec::new(), DataType::DtBool))
    }

    /// Returns `x`, or `alpha x` below 0.
    pub fn leaky_relu(&mut self, name: &str, x: &Edge, alpha: f32) -> Edge {
        let attributes = vec![of_type("T", x.dtype()), ("alpha", Attribute::Float(alpha))];
        self.one("LeakyRelu", name, &[x], (attributes, x.dtype()))
    }

    /// Returns the product of two matrices.
    pub fn matrix_product(&mut self, name: &str, a: &Edge, b: &Edge) -> Edge {
        let attributes = vec![
            of_type("T", a.dtype()),
            ("transpose_a", Attribute::Bool(false)),
            ("transpose_b", Attribute::Bool(false)),
        ];
        self.one("MatMul", name, &[a, b], (attributes, a.dtype()))
    }

    /// Returns the products of the last two dimensions: `[..., m, k]` times `[..., k, n]`.
    pub fn batch_product(&mut self, name: &str, a: &Edge, b: &Edge) -> Edge {
        self.products(name, [a, b], Attribute::Bool(false))
    }

    /// Returns the products of the last two dimensions, `b` transposed: `[..., m, k]` times `[..., n, k]`.
    pub fn batch_product_transposed(&mut self, name: &str, a: &Edge, b: &Edge) -> Edge {
        self.products(name, [a, b], Attribute::Bool(true))
    }

    fn products(&mut self, name: &str, [a, b]: [&Edge; 2], is_transposed: Attribute) -> Edge {
        let attributes = vec![
            of_type("T", a.dtype()),
            ("adj_x", Attribute::Bool(false)),
            ("adj_y", is_transposed),
        ];
        self.one("BatchMatMulV2", name, &[a, b], (attributes, a.dtype()))
    }

    /// Adds a vector to each row of a matrix.
    pub fn add_bias(&mut self, name: &str, x: &Edge, bias: &Edge) -> Edge {
        let attributes = vec![
            of_type("T", x.dtype()),
            ("data_format", Attribute::Text("NHWC".to_owned())),
        ];
        self.one("BiasAdd", name, &[x, bias], (attributes, x.dtype()))
    }

    /// Returns the sum of tensors of one shape, at least one.
    pub fn sum_of(&mut self, name: &str, parts: &[Edge]) -> Edge {
        if let [one] = parts {
            return one.clone();
        }
        let dtype = parts.first().map_or(DataType::DtFloat, Edge::dtype);
        let attributes = vec![
            ("N", Attribute::Int(parts.len() as i64)),
            of_type("T", dtype),
        ];
        let inputs: Vec<&Edge> = parts.iter().collect();
        self.one("AddN", name, &inputs, (attributes, dtype))
    }

    /// Returns the sums along a dimension, which remains with size 1.
    pub fn sum_along(&mut self, name: &str, x: &Edge, dimension: i64) -> Edge {
        let along = self.list(&[dimension]);
        let attributes = vec![
            of_type("T", x.dtype()),
            of_type("Tidx", DataType::DtInt64),
            ("keep_dims", Attribute::Bool(true)),
        ];
        self.one("Sum", name, &[x, &along], (attributes, x.dtype()))
    }

    /// Returns the sum of the numbers before each number of a list.
    pub fn sums_before(&mut self, name: &str, x: &Edge) -> Edge {
        let axis = self.integer(0);
        let attributes = vec![
            of_type("T", x.dtype()),
            of_type("Tidx", DataType::DtInt64),
            ("exclusive", Attribute::Bool(true)),
            ("reverse", Attribute::Bool(false)),
        ];
        self.one("Cumsum", name, &[x, &axis], (attributes, x.dtype()))
    }

    /// Returns the place of the first of the largest numbers of each row.
    pub fn largest(&mut self, name: &str, x: &Edge) -> Edge {
        let along = self.integer(1);
        let attributes = vec![
            of_type("T", x.dtype()),
            of_type("Tidx", DataType::DtInt64),
            of_type("output_type", DataType::DtInt64),
        ];
        self.one(
            "ArgMax",
            name,
            &[x, &along],
            (attributes, DataType::DtInt64),
        )
    }

    /// Returns the number of boundaries that do not exceed each number (`tf.raw_ops.Bucketize`).
    pub fn bucketize(&mut self, name: &str, x: &Edge, boundaries: &[f32]) -> Edge {
        let attributes = vec![
            of_type("T", x.dtype()),
            ("boundaries", Attribute::Floats(boundaries.to_vec())),
        ];
        self.one("Bucketize", name, &[x], (attributes, DataType::DtInt32))
    }
}
