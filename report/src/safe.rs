//! Text that is safe on a terminal: names of models, operators and files come from outside and may hold escape sequences.
//!
//! Only line breaks, tabs and the colours of [`crate::Style`] are kept. The text's meaning does not matter.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

use crate::Colour;

/// Replaces a control character.
const REPLACEMENT: char = '\u{fffd}';

/// A text without control characters, other than line breaks and tabs. With colour, sequences that only choose a colour stay.
pub fn printable(text: &str, colour: Colour) -> Cow<'_, str> {
    if text.chars().all(|c| !is_control(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match colour_sequence(c, &rest) {
            Some(length) if colour == Colour::On => {
                safe.push(c);
                safe.extend(rest.by_ref().take(length));
            }
            _ if is_control(c) => safe.push(REPLACEMENT),
            _ => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// A JSON text with its control characters escaped: those beyond ASCII may stand in JSON as they are.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| !is_control(c)) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|c| match is_control(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    });
    Cow::Owned(escaped.collect())
}

fn is_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

/// Characters after an escape that make a sequence `ESC [ digits m`.
fn colour_sequence(first: char, rest: &Peekable<Chars<'_>>) -> Option<usize> {
    if first != '\x1b' {
        return None;
    }
    let mut ahead = rest.clone();
    if ahead.next() != Some('[') {
        return None;
    }
    let mut length = 1;
    for c in ahead {
        length += 1;
        match c {
            '0'..='9' => {}
            'm' => return Some(length),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_go_and_colours_stay_where_there_are_any() {
        let hostile = "a\x1b]0;title\x07b\x1b[2Jc\r\x08d\u{9b}31m";
        let safe = printable(hostile, Colour::Off);
        assert!(!safe.chars().any(is_control), "{safe:?}");
        assert_eq!(safe, printable(hostile, Colour::On), "none is a colour");
        assert_eq!(
            printable("\x1b[31mred\x1b[0m\n", Colour::On),
            "\x1b[31mred\x1b[0m\n"
        );
        assert!(!printable("\x1b[31mred", Colour::Off).contains('\x1b'));
        assert!(matches!(
            printable("plain\tµs\n", Colour::Off),
            Cow::Borrowed(_)
        ));
    }

    #[test]
    fn json_keeps_its_meaning() {
        assert_eq!(
            printable_json("{\"a\":\"\u{9b}\u{7f}\"}"),
            "{\"a\":\"\\u009b\\u007f\"}"
        );
    }
}
