//! Number of configurations a minute that are lowered and timed on all cores: prints one JSON object.
//!
//!     cargo run --release -p vtasim --example speed -- 100000

use std::time::Instant;

use rayon::prelude::*;
use vtasim::timing::simulate;
use vtasim::{Config, Profile, Space, Tail, Workload, lower};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: usize = std::env::args().nth(1).map_or(Ok(100_000), |n| n.parse())?;
    let profile = Profile::find("pynq-1x16")?;
    // The convolutions of ResNet-18 after the first.
    let layers = [
        (64, 56, 64, 3, 1),
        (64, 56, 128, 3, 2),
        (64, 56, 128, 1, 2),
        (128, 28, 128, 3, 1),
        (128, 28, 256, 3, 2),
        (256, 14, 256, 3, 1),
        (256, 14, 512, 3, 2),
        (512, 7, 512, 3, 1),
    ];
    let mut all: Vec<(Workload, Config)> = Vec::new();
    for (in_channels, extent, out_channels, kernel, stride) in layers {
        let workload = Workload {
            batch: 1,
            in_channels,
            height: extent,
            width: extent,
            out_channels,
            kernel: [kernel, kernel],
            stride: [stride, stride],
            padding: [kernel / 2, kernel / 2],
        };
        let packed = workload.packed(&profile.hardware)?;
        let good = Space::of(&packed)
            .configs()
            .filter(|c| lower(&profile.hardware, &workload, c, Tail::AUTOTVM).is_ok())
            .collect::<Vec<_>>();
        all.extend(good.into_iter().map(|c| (workload, c)));
    }
    let begun = Instant::now();
    let (timed, instructions) = (0..wanted)
        .into_par_iter()
        .filter_map(|i| {
            let (workload, config) = &all[i % all.len()];
            let program = lower(&profile.hardware, workload, config, Tail::AUTOTVM).ok()?;
            Some((1_u64, simulate(&profile, &program).ok()?.instructions))
        })
        .reduce(|| (0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{{\"tried\": {wanted}, \"timed\": {timed}, \"instructions\": {instructions}, \"seconds\": {seconds:.2}}}"
    );
    Ok(())
}
