//! Members in one process: what one sends is in the other's mailbox, by reference.

use std::pin::Pin;
use std::sync::Arc;

use crate::collective::Collective;
use crate::deposit::{Deposit, Key};
use crate::error::Cause;
use crate::group::{Deadlines, Group};
use crate::mailbox::Mailbox;
use crate::transport::{Sent, Transport};

#[derive(Debug)]
struct Local {
    rank: usize,
    mailboxes: Arc<[Arc<Mailbox>]>,
}

/// Returns the members of a group of `size` replicas in this process, by rank. Each belongs to a task of its own: an
/// operation ends when all have begun it. Farewells and forming take no time here; only `deadlines.silence` counts.
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
    fn send(&self, to: usize, key: Key, deposit: Deposit) -> Sent<'_> {
        Box::pin(self.mailboxes[to].put(self.rank, key, deposit))
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
