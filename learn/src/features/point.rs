//! From a row to its features and estimates.
//!
//! The schedule of a row whose `schedule_space` is `default` follows from the operator. Its knobs are not known when a
//! model is asked about an operator that was never built. They are therefore ignored on both sides. Where possible the
//! register tile follows from the operator (`cpu::default_tile`); schedule features are missing elsewhere.

use std::borrow::Cow;
use std::sync::LazyLock;

use opdata::{CacheState, Row};

use super::ablation::{Estimate, is_on};
use super::base::{Bases, Cold, Threads};
use super::compiled;
use super::cpu::describe_flat;
use super::device::{Query, features_of};
use super::knobs::{FlatTemplate, Knobs};
use super::list::{FEATURES, Values, positions_of};
use super::machine::{MachineFacts, drift, moving};
use super::operator::{Class, Operator, reuse, windows};
use super::scale::{divisor, fill, log, log1};
use super::scope::Scope;

/// Everything that is known of a point before it is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The features, in the order of [`FEATURES`].
    pub features: Vec<f32>,
    /// The estimates.
    pub bases: Bases,
    /// Arithmetic, flop; 0 if unknown.
    pub flops: f64,
    /// Compulsory traffic, bytes.
    pub bytes: f64,
    /// Identifies the computation and its machine: equal for the schedules of one workload.
    pub workload: u64,
    /// Its machine, as a number that is the same in every build.
    pub machine: u64,
    /// The scopes of [`Scope::OF_BUILT`] that some feature is known of.
    pub known: Vec<Scope>,
}

impl Point {
    /// Sets the slowdown of the reference kernel on the point's machine.
    pub fn set_drift(&mut self, slowdown: Option<f64>) {
        static PLACE: LazyLock<Option<usize>> =
            LazyLock::new(|| FEATURES.iter().position(|feature| feature.name == "drift"));
        if let Some(own) = PLACE.and_then(|place| self.features.get_mut(place)) {
            *own = drift::feature(slowdown);
        }
    }
}

/// Identifies the workload of a row.
pub fn workload_name(row: &Row) -> Cow<'_, str> {
    row.workload_hash.as_deref().map_or_else(
        || {
            Cow::Owned(format!(
                "{} {:?} {:?} {:?}",
                row.op_name, row.input_shapes, row.weight_shapes, row.output_shapes
            ))
        },
        Cow::Borrowed,
    )
}

/// A number for a workload on a machine.
fn workload_number(row: &Row, machine: &MachineFacts) -> u64 {
    let name = workload_name(row);
    number(machine.id.bytes().chain([0]).chain(name.bytes()))
}

/// A number for a name that is the same in every build: it is kept in model files. FNV-1a, 64 bits.
pub(super) fn number(name: impl Iterator<Item = u8>) -> u64 {
    name.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The features of a row on a machine.
pub fn point_of(row: &Row, machine: &MachineFacts) -> Point {
    let operator = Operator::of_row(row);
    let is_default = row.has_default_schedule();
    let knobs = match is_default {
        true => Knobs::default(),
        false => Knobs::read(row.schedule_knobs.as_ref()),
    };
    let device = features_of(row.device_kind);
    let query = Query {
        row,
        operator: &operator,
        knobs: &knobs,
        machine,
        best: moving::at_best(row, &operator, machine).filter(|_| is_on(Estimate::Moving)),
    };
    let nest = match is_default {
        true => device.default_nest(&query),
        false if knobs.is_empty() => None,
        false => device.nest(&query),
    };
    let mut values = Values::default();
    describe_operator(&mut values, row, &operator);
    let is_own = is_default || knobs.contraction().is_some();
    if is_own && is_on(Estimate::Windows) {
        windows::describe(&mut values, row, &operator);
    }
    compiled::describe_resources(&mut values, row);
    if !is_default {
        compiled::describe_code(&mut values, row);
    }
    compiled::describe_counts(&mut values, row, &operator);
    match &nest {
        Some(nest) => nest.describe(&mut values, &query),
        None => describe_knobs(&mut values, &knobs),
    }
    let asked = row.threads.map(|t| t as f64);
    let pieces = nest.as_ref().map_or_else(
        || pieces_without_nest(&knobs, &operator, machine),
        |nest| nest.pieces(&operator),
    );
    let threads = Threads {
        asked,
        busy: describe_threads(&mut values, pieces.max(1.0), &operator, asked),
    };
    machine.describe(&mut values, row.threads);
    device.describe(&mut values, &query);
    describe_state(&mut values, row, &operator);
    let features = values.to_vec();
    let cold = |bytes: f64, between: Option<u64>| {
        let between = between.filter(|_| is_on(Estimate::Reuse));
        between.map_or(0.0, |between| reuse::cold(bytes, between))
    };
    let cold = Cold {
        weights: cold(operator.weight_bytes, row.weight_reuse_bytes),
        outputs: cold(operator.output_bytes, row.output_reuse_bytes),
    };
    Point {
        known: known(&features),
        features,
        bases: Bases::of(&query, nest.as_deref(), threads, cold),
        flops: operator.total_flops(),
        bytes: operator.bytes(),
        workload: workload_number(row, machine),
        machine: number(machine.id.bytes()),
    }
}

/// The state of the machine before the point runs.
fn describe_state(values: &mut Values, row: &Row, operator: &Operator) {
    values.cache_state = match row.cache_state {
        Some(CacheState::Hot) => 0.0,
        Some(CacheState::Model) => 1.0,
        Some(CacheState::Flushed) => 2.0,
        None => f32::NAN,
    };
    values.weight_reuse_bytes = row
        .weight_reuse_bytes
        .filter(|_| is_on(Estimate::Reuse))
        .map_or(f32::NAN, |b| log1(reuse::of_weights(b, operator)));
    values.drift = drift::feature(row.drift_ratio);
}

/// Features of a schedule from its knobs alone, if its loops are not known.
fn describe_knobs(values: &mut Values, knobs: &Knobs) {
    if let Some(flat) = knobs.flat() {
        describe_flat(values, flat);
    }
    if let Some([outer, middle, inner]) = knobs.products() {
        values.knobs_outer = log(outer);
        values.knobs_middle = log(middle);
        values.knobs_inner = log(inner);
    }
}

/// The scopes of built kernels that some feature is known of.
fn known(features: &[f32]) -> Vec<Scope> {
    static PLACES: LazyLock<[Vec<usize>; 2]> =
        LazyLock::new(|| Scope::OF_BUILT.map(|scope| positions_of(&[scope])));
    let is_known = |own: &[usize]| own.iter().any(|&place| !features[place].is_nan());
    let scopes = Scope::OF_BUILT.into_iter().zip(PLACES.iter());
    scopes
        .filter(|(_, own)| is_known(own))
        .map(|(scope, _)| scope)
        .collect()
}

fn describe_operator(values: &mut Values, row: &Row, o: &Operator) {
    let flag = |class: Class| f32::from(u8::from(o.class == class));
    values.kind_conv = flag(Class::Conv);
    values.kind_depthwise = flag(Class::Depthwise);
    values.kind_dense = flag(Class::Dense);
    values.kind_batch_matmul = flag(Class::BatchMatmul);
    values.kind_pool = flag(Class::Pool);
    values.kind_rows = flag(Class::Rows);
    values.kind_elementwise = flag(Class::Elementwise);
    values.kind_movement = flag(Class::Movement);
    let by_winograd = |name: &str| name.contains("winograd");
    let algorithm = row.knob_algorithm.as_deref();
    values.winograd = f32::from(u8::from(
        by_winograd(&row.op_name) || algorithm.is_some_and(by_winograd),
    ));
    values.kernel = o.kernel_width as f32;
    values.window = log1(o.window);
    values.takes_largest = f32::from(u8::from(row.op_kind == "max_pool"));
    values.padded = f32::from(u8::from(o.is_padded));
    values.inputs = o.inputs as f32;
    values.stride = o.stride as f32;
    values.fused_operators = if row.schedule_space.as_deref() == Some("autotvm") {
        0.0
    } else {
        fused_operators(&row.op_name)
    };
    values.element_bytes = o.element_bytes as f32;
    values.flops = o.flops.map_or(f32::NAN, log1);
    values.flops_epilogue = log1(o.flops_epilogue);
    values.input_bytes = log1(o.input_bytes);
    values.weight_bytes = log1(o.weight_bytes);
    values.output_bytes = log1(o.output_bytes);
    values.bytes = log1(o.bytes());
    // Without traffic there is no intensity: XGBoost takes a missing value, and refuses an infinite one.
    let bytes = Some(o.bytes()).filter(|bytes| *bytes > 0.0);
    values.intensity = bytes.map_or(f32::NAN, |bytes| log(o.total_flops() / bytes));
    values.rows = log(o.rows);
    values.columns = log(o.columns);
    values.depth = log(o.depth);
    values.out_width = log(o.out_width);
    values.out_height = log(o.out_height);
    values.in_channels = log(o.in_channels);
    values.batch = log(o.batch);
    values.last_extent = log(o.last);
    let along_row = if o.out_width > 1.0 {
        o.out_width
    } else {
        o.rows
    };
    values.row_divisor_8 = divisor(along_row, 8);
    values.row_divisor_16 = divisor(along_row, 16);
    values.columns_divisor_64 = divisor(o.columns, 64);
    values.last_divisor_16 = divisor(o.last, 16);
    values.transcendentals = o.transcendentals as f32;
    values.transcendentals_per_flop =
        log1(o.transcendental_calls() / o.total_flops().max(1.0) * 1e6);
    values.columns_fill_16 = fill(o.columns, 16.0);
    values.last_fill_16 = fill(o.last, 16.0);
}

/// Operators after the first in the name of a fused one: `conv2d_add_relu` has two, `…_3more` three more.
fn fused_operators(name: &str) -> f32 {
    let mut count = 0.0;
    for word in name.split('_').skip(1) {
        match word
            .strip_suffix("more")
            .and_then(|n| n.parse::<f32>().ok())
        {
            Some(more) => count += more,
            None => count += 1.0,
        }
    }
    count
}

/// Vectors of a step of a schedule that is unknown, at most.
const VECTORS: f64 = 4.0;

/// Pieces that a schedule divides an operator into if its loops are not known. Where the knobs say nothing either, a
/// reduction of rows has one for each row. A copy or element-wise operator has one for each step of the longest vectors,
/// and others one for each result.
fn pieces_without_nest(knobs: &Knobs, o: &Operator, machine: &MachineFacts) -> f64 {
    let rows = o.own_elements / o.last;
    match (knobs.flat(), o.class) {
        (Some(flat), _) => flat.pieces.unwrap_or(match flat.template {
            FlatTemplate::Rows => rows,
            FlatTemplate::Spatial => o.own_elements / (flat.vector * flat.unroll.unwrap_or(1.0)),
        }),
        (None, Class::Rows) => rows,
        (None, Class::Elementwise | Class::Movement) => {
            let lanes = machine.vector.map_or(1.0, |unit| unit.lanes() as f64);
            o.own_elements / (VECTORS * lanes)
        }
        (None, _) => o.results(),
    }
}

/// Sets the number of threads and of busy threads of a schedule with this many pieces; returns the busy ones.
fn describe_threads(values: &mut Values, parallel: f64, o: &Operator, threads: Option<f64>) -> f64 {
    let Some(threads) = threads else { return 1.0 };
    let busy = threads.min(parallel).max(1.0);
    values.threads = log(threads);
    values.threads_busy = log(busy);
    values.threads_imbalance = ((parallel / threads).ceil() * threads / parallel) as f32;
    values.flops_per_thread = log1(o.total_flops() / busy);
    values.bytes_per_thread = log1(o.bytes() / busy);
    busy
}

#[cfg(test)]
mod tests {
    use super::super::list::FEATURES;
    use super::*;
    use crate::testing::{conv_row, dense_row};
    use opmodels::tile::VectorUnit;

    fn value(point: &Point, name: &str) -> f32 {
        let place = FEATURES.iter().position(|f| f.name == name).unwrap();
        point.features[place]
    }

    #[test]
    fn what_a_compiler_says_of_a_kernel_is_among_its_features() {
        let mut row = dense_row(64, 64, 64, "{}");
        let plain = point_of(&row, &MachineFacts::default());
        assert!(value(&plain, "compiled_registers").is_nan());
        row.registers_per_thread = Some(64);
        row.occupancy = Some(0.5);
        let compiled = point_of(&row, &MachineFacts::default());
        assert_eq!(value(&compiled, "compiled_registers"), 6.0);
        assert_eq!(value(&compiled, "compiled_occupancy"), 0.5);
        assert!(
            value(&compiled, "compiled_spill_bytes").is_nan(),
            "not known"
        );
    }

    #[test]
    fn outputs_in_memory_that_has_left_the_caches_are_a_part_of_the_time() {
        /// Index among the parts of a point's time: bytes of outputs evicted from the caches.
        const COLD_OUTPUTS: usize = 6;
        let mut row = dense_row(64, 1024, 64, "{}");
        row.threads = Some(1);
        let cold = |row: &Row| {
            let point = point_of(row, &MachineFacts::default());
            point.bases.parts(None)[COLD_OUTPUTS]
        };
        assert_eq!(cold(&row), 0.0, "not known");
        row.output_reuse_bytes = Some(1 << 20);
        assert_eq!(cold(&row), 0.0, "in a cache");
        row.output_reuse_bytes = Some(1 << 25);
        assert_eq!(cold(&row), 4.0 * 64.0 * 1024.0);
    }

    #[test]
    fn counts_are_features_where_a_row_has_them_and_the_task_clock_is_none() {
        let mut row = dense_row(64, 64, 64, "{}");
        row.task_clock_ns = Some(1e5);
        row.cycles = Some(4e5);
        let timed = point_of(&row, &MachineFacts::default());
        assert_eq!(timed.known, []);
        row.simulated_instructions = Some(2.0 * 64.0 * 64.0 * 64.0 / 8.0 - 1.0);
        row.instructions = Some(0.0);
        let counted = point_of(&row, &MachineFacts::default());
        assert_eq!(counted.known, [Scope::Counted]);
        assert_eq!(value(&counted, "simulated_instructions"), -3.0);
        assert_eq!(value(&counted, "counted_instructions"), -19.0);
        assert!(value(&counted, "simulated_l1d_misses").is_nan());
        row.loop_vector_instructions = Some(8.0);
        row.loop_scalar_instructions = Some(2.0);
        let both = point_of(&row, &MachineFacts::default());
        assert_eq!(both.known, Scope::OF_BUILT);
        // The unit of work is a byte where there is almost no arithmetic.
        row.flops = Some(0);
        let moved = point_of(&row, &MachineFacts::default());
        assert!(value(&moved, "simulated_instructions").is_finite());
    }

    #[test]
    fn names_are_unique_and_printed() {
        let mut names: Vec<&str> = FEATURES.iter().map(|f| f.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FEATURES.len());
        assert!(FEATURES.iter().all(|f| !f.doc.is_empty()));
        assert_eq!(Values::default().to_vec().len(), FEATURES.len());
    }

    #[test]
    fn a_row_has_the_features_of_its_schedule() {
        let row = dense_row(
            128,
            768,
            3072,
            r#"{"tile_x":[-1,1,4,4],"tile_y":[-1,1,4,8],"tile_k":[-1,4,4]}"#,
        );
        let point = point_of(&row, &MachineFacts::default());
        assert_eq!(value(&point, "kind_dense"), 1.0);
        assert_eq!(value(&point, "block_threads"), 4.0);
        assert_eq!(value(&point, "depth_stage"), 4.0);
        assert!(value(&point, "vector").is_nan());
        assert!(value(&point, "threads").is_nan());
    }

    #[test]
    fn of_a_schedule_without_a_tile_vectors_and_pieces_are_known() {
        let row = |pieces: &str| Row {
            threads: Some(4),
            ..dense_row(
                64,
                64,
                1,
                &format!(
                    r#"{{"template":"spatial","vector_length":8,"unroll":2,"parallel_extent":{pieces}}}"#
                ),
            )
        };
        let point = point_of(&row("2"), &MachineFacts::default());
        for (feature, wanted) in [
            ("vector", 3.0),
            ("unroll_limit", 2.0),
            ("threads_busy", 1.0),
        ] {
            assert_eq!(value(&point, feature), wanted, "{feature}");
        }
        let all = point_of(&row("null"), &MachineFacts::default());
        assert_eq!(value(&all, "threads_busy"), 2.0);
        assert!(value(&all, "parallel").is_nan());
    }

    #[test]
    fn a_gate_that_scales_an_image_counts_as_the_gate_it_computes() {
        let mut row = conv_row([1, 10, 1, 1], [240, 1, 1], "{}");
        row.op_name = "conv2d_add_sigmoid_multiply".to_owned();
        row.output_shapes = "1x240x14x14".parse().ok();
        let operator = Operator::of_row(&row);
        assert_eq!(
            (operator.rows, operator.columns, operator.depth),
            (1.0, 240.0, 10.0)
        );
        assert_eq!(operator.transcendental_calls(), 240.0);
        assert_eq!(operator.last, 14.0);
    }

    #[test]
    fn a_default_schedule_is_not_looked_at() {
        let mut row = conv_row(
            [1, 64, 56, 56],
            [64, 3, 1],
            r#"{"template":"contraction","vector_length":16,"vector_blocks":2,"tile":[["xx",8]],"loop_order":["xx"],"fused_outer":1}"#,
        );
        row.threads = Some(2);
        let tiled = point_of(&row, &MachineFacts::default());
        assert_eq!(value(&tiled, "vector"), 4.0);
        row.schedule_space = Some("default".to_owned());
        let default = point_of(&row, &MachineFacts::default());
        assert!(value(&default, "vector").is_nan());
        row.schedule_knobs = None;
        let unbuilt = point_of(&row, &MachineFacts::default());
        assert_eq!(
            format!("{:?}", default.features),
            format!("{:?}", unbuilt.features)
        );
    }

    #[test]
    fn the_tile_of_a_default_schedule_follows_from_the_operator() {
        let mut row = conv_row([1, 64, 14, 14], [480, 1, 1], "{}");
        row.schedule_space = Some("default".to_owned());
        row.weight_layout = Some("OIHW16o".to_owned());
        let machine = MachineFacts {
            vector: Some(VectorUnit::of_width(512, true)),
            ..MachineFacts::default()
        };
        let point = point_of(&row, &machine);
        assert_eq!(value(&point, "vector"), 4.0);
        assert_eq!(value(&point, "broadcast_tile"), 15f32.log2());
        let elsewhere = point_of(&row, &MachineFacts::default());
        assert!(value(&elsewhere, "vector").is_nan());
    }

    #[test]
    fn fused_operators_are_counted() {
        assert_eq!(fused_operators("conv2d_add_relu"), 2.0);
        assert_eq!(fused_operators("slice_sigmoid_2more"), 3.0);
        assert_eq!(fused_operators("softmax"), 0.0);
    }
}
