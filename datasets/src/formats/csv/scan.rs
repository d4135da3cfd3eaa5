//! Where the fields of CSV text end, found 64 bytes at a time.
//!
//! Only text that every reader understands alike is scanned. A field is either free of quotes or quoted as a whole,
//! with quotes inside doubled. A record ends with `\n`. Anything else is [`Odd`], for the patient reader to judge.

use wide::u8x16;

/// Bytes of a block.
const BLOCK: usize = 64;

/// Text that this scanner does not accept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Odd;

/// Bits of the bytes of a block that are equal to `byte`, the first byte lowest.
fn bits(block: &[u8; BLOCK], byte: u8) -> u64 {
    let wanted = u8x16::splat(byte);
    let (lanes, _) = block.as_chunks::<16>();
    lanes.iter().enumerate().fold(0, |all, (place, lane)| {
        let mask = u8x16::new(*lane).cmp_eq(wanted).move_mask();
        all | u64::from(mask as u16) << (16 * place)
    })
}

/// The parity of the bits up to and including each bit.
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Appends to `ends` the position of every comma and line end outside quotes. `text` starts with a record.
///
/// # Errors
/// Fails if a quote, a line end or a byte after a quote is where plain CSV has none.
pub(super) fn field_ends(text: &[u8], ends: &mut Vec<u32>) -> Result<(), Odd> {
    // All bits are set while a field in quotes goes on from the block before.
    let mut inside = 0u64;
    // Whether the byte before lets a field in quotes begin, and whether it closed one.
    let (mut may_open, mut closed) = (1u64, 0u64);
    let mut odd = 0u64;
    let mut padded = [b' '; BLOCK];
    for (place, chunk) in text.chunks(BLOCK).enumerate() {
        let block = match chunk.try_into() {
            Ok(whole) => whole,
            Err(_) => {
                padded[..chunk.len()].copy_from_slice(chunk);
                &padded
            }
        };
        // Bytes after the end of the text do not count.
        let there = u64::MAX >> (BLOCK - chunk.len());
        let quotes = bits(block, b'"');
        let within = parity(quotes) ^ inside;
        let delimiters = (bits(block, b',') | bits(block, b'\n')) & !within;
        let (opening, closing) = (quotes & within, quotes & !within);
        odd |= opening & !((delimiters | closing) << 1 | may_open);
        odd |= (closing << 1 | closed) & !(delimiters | opening) & there;
        odd |= bits(block, b'\r') & !within;
        inside = 0u64.wrapping_sub(within >> 63);
        may_open = (delimiters | closing) >> 63;
        closed = closing >> 63;
        let base = (place * BLOCK) as u32;
        let mut left = delimiters;
        while left != 0 {
            ends.push(base + left.trailing_zeros());
            left &= left - 1;
        }
    }
    if odd == 0 { Ok(()) } else { Err(Odd) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(text: &str) -> Result<Vec<u32>, Odd> {
        let mut ends = Vec::new();
        field_ends(text.as_bytes(), &mut ends).map(|()| ends)
    }

    #[test]
    fn delimiters_inside_quotes_end_nothing() {
        assert_eq!(ends("a,b\n"), Ok(vec![1, 3]));
        assert_eq!(ends("\"a,\n\"\"\",b\n"), Ok(vec![7, 9]));
        assert_eq!(ends("\"\",\n"), Ok(vec![2, 3]));
    }

    #[test]
    fn what_readers_may_understand_differently_is_odd() {
        for text in ["a\"b,c\n", "\"a\"b,c\n", "a,b\r\n", "a\rb\n", "\"a\" ,b\n"] {
            assert_eq!(ends(text), Err(Odd), "{text:?}");
            let far = format!("{}\n{text}", "x".repeat(61));
            assert_eq!(ends(&far), Err(Odd), "{text:?} over the end of a block");
        }
    }

    proptest! {
        #[test]
        fn blocks_make_no_difference(text in "[a,\"\n]{0,200}") {
            let mut wanted = Vec::new();
            let mut quoted = false;
            for (place, byte) in text.bytes().enumerate() {
                match byte {
                    b'"' => quoted = !quoted,
                    b',' | b'\n' if !quoted => wanted.push(place as u32),
                    _ => {}
                }
            }
            if let Ok(found) = ends(&text) {
                prop_assert_eq!(found, wanted);
            }
        }

        /// The full reader finds the same fields in all text that the scanner accepts.
        #[test]
        fn fields_are_those_of_the_csv_crate(text in "([a\"]{0,3}|\"[a,\n]{0,70}(\"\")?\")(,([a\"]{0,2}|\"[a\n]{0,5}\"))\n") {
            let whole = |found: &Vec<u32>| found.last() == Some(&(text.len() as u32 - 1));
            if let Some(found) = ends(&text).ok().filter(whole) {
                let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
                let fields: usize = reader.records().map(|record| record.unwrap().len()).sum();
                prop_assert_eq!(found.len(), fields);
            }
        }
    }
}
