//! Sums among members in one process, over gRPC on loopback ports and by reference:
//! `cargo bench -p trainyard-collective`.
//!
//! Bytes per second are those of one member's buffer. `copy` is one copy of it, for comparison.

use std::time::Duration;

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use futures_util::future::{join_all, try_join_all};
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Endpoint, Server};
use trainyard_collective::{Collective, Deadlines, Group, Hub, Membership, Peer, local};
use trainyard_protocol::Channel;
use trainyard_protocol::limits::{FRAME_BYTES, WINDOW_BYTES};

/// The daemons' allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes of a buffer.
const SIZES: [usize; 4] = [4 << 10, 64 << 10, 600 << 10, 4 << 20];

fn main() {
    divan::main();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

fn channel(address: &str) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .expect("an address")
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .connect_lazy()
        .into()
}

/// Returns members that each have a server.
async fn remote(size: usize) -> Vec<Collective> {
    let mut hubs = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..size {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        addresses.push(listener.local_addr().expect("an address").to_string());
        let hub = Hub::new(Duration::from_secs(5));
        let incoming = TcpListenerStream::new(listener);
        let server = Server::builder()
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .add_service(hub.service());
        tokio::spawn(async move {
            let incoming = tokio_stream::StreamExt::map(incoming, |stream| {
                stream.inspect(|stream| stream.set_nodelay(true).expect("a socket"))
            });
            server.serve_with_incoming(incoming).await
        });
        hubs.push(hub);
    }
    let joined = hubs.iter().enumerate().map(|(rank, hub)| {
        let peers = addresses
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != rank);
        let peers = peers.map(|(rank, address)| Peer {
            rank,
            name: format!("worker:{rank} at {address}"),
            channel: channel(address),
        });
        let group = Group {
            generation: 1,
            rank,
            size,
        };
        let membership = Membership {
            cluster_id: [1; 16],
            cluster_epoch: 1,
            group,
        };
        hub.join(membership, peers.collect(), Deadlines::default())
    });
    try_join_all(joined).await.expect("a group")
}

/// Each member is a task of its own that sums on request, so that no task is spawned in the measured time.
fn time(bencher: Bencher<'_, '_>, bytes: usize, runtime: &Runtime, members: Vec<Collective>) {
    let members = members.into_iter().map(|member| {
        let (go, mut told) = tokio::sync::mpsc::channel::<u64>(1);
        let (done, ready) = tokio::sync::mpsc::channel::<()>(1);
        runtime.spawn(async move {
            let mut values = vec![1.0_f32; bytes / 4];
            while let Some(step) = told.recv().await {
                member
                    .all_reduce(step, 0, &mut values, &[])
                    .await
                    .expect("a sum");
                values.fill(1.0);
                done.send(()).await.expect("somebody waits");
            }
        });
        (go, ready)
    });
    let mut members: Vec<_> = members.collect();
    let mut step = 0;
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        step += 1;
        runtime.block_on(async {
            join_all(members.iter().map(|(go, _)| go.send(step))).await;
            join_all(members.iter_mut().map(|(_, ready)| ready.recv())).await;
        });
    });
}

#[divan::bench(args = SIZES, consts = [2, 4])]
fn over_grpc<const MEMBERS: usize>(bencher: Bencher<'_, '_>, bytes: usize) {
    let runtime = runtime();
    let members = runtime.block_on(remote(MEMBERS));
    time(bencher, bytes, &runtime, members);
}

#[divan::bench(args = SIZES, consts = [2, 4])]
fn in_process<const MEMBERS: usize>(bencher: Bencher<'_, '_>, bytes: usize) {
    let runtime = runtime();
    let members = local(1, MEMBERS, Deadlines::default());
    time(bencher, bytes, &runtime, members);
}

#[divan::bench(args = SIZES)]
fn copy(bencher: Bencher<'_, '_>, bytes: usize) {
    let from = vec![1_u8; bytes];
    let mut to = vec![0_u8; bytes];
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| black_box(&mut to).copy_from_slice(black_box(&from)));
}
