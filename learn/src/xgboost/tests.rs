//! XGBoost's predictions against those of the Python package (3.2.0) on the same data and parameters.

use super::*;

/// The generator that the Python side used too.
fn uniform(count: usize) -> Vec<f64> {
    let mut state: u64 = 12345;
    (0..count)
        .map(|_| {
            state = (state * 1_103_515_245 + 12_345) % (1 << 31);
            state as f64 / f64::from(1u32 << 31)
        })
        .collect()
}

fn data() -> (Vec<f32>, Vec<f32>) {
    let mut values: Vec<f32> = uniform(800).iter().map(|v| *v as f32).collect();
    let targets = values
        .chunks(4)
        .map(|x| 3.0 * x[0] + 2.0 * x[1] * x[1] - x[2])
        .collect();
    for row in (0..200).step_by(7) {
        values[4 * row + 3] = f32::NAN;
    }
    (values, targets)
}

fn parameters(more: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    [
        ("max_depth", "4"),
        ("eta", "0.3"),
        ("reg_lambda", "1"),
        ("tree_method", "hist"),
        ("max_bin", "64"),
        ("seed", "42"),
        ("nthread", "1"),
        ("verbosity", "0"),
    ]
    .iter()
    .chain(more)
    .map(|(name, value)| (*name, (*value).to_owned()))
    .collect()
}

fn rows_of(values: &[f32]) -> Rows<'_> {
    Rows { values, width: 4 }
}

fn labels_of(targets: &[f32]) -> Labels<'_> {
    Labels {
        targets,
        ..Labels::default()
    }
}

fn assert_close(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 2e-6, "{found} for {wanted}");
    }
}

#[test]
fn predictions_are_those_of_the_python_package() {
    let (values, targets) = data();
    let rows = rows_of(&values);
    let labels = labels_of(&targets);
    let squared = parameters(&[("objective", "reg:squarederror"), ("base_score", "0.5")]);
    let booster = Booster::train(&squared, rows, labels, 20).unwrap();
    let first = Rows {
        values: &values[..32],
        width: 4,
    };
    let golden = [
        1.410_475_6,
        1.390_664_2,
        0.245_860_9,
        0.961_761_8,
        2.286_030_5,
        1.097_699_2,
        0.567_779_3,
        -0.259_534_3,
    ];
    assert_close(&booster.predict(first).unwrap(), &golden);

    let again = Booster::from_bytes(&booster.to_bytes().unwrap()).unwrap();
    assert_eq!(
        again.predict(first).unwrap(),
        booster.predict(first).unwrap()
    );

    let one = Rows {
        values: &values[..4],
        width: 4,
    };
    let shap = booster.contributions(one).unwrap();
    assert_close(
        &shap,
        &[
            0.494_007_92,
            -0.477_334_5,
            -0.108_707_13,
            -0.007_915_06,
            1.510_424_6,
        ],
    );

    let quantile = parameters(&[
        ("objective", "reg:quantileerror"),
        ("quantile_alpha", "0.4"),
    ]);
    let booster = Booster::train(&quantile, rows, labels, 20).unwrap();
    let first = rows_of(&values[..16]);
    assert_close(
        &booster.predict(first).unwrap(),
        &[1.419_683_7, 1.417_061_7, 0.227_335_3, 0.766_242_1],
    );
}

/// Every way to train that there is here, with missing values and rows that fill no group.
#[test]
fn the_forest_predicts_what_the_library_does_to_the_bit() {
    let (values, targets) = data();
    let rows = rows_of(&values);
    for (objective, groups, depth) in [
        ("reg:squarederror", &[][..], "6"),
        ("reg:quantileerror", &[], "3"),
        ("rank:pairwise", &[50, 150], "1"),
        ("reg:squarederror", &[], "8"),
    ] {
        let labels = Labels {
            targets: &targets,
            groups,
            ..Labels::default()
        };
        let mut all = parameters(&[("objective", objective), ("max_depth", depth)]);
        if objective == "reg:quantileerror" {
            all.push(("quantile_alpha", "0.4".to_owned()));
        }
        let booster = Booster::train(&all, rows, labels, 30).unwrap();
        let again = Booster::from_bytes(&booster.to_bytes().unwrap()).unwrap();
        for length in [200, 128, 64, 13, 1] {
            let some = rows_of(&values[..4 * length]);
            assert!(booster.forest.is_some(), "{objective} has a layout");
            let library = booster.predict_by_library(some).unwrap();
            assert_eq!(booster.predict(some).unwrap(), library, "{objective}");
            assert_eq!(again.predict(some).unwrap(), library, "{objective}");
        }
    }
}

/// Many thresholds of a feature, values on the thresholds and beyond them all, missing ones everywhere.
#[test]
fn values_are_compared_as_the_library_does() {
    let mut values: Vec<f32> = uniform(8000)
        .iter()
        .map(|v| (v * 1500.0).round() as f32 - 700.0)
        .collect();
    let targets: Vec<f32> = uniform(2000)
        .iter()
        .map(|v| (v * 37.0).sin() as f32)
        .collect();
    for place in (0..values.len()).step_by(11) {
        values[place] = f32::NAN;
    }
    let many = parameters(&[
        ("objective", "reg:squarederror"),
        ("max_depth", "7"),
        ("max_bin", "1024"),
    ]);
    let booster = Booster::train(&many, rows_of(&values), labels_of(&targets), 60).unwrap();
    assert!(booster.forest.is_some());
    for extreme in [
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
    ] {
        values.extend([extreme; 4]);
    }
    let rows = rows_of(&values);
    assert_eq!(
        booster.predict(rows).unwrap(),
        booster.predict_by_library(rows).unwrap()
    );
}

#[test]
fn weights_of_one_are_none() {
    let (values, targets) = data();
    let trained = |weights: &[f32]| {
        let squared = parameters(&[("objective", "reg:squarederror"), ("subsample", "0.6")]);
        let matrix = Matrix::new(rows_of(&values), labels_of(&targets)).unwrap();
        if !weights.is_empty() {
            matrix.set_floats(c"weight", weights).unwrap();
        }
        let booster = Booster::boosted(&squared, &matrix, 20).unwrap();
        booster.to_bytes().unwrap()
    };
    assert!(trained(&[1.0; 200]) == trained(&[]));
    assert!(trained(&[2.0; 200]) != trained(&[]));
}

#[test]
fn trees_without_a_layout_are_left_to_the_library() {
    let (values, targets) = data();
    let rows = rows_of(&values);
    let labels = labels_of(&targets);
    for other in [
        [("objective", "reg:pseudohubererror"), ("booster", "gbtree")],
        [("objective", "reg:squarederror"), ("booster", "dart")],
    ] {
        let booster = Booster::train(&parameters(&other), rows, labels, 3).unwrap();
        assert!(booster.forest.is_none(), "{other:?}");
        let library = booster.predict_by_library(rows).unwrap();
        assert_eq!(booster.predict(rows).unwrap(), library);
    }
    let deep = parameters(&[("objective", "reg:squarederror"), ("max_depth", "10")]);
    let booster = Booster::train(&deep, rows, labels, 3).unwrap();
    assert!(booster.forest.is_none(), "too deep to be filled up");
    let library = booster.predict_by_library(rows).unwrap();
    let value = |row: usize, feature: usize| values[4 * row + feature];
    assert_eq!(booster.predict_from(200, 4, value).unwrap(), library);
}

#[test]
fn refusals_are_errors_with_the_librarys_words() {
    let (values, targets) = data();
    let rows = rows_of(&values);
    let short = labels_of(&targets[..7]);
    let squared = parameters(&[("objective", "reg:squarederror")]);
    assert!(Booster::train(&squared, rows, short, 1).is_err());
    let unknown = parameters(&[("objective", "reg:astrology")]);
    let labels = labels_of(&targets);
    let error = Booster::train(&unknown, rows, labels, 1).unwrap_err();
    assert!(
        error.to_string().starts_with("XGBoost: XGBooster"),
        "{error}"
    );
    assert!(Booster::from_bytes(b"not a model").is_err());
}
