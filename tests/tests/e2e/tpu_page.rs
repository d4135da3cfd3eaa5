//! The page of `opcollect tpu --web` in a browser.

use crate::dumps::{Capture, Spec, make};
use e2e::{Bench, Browser, skip};
use tpuprofile::chip::Chip;

#[test]
fn the_page_runs_in_a_browser() {
    let Some(browser) = Browser::find() else {
        return skip("the page in a browser", "no Chromium here");
    };
    let bench = Bench::new();
    make(Spec {
        ports: 2,
        ..Spec::new(Chip::Aks, Capture::Nodes)
    })
    .write(&bench.path().join("d"));
    // A kernel whose name is markup, as long as the one it replaces.
    for core in 0..8 {
        let path = bench.path().join(format!("d/cdmlib0_{core}.profile"));
        let mut bytes = std::fs::read(&path).expect("a core's file");
        let name = bytes.windows(8).position(|w| w == b"kernel_1");
        let at = name.expect("a kernel");
        bytes[at..at + 8].copy_from_slice(b"<b>x</b>");
        std::fs::write(path, bytes).expect("a core's file");
    }
    bench.run(&["tpu", "d", "--out", "o", "--web"]).done();
    let dom = browser.dom(&bench.path().join("o/result.html"), 1280);
    // The last line of the page's script sets this mark: an error before it leaves it out.
    assert!(dom.contains("data-ready=\"yes\""), "{dom}");
    for part in [
        "core 7",
        "MM2_NN",
        "kernel_2",
        "CDMA port 1",
        "&lt;b&gt;x&lt;/b&gt;",
        "bounded by",
    ] {
        assert!(dom.contains(part), "{part}");
    }
    assert!(!dom.contains("<b>x</b>"), "a kernel's name became markup");
}
