//! From a tile's dimensions to the rectangle that one load or store moves.

/// Rows of contiguous elements, `stride` elements from one to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rectangle {
    pub rows: u64,
    pub columns: u64,
    pub stride: u64,
}

impl Rectangle {
    /// Contiguous elements.
    pub fn line(elements: u64) -> Rectangle {
        Rectangle {
            rows: 1,
            columns: elements,
            stride: elements,
        }
    }
}

/// Joins dimensions, as extents and strides from the outermost to the innermost, that are contiguous. None if more than two
/// are left. Elements that are not contiguous are rows of one element each.
pub(super) fn fold(dims: &[(u64, u64)]) -> Option<Rectangle> {
    let mut folded: Vec<(u64, u64)> = Vec::with_capacity(2);
    for &(extent, stride) in dims.iter().rev().filter(|(extent, _)| *extent > 1) {
        if folded.is_empty() && stride != 1 {
            folded.push((1, 1));
        }
        match folded.last_mut() {
            Some((size, step)) if *size * *step == stride => {
                *size *= extent;
            }
            _ => folded.push((extent, stride)),
        }
    }
    match folded[..] {
        [] => Some(Rectangle::line(1)),
        [(columns, _)] => Some(Rectangle::line(columns)),
        [(columns, _), (rows, stride)] => Some(Rectangle {
            rows,
            columns,
            stride,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_dimensions_are_one_and_more_than_two_are_none() {
        let rectangle = |rows, columns, stride| {
            Some(Rectangle {
                rows,
                columns,
                stride,
            })
        };
        assert_eq!(fold(&[(2, 169), (13, 13), (13, 1)]), rectangle(1, 338, 338));
        assert_eq!(fold(&[(1, 999), (13, 56), (55, 1)]), rectangle(13, 55, 56));
        assert_eq!(fold(&[(16, 169), (13, 13), (1, 1)]), rectangle(208, 1, 13));
        assert_eq!(fold(&[(1, 9), (1, 1)]), rectangle(1, 1, 1));
        assert_eq!(fold(&[(2, 400), (13, 20), (7, 1)]), None);
    }
}
