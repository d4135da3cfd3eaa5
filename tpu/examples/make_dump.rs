//! Writes a synthetic dump, for benchmarks: `make_dump OUT CHIP CAPTURE CORES KERNELS TILES`.

#[path = "../tests/dumps/mod.rs"]
mod dumps;

use std::path::Path;

use dumps::{CAPTURES, Spec, make};
use tpuprofile::chip::Chip;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [out, chip, capture, cores, kernels, tiles] = args.as_slice() else {
        return Err(
            "give: OUT, chip (AKS, …), capture (0, 1, 2 or 3 for bmodel), cores, kernels, tiles"
                .into(),
        );
    };
    let chip = Chip::from_arch(chip).ok_or("no such chip")?;
    let capture = *CAPTURES
        .get(capture.parse::<usize>()?)
        .ok_or("captures are 0 to 3")?;
    let spec = Spec {
        kernels: kernels.parse()?,
        tiles: tiles.parse()?,
        ..Spec::new(chip, capture)
    };
    let mut dump = make(spec);
    dump.cores.truncate(cores.parse()?);
    dump.write(Path::new(out));
    Ok(())
}
