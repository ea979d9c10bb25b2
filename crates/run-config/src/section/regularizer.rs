//! Penalties of parameters.

use trainyard_diagnostic::{Bound, Section, Takes, section};

use crate::Regularizer;

section! {
    /// Keys of a regularizer (`tf.keras.regularizers.L1L2`).
    #[derive(Debug)]
    pub(crate) struct RegularizerKeys {
        /// factor of the sum of the absolute values
        l1: f32 = single(Bound::NotNegative).or(0.0);
        /// factor of the sum of the squares
        l2: f32 = single(Bound::NotNegative).or(0.0);
    }
}

pub(crate) fn takes_regularizer() -> Takes {
    Takes::Table(RegularizerKeys::keys())
}

pub(crate) fn read_regularizer(section: &Section<'_>, key: &'static str) -> Option<Regularizer> {
    let section = section.section(key)?;
    let keys = RegularizerKeys::read_keys(&section);
    section.finish();
    let RegularizerKeys { l1, l2 } = keys?;
    Some(Regularizer { l1, l2 })
}
