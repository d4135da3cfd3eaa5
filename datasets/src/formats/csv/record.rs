//! A record of a CSV file as the texts of its cells, without their quotes.
//!
//! For records that [`scan`](super::scan) accepts. Texts are passed on one by one, to read a row from.

use crate::formats::layout::ABSENT;
use crate::schema::TextCells;

/// The fields of a record.
pub(super) struct CsvRecord<'a> {
    /// The record's text, from its first byte to its line end.
    pub text: &'a str,
    /// Where the record begins and its fields end in the piece.
    pub begin: usize,
    pub ends: &'a [u32],
    /// Position in the file of each column of the schema.
    pub positions: &'a [usize],
    /// A column that is left out.
    pub skipped: Option<usize>,
    /// The last field whose quotes were doubled.
    pub unquoted: String,
}

impl TextCells for CsvRecord<'_> {
    fn text(&mut self, column: usize) -> Option<&str> {
        let place = self.positions[column];
        if self.skipped == Some(column) || place == ABSENT {
            return Some("");
        }
        let from = match place.checked_sub(1) {
            Some(before) => self.ends[before] as usize + 1 - self.begin,
            None => 0,
        };
        let field = &self.text[from..self.ends[place] as usize - self.begin];
        // A pattern of bytes: `strip_prefix` calls `memcmp`, which took a sixth of the time of reading (2026-12-01).
        let inner = match field.as_bytes() {
            // The scanner found the quote that closes it.
            [b'"', .., b'"'] => &field[1..field.len() - 1],
            [b'"', ..] => return None,
            _ => return Some(field),
        };
        if !inner.as_bytes().contains(&b'"') {
            return Some(inner);
        }
        single_quotes(inner, &mut self.unquoted);
        Some(&self.unquoted)
    }
}

/// The text of a field whose quotes are doubled.
fn single_quotes(inner: &str, text: &mut String) {
    text.clear();
    text.reserve(inner.len());
    let mut rest = inner;
    while let Some(quote) = rest.as_bytes().iter().position(|byte| *byte == b'"') {
        text.push_str(&rest[..=quote]);
        rest = rest.get(quote + 2..).unwrap_or_default();
    }
    text.push_str(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::csv::line;
    use crate::formats::csv::scan::field_ends;
    use crate::row::any_row;
    use crate::schema::COLUMNS;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_in_the_place_of_another_is_as_if_it_were_alone(
            before in any_row(),
            after in any_row(),
        ) {
            let text = line(&after);
            let mut ends = Vec::new();
            field_ends(&text, &mut ends).unwrap();
            let positions: Vec<usize> = (0..COLUMNS.len()).collect();
            let mut record = CsvRecord {
                text: str::from_utf8(&text).unwrap(),
                begin: 0,
                ends: &ends,
                positions: &positions,
                skipped: None,
                unquoted: String::new(),
            };
            let mut row = before;
            prop_assert_eq!(row.read(&mut record), Some(()));
            prop_assert_eq!(row, after);
        }
    }
}
