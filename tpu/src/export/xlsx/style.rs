//! Style of sheets: bold headers that stay visible, columns as wide as their content, numbers as numbers.

use rust_xlsxwriter::{Format, FormatAlign, IntoExcelData, Worksheet};

use super::Written;

/// Formats of cells.
pub(super) struct Style {
    /// Format of headers.
    pub bold: Format,
    /// Whole numbers.
    pub whole: Format,
    /// Numbers with three digits after the point.
    pub fixed: Format,
    /// Format of shares.
    pub percent: Format,
    /// Long texts.
    pub text: Format,
}

impl Style {
    /// All formats of the workbook.
    pub fn new() -> Style {
        Style {
            bold: Format::new().set_bold().set_align(FormatAlign::Top),
            whole: Format::new().set_num_format("#,##0"),
            fixed: Format::new().set_num_format("#,##0.000"),
            percent: Format::new().set_num_format("0.00%"),
            text: Format::new().set_text_wrap().set_align(FormatAlign::Top),
        }
    }

    /// The format of a number.
    pub fn of(&self, kind: Kind) -> &Format {
        match kind {
            Kind::Whole => &self.whole,
            Kind::Fixed => &self.fixed,
            Kind::Percent => &self.percent,
        }
    }
}

/// The kind of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A count, bytes, cycles, ns.
    Whole,
    /// A rate or a time with a fraction.
    Fixed,
    /// A share, 1 for all.
    Percent,
}

/// A sheet, and the formats of its cells.
pub(super) struct Page<'a> {
    pub sheet: &'a mut Worksheet,
    pub style: &'a Style,
}

impl Page<'_> {
    /// Names in bold from a column on; they stand in one text, with `|` between them.
    pub fn header(&mut self, row: u32, from: u16, names: &str) -> Written {
        for (column, name) in (from..).zip(names.split('|')) {
            let bold = &self.style.bold;
            self.sheet.write_with_format(row, column, name, bold)?;
        }
        Ok(())
    }

    /// Makes columns wide enough for their names and their expected content, in characters.
    pub fn widths<'n>(&mut self, names: impl Iterator<Item = &'n str>, least: f64) -> Written {
        for (column, name) in (0u16..).zip(names) {
            let long = name.contains("Name") || name == "What";
            let width = (name.chars().count() as f64 + 2.0).max(if long { 36.0 } else { least });
            self.sheet.set_column_width(column, width.min(60.0))?;
        }
        Ok(())
    }

    /// A text.
    pub fn text(&mut self, row: u32, column: u16, text: impl IntoExcelData) -> Written {
        self.sheet.write(row, column, text).map(drop)
    }

    /// Numbers from a column on; the cell of a missing one stays empty.
    pub fn numbers(
        &mut self,
        row: u32,
        from: u16,
        numbers: impl IntoIterator<Item = (Option<f64>, Kind)>,
    ) -> Written {
        for (column, (number, kind)) in (from..).zip(numbers) {
            if let Some(number) = number {
                let format = self.style.of(kind);
                self.sheet.write_with_format(row, column, number, format)?;
            }
        }
        Ok(())
    }
}
