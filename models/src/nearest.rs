//! Names close to a mistyped one.

/// At most this many suggestions.
const MOST: usize = 3;
/// Jaro-Winkler similarity from which a name counts as close.
const CLOSE: f64 = 0.75;

/// The candidates most similar to `name`, best first; names that contain it (or that it contains) always count.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = simplify(name);
    let mut scored: Vec<(f64, &str)> = candidates
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
    scored
        .into_iter()
        .take(MOST)
        .map(|(_, c)| c.to_owned())
        .collect()
}

/// Lower case without separators, so that `ResNet_18` equals `resnet-18`.
pub(crate) fn simplify(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_model() {
        let names = ["resnet-18", "resnet-34", "mobilenet", "bert-tiny"];
        assert_eq!(nearest("resnet18", names.into_iter())[0], "resnet-18");
        assert_eq!(nearest("mobilnet", names.into_iter())[0], "mobilenet");
        assert_eq!(nearest("bert", names.into_iter())[0], "bert-tiny");
        assert!(nearest("xyz", names.into_iter()).is_empty());
    }
}
