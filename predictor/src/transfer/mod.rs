//! From one machine to another: a trained model, and a few measurements on the new machine.
//!
//! | module | for |
//! | --- | --- |
//! | [`choose`] | which points to measure there: those that leave none far from what is known |
//! | [`gain`] | what that brings over no measurement and over starting afresh |

pub mod choose;
pub mod gain;

pub use choose::spread_out;
pub use gain::{Adapted, Gain, gain};
