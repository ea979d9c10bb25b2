//! The request to prepare a server, as it is sent and logged.

use trainyard_checkpoint::{WarmStart, folder_name};
use trainyard_cluster_spec::{Role, Task};
use trainyard_parameter_store::Update;
use trainyard_protocol::{Reason, Refusal, convert, limits, v1};
use trainyard_variable::{Access, Layout, Partitioner, Placement, Slice};

use crate::Plan;
use crate::wire::{guard_from_wire, guard_to_wire, provenance_from_wire, provenance_to_wire};

/// Slices, by number.
pub type Slices = Vec<(u32, Slice)>;

fn bad(message: impl ToString) -> Refusal {
    Refusal::new(Reason::BadRequest, message.to_string())
}

/// Returns the request to prepare the server at `place` among the stores, without the identity of the caller. The checkpoint
/// is a name: the server looks for it in its own model directory.
pub fn prepare_request(plan: &Plan, place: usize) -> v1::PrepareRequest {
    let slices = plan.layout.of_ps(place);
    let update = plan.update_of(place);
    let (update, staleness_max) = match update {
        Update::Async => (v1::Update::Async, 0),
        Update::StaleSynchronous {
            staleness_steps_max,
        } => (v1::Update::StaleSynchronous, staleness_steps_max),
        Update::Sync => (v1::Update::Sync, 0),
    };
    v1::PrepareRequest {
        identity: None,
        seed: plan.seed,
        num_ps: plan.layout.num_ps as u32,
        variables: plan
            .variables
            .iter()
            .map(convert::variable_to_wire)
            .collect(),
        slices: slices
            .map(|(number, slice)| convert::slice_to_wire(number, slice))
            .collect(),
        optimizers: convert::optimizers_to_wire(&plan.optimizers),
        layout_fingerprint: plan.fingerprint,
        checkpoint: plan
            .checkpoint
            .as_ref()
            .map(|path| folder_name(path))
            .unwrap_or_default(),
        place: place as u32,
        counts_steps: place == 0,
        global_step_max: plan.global_step_max,
        update: update.into(),
        staleness_max,
        guard: Some(guard_to_wire(&plan.guard)),
        forget_positions: plan.forget_positions,
        settings: plan.settings,
        provenance: Some(provenance_to_wire(&plan.provenance)),
        warm_start: plan
            .warm_start
            .as_ref()
            .map(|start| start.path.to_string_lossy().into_owned())
            .unwrap_or_default(),
        warm_start_names: plan
            .warm_start
            .iter()
            .flat_map(|start| start.names.clone())
            .collect(),
    }
}

/// Converts a request to prepare server `index`: the plan, the place among the stores, and the slices.
///
/// # Errors
/// A variable, a slice or a rule is invalid, or the variables that are read whole do not fit a message.
pub fn plan_of(
    request: &v1::PrepareRequest,
    index: usize,
) -> Result<(Plan, usize, Slices), Refusal> {
    let update = match request.update() {
        v1::Update::Sync => Update::Sync,
        v1::Update::StaleSynchronous => Update::StaleSynchronous {
            staleness_steps_max: request.staleness_max,
        },
        v1::Update::Async | v1::Update::Unspecified => Update::Async,
    };
    let variables = convert::variables_from_wire(request.variables.clone()).map_err(bad)?;
    let slices = request
        .slices
        .iter()
        .map(|slice| convert::slice_from_wire(slice, &variables, index))
        .collect::<Result<Vec<_>, _>>()
        .map_err(bad)?;
    let whole: usize = slices
        .iter()
        .map(|(_, slice)| slice)
        .filter(|slice| variables[slice.variable].access == Access::Whole)
        .map(|slice| slice.len() * 4)
        .sum();
    if whole > limits::TENSOR_MESSAGE_BYTES_MAX {
        let message = format!(
            "variables read whole at {} hold {whole} bytes, a message at most {}: use more parameter servers",
            Task {
                role: Role::Ps,
                index
            },
            limits::TENSOR_MESSAGE_BYTES_MAX
        );
        return Err(Refusal::new(Reason::TooLarge, message));
    }
    let plan = Plan {
        // The request names the slices one by one, so the server needs no layout.
        layout: Layout::new(
            &[],
            Partitioner::Fixed { num_shards: 1 },
            Placement::Greedy,
            request.num_ps as usize,
        ),
        variables,
        fingerprint: request.layout_fingerprint,
        optimizers: convert::optimizers_from_wire(request.optimizers.clone()).map_err(bad)?,
        seed: request.seed,
        global_step_max: request.global_step_max,
        update,
        guard: guard_from_wire(request.guard),
        hybrid: false,
        settings: request.settings,
        provenance: provenance_from_wire(request.provenance.as_ref()),
        forget_positions: request.forget_positions,
        checkpoint: (!request.checkpoint.is_empty()).then(|| request.checkpoint.clone().into()),
        warm_start: (!request.warm_start.is_empty()).then(|| WarmStart {
            path: request.warm_start.clone().into(),
            names: request.warm_start_names.clone().into_iter().collect(),
        }),
    };
    Ok((plan, request.place as usize, slices))
}

#[cfg(test)]
mod tests {
    use trainyard_optimizer::OptimizerConfig;
    use trainyard_parameter_store::{Guard, Nonfinite};
    use trainyard_variable::{Initializer, VariableSpec};

    use super::*;
    use crate::Provenance;

    fn plan() -> Plan {
        let variables = vec![VariableSpec {
            name: "table".into(),
            shape: vec![9, 2],
            access: Access::Rows,
            initializer: Initializer::Zeros,
            optimizer_group: "all".into(),
        }];
        let partitioner = Partitioner::Fixed { num_shards: 2 };
        let layout = Layout::new(&variables, partitioner, Placement::RoundRobin, 2);
        Plan {
            fingerprint: layout.fingerprint(&variables),
            variables,
            layout,
            optimizers: [("all".to_owned(), OptimizerConfig::sgd(0.5))].into(),
            seed: 3,
            global_step_max: 40,
            update: Update::StaleSynchronous {
                staleness_steps_max: 5,
            },
            guard: Guard {
                nonfinite: Nonfinite::Halt,
                max_norm: Some(6.0),
                max_abs: Some(7.0),
            },
            hybrid: false,
            checkpoint: Some("model/model.ckpt-8".into()),
            warm_start: Some(WarmStart {
                path: "other".into(),
                names: [("table".to_owned(), "embedding".to_owned())].into(),
            }),
            settings: 9,
            provenance: Provenance {
                input: "rows 7".into(),
                job: vec!["train.max_steps = 40".into()],
            },
            forget_positions: true,
        }
    }

    #[test]
    fn a_server_reads_from_the_request_what_the_chief_has_planned_for_it() {
        let plan = plan();
        let request = prepare_request(&plan, 1);
        let (read, place, slices) = plan_of(&request, 1).expect("it is valid");
        let own: Slices = plan
            .layout
            .of_ps(1)
            .map(|(number, slice)| (number as u32, slice.clone()))
            .collect();
        assert_eq!((place, own.len()), (1, 1));
        assert_eq!(slices, own);
        // A request names the slices of one server, so the rest of the layout is not read from it.
        let again = v1::PrepareRequest {
            slices: request.slices.clone(),
            ..prepare_request(&read, 1)
        };
        assert_eq!(again, request);
        assert_eq!(read.variables, plan.variables);
    }

    #[test]
    fn variables_that_no_message_can_hold_are_refused_with_the_server_and_the_bound() {
        let mut plan = plan();
        let rows = limits::TENSOR_MESSAGE_BYTES_MAX / 8 + 1;
        plan.variables[0].shape = vec![rows, 2];
        plan.variables[0].access = Access::Whole;
        let partitioner = Partitioner::Fixed { num_shards: 1 };
        plan.layout = Layout::new(&plan.variables, partitioner, Placement::RoundRobin, 1);
        let refusal = plan_of(&prepare_request(&plan, 0), 0).expect_err("it is too large");
        assert_eq!(refusal.reason, Reason::TooLarge);
        let message = refusal.message;
        let bytes = format!("{} bytes", rows * 8);
        assert!(
            message.contains("ps:0") && message.contains(&bytes),
            "{message}"
        );
    }
}
