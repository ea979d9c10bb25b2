//! Rows of `[parameter_servers]` and `[parameter_servers.guard]`.

use crate::keys::row::{Row, row};
use crate::keys::see::{count, files, has_checkpoint_between};
use crate::keys::site::UP_ALONE;

/// A regression of numbers of which some have gradients that are not finite: 5 batches of the 10 of a pass.
const POISONED: [(&str, &str); 6] = [
    ("model", "{ kind = \"linear_regressor\" }"),
    ("feature", "[{ column = \"x\", kind = \"numeric\" }]"),
    ("input.train.files", "[\"{data}/poisoned.csv\"]"),
    ("input.train.batch_size", "8"),
    ("input.train.epochs", "1"),
    ("input.eval", "-"),
];

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = of_servers();
    rows.extend(of_the_guard());
    rows
}

fn of_servers() -> Vec<Row> {
    let logs = |row: Row| {
        row.by(UP_ALONE).sees(|ran| {
            files(ran)
                .iter()
                .any(|name| name.starts_with("model/wal"))
                .to_string()
        })
    };
    // Each push is 360 kB.
    let large = [
        ("model.hidden_units", "[300, 300]"),
        ("input.train.epochs", "15"),
        ("input.eval", "-"),
    ];
    vec![
        logs(row("parameter_servers.durability"))
            .to("\"none\"")
            .gives("true", "false"),
        row("parameter_servers.durability")
            .by(UP_ALONE)
            .to("\"replica\"")
            .fails("error[E1006"),
        row("parameter_servers.shared_memory_bytes_max")
            .by(UP_ALONE)
            .to("0")
            // A server that ends leaves nothing in shared memory.
            .sees(|ran| count(ran, "shared_memory_bytes_max=0"))
            .gives("0", "1"),
        row("parameter_servers.log_bytes_max")
            .by(UP_ALONE)
            .over(&large)
            .to("1_048_576")
            .sees(has_checkpoint_between)
            .gives("false", "true"),
        row("parameter_servers.memory_bytes_max")
            .by(UP_ALONE)
            .over(&[("feature.1.buckets", "300_000"), ("input.eval", "-")])
            .to("1_048_576")
            .fails("error[E3009"),
    ]
}

fn of_the_guard() -> Vec<Row> {
    let guard = |key: &str| row(format!("parameter_servers.guard.{key}")).over(&POISONED);
    let good = [("input.train.files", "[\"{data}/numbers.csv\"]")];
    let endless = [("input.train.epochs", "-"), ("train.max_steps", "3000")];
    vec![
        guard("nonfinite")
            .to("\"zero\"")
            .sees(|ran| {
                let rejected = count(ran, "batch rejected");
                let zeroed = count(ran, "gradients were set to 0");
                format!("rejected: {rejected}, zeroed: {zeroed}")
            })
            .gives("rejected: 5, zeroed: 0", "rejected: 0, zeroed: 5"),
        guard("nonfinite").to("\"halt\"").fails("error[E5001"),
        // Each batch is rejected.
        guard("max_norm")
            .over(&good)
            .to("0.0001")
            .fails("reason=\"max_norm\""),
        guard("max_abs")
            .over(&good)
            .to("0.0001")
            .fails("reason=\"max_abs\""),
        // Half of the batches are rejected: 32 of the latest 64.
        guard("quarantine_after")
            .over(&endless)
            .to("64")
            .fails_before("error[E5001"),
    ]
}
