//! From one machine to another: a trained model, and a few measurements on the new machine.
//!
//! | module | for |
//! | --- | --- |
//! | [`choose`] | which points to measure there: those that stand for most others |
//! | [`alike`] | the known machines that the new one is similar to |
//! | [`fit`] | adapts a model by them |
//! | [`stack`] | the weights of several predictions |
//! | [`gain`] | the gain over no measurement and over a new model |
//! | [`machines`] | … for every machine of a dataset, held out in turn |

pub mod alike;
pub mod choose;
pub mod fit;
pub mod gain;
pub mod machines;
pub mod stack;

pub use gain::Gain;
