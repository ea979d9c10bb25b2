//! Names of cuts: they tell which cut of a server its caller holds.

/// The cut that a caller holds, as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmed {
    /// The latest cut: the server did not know yet that the caller holds it.
    Now,
    /// The cut that the caller held at an earlier request, too, or one after it.
    Before,
    /// None, or an unknown one.
    Never,
}

/// The cuts that increments may count from, by name.
#[derive(Debug, Default)]
pub(crate) struct NamedCuts {
    /// The latest cut. Its file may be lost.
    latest: Option<String>,
    /// The cut before the latest one, if it is later than the confirmed one. Its caller may hold it, and have asked for a base
    /// for others since.
    before: Option<String>,
    /// The cut whose file the caller holds.
    confirmed: Option<String>,
}

impl NamedCuts {
    /// Records a cut.
    pub(crate) fn add(&mut self, name: String) {
        let latest = self.latest.replace(name);
        self.before = latest.filter(|latest| self.confirmed.as_ref() != Some(latest));
    }

    /// Records that the caller holds a cut. The rows since the confirmed cut include those since the cut before the latest
    /// one, so increments may count from that one, too.
    pub(crate) fn confirm(&mut self, name: Option<&str>) -> Confirmed {
        if name.is_none() {
            return Confirmed::Never;
        }
        if name == self.confirmed.as_deref() {
            return Confirmed::Before;
        }
        if name == self.latest.as_deref() {
            self.confirmed.clone_from(&self.latest);
            self.before = None;
            return Confirmed::Now;
        }
        if name == self.before.as_deref() {
            self.confirmed = self.before.take();
            return Confirmed::Before;
        }
        Confirmed::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_counts_once_its_caller_has_named_it_and_until_a_later_one_is_named() {
        let mut cuts = NamedCuts::default();
        assert_eq!(cuts.confirm(None), Confirmed::Never);
        cuts.add("a".to_owned());
        assert_eq!(cuts.confirm(Some("a")), Confirmed::Now);
        assert_eq!(cuts.confirm(Some("a")), Confirmed::Before);
        cuts.add("lost".to_owned());
        cuts.add("another".to_owned());
        cuts.add("b".to_owned());
        assert_eq!(cuts.confirm(Some("lost")), Confirmed::Never);
        assert_eq!(cuts.confirm(Some("a")), Confirmed::Before);
        assert_eq!(cuts.confirm(Some("b")), Confirmed::Now);
        assert_eq!(cuts.confirm(Some("a")), Confirmed::Never);
    }

    #[test]
    fn a_cut_may_be_named_after_a_base_that_its_caller_has_asked_for_since() {
        let mut cuts = NamedCuts::default();
        cuts.add("a".to_owned());
        assert_eq!(cuts.confirm(Some("a")), Confirmed::Now);
        cuts.add("b".to_owned());
        cuts.add("base for others".to_owned());
        assert_eq!(cuts.confirm(Some("b")), Confirmed::Before);
        cuts.add("lost".to_owned());
        assert_eq!(cuts.confirm(Some("b")), Confirmed::Before);
        cuts.add("c".to_owned());
        assert_eq!(cuts.confirm(Some("c")), Confirmed::Now);
        assert_eq!(cuts.confirm(Some("b")), Confirmed::Never);
    }
}
