//! Commands whole, bit by bit, as descriptors and details have them.

use tpuprofile::chip::Chip;

fn set(bytes: &mut [u8], bit: usize, width: usize, value: u64) {
    for i in 0..width {
        if value >> i & 1 == 1 {
            bytes[(bit + i) / 8] |= 1 << ((bit + i) % 8);
        }
    }
}

fn packed(bits: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; bits / 8];
    for &(bit, width, value) in fields {
        set(&mut bytes, bit, width, value);
    }
    bytes
}

pub fn matmul(dependency: u32) -> Vec<u8> {
    packed(
        256,
        &[
            (0, 1, 1),
            (9, 3, 1),
            (17, 23, u64::from(dependency)),
            (41, 4, 2),
            (45, 5, 4),
            (52, 3, 1),
            (64, 16, 128),
            (80, 16, 128),
            (96, 16, 128),
            (112, 16, 128),
            (128, 3, 1),
            (160, 32, 0x8000),
            (192, 32, 0x10000),
        ],
    )
}

pub fn addition(dependency: u32) -> Vec<u8> {
    packed(
        512,
        &[
            (0, 1, 1),
            (17, 23, u64::from(dependency)),
            (41, 4, 3),
            (45, 5, 2),
            (53, 2, 2),
            (64, 3, 1),
            (67, 3, 1),
            (70, 3, 1),
            (96, 16, 1),
            (112, 16, 64),
            (128, 16, 1),
            (144, 16, 256),
            (160, 32, 0x4000),
            (192, 32, 0x8000),
            (224, 32, 0x10000),
        ],
    )
}

pub fn system(function: u64) -> Vec<u8> {
    packed(128, &[(41, 4, 15), (45, 5, function)])
}

pub fn dma_system(function: u64) -> Vec<u8> {
    packed(128, &[(3, 1, 1), (32, 5, 6), (37, 3, function)])
}

pub const DDR: u32 = 0;
pub const LMEM: u32 = 2;

pub fn transfer(chip: Chip, from: u32, to: u32, elements: u64) -> Vec<u8> {
    let high = |memory| match (chip, memory) {
        (Chip::Bm1688, DDR) => 0x80,
        (Chip::Bm1688, _) => 0,
        (_, DDR) => 0x100,
        _ => 31 << 8,
    };
    packed(
        768,
        &[
            (1, 1, 1),
            (2, 1, 1),
            (41, 4, 1),
            (128, 32, elements),
            (384, 16, 1),
            (400, 16, 64),
            (416, 16, 1),
            (432, 16, elements / 64),
            (448, 16, 1),
            (464, 16, 64),
            (480, 16, 1),
            (496, 16, elements / 64),
            (512, 32, 0x1000),
            (544, 13, high(from)),
            (576, 32, 0x2000),
            (608, 13, high(to)),
            (704, 32, u64::from(u32::MAX)),
            (736, 32, u64::from(u32::MAX)),
        ],
    )
}
