use super::*;

#[test]
fn roots_are_rounded_down() {
    for x in [0, 1, 2, 3, 4, 99, 100, 1 << 40, (1 << 61) + 12345, u64::from(u32::MAX) * u64::from(u32::MAX)] {
        let root = square_root(x);
        assert!(root * root <= x && u128::from(root + 1).pow(2) > u128::from(x), "{x}: {root}");
    }
}

#[test]
fn shifts_round_to_the_nearest() {
    let found: Vec<i64> = [5, 6, 7, -5, -6, -7].map(|x| round_shift(x, 2)).to_vec();
    assert_eq!(found, [1, 2, 2, -1, -1, -2]);
    assert_eq!(round_shift(-7, 0), -7);
}
