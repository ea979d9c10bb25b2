//! Keys of the objects of a body of JSON. A key that is given twice, or that nobody reads, is refused: it would be left out
//! without a word.

use std::collections::BTreeSet;

use crate::json::{Fault, Reader};
use crate::text::shown;

/// Most parameters of an object. A request needs one or two.
const PARAMETERS_MAX: usize = 256;

/// The keys of an object whose protocol says which there are.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    /// What the object is, for messages.
    object: &'static str,
    known: &'static [&'static str],
    /// Whether each key was given: a bit for each.
    given: u32,
}

impl KnownKeys {
    pub(crate) fn new(object: &'static str, known: &'static [&'static str]) -> Self {
        Self {
            object,
            known,
            given: 0,
        }
    }

    /// Takes a key, whose value comes next.
    ///
    /// # Errors
    /// The object has no such key, or was given it before.
    pub(crate) fn take(&mut self, reader: &Reader<'_>, key: &str) -> Result<(), Fault> {
        let Some(place) = self.known.iter().position(|known| *known == key) else {
            return Err(reader.fault(format!(
                "unknown key `{}` of {}; keys: {}",
                shown(key),
                self.object,
                self.known.join(", ")
            )));
        };
        let bit = 1 << place;
        if self.given & bit != 0 {
            return Err(given_twice(reader, key, self.object));
        }
        self.given |= bit;
        Ok(())
    }
}

/// The names of parameters, which are free.
#[derive(Debug, Default)]
pub(crate) struct ParameterNames(BTreeSet<String>);

impl ParameterNames {
    /// Takes the name of a parameter, whose value comes next.
    ///
    /// # Errors
    /// It was given before, or there are too many.
    pub(crate) fn take(&mut self, reader: &Reader<'_>, name: &str) -> Result<(), Fault> {
        if self.0.contains(name) {
            return Err(given_twice(reader, name, "`parameters`"));
        }
        if self.0.len() == PARAMETERS_MAX {
            return Err(reader.fault(format!(
                "`parameters` may have at most {PARAMETERS_MAX} parameters, given more"
            )));
        }
        self.0.insert(name.to_owned());
        Ok(())
    }
}

fn given_twice(reader: &Reader<'_>, key: &str, object: &str) -> Fault {
    reader.fault(format!(
        "the key `{}` of {object} is given twice",
        shown(key)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_once_and_unknown_keys_are_refused_with_the_known_ones() {
        let reader = Reader::new("{}");
        let mut keys = KnownKeys::new("an input", &["name", "data"]);
        keys.take(&reader, "name").expect("known");
        keys.take(&reader, "data").expect("known");
        let told = keys.take(&reader, "data").expect_err("twice").message;
        assert_eq!(told, "the key `data` of an input is given twice");
        let told = keys.take(&reader, "dat").expect_err("unknown").message;
        assert_eq!(told, "unknown key `dat` of an input; keys: name, data");
    }

    #[test]
    fn parameters_have_any_names_once_and_a_bound() {
        let reader = Reader::new("{}");
        let mut names = ParameterNames::default();
        for nth in 0..PARAMETERS_MAX {
            names.take(&reader, &format!("p{nth}")).expect("new");
        }
        let told = names.take(&reader, "p7").expect_err("twice");
        assert_eq!(told.message, "the key `p7` of `parameters` is given twice");
        let told = names.take(&reader, "one more").expect_err("many");
        assert!(told.message.contains("at most 256"), "{told}");
    }
}
