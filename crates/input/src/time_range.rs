//! The range of times, in files and in requests: a number beyond the year 9999 is a time of a smaller unit.

use crate::rule::RowRule;
use crate::{Batch, Cells, TimeUnit};

/// First second of the year 1 and last one of the year 9999, since 1970: the range of `datetime` of Python and of SQL.
const SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The years 1980 to 2100, in which the times of most records are.
const SECONDS_OF_TODAY: std::ops::Range<i64> = 315_532_800..4_102_444_800;

/// The placeholder of a missing time.
pub(crate) const MISSING_TIME: i64 = i64::MIN;

/// The rule that the times of a field are in the range of [`SECONDS`].
#[derive(Debug)]
pub(crate) struct TimeRange {
    pub(crate) field: usize,
    pub(crate) unit: TimeUnit,
}

impl RowRule for TimeRange {
    fn check(&self, batch: &Batch, row: usize) -> Result<(), String> {
        let column = &batch.columns[self.field];
        let Cells::Int(times) = &column.cells else {
            return Ok(());
        };
        let places = match &column.offsets {
            Some(_) => column.row(row, batch.rows),
            None => row..row + 1,
        };
        let is_outside = |time: &&i64| {
            **time != MISSING_TIME && !SECONDS.contains(&time.div_euclid(self.unit.per_second()))
        };
        let mut times = times.get(places).unwrap_or_default().iter();
        let Some(time) = times.find(is_outside) else {
            return Ok(());
        };
        let name = self.unit.name();
        let year = if *time > 0 {
            "beyond the year 9999"
        } else {
            "before the year 1"
        };
        let is_of_today =
            |unit: &TimeUnit| SECONDS_OF_TODAY.contains(&time.div_euclid(unit.per_second()));
        let mut units = TimeUnit::NAMES.into_iter();
        let other = match units.find(|(_, unit)| is_of_today(unit)) {
            Some((other, _)) => format!(", or set time_unit = {other:?} in the feature"),
            None => String::new(),
        };
        Err(format!(
            "expected a time in {name} since 1970, the time_unit of the feature, given {time}, which is {year}: give it in {name}{other}"
        ))
    }
}
