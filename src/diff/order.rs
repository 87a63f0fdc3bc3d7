//! Bringing a list into a new order with as few moves as there can be.

/// Marks the members of a longest increasing run of `ranks`, which holds each number once: they stay, the rest moves.
pub(super) fn stays(ranks: &[usize]) -> Vec<bool> {
    let mut stays = vec![false; ranks.len()];
    if ranks.is_sorted() {
        stays.fill(true);
        return stays;
    }
    // tails[n]: where the run of length n + 1 with the smallest end has its end.
    let mut tails: Vec<usize> = Vec::new();
    let mut before = vec![usize::MAX; ranks.len()];
    for (at, rank) in ranks.iter().enumerate() {
        let length = tails.partition_point(|&tail| ranks[tail] < *rank);
        if length > 0 {
            before[at] = tails[length - 1];
        }
        if length == tails.len() {
            tails.push(at);
        } else {
            tails[length] = at;
        }
    }
    let mut at = tails.last().copied().unwrap_or(usize::MAX);
    while at != usize::MAX {
        stays[at] = true;
        at = before[at];
    }
    stays
}

/// What happened to the items of a new list, seen from the old one without what was removed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Added,
    /// With its index in that old list. These indices rise along the new list.
    Stayed(usize),
    /// With its index in that old list.
    Moved(usize),
}

/// One edit of the list, by the indices that hold at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Insert { at: usize },
    Move { from: usize, to: usize },
}

/// The edits that make the new list out of the old one, with the new index that each of them is for. Takes
/// O(n log n).
///
/// It goes along the new list and puts each item right behind the one before it. Only what still waits for its turn
/// makes an index here differ from the index in the new list.
pub(super) fn edits(places: &[Place], old_len: usize) -> Vec<(usize, Edit)> {
    let mut waiting = Waiting::new(old_len);
    // For each old index, where the first of the items that stay behind it is in the new list.
    let mut next_stay = vec![usize::MAX; old_len + 1];
    let mut any_moves = false;
    for (new, place) in places.iter().enumerate() {
        match *place {
            Place::Added => {}
            Place::Stayed(old) => {
                next_stay[old] = new;
                waiting.add(old, 1);
            }
            Place::Moved(old) => {
                waiting.add(old, 1);
                any_moves = true;
            }
        }
    }
    if any_moves {
        for old in (0..old_len).rev() {
            if next_stay[old] == usize::MAX {
                next_stay[old] = next_stay[old + 1];
            }
        }
    }
    let mut edits = Vec::new();
    // How many of the old list's items lie left of the last item that stayed, itself included.
    let mut passed = 0;
    for (new, place) in places.iter().enumerate() {
        match *place {
            Place::Stayed(old) => {
                waiting.add(old, -1);
                passed = old + 1;
            }
            Place::Added if any_moves => edits.push((new, Edit::Insert { at: new + waiting.before(passed) })),
            Place::Added => edits.push((new, Edit::Insert { at: new })),
            Place::Moved(old) => {
                let from = new.min(next_stay[old]) + waiting.before(old);
                waiting.add(old, -1);
                let to = new + waiting.before(passed);
                edits.push((new, Edit::Move { from, to }));
            }
        }
    }
    edits
}

/// The old indices of items that did not have their turn yet, counted by a Fenwick tree.
struct Waiting {
    sums: Vec<isize>,
}

impl Waiting {
    fn new(len: usize) -> Self {
        Self { sums: vec![0; len + 1] }
    }

    fn add(&mut self, at: usize, count: isize) {
        let mut at = at + 1;
        while at < self.sums.len() {
            self.sums[at] += count;
            at += at & at.wrapping_neg();
        }
    }

    /// How many are below this index.
    fn before(&self, at: usize) -> usize {
        let (mut at, mut sum) = (at, 0);
        while at > 0 {
            sum += self.sums[at];
            at &= at - 1;
        }
        sum.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_longest_run_stays() {
        assert_eq!(stays(&[]), [] as [bool; 0]);
        assert_eq!(stays(&[0, 1, 2]), [true, true, true]);
        assert_eq!(stays(&[2, 0, 1]), [false, true, true]);
        assert_eq!(stays(&[3, 2, 1, 0]).iter().filter(|stays| **stays).count(), 1);
    }

    #[test]
    fn one_item_that_moves_is_one_edit() {
        let places = [Place::Moved(2), Place::Stayed(0), Place::Stayed(1)];
        assert_eq!(edits(&places, 3), [(0, Edit::Move { from: 2, to: 0 })]);
        let places = [Place::Stayed(1), Place::Stayed(2), Place::Moved(0)];
        assert_eq!(edits(&places, 3), [(2, Edit::Move { from: 0, to: 2 })]);
    }

    /// A new list of numbers below 100 that were there before, shuffled, and of numbers above that were not.
    fn lists() -> impl Strategy<Value = (usize, Vec<usize>)> {
        (0usize..20, 0usize..6).prop_flat_map(|(old, added)| {
            let new: Vec<usize> = (0..old).chain(100..100 + added).collect();
            (Just(old), Just(new).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn the_edits_make_the_new_list((old_len, new) in lists()) {
            let mut ranks = vec![0; old_len];
            for (at, item) in new.iter().enumerate().filter(|(_, item)| **item < 100) {
                ranks[*item] = at;
            }
            let stays = stays(&ranks);
            let places: Vec<Place> = new
                .iter()
                .map(|&item| match item {
                    100.. => Place::Added,
                    _ if stays[item] => Place::Stayed(item),
                    _ => Place::Moved(item),
                })
                .collect();
            let mut list: Vec<usize> = (0..old_len).collect();
            for (at, edit) in edits(&places, old_len) {
                match edit {
                    Edit::Insert { at: index } => list.insert(index, new[at]),
                    Edit::Move { from, to } => {
                        let item = list.remove(from);
                        list.insert(to, item);
                    }
                }
            }
            prop_assert_eq!(list, new);
        }
    }
}
