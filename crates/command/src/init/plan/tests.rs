//! Decisions of `trainyard init` for columns with given values.

use trainyard_input::{Cell, Profile, Value};

use super::{Coverage, Kind, Plan, Scale, Shape, Task, Wishes};

const ROWS: usize = 1000;

/// Returns the profile of a thousand records. The value of a column is a function of the record's number.
fn profile(columns: &[(&str, &dyn Fn(usize) -> String)]) -> Profile {
    profile_of(ROWS, columns)
}

fn profile_of(rows: usize, columns: &[(&str, &dyn Fn(usize) -> String)]) -> Profile {
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut profile = Profile::default();
    for row in 0..rows {
        let cell = |text: String| {
            let values = if text.is_empty() {
                Vec::new()
            } else {
                vec![Value::Text(text.into_bytes())]
            };
            Cell {
                values,
                list: false,
            }
        };
        let cells: Vec<Cell> = columns.iter().map(|(_, value)| cell(value(row))).collect();
        profile.see(&names, &cells);
    }
    profile
}

fn plan(columns: &[(&str, &dyn Fn(usize) -> String)], wishes: &Wishes) -> Plan {
    Plan::make(&profile(columns), None, wishes).expect("a plan")
}

/// Returns the kind of feature that is chosen for a column beside a label.
fn made_of(name: &str, value: &dyn Fn(usize) -> String, wishes: &Wishes) -> Result<Kind, String> {
    let mut plan = plan(
        &[
            ("label", &|row| (row % 2).to_string()),
            ("other", &|row| (row % 7).to_string()),
            (name, value),
        ],
        wishes,
    );
    match plan
        .features
        .iter()
        .position(|feature| feature.column == name)
    {
        Some(place) => Ok(plan.features.remove(place).kind),
        None => Err(plan.left_out.remove(0).1),
    }
}

fn label(values: &[&str], wishes: &Wishes) -> Task {
    let values = values.to_vec();
    plan(
        &[
            ("label", &|row| values[row % values.len()].to_owned()),
            ("x", &|row| (row % 7).to_string()),
        ],
        wishes,
    )
    .label
    .task
}

#[test]
fn a_label_of_two_values_has_a_positive_class_unless_it_is_0_and_1() {
    let wishes = Wishes::default();
    assert_eq!(
        label(&["0", "1", "0", "0"], &wishes),
        Task::Binary {
            positive: None,
            share: 0.25
        }
    );
    let positive = |text: &str, share| Task::Binary {
        positive: Some(text.to_owned()),
        share,
    };
    assert_eq!(label(&["no", "yes"], &wishes), positive("yes", 0.5));
    assert_eq!(
        label(&["<=50K", "<=50K", "<=50K", ">50K"], &wishes),
        positive(">50K", 0.25)
    );
    assert_eq!(label(&["-1", "1"], &wishes), positive("1", 0.5));
    // 1 is positive however it is written, and however often it comes.
    assert_eq!(
        label(&["-1", "+1", "+1", "+1"], &wishes),
        positive("+1", 0.75)
    );
    assert_eq!(
        label(&["-1.0", "1.0", "1.0", "1.0"], &wishes),
        positive("1.0", 0.75)
    );
    let wishes = Wishes {
        positive: Some("<=50K".to_owned()),
        ..Wishes::default()
    };
    assert_eq!(
        label(&["<=50K", "<=50K", "<=50K", ">50K"], &wishes),
        positive("<=50K", 0.75)
    );
}

#[test]
fn of_two_codes_the_rarer_is_positive_also_where_one_is_1() {
    let wishes = Wishes::default();
    for (values, expected) in [
        (&["1", "1", "1", "2"][..], "2"),
        (&["2", "2", "2", "1"], "1"),
        (&["-1", "1", "1", "1"], "1"),
        (&["yes", "yes", "no"], "yes"),
    ] {
        let Task::Binary {
            positive: Some(positive),
            ..
        } = label(values, &wishes)
        else {
            panic!("{values:?}")
        };
        assert_eq!(positive, expected, "{values:?}");
    }
}

#[test]
fn numbers_that_files_write_in_several_ways_are_the_same_labels() {
    let wishes = Wishes::default();
    assert_eq!(
        label(&["0", "1.0", "0.0", "1"], &wishes),
        Task::Binary {
            positive: None,
            share: 0.5
        }
    );
    assert_eq!(
        label(&["0", "1.0", "2", "0.0", "1", "2.0"], &wishes),
        Task::Classes {
            names: None,
            count: 3
        }
    );
}

#[test]
fn a_label_of_texts_or_numbers_from_0_has_classes_and_any_other_is_a_number() {
    let wishes = Wishes::default();
    let names = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(
        label(&["b", "c", "a"], &wishes),
        Task::Classes {
            names: Some(names),
            count: 3
        }
    );
    assert_eq!(
        label(&["2", "0", "1"], &wishes),
        Task::Classes {
            names: None,
            count: 3
        }
    );
    assert_eq!(
        label(&["1", "2", "3", "4", "5"], &wishes),
        Task::Number { min: 1.0, max: 5.0 }
    );
    assert_eq!(
        label(&["0.5", "1.5", "2"], &wishes),
        Task::Number { min: 0.5, max: 2.0 }
    );
}

#[test]
fn files_for_evaluation_may_spell_the_positive_class_longer() {
    let train = profile(&[
        ("label", &|row| ["no", ">50K"][row % 2].to_owned()),
        ("x", &|row| (row % 7).to_string()),
    ]);
    let eval = profile(&[
        ("label", &|row| ["no.", ">50K."][row % 2].to_owned()),
        ("x", &|row| (row % 7).to_string()),
    ]);
    let plan = Plan::make(
        &train,
        Some(&eval),
        &Wishes {
            positive: Some(">50K".to_owned()),
            ..Wishes::default()
        },
    );
    let task = plan.expect("a plan").label.task;
    assert_eq!(
        task,
        Task::Binary {
            positive: Some(">50K*".to_owned()),
            share: 0.5
        }
    );
}

#[test]
fn a_label_is_known_by_its_name_or_as_the_only_column_of_two_values_and_otherwise_asked_for() {
    let flag = |row: usize| (row % 2).to_string();
    let number = |row: usize| (row % 7).to_string();
    let of = |columns: &[(&str, &dyn Fn(usize) -> String)]| {
        Plan::make(&profile(columns), None, &Wishes::default())
    };
    assert_eq!(
        of(&[("a", &flag), ("Clicked", &flag), ("x", &number)])
            .expect("a plan")
            .label
            .column,
        "Clicked"
    );
    assert_eq!(
        of(&[("a", &flag), ("x", &number)])
            .expect("a plan")
            .label
            .column,
        "a"
    );
    let problem = of(&[("a", &flag), ("b", &flag), ("x", &number)]).expect_err("two may be meant");
    assert_eq!(problem.help.as_deref(), Some("name it by --label COLUMN"));
    assert!(
        problem
            .notes
            .iter()
            .any(|note| note
                == "columns of few values: `a` (2 values), `b` (2 values), `x` (7 values)"),
        "{problem:?}"
    );
}

#[test]
fn numbers_are_standardized_and_skewed_ones_go_by_their_logarithm() {
    let wishes = Wishes::default();
    let kind = made_of("age", &|row| (20 + row % 50).to_string(), &wishes).expect("a feature");
    let Kind::Numeric {
        width: 1,
        scale: Scale::Standardize { mean, stddev },
        default: None,
        boundaries,
        ids: None,
        ..
    } = kind
    else {
        panic!("{kind:?}")
    };
    assert_eq!((mean, stddev), (44.5, 14.4309));
    assert_eq!(boundaries.len(), 9);
    let kind = made_of(
        "gain",
        &|row| {
            if row % 10 == 0 {
                "99999".to_owned()
            } else {
                (row % 5).to_string()
            }
        },
        &wishes,
    );
    let kind = kind.expect("a feature");
    assert!(
        matches!(
            kind,
            Kind::Numeric {
                scale: Scale::Log1p,
                ..
            }
        ),
        "{kind:?}"
    );
    let kind = made_of(
        "age",
        &|row| {
            if row % 4 == 0 {
                String::new()
            } else {
                "30".to_owned() + &(row % 9).to_string()
            }
        },
        &wishes,
    );
    let kind = kind.expect("a feature");
    assert!(
        matches!(
            kind,
            Kind::Numeric {
                default: Some(300.0..309.0),
                ..
            }
        ),
        "{kind:?}"
    );
}

#[test]
fn texts_become_vocabularies_and_very_many_of_them_are_hashed() {
    let wishes = Wishes::default();
    let kind = made_of("town", &|row| format!("town {}", row % 6), &wishes).expect("a feature");
    let Kind::Vocabulary {
        values,
        separator: None,
        dimension: None,
    } = kind
    else {
        panic!("{kind:?}")
    };
    assert_eq!(values.len(), 6);
    let kind = made_of("town", &|row| format!("town {}", row % 150), &wishes).expect("a feature");
    assert!(
        matches!(
            kind,
            Kind::Vocabulary {
                dimension: Some(8),
                ..
            }
        ),
        "{kind:?}"
    );
    // More records may bring more values.
    let sample = Wishes {
        coverage: Coverage::Sample,
        ..Wishes::default()
    };
    let kind = made_of("town", &|row| format!("town {}", row % 150), &sample).expect("a feature");
    assert!(
        matches!(kind, Kind::Hashed { buckets: 1024, .. }),
        "{kind:?}"
    );
    let kind = made_of(
        "genres",
        &|row| ["a|b", "b|c", "d"][row % 3].to_owned(),
        &wishes,
    )
    .expect("a feature");
    let Kind::Vocabulary {
        values,
        separator: Some('|'),
        ..
    } = kind
    else {
        panic!("{kind:?}")
    };
    assert_eq!(values, ["a", "b", "c", "d"]);
}

#[test]
fn whole_numbers_that_are_called_ids_are_categories() {
    let wishes = Wishes::default();
    for name in ["user_id", "userId", "zip", "item_id:token"] {
        let kind = made_of(name, &|row| (1000 + row % 30).to_string(), &wishes).expect("a feature");
        assert!(matches!(kind, Kind::Vocabulary { .. }), "{name}: {kind:?}");
    }
    let kind =
        made_of("humidity", &|row| (1000 + row % 30).to_string(), &wishes).expect("a feature");
    assert!(matches!(kind, Kind::Numeric { .. }), "{kind:?}");
}

#[test]
fn columns_that_say_nothing_or_only_name_the_record_are_left_out() {
    let wishes = Wishes::default();
    let why = |name: &str, value: &dyn Fn(usize) -> String| {
        made_of(name, value, &wishes).expect_err("it is left out")
    };
    assert_eq!(why("empty", &|_| String::new()), "it holds no value");
    assert_eq!(
        why("same", &|_| "x".to_owned()),
        "it has the same value in all records"
    );
    assert_eq!(
        why("name", &|row| format!("n{row}")),
        "1000 different values in 1000 records: each names its record"
    );
    assert_eq!(
        why("row_id", &|row| row.to_string()),
        "1000 different values in 1000 records: each names its record"
    );
    assert!(
        why("timestamp", &|row| (881_250_949 + row).to_string())
            .starts_with("the time of the record")
    );
}

#[test]
fn whole_numbers_that_fill_their_range_are_names_and_share_no_row_of_a_table() {
    let columns: [(&str, &dyn Fn(usize) -> String); 5] = [
        ("label", &|row| (row % 2).to_string()),
        ("user", &|row| (row * 7919 % 400).to_string()),
        ("weight", &|row| (row % 400 * 31).to_string()),
        ("seen", &|row| (row % 900).to_string()),
        ("age", &|row| (row % 70).to_string()),
    ];
    let found = profile_of(6000, &columns);
    let made = |coverage| {
        let wishes = Wishes {
            coverage,
            ..Wishes::default()
        };
        let plan = Plan::make(&found, None, &wishes).expect("a plan");
        assert_eq!(plan.shape, Shape::Factorized);
        let kinds = plan.features.into_iter();
        kinds
            .map(|feature| (feature.column, feature.kind))
            .collect::<Vec<_>>()
    };
    let whole = made(Coverage::Whole);
    let Kind::Vocabulary { values, .. } = &whole[0].1 else {
        panic!("{:?}", whole[0])
    };
    assert_eq!(values.len(), 400);
    for (column, kind) in &whole[1..] {
        assert!(
            matches!(kind, Kind::Numeric { .. }),
            "{column} {kind:?}: gaps, six records each, few values"
        );
    }
    let sample = made(Coverage::Sample);
    let Kind::Hashed { buckets, .. } = &sample[0].1 else {
        panic!("{:?}", sample[0])
    };
    assert_eq!(*buckets, 8192, "sixteen for each of 400");
}

#[test]
fn lists_of_whole_numbers_of_any_length_are_names_and_lists_of_fractions_are_left_out() {
    let lists = |value: &dyn Fn(usize) -> Value| {
        let names = ["label", "list"].map(str::to_owned);
        let mut profile = Profile::default();
        for row in 0..ROWS {
            let list = Cell {
                values: (0..=row % 3).map(|place| value(row + place)).collect(),
                list: true,
            };
            let label = Cell {
                values: vec![Value::Int((row % 2) as i64)],
                list: false,
            };
            profile.see(&names, &[label, list]);
        }
        Plan::make(&profile, None, &Wishes::default())
    };
    let ids = lists(&|number| Value::Int(7 * (number % 40) as i64)).expect("a plan");
    match &ids.features[0].kind {
        Kind::Vocabulary {
            values, separator, ..
        } => assert_eq!((values.len(), *separator), (40, Some('|'))),
        other => panic!("{other:?}"),
    }
    let refused = lists(&|number| Value::Float(number as f64 / 7.0)).expect_err("no feature");
    let why = format!("{refused:?}");
    assert!(why.contains("lists of 1 to 3 numbers"), "{why}");
}

#[test]
fn a_column_that_counts_the_records_is_no_feature() {
    for first in [0, 1] {
        let why = made_of("", &|row| (first + row).to_string(), &Wishes::default());
        assert_eq!(why.expect_err("no feature"), "it counts the records");
    }
    let skips = |row: usize| (2 * row).to_string();
    made_of("amount", &skips, &Wishes::default()).expect("a quantity");
}

#[test]
fn a_number_beyond_32_bits_is_left_out_with_the_reason() {
    let large = |power: i32| move |row: usize| format!("{}e{power}", row + 1);
    made_of("x", &large(30), &Wishes::default()).expect("a number");
    let why = made_of("x", &large(37), &Wishes::default()).expect_err("no feature");
    assert!(why.contains("1e40") && why.contains("3.4"), "{why}");
}

#[test]
fn a_number_whose_differences_32_bits_do_not_hold_is_left_out_and_no_other() {
    let wishes = Wishes::default();
    let why =
        |value: &dyn Fn(usize) -> String| made_of("x", value, &wishes).expect_err("no feature");
    let milliseconds = |row: usize| format!("{}.5", 1_700_000_000_000_u64 + 60 * row as u64);
    assert!(
        why(&milliseconds).contains("subtract a number"),
        "{}",
        why(&milliseconds)
    );
    assert!(why(&|row| format!("16777216.{}", row % 3)).contains("subtract a number"));
    let values: [&dyn Fn(usize) -> String; 3] = [
        &|row: usize| format!("{}", 1_700_000_000 + 3600 * row),
        &|row: usize| format!("{}", 12_345_640 + row % 40),
        &|row: usize| format!("{}", row % 2),
    ];
    for value in values {
        made_of("x", value, &wishes).expect("a feature");
    }
    let kind = made_of("x", &|row| format!("{}", 12_345_640 + row % 40), &wishes);
    let Ok(Kind::Numeric {
        scale: Scale::Standardize { mean, .. },
        ..
    }) = kind
    else {
        panic!("{kind:?}")
    };
    assert!((mean - 12_345_659.5).abs() < 1.0, "{mean}");
}

#[test]
fn whole_numbers_that_are_one_in_32_bits_are_names_and_those_that_name_their_record_are_left_out() {
    let wishes = Wishes::default();
    for begin in [1_u64 << 24, 1 << 53, 1 << 60] {
        let few = |row: usize| (begin + row as u64 % 2).to_string();
        let kind = made_of("x", &few, &wishes).expect("a feature");
        assert!(matches!(kind, Kind::Vocabulary { .. }), "{begin}: {kind:?}");
    }
    let unique = |row: usize| ((1_u64 << 60) + row as u64).to_string();
    let why = made_of("x", &unique, &wishes).expect_err("no feature");
    assert!(why.contains("subtract a number"), "{why}");
}

#[test]
fn labels_that_32_bits_merge_are_classes_by_their_texts_or_refused() {
    let wishes = Wishes::default();
    let [one, two, three] = [1, 2, 3].map(|more| ((1_u64 << 60) + more).to_string());
    assert_eq!(
        label(&[&one, &one, &two], &wishes),
        Task::Binary {
            positive: Some(two.clone()),
            share: 0.333
        }
    );
    assert_eq!(
        label(&[&one, &three, &two], &wishes),
        Task::Classes {
            names: Some(vec![one, two, three]),
            count: 3
        }
    );
    let many = profile(&[
        ("label", &|row| ((1_u64 << 60) + row as u64).to_string()),
        ("x", &|row| (row % 7).to_string()),
    ]);
    let refused = Plan::make(&many, None, &wishes).expect_err("refused");
    for part in ["`label`", "1000 different", "1152921504606846976"] {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
}

#[test]
fn a_number_beside_missing_ones_is_not_divided_by_its_deviation_and_a_column_without_a_name_is_none()
 {
    let wishes = Wishes::default();
    let seven = |row: usize| {
        if row.is_multiple_of(3) {
            String::new()
        } else {
            "7".to_owned()
        }
    };
    let kind = made_of("x", &seven, &wishes).expect("a feature");
    assert!(
        matches!(
            kind,
            Kind::Numeric {
                scale: Scale::None,
                ..
            }
        ),
        "{kind:?}"
    );
    let why = made_of("", &|row| (row % 7).to_string(), &wishes).expect_err("no feature");
    assert!(why.contains("no name"), "{why}");
}

#[test]
fn boundaries_ascend_in_32_bits() {
    let names = ["label", "x"].map(str::to_owned);
    let mut profile = Profile::default();
    for row in 0..6000_usize {
        let single = (row as f32).sin();
        let cell = |value: Value| Cell {
            values: vec![value],
            list: false,
        };
        let label = Value::Int((row % 2) as i64);
        profile.see(&names, &[cell(label), cell(Value::Float(single.into()))]);
    }
    let plan = Plan::make(&profile, None, &Wishes::default()).expect("a plan");
    let Kind::Numeric {
        boundaries,
        bins,
        quantiles,
        ..
    } = &plan.features[0].kind
    else {
        panic!("{:?}", plan.features[0].kind);
    };
    for numbers in [boundaries, bins] {
        let singles: Vec<f32> = numbers.iter().map(|number| *number as f32).collect();
        assert!(singles.len() > 20 && singles.is_sorted_by(|one, next| one < next));
    }
    let numbers = &profile.column("x").expect("a column").numbers;
    for numbers_of_all in [bins, quantiles] {
        let ends = (numbers_of_all[0], numbers_of_all[numbers_of_all.len() - 1]);
        assert_eq!(ends, (numbers.min, numbers.max));
    }
    assert!(quantiles.len() == 101 && quantiles.is_sorted());
}

#[test]
fn a_column_by_which_no_latest_records_can_be_told_is_no_time_and_the_message_says_why() {
    let wishes = |time: &str| Wishes {
        time: Some(time.to_owned()),
        eval_share: 0.1,
        ..Wishes::default()
    };
    let latest = |row: usize| row.min(ROWS / 2).to_string();
    let texts = |row: usize| match row {
        7 => "yesterday".to_owned(),
        row => row.to_string(),
    };
    for (time, expected) in [
        ("y", "is the label"),
        ("equal", "the latest time, 7, is that of more than 10 %"),
        ("latest", "the latest time, 500, is that of more than 10 %"),
        (
            "texts",
            "1 of 1000 values are no numbers, such as `yesterday`",
        ),
        ("names", "holds no numbers"),
    ] {
        let found = profile(&[
            ("y", &|row| (row % 2).to_string()),
            ("x", &|row| (row % 7).to_string()),
            ("equal", &|_| "7".to_owned()),
            ("latest", &latest),
            ("texts", &texts),
            ("names", &|row| format!("n{}", row % 5)),
        ]);
        let refused = Plan::make(&found, None, &wishes(time)).expect_err("no time");
        assert!(
            refused.message.contains(expected),
            "{time}: {}",
            refused.message
        );
    }
    let found = profile(&[
        ("y", &|row| (row % 2).to_string()),
        ("x", &|row| (row % 7).to_string()),
        ("at", &|row| row.to_string()),
    ]);
    assert!(Plan::make(&found, None, &wishes("at")).is_ok());
}

#[test]
fn a_list_of_ids_and_the_column_that_shares_most_of_them_are_a_history_and_its_target() {
    let seen = |row: usize| {
        let ids = (0..1 + row % 4).map(|place| format!("i{}", (row * 7 + place * 3) % 40));
        ids.collect::<Vec<_>>().join("|")
    };
    let made = |item: &dyn Fn(usize) -> String| {
        plan(
            &[
                ("label", &|row| (row % 2).to_string()),
                ("seen", &seen),
                ("item", item),
                ("shop", &|row| format!("s{}", row % 30)),
                ("few", &|row| format!("i{}", row % 5)),
            ],
            &Wishes {
                shape: Some(Shape::Factorized),
                ..Wishes::default()
            },
        )
    };
    let with_item = made(&|row| format!("i{}", row % 50));
    let [found] = &with_item.histories[..] else {
        panic!("a history: {:?}", with_item.histories);
    };
    assert_eq!(
        (
            found.history.as_str(),
            found.target.as_str(),
            found.separator,
            found.ids_max
        ),
        ("seen", "item", '|', 4)
    );
    let kinds: Vec<String> = with_item
        .attending()
        .features
        .iter()
        .map(|feature| match &feature.kind {
            Kind::Attended {
                separator, table, ..
            } => format!("{} {table} {separator:?}", feature.column),
            _ => feature.column.clone(),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "seen item ids Some('|')",
            "item item ids None",
            "shop",
            "few"
        ]
    );
    // Other names, and names of which few records have one that a list has.
    for other in ["j", "k"] {
        let item = |row: usize| match row % 10 {
            0 => format!("i{}", row % 40),
            _ => format!("{other}{}", row % 50),
        };
        assert_eq!(made(&item).histories, []);
    }
}

#[test]
fn a_field_of_several_ids_is_a_feature_although_each_record_has_another_one_and_a_text_is_none() {
    let wishes = Wishes {
        shape: Some(Shape::Factorized),
        ..Wishes::default()
    };
    let history = |row: usize| {
        let id = |place: usize| format!("i{}", (row * (2 * place + 3) + row / 40 * place) % 61);
        (0..5).map(id).collect::<Vec<_>>().join("|")
    };
    let Ok(Kind::Vocabulary {
        values, separator, ..
    }) = made_of("seen", &history, &wishes)
    else {
        panic!("a vocabulary");
    };
    assert_eq!((values.len(), separator), (61, Some('|')));
    let text = |row: usize| format!("title {row}|about {}", row * 3 + 1);
    let why = made_of("text", &text, &wishes).expect_err("no feature");
    assert!(why.contains("each names its record"), "{why}");
}

#[test]
fn commas_stand_between_ids_where_the_same_few_come_in_lists_of_several_lengths() {
    let wishes = Wishes {
        shape: Some(Shape::Factorized),
        ..Wishes::default()
    };
    let separator_of = |value: &dyn Fn(usize) -> String| match made_of("c", value, &wishes) {
        Ok(Kind::Vocabulary { separator, .. } | Kind::Hashed { separator, .. }) => separator,
        _ => None,
    };
    let ids = |row: usize| {
        let id = |place: usize| ((row * (2 * place + 3) + row / 40 * place) % 61).to_string();
        (0..1 + row % 5).map(id).collect::<Vec<_>>().join(",")
    };
    assert_eq!(separator_of(&ids), Some(','));
    let others: [&dyn Fn(usize) -> String; 5] = [
        &|row| format!("[{}]", ids(row).replace(',', ", ")),
        // A name and a first name, places, numbers with thousands, and pairs.
        &|row| format!("Miller {},Ann{}", row % 7, ",Eve".repeat(row % 2)),
        &|row| format!("{},{}", row % 300, ["Rome", "Oslo,north"][row % 2]),
        &|row| format!("{},{:03}{}", 1 + row % 9, row % 400, ",000".repeat(row % 2)),
        &|row| format!("{},{}", row % 10, row / 10 % 10),
    ];
    for (place, value) in others.into_iter().enumerate() {
        assert_eq!(separator_of(value), None, "{place}: {}", value(3));
    }
}

#[test]
fn a_model_of_all_pairs_has_one_embedding_of_a_number_that_may_be_a_name_unless_it_has_no_other() {
    let id = |row: usize| (1000 * (row * 7 % 400)).to_string();
    let few = |row: usize| (row % 7).to_string();
    let embeddings = |columns: &[(&str, &dyn Fn(usize) -> String)]| {
        let wishes = Wishes {
            shape: Some(Shape::Factorized),
            ..Wishes::default()
        };
        let plan = plan(columns, &wishes);
        let of = |plan: &Plan| -> Vec<usize> {
            plan.features
                .iter()
                .map(|feature| feature.embeddings())
                .collect()
        };
        (of(&plan), of(&plan.multiplying()))
    };
    let label = |row: usize| (row % 2).to_string();
    let with_another = embeddings(&[("label", &label), ("number", &few), ("visitor", &id)]);
    assert_eq!(with_another, (vec![1, 2], vec![1, 1]));
    let alone = embeddings(&[("label", &label), ("visitor", &id)]);
    assert_eq!(alone, (vec![2], vec![2]));
}
