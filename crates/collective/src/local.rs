//! Members in one process: a message goes into the other member's mailbox by reference.

use std::pin::Pin;
use std::sync::Arc;

use crate::collective::Collective;
use crate::error::Cause;
use crate::group::{Deadlines, Group};
use crate::mailbox::Mailbox;
use crate::message::{GroupMessage, Key};
use crate::transport::{Sent, Transport};

#[derive(Debug)]
struct Local {
    rank: usize,
    mailboxes: Arc<[Arc<Mailbox>]>,
}

/// Returns the members of a group of `size` replicas in this process, by rank. Each must be used by a task of its own,
/// because an operation ends only when all members have begun it. Leaving and forming take no time here, so only
/// `deadlines.silence` counts.
pub fn local(generation: u64, size: usize, deadlines: Deadlines) -> Vec<Collective> {
    let names: Vec<String> = (0..size).map(|rank| format!("replica {rank}")).collect();
    let mailboxes: Arc<[Arc<Mailbox>]> = (0..size)
        .map(|_| Arc::new(Mailbox::new(names.clone())))
        .collect();
    let member = |rank: usize| {
        let transport = Local {
            rank,
            mailboxes: Arc::clone(&mailboxes),
        };
        let mailbox = Arc::clone(&mailboxes[rank]);
        Collective::new(
            Group {
                generation,
                rank,
                size,
            },
            mailbox,
            Box::new(transport),
            deadlines,
        )
    };
    (0..size).map(member).collect()
}

impl Local {
    fn others(&self) -> impl Iterator<Item = &Arc<Mailbox>> {
        self.mailboxes
            .iter()
            .enumerate()
            .filter(|(rank, _)| *rank != self.rank)
            .map(|(_, mailbox)| mailbox)
    }
}

impl Transport for Local {
    fn send(&self, to: usize, key: Key, message: GroupMessage) -> Sent<'_> {
        Box::pin(self.mailboxes[to].put(self.rank, key, message))
    }

    fn tell(&self, cause: &Cause) {
        let by = self.mailboxes[self.rank].name(self.rank);
        let reason = cause.reason();
        for mailbox in self.others() {
            mailbox.end(Cause::Aborted {
                by: by.clone(),
                reason: reason.clone(),
            });
        }
    }

    fn leave(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.others().for_each(|mailbox| mailbox.leave(self.rank));
    }
}
