//! Lookup tables of a graph, which a node fills when the graph is loaded.

use super::{Attribute, Edge, Graph, Variable};
use crate::generated::DataType;

/// A lookup table from texts or integers to integers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupTable {
    handle: Edge,
    keys: DataType,
}

impl Graph {
    /// Adds a table that maps each of these texts or integers to its value.
    pub fn lookup_table(&mut self, name: &str, keys: &Edge, values: &Edge) -> LookupTable {
        let attributes = vec![
            ("container", Attribute::Text(String::new())),
            ("key_dtype", Attribute::Type(keys.dtype())),
            ("shared_name", Attribute::Text(name.to_owned())),
            ("use_node_name_sharing", Attribute::Bool(false)),
            ("value_dtype", Attribute::Type(DataType::DtInt64)),
        ];
        let handle = self.one("HashTableV2", name, &[], (attributes, DataType::DtResource));
        let attributes = typed(keys.dtype());
        let fill = format!("{name}/table_init/LookupTableImportV2");
        let fill = self.action(
            "LookupTableImportV2",
            &fill,
            &[&handle, keys, values],
            attributes,
        );
        self.initializers.push(fill);
        LookupTable {
            handle,
            keys: keys.dtype(),
        }
    }

    /// Adds a table that maps each integer of a variable to its place in it. Variables are restored before tables are
    /// filled.
    pub fn lookup_table_of(&mut self, name: &str, keys: &Variable) -> LookupTable {
        let count = keys.spec.shape.first().copied().unwrap_or(1);
        let keys = self.read_variable(keys);
        let zero = self.integer(0);
        let count = self.integer(count as i64);
        let one = self.integer(1);
        let attributes = vec![("Tidx", Attribute::Type(DataType::DtInt64))];
        let places = self.one(
            "Range",
            &format!("{name}/places"),
            &[&zero, &count, &one],
            (attributes, DataType::DtInt64),
        );
        self.lookup_table(name, &keys, &places)
    }

    /// Returns the value of each key, or the default.
    pub fn find(&mut self, name: &str, table: &LookupTable, keys: &Edge, default: i64) -> Edge {
        let default = self.integer(default);
        self.one(
            "LookupTableFindV2",
            name,
            &[&table.handle, keys, &default],
            (typed(table.keys), DataType::DtInt64),
        )
    }
}

fn typed(keys: DataType) -> Vec<(&'static str, Attribute)> {
    vec![
        ("Tin", Attribute::Type(keys)),
        ("Tout", Attribute::Type(DataType::DtInt64)),
    ]
}
