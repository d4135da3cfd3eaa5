//! Drawing functions of pictures: a white sheet with a title, texts, and the names of the two axes.

use std::fmt::Write;

use crate::html::escape;

/// Width and height of a picture, pixels.
pub(super) const SIZE: (f64, f64) = (640.0, 480.0);
/// Room for labels, pixels.
pub(super) const MARGIN: f64 = 56.0;

/// Width of a letter over the font size.
pub(super) const LETTER: f64 = 0.6;

/// Where a text is anchored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A picture in the making.
#[derive(Debug)]
pub(super) struct Canvas {
    text: String,
}

impl Canvas {
    /// A white sheet with a title of a font size in pixels; a smaller one if the title would not fit.
    pub fn new(title: &str, title_px: u32) -> Self {
        let (width, height) = SIZE;
        let fits = width / (LETTER * title.chars().count().max(1) as f64);
        let title_px = title_px.min(fits as u32);
        Self {
            text: format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
                 font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
                 <text x=\"{}\" y=\"24\" text-anchor=\"middle\" font-size=\"{title_px}\">{}</text>\n",
                width / 2.0,
                escape(title)
            ),
        }
    }

    /// Adds a line of SVG.
    pub fn line(&mut self, svg: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{svg}");
    }

    /// Adds a label of a tick.
    pub fn tick(&mut self, (x, y): (f64, f64), anchor: Anchor, label: &str) {
        let anchor = anchor.name();
        self.line(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{label}</text>"
        ));
    }

    /// Adds the name of the axis below, centred at `middle`, and of that at the left.
    pub fn axes(&mut self, middle: impl std::fmt::Display, below: &str, left: &str) {
        let (_, height) = SIZE;
        self.line(format_args!(
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(10 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            height - 12.0,
            escape(below),
            height / 2.0,
            escape(left)
        ));
    }

    /// The finished picture.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Corners of a path, `x y` joined by `L`.
pub(super) fn path(points: &[(f64, f64)]) -> String {
    let corners: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1} {y:.1}"))
        .collect();
    corners.join("L")
}
