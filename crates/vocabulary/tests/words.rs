//! Words against a plain map, their memory, and their digest.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use proptest::prelude::*;
use trainyard_vocabulary::{Digest, Error, Texts, Words};

/// Ids by texts, and by the integers that texts stand for. Of equal integers, the last counts.
fn maps(texts: &[String]) -> (HashMap<Vec<u8>, u32>, HashMap<i64, u32>) {
    let numbered = texts.iter().zip(0..);
    let by_text = numbered
        .clone()
        .map(|(text, id)| (text.as_bytes().to_vec(), id));
    let by_integer = numbered.filter_map(|(text, id)| Some((text.parse().ok()?, id)));
    (by_text.collect(), by_integer.collect())
}

/// A text that is likely to stand for an integer that others stand for, too.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[+-]?0{0,2}[0-9]{0,2}",
        any::<i64>().prop_map(|integer| integer.to_string()),
        "[+-]?0{0,3}922337203685477580[6-9]",
        ".{0,6}",
        "[a-c]{0,2}",
    ]
}

proptest! {
    #[test]
    fn every_text_and_integer_has_the_id_of_a_plain_map(
        given in prop::collection::vec(text(), 0..60),
        others in prop::collection::vec(text(), 0..20),
        integers in prop::collection::vec(any::<i64>(), 0..10),
    ) {
        let mut texts: Vec<String> = Vec::new();
        for text in given {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let (by_text, by_integer) = maps(&texts);
        let words = Words::new(texts.iter().collect()).expect("no text is repeated");
        prop_assert_eq!(words.iter().collect::<Vec<_>>(), texts.iter().collect::<Vec<_>>());
        for text in texts.iter().chain(&others) {
            prop_assert_eq!(words.id(text.as_bytes()), by_text.get(text.as_bytes()).copied());
        }
        prop_assert_eq!(words.id(b"\xff"), None);
        let small = -100..=100;
        let known = by_integer.keys().copied();
        for integer in small.chain(known).chain(integers).chain([i64::MIN, i64::MAX]) {
            let id = words.id_of_int(integer);
            prop_assert_eq!(id, by_integer.get(&integer).copied(), "{}", integer);
        }
        let mut integers: Vec<(i64, u32)> = by_integer.into_iter().collect();
        integers.sort_unstable();
        prop_assert_eq!(words.integers(), integers);
    }

    #[test]
    fn lines_are_those_of_the_standard_library(text in "(a|b|é|\r|\n|\r\n|\u{feff}| ){0,40}") {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let texts = Texts::of_lines(text);
        prop_assert_eq!(texts.iter().collect::<Vec<_>>(), lines.iter().collect::<Vec<_>>());
        prop_assert_eq!(texts, lines.iter().collect::<Texts>());
    }

    #[test]
    fn the_first_texts_stay(texts in prop::collection::vec(".{0,4}", 0..20), count in 0_usize..30) {
        let mut kept: Texts = texts.iter().collect();
        kept.truncate(count);
        prop_assert_eq!(kept, texts.iter().take(count).collect::<Texts>());
    }

    #[test]
    fn the_digest_is_that_of_the_whole_list_in_json(texts in prop::collection::hash_set(".{0,9}", 0..60)) {
        let words = Words::new(texts.iter().collect()).expect("no text is repeated");
        let json = serde_json::to_string(&words.iter().collect::<Vec<_>>()).expect("JSON");
        let mut hash = DefaultHasher::new();
        hash.write(json.as_bytes());
        let expected = Digest { bytes: json.len() as u64, hash: hash.finish() };
        prop_assert_eq!(words.digest(), expected);
        prop_assert_eq!(serde_json::to_string(&words).expect("JSON"), json);
    }
}

#[test]
fn a_repeated_text_is_refused_with_both_of_its_indices() {
    let refused = Words::new(["a", "b", "c", "b", "a"].into_iter().collect()).unwrap_err();
    let expected = Error::Repeated {
        value: "b".to_owned(),
        first: 1,
        second: 3,
    };
    assert_eq!(refused, expected);
    // Different forms of an integer are different texts.
    let words = Words::new(["7", "+7", "x", "007"].into_iter().collect()).expect("no repetition");
    assert_eq!(words.id_of_int(7), Some(3));
}

#[test]
fn memory_grows_in_proportion_to_the_words_and_stays_below_a_bound_per_word() {
    // Just above a power of two the table of ids has most room to spare.
    for count in [1_000, 7_169, 28_673, 229_377, 1_000_000] {
        for (form, bytes_max) in [("word-", 20), ("", 20), ("000", 32)] {
            let mut text: String = (0..count)
                .map(|id| format!("{form}{:07}\n", id + 1_000_000))
                .collect();
            text.shrink_to_fit();
            let length = text.lines().map(str::len).sum::<usize>();
            let words = Words::new(Texts::of_lines(text)).expect("no text is repeated");
            // The buffer keeps the room of the line feeds.
            let beside = words.memory_bytes() - length - count;
            let per_word = beside as f64 / count as f64;
            assert!(
                (8.0 + 5.0..f64::from(bytes_max)).contains(&per_word),
                "{per_word} bytes for each of {count} words such as {form}1000000"
            );
        }
    }
}

#[test]
fn clones_share_their_memory_and_equal_lists_are_equal() {
    let list = || Words::new(["a", "b"].into_iter().collect()).expect("no text is repeated");
    let words = list();
    assert!(words.is_clone_of(&words.clone()) && !words.is_clone_of(&list()));
    assert_eq!(words, list());
    assert_ne!(
        words,
        Words::new(["ab", ""].into_iter().collect()).expect("no text is repeated")
    );
    assert_eq!(format!("{words:?}"), "2 words");
}
