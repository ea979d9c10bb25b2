//! Gradients compared with finite differences of the loss.

use trainyard_model::Model;
use trainyard_variable::{MOVING_AVERAGE, Values};

/// Step of the finite differences.
const STEP: f32 = 1e-2;
/// Absolute error of a difference, caused by rounding the loss to f32.
const ABSOLUTE: f64 = 1e-4;
/// Relative tolerance for rounding of the gradient and for the fifth derivative.
const RELATIVE: f64 = 5e-3;
/// Size above which a gradient is telling: an error in it (zero, another sign, a missing factor) would be noticed.
const TELLING: f64 = 10.0 * ABSOLUTE;

/// Compares the gradient of every value with the difference quotient of its loss. The loss should be a sum over the
/// rows: a mean has smaller gradients with the same rounding. Half of all gradients must be telling, and a quarter of
/// those of each variable.
pub(crate) fn agree_with_finite_differences<M: Model>(
    what: &str,
    model: &M,
    features: &M::Features,
    values: &mut Values,
) {
    let mut gradients = Vec::new();
    let mut scratch = Default::default();
    model
        .train(features, values, &mut gradients, &mut scratch)
        .expect("a loss");
    let mut unused = Vec::new();
    let mut telling_of_all = 0;
    let mut all = 0;
    for (variable, spec) in model.variables().iter().enumerate() {
        if spec.optimizer_group == MOVING_AVERAGE {
            continue;
        }
        let mut telling = 0;
        for place in 0..values[variable].len() {
            let before = values[variable][place];
            let mut loss_at = |steps: f32| {
                values[variable][place] = before + steps * STEP;
                model
                    .train(features, values, &mut unused, &mut scratch)
                    .expect("a loss")
                    .loss
            };
            // The difference quotient with an error of fourth order in the step (Fornberg 1988, table 1).
            let near = loss_at(1.0) - loss_at(-1.0);
            let far = loss_at(2.0) - loss_at(-2.0);
            let numeric = (8.0 * near - far) / (12.0 * f64::from(STEP));
            values[variable][place] = before;
            let given = f64::from(gradients[variable][place]);
            assert!(
                (numeric - given).abs() <= ABSOLUTE + RELATIVE * numeric.abs(),
                "{what}: gradient of {}[{place}] is {given}, its difference quotient {numeric}",
                spec.name
            );
            telling += usize::from(numeric.abs() > TELLING);
        }
        let count = values[variable].len();
        assert!(
            count > 0,
            "{what}: the batch reads nothing of {}",
            spec.name
        );
        assert!(
            4 * telling >= count,
            "{what}: only {telling} of {count} gradients of {} tell",
            spec.name
        );
        (telling_of_all, all) = (telling_of_all + telling, all + count);
    }
    assert!(
        2 * telling_of_all >= all,
        "{what}: only {telling_of_all} of {all} gradients tell"
    );
    println!("{what}: {telling_of_all} of {all} gradients tell");
}
