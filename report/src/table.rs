//! Aligned tables that know the width of the terminal. Columns that may shrink lose their middle
//! (`1x64x5…x3x16`). If that is not enough the least needed columns are left out.

use std::borrow::Cow;

use super::Style;

/// Where a cell's text stands in its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned, as names are.
    Left,
    /// Right-aligned, as numbers are.
    Right,
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    title: Cow<'static, str>,
    align: Align,
    shrink_to: Option<usize>,
    hide_rank: Option<u8>,
    only_if_filled: bool,
}

impl Column {
    /// A column of names.
    pub const fn left(title: &'static str) -> Self {
        Self {
            title: Cow::Borrowed(title),
            align: Align::Left,
            shrink_to: None,
            hide_rank: None,
            only_if_filled: false,
        }
    }

    /// A column of numbers.
    pub const fn right(title: &'static str) -> Self {
        Self {
            title: Cow::Borrowed(title),
            align: Align::Right,
            shrink_to: None,
            hide_rank: None,
            only_if_filled: false,
        }
    }

    /// Gives the table this title, which is known only when the table is made.
    pub fn titled(self, title: String) -> Self {
        Self {
            title: Cow::Owned(title),
            ..self
        }
    }

    /// May be cut down to `width` characters when the terminal is narrow.
    pub const fn shrinks_to(mut self, width: usize) -> Self {
        self.shrink_to = Some(width);
        self
    }

    /// Is left out where no row has text for it.
    pub const fn only_if_filled(mut self) -> Self {
        self.only_if_filled = true;
        self
    }

    /// May be left out when the terminal is narrow, lower ranks first.
    pub const fn hides(mut self, rank: u8) -> Self {
        self.hide_rank = Some(rank);
        self
    }
}

/// A cell: its text and how it stands out.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    paint: Option<fn(Style, &str) -> String>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: in_one_line(text.into()),
            paint: None,
        }
    }
}

impl Cell {
    /// A cell painted by `paint`, one of [`Style`]'s colours.
    pub fn painted(text: impl Into<String>, paint: fn(Style, &str) -> String) -> Self {
        Self {
            text: in_one_line(text.into()),
            paint: Some(paint),
        }
    }
}

/// A cell is a part of one line: a name with a line break in it must not make two.
fn in_one_line(text: String) -> String {
    match text.contains(char::is_control) {
        true => text.replace(char::is_control, "\u{fffd}"),
        false => text,
    }
}

/// Space between columns.
const GAP: &str = "  ";

/// A table.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// A table without rows whose columns have these names, with `|` between them. `#` before a name makes it a column of
    /// numbers.
    pub fn headed(head: &'static str) -> Self {
        let column = |name: &'static str| match name.strip_prefix('#') {
            Some(name) => Column::right(name),
            None => Column::left(name),
        };
        Self::new(&head.split('|').map(column).collect::<Vec<_>>())
    }

    /// Adds a row; missing cells are empty, and cells without a column are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        cells.resize(self.columns.len(), Cell::from(""));
        self.rows.push(cells);
    }

    /// The lines, each ended by a newline, with a heading.
    pub fn render(&self, style: Style) -> String {
        let mut widths = self.fit(style.width);
        let folded = match style.fold {
            Some(columns) => self.fold(&mut widths, columns),
            None => Vec::new(),
        };
        let heading: Vec<Cell> = self
            .columns
            .iter()
            .map(|column| Cell::painted(column.title.as_ref(), Style::bold))
            .collect();
        std::iter::once(&heading)
            .map(|row| self.line(row, &widths, style) + "\n")
            .chain(self.rows.iter().map(|row| {
                let columns = style.fold.unwrap_or(usize::MAX);
                let rest = self.folded_lines(row, &folded, columns);
                self.line(row, &widths, style) + "\n" + &rest
            }))
            .collect()
    }

    /// Removes columns until the first line fits: those that narrow terminals leave out, then the widest that shrink,
    /// then the last ones. The first column stays.
    fn fold(&self, widths: &mut [Option<usize>], columns: usize) -> Vec<usize> {
        let mut folded = Vec::new();
        while total(widths) > columns {
            let shown = |place: &usize| widths[*place].is_some();
            let all: Vec<usize> = (1..widths.len()).filter(shown).collect();
            let hidden = self.next_to_hide(widths).filter(|place| *place > 0);
            let shrinks = |place: &&usize| self.columns[**place].shrink_to.is_some();
            let shrinking = all.iter().filter(shrinks);
            let next = hidden
                .or_else(|| shrinking.max_by_key(|place| widths[**place]).copied())
                .or_else(|| all.last().copied());
            let Some(place) = next else { break };
            widths[place] = None;
            folded.push(place);
        }
        folded.sort_unstable();
        folded
    }

    /// The cells of folded columns below a row's first line, each with its title; nothing of empty ones.
    fn folded_lines(&self, row: &[Cell], folded: &[usize], columns: usize) -> String {
        const INDENT: &str = "    ";
        let filled = folded.iter().filter(|place| !row[**place].text.is_empty());
        let cells =
            filled.map(|&place| format!("{}: {}", self.columns[place].title, row[place].text));
        let mut lines: Vec<String> = Vec::new();
        for cell in cells {
            let room = columns.saturating_sub(INDENT.len()).max(1);
            match lines.last_mut() {
                Some(line) if length(line) + 2 + length(&cell) <= room => {
                    line.push_str("; ");
                    line.push_str(&cell);
                }
                _ => lines.extend(wrapped(&cell, room)),
            }
        }
        lines
            .iter()
            .map(|line| format!("{INDENT}{line}\n"))
            .collect()
    }

    /// The table in Markdown, without columns that are empty in all rows.
    pub fn markdown(&self) -> String {
        let shown: Vec<usize> = self
            .fit(None)
            .iter()
            .enumerate()
            .filter_map(|(place, width)| width.map(|_| place))
            .collect();
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let of = |text: &dyn Fn(usize) -> String| line(shown.iter().map(|&p| text(p)).collect());
        let mut out = of(&|place| escape_markdown(&self.columns[place].title));
        out.push_str(&of(&|place| match self.columns[place].align {
            Align::Left => "---".to_owned(),
            Align::Right => "---:".to_owned(),
        }));
        for row in &self.rows {
            out.push_str(&of(&|place| escape_markdown(&row[place].text)));
        }
        out
    }

    /// Width of every column, `None` for those left out.
    fn fit(&self, available: Option<usize>) -> Vec<Option<usize>> {
        let mut natural: Vec<Option<usize>> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| {
                let filled = self.rows.iter().map(|row| length(&row[index].text)).max();
                if column.only_if_filled && filled.unwrap_or(0) == 0 {
                    return None;
                }
                filled.max(Some(length(&column.title)))
            })
            .collect();
        let Some(available) = available else {
            return natural;
        };
        loop {
            // The width of a removed column goes to the others.
            let mut widths = natural.clone();
            let excess = total(&widths).saturating_sub(available);
            if self.shrink(&mut widths, excess) == excess {
                return widths;
            }
            let Some(hidden) = self.next_to_hide(&widths) else {
                return widths;
            };
            natural[hidden] = None;
        }
    }

    /// Takes up to `excess` characters from the columns that shrink, the widest first.
    fn shrink(&self, widths: &mut [Option<usize>], excess: usize) -> usize {
        let mut taken = 0;
        while taken < excess {
            let widest = self
                .columns
                .iter()
                .zip(widths.iter_mut())
                .filter_map(|(column, width)| Some((column.shrink_to?, width.as_mut()?)))
                .filter(|(least, width)| **width > *least)
                .max_by_key(|(_, width)| **width);
            match widest {
                Some((_, width)) => *width -= 1,
                None => break,
            }
            taken += 1;
        }
        taken
    }

    fn next_to_hide(&self, widths: &[Option<usize>]) -> Option<usize> {
        self.columns
            .iter()
            .enumerate()
            .filter(|(index, _)| widths[*index].is_some())
            .filter_map(|(index, column)| Some((column.hide_rank?, index)))
            .min()
            .map(|(_, index)| index)
    }

    fn line(&self, row: &[Cell], widths: &[Option<usize>], style: Style) -> String {
        let cells: Vec<String> = self
            .columns
            .iter()
            .zip(row)
            .zip(widths)
            .filter_map(|((column, cell), width)| {
                let width = (*width)?;
                let text = cut(&cell.text, width);
                let padding = " ".repeat(width - length(&text));
                let text = cell
                    .paint
                    .map_or_else(|| text.clone(), |paint| paint(style, &text));
                Some(match column.align {
                    Align::Left => text + &padding,
                    Align::Right => padding + &text,
                })
            })
            .collect();
        cells.join(GAP).trim_end().to_owned()
    }
}

/// Text that Markdown takes as it is: reasons of failures hold anything.
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // Underscores are left alone: inside words they are letters to every Markdown in use.
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Text in pieces of at most `room` characters, broken after spaces and separators where there are any.
pub fn wrapped(text: &str, room: usize) -> Vec<String> {
    let all: Vec<char> = text.chars().collect();
    let mut lines = Vec::new();
    let mut rest = &all[..];
    while rest.len() > room {
        let is_break = |c: &char| " ,;".contains(*c);
        let end = rest[..room].iter().rposition(is_break);
        // A break near the beginning would leave a line nearly empty.
        let end = end
            .filter(|end| *end > room / 2)
            .map_or(room, |end| end + 1);
        lines.push(rest[..end].iter().collect::<String>().trim_end().to_owned());
        rest = &rest[end..];
    }
    lines.push(rest.iter().collect());
    lines
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    let gaps = shown.clone().count().saturating_sub(1) * GAP.len();
    shown.sum::<usize>() + gaps
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Cuts a text to at most `width` characters. A longer text loses its middle, as names differ at both ends.
pub fn cut(text: &str, width: usize) -> String {
    let all: Vec<char> = text.chars().collect();
    if all.len() <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    let tail = (width - 1) / 2;
    let head = width - 1 - tail;
    all[..head]
        .iter()
        .chain(['…'].iter())
        .chain(&all[all.len() - tail..])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Colour;

    fn table() -> Table {
        let mut table = Table::new(&[
            Column::left("name").shrinks_to(6),
            Column::left("kind").hides(0),
            Column::right("time"),
        ]);
        table.row(["conv2d_add_relu".into(), "conv2d".into(), "1.234 ms".into()]);
        table.row(["dense".into(), "dense".into(), "20 ns".into()]);
        table
    }

    fn at(width: usize) -> String {
        table().render(Style {
            width: Some(width),
            ..Style::PLAIN
        })
    }

    #[test]
    fn wide_enough() {
        insta::assert_snapshot!(table().render(Style::PLAIN), @r#"
        name             kind        time
        conv2d_add_relu  conv2d  1.234 ms
        dense            dense      20 ns
        "#);
    }

    #[test]
    fn narrow_terminals_shrink_then_hide() {
        insta::assert_snapshot!(at(28), @r#"
        name        kind        time
        conv2…relu  conv2d  1.234 ms
        dense       dense      20 ns
        "#);
        insta::assert_snapshot!(at(20), @r#"
        name            time
        conv2…relu  1.234 ms
        dense          20 ns
        "#);
        // As narrow as it can be, it is as wide as it must be.
        assert_eq!(at(3), at(16));
    }

    #[test]
    fn pipes_fold_rows_and_lose_nothing() {
        let style = Style {
            fold: Some(20),
            ..Style::PLAIN
        };
        let mut table = table();
        table.row(["a, b, c, d and many others".into(), "".into(), "1 s".into()]);
        let text = table.render(style);
        insta::assert_snapshot!(text, @"
        name
        conv2d_add_relu
            kind: conv2d
            time: 1.234 ms
        dense
            kind: dense
            time: 20 ns
        a, b, c, d and many others
            time: 1 s
        ");
    }

    #[test]
    fn long_cells_are_wrapped_at_separators() {
        assert_eq!(
            wrapped("shapes: 1x2;3x4;5x6", 12),
            ["shapes: 1x2;", "3x4;5x6"]
        );
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
    }

    #[test]
    fn a_column_that_nobody_fills_is_left_out() {
        let columns = [
            Column::left("name"),
            Column::left("doubts").only_if_filled(),
        ];
        let mut table = Table::new(&columns);
        table.row(["dense".into()]);
        assert_eq!(table.render(Style::PLAIN), "name\ndense\n");
        table.row(["conv2d".into(), "few samples".into()]);
        assert!(table.render(Style::PLAIN).starts_with("name    doubts\n"));
    }

    #[test]
    fn colour_does_not_count_as_width() {
        let style = Style {
            width: Some(28),
            colour: Colour::On,
            ..Style::PLAIN
        };
        let painted = table().render(style);
        assert!(painted.starts_with("\x1b[1mname"));
        let bare = painted.replace("\x1b[1m", "").replace("\x1b[0m", "");
        assert_eq!(bare.lines().nth(1), at(28).lines().nth(1));
    }

    #[test]
    fn cutting_keeps_both_ends() {
        assert_eq!(cut("abcdefgh", 5), "ab…gh");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abc", 1), "…");
        assert_eq!(cut("abc", 0), "");
    }
}
