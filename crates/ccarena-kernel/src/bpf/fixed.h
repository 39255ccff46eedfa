/* SPDX-License-Identifier: (MIT OR GPL-2.0) */
/* Fixed-point arithmetic without a division of more than 64 bits: a result beyond a number's range is the largest. */
#ifndef CCARENA_FIXED_H
#define CCARENA_FIXED_H

#ifndef FIXED_INLINE
#define FIXED_INLINE inline __attribute__((always_inline, unused))
#endif

/* A BPF program defines it so that its verifier looks at a function once, not at every call. */
#ifndef FIXED_FUNCTION
#define FIXED_FUNCTION static inline __attribute__((unused))
#define FIXED_NONNULL
#endif

#define RAW_BITS 20
#define RAW_ONE (1ll << RAW_BITS)
#define RAW_MOST (1ll << 61)
/* Of what exp2_of returns. */
#define EXP_BITS 30

static FIXED_INLINE s64 clamped(s64 x, s64 low, s64 high)
{
	return x < low ? low : x > high ? high : x;
}

static FIXED_INLINE u64 max64(u64 a, u64 b)
{
	return a > b ? a : b;
}

static FIXED_INLINE u64 min64(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* Bits of x without leading zeros. */
static FIXED_INLINE u32 bits_of(u64 x)
{
	u32 bits = 0;

	if (x >> 32) {
		bits += 32;
		x >>= 32;
	}
	if (x >> 16) {
		bits += 16;
		x >>= 16;
	}
	if (x >> 8) {
		bits += 8;
		x >>= 8;
	}
	if (x >> 4) {
		bits += 4;
		x >>= 4;
	}
	if (x >> 2) {
		bits += 2;
		x >>= 2;
	}
	return bits + (x >> 1 ? 2 : (u32)x);
}

/* x y / z; 0 for a z of zero. Where x y has more than 64 bits, the larger of the two and z lose low bits. */
FIXED_FUNCTION u64 scaled(u64 x, u64 y, u64 z)
{
	u32 bits = bits_of(x) + bits_of(y), over = bits > 64 ? bits - 64 : 0;

	if (!z)
		return 0;
	if (over) {
		if (x < y) {
			u64 t = x;

			x = y;
			y = t;
		}
		x >>= over & 63;
		z >>= over & 63;
		if (!z)
			return (u64)RAW_MOST;
	}
	return x * y / z;
}

/* ms and fractions of them as ns. */
static FIXED_INLINE u64 ns_of(s64 ms)
{
	return ms > 0 ? scaled(ms, 1000000, RAW_ONE) : 0;
}

/* x / y; 0 for a y of zero. */
static FIXED_INLINE s64 ratio(u64 x, u64 y)
{
	u64 found = scaled(x, RAW_ONE, y);

	return found < (u64)RAW_MOST ? (s64)found : RAW_MOST;
}

/* x y, and x / y for a y above zero. */
static FIXED_INLINE s64 product(s64 x, s64 y)
{
	u64 found = scaled(x < 0 ? -x : x, y < 0 ? -y : y, RAW_ONE);
	s64 held = found < (u64)RAW_MOST ? (s64)found : RAW_MOST;

	return (x < 0) != (y < 0) ? -held : held;
}

static FIXED_INLINE s64 quotient(s64 x, s64 y)
{
	s64 found = ratio(x < 0 ? -x : x, y);

	return x < 0 ? -found : found;
}

/* log2(e^x), held to 32 either way. */
static FIXED_INLINE s64 log2_of_exp(s64 x)
{
	return clamped(clamped(x, -32 * RAW_ONE, 32 * RAW_ONE) * 1512775 >> RAW_BITS, -32 * RAW_ONE, 32 * RAW_ONE);
}

/* 2^x for x held to -30 to 20, in units of 2^-EXP_BITS: Taylor's polynomial of the fraction. */
FIXED_FUNCTION u64 exp2_of(s64 x)
{
	s64 held = clamped(x, -30 * RAW_ONE, 20 * RAW_ONE);
	s64 f = (held & (RAW_ONE - 1)) << (EXP_BITS - RAW_BITS), whole = held >> RAW_BITS, y;

	y = 16377; /* ln(2)^7 / 7! in units of 2^-30, and so on */
	y = (y * f >> EXP_BITS) + 165394;
	y = (y * f >> EXP_BITS) + 1431680;
	y = (y * f >> EXP_BITS) + 10327387;
	y = (y * f >> EXP_BITS) + 59597083;
	y = (y * f >> EXP_BITS) + 257941248;
	y = (y * f >> EXP_BITS) + 744261118;
	y = (y * f >> EXP_BITS) + (1ll << EXP_BITS);
	return whole < 0 ? (u64)y >> (-whole & 63) : (u64)y << (whole & 63);
}

#endif
