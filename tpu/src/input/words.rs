//! The words of a block of command nodes, one after the other: which kind each is, and which belong together.
//!
//! Owns the grammar (see [`crate::input::nodes`] for the meaning of the kinds) and where it starts again after a lost
//! word. A kernel's name is text, and no word of a node looks like text.

use crate::input::nodes::Mode;

/// An item of a block of command nodes: one word or several that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// A kernel begins: its name.
    Name(&'a [u8]),
    /// Text that is a kernel's name by its looks, but its head or a word of it is missing.
    DamagedName(&'a [u8]),
    /// A command.
    Command {
        /// The node.
        word: u32,
        /// Sent by the firmware, or generated.
        mode: Mode,
    },
    /// A run of descriptors; the second word is the count.
    Reference {
        /// The node.
        word: u32,
        /// Its second word.
        count: u32,
    },
    /// Ids of an engine begin at 0 again.
    Reset(u32),
    /// A batch begins.
    Batch(u32),
    /// A kernel ends.
    End,
    /// Known, of no use here.
    Other,
    /// The words are no node, for this reason.
    Bad(&'static str),
}

/// Walks a block's payload; gives the place of each item's first word, that word, and the item.
pub(crate) struct Items<'a> {
    payload: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    /// The items from the start of a payload.
    pub fn new(payload: &'a [u8]) -> Items<'a> {
        Items { payload, at: 0 }
    }

    fn word(&self, at: usize) -> Option<u32> {
        let bytes = self.payload.get(at * 4..at * 4 + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn left(&self) -> usize {
        self.payload.len() / 4 - self.at
    }

    /// Words from a place on that can be parts of a name.
    fn text_words(&self, from: usize) -> usize {
        (from..self.payload.len() / 4)
            .take_while(|&at| is_text(&self.payload[at * 4..at * 4 + 4]))
            .count()
    }

    /// A name of `length` bytes, whose words follow the head.
    fn name(&mut self, length: usize) -> Item<'a> {
        let start = self.at;
        let words = length.div_ceil(4);
        if words > self.left() {
            let text = self.text_words(start);
            return if text == 0 {
                Item::Bad("a kernel's name that is longer than the block")
            } else {
                self.damaged(start, text)
            };
        }
        let bytes = &self.payload[start * 4..start * 4 + length];
        let plain = |text: &str| !text.chars().any(char::is_control);
        if std::str::from_utf8(bytes).is_ok_and(plain) {
            self.at += words;
            return Item::Name(bytes);
        }
        let text = self.text_words(start).min(words);
        self.damaged(start, text)
    }

    fn damaged(&mut self, start: usize, words: usize) -> Item<'a> {
        self.at = start + words;
        let bytes = &self.payload[start * 4..self.at * 4];
        let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |at| at + 1);
        Item::DamagedName(&bytes[..end])
    }
}

/// Printable bytes, with zeros at most at the end.
fn is_text(word: &[u8]) -> bool {
    let end = word.iter().position(|&b| b == 0).unwrap_or(word.len());
    let printable = |b: &u8| (0x20..0x7f).contains(b);
    end > 0 && word[..end].iter().all(printable) && word[end..].iter().all(|&b| b == 0)
}

impl<'a> Iterator for Items<'a> {
    type Item = (usize, u32, Item<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let word = self.word(at)?;
        self.at += 1;
        let mode = match word & 0x7f {
            13 => Mode::Rvt,
            _ => Mode::Tdi,
        };
        let item = match word & 0x7f {
            0 if word == 0 => Item::Bad("a word that was never written"),
            0 => self.name((word >> 7) as usize),
            1 | 13 => Item::Command { word, mode },
            8..=11 => match self.word(self.at) {
                Some(count) => {
                    self.at += 1;
                    Item::Reference { word, count }
                }
                None => Item::Bad("a reference to descriptors without its count"),
            },
            12 => Item::Reset(word),
            14 => Item::Batch(word >> 7),
            15 => Item::End,
            2..=7 => Item::Other,
            // A number may look like one or two letters. Four letters in a row are a name.
            _ => match self.text_words(at) * usize::from(word >> 24 != 0) {
                0 if matches!(word & 0x7f, 100 | 127) => Item::Other,
                0 => Item::Bad("a node of unknown type"),
                words => self.damaged(at, words),
            },
        };
        Some((at, word, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(words: &[&[u8; 4]]) -> Vec<String> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.iter().copied()).collect();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Items::new(&bytes)
            .map(|(at, _, item)| match item {
                Item::Name(name) => format!("{at} name {}", text(name)),
                Item::DamagedName(name) => format!("{at} damaged {}", text(name)),
                Item::Command { .. } => format!("{at} command"),
                Item::Bad(what) => format!("{at} {what}"),
                other => format!("{at} {other:?}"),
            })
            .collect()
    }

    /// The head of a name of eight bytes.
    const HEAD: &[u8; 4] = &[0, 4, 0, 0];
    const NODE: &[u8; 4] = &[0x81, 0, 0, 0];

    #[test]
    fn names_that_lost_a_word_cost_no_command() {
        assert_eq!(
            items(&[HEAD, b"kern", b"el_1", NODE]),
            ["0 name kernel_1", "3 command"]
        );
        assert_eq!(
            items(&[b"kern", b"el_1", NODE]),
            ["0 damaged kernel_1", "2 command"]
        );
        assert_eq!(
            items(&[HEAD, b"el_1", NODE]),
            ["0 damaged el_1", "2 command"]
        );
        assert_eq!(items(&[HEAD, b"dot\0"]), ["0 damaged dot"]);
        assert_eq!(
            items(&[b"dot_", b"1\0\0\0", NODE]),
            ["0 damaged dot_1", "2 command"]
        );
    }

    #[test]
    fn what_is_no_node_is_said() {
        assert_eq!(items(&[&[77, 0, 0, 1]]), ["0 a node of unknown type"]);
        assert_eq!(
            items(&[&[8, 0, 0, 0]]),
            ["0 a reference to descriptors without its count"]
        );
        assert_eq!(
            items(&[&[0, 200, 0, 0], NODE]),
            [
                "0 a kernel's name that is longer than the block",
                "1 command"
            ]
        );
    }
}
