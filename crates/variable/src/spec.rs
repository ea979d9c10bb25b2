//! The description of one variable of a model.

use serde::{Deserialize, Serialize};

use crate::{DynamicTable, Initializer};

/// The way in which a step reads a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Every step reads and updates the whole variable.
    Whole,
    /// A step reads and updates the rows that its batch names (an embedding table).
    Rows,
    /// A step reads and updates the rows of the ids that its batch names; ids get and lose rows as training goes on.
    Dynamic(DynamicTable),
}

/// Describes one variable: its name, its shape, its initial values and the optimizer that updates it.
///
/// A variable is a row-major `f32` matrix of `shape[0]` rows; a vector of `n` values has shape `[n]` and rows of
/// width 1, a scalar has shape `[]` and one row. A dynamic table has at most `shape[0]` rows. Names are TensorFlow's,
/// for example `dnn/hiddenlayer_0/kernel`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariableSpec {
    /// Name, unique within a model; 1 to 255 characters of `[A-Za-z0-9._/-]`.
    pub name: String,
    /// Dimensions, outermost first.
    pub shape: Vec<usize>,
    /// The way in which steps read it: whole, by row or by id.
    pub access: Access,
    /// Initial values, a pure function of (seed, name, row or id).
    pub initializer: Initializer,
    /// Name of an entry of the model's optimizers, for example `linear` or `dnn`.
    pub optimizer_group: String,
}

impl VariableSpec {
    /// Returns the rule of a dynamic table.
    pub fn dynamic(&self) -> Option<DynamicTable> {
        match self.access {
            Access::Dynamic(table) => Some(table),
            Access::Whole | Access::Rows => None,
        }
    }

    /// Returns the variable that holds the shared row of a dynamic table: the row of all ids without a row. `None` if
    /// they share none. The variable is updated as a row of the table is, and no id can evict it.
    pub fn shared_row(&self) -> Option<Self> {
        self.dynamic().filter(|table| table.shared_row)?;
        let mut shape = self.shape.clone();
        if let Some(rows) = shape.first_mut() {
            *rows = 1;
        }
        Some(Self {
            name: format!("{}/shared_row", self.name),
            shape,
            access: Access::Rows,
            ..self.clone()
        })
    }

    /// Returns the number of rows: the first dimension, 1 for a scalar. For a dynamic table it is the most rows.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Returns the number of values in a row: the product of the dimensions after the first, 1 if there are none.
    pub fn width(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.rows() * self.width()
    }

    /// Returns whether the variable holds no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Optimizer group of moving averages: no gradient moves them, and no bound on gradients applies to them.
pub const MOVING_AVERAGE: &str = "moving_average";

/// Optimizer group of variables that training does not change (`trainable=False`).
pub const FROZEN: &str = "frozen";
