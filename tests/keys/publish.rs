//! Rows of `[publish]`.

use crate::keys::row::{Row, row};
use crate::keys::see::files;
use crate::keys::site::UP_ALONE;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row("publish.every_secs")
            .by(UP_ALONE)
            .to("1")
            .sees(|ran| {
                let is_cut = |name: &String| name.starts_with("model/publish/base-");
                files(ran).iter().any(is_cut).to_string()
            })
            .gives("false", "true"),
    ]
}
