//! The batches that the servers of tables have applied, beside dense variables that workers hold.
//!
//! A member of the process group finishes a step once the servers of tables have acknowledged all rows of the step. It
//! may then push the rows of its next step, while another member still finishes the one before. So tables have all
//! batches of every dense copy, and at most those of two steps beyond it.

use trainyard_parameter_store::ShardPosition;

/// Steps by which tables may be ahead of the copies of the dense variables that are left, when members have died.
const STEPS_AHEAD_MAX: u64 = 2;

/// The batches that the servers of tables have applied at the beginning of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablePositions {
    /// First batch that some server has not applied.
    first_missing: u64,
    /// Batch behind the last one that some server has applied.
    end: u64,
    /// Batches of a step.
    lanes: u64,
}

impl TablePositions {
    /// Returns the positions of servers of tables in the data that the chief hands out. `None` if there is no server.
    pub fn of(servers: impl Iterator<Item = Vec<ShardPosition>>, lanes: u64) -> Option<Self> {
        let applied = |positions: Vec<ShardPosition>| {
            let position = positions.into_iter().find(|position| position.shard == 0);
            let Some(position) = position else {
                return (0, 0);
            };
            let end = position.ahead.last().map_or(0, |range| range.end);
            (position.batch, end.max(position.batch))
        };
        let all = servers.map(applied);
        let (first_missing, end) =
            all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
        Some(Self {
            first_missing,
            end,
            lanes,
        })
    }

    /// Returns why a copy of the dense variables that has had the batches below `applied` does not belong to these
    /// tables; `None` if it does.
    pub(crate) fn misfit(&self, applied: u64) -> Option<String> {
        let Self {
            first_missing,
            end,
            lanes,
        } = *self;
        if applied > first_missing {
            return Some(format!(
                "the parameter servers have not applied batch {first_missing}, which the dense variables of the tasks \
                that train have had"
            ));
        }
        let most = applied.saturating_add(STEPS_AHEAD_MAX * lanes);
        (end > most).then(|| {
            format!(
                "no task that trains holds the dense variables that belong to the tables: the parameter servers have \
                applied batches up to {end}, the newest dense variables {applied}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn server(batch: u64, ahead: &[Range<u64>]) -> Vec<ShardPosition> {
        vec![ShardPosition {
            shard: 0,
            pass: 0,
            batch,
            ahead: ahead.to_vec(),
        }]
    }

    #[test]
    fn dense_variables_belong_to_tables_that_have_their_batches_and_up_to_two_steps_more() {
        let servers = [server(30, std::slice::from_ref(&(32..33))), server(31, &[])];
        let tables = TablePositions::of(servers.into_iter(), 3).expect("there are servers");
        let fits: Vec<u64> = (0..40)
            .filter(|applied| tables.misfit(*applied).is_none())
            .collect();
        assert_eq!(fits, (27..=30).collect::<Vec<_>>());
        assert!(
            tables
                .misfit(31)
                .is_some_and(|why| why.contains("batch 30"))
        );
        assert!(tables.misfit(24).is_some_and(|why| why.contains("33")));
    }

    #[test]
    fn a_server_that_has_applied_nothing_misses_the_first_batch() {
        let servers = [server(6, &[]), Vec::new()];
        let tables = TablePositions::of(servers.into_iter(), 3).expect("there are servers");
        assert!(tables.misfit(6).is_some_and(|why| why.contains("batch 0")));
        assert_eq!(tables.misfit(0), None);
        assert_eq!(TablePositions::of(std::iter::empty(), 3), None);
    }
}
