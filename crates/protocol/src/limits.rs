//! Bounds on everything that crosses the wire.

use std::time::Duration;

/// Largest pull or push message, in bytes. Preparing a ps whose whole slices would not fit one message is refused,
/// so that the bound is met at bring-up and never in the middle of training.
pub const TENSOR_MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Most bytes of step messages that a parameter server holds at once, in all; others wait on their connections.
pub const TENSOR_BYTES_IN_FLIGHT_MAX: usize = 1 << 30;
/// Largest message of the session service, in bytes.
pub const CONTROL_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of the records that the chief hands to a worker at once, without reading files of its own.
pub const INLINE_RECORDS_BYTES_MAX: u64 = 8 << 20;
/// Largest message of the session service that carries records: them, and what is known of each.
pub const INLINE_RECORDS_MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Most ids of one id set: 32 MiB of them.
pub const IDS_MAX: usize = 4 << 20;
/// Most rows of a dynamic table: places of rows are 32 bits wide.
pub const DYNAMIC_ROWS_MAX: usize = u32::MAX as usize;
/// Most variables of a model.
pub const VARIABLES_MAX: usize = 100_000;
/// Longest variable name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest text of a peer that is shown to a person, in bytes.
pub const PEER_TEXT_BYTES_MAX: usize = 256;
/// Longest message of a peer that says why it refuses, which may quote several such texts, in bytes.
pub const PEER_MESSAGE_BYTES_MAX: usize = 2 << 10;
/// HTTP/2 window of a stream and of a connection, in bytes.
pub const WINDOW_BYTES: u32 = 8 << 20;
/// Largest HTTP/2 frame, in bytes.
pub const FRAME_BYTES: u32 = 1 << 20;
/// Bytes on their way through a socket file, each way. Ports have buffers that grow by themselves.
pub const SOCKET_BUFFER_BYTES: usize = 2 << 20;
/// Idle time after which a connection is pinged. With the timeout it is the time after which a peer that takes
/// connections and answers nothing is given up: 4.5 s.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a ping without answer ends the connection. A process that stands still for less keeps its
/// connections; one that stands still for longer is near the end of its lease.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(3500);
/// Longest time to connect to a peer, once.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest time between two pieces of a message that is being read.
pub const MESSAGE_SILENCE_MAX: Duration = Duration::from_secs(5);
/// Longest time of one pull, push or control call, before it counts as failed and is tried again.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time of a call that writes a server's part of a checkpoint: a terabyte at 50 MB/s. A server that is gone is
/// noticed by its silence long before.
pub const CHECKPOINT_CALL_TIMEOUT: Duration = Duration::from_hours(6);
/// Largest message between members of a group, in bytes: a part of a buffer.
pub const GROUP_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Values of a part of a large buffer that one member sends at once: 256 KiB of them. Smaller parts overlap adding and
/// sending better, larger ones cost fewer messages.
pub const PART_VALUES: usize = 64 << 10;
/// Parts of one buffer that are under way along a ring at a time.
pub const RING_PARTS_AT_ONCE: usize = 4;
/// Most members that sum by shares, each sending to each; more sum along a ring.
pub const SHARES_SIZE_MAX: usize = 16;
/// Largest buffer, in bytes, that is summed along a tree, whole, in fewer rounds than a ring has.
pub const TREE_BYTES_MAX: usize = 16 << 10;
/// Most bytes that go up a tree, where they are added no earlier than at its root.
pub const TREE_BYTES_TOGETHER_MAX: usize = 256 << 10;
/// Most bytes that one member gives to a gathering.
pub const GATHER_BYTES_MAX: usize = 256 << 20;
/// Most bytes of one peer that wait in a member's mailbox for operations it has not begun. Then the peer waits.
pub const MAILBOX_BYTES_MAX: usize = 64 << 20;
/// Most messages of one peer that wait for one operation.
pub const MAILBOX_MESSAGES_MAX: usize = 1024;
/// Messages that wait to be sent to one peer. Then the sender waits.
pub const OUTBOX_MESSAGES_MAX: usize = 8;
/// Most members of a group.
pub const GROUP_SIZE_MAX: usize = 1024;
/// Most peers of newer generations that wait for this member to form theirs.
pub const HANDSHAKES_WAITING_MAX: usize = 4096;
/// Bytes of a bucket of gradients, if nothing else is said.
pub const BUCKET_BYTES: usize = 4 << 20;
/// Buckets of a step that are under way at a time.
pub const BUCKETS_AT_ONCE: usize = 4;
/// Bytes of records that travel to a backup in one message, unless a single one is longer.
pub const SHIPPED_BYTES: usize = 512 << 10;
/// Largest message to a backup: the longest record, which is a push of the most bytes and what it names.
pub const SHIPPED_MESSAGE_BYTES_MAX: usize = 2 * TENSOR_MESSAGE_BYTES_MAX;
/// Messages to a backup that wait to be sent. Then the primary's queue grows.
pub const SHIPPED_MESSAGES_MAX: usize = 8;
/// Time between two words of a server to its chief about its replicas.
pub const STATUS_INTERVAL: Duration = Duration::from_millis(50);
/// Metadata key of a call to a parameter server: the shard that it is for, where the server holds several.
pub const SHARD_KEY: &str = "trainyard-shard";
