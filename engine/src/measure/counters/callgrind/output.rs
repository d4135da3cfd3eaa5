//! The end of callgrind's output: the names of its events, and a total of each.

use std::collections::BTreeMap;

/// Totals by event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Totals(BTreeMap<String, u64>);

impl Totals {
    /// Reads a `callgrind.out` file.
    ///
    /// # Errors
    /// Fails if there are no events or no totals, or if a total is not a number.
    pub fn parse(text: &str) -> Result<Totals, String> {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let events = line("events:").ok_or("its file names no events")?;
        // The summary is of one dump, the totals of all; older versions have the summary alone.
        let totals = line("totals:").or_else(|| line("summary:"));
        let totals = totals.ok_or("its file has no totals")?;
        let numbers = totals.split_whitespace().map(|number| {
            let read: Result<u64, _> = number.parse();
            read.map_err(|_| format!("its total `{number}` is no number"))
        });
        let mut values = numbers.collect::<Result<Vec<u64>, String>>()?;
        let names: Vec<&str> = events.split_whitespace().collect();
        if values.len() > names.len() {
            return Err("its file has more totals than events".to_owned());
        }
        // Zeros at the end are left out of the line.
        values.resize(names.len(), 0);
        if values[..1] == [0] || names.is_empty() {
            return Err("it saw no instruction of the kernel".to_owned());
        }
        let pairs = names.into_iter().map(str::to_owned).zip(values);
        Ok(Totals(pairs.collect()))
    }

    /// The sum of some events. Fails with the first event that is missing.
    pub fn sum<'a>(&self, events: &[&'a str]) -> Result<f64, &'a str> {
        events.iter().try_fold(0.0, |sum, event| {
            let total = self.0.get(*event).ok_or(*event)?;
            Ok(sum + *total as f64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_and_zeros_at_the_end_are_left_out_of_the_line() {
        let text =
            "# callgrind format\nevents: Ir Dr Dw I1mr D1mr\nfn=(1) main\n1 2\ntotals: 67855 9 8\n";
        let totals = Totals::parse(text).unwrap();
        assert_eq!(totals.sum(&["Ir"]), Ok(67855.0));
        assert_eq!(totals.sum(&["Dr", "Dw", "D1mr"]), Ok(17.0));
        assert_eq!(totals.sum(&["Ir", "Bc"]), Err("Bc"));
    }

    #[test]
    fn damaged_files_are_refused() {
        for (text, reason) in [
            ("", "names no events"),
            ("events: Ir\n", "no totals"),
            ("events: Ir\ntotals: many\n", "is no number"),
            ("events: Ir\ntotals: 1 2\n", "more totals"),
            ("events: Ir Dr\ntotals: 0 0\n", "no instruction"),
        ] {
            let error = Totals::parse(text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
