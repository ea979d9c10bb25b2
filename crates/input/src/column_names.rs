//! Names of a table's columns, each with its place.

use std::collections::HashMap;

/// Names of columns in their order. A name is found in the same time among ten thousand as among ten.
#[derive(Debug, Default)]
pub(crate) struct ColumnNames {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl ColumnNames {
    /// Returns the names in their order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the place of a name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Returns the place of a name, which is the last one if the name is new.
    pub(crate) fn place(&mut self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            let place = self.names.len();
            self.names.push(name.to_owned());
            self.places.insert(name.to_owned(), place);
            place
        })
    }
}

/// Place of a name among the columns of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// One column has the name.
    Once(usize),
    /// Several columns have the name.
    Twice,
}

/// Returns the place of each name.
pub(crate) fn places(names: &[String]) -> HashMap<&str, Place> {
    let mut places = HashMap::with_capacity(names.len());
    for (place, name) in names.iter().enumerate() {
        places
            .entry(name.as_str())
            .and_modify(|place| *place = Place::Twice)
            .or_insert(Place::Once(place));
    }
    places
}

/// Returns the first name that several columns have.
pub(crate) fn name_there_twice(names: &[String]) -> Option<&String> {
    let places = places(names);
    let is_twice = |name: &&String| places.get(name.as_str()) == Some(&Place::Twice);
    names.iter().find(is_twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_first_place() {
        let mut columns = ColumnNames::default();
        assert_eq!(["b", "a", "b"].map(|name| columns.place(name)), [0, 1, 0]);
        assert_eq!(columns.names(), ["b", "a"]);
        assert_eq!((columns.find("a"), columns.find("c")), (Some(1), None));
        let names = ["b", "a", "b"].map(str::to_owned);
        assert_eq!(places(&names).get("a"), Some(&Place::Once(1)));
        assert_eq!(places(&names).get("b"), Some(&Place::Twice));
        assert_eq!(name_there_twice(&names), Some(&names[0]));
        assert_eq!(name_there_twice(&names[1..]), None);
    }
}
