//! Ways to train: whoever dies, pauses or comes back, each batch counts once and each job ends by itself.

mod divided;
mod durability;
mod in_graph;
mod ledger;
mod plateau;
mod replicas;
mod restarts;
mod stale_synchronous;
mod synchronous;
mod table;
mod trial;

use trial::Trial;
