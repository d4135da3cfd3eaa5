//! Large CSV files, read in pieces on all cores.
//!
//! A piece is assumed to begin after its first line end, and used only if the piece before ends just there. So a line
//! end inside quotes costs a second look and changes nothing. Anything unusual (a fault, a torn end, text that
//! [`scan`](super::scan) refuses) is left to the full reader, which defines rows and errors.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use rayon::prelude::*;

use super::record::CsvRecord;
use super::scan::{Odd, field_ends};
use crate::schema::{Row, SCHEMA_VERSION};

/// Bytes of a piece: enough to be worth a task, and within a core's cache.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Pieces under way, for each core.
const PIECES_A_CORE: usize = 8;
/// Bytes after a piece's end in which its last record is looked for at first.
const OVERHANG_BYTES: u64 = 16 << 10;
/// A longer record is a mistake, such as a quote that is never closed.
const LONGEST_OVERHANG_BYTES: u64 = 64 << 20;

/// How to read a file.
#[derive(Clone, Copy)]
pub(super) struct PieceReader<'a> {
    /// The file.
    pub file: &'a File,
    /// Position in the file of each column of the schema.
    pub positions: &'a [usize],
    /// The column that is left out, if one is.
    pub skipped: Option<usize>,
    /// Bytes of a piece.
    pub piece_bytes: u64,
    /// Memory that was used before and is free again; fresh memory costs more than the reading.
    pub spare: &'a Spare,
}

/// Takes the rows of a piece. Rows left in the list are dropped afterwards.
pub(super) type Take<'a, E> = dyn FnMut(&mut Vec<Row>) -> Result<(), E> + Send + 'a;

/// Why there are no more rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop<E> {
    /// The slower reader must read the piece.
    Odd,
    /// Whoever takes them failed.
    Taker(E),
}

impl<E> From<Odd> for Stop<E> {
    fn from(Odd: Odd) -> Self {
        Self::Odd
    }
}

/// Memory to use again.
#[derive(Default)]
pub(super) struct Spare {
    texts: Mutex<Vec<Text>>,
    rows: Mutex<Vec<Vec<Row>>>,
}

/// The bytes of a piece, and where its fields end.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

/// The list put back last, or a new one.
fn taken<T: Default>(spare: &Mutex<Vec<T>>) -> T {
    let last = spare.lock().ok().and_then(|mut all| all.pop());
    last.unwrap_or_default()
}

fn put_back<T>(spare: &Mutex<Vec<T>>, used: T) {
    if let Ok(mut all) = spare.lock() {
        all.push(used);
    }
}

/// Where a piece's first record begins.
#[derive(Clone, Copy)]
enum Start {
    /// The record begins at this byte.
    At(u64),
    /// The record begins after the first line end at or after this byte. A quoted field may prove this wrong.
    Behind(u64),
}

/// The records that begin between its start and its limit.
struct Piece {
    start: u64,
    limit: u64,
    /// Where the last of them ends, and their rows.
    read: Result<(u64, Vec<Row>), Odd>,
}

impl PieceReader<'_> {
    /// Passes on the rows from the byte `first` on, where a record begins, in their order and in batches.
    ///
    /// # Errors
    /// Fails with [`Stop::Odd`] if the patient reader has to read on after the rows handed out.
    pub fn each<E: Send>(self, first: u64, take: &mut Take<'_, E>) -> Result<(), Stop<E>> {
        let total = self.file.metadata().map_err(|_| Odd)?.len();
        let mut bounds: Vec<u64> = (first..total).step_by(self.piece_bytes as usize).collect();
        bounds.push(total);
        let spans: Vec<&[u64]> = bounds.windows(2).collect();
        let mut at = first;
        let mut ready: Vec<Piece> = Vec::new();
        for window in spans.chunks(PIECES_A_CORE * rayon::current_num_threads()) {
            let pieces = std::mem::take(&mut ready);
            // One thread passes on the rows read before while the others continue.
            let (handed, read) = rayon::join(
                || self.hand_out(take, &mut at, pieces),
                || {
                    let one = |span: &&[u64]| {
                        let start = if span[0] == first {
                            Start::At(first)
                        } else {
                            Start::Behind(span[0] - 1)
                        };
                        self.piece(start, span[1])
                    };
                    window.par_iter().map(one).collect::<io::Result<_>>()
                },
            );
            handed?;
            ready = read.map_err(|_| Odd)?;
        }
        self.hand_out(take, &mut at, ready)?;
        if at == total { Ok(()) } else { Err(Odd.into()) }
    }

    /// Hands out the rows of pieces in their order; `at` is where the last record so far ends.
    fn hand_out<E>(
        self,
        take: &mut Take<'_, E>,
        at: &mut u64,
        pieces: Vec<Piece>,
    ) -> Result<(), Stop<E>> {
        for piece in pieces {
            // A record of an earlier piece may reach beyond a whole piece.
            if *at >= piece.limit {
                continue;
            }
            let guessed_right = piece.start == *at;
            let (end, mut rows) = if guessed_right {
                piece.read?
            } else {
                let again = self.piece(Start::At(*at), piece.limit);
                again.map_err(|_| Odd)?.read?
            };
            *at = end;
            take(&mut rows).map_err(Stop::Taker)?;
            // The rows left in the list are overwritten by its next user.
            put_back(&self.spare.rows, rows);
        }
        Ok(())
    }

    fn piece(self, start: Start, limit: u64) -> io::Result<Piece> {
        let from = match start {
            Start::At(from) | Start::Behind(from) => from,
        };
        let mut text = taken(&self.spare.texts);
        let piece = self.piece_in(&mut text, start, from, limit);
        put_back(&self.spare.texts, text);
        piece
    }

    fn piece_in(self, text: &mut Text, start: Start, from: u64, limit: u64) -> io::Result<Piece> {
        let total = self.file.metadata()?.len();
        let mut overhang = OVERHANG_BYTES;
        loop {
            let to = total.min(limit + overhang);
            text.bytes.resize((to - from) as usize, 0);
            self.file.read_exact_at(&mut text.bytes, from)?;
            let begin = match start {
                Start::At(_) => 0,
                Start::Behind(_) => text
                    .bytes
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(text.bytes.len(), |line_end| line_end + 1),
            };
            let start = from + begin as u64;
            let piece = |read| Piece { start, limit, read };
            if start >= limit {
                return Ok(piece(Ok((start, Vec::new()))));
            }
            match self.records(
                &text.bytes[begin..],
                &mut text.ends,
                (limit - start) as usize,
            ) {
                Ok(Some((length, rows))) => {
                    return Ok(piece(Ok((start + length as u64, rows))));
                }
                Ok(None) if to < total && overhang < LONGEST_OVERHANG_BYTES => overhang *= 8,
                Ok(None) | Err(Odd) => return Ok(piece(Err(Odd))),
            }
        }
    }

    /// The rows of all records that begin in the first `limit` bytes of `text`, and their length. Nothing if the last
    /// of them is cut off.
    fn records(
        self,
        text: &[u8],
        ends: &mut Vec<u32>,
        limit: usize,
    ) -> Result<Option<(usize, Vec<Row>)>, Odd> {
        ends.clear();
        field_ends(text, ends)?;
        // Rows that nobody took are overwritten.
        let mut rows = taken(&self.spare.rows);
        let mut count = 0;
        let mut begin = 0;
        let mut records = ends.chunks_exact(super::fields(self.positions));
        while begin < limit {
            let Some(record) = records.next() else {
                return Ok(None);
            };
            let (last, inner) = record.split_last().ok_or(Odd)?;
            let as_many_fields = text[*last as usize] == b'\n'
                && inner.iter().all(|end| text[*end as usize] == b',');
            if !as_many_fields {
                return Err(Odd);
            }
            if count == rows.len() {
                rows.push(Row::initial());
            }
            self.read(&mut rows[count], text, begin, record)?;
            count += 1;
            begin = *last as usize + 1;
        }
        rows.truncate(count);
        Ok(Some((begin, rows)))
    }

    /// Overwrites `row` with the record that begins at `begin` and whose fields end at `ends`.
    fn read(self, row: &mut Row, text: &[u8], begin: usize, ends: &[u32]) -> Result<(), Odd> {
        let end = ends.last().map_or(begin, |end| *end as usize);
        let mut record = CsvRecord {
            text: str::from_utf8(&text[begin..end]).map_err(|_| Odd)?,
            begin,
            ends,
            positions: self.positions,
            skipped: self.skipped,
            unquoted: String::new(),
        };
        row.read(&mut record).ok_or(Odd)?;
        let valid = row.schema_version == SCHEMA_VERSION && row.validate().is_ok();
        if valid { Ok(()) } else { Err(Odd) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::csv::{CsvRows, header, line};
    use crate::row::skipped;
    use crate::schema::COLUMNS;
    use proptest::prelude::*;

    /// The results of both readers for a file, where they have one: the fast one with pieces of this many bytes.
    fn both(text: &[u8], piece_bytes: u64) -> [Option<Vec<Row>>; 2] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        std::fs::write(&path, text).unwrap();
        let positions: Vec<usize> = (0..COLUMNS.len()).collect();
        let reading = PieceReader {
            file: &File::open(&path).unwrap(),
            positions: &positions,
            skipped: None,
            piece_bytes,
            spare: &Spare::default(),
        };
        let patient = CsvRows::open(&path).unwrap().collect::<Result<_, _>>().ok();
        let mut fast = Vec::new();
        let read = reading.each(header().len() as u64, &mut |rows: &mut Vec<Row>| {
            // The rows left in the list are reused.
            fast.extend_from_slice(rows);
            Ok::<_, ()>(())
        });
        [read.is_ok().then_some(fast), patient]
    }

    fn file(reasons: &[String]) -> Vec<u8> {
        let mut text = header();
        for (place, reason) in reasons.iter().enumerate() {
            let mut row = skipped(place as u64);
            row.reason = Some(format!("because: {reason}"));
            row.target_cpu = (place % 2 == 0)
                .then(|| reason.clone())
                .filter(|r| !r.is_empty());
            text.extend(line(&row));
        }
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn rows_are_those_of_the_patient_reader(
            reasons in prop::collection::vec("[a,\"\n\r é]{0,90}", 1..30),
            piece_bytes in 1u64..2000,
        ) {
            let [fast, patient] = both(&file(&reasons), piece_bytes);
            prop_assert!(patient.is_some());
            prop_assert_eq!(fast, patient);
        }

        /// A damaged file is left to the patient reader, unless it makes no difference.
        #[test]
        fn damage_is_not_read_over(
            reasons in prop::collection::vec("[a,\"\n]{0,30}", 1..6),
            piece_bytes in 1u64..2000,
            place in 0f64..1.0,
            byte in prop::sample::select(b"\"\n\r,x\xff1".to_vec()),
        ) {
            let mut text = file(&reasons);
            let head = header().len();
            let place = head + (place * (text.len() - head) as f64) as usize;
            text[place] = byte;
            let [fast, patient] = both(&text, piece_bytes);
            if fast.is_some() {
                prop_assert_eq!(fast, patient);
            }
        }
    }

    #[test]
    fn a_torn_end_is_left_to_the_patient_reader() {
        let mut text = file(&["a".to_owned(), "b".to_owned()]);
        text.pop();
        assert_eq!(both(&text, 100), [None, None]);
        assert_eq!(both(&header(), 100), [Some(Vec::new()), Some(Vec::new())]);
    }
}
