//! Declaration of a table whose keys depend on its kind: each kind once, with the sections that hold its keys.

use crate::{Kinds, Section};

/// Declares the kinds of a table. Each kind has its meaning (Markdown, as a documentation comment), its name in the file,
/// and a variant with the sections of its keys, each declared by [`section!`](macro@crate::section). A section may be in
/// several kinds. All rules of its keys let the section be read to its end: `optional` and `or` for values that decide
/// nothing, and otherwise those that end in `_or_invalid`.
///
/// ```text
/// kinds! {
///     /// Keys of `[shape]` by its kind.
///     #[derive(Debug)]
///     pub(crate) enum ShapeKeys = "shape" {
///         /// equal sides
///         "square" => Square(SideKeys),
///         /// sides of two lengths
///         "rectangle" => Rectangle(SideKeys, HeightKeys),
///     }
/// }
/// ```
///
/// The macro makes the enum, `kinds()` for documentation and schema, and `read_kind()`, which reads the kind and its keys,
/// and reports all mistakes. A key of another kind is reported with the kinds that have it. `read_kind()` takes the
/// kinds, since a place may have a default or leave one of them out.
#[macro_export]
macro_rules! kinds {
    (
        $(#[$outer:meta])*
        $visibility:vis enum $kinds:ident = $what:literal {
            $(
                $(#[doc = $meaning:literal])+
                $name:literal => $kind:ident($($section:ty),+),
            )+
        }
    ) => {
        $(#[$outer])*
        $visibility enum $kinds {
            $(
                $(#[doc = $meaning])+
                $kind($($section),+),
            )+
        }

        impl $kinds {
            /// Returns the kinds with their keys, in the order of the documentation.
            pub(crate) fn kinds() -> $crate::Kinds {
                $crate::Kinds {
                    what: $what,
                    default: None,
                    shared: Vec::new(),
                    kinds: vec![$(
                        $crate::Kind {
                            name: $name,
                            meaning: concat!($($meaning),+),
                            keys: [$(<$section>::keys()),+].concat(),
                        }
                    ),+],
                }
            }

            /// Reads the name of the kind and the keys of that kind, and reports all mistakes.
            pub(crate) fn read_kind(
                section: &$crate::Section<'_>,
                kinds: &$crate::Kinds,
            ) -> Option<(&'static str, Self)> {
                let name = section.kind(kinds)?;
                Some((name, Self::read_keys(section, name)?))
            }

            /// Reads the keys of a kind, and reports all mistakes. Returns `None` for another name.
            fn read_keys(section: &$crate::Section<'_>, name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$kind($(<$section>::read_keys(section)?),+)),)+
                    _ => None,
                }
            }
        }
    };
}

impl Section<'_> {
    /// Reads the name of the kind. All keys of that kind become known. Without a valid kind, those of all kinds do, so that
    /// only the kind is reported.
    pub fn kind(&self, kinds: &Kinds) -> Option<&'static str> {
        let keys = |keys: &[crate::Key]| keys.iter().map(|key| key.name).collect::<Vec<_>>();
        self.know(&keys(&kinds.shared));
        let known: Vec<(&str, &'static str)> =
            kinds.names().into_iter().map(|name| (name, name)).collect();
        let found = match self.node("kind") {
            Some(_) => self.choice("kind", kinds.what, &known),
            None if kinds.default.is_none() => {
                let example = known.first().map_or("", |(name, _)| name);
                self.missing("kind", &format!("\"{example}\""));
                None
            }
            None => kinds.default,
        };
        for kind in &kinds.kinds {
            let keys = keys(&kind.keys);
            if found.is_none_or(|name| name == kind.name) {
                self.know(&keys);
            } else {
                self.know_elsewhere(kind.name, &keys);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use crate::{Document, Problems, Section, render_all, section};

    section! {
        /// Keys of all shapes.
        #[derive(Debug, PartialEq)]
        pub(crate) struct SideKeys {
            /// length of a side
            side: Option<u64> = integer(1..=9).required_or_invalid("2");
        }
    }

    section! {
        /// Keys of rectangles.
        #[derive(Debug, PartialEq)]
        pub(crate) struct HeightKeys {
            /// length of the other side
            height: u64 = integer(1..=9).or(1);
        }
    }

    kinds! {
        /// Keys of `[shape]` by its kind.
        #[derive(Debug, PartialEq)]
        pub(crate) enum ShapeKeys = "shape" {
            /// equal sides
            "square" => Square(SideKeys),
            /// sides of two lengths
            "rectangle" => Rectangle(SideKeys, HeightKeys),
        }
    }

    fn read(text: &str) -> (Option<(&'static str, ShapeKeys)>, String) {
        let problems = Problems::default();
        let document = Document::parse("shape.toml".as_ref(), text).expect("TOML");
        let section = Section::new("[shape]", &document.root, None, &problems);
        let read = ShapeKeys::read_kind(&section, &ShapeKeys::kinds());
        section.finish();
        (read, render_all(&problems.into_vec()))
    }

    #[test]
    fn a_kind_has_the_keys_of_its_sections() {
        let side = SideKeys { side: Some(3) };
        let height = HeightKeys { height: 1 };
        let (read, told) = read("kind = \"rectangle\"\nside = 3");
        assert_eq!(
            read,
            Some(("rectangle", ShapeKeys::Rectangle(side, height))),
            "{told}"
        );
        let names = |kind: usize| {
            let keys = ShapeKeys::kinds().kinds[kind].keys.clone();
            keys.iter().map(|key| key.name).collect::<Vec<_>>()
        };
        assert_eq!((names(0), names(1)), (vec!["side"], vec!["side", "height"]));
    }

    #[test]
    fn a_key_of_another_kind_is_answered_with_the_kinds_that_have_it() {
        let (_, told) = read("kind = \"square\"\nside = 3\nheight = 2");
        assert!(
            told.contains("`height` is a key of kind = \"rectangle\""),
            "{told}"
        );
        let (_, told) = read("kind = \"square\"\nside = 3\nheigth = 2");
        assert!(
            told.contains("did you mean `height`, a key of kind = \"rectangle\"?"),
            "{told}"
        );
    }

    #[test]
    fn without_a_valid_kind_only_the_kind_is_reported() {
        for (text, rule) in [
            (
                "kind = \"sqare\"\nside = 3\nheight = 2",
                "did you mean `square`?",
            ),
            ("side = 3\nheight = 2", "kind = \"square\""),
        ] {
            let (read, told) = read(text);
            assert_eq!(read, None);
            assert!(
                told.contains(rule) && !told.contains("unknown key"),
                "{told}"
            );
        }
    }
}
