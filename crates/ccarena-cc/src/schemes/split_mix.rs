//! Numbers that look random: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) with a counter, for schemes that randomise.

/// Returns the `n`-th number of stream `seed`.
#[must_use]
pub fn split_mix(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
