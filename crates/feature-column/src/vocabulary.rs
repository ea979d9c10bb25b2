//! `categorical_column_with_vocabulary_list`: the id of a listed value is its index. Other values share the buckets
//! after the list, or have the default id, or none.

use trainyard_vocabulary::Words;

use crate::hashed;

/// A vocabulary.
#[derive(Debug, Clone)]
pub(crate) struct Vocabulary {
    words: Words,
    oov_buckets: u32,
    default: Option<u32>,
}

impl Vocabulary {
    pub(crate) fn new(words: Words, oov_buckets: u32, default: Option<u32>) -> Self {
        Self {
            words,
            oov_buckets,
            default,
        }
    }

    /// Returns the id of a text, if it has one.
    pub(crate) fn id(&self, text: &[u8]) -> Option<u32> {
        let id = self.words.id(text);
        id.or_else(|| self.other(|buckets| hashed::bucket(text, buckets)))
    }

    /// Returns the id of an integer, if it has one.
    pub(crate) fn id_of_int(&self, number: i64) -> Option<u32> {
        let id = self.words.id_of_int(number);
        id.or_else(|| self.other(|buckets| hashed::bucket_of_int(number, buckets)))
    }

    fn other(&self, bucket: impl Fn(u32) -> u32) -> Option<u32> {
        match self.oov_buckets {
            0 => self.default,
            buckets => Some(self.words.len() as u32 + bucket(buckets)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_outside_the_list_share_the_buckets_behind_it() {
        let words = Words::new(["x", "y"].into_iter().collect()).expect("no word is repeated");
        let vocabulary = Vocabulary::new(words.clone(), 3, None);
        let ids = ["x", "y", "zz", "omar"].map(|text| vocabulary.id(text.as_bytes()));
        assert_eq!(ids, [Some(0), Some(1), Some(3), Some(4)]);
        assert_eq!(Vocabulary::new(words.clone(), 0, None).id(b"zz"), None);
        assert_eq!(Vocabulary::new(words, 0, Some(1)).id(b"zz"), Some(1));
    }
}
