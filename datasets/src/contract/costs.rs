//! Costs of points that have no rows yet: guesses for planning, good to a factor of two or so.
//!
//! Means over sweeps of the zoo's models on two cores of a server CPU. The collector's estimate and the predictor's
//! suggestions begin with the same numbers.

/// One core's time to schedule, lower and compile a kernel, ns.
pub const BUILD_NS: f64 = 65e6;
/// Checking a point, readings of the reference kernel and talk between the processes, ns.
pub const AROUND_POINT_NS: f64 = 3e6;
