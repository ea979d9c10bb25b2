//! Steps over several stores in one process.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::sync::Barrier;
use trainyard_cluster_spec::{Role, Task};
use trainyard_optimizer::OptimizerConfig;
use trainyard_parameter_server::{LocalServer, Plan, Provenance};
use trainyard_parameter_store::Update;
use trainyard_protocol::{Reason, Refusal};
use trainyard_variable::{Access, Initializer, Partitioner, Placement, VariableSpec};

use super::*;
use crate::retry_over_faults_of_files;

fn identity(role: Role, session: u64) -> Identity {
    let task = Task { role, index: 0 };
    Identity {
        cluster_id: 7,
        epoch: 1,
        task,
        incarnation: 1,
        session,
    }
}

/// Starts three servers. The first two hold a table of two columns; the third holds nothing.
async fn serve(folder: &std::path::Path, update: Update) -> (Vec<Arc<dyn ServerClient>>, Plan) {
    std::fs::write(folder.join("cluster_id"), format!("{:032x}", 7)).expect("a cluster id");
    let spec = VariableSpec {
        name: "table".into(),
        shape: vec![4, 2],
        access: Access::Rows,
        initializer: Initializer::Zeros,
        optimizer_group: "all".into(),
    };
    let variables = vec![spec];
    let partitioner = Partitioner::Fixed { num_shards: 2 };
    let layout = Layout::new(&variables, partitioner, Placement::RoundRobin, 3);
    let plan = Plan {
        fingerprint: layout.fingerprint(&variables),
        variables,
        layout,
        optimizers: [("all".to_owned(), OptimizerConfig::sgd(1.0))].into(),
        seed: 0,
        global_step_max: 0,
        guard: trainyard_parameter_store::Guard::default(),
        update,
        hybrid: false,
        checkpoint: None,
        warm_start: None,
        settings: 0,
        provenance: Provenance::default(),
        forget_positions: false,
    };
    let mut shards = Vec::new();
    for ps in 0..3 {
        let shard: Arc<dyn ServerClient> = Arc::new(LocalServer::new(ps, 3, 1, 0));
        let chief = identity(Role::Chief, 0);
        shard.claim(chief, 0, folder).await.expect("claimed");
        shard.prepare(chief, &plan).await.expect("prepared");
        shard.open(chief).await.expect("open");
        shards.push(shard);
    }
    (shards, plan)
}

async fn join(
    shards: &[Arc<dyn ServerClient>],
    plan: &Plan,
    worker: Identity,
) -> (Parameters, Opened) {
    let layout = Arc::new(plan.layout.clone());
    let deadline = Duration::from_secs(5);
    let opened = Parameters::open(
        shards.to_vec(),
        layout,
        worker,
        OpenParameters {
            latest: SequenceNumbers::default(),
            layout_fingerprint: plan.fingerprint,
            data_shard: 0,
        },
        deadline,
    )
    .await;
    opened.expect("a session")
}

async fn open(folder: &std::path::Path) -> Parameters {
    let (shards, plan) = serve(folder, Update::Async).await;
    join(&shards, &plan, identity(Role::Worker, 1)).await.0
}

/// Pulls all rows at a version.
async fn pull_at(parameters: &mut Parameters, version: u64) -> PulledStep {
    let step = parameters
        .plan(&vec![Read::Rows((0..4).collect::<Vec<u32>>().into())])
        .at(StepNumber::new(version));
    let returned = parameters
        .call(None, Some((step, CachedParameters::default())))
        .await
        .expect("an answer");
    returned.pulled.expect("a pull")
}

fn part(pulled: PulledStep, version: u64, lane: u32) -> Push {
    let batch = BatchId {
        pass: 0,
        shard: 0,
        batch: 2 * version + u64::from(lane),
    };
    let gradients = vec![
        (0..8)
            .map(|place| -((lane + 1) as f32) - place as f32)
            .collect(),
    ];
    Push {
        step: pulled.step,
        batch,
        batches: 1,
        micro_batch: Some(MicroBatch { lane, lanes: 2 }),
        optimizer_step: None,
        stores: None,
        gradients,
        rejected: None,
    }
}

#[tokio::test]
async fn the_memory_of_gradients_comes_back_with_the_reply_of_the_push() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut parameters = open(folder.path()).await;
    let mut pulled = pull_at(&mut parameters, 0).await;
    for version in 0..3 {
        let push = Push {
            micro_batch: None,
            ..part(pulled, version, 0)
        };
        let memory = push.gradients[0].as_ptr();
        let step = parameters.plan(&vec![Read::Rows((0..4).collect::<Vec<u32>>().into())]);
        let returned = parameters
            .call(Some(push), Some((step, CachedParameters::default())))
            .await
            .expect("an answer");
        let (pushed, gradients) = returned.pushed.expect("a push");
        assert!(!pushed.duplicate);
        assert_eq!(gradients.first().map(|part| part.as_ptr()), Some(memory));
        pulled = returned.pulled.expect("a pull");
    }
}

/// A connection breaks under the first pull of a number. Its copy arrives behind the pull that took the number over.
#[tokio::test]
async fn a_late_copy_of_a_pull_that_was_taken_back_does_not_choose_the_rows_of_a_push() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (shards, plan) = serve(folder.path(), Update::Async).await;
    let worker = identity(Role::Worker, 1);
    let mut parameters = join(&shards, &plan, worker).await.0;
    let reads = |rows: &[u32]| vec![Read::Rows(rows.to_vec().into())];
    let first = parameters.plan(&reads(&[0, 2]));
    parameters.take_back(&first);
    let second = parameters.plan(&reads(&[1, 3]));
    assert_eq!(first.seq, second.seq);
    let pulled = parameters
        .call(None, Some((second, CachedParameters::default())))
        .await
        .expect("an answer");
    for (shard, plan) in shards.iter().zip(&first.plans) {
        let late = Request {
            push: None,
            pull: Some(Pull {
                seq: first.seq,
                selection: Arc::clone(&plan.selection),
                known: Vec::new(),
                reserve_step: false,
                at_least: 0,
                or_before: false,
                half_applied: false,
            }),
        };
        let answer = shard.step(worker, &late, Encoding::Float32).await;
        answer.expect("the late copy is answered");
    }
    let push = Push {
        micro_batch: None,
        gradients: vec![vec![-1.0; 4]],
        ..part(pulled.pulled.expect("a pull"), 0, 0)
    };
    parameters.call(Some(push), None).await.expect("pushed");
    let values = pull_at(&mut parameters, 1).await.held.values;
    assert_eq!(values, [[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]]);
}

#[tokio::test]
async fn a_part_that_only_some_servers_were_given_is_computed_again_from_the_same_values() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (shards, plan) = serve(folder.path(), Update::Sync).await;
    let other = Identity {
        task: Task {
            role: Role::Worker,
            index: 1,
        },
        ..identity(Role::Worker, 1)
    };
    let (mut first, _) = join(&shards, &plan, identity(Role::Worker, 1)).await;
    let (mut second, _) = join(&shards, &plan, other).await;
    for version in 0..3 {
        let pulled = pull_at(&mut first, version).await;
        assert_eq!((pulled.ticket, pulled.reached), (Ticket::Granted, version));
        let values = pulled.held.values.clone();
        first
            .call(Some(part(pulled, version, 0)), None)
            .await
            .expect("pushed");
        // The second worker dies after all servers but the first have its micro-batch.
        let pulled = pull_at(&mut second, version).await;
        let push = part(pulled, version, 1);
        let seq = push.step.seq;
        let gradients = Arc::new(push.gradients);
        for (ps, shard) in shards.iter().enumerate().skip(1) {
            let plan = Arc::clone(&push.step.plans[ps]);
            let gradients = Arc::new(ShardGradients::new(Arc::clone(&gradients), plan));
            let push = store::Push {
                header: PushHeader {
                    seq,
                    batch: push.batch,
                    batches: 1,
                    pulled_version: push.step.versions[ps],
                    micro_batch: push.micro_batch,
                    optimizer_step: None,
                    rejected: None,
                },
                selection: None,
                gradients,
            };
            let call = Request {
                push: Some(push),
                pull: None,
            };
            let pushed = shard.step(second.identity, &call, Encoding::Float32).await;
            pushed.expect("pushed");
        }
        let waits = pull_at(&mut first, version + 1).await;
        assert_eq!((waits.ticket, waits.reached), (Ticket::Wait, version));
        first.take_back(&waits.step);
        let back = Identity {
            session: version + 2,
            ..other
        };
        let (joined, opened) = join(&shards, &plan, back).await;
        second = joined;
        assert_eq!(
            (opened.version, opened.batches_applied),
            (version, 2 * version)
        );
        let again = pull_at(&mut second, version).await;
        assert_eq!((again.ticket, again.reached), (Ticket::Granted, version));
        assert_eq!(
            again.held.values, values,
            "what the step was begun with, everywhere"
        );
        let pushed = second
            .call(Some(part(again, version, 1)), None)
            .await
            .expect("pushed");
        assert_eq!(pushed.pushed.expect("a push").0.version, version + 1);
    }
    let sum = |place: usize| 3.0 * (1.5 + place as f32);
    let pulled = pull_at(&mut first, 3).await;
    assert_eq!(pulled.held.values[0], (0..8).map(sum).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_is_read_behind_a_wait_for_a_slower_task_holds_its_step_on_every_server() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (shards, plan) = serve(
        folder.path(),
        Update::StaleSynchronous {
            staleness_steps_max: 0,
        },
    )
    .await;
    let other = Identity {
        task: Task {
            role: Role::Worker,
            index: 1,
        },
        ..identity(Role::Worker, 1)
    };
    let mut fast = join(&shards, &plan, identity(Role::Worker, 1))
        .await
        .0
        .bounded();
    let mut slow = join(&shards, &plan, other).await.0.bounded();
    let rows = || vec![Read::Rows((0..4).collect::<Vec<u32>>().into())];
    let push = |pulled: PulledStep, batch: u64| Push {
        step: pulled.step,
        batch: BatchId {
            pass: 0,
            shard: 0,
            batch,
        },
        batches: 1,
        micro_batch: None,
        optimizer_step: None,
        stores: None,
        gradients: vec![vec![-1.0; 8]],
        rejected: None,
    };
    let begun = |parameters: &mut Parameters| {
        let step = parameters.plan(&rows());
        parameters.call(None, Some((step, CachedParameters::default())))
    };
    let first = begun(&mut fast);
    let second = begun(&mut slow);
    let first = first.await.expect("an answer").pulled.expect("a pull");
    let second = second.await.expect("an answer").pulled.expect("a pull");
    assert_eq!(
        (first.ticket, second.ticket),
        (Ticket::Granted, Ticket::Granted)
    );
    // The fast worker has finished its step and requests another; the slow worker has not.
    let next = fast.plan(&rows());
    let waiting = tokio::spawn(fast.call(
        Some(push(first, 0)),
        Some((next, CachedParameters::default())),
    ));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "it is a step ahead");
    slow.call(Some(push(second, 1)), None)
        .await
        .expect("pushed");
    let pulled = waiting
        .await
        .expect("no panic")
        .expect("an answer")
        .pulled
        .expect("a pull");
    assert_eq!(pulled.ticket, Ticket::Granted);
    assert_eq!(
        pulled.step.versions,
        [2, 2, 2],
        "both steps are in what each server was read for"
    );
    assert_eq!(pulled.held.values[0], [2.0; 8]);
}

/// Trains `steps` steps. The task counts them in its own column of every row. Pauses are random.
async fn count_steps(
    mut parameters: Parameters,
    (column, steps, bound): (usize, u64, u64),
    begun: Arc<Barrier>,
    mut draw: ChaCha8Rng,
) {
    let rows = || vec![Read::Rows((0..4).collect::<Vec<u32>>().into())];
    let mut push = None;
    let mut held = CachedParameters::default();
    for own in 0..steps {
        let step = parameters.plan(&rows());
        let returned = parameters
            .call(push.take(), Some((step, held)))
            .await
            .expect("an answer");
        let pulled = returned.pulled.expect("a pull");
        assert_eq!(pulled.ticket, Ticket::Granted);
        for (row, counts) in pulled.held.values[0].chunks(2).enumerate() {
            let mine = counts[column] as u64;
            let others = counts[1 - column] as u64;
            assert_eq!(mine, own, "a task reads its own steps in row {row}");
            assert!(
                others + bound >= own,
                "row {row} was read for step {own} with {others} steps of the other task: more than {bound} are missing"
            );
        }
        if own == 0 {
            // The staleness bound ignores a task that has not begun a step.
            begun.wait().await;
        }
        for _ in 0..draw.random_range(0..8_u32) {
            tokio::task::yield_now().await;
        }
        let gradients = vec![
            (0..8)
                .map(|place| if place % 2 == column { -1.0 } else { 0.0 })
                .collect(),
        ];
        let batch = BatchId {
            pass: 0,
            shard: 0,
            batch: 2 * own + column as u64,
        };
        push = Some(Push {
            step: pulled.step,
            batch,
            batches: 1,
            micro_batch: None,
            optimizer_step: None,
            stores: None,
            gradients,
            rejected: None,
        });
        held = pulled.held;
    }
    parameters.call(push, None).await.expect("pushed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn at_each_pull_every_server_holds_all_steps_but_those_that_the_staleness_bound_allows_to_miss()
 {
    for bound in 0..3 {
        let seed: u64 = 20 + bound;
        println!("bound {bound}, seed {seed}");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (shards, plan) = serve(
            folder.path(),
            Update::StaleSynchronous {
                staleness_steps_max: bound,
            },
        )
        .await;
        let mut tasks = Vec::new();
        let begun = Arc::new(Barrier::new(2));
        for index in 0..2 {
            let worker = Identity {
                task: Task {
                    role: Role::Worker,
                    index,
                },
                ..identity(Role::Worker, 1)
            };
            let parameters = join(&shards, &plan, worker).await.0.bounded();
            let draw = ChaCha8Rng::seed_from_u64(seed + index as u64);
            tasks.push(count_steps(
                parameters,
                (index, 5000, bound),
                Arc::clone(&begun),
                draw,
            ));
        }
        futures_util::future::join_all(tasks.into_iter().map(tokio::spawn))
            .await
            .into_iter()
            .for_each(|ended| {
                ended.expect("the bound holds");
            });
    }
}

#[tokio::test]
async fn servers_that_have_nothing_to_read_or_update_take_part_in_every_step() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut parameters = open(folder.path()).await;
    let mut push = None;
    let mut held = CachedParameters::default();
    // No row, rows of the first server only, rows of both, and no gradient.
    let cases: [(&[u32], bool); 5] = [
        (&[], true),
        (&[0], true),
        (&[1, 3], true),
        (&[0, 2], false),
        (&[0, 1, 2, 3], true),
    ];
    for (batch, (rows, gradient)) in (0_u64..).zip(cases) {
        let step = parameters.plan(&vec![Read::Rows(rows.into())]);
        let returned = parameters
            .call(push.take(), Some((step, held)))
            .await
            .expect("an answer");
        if batch > 0 {
            let (pushed, _) = returned.pushed.expect("a push");
            assert_eq!((pushed.duplicate, pushed.global_step), (false, batch));
        }
        let pulled = returned.pulled.expect("a pull");
        assert_eq!(pulled.ticket, Ticket::Granted);
        assert_eq!(pulled.held.values[0].len(), rows.len() * 2);
        if rows.len() == 4 {
            assert_eq!(
                pulled.held.values[0],
                [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]
            );
        }
        let gradients = vec![if gradient {
            vec![-1.0; rows.len() * 2]
        } else {
            Vec::new()
        }];
        let batch = BatchId {
            pass: 0,
            shard: 0,
            batch,
        };
        push = Some(Push {
            step: pulled.step,
            batch,
            batches: 1,
            micro_batch: None,
            optimizer_step: None,
            stores: None,
            gradients,
            rejected: None,
        });
        held = pulled.held;
    }
    let returned = parameters.call(push, None).await.expect("an answer");
    assert_eq!(returned.pushed.expect("a push").0.global_step, 5);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_takes_a_call_and_never_answers_is_given_up_at_the_deadline() {
    let identity = identity(Role::Worker, 1);
    let begun = tokio::time::Instant::now();
    let silent = || std::future::pending::<Result<(), Error>>();
    let error = retry(
        &identity,
        "ps:0 at 10.0.0.5:2222",
        Duration::from_secs(7),
        silent,
    )
    .await;
    let Err(Error::Deadline(problem)) = error else {
        panic!("{error:?}")
    };
    let text = problem.render();
    assert!(
        text.contains("ps:0 at 10.0.0.5:2222 was not ready for 7 s (last: no answer yet)"),
        "{text}"
    );
    assert_eq!(begun.elapsed().as_secs(), 8, "it is looked at every 2 s");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_job_is_told_again_to_a_server_that_cannot_read_its_files_and_a_claim_is_not()
{
    let identity = identity(Role::Chief, 0);
    let calls = std::cell::Cell::new(0);
    let faulty = || {
        calls.set(calls.get() + 1);
        let refusal = Refusal::new(
            Reason::Storage,
            "cannot read cluster_id: Input/output error",
        );
        let refused = Error::Refused {
            peer: "ps:1".to_owned(),
            refusal,
        };
        std::future::ready(if calls.get() < 4 {
            Err(refused)
        } else {
            Ok(())
        })
    };
    let within = Duration::from_secs(10);
    let told = retry_over_faults_of_files(&identity, "ps:1", within, faulty).await;
    assert!(told.is_ok(), "{told:?}");
    assert_eq!(calls.get(), 4);
    calls.set(0);
    let claimed = retry(&identity, "ps:1", within, faulty).await;
    assert_eq!(
        claimed.map_err(|error| error.reason()),
        Err(Some(Reason::Storage))
    );
    assert_eq!(calls.get(), 1);
}
