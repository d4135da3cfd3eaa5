//! Arguments of slices, which viewers show beside them and SQL finds in the table `args` as `debug.NAME`.

use super::{Message, TrackState};

/// Fields of `DebugAnnotation`, and its own field in `TrackEvent`.
const ANNOTATION: u32 = 4;
const NAME: u32 = 1;
const INT: u32 = 4;
const DOUBLE: u32 = 5;
const INTERNED_TEXT: u32 = 17;

/// The arguments of a slice under construction; names are given by their place among the writer's.
pub struct Arguments<'a> {
    /// The slice's track.
    pub track: &'a mut TrackState,
    /// The slice's event.
    pub out: &'a mut Message,
}

impl Arguments<'_> {
    /// Adds an integer.
    pub fn int(&mut self, key: usize, value: i64) {
        let key = self.track.key(key);
        self.out.message(ANNOTATION, |arg| {
            arg.uint(NAME, key);
            arg.uint(INT, value as u64);
        });
    }

    /// Adds a number.
    pub fn float(&mut self, key: usize, value: f64) {
        let key = self.track.key(key);
        self.out.message(ANNOTATION, |arg| {
            arg.uint(NAME, key);
            arg.double(DOUBLE, value);
        });
    }

    /// Adds a text, which is written once a track.
    pub fn text(&mut self, key: usize, value: &str) {
        let value = self.track.text(key, value);
        let key = self.track.key(key);
        self.out.message(ANNOTATION, |arg| {
            arg.uint(NAME, key);
            arg.uint(INTERNED_TEXT, value);
        });
    }
}
