//! The same convolution in plain loops, and packing of tensors into blocks.

use crate::execute::Dram;
use crate::lower::Tail;
use crate::profile::Hardware;
use crate::workload::{Packed, Workload};

/// Accumulators of a convolution in plain loops, as `[batch][out_channels][height][width]`, before any tail.
///
/// `data` is `[batch][in_channels][height][width]`, `weights` `[out_channels][in_channels][kernel]`. Sums wrap at 32 bits.
pub fn accumulate(w: &Workload, data: &[i8], weights: &[i8]) -> Vec<i32> {
    let [out_height, out_width] = w.output().map(|e| e as usize);
    let (channels, height, width) = (w.in_channels as usize, w.height as usize, w.width as usize);
    let [kh, kw] = w.kernel.map(|e| e as usize);
    let [sh, sw] = w.stride.map(|e| e as usize);
    let [ph, pw] = w.padding.map(|e| e as usize);
    let filters = w.out_channels as usize;
    let mut sums = vec![0_i32; w.batch as usize * filters * out_height * out_width];
    for (image, sums) in sums.chunks_mut(out_height * out_width).enumerate() {
        let (b, filter) = (image / filters, image % filters);
        for c in 0..channels {
            let data = &data[(b * channels + c) * height * width..][..height * width];
            let taps = &weights[(filter * channels + c) * kh * kw..][..kh * kw];
            for (tap, &weight) in taps.iter().enumerate() {
                let (dy, dx) = (tap / kw, tap % kw);
                // The columns whose tap lies inside the image.
                let first = pw.saturating_sub(dx).div_ceil(sw);
                let end = (width + pw).saturating_sub(dx).div_ceil(sw);
                let columns = first..end.min(out_width).max(first);
                for (y, row) in sums.chunks_mut(out_width).enumerate() {
                    let Some(iy) = (y * sh + dy).checked_sub(ph).filter(|iy| *iy < height) else {
                        continue;
                    };
                    let Some(row) = row.get_mut(columns.clone()).filter(|row| !row.is_empty())
                    else {
                        continue;
                    };
                    let data = &data[iy * width..][..width][first * sw + dx - pw..];
                    let add = |(sum, &value): (&mut i32, &i8)| {
                        *sum = sum.wrapping_add(i32::from(value) * i32::from(weight));
                    };
                    match sw {
                        1 => row.iter_mut().zip(data).for_each(add),
                        _ => row.iter_mut().zip(data.iter().step_by(sw)).for_each(add),
                    }
                }
            }
        }
    }
    sums
}

/// The outputs of accumulators after the tail; `bias` has one value for each output channel, or none.
pub fn finish(w: &Workload, sums: &[i32], bias: &[i32], tail: Tail) -> Vec<i8> {
    let [height, width] = w.output();
    let image = (height * width) as usize;
    let filters = w.out_channels as usize;
    let value = |(index, &sum): (usize, &i32)| {
        let bias = bias
            .get(index / image % filters)
            .copied()
            .unwrap_or_default();
        let shifted = sum.wrapping_add(bias) >> tail.shift;
        shifted.min(i32::from(tail.max)).max(i32::from(tail.min)) as i8
    };
    sums.iter().enumerate().map(value).collect()
}

/// Tensors packed into blocks; what fills up blocks is zero. The output is as large as it must be, all zero.
pub fn pack(
    hardware: &Hardware,
    w: &Workload,
    p: &Packed,
    data: &[i8],
    weights: &[i8],
    bias: &[i32],
) -> Dram {
    let (nb, nc) = (hardware.batch as usize, hardware.block as usize);
    let [inp, wgt, out] = p.elements().map(|e| e as usize);
    let mut dram = Dram {
        inp: vec![0; inp * nb * nc],
        wgt: vec![0; wgt * nc * nc],
        acc: vec![0; p.co as usize * nb * nc],
        out: vec![0; out * nb * nc],
    };
    let image = (w.height * w.width) as usize;
    let channels = w.in_channels as usize;
    for (index, &value) in data.iter().enumerate() {
        let (plane, pixel) = (index / image, index % image);
        let place = blocked(
            plane / channels,
            plane % channels,
            pixel,
            p.ci as usize,
            image,
            nb,
            nc,
        );
        dram.inp[place] = value;
    }
    let taps = (w.kernel[0] * w.kernel[1]) as usize;
    for (index, &value) in weights.iter().enumerate() {
        let (plane, tap) = (index / taps, index % taps);
        let (o, i) = (plane / channels, plane % channels);
        let block = ((o / nc) * p.ci as usize + i / nc) * taps + tap;
        dram.wgt[(block * nc + o % nc) * nc + i % nc] = value;
    }
    for (channel, &value) in bias.iter().enumerate() {
        for b in 0..nb {
            dram.acc[(channel / nc * nb + b) * nc + channel % nc] = value;
        }
    }
    dram
}

/// The output as `[batch][out_channels][height][width]`.
pub fn unpack(hardware: &Hardware, w: &Workload, p: &Packed, out: &[i8]) -> Vec<i8> {
    let (nb, nc) = (hardware.batch as usize, hardware.block as usize);
    let image = (p.out_height * p.out_width) as usize;
    let filters = w.out_channels as usize;
    let value = |index: usize| {
        let (plane, pixel) = (index / image, index % image);
        let place = blocked(
            plane / filters,
            plane % filters,
            pixel,
            p.co as usize,
            image,
            nb,
            nc,
        );
        out[place]
    };
    (0..w.batch as usize * filters * image).map(value).collect()
}

/// Where a value is in `[batch / nb][channels / nc][pixels][nb][nc]`.
fn blocked(
    b: usize,
    channel: usize,
    pixel: usize,
    blocks: usize,
    image: usize,
    nb: usize,
    nc: usize,
) -> usize {
    let block = ((b / nb) * blocks + channel / nc) * image + pixel;
    (block * nb + b % nb) * nc + channel % nc
}
