//! The nearest right word for one that was mistyped.

/// `; did you mean `exclude`?` when one of the words is near enough, else nothing.
pub(crate) fn did_you_mean<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(word, words) {
        Some(right) => format!("; did you mean `{right}`?"),
        None => String::new(),
    }
}

/// The word with the fewest edits away, if no more than a third of the letters is wrong.
fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any key: nobody's slip of the hand, and it would cost time.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    let near = |right: &&'a str| {
        let edits = edits(&word, &right.to_lowercase());
        (edits <= (right.chars().count().max(word.chars().count()) / 3).max(1)).then_some((edits, *right))
    };
    words.into_iter().filter_map(|right| near(&right)).min_by_key(|(edits, _)| *edits).map(|(_, right)| right)
}

/// Insertions, deletions, substitutions and swaps of neighbours that lead from one word to the other.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_the_one_with_the_fewest_slips() {
        let keys = ["namespaces", "exclude_namespaces", "include", "exclude"];
        for (typed, right) in
            [("exlude", "exclude"), ("Include", "include"), ("namespcaes", "namespaces"), ("inclued", "include")]
        {
            assert_eq!(nearest(typed, keys), Some(right), "{typed}");
        }
        for typed in ["retention", "x", "", &"exclude".repeat(40)] {
            assert_eq!(nearest(typed, keys), None, "{typed}");
        }
    }
}
