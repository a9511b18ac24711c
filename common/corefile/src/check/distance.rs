//! How far apart two words are, to guess what a misspelt one was meant to be.

/// The least number of letters to add, drop, change or swap with the next. Words longer than 40 letters are far apart.
pub(super) fn between(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(41).collect(), b.chars().take(41).collect());
    if a.len() > 40 || b.len() > 40 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::between;

    #[test]
    fn near_words_are_near() {
        assert_eq!(between("lameduk", "lameduck"), 1);
        assert_eq!(between("moniter", "monitor"), 1);
        assert_eq!(between("cahce", "cache"), 1);
        assert_eq!(between("", "abc"), 3);
    }
}
