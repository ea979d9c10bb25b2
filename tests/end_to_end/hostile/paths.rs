//! Paths that a peer sends: a server takes names of its own model directory alone, and follows no link.

use std::os::unix::fs::symlink;

use tonic::Code;
use trainyard_protocol::{convert, v1};

use super::{CHIEF, Client, PS, Stage};

const SHARD: &str = "shard-0-of-1.safetensors";

trial!(a_peer_chooses_no_path_of_a_server);
fn a_peer_chooses_no_path_of_a_server() {
    let mut stage = Stage::start();
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let precious = scratch.path().join("thesis.tex");
    std::fs::write(&precious, "mine").expect("a file");
    let evil = scratch.path().join("evil");
    std::fs::create_dir(&evil).expect("a folder");
    symlink(&precious, evil.join(SHARD)).expect("a link");
    let trap = "tmp.1.1-00000000000000ff";
    let own = stage.model_dir().join(trap);
    std::fs::create_dir(&own).expect("a folder");
    symlink(&precious, own.join(SHARD)).expect("a link");

    let mut client = Client::new(&stage, CHIEF);
    let identity = Some(v1::Identity {
        task: Some(convert::task_to_wire(CHIEF)),
        session: 0,
        ..client.identity.clone()
    });
    stage.withstands("paths of a peer", |_| {
        let evil = evil.to_string_lossy();
        for path in [
            &*evil,
            "../evil",
            "tmp.1/../..",
            "s3://evil/tmp.1",
            "wal",
            "",
        ] {
            let save = v1::SaveShardRequest {
                identity: identity.clone(),
                folder: path.to_owned(),
                ..v1::SaveShardRequest::default()
            };
            let saved = client.runtime.block_on(client.server.save_shard(save));
            let refused = saved.expect_err(path);
            assert_eq!(refused.code(), Code::InvalidArgument, "{path}: {refused}");
            if path.is_empty() {
                continue;
            }
            let prepare = v1::PrepareRequest {
                identity: identity.clone(),
                checkpoint: path.to_owned(),
                ..v1::PrepareRequest::default()
            };
            let warm_start = v1::PrepareRequest {
                identity: identity.clone(),
                warm_start: path.to_owned(),
                ..v1::PrepareRequest::default()
            };
            for request in [prepare, warm_start] {
                let prepared = client.runtime.block_on(client.server.prepare(request));
                let refused = prepared.expect_err(path);
                assert_eq!(refused.code(), Code::InvalidArgument, "{path}: {refused}");
            }
        }
        let save = v1::SaveShardRequest {
            identity: identity.clone(),
            folder: trap.to_owned(),
            ..v1::SaveShardRequest::default()
        };
        let saved = client.runtime.block_on(client.server.save_shard(save));
        saved.expect("a folder of the model directory");
    });
    let text = std::fs::read_to_string(&precious).expect("it is there");
    assert_eq!(text, "mine", "a server has written through a link");
    let written = std::fs::symlink_metadata(own.join(SHARD)).expect("the server's file");
    assert!(written.is_file() && written.len() > 1000, "{written:?}");
    let lines = stage.tasks.lines(PS, trap);
    assert!(
        lines.iter().any(|line| line.contains("peer=127.0.0.1:")),
        "{lines:?}"
    );
    stage.end();
}
