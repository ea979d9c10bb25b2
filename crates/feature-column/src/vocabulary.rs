//! `categorical_column_with_vocabulary_list`: the place of a text in a list; others share the buckets behind it.

use std::collections::HashMap;

/// A vocabulary.
#[derive(Debug, Clone)]
pub(crate) struct Vocabulary {
    ids: HashMap<Vec<u8>, u32>,
    oov_buckets: u32,
}

impl Vocabulary {
    pub(crate) fn new(values: &[String], oov_buckets: u32) -> Self {
        let ids = values.iter().enumerate().map(|(id, value)| (value.as_bytes().to_vec(), id as u32));
        Self { ids: ids.collect(), oov_buckets }
    }

    /// Returns the id of a text, if it has one.
    pub(crate) fn id(&self, text: &[u8]) -> Option<u32> {
        if text.is_empty() {
            return None;
        }
        match self.ids.get(text) {
            Some(id) => Some(*id),
            None if self.oov_buckets == 0 => None,
            None => {
                let bucket = farmhash::fingerprint64(text) % u64::from(self.oov_buckets);
                Some(self.ids.len() as u32 + bucket as u32)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_outside_the_list_share_the_buckets_behind_it() {
        let values = ["x".to_owned(), "y".to_owned()];
        let vocabulary = Vocabulary::new(&values, 3);
        let ids = ["x", "y", "zz", "omar", ""].map(|text| vocabulary.id(text.as_bytes()));
        assert_eq!(ids, [Some(0), Some(1), Some(3), Some(4), None]);
        assert_eq!(Vocabulary::new(&values, 0).id(b"zz"), None);
    }
}
