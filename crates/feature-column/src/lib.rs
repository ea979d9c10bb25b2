//! Feature columns: from a batch of records to ids and numbers.
//!
//! One file per kind of column. What comes out is ready for arithmetic: numbers normalised, texts hashed, ids
//! deduplicated once per batch and shared by everything that looks them up.

mod bucketized;
mod categorical;
mod columns;
mod crossed;
mod error;
mod fingerprint;
mod hashed;
mod identity;
mod ids;
mod numeric;
mod pool;
mod unique;
mod vocabulary;

pub use categorical::Categorical;
pub use columns::{FeatureColumns, Features, SharedTable};
pub use crossed::{CROSS_HASH_KEY, fingerprint_concatenate};
pub use error::Error;
pub use fingerprint::fingerprint64;
pub use ids::Ids;
pub use numeric::Numeric;
