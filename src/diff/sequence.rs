//! What two sequences have in common, in order, in bounded time.

use std::{collections::HashMap, hash::Hash, ops::Range};

use similar::{Algorithm, DiffOp};

use super::order;

/// How many elements, both sequences together, are given to the search for a longest common subsequence, whose cost
/// grows with the square of what differs. What is beyond is matched by elements that occur once.
const BUDGET: usize = 3000;

/// Gives equal elements equal numbers.
pub(super) fn numbered<T: Hash + Eq>(
    old: impl IntoIterator<Item = T>,
    new: impl IntoIterator<Item = T>,
) -> (Vec<usize>, Vec<usize>) {
    let mut numbers: HashMap<T, usize> = HashMap::new();
    let mut number = |element| {
        let next = numbers.len();
        *numbers.entry(element).or_insert(next)
    };
    let old = old.into_iter().map(&mut number).collect();
    let new = new.into_iter().map(&mut number).collect();
    (old, new)
}

/// The indices of elements that are in both, rising on both sides. A longest such sequence while the two are short or
/// differ in few places; always a good one. Takes numbers as [`numbered`] gives them.
pub(super) fn common(old: &[usize], new: &[usize]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut budget = BUDGET;
    if old.len() + new.len() <= budget {
        between(old, 0..old.len(), new, 0..new.len(), &mut budget, &mut found);
        return found;
    }
    let (mut old_at, mut new_at) = (0, 0);
    for (old_end, new_end) in anchors(old, new).into_iter().chain([(old.len(), new.len())]) {
        between(old, old_at..old_end, new, new_at..new_end, &mut budget, &mut found);
        if old_end < old.len() {
            found.push((old_end, new_end));
        }
        (old_at, new_at) = (old_end + 1, new_end + 1);
    }
    found
}

/// Elements that occur once on either side, as many as stand in the same order.
fn anchors(old: &[usize], new: &[usize]) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy)]
    enum Seen {
        Never,
        Once(usize),
        More,
    }
    let seen = |elements: &[usize]| {
        let mut seen = vec![Seen::Never; old.iter().chain(new).max().map_or(0, |most| most + 1)];
        for (at, &element) in elements.iter().enumerate() {
            seen[element] = if matches!(seen[element], Seen::Never) { Seen::Once(at) } else { Seen::More };
        }
        seen
    };
    let (in_old, in_new) = (seen(old), seen(new));
    let pairs: Vec<(usize, usize)> = old
        .iter()
        .filter_map(|&element| match (in_old[element], in_new[element]) {
            (Seen::Once(old), Seen::Once(new)) => Some((old, new)),
            _ => None,
        })
        .collect();
    let ranks: Vec<usize> = pairs.iter().map(|(_, new)| *new).collect();
    pairs.into_iter().zip(order::stays(&ranks)).filter_map(|(pair, stays)| stays.then_some(pair)).collect()
}

/// The equal ends of two ranges, and between them a longest common subsequence as far as the budget goes.
fn between(
    old: &[usize],
    mut olds: Range<usize>,
    new: &[usize],
    mut news: Range<usize>,
    budget: &mut usize,
    found: &mut Vec<(usize, usize)>,
) {
    while !olds.is_empty() && !news.is_empty() && old[olds.start] == new[news.start] {
        found.push((olds.start, news.start));
        (olds.start, news.start) = (olds.start + 1, news.start + 1);
    }
    let mut tail = 0;
    while !olds.is_empty() && !news.is_empty() && old[olds.end - 1] == new[news.end - 1] {
        tail += 1;
        (olds.end, news.end) = (olds.end - 1, news.end - 1);
    }
    let count = olds.len() + news.len();
    if !olds.is_empty() && !news.is_empty() && count <= *budget {
        *budget -= count;
        for op in similar::capture_diff_slices(Algorithm::Myers, &old[olds.clone()], &new[news.clone()]) {
            if let DiffOp::Equal { old_index, new_index, len } = op {
                found.extend((0..len).map(|at| (olds.start + old_index + at, news.start + new_index + at)));
            }
        }
    }
    found.extend((0..tail).map(|at| (olds.end + at, news.end + at)));
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn check(old: &[usize], new: &[usize]) -> usize {
        let found = common(old, new);
        assert!(found.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        assert!(found.iter().all(|&(at, other)| old[at] == new[other]));
        found.len()
    }

    proptest! {
        #[test]
        fn what_is_found_is_in_both_and_in_order(old in vec(0..9usize, 0..60), new in vec(0..9usize, 0..60)) {
            check(&old, &new);
        }
    }

    #[test]
    fn edits_far_apart_in_a_long_sequence_leave_the_rest_in_common() {
        // Every third element is the same, like the closing braces of a text.
        let old: Vec<usize> = (0..30_000).map(|n| if n % 3 == 0 { 0 } else { n }).collect();
        let mut new = old.clone();
        new.insert(25_000, 0);
        new.remove(15_001);
        new[40] = 99_999;
        assert_eq!(check(&old, &new), old.len() - 2);
    }

    #[test]
    fn long_sequences_without_anchors_are_matched_at_their_ends() {
        let old: Vec<usize> = (0..10_000).map(|n| n % 7).collect();
        let new: Vec<usize> = (0..10_000).map(|n| if n > 100 && n < 9000 { n % 5 } else { n % 7 }).collect();
        assert!(check(&old, &new) >= 1000);
    }
}
