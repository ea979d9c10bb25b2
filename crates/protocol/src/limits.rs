//! Limits on everything that crosses the wire.

use std::time::Duration;

/// Largest pull or push message, in bytes. Preparing a parameter server is refused if its whole slices do not fit one
/// message, so the limit shows at startup and never during training.
pub const TENSOR_MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Most bytes of step messages that a parameter server holds at once. Further messages wait on their connections.
pub const TENSOR_BYTES_IN_FLIGHT_MAX: usize = 1 << 30;
/// Largest message of the session service, in bytes.
pub const CONTROL_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Most bytes of the inline records that the chief sends to a worker at once.
pub const INLINE_RECORDS_BYTES_MAX: u64 = 8 << 20;
/// Largest message of the session service with inline records, in bytes: the records and their metadata.
pub const INLINE_RECORDS_MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Most ids of an id set, which have 32 MiB.
pub(crate) const IDS_MAX: usize = 4 << 20;
/// Most rows of a dynamic table. Places of rows have 32 bits.
pub(crate) const DYNAMIC_ROWS_MAX: usize = u32::MAX as usize;
/// Most variables of a model.
pub(crate) const VARIABLES_MAX: usize = 100_000;
/// Longest variable name, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest text of a peer in messages and logs, in bytes.
pub(crate) const PEER_TEXT_BYTES_MAX: usize = 256;
/// Longest refusal message of a peer, in bytes. It may quote several texts of peers.
pub(crate) const PEER_MESSAGE_BYTES_MAX: usize = 2 << 10;
/// HTTP/2 window of a stream and of a connection, in bytes.
pub const WINDOW_BYTES: u32 = 8 << 20;
/// Largest HTTP/2 frame, in bytes.
pub const FRAME_BYTES: u32 = 1 << 20;
/// Buffer of a Unix socket in each direction, in bytes. The buffers of TCP ports grow automatically.
pub const SOCKET_BUFFER_BYTES: usize = 2 << 20;
/// Idle time after which a connection is pinged. Together with the timeout, a peer that accepts connections but does
/// not reply is given up after 4.5 s.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a ping without reply closes the connection. A process that is suspended for less keeps its
/// connections. A process that is suspended for longer is near the end of its lease.
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(3500);
/// Timeout of one attempt to connect to a peer.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout between two pieces of a message that is being read.
pub(crate) const MESSAGE_SILENCE_MAX: Duration = Duration::from_secs(5);
/// Timeout of a pull, push or control call. After that, the call has failed and is retried.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a call that writes a server's part of a checkpoint: a terabyte at 50 MB/s. Keepalive detects a dead
/// server long before.
pub const CHECKPOINT_CALL_TIMEOUT: Duration = Duration::from_hours(6);
/// Largest message between members of a process group, in bytes. It holds a part of a buffer.
pub const GROUP_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Number of values in the part of a large buffer that a member sends at once, which have 256 KiB. Smaller parts
/// overlap adding and sending better; larger parts need fewer messages.
pub const PART_VALUES: usize = 64 << 10;
/// Parts of a buffer that are in flight along a ring at a time.
pub const RING_PARTS_AT_ONCE: usize = 4;
/// Largest group that sums by shares, in which each member sends to each. Larger groups sum along a ring.
pub const SHARES_SIZE_MAX: usize = 16;
/// Largest buffer that is summed along a tree, in bytes. A tree takes the whole buffer and needs fewer rounds than a
/// ring.
pub const TREE_BYTES_MAX: usize = 16 << 10;
/// Most bytes that all members together send up a tree. They are added only at its root.
pub const TREE_BYTES_TOGETHER_MAX: usize = 256 << 10;
/// Most bytes that a member contributes to a gather operation.
pub const GATHER_BYTES_MAX: usize = 256 << 20;
/// Most bytes of one peer in a member's mailbox, for operations that the member has not begun. At the limit, the peer
/// waits.
pub const MAILBOX_BYTES_MAX: usize = 64 << 20;
/// Most messages of one peer that wait for one operation.
pub const MAILBOX_MESSAGES_MAX: usize = 1024;
/// Most messages that wait to be sent to one peer. At the limit, the sender waits.
pub const OUTBOX_MESSAGES_MAX: usize = 8;
/// Most members of a process group.
pub const GROUP_SIZE_MAX: usize = 1024;
/// Most peers of newer generations that wait until this member joins their generation.
pub const HANDSHAKES_WAITING_MAX: usize = 4096;
/// Default size of a bucket of gradients, in bytes.
pub const BUCKET_BYTES: usize = 4 << 20;
/// Buckets of a step that are in flight at a time.
pub const BUCKETS_AT_ONCE: usize = 4;
/// Bytes of log records in one message to a backup. A message with a single longer record exceeds it.
pub const SHIPPED_BYTES: usize = 512 << 10;
/// Largest message to a backup, in bytes: the longest record, which is the largest push with its metadata.
pub const SHIPPED_MESSAGE_BYTES_MAX: usize = 2 * TENSOR_MESSAGE_BYTES_MAX;
/// Most messages to a backup that wait to be sent. At the limit, the queue of the primary grows.
pub const SHIPPED_MESSAGES_MAX: usize = 8;
/// Time between two reports of a parameter server to the chief about its replicas.
pub const STATUS_INTERVAL: Duration = Duration::from_millis(50);
/// Metadata key of a call to a parameter server that holds several shards: the shard of the call.
pub const SHARD_KEY: &str = "trainyard-shard";
