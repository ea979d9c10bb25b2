//! Declaration of a section: its keys once, as a table. The struct, its reader and the list of its keys come from it.

/// Declares a section of a file. Each key has its meaning (Markdown, as a documentation comment), its type and its rule.
///
/// The macro makes the struct, `keys()` for documentation and schema, and `read_keys()`, which reads all keys, reports
/// all mistakes, and returns `None` if a value is missing that nothing can stand for.
#[macro_export]
macro_rules! section {
    (
        $(#[$outer:meta])*
        $visibility:vis struct $section:ident {
            $(
                $(#[doc = $meaning:literal])+
                $key:ident : $type:ty = $rule:expr $(, serde($($serde:tt)*))?;
            )+
        }
    ) => {
        $(#[$outer])*
        $visibility struct $section {
            $(
                $(#[doc = $meaning])+
                $(#[serde($($serde)*)])?
                $visibility $key: $type,
            )+
        }

        impl $section {
            /// Returns the keys of the section, in the order of the documentation.
            pub(crate) fn keys() -> Vec<$crate::Key> {
                use $crate::form::*;
                use $crate::rule::*;
                vec![$(
                    of::<$type, _>($rule).declare(stringify!($key), concat!($($meaning),+))
                ),+]
            }

            /// Reads all keys, and reports all mistakes.
            pub(crate) fn read_keys(section: &$crate::Section<'_>) -> Option<Self> {
                use $crate::form::*;
                use $crate::rule::*;
                $(let $key = of::<$type, _>($rule).read(section, stringify!($key));)+
                Some(Self { $($key: $key?),+ })
            }
        }
    };
}
