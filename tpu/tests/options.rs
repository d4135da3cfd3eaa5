//! How dumps are read if asked to: strictly, with other clocks.

mod dumps;

use dumps::{Capture, Spec, make};
use tpuprofile::chip::Chip;
use tpuprofile::{IngestOptions, Strictness, ingest};

#[test]
fn strict_refuses_what_is_not_whole() {
    let mut dump = make(Spec::new(Chip::Aks, Capture::Nodes));
    let dir = tempfile::tempdir().unwrap();
    dump.write(dir.path());
    let strict = IngestOptions {
        strictness: Strictness::Strict,
        ..IngestOptions::default()
    };
    ingest(dir.path(), &strict).unwrap();
    dump.cores[3].records[1].remove(10);
    dump.spec.counts = false;
    dump.write(dir.path());
    let error = ingest(dir.path(), &strict).unwrap_err().to_string();
    assert!(
        error.contains("--strict")
            && error.contains("core 3 GDMA")
            && error.contains("missing ids: 8"),
        "{error}"
    );
}

#[test]
fn other_clocks_do_not_move_cores() {
    let dump = make(Spec::new(Chip::Aks, Capture::Nodes));
    let dir = tempfile::tempdir().unwrap();
    dump.write(dir.path());
    let total = |tiu: Option<f64>, dma: Option<f64>| {
        let profile = ingest(
            dir.path(),
            &IngestOptions {
                tiu_mhz: tiu,
                dma_mhz: dma,
                ..Default::default()
            },
        )
        .unwrap();
        profile.span_ns().unwrap().1 as f64
    };
    let plain = total(None, None);
    // Slower clocks make it longer, by no more than they are slower.
    for (tiu, dma) in [(800.0, 1000.0), (1000.0, 800.0), (800.0, 800.0)] {
        let ratio = total(Some(tiu), Some(dma)) / plain;
        assert!((1.0..1.27).contains(&ratio), "{tiu} {dma}: {ratio}");
    }
    let error = ingest(
        dir.path(),
        &IngestOptions {
            tiu_mhz: Some(0.0),
            ..Default::default()
        },
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "--tiu_freq: 0 is no clock; give MHz, more than 0, e.g. 1000"
    );
}
