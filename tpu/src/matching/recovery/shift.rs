//! Where, in a section that lost commands, the numbers of the others begin to be shifted.

/// Where a shift begins: as early as `earliest`, as late as `latest`, with this many clashes left.
pub(in crate::matching) struct Split {
    /// The first index that may be shifted.
    pub earliest: i64,
    /// The first index that must be shifted.
    pub latest: i64,
    /// Records whose counters contradict their command then.
    pub clashes: usize,
}

/// Finds the border that splits the records in two. A record before the border belongs to the command of its index, one
/// after it to the command `shift` places earlier. A positive `shift` is the number of commands lost at the border.
pub(in crate::matching) fn split(
    places: &[usize],
    index: &dyn Fn(usize) -> i64,
    shift: i64,
    clash: &dyn Fn(usize, i64) -> bool,
) -> Split {
    // Number of contradictions from each record on, if all records from there on are shifted.
    let mut behind = vec![0; places.len() + 1];
    for (k, &place) in places.iter().enumerate().rev() {
        behind[k] = behind[k + 1] + usize::from(clash(place, index(place) - shift));
    }
    let mut best: Option<Split> = None;
    let (mut before, mut free) = (0, 0);
    for k in 0..=places.len() {
        let earliest = k.checked_sub(1).map_or(0, |last| index(places[last]) + 1);
        let border = places.get(k).map_or(earliest, |&place| index(place));
        while free < places.len() && index(places[free]) < border + shift.max(0) {
            free += 1;
        }
        let clashes = before + behind[free];
        match &mut best {
            Some(best) if best.clashes < clashes => {}
            Some(best) if best.clashes == clashes => best.latest = border,
            _ => {
                best = Some(Split {
                    earliest,
                    latest: border,
                    clashes,
                })
            }
        }
        if let Some(&place) = places.get(k) {
            before += usize::from(clash(place, index(place)));
        }
    }
    best.unwrap_or(Split {
        earliest: 0,
        latest: 0,
        clashes: 0,
    })
}
