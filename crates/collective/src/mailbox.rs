//! The mailbox of one member in one generation: messages that have arrived, until an operation takes them.
//!
//! Messages of operations in progress are always accepted, because they are taken at once. Messages of operations that
//! have not begun are bounded for each peer, and at the bound the peer waits. Members must therefore begin their
//! operations in the same order.

use std::collections::{HashMap, VecDeque};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use trainyard_protocol::limits::{MAILBOX_BYTES_MAX, MAILBOX_MESSAGES_MAX};

use crate::error::Cause;
use crate::message::{GroupMessage, Key};

/// Bytes that a message counts besides its payload, so that empty messages are bounded, too.
const MESSAGE_OVERHEAD_BYTES: usize = 256;

/// One member's mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// Names of all members by rank, for messages.
    names: Vec<String>,
    state: Mutex<State>,
    /// By rank: signals that there may be room again.
    room: Vec<Notify>,
    ended: CancellationToken,
}

#[derive(Debug)]
struct State {
    slots: HashMap<Key, Slot>,
    peers: Vec<Inbound>,
    /// Cause of the end of the generation.
    end: Option<Cause>,
}

/// The messages of one operation.
#[derive(Debug, Default)]
struct Slot {
    arrived: VecDeque<(usize, GroupMessage)>,
    under_way: bool,
    waker: Option<Waker>,
}

/// The state of one peer.
#[derive(Debug, Default, Clone)]
struct Inbound {
    /// Bytes of messages for operations that have not begun.
    waiting_bytes: usize,
    /// The peer sends nothing more.
    left: bool,
}

impl Mailbox {
    /// Returns the mailbox of a member of a group whose members have these names.
    pub(crate) fn new(names: Vec<String>) -> Self {
        let size = names.len();
        let state = State {
            slots: HashMap::new(),
            peers: vec![Inbound::default(); size],
            end: None,
        };
        let room = (0..size).map(|_| Notify::new()).collect();
        Self {
            names,
            state: Mutex::new(state),
            room,
            ended: CancellationToken::new(),
        }
    }

    /// Returns the name of a member, for messages.
    pub(crate) fn name(&self, rank: usize) -> String {
        self.names[rank].clone()
    }

    /// Ends the generation for this member. Returns whether it had not ended before.
    pub(crate) fn end(&self, cause: Cause) -> bool {
        let wakers: Vec<Waker> = {
            let mut state = self.state.lock();
            if state.end.is_some() {
                return false;
            }
            state.end = Some(cause);
            state
                .slots
                .values_mut()
                .filter_map(|slot| slot.waker.take())
                .collect()
        };
        self.ended.cancel();
        wakers.into_iter().for_each(Waker::wake);
        true
    }

    /// Returns why the generation ended, if it has.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.state.lock().end.clone()
    }

    /// Waits until the generation ends.
    pub(crate) async fn ended(&self) -> Cause {
        self.ended.cancelled().await;
        self.cause().unwrap_or_else(|| {
            Cause::Misuse("a generation must have a cause when it ends".to_owned())
        })
    }

    /// Records that a peer sends nothing more.
    pub(crate) fn leave(&self, rank: usize) {
        let mut state = self.state.lock();
        state.peers[rank].left = true;
        let wakers: Vec<Waker> = state
            .slots
            .values_mut()
            .filter_map(|slot| slot.waker.take())
            .collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns whether a peer has left.
    pub(crate) fn has_left(&self, rank: usize) -> bool {
        self.state.lock().peers[rank].left
    }

    /// Adds a message, once there is room.
    ///
    /// # Errors
    /// The generation has ended, or there are more messages than any operation has.
    pub(crate) async fn put(
        &self,
        from: usize,
        key: Key,
        message: GroupMessage,
    ) -> Result<(), Cause> {
        let mut message = Some(message);
        loop {
            let room = self.room[from].notified();
            tokio::pin!(room);
            // From here on no notification is missed.
            room.as_mut().enable();
            if self.try_put(from, key, &mut message)? {
                return Ok(());
            }
            tokio::select! {
                () = room => {}
                cause = self.ended() => return Err(cause),
            }
        }
    }

    fn try_put(
        &self,
        from: usize,
        key: Key,
        message: &mut Option<GroupMessage>,
    ) -> Result<bool, Cause> {
        let mut state = self.state.lock();
        if let Some(cause) = &state.end {
            return Err(cause.clone());
        }
        let bytes = message.as_ref().map_or(0, GroupMessage::bytes) + MESSAGE_OVERHEAD_BYTES;
        let State { slots, peers, .. } = &mut *state;
        let waiting = &mut peers[from].waiting_bytes;
        let under_way = slots.get(&key).is_some_and(|slot| slot.under_way);
        if !under_way && *waiting > 0 && *waiting + bytes > MAILBOX_BYTES_MAX {
            return Ok(false);
        }
        let slot = slots.entry(key).or_default();
        if slot.arrived.len() >= MAILBOX_MESSAGES_MAX * self.names.len() {
            let message = format!("more than {MAILBOX_MESSAGES_MAX} messages wait for {key}");
            return Err(Cause::InvalidMessage {
                peer: self.name(from),
                message,
            });
        }
        if !under_way {
            *waiting += bytes;
        }
        slot.arrived
            .extend(message.take().map(|message| (from, message)));
        let waker = slot.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(true)
    }

    /// Begins an operation.
    ///
    /// # Errors
    /// The generation has ended, or the operation is in progress.
    pub(crate) fn enter(&self, key: Key) -> Result<Receiver<'_>, Cause> {
        let mut state = self.state.lock();
        if let Some(cause) = &state.end {
            return Err(cause.clone());
        }
        let State { slots, peers, .. } = &mut *state;
        let slot = slots.entry(key).or_default();
        if slot.under_way {
            let message =
                format!("{key} is already in progress: each operation must have its own numbers");
            return Err(Cause::Misuse(message));
        }
        slot.under_way = true;
        for (from, message) in &slot.arrived {
            peers[*from].waiting_bytes -= message.bytes() + MESSAGE_OVERHEAD_BYTES;
        }
        drop(state);
        self.room.iter().for_each(Notify::notify_waiters);
        Ok(Receiver { mailbox: self, key })
    }
}

/// An operation in progress, until it is dropped.
#[derive(Debug)]
pub(crate) struct Receiver<'a> {
    mailbox: &'a Mailbox,
    key: Key,
}

impl Receiver<'_> {
    /// Returns the next message, if one has arrived.
    pub(crate) fn try_take(&mut self) -> Result<Option<(usize, GroupMessage)>, Cause> {
        let mut state = self.mailbox.state.lock();
        if let Some(cause) = &state.end {
            return Err(cause.clone());
        }
        Ok(state
            .slots
            .get_mut(&self.key)
            .and_then(|slot| slot.arrived.pop_front()))
    }

    /// Waits for the next message. Fails if none has arrived and the awaited peer has left.
    pub(crate) async fn take(&mut self, awaited: usize) -> Result<(usize, GroupMessage), Cause> {
        std::future::poll_fn(|context| {
            let mut state = self.mailbox.state.lock();
            if let Some(cause) = &state.end {
                return Poll::Ready(Err(cause.clone()));
            }
            let left = state.peers[awaited].left;
            let slot = state.slots.entry(self.key).or_default();
            if let Some(next) = slot.arrived.pop_front() {
                return Poll::Ready(Ok(next));
            }
            if left {
                return Poll::Ready(Err(Cause::Left {
                    peer: self.mailbox.name(awaited),
                }));
            }
            slot.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Receiver<'_> {
    fn drop(&mut self) {
        self.mailbox.state.lock().slots.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt as _;

    use super::*;
    use crate::message::Operation;

    fn message(bytes: usize) -> GroupMessage {
        let payload = vec![Bytes::from(vec![0; bytes])];
        GroupMessage {
            operation: Operation::Ring,
            part: 0,
            round: 0,
            total: 0,
            payload,
        }
    }

    fn key(step: u64) -> Key {
        Key {
            step,
            bucket: 0,
            gathers: false,
        }
    }

    fn mailbox() -> Mailbox {
        Mailbox::new(vec![
            "worker:0".to_owned(),
            "worker:1".to_owned(),
            "worker:2".to_owned(),
        ])
    }

    #[test]
    fn a_peer_that_is_too_far_ahead_waits_until_its_operation_begins_and_others_do_not() {
        let mailbox = mailbox();
        let most = MAILBOX_BYTES_MAX - MESSAGE_OVERHEAD_BYTES;
        mailbox
            .put(1, key(1), message(most))
            .now_or_never()
            .unwrap()
            .unwrap();
        let mut second = Box::pin(mailbox.put(1, key(2), message(1)));
        assert!(second.as_mut().now_or_never().is_none(), "there is no room");
        mailbox
            .put(2, key(2), message(1))
            .now_or_never()
            .unwrap()
            .unwrap();
        let mut receiver = mailbox.enter(key(1)).unwrap();
        assert_eq!(receiver.try_take().unwrap().unwrap().1.bytes(), most);
        assert_eq!(second.now_or_never(), Some(Ok(())));
        // Messages of an operation in progress do not count.
        for _ in 0..3 {
            mailbox
                .put(1, key(1), message(most))
                .now_or_never()
                .unwrap()
                .unwrap();
        }
    }

    #[test]
    fn messages_without_bytes_are_bounded_too() {
        let mailbox = mailbox();
        let mut taken = 0;
        while let Some(outcome) = mailbox.put(1, key(1), message(0)).now_or_never() {
            match outcome {
                Ok(()) => taken += 1,
                Err(cause) => {
                    assert!(matches!(cause, Cause::InvalidMessage { .. }), "{cause}");
                    break;
                }
            }
            assert!(taken <= MAILBOX_MESSAGES_MAX * 3);
        }
        let mut steps = 0;
        while mailbox
            .put(2, key(2 + steps), message(0))
            .now_or_never()
            .is_some()
        {
            steps += 1;
        }
        assert!(steps as usize <= MAILBOX_BYTES_MAX / MESSAGE_OVERHEAD_BYTES);
    }

    #[test]
    fn an_end_is_the_first_one_and_reaches_all_that_wait() {
        let mailbox = mailbox();
        let mut receiver = mailbox.enter(key(1)).unwrap();
        let mut waiting = Box::pin(receiver.take(1));
        assert!(waiting.as_mut().now_or_never().is_none());
        let first = Cause::Left {
            peer: "worker:1".to_owned(),
        };
        assert!(mailbox.end(first.clone()));
        assert!(!mailbox.end(Cause::Misuse("later".to_owned())));
        assert_eq!(waiting.now_or_never().unwrap().unwrap_err(), first);
        assert_eq!(mailbox.enter(key(2)).unwrap_err(), first);
        assert_eq!(
            mailbox.put(1, key(3), message(1)).now_or_never(),
            Some(Err(first))
        );
    }

    #[test]
    fn what_a_peer_sent_before_it_left_is_taken() {
        let mailbox = mailbox();
        mailbox
            .put(1, key(1), message(4))
            .now_or_never()
            .unwrap()
            .unwrap();
        mailbox.leave(1);
        let mut receiver = mailbox.enter(key(1)).unwrap();
        assert!(receiver.take(1).now_or_never().unwrap().is_ok());
        let cause = receiver.take(1).now_or_never().unwrap().unwrap_err();
        assert_eq!(
            cause,
            Cause::Left {
                peer: "worker:1".to_owned()
            }
        );
        assert!(
            receiver.take(2).now_or_never().is_none(),
            "the other one may still send"
        );
    }

    #[test]
    fn an_operation_is_under_way_once() {
        let mailbox = mailbox();
        let receiver = mailbox.enter(key(1)).unwrap();
        assert!(matches!(mailbox.enter(key(1)), Err(Cause::Misuse(_))));
        drop(receiver);
        assert!(mailbox.enter(key(1)).is_ok());
    }
}
