//! `categorical_column_with_vocabulary_list`: the id of a listed value is its index. Other values share the buckets
//! after the list, or have the default id, or none.

use std::collections::HashMap;

use crate::hashed;

/// A vocabulary.
#[derive(Debug, Clone)]
pub(crate) struct Vocabulary {
    texts: HashMap<Vec<u8>, u32>,
    ints: HashMap<i64, u32>,
    size: u32,
    oov_buckets: u32,
    default: Option<u32>,
}

impl Vocabulary {
    pub(crate) fn new(values: &[String], oov_buckets: u32, default: Option<u32>) -> Self {
        let texts = values
            .iter()
            .enumerate()
            .map(|(id, value)| (value.as_bytes().to_vec(), id as u32));
        let numbers = values
            .iter()
            .enumerate()
            .filter_map(|(id, value)| Some((value.parse().ok()?, id as u32)));
        Self {
            texts: texts.collect(),
            ints: numbers.collect(),
            size: values.len() as u32,
            oov_buckets,
            default,
        }
    }

    /// Returns the id of a text, if it has one.
    pub(crate) fn id(&self, text: &[u8]) -> Option<u32> {
        let place = self.texts.get(text).copied();
        place.or_else(|| self.other(|buckets| hashed::bucket(text, buckets)))
    }

    /// Returns the id of an integer, if it has one.
    pub(crate) fn id_of_int(&self, number: i64) -> Option<u32> {
        let place = self.ints.get(&number).copied();
        place.or_else(|| self.other(|buckets| hashed::bucket_of_int(number, buckets)))
    }

    fn other(&self, bucket: impl Fn(u32) -> u32) -> Option<u32> {
        match self.oov_buckets {
            0 => self.default,
            buckets => Some(self.size + bucket(buckets)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_outside_the_list_share_the_buckets_behind_it() {
        let values = ["x".to_owned(), "y".to_owned()];
        let vocabulary = Vocabulary::new(&values, 3, None);
        let ids = ["x", "y", "zz", "omar"].map(|text| vocabulary.id(text.as_bytes()));
        assert_eq!(ids, [Some(0), Some(1), Some(3), Some(4)]);
        assert_eq!(Vocabulary::new(&values, 0, None).id(b"zz"), None);
        assert_eq!(Vocabulary::new(&values, 0, Some(1)).id(b"zz"), Some(1));
    }
}
