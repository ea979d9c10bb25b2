//! ESMM (Ma et al. 2018, "Entire Space Multi-Task Model: An Effective Approach for Estimating Post-Click Conversion Rate").
//!
//! Two towers over the same embeddings end in logits `a` of pCTR and `b` of pCVR. The tasks are pCTR and pCTCVR = pCTR pCVR
//! (equation 2), both over all records. The logit of pCTCVR is `a - softplus(softplus(a) - b)`, because
//! `1 / pCTCVR - 1 = e^-a + e^-b + e^(-a-b)`, so head and loss are those of any binary task.

use trainyard_run_config::Activation;

use super::Layer;
use super::builder::{Builder, Value};
use crate::Error;

pub(super) fn build(builder: &mut Builder<'_>) -> Result<Vec<Value>, Error> {
    let inputs = [builder.whole_input(); 2];
    let logits = builder.logits_of_tasks(&inputs);
    let click = builder.columns_of("esmm/click", logits, std::iter::once(0..1));
    let conversion = builder.columns_of("esmm/conversion", logits, std::iter::once(1..2));
    let softplus = Layer::Activation(Activation::Softplus);
    let inner = builder.add("esmm/softplus_of_click", softplus.clone(), &[click], 1);
    let inner = builder.add("esmm/inner", Layer::Difference, &[inner, conversion], 1);
    let outer = builder.add("esmm/softplus", softplus, &[inner], 1);
    let both = builder.add("esmm/both", Layer::Difference, &[click, outer], 1);
    Ok(vec![builder.concatenate("esmm/logits", &[click, both])])
}
