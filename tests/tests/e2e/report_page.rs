//! `opcollect report` of the sample dataset: its files, and its page in a browser, wide and narrow.

use std::path::Path;

use e2e::{Bench, Browser, skip};
use serde_json::Value;

fn sample() -> String {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.join("../datasets/sample").display().to_string()
}

#[test]
fn a_report_is_two_files_and_one_object() {
    let bench = Bench::new();
    let outcome = bench.run(&["report", &sample(), "--out", "o", "--json"]);
    let object: Value = serde_json::from_str(outcome.done()).expect("JSON");
    assert_eq!(object["run_id"], "sample");
    assert!(
        object["operators"]
            .as_array()
            .is_some_and(|o| o.len() > 100)
    );
    for (name, part) in [
        ("report.html", "<h2>Roofline</h2>"),
        ("report.md", "## Roofline"),
    ] {
        let text = std::fs::read_to_string(bench.path().join("o").join(name)).expect("a file");
        assert!(text.contains(part), "{name}");
    }
    let both = bench.run(&["report", &sample(), &sample(), "--out", "both"]);
    assert!(both.done().contains("both/report.html"), "{}", both.stdout);
    let page = std::fs::read_to_string(bench.path().join("both/report.md")).expect("a file");
    assert!(page.contains("0 regressions"), "{page}");
}

#[test]
fn what_is_no_run_is_refused_by_name() {
    let bench = Bench::new();
    for args in [["report", "no-such-run"], ["report", "."]] {
        let outcome = bench.run(&args);
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(args[1]), "{}", outcome.stderr);
        assert!(!bench.path().join("report.html").exists());
    }
}

#[test]
fn the_page_fits_a_wide_and_a_narrow_window() {
    let Some(browser) = Browser::find() else {
        return skip("the report in a browser", "no Chromium here");
    };
    let bench = Bench::new();
    bench.run(&["report", &sample(), "--out", "o"]).done();
    let page = bench.path().join("o/report.html");
    let html = std::fs::read_to_string(&page).expect("a page");
    // The page stands in a frame, which can be as narrow as a telephone, and tells the page around it what it measured.
    let script = "<script>const d=document;parent.postMessage({\
        width:innerWidth,\
        fits:d.documentElement.scrollWidth<=innerWidth?'yes':'no',\
        blank:[...d.querySelectorAll('figure svg')].filter(s=>s.getBoundingClientRect().height<50).length,\
        pictures:d.querySelectorAll('figure svg').length},'*')</script></body>";
    bench.file("measured.html", html.replace("</body>", script));
    for width in [1280, 400] {
        let frame = format!(
            "<body><script>onmessage=e=>Object.assign(document.body.dataset,e.data)</script>\
            <iframe width={width} height=900 style=border:0 src=measured.html></iframe></body>"
        );
        let dom = browser.dom(&bench.file("frame.html", frame), 1400);
        assert!(dom.contains(&format!("data-width=\"{width}\"")), "{dom}");
        assert!(
            dom.contains("data-fits=\"yes\""),
            "{width} pixels: the page is wider than its window"
        );
        assert!(
            dom.contains("data-blank=\"0\""),
            "{width} pixels: a picture has no height"
        );
        assert!(
            !dom.contains("data-pictures=\"0\""),
            "{width} pixels: no picture"
        );
    }
}
