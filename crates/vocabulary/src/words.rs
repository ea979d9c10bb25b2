//! Words with their ids.

use std::fmt;
use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _};
use std::io::{BufWriter, Write};
use std::sync::Arc;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use serde::{Serialize, Serializer};

use crate::Texts;

/// Most bytes of a 64-bit integer in decimal form.
const DECIMAL_BYTES_MAX: usize = 20;

/// Different words in the order of their ids, which begin at 0. Clones share the words.
///
/// A word takes its bytes and 14 to 20 more: 8 of the list, and 6 to 12 of the table of ids. A word in a form that an
/// integer has besides its decimal form, such as `007`, takes 6 to 12 more.
#[derive(Clone)]
pub struct Words(Arc<Indexed>);

struct Indexed {
    texts: Texts,
    hasher: DefaultHashBuilder,
    /// All ids, by the hashes of their words.
    ids: HashTable<u32>,
    /// Ids of words such as `007` and `+7`, by the hashes of the integers that they stand for; of equal integers, the
    /// last id. Words in decimal form are in `ids`.
    ids_of_other_forms: HashTable<u32>,
    digest: Digest,
}

/// Length and hash of words, as a list in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digest {
    /// Bytes of the list in JSON.
    pub bytes: u64,
    /// Hash of these bytes. Processes of one build of the program have the same hash function.
    pub hash: u64,
}

/// A list of texts is not a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Two texts are equal.
    #[error("a vocabulary must not repeat a value, `{value}` is given twice")]
    Repeated {
        /// The text.
        value: String,
        /// Index of the first occurrence.
        first: usize,
        /// Index of the second occurrence.
        second: usize,
    },
    /// There are more texts than ids.
    #[error("a vocabulary must hold at most {} values, given {count}", u32::MAX)]
    TooMany {
        /// Number of texts.
        count: usize,
    },
}

impl Words {
    /// Gives each text the id that is its index.
    ///
    /// # Errors
    /// A text is repeated, or there are more than [`u32::MAX`] texts.
    pub fn new(texts: Texts) -> Result<Self, Error> {
        let count = texts.len();
        let most = u32::try_from(count).map_err(|_| Error::TooMany { count })?;
        let hasher = DefaultHashBuilder::default();
        let mut ids = HashTable::with_capacity(count);
        let mut ids_of_other_forms = HashTable::new();
        for id in 0..most {
            let word = texts.get(id as usize);
            let equal = |other: &u32| texts.get(*other as usize) == word;
            let hash = |id: &u32| hasher.hash_one(texts.get(*id as usize).as_bytes());
            match ids.entry(hasher.hash_one(word.as_bytes()), equal, hash) {
                Entry::Occupied(earlier) => {
                    return Err(Error::Repeated {
                        value: word.to_owned(),
                        first: *earlier.get() as usize,
                        second: id as usize,
                    });
                }
                Entry::Vacant(vacant) => drop(vacant.insert(id)),
            }
            let Some(integer) = integer_in_other_form(word) else {
                continue;
            };
            let integer_of = |id: &u32| integer_in_other_form(texts.get(*id as usize));
            let equal = |other: &u32| integer_of(other) == Some(integer);
            let hash = |id: &u32| hasher.hash_one(integer_of(id).unwrap_or_default());
            match ids_of_other_forms.entry(hasher.hash_one(integer), equal, hash) {
                Entry::Occupied(mut earlier) => *earlier.get_mut() = id,
                Entry::Vacant(vacant) => drop(vacant.insert(id)),
            }
        }
        let digest = digest_of(&texts);
        Ok(Self(Arc::new(Indexed {
            texts,
            hasher,
            ids,
            ids_of_other_forms,
            digest,
        })))
    }

    /// Returns the words in the order of their ids.
    pub fn texts(&self) -> &Texts {
        &self.0.texts
    }

    /// Returns the number of words.
    pub fn len(&self) -> usize {
        self.texts().len()
    }

    /// Returns whether there is no word.
    pub fn is_empty(&self) -> bool {
        self.texts().is_empty()
    }

    /// Returns the words in the order of their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.texts().iter()
    }

    /// Returns the id of a text, if it is a word.
    #[inline]
    pub fn id(&self, text: &[u8]) -> Option<u32> {
        let Indexed {
            texts, hasher, ids, ..
        } = &*self.0;
        let equal = |id: &u32| texts.get(*id as usize).as_bytes() == text;
        ids.find(hasher.hash_one(text), equal).copied()
    }

    /// Returns the id of an integer, if a word is a form of it that [`str::parse`] reads, such as `7`, `+7` or `007`. Of
    /// several such words, the last counts.
    #[inline]
    pub fn id_of_int(&self, integer: i64) -> Option<u32> {
        let mut buffer = [0; DECIMAL_BYTES_MAX];
        let id = self.id(decimal(integer, &mut buffer));
        id.max(self.id_of_other_form(integer))
    }

    /// Returns the integers that have ids ([`Words::id_of_int`]) with their ids, in ascending order.
    pub fn integers(&self) -> Vec<(i64, u32)> {
        let integers = self.iter().zip(0..).filter_map(|(word, id)| {
            let integer = word.parse().ok()?;
            (self.id_of_int(integer) == Some(id)).then_some((integer, id))
        });
        let mut integers: Vec<(i64, u32)> = integers.collect();
        integers.sort_unstable();
        integers
    }

    fn id_of_other_form(&self, integer: i64) -> Option<u32> {
        let Indexed {
            texts,
            hasher,
            ids_of_other_forms: ids,
            ..
        } = &*self.0;
        if ids.is_empty() {
            return None;
        }
        let equal = |id: &u32| integer_in_other_form(texts.get(*id as usize)) == Some(integer);
        ids.find(hasher.hash_one(integer), equal).copied()
    }

    /// Returns the bytes of memory that the words and their ids take, together for all clones.
    pub fn memory_bytes(&self) -> usize {
        let tables = [&self.0.ids, &self.0.ids_of_other_forms];
        self.texts().memory_bytes()
            + tables
                .iter()
                .map(|ids| ids.allocation_size())
                .sum::<usize>()
    }

    /// Returns whether `other` is a clone of these words, and shares their memory.
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns length and hash of the words.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }
}

impl Default for Words {
    fn default() -> Self {
        let texts = Texts::default();
        let digest = digest_of(&texts);
        Self(Arc::new(Indexed {
            texts,
            hasher: DefaultHashBuilder::default(),
            ids: HashTable::new(),
            ids_of_other_forms: HashTable::new(),
            digest,
        }))
    }
}

fn digest_of(texts: &Texts) -> Digest {
    let mut out = BufWriter::with_capacity(1 << 16, Digesting::default());
    let mut serializer = serde_json::Serializer::new(&mut out);
    serializer
        .collect_seq(texts.iter())
        .expect("nothing fails while texts are hashed");
    let Ok(Digesting { bytes, hasher }) = out.into_inner() else {
        unreachable!("nothing fails while texts are hashed");
    };
    Digest {
        bytes,
        hash: hasher.finish(),
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        self.is_clone_of(other) || self.texts() == other.texts()
    }
}

impl Eq for Words {}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} words", self.len())
    }
}

/// Counts and hashes the bytes that are written.
#[derive(Default)]
struct Digesting {
    bytes: u64,
    hasher: DefaultHasher,
}

impl Write for Digesting {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.hasher.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the integer that a word stands for, if the word is not its decimal form: it begins with `+`, `0` or `-0`, as
/// `+7`, `007` and `-0` do.
fn integer_in_other_form(word: &str) -> Option<i64> {
    let is_other = match word.as_bytes() {
        [b'+', ..] | [b'-', b'0', ..] => true,
        [b'0', rest @ ..] => !rest.is_empty(),
        _ => false,
    };
    is_other.then(|| word.parse().ok()).flatten()
}

/// Writes the decimal form of an integer.
fn decimal(integer: i64, buffer: &mut [u8; DECIMAL_BYTES_MAX]) -> &[u8] {
    let mut begin = DECIMAL_BYTES_MAX;
    let mut rest = integer.unsigned_abs();
    loop {
        begin -= 1;
        buffer[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if integer < 0 {
        begin -= 1;
        buffer[begin] = b'-';
    }
    &buffer[begin..]
}
