//! Groups of several servers.
#![expect(clippy::disallowed_types, reason = "a test bounds the time of threads")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{join_all, try_join_all};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Endpoint, Server};
use trainyard_collective::{Cause, Collective, Deadlines, Error, Group, Hub, Membership, Peer};
use trainyard_protocol::{Channel, Reason};

/// A worker's server.
struct Host {
    hub: Hub,
    address: String,
}

impl Host {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let hub = Hub::new(Duration::from_millis(500));
        let service = hub.service();
        tokio::spawn(async move {
            let incoming = TcpListenerStream::new(listener);
            Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await
                .expect("a server");
        });
        Self { hub, address }
    }
}

async fn hosts(count: usize) -> Vec<Host> {
    join_all((0..count).map(|_| Host::start())).await
}

fn channel(address: &str) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .expect("an address")
        .tcp_nodelay(true)
        .connect_lazy()
        .into()
}

fn membership(generation: u64, rank: usize, size: usize) -> Membership {
    Membership {
        cluster_id: [7; 16],
        cluster_epoch: 2,
        group: Group {
            generation,
            rank,
            size,
        },
    }
}

fn peers(addresses: &[String], own: usize) -> Vec<Peer> {
    let others = addresses
        .iter()
        .enumerate()
        .filter(|(rank, _)| *rank != own);
    let peer = |(rank, address): (usize, &String)| Peer {
        rank,
        name: format!("worker:{rank} at {address}"),
        channel: channel(address),
    };
    others.map(peer).collect()
}

fn deadlines() -> Deadlines {
    Deadlines {
        form: Duration::from_secs(10),
        silence: Duration::from_secs(20),
        ..Deadlines::default()
    }
}

fn addresses(hosts: &[&Host]) -> Vec<String> {
    hosts.iter().map(|host| host.address.clone()).collect()
}

async fn form(hosts: &[&Host], generation: u64) -> Vec<Collective> {
    let addresses = addresses(hosts);
    let joined = hosts.iter().enumerate().map(|(rank, host)| {
        host.hub.join(
            membership(generation, rank, hosts.len()),
            peers(&addresses, rank),
            deadlines(),
        )
    });
    try_join_all(joined).await.expect("a group")
}

/// Sums once with all members, and returns the result of each.
async fn sum(members: &[Collective], step: u64, length: usize) -> Vec<Result<Vec<f32>, Error>> {
    let summed = members.iter().enumerate().map(|(rank, member)| async move {
        let mut values: Vec<f32> = (0..length)
            .map(|place| ((rank * 37 + place * 11) % 89) as f32 * 0.31 - 7.0)
            .collect();
        member
            .all_reduce(step, 0, &mut values, &[])
            .await
            .map(|()| values)
    });
    join_all(summed).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_sum_and_gather_and_leave() {
    let hosts = hosts(3).await;
    let members = form(&[&hosts[0], &hosts[1], &hosts[2]], 1).await;
    for (step, length) in [0, 1, 4096, 4097, 300_000, 1_000_001]
        .into_iter()
        .enumerate()
    {
        let summed = sum(&members, step as u64, length).await;
        let first = summed[0].as_ref().expect("a sum");
        assert!(
            summed
                .iter()
                .all(|values| values.as_ref().expect("a sum") == first)
        );
        for (place, value) in first.iter().enumerate() {
            let exact: f64 = (0..3)
                .map(|rank| f64::from(((rank * 37 + place * 11) % 89) as f32 * 0.31 - 7.0))
                .sum();
            assert!((f64::from(*value) - exact).abs() < 1e-4, "{value} {exact}");
        }
    }
    let gathered = members.iter().enumerate().map(|(rank, member)| {
        member.all_gather(9, 4, Bytes::from(vec![rank as u8; rank * 1_500_000]))
    });
    for gifts in try_join_all(gathered).await.unwrap() {
        for (rank, gift) in gifts.iter().enumerate() {
            assert_eq!(gift[..], vec![rank as u8; rank * 1_500_000]);
        }
    }
    // One member finishes earlier than the others, which still receive its last messages.
    let begun = Instant::now();
    join_all(members.into_iter().map(Collective::leave)).await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_words_arrive_though_the_speaker_leaves_at_once() {
    let hosts = hosts(2).await;
    for generation in 1..6 {
        let joined = form(&[&hosts[0], &hosts[1]], generation).await;
        let outcomes = joined.into_iter().enumerate().map(|(rank, member)| {
            tokio::spawn(async move {
                let mut values = vec![rank as f32; 500_000];
                let outcome = member.all_reduce(1, 0, &mut values, &[]).await;
                member.leave().await;
                outcome.map(|()| values[499_999])
            })
        });
        for outcome in join_all(outcomes).await {
            assert_eq!(outcome.unwrap().unwrap(), 1.0);
        }
    }
}

/// A stand-in for a separate process: when its runtime ends, all of it stops at once, and its connections break without
/// notice.
struct Mortal {
    runtime: tokio::runtime::Runtime,
    host: Host,
}

impl Mortal {
    async fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let host = runtime.spawn(Host::start()).await.expect("a server");
        Self { runtime, host }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_dies_in_the_middle_is_named_at_once_and_the_rest_go_on_without_it() {
    let hosts = hosts(2).await;
    let mortal = Mortal::start().await;
    let all = addresses(&[&hosts[0], &mortal.host, &hosts[1]]);
    let hub = mortal.host.hub.clone();
    let own = peers(&all, 1);
    let third = mortal
        .runtime
        .spawn(async move { hub.join(membership(1, 1, 3), own, deadlines()).await });
    let (first, second, third) = tokio::join!(
        hosts[0]
            .hub
            .join(membership(1, 0, 3), peers(&all, 0), deadlines()),
        hosts[1]
            .hub
            .join(membership(1, 2, 3), peers(&all, 2), deadlines()),
        third
    );
    let members = [first.unwrap(), second.unwrap()];
    let third = third.unwrap().unwrap();
    // The member takes part for a while, and is never told to stop.
    mortal.runtime.spawn(async move {
        let mut values = vec![0.0; 200_000];
        for step in 0.. {
            third.all_reduce(step, 0, &mut values, &[]).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok::<_, Error>(())
    });
    let stop = Duration::from_millis(200);
    let address = mortal.host.address.clone();
    let death = tokio::task::spawn_blocking(move || {
        std::thread::sleep(stop);
        mortal.runtime.shutdown_background();
        Instant::now()
    });
    let go_on = async |member: &Collective| {
        let mut values = vec![0.0; 200_000];
        {
            for step in 0.. {
                if let Err(error) = member.all_reduce(step, 0, &mut values, &[]).await {
                    return (step, error, Instant::now());
                }
            }
            unreachable!("numbers end")
        }
    };
    let (one, other, died) = tokio::join!(go_on(&members[0]), go_on(&members[1]), death);
    for (step, error, at) in [one, other] {
        let text = error.to_string();
        assert!(step > 0, "it took part: {text}");
        assert!(text.contains(&format!("worker:1 at {address}")), "{text}");
        assert!(error.wait.is_some(), "{text}");
        let late = at.saturating_duration_since(*died.as_ref().unwrap());
        assert!(
            late < Duration::from_secs(2),
            "{late:?} after its death: {text}"
        );
    }
    let late = members[0].all_gather(3, 0, Bytes::new()).await.unwrap_err();
    assert_eq!(late.generation, 1);
    let members = form(&[&hosts[0], &hosts[1]], 2).await;
    assert!(sum(&members, 2, 200_000).await.iter().all(Result::is_ok));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_reaches_all_within_moments() {
    let hosts = hosts(3).await;
    let members = form(&[&hosts[0], &hosts[1], &hosts[2]], 1).await;
    let mut values = vec![0.0; 100_000];
    let begun = Instant::now();
    let pending = members[0].all_reduce(1, 0, &mut values, &[]);
    let (outcome, ()) = tokio::join!(pending, async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        members[2].abort("worker:3 has joined\nerror: forged");
    });
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    let text = outcome.unwrap_err().to_string();
    assert!(
        text.contains("ended the generation: worker:3 has joined\\nerror"),
        "{text}"
    );
    assert!(text.contains("worker:2 at "), "{text}");
    assert!(matches!(
        members[1].ended().await.cause,
        Cause::Aborted { .. }
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_generations_are_refused_and_newer_ones_waited_for() {
    let hosts = hosts(2).await;
    let addresses = addresses(&[&hosts[0], &hosts[1]]);
    drop(form(&[&hosts[0], &hosts[1]], 5).await);
    let early = hosts[0]
        .hub
        .join(membership(6, 0, 2), peers(&addresses, 0), deadlines());
    let late = async {
        // The delay is longer than one handshake waits at the peer.
        tokio::time::sleep(Duration::from_millis(800)).await;
        hosts[1]
            .hub
            .join(membership(6, 1, 2), peers(&addresses, 1), deadlines())
            .await
    };
    let (early, late) = tokio::join!(early, late);
    let members = [early.expect("it waited"), late.expect("it was waited for")];
    assert!(sum(&members, 1, 10).await.iter().all(Result::is_ok));
    let stale = hosts[0]
        .hub
        .join(membership(6, 0, 2), peers(&addresses, 0), deadlines())
        .await;
    assert!(matches!(stale.unwrap_err().cause, Cause::Misuse(_)));
    assert!(members[0].failure().is_none(), "the group goes on");
    // This member has missed the forming of a group.
    let stray = Host::start().await;
    let error = stray
        .hub
        .join(membership(5, 0, 2), peers(&addresses, 0), deadlines())
        .await
        .unwrap_err();
    let Cause::Refused { refusal, .. } = &error.cause else {
        panic!("{error}")
    };
    assert_eq!(refusal.reason, Reason::OtherGroup, "{error}");
    // This member belongs to another job.
    let other = Membership {
        cluster_id: [8; 16],
        ..membership(9, 0, 2)
    };
    let error = stray
        .hub
        .join(other, peers(&addresses, 0), deadlines())
        .await
        .unwrap_err();
    let Cause::Refused { refusal, .. } = &error.cause else {
        panic!("{error}")
    };
    assert_eq!(refusal.reason, Reason::OtherCluster, "{error}");
    assert!(
        sum(&members, 2, 10).await.iter().all(Result::is_ok),
        "strangers harm nobody"
    );
}

#[tokio::test]
async fn a_group_that_cannot_be_formed_says_who_is_missing() {
    let host = Host::start().await;
    // No process listens at this port any more.
    let silent = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let addresses = [host.address.clone(), silent.clone()];
    let short = Deadlines {
        form: Duration::from_millis(300),
        ..deadlines()
    };
    let error = host
        .hub
        .join(membership(1, 0, 2), peers(&addresses, 0), short)
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&format!(
            "worker:1 at {silent} is lost: the peer did not join the process group within 0.3 s"
        )),
        "{text}"
    );
    assert!(text.contains("connection refused"), "{text}");
    let error = host
        .hub
        .join(membership(2, 0, 3), peers(&addresses, 0), short)
        .await
        .unwrap_err();
    assert!(matches!(error.cause, Cause::Misuse(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_the_wire_is_refused() {
    let hosts = hosts(2).await;
    let members = form(&[&hosts[0], &hosts[1]], 1).await;
    let channel = channel(&hosts[0].address);
    for (method, bytes) in [
        ("Exchange", vec![]),
        ("Exchange", vec![0, 0, 0, 0, 3, 1, 2, 3]),
        ("Exchange", vec![0, 255, 255, 255, 255]),
        ("Handshake", vec![0, 0, 0, 0, 0]),
        ("Abort", vec![0, 0, 0, 0, 2, 10, 0]),
        ("Nothing", vec![0, 0, 0, 0, 0]),
    ] {
        let request = tonic::codegen::http::Request::builder()
            .method("POST")
            .uri(format!("/trainyard.v1.CollectiveService/{method}"))
            .header("content-type", "application/grpc")
            .body(tonic::body::Body::new(http_body_util::Full::new(
                Bytes::from(bytes),
            )))
            .unwrap();
        let mut channel = channel.clone();
        std::future::poll_fn(|context| tonic::codegen::Service::poll_ready(&mut channel, context))
            .await
            .unwrap();
        let answer = tonic::codegen::Service::call(&mut channel, request)
            .await
            .unwrap();
        let status = tonic::Status::from_header_map(answer.headers()).expect("a refusal");
        assert_ne!(status.code(), tonic::Code::Ok, "{method}");
    }
    assert!(sum(&members, 1, 100_000).await.iter().all(Result::is_ok));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buckets_in_any_number_are_under_way_at_once() {
    let hosts = hosts(2).await;
    let members = form(&[&hosts[0], &hosts[1]], 1).await;
    let sums = members.iter().map(|member| async move {
        let buckets = futures_util::stream::iter(0..40_u32).map(|bucket| async move {
            let mut values = vec![bucket as f32; 30_000];
            member
                .all_reduce(1, bucket, &mut values, &[])
                .await
                .map(|()| assert_eq!(values, vec![2.0 * bucket as f32; 30_000]))
        });
        let outcomes: Vec<_> = buckets.buffer_unordered(40).collect().await;
        outcomes
            .into_iter()
            .for_each(|outcome| outcome.expect("a sum"));
    });
    join_all(sums).await;
}
