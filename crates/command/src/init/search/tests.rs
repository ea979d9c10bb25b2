//! The search for a model, with given results and without training.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn rules() -> Candidate {
    Candidate {
        shape: Shape::Factorized,
        design: Design::of(Family::DeepFm),
        readings: Vec::new(),
    }
}

fn space(rules: Candidate, doubts: Vec<Doubt>) -> Space {
    Space {
        has_histories: false,
        rules,
        factorized: true,
        samples_a_part: false,
        further_kinds: false,
        one_logit: true,
        has_numbers: false,
        doubts,
    }
}

fn search(doubts: Vec<Doubt>) -> Search {
    let space = space(rules(), doubts);
    Search::new(space, Metric::Auc, 0.02, 30 * SECOND)
}

fn measured(value: f64) -> Result<Measured, Failure> {
    Ok(Measured {
        value,
        beside: None,
        is_cut: false,
        is_learning: false,
    })
}

/// Runs a search to its end, with the outcome of each candidate and time for all.
fn run(
    search: &mut Search,
    outcome: impl Fn(&Candidate) -> Result<Measured, Failure>,
) -> Vec<Candidate> {
    let mut tried = Vec::new();
    while let Some((candidate, _)) = search.next(30 * SECOND) {
        tried.push(candidate.clone());
        let outcome = outcome(&candidate);
        search.record(Trial {
            candidate,
            outcome,
            seconds: 1.0,
        });
    }
    tried
}

fn best(search: &Search) -> &Candidate {
    &search.best().expect("a winner").candidate
}

#[test]
fn the_rules_and_a_linear_model_come_first_and_the_rules_win_what_is_even() {
    let mut search = search(Vec::new());
    let tried = run(&mut search, |candidate| {
        measured(if *candidate == rules() { 0.7 } else { 0.709 })
    });
    assert_eq!(tried[0], rules());
    assert_eq!(tried[1].design.family, Family::Linear);
    assert_eq!(best(&search), &rules());
    assert!(!search.is_cut());
    let mut seen = Vec::new();
    for candidate in tried {
        assert!(!seen.contains(&candidate), "{candidate:?} twice");
        seen.push(candidate);
    }
}

#[test]
fn what_comes_later_is_tried_on_the_best_kind() {
    let mut search = search(Vec::new());
    let tried = run(&mut search, |candidate| {
        let Design {
            family,
            penalty,
            learning_rate,
            dimension,
            ..
        } = candidate.design;
        let mut value = 0.6;
        if family == Family::Fm && penalty > 0.0 {
            value += 0.1;
        }
        if learning_rate == 0.01 {
            value += 0.02;
        }
        if dimension == 32 {
            value += 0.02;
        }
        measured(value)
    });
    let expected = Design {
        penalty: PENALTY,
        learning_rate: 0.01,
        dimension: 32,
        ..Design::of(Family::Fm)
    };
    assert_eq!(best(&search).design, expected);
    let kinds = 8;
    assert!(
        tried[kinds..]
            .iter()
            .all(|candidate| candidate.design.family == Family::Fm)
    );
}

#[test]
fn encodings_of_numbers_are_tried_where_there_are_numbers_and_kept_only_if_they_are_better() {
    let with_numbers = |has_numbers: bool, gain: f64| {
        let space = Space {
            has_numbers,
            ..space(rules(), Vec::new())
        };
        let mut search = Search::new(space, Metric::Auc, 0.02, 30 * SECOND);
        let tried = run(&mut search, |candidate| {
            measured(match candidate.design.numbers {
                NumberEncoding::PiecewiseLinear => 0.7 + gain,
                _ => 0.7,
            })
        });
        let encodings = tried.iter().filter(|candidate| {
            candidate.design.numbers != NumberEncoding::Scaled
                && candidate.design.dimension == DIMENSION
        });
        (encodings.count(), best(&search).design.numbers)
    };
    assert_eq!(with_numbers(false, 0.1), (0, NumberEncoding::Scaled));
    assert_eq!(with_numbers(true, 0.005), (2, NumberEncoding::Scaled));
    let (tried, kept) = with_numbers(true, 0.1);
    assert_eq!((tried, kept), (2, NumberEncoding::PiecewiseLinear));
}

#[test]
fn attention_is_tried_where_there_are_histories_and_nowhere_else() {
    for has_histories in [false, true] {
        let space = Space {
            has_histories,
            ..space(rules(), Vec::new())
        };
        let mut search = Search::new(space, Metric::Auc, 0.02, 30 * SECOND);
        let tried = run(&mut search, |candidate| {
            measured(match candidate.design.family {
                Family::Din => 0.9,
                _ => 0.7,
            })
        });
        let is_tried = |family: Family| tried.iter().any(|tried| tried.design.family == family);
        assert_eq!(is_tried(Family::Din), has_histories);
        assert_eq!(best(&search).design.family == Family::Din, has_histories);
    }
}

#[test]
fn further_kinds_come_last_with_what_the_best_has_and_only_where_there_is_time() {
    let with_further = |further_kinds: bool| {
        let space = Space {
            further_kinds,
            ..space(rules(), Vec::new())
        };
        Search::new(space, Metric::Auc, 0.02, 90 * SECOND)
    };
    let outcome = |candidate: &Candidate| {
        let Design {
            family, dimension, ..
        } = candidate.design;
        let of_dimension = if dimension == 32 { 0.05 } else { 0.0 };
        let of_family = if family == Family::MaskNet { 0.05 } else { 0.0 };
        measured(0.6 + of_dimension + of_family)
    };
    let mut search = with_further(true);
    let tried = run(&mut search, outcome);
    let last: Vec<Family> = tried[tried.len() - 2..]
        .iter()
        .map(|candidate| candidate.design.family)
        .collect();
    assert_eq!(last, [Family::FinalMlp, Family::MaskNet]);
    let expected = Design {
        dimension: 32,
        ..Design::of(Family::MaskNet)
    };
    assert_eq!(best(&search).design, expected);
    let mut usual = with_further(false);
    let without = run(&mut usual, outcome);
    assert_eq!(without, tried[..tried.len() - 2], "the same search before");
}

#[test]
fn doubtful_columns_are_read_in_one_way_together_and_then_each_by_itself() {
    let doubt = |column: &str| Doubt {
        column: column.to_owned(),
        others: vec![Reading::Number, Reading::Name],
    };
    let mut search = search(vec![doubt("a"), doubt("b")]);
    run(&mut search, |candidate| {
        let is = |column: &str, reading| {
            let wanted = (column.to_owned(), reading);
            f64::from(candidate.readings.contains(&wanted))
        };
        measured(0.6 + 0.1 * is("a", Reading::Name) + 0.05 * is("b", Reading::Number))
    });
    let expected = [
        ("a".to_owned(), Reading::Name),
        ("b".to_owned(), Reading::Number),
    ];
    let mut readings = best(&search).readings.clone();
    readings.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(readings, expected);
}

#[test]
fn a_candidate_that_fails_is_a_row_and_ends_nothing() {
    let mut search = search(Vec::new());
    run(&mut search, |candidate| match candidate.design.family {
        Family::Linear => measured(0.6),
        _ => Err(Failure::Problem("it has failed".to_owned())),
    });
    assert_eq!(best(&search).design.family, Family::Linear);
    let failure = Failure::Problem("it has failed".to_owned());
    assert_eq!(search.trials()[0].outcome, Err(failure.clone()));
    let mut search = self::search(Vec::new());
    let tried = run(&mut search, |_| Err(failure.clone()));
    assert!(search.best().is_none());
    assert_eq!(tried.len(), 8, "nothing is varied of no winner");
}

#[test]
fn a_lower_loss_is_better() {
    let wide_and_deep = Candidate {
        shape: Shape::WideAndDeep,
        design: Design::of(Family::WideAndDeep),
        readings: Vec::new(),
    };
    let space = space(wide_and_deep, Vec::new());
    let mut search = Search::new(space, Metric::Loss, 0.02, 30 * SECOND);
    run(&mut search, |candidate| {
        measured(match (candidate.shape, candidate.design.family) {
            (Shape::Factorized, Family::Fm) if candidate.design.penalty > 0.0 => 0.5,
            _ => 1.0,
        })
    });
    assert_eq!(best(&search).design.family, Family::Fm);
    assert!(search.is_better_than_constant(0.4, 0.5));
}

#[test]
fn nothing_is_tried_after_a_model_that_makes_no_mistake() {
    let mut search = search(Vec::new());
    let tried = run(&mut search, |_| measured(0.999));
    assert_eq!(tried.len(), 2, "the rules and a linear model");
    assert_eq!(best(&search), &rules());
    assert!(!search.is_cut());
}

#[test]
fn what_the_sample_or_the_time_does_not_show_is_replaced_only_by_what_is_far_ahead() {
    let wins = |space: Space, family: Family, end: (bool, bool), ahead: f64| {
        let (is_cut, is_learning) = end;
        let mut search = Search::new(space, Metric::Auc, 0.01, 30 * SECOND);
        run(&mut search, |candidate| {
            let is_ahead = candidate.design.family == family;
            Ok(Measured {
                value: if is_ahead { 0.6 + ahead } else { 0.6 },
                beside: None,
                is_cut: is_cut && *candidate == rules(),
                is_learning: is_learning && *candidate == rules(),
            })
        });
        best(&search).design.family == family
    };
    let whole = || space(rules(), Vec::new());
    let [ended, cut, learning] = [(false, false), (true, false), (true, true)];
    let linear_wins = |space: Space, end, ahead| wins(space, Family::Linear, end, ahead);
    assert!(linear_wins(whole(), ended, 0.05));
    assert!(!linear_wins(whole(), cut, 0.05) && linear_wins(whole(), cut, 0.15));
    assert!(
        !linear_wins(whole(), learning, 0.3),
        "the other model holds it"
    );
    assert!(wins(whole(), Family::Fm, learning, 0.15));
    let part = || Space {
        samples_a_part: true,
        ..whole()
    };
    assert!(!linear_wins(part(), ended, 0.05) && linear_wins(part(), ended, 0.15));
    assert!(!wins(part(), Family::Fm, learning, 0.3));
    for end in [ended, cut, learning] {
        for space in [part(), whole()] {
            if (end, space.samples_a_part) != (ended, false) {
                assert!(!wins(space.clone(), Family::Dlrm, end, 0.02), "{end:?}");
            }
            assert!(
                wins(space, Family::Dlrm, end, 0.04),
                "{end:?}: layers as well"
            );
        }
    }
}

#[test]
fn the_rules_win_where_time_ended_their_candidate_before_its_first_evaluation() {
    let mut search = search(Vec::new());
    run(&mut search, |candidate| {
        if *candidate == rules() {
            Err(Failure::Time)
        } else {
            measured(0.9)
        }
    });
    assert!(search.best().is_none() && search.lacks_rules());
}

#[test]
fn a_label_of_several_logits_has_no_factorization_machine() {
    let space = Space {
        one_logit: false,
        ..space(rules(), Vec::new())
    };
    let families: Vec<Family> = kinds(&space)[1..]
        .iter()
        .map(|candidate| candidate.design.family)
        .collect();
    assert_eq!(
        families,
        [
            Family::Linear,
            Family::Dlrm,
            Family::Dcn,
            Family::WideAndDeep
        ]
    );
}

#[test]
fn an_area_that_is_the_best_of_many_by_chance_is_not_better_than_a_constant() {
    let search = search(Vec::new());
    assert!(!search.is_better_than_constant(0.57, 0.5));
    assert!(search.is_better_than_constant(0.59, 0.5));
}

#[test]
fn candidates_share_the_time_and_the_search_ends_when_none_is_left() {
    let mut search = search(Vec::new());
    let (first, most) = search.next(30 * SECOND).expect("a candidate");
    let even = 30.0 * (1.0 - LATER_SHARE) / 8.0;
    assert!(
        (most.as_secs_f64() - SHARES_OF_FIRST * even).abs() < 1e-6,
        "{most:?}"
    );
    search.record(Trial {
        candidate: first,
        outcome: measured(0.7),
        seconds: 29.0,
    });
    let (second, most) = search.next(SECOND).expect("a candidate");
    assert_eq!(most, LEAST_TIME);
    search.record(Trial {
        candidate: second,
        outcome: measured(0.6),
        seconds: 0.9,
    });
    assert_eq!(search.next(SECOND / 10), None);
    assert!(search.is_cut());
    assert_eq!(best(&search), &rules());
}

#[test]
fn finalists_are_the_winner_and_other_kinds_with_layers_that_are_near_it() {
    let of = |value_of: &dyn Fn(&Candidate) -> f64| {
        let mut search = search(Vec::new());
        run(&mut search, |candidate| measured(value_of(candidate)));
        let finalists = search.finalists();
        let families: Vec<Family> = finalists.iter().map(|found| found.design.family).collect();
        (families, finalists)
    };
    // A deviation is 0.02.
    let (families, finalists) = of(&|candidate| match candidate.design.family {
        Family::DeepFm => 0.75,
        Family::Dlrm => 0.74,
        Family::WideAndDeep => 0.73,
        Family::Dcn => 0.72,
        Family::Linear | Family::Fm => 0.75,
        _ => 0.5,
    });
    assert_eq!(
        families,
        [Family::DeepFm, Family::Dlrm, Family::WideAndDeep]
    );
    assert_eq!(finalists[0], rules());
    let (families, _) = of(&|candidate| match candidate.design.family {
        Family::Dlrm => 0.8,
        Family::Dcn => 0.61,
        _ => 0.59,
    });
    assert_eq!(
        families,
        [Family::Dlrm, Family::Dcn],
        "the others are far behind"
    );
    let failure = Failure::Problem("it has failed".to_owned());
    let mut none = search(Vec::new());
    run(&mut none, |_| Err(failure.clone()));
    assert!(none.finalists().is_empty());
}

#[test]
fn among_finalists_the_winner_comes_first_and_stays_unless_another_is_ahead_by_more_than_chance() {
    let doubt = Doubt {
        column: "a".to_owned(),
        others: vec![Reading::Number, Reading::Name],
    };
    let doubts = vec![
        doubt.clone(),
        Doubt {
            column: "b".to_owned(),
            ..doubt
        },
    ];
    let finalists = [Family::DeepFm, Family::Dlrm].map(|family| Candidate {
        design: Design::of(family),
        ..rules()
    });
    let chosen = |of_dlrm: f64, of_names: f64| {
        let space = Space {
            samples_a_part: true,
            further_kinds: true,
            has_numbers: true,
            ..space(rules(), doubts.clone())
        };
        let mut search = Search::among(finalists.to_vec(), space, Metric::Auc, 0.01, 60 * SECOND);
        let tried = run(&mut search, |candidate| {
            let of_family = if candidate.design.family == Family::Dlrm {
                of_dlrm
            } else {
                0.0
            };
            let are_names = candidate
                .readings
                .iter()
                .any(|(_, way)| *way == Reading::Name);
            measured(0.65 + of_family + if are_names { of_names } else { 0.0 })
        });
        let best = best(&search);
        let of_best = (best.design.family, best.readings.len());
        (tried, of_best)
    };
    let (tried, best) = chosen(0.05, 0.05);
    assert_eq!(
        tried[..2],
        finalists,
        "the winner of the first search, then the others"
    );
    let later: Vec<Family> = tried[2..].iter().map(|tried| tried.design.family).collect();
    assert_eq!(
        later,
        [Family::Dlrm; 2],
        "readings of the best, and nothing else"
    );
    assert_eq!(best, (Family::Dlrm, 2));
    let (_, best) = chosen(0.02, 0.02);
    assert_eq!(best, (Family::DeepFm, 0), "two deviations are chance");
}

#[test]
fn a_winner_that_knows_no_more_than_a_constant_gives_way_to_a_model_that_does() {
    let of = |fm: f64, rules: f64| {
        let space = Space {
            samples_a_part: true,
            ..space(self::rules(), Vec::new())
        };
        let mut search = Search::new(space, Metric::Auc, 0.005, 30 * SECOND);
        run(&mut search, |candidate| {
            measured(match candidate.design.family {
                Family::Fm if candidate.design.penalty > 0.0 => fm,
                _ => rules,
            })
        });
        let chosen = search.chosen(0.5).expect("a trial");
        (best(&search).design.family, chosen.candidate.design.family)
    };
    assert_eq!(of(0.54, 0.51), (Family::DeepFm, Family::Fm));
    // It knows something: what it may make of more data counts.
    assert_eq!(of(0.56, 0.53), (Family::DeepFm, Family::DeepFm));
    assert_eq!(of(0.51, 0.505), (Family::DeepFm, Family::DeepFm));
}
