//! Names of cuts: they tell which cut of a server its caller holds.

/// The cut that a caller holds, as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmed {
    /// The latest cut: the server did not know yet that the caller holds it.
    Now,
    /// The cut that the caller held at an earlier request, too.
    Before,
    /// None, or an unknown one.
    Never,
}

/// The cuts that increments may count from, by name.
#[derive(Debug, Default)]
pub(crate) struct NamedCuts {
    /// The latest cut. Its file may be lost.
    latest: Option<String>,
    /// The cut whose file the caller holds.
    confirmed: Option<String>,
}

impl NamedCuts {
    /// Records a cut.
    pub(crate) fn add(&mut self, name: String) {
        self.latest = Some(name);
    }

    /// Records that the caller holds a cut.
    pub(crate) fn confirm(&mut self, name: Option<&str>) -> Confirmed {
        if name.is_none() {
            return Confirmed::Never;
        }
        if name == self.confirmed.as_deref() {
            return Confirmed::Before;
        }
        if name == self.latest.as_deref() {
            self.confirmed.clone_from(&self.latest);
            return Confirmed::Now;
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
        cuts.add("b".to_owned());
        assert_eq!(cuts.confirm(Some("lost")), Confirmed::Never);
        assert_eq!(cuts.confirm(Some("a")), Confirmed::Before);
        assert_eq!(cuts.confirm(Some("b")), Confirmed::Now);
        assert_eq!(cuts.confirm(Some("a")), Confirmed::Never);
    }
}
