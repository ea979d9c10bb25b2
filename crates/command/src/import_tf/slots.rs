//! TensorFlow's names of optimizer slots in a checkpoint.

use trainyard_optimizer::OptimizerConfig;
use trainyard_tensorflow_formats::tensor_bundle::Bundle;

/// Returns the possible names of a slot: first those of v1 optimizers (`<variable>/Ftrl`, `<variable>/Ftrl_1`), then
/// those of Keras (`training/Ftrl/<variable>/accumulator`).
pub(super) fn names(
    bundle: &Bundle,
    rule: &OptimizerConfig,
    slot: &str,
    variable: &str,
) -> Vec<String> {
    let (class, order): (&str, &[&str]) = match rule {
        OptimizerConfig::Sgd(_) | OptimizerConfig::ProximalSgd(_) => return Vec::new(),
        OptimizerConfig::Momentum(_) | OptimizerConfig::KerasMomentum(_) => {
            ("Momentum", &["momentum"])
        }
        OptimizerConfig::Adagrad(_) => ("Adagrad", &["accumulator"]),
        OptimizerConfig::AdagradDa(_) => (
            "AdagradDA",
            &["gradient_accumulator", "gradient_squared_accumulator"],
        ),
        OptimizerConfig::Adadelta(_) => ("Adadelta", &["accum", "accum_update"]),
        OptimizerConfig::Adam(_) => ("Adam", &["m", "v", "vhat"]),
        OptimizerConfig::RmsProp(rule) if rule.centered => ("RMSProp", &["rms", "mg", "momentum"]),
        OptimizerConfig::RmsProp(_) | OptimizerConfig::KerasRmsProp(_) => {
            ("RMSProp", &["rms", "momentum"])
        }
        OptimizerConfig::Ftrl(_) => ("Ftrl", &["accum", "linear"]),
        OptimizerConfig::ProximalAdagrad(_) => ("ProximalAdagrad", &["accumulator"]),
    };
    let mut out = Vec::new();
    if let Some(nth) = order.iter().position(|known| *known == slot) {
        let class = if nth == 0 {
            class.to_owned()
        } else {
            format!("{class}_{nth}")
        };
        let plain = format!("{variable}/{class}");
        // An estimator with a single part puts its scope before the name: `dnn/dnn/logits/bias/Adagrad`.
        let scoped = format!("/{plain}");
        let scoped = bundle
            .tensors()
            .map(|tensor| &tensor.name)
            .filter(|name| name.ends_with(&scoped));
        out.push(plain);
        out.extend(scoped.cloned());
    }
    let keras = if slot == "accum" { "accumulator" } else { slot };
    let ending = format!("/{variable}/{keras}");
    let trained = |name: &&String| name.starts_with("training/") && name.ends_with(&ending);
    out.extend(
        bundle
            .tensors()
            .map(|tensor| &tensor.name)
            .filter(trained)
            .cloned(),
    );
    out
}
