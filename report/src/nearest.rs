//! Names close to a mistyped one, for "did you mean".

/// Maximum number of suggestions.
const MOST: usize = 3;
/// Maximum length of a compared name. Longer ones are not typing errors, and take long to compare.
const LONGEST: usize = 200;
/// Jaro-Winkler similarity from which a name counts as close.
const CLOSE: f64 = 0.75;

/// The candidates most similar to `name`, best first; names that contain it (or that it contains) always count.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if name.len() > LONGEST {
        return Vec::new();
    }
    let wanted = simplify(name);
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|c| {
            let other = simplify(c);
            let contained =
                wanted.len() >= 3 && (other.contains(&wanted) || wanted.contains(&other));
            let score = strsim::jaro_winkler(&wanted, &other);
            (if contained { score.max(CLOSE) } else { score }, c)
        })
        .filter(|(score, _)| *score >= CLOSE)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(MOST).map(|(_, c)| c).collect()
}

/// The candidate most similar to `name`, if any is close.
pub fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest(name, candidates).first().copied()
}

/// ` (did you mean a or b?)`, or nothing without names.
pub fn did_you_mean<S: AsRef<str>>(names: &[S]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    format!(" (did you mean {}?)", names.join(" or "))
}

/// Lower case without separators, so that `ResNet_18` equals `resnet-18`.
pub fn simplify(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_name() {
        let names = ["resnet-18", "resnet-34", "mobilenet", "bert-tiny"];
        assert_eq!(nearest("resnet18", names)[0], "resnet-18");
        assert_eq!(nearest("mobilnet", names)[0], "mobilenet");
        assert_eq!(nearest("bert", names)[0], "bert-tiny");
        assert_eq!(closest("bert", names), Some("bert-tiny"));
        assert!(nearest("xyz", names).is_empty());
        assert_eq!(did_you_mean(&["a", "b"]), " (did you mean a or b?)");
        assert_eq!(did_you_mean::<&str>(&[]), "");
        assert!(nearest(&"resnet-18".repeat(100_000), names).is_empty());
    }
}
