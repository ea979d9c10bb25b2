//! Groups in one process.
#![expect(clippy::disallowed_types, reason = "a test bounds the time of threads")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use trainyard_collective::{Cause, Collective, Deadlines, local};

fn deadlines(silence: Duration) -> Deadlines {
    Deadlines {
        silence,
        ..Deadlines::default()
    }
}

fn group(size: usize) -> Vec<Collective> {
    local(3, size, deadlines(Duration::from_secs(20)))
}

fn input(rank: usize, length: usize) -> Vec<f32> {
    (0..length)
        .map(|place| ((rank * 31 + place * 17) % 101) as f32 * 0.37 - 3.0)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_holds_the_same_sum_for_every_size_of_buffer() {
    for size in [1, 2, 3, 5] {
        for length in [0, 1, 1000, 5000, 400_000] {
            let members = group(size);
            let inputs: Vec<Vec<f32>> = (0..size).map(|rank| input(rank, length)).collect();
            let summed = join_all(members.iter().enumerate().map(|(rank, member)| async move {
                let mut values = input(rank, length);
                member
                    .all_reduce(1, 0, &mut values, &[])
                    .await
                    .expect("a sum");
                values
            }));
            let summed = summed.await;
            for place in (0..length).step_by(97) {
                let exact: f64 = inputs.iter().map(|values| f64::from(values[place])).sum();
                assert!((f64::from(summed[0][place]) - exact).abs() < 1e-3);
            }
            assert!(summed.iter().all(|values| {
                values
                    .iter()
                    .zip(&summed[0])
                    .all(|(one, other)| one.to_bits() == other.to_bits())
            }));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_buffers_have_the_same_sum_among_any_number_of_members() {
    for length in [100, 5000, 400_000] {
        let buffers: Vec<Vec<f32>> = (0..6).map(|buffer| input(buffer, length)).collect();
        let mut sums = Vec::new();
        for size in [1, 2, 3, 6] {
            let members: Vec<Collective> = group(size)
                .into_iter()
                .map(|member| member.with_buffers(6 / size))
                .collect();
            let summed = join_all(members.iter().enumerate().map(|(rank, member)| {
                let own = &buffers[rank * 6 / size..(rank + 1) * 6 / size];
                async move {
                    let mut values = own[0].clone();
                    member
                        .all_reduce(1, 0, &mut values, &own[1..])
                        .await
                        .expect("a sum");
                    values
                }
            }));
            sums.extend(summed.await);
        }
        for values in &sums {
            assert!(
                values
                    .iter()
                    .zip(&sums[0])
                    .all(|(one, other)| one.to_bits() == other.to_bits())
            );
        }
    }
}

#[tokio::test]
async fn buffers_of_another_length_are_refused_and_harm_nobody() {
    let members: Vec<Collective> = group(2)
        .into_iter()
        .map(|member| member.with_buffers(2))
        .collect();
    let error = members[0]
        .all_reduce(9, 0, &mut [0.0; 3], &[vec![0.0; 2]])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("must hold 3 values, given 2"),
        "{error}"
    );
    let error = members[0]
        .all_reduce(9, 0, &mut [0.0], &[vec![0.0], vec![0.0]])
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("at most 2 buffers to a sum, given 3"),
        "{error}"
    );
    assert!(members[1].failure().is_none());
}

#[tokio::test]
async fn gathered_bytes_come_by_rank_beside_a_sum_of_the_same_numbers() {
    let members = group(3);
    let gathered = try_join_all(members.iter().enumerate().map(|(rank, member)| async move {
        let mut values = [1.0];
        let given = Bytes::from(vec![rank as u8; rank * 2_000_000]);
        let (gathered, _) = tokio::try_join!(
            member.all_gather(1, 0, given),
            member.all_reduce(1, 0, &mut values, &[])
        )?;
        assert_eq!(values, [3.0]);
        Ok::<_, trainyard_collective::Error>(gathered)
    }));
    for gifts in gathered.await.unwrap() {
        for (rank, gift) in gifts.iter().enumerate() {
            assert_eq!(gift[..], vec![rank as u8; rank * 2_000_000]);
        }
    }
}

#[tokio::test]
async fn a_member_that_never_comes_is_named_and_ends_the_generation_for_all() {
    let members = local(3, 3, deadlines(Duration::from_millis(200)));
    let begun = Instant::now();
    let mut buffers = [vec![0.0; 50_000], vec![0.0; 50_000]];
    let [first, second] = &mut buffers;
    let (first, second) = tokio::join!(
        members[0].all_reduce(5, 2, first, &[]),
        members[2].all_reduce(5, 2, second, &[])
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Both wait for the same member. One reports it first, and the other then blames no other member.
    for error in [first.as_ref().unwrap_err(), second.as_ref().unwrap_err()] {
        let text = error.to_string();
        assert!(text.contains("replica 1 was silent for 0.2 s"), "{text}");
        assert!(
            text.contains("round 0 of part") && text.contains("in the sum of bucket 2 in step 5"),
            "{text}"
        );
        assert!(text.contains("generation 3"), "{text}");
    }
    let error = second.unwrap_err();
    let late = members[1].all_gather(6, 0, Bytes::new()).await.unwrap_err();
    assert!(matches!(late.cause, Cause::Aborted { .. }), "{late}");
    assert_eq!(error.diagnostic().exit_code(), 69);
}

#[tokio::test]
async fn an_operation_that_is_dropped_ends_the_generation_for_all() {
    let members = group(2);
    let mut values = [0.0; 10];
    let given_up = tokio::time::timeout(
        Duration::from_millis(20),
        members[0].all_reduce(1, 0, &mut values, &[]),
    );
    assert!(given_up.await.is_err());
    let text = members[1]
        .all_reduce(1, 0, &mut [0.0; 10], &[])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.contains(
            "replica 0 ended the generation: the sum of bucket 0 in step 1 was cancelled"
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_member_that_leaves_is_missed_only_by_those_who_still_need_it() {
    let mut members = group(2);
    let mut left = [1.0];
    let mut right = [2.0];
    tokio::try_join!(
        members[0].all_reduce(1, 0, &mut left, &[]),
        members[1].all_reduce(1, 0, &mut right, &[])
    )
    .unwrap();
    members.remove(1).leave().await;
    assert!(members[0].failure().is_none());
    let error = members[0]
        .all_reduce(2, 0, &mut left, &[])
        .await
        .unwrap_err();
    assert_eq!(
        error.cause,
        Cause::Left {
            peer: "replica 1".to_owned()
        }
    );
}

#[tokio::test]
async fn members_that_compute_something_else_are_told_so() {
    for (one, other) in [(10, 11), (50_000, 10), (50_000, 50_001)] {
        let members = group(2);
        let mut left = vec![0.0; one];
        let mut right = vec![0.0; other];
        let (left, right) = tokio::join!(
            members[0].all_reduce(1, 0, &mut left, &[]),
            members[1].all_reduce(1, 0, &mut right, &[])
        );
        let misfits = [&left, &right]
            .into_iter()
            .filter_map(|outcome| outcome.as_ref().err());
        let misfits = misfits
            .filter(|error| matches!(error.cause, Cause::InvalidMessage { .. }))
            .count();
        assert!(
            left.is_err() && right.is_err() && misfits == 1,
            "{left:?} {right:?}"
        );
    }
}

#[tokio::test]
async fn an_abort_from_outside_ends_what_is_pending() {
    let members = group(3);
    let mut values = vec![0.0; 100_000];
    let pending = members[0].all_reduce(1, 0, &mut values, &[]);
    let (outcome, ended, ()) = tokio::join!(pending, members[2].ended(), async {
        tokio::task::yield_now().await;
        members[1].abort("worker:7 has joined");
    });
    let text = outcome.unwrap_err().to_string();
    assert!(
        text.contains("replica 1 ended the generation: worker:7 has joined"),
        "{text}"
    );
    assert!(matches!(ended.cause, Cause::Aborted { .. }));
}
