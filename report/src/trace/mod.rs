//! Perfetto traces: tracks with slices and counters.
//!
//! [`message`] writes protocol buffers, [`writer`] the packets of tracks, with texts interned per track. The caller
//! decides what the tracks show.

pub mod arguments;
pub mod message;
pub mod writer;

pub use arguments::Arguments;
pub use message::Message;
pub use writer::{Order, Slice, TrackState, Writer};
