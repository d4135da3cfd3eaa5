//! Commands read from words, whole and damaged.

use super::*;

fn read(chip: Chip, words: &[u32]) -> Nodes {
    let mut nodes = Nodes::new(chip.spec().cdma_ports as usize);
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    nodes.read(chip, &bytes, 100, None, true);
    nodes
}

#[test]
fn kernels_batches_and_resets() {
    let name = u32::from_le_bytes(*b"abc\0");
    let tiu = 1 | 2 << 10;
    let nodes = read(
        Chip::Aks,
        &[
            14 | 3 << 7,
            3 << 7,
            name,
            tiu,
            tiu,
            12,
            tiu,
            15,
            tiu,
            1 | 5 << 7 | 6 << 10,
        ],
    );
    assert_eq!(nodes.scopes, ["abc"]);
    assert_eq!(
        nodes.tiu.iter().map(|c| c.id).collect::<Vec<_>>(),
        [0, 1, 0, 1]
    );
    assert_eq!(
        nodes.tiu.iter().map(|c| c.tags.scope).collect::<Vec<_>>(),
        [0, 0, 0, NONE]
    );
    assert_eq!(nodes.tiu[0].tags.batch, 3);
    assert_eq!(nodes.sdma.len(), 1);
    assert!(nodes.bad.is_empty());
}

#[test]
fn references_and_ports() {
    let nodes = read(Chip::Aks, &[8 | 77 << 7, 5, 11 | 9 << 7, 2 << 28 | 6]);
    assert_eq!(
        nodes.tiu[0].kind,
        CommandKind::Reference {
            offset: 77,
            count: 5
        }
    );
    assert_eq!(
        nodes.cdma[2][0].kind,
        CommandKind::Reference {
            offset: 9,
            count: 6
        }
    );
}

#[test]
fn bad_words_are_named() {
    let nodes = read(Chip::Aksv, &[77, 1 | 5 << 7, 12 | 7 << 7, 8]);
    let at: Vec<_> = nodes.bad.iter().map(|b| (b.offset, b.what)).collect();
    assert_eq!(at[0], (100, "a node of unknown type"));
    assert_eq!(
        at[1],
        (104, "a command of an engine that the chip does not have")
    );
    assert_eq!(at[2].0, 108);
    assert_eq!(at[3], (112, "a reference to descriptors without its count"));
    assert_eq!(read(Chip::Aks, &[400 << 7]).bad.len(), 1);
}

#[test]
fn generated_commands_wrap_their_ids() {
    let rvt = 13 | 2 << 10;
    let nodes = read(Chip::Aksv, &vec![rvt; 0x40001]);
    assert_eq!(nodes.tiu.len(), 0x40001 + 1);
    assert_eq!(nodes.tiu[0x3ffff].id, 0x3ffff);
    assert_eq!(nodes.tiu[0x40000].id, 0);
    assert_eq!(nodes.gdma.len(), 1);
}
