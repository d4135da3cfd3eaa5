//! Flame graphs: folded stacks, as Brendan Gregg's tools take them, and a picture that needs no other file.
//!
//! The picture is made by the crate `inferno`. Where times come from is not known here.

use std::io;

use inferno::flamegraph::{Options, from_lines};

/// A stack, the outermost frame first, and its own time in nanoseconds.
pub type Stack = (Vec<String>, u64);

/// One line a stack: frames with `;` between them, a space, nanoseconds. Equal stacks are added up.
pub fn folded(stacks: &[Stack]) -> String {
    let mut sums: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for (frames, ns) in stacks.iter().filter(|(_, ns)| *ns > 0) {
        let frames: Vec<String> = frames.iter().map(|frame| frame_name(frame)).collect();
        *sums.entry(frames.join(";")).or_default() += ns;
    }
    sums.iter()
        .map(|(stack, ns)| format!("{stack} {ns}\n"))
        .collect()
}

/// The picture as SVG; frames are searched and zoomed by a script inside it.
///
/// # Errors
/// Fails if there is no stack with a time.
pub fn svg(title: &str, stacks: &[Stack]) -> io::Result<Vec<u8>> {
    let mut options = Options::default();
    options.title = title.to_owned();
    "ns".clone_into(&mut options.count_name);
    options.font_type = "system-ui, sans-serif".to_owned();
    // Pictures of equal profiles are equal.
    options.deterministic = true;
    let lines = folded(stacks);
    let mut picture = Vec::new();
    from_lines(&mut options, lines.lines(), &mut picture)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    Ok(picture)
}

/// A frame without what separates frames and lines.
fn frame_name(text: &str) -> String {
    text.chars()
        .map(|c| if c == ';' || c.is_control() { '_' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks() -> Vec<Stack> {
        let stack = |frames: &[&str], ns| (frames.iter().map(|f| (*f).to_owned()).collect(), ns);
        vec![
            stack(&["net", "layer1", "conv;2d"], 30),
            stack(&["net", "layer1", "conv;2d"], 12),
            stack(&["net", "vm.alloc"], 5),
            stack(&["net", "nothing"], 0),
        ]
    }

    #[test]
    fn stacks_are_folded() {
        assert_eq!(folded(&stacks()), "net;layer1;conv_2d 42\nnet;vm.alloc 5\n");
    }

    #[test]
    fn the_picture_names_every_frame() {
        let picture = String::from_utf8(svg("net, 1 thread", &stacks()).unwrap()).unwrap();
        for text in ["net, 1 thread", "layer1", "conv_2d", "vm.alloc", "<svg"] {
            assert!(picture.contains(text), "no {text}");
        }
        assert!(svg("nothing", &[]).is_err());
    }
}
