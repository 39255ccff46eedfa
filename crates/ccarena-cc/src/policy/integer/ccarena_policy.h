/* SPDX-License-Identifier: MIT
 *
 * Inference of a ccarena policy in integers: no library, no floating point, no allocation, no recursion; every loop is
 * bounded by a number of the policy. The same bits as `ccarena_cc::policy::integer`, which says what each step does, and
 * which has proved that no sum overflows, whatever is observed.
 *
 * For a C or C++ compiler that shifts negative numbers arithmetically, as GCC and Clang do. A BPF program defines, before
 * it includes this file,
 *   CCARENA_FOR(i, n)      a loop that its verifier accepts, such as bpf_for(i, 0, n) of libbpf;
 *   CCARENA_FUNCTION       how a function is declared that its verifier looks at once, such as __noinline of libbpf;
 *   CCARENA_DOT            what calls ccarena_dot, such as a __noinline function: its loops are then looked at once;
 *   CCARENA_AT(i, length)  i held within an array, where the length is a power of two: ((i) & ((length) - 1));
 *   CCARENA_IN_TURN(sum)   a barrier, such as asm volatile("" : "+r"(sum)::"memory"): it has 512 bytes of stack;
 *   CCARENA_STEPS, CCARENA_VALUES, CCARENA_WEIGHTS, CCARENA_CONSTANTS  these lengths. Values and weights are also read in
 *       groups of 16 of which only the first is held within the array, so that these two need 15 numbers more.
 */
#ifndef CCARENA_POLICY_H
#define CCARENA_POLICY_H

typedef __UINT8_TYPE__ ccarena_u8;
typedef __UINT16_TYPE__ ccarena_u16;
typedef __INT32_TYPE__ ccarena_s32;
typedef __UINT32_TYPE__ ccarena_u32;
typedef __INT64_TYPE__ ccarena_s64;
typedef __UINT64_TYPE__ ccarena_u64;

/* What `ccarena_policy_run` expects; another number here than in a policy's file: export the policy again. */
#define CCARENA_POLICY_VERSION 1
/* Raw observations are multiples of 2^-20 in the signals' units. */
#define CCARENA_OBSERVATION_BITS 20
#define CCARENA_PER_ENTRY 7
#define CCARENA_LAYER_NORM_BITS 23

#ifndef CCARENA_FOR
#define CCARENA_FOR(i, n) for (i = 0; i < (n); i++)
#endif
/* What keeps a compiler with few registers from loading everything first, as a barrier of a BPF program. */
#ifndef CCARENA_IN_TURN
#define CCARENA_IN_TURN(sum) ((void)0)
#endif
#ifndef CCARENA_AT
#define CCARENA_AT(i, length) (i)
#endif
/* What calls ccarena_dot: a function of its own, which a BPF verifier looks at once. */
#ifndef CCARENA_DOT
#define CCARENA_DOT ccarena_dot
#endif
#ifndef CCARENA_INLINE
#define CCARENA_INLINE static inline __attribute__((always_inline, unused))
#endif

/* Of numbers alone: a function that a BPF verifier may look at once. */
#ifndef CCARENA_FUNCTION
#define CCARENA_FUNCTION CCARENA_INLINE
#endif

enum ccarena_op {
	CCARENA_GATHER,
	CCARENA_LINEAR,
	CCARENA_CLIP,
	CCARENA_TABLE,
	CCARENA_ADD,
	CCARENA_MUL,
	CCARENA_AFFINE,
	CCARENA_LAYER_NORM,
};

struct ccarena_step {
	ccarena_u32 op, input, second, output, rows, inputs, outputs, weights, constants, shift;
	ccarena_s32 low, high;
};

/* Weights are stored with 32768 added: BPF loads unsigned numbers only, before its version 4. */
struct ccarena_policy {
	const struct ccarena_step *steps;
	const ccarena_u16 *weights;
	const ccarena_s64 *constants;
	ccarena_u32 steps_length;
};

CCARENA_INLINE ccarena_s64 ccarena_shift(ccarena_s64 value, ccarena_u32 shift)
{
	return (value + (((ccarena_s64)1 << (shift & 63)) >> 1)) >> (shift & 63);
}

CCARENA_INLINE ccarena_s64 ccarena_clamp(ccarena_s64 value, ccarena_s64 low, ccarena_s64 high)
{
	return value < low ? low : value > high ? high : value;
}

/* floor(sqrt(x)) */
CCARENA_FUNCTION ccarena_u64 ccarena_root(ccarena_u64 x)
{
	ccarena_u64 root = 0;
	ccarena_u32 i;

	CCARENA_FOR(i, 32) {
		ccarena_u64 bit = (ccarena_u64)1 << 62 >> (2 * i & 63);

		if (x >= root + bit) {
			x -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return root;
}

/* By how much x, which is not negative, has to be shifted to have CCARENA_LAYER_NORM_BITS. */
CCARENA_FUNCTION ccarena_u32 ccarena_excess(ccarena_s64 x)
{
	ccarena_u32 shift = 0, place;

	CCARENA_FOR(place, 64 - CCARENA_LAYER_NORM_BITS)
		shift += (x >> CCARENA_LAYER_NORM_BITS >> (place & 63)) != 0;
	return shift;
}

#define CCARENA_X(i) values[CCARENA_AT(step->input + (i), CCARENA_VALUES)]
#define CCARENA_Z(i) values[CCARENA_AT(step->second + (i), CCARENA_VALUES)]
#define CCARENA_Y(i) values[CCARENA_AT(step->output + (i), CCARENA_VALUES)]
#define CCARENA_C(i) policy->constants[CCARENA_AT(step->constants + (i), CCARENA_CONSTANTS)]

/* Adds the products of 1, 2, 4, 8 and 16 inputs from k on with their weights. */
#define CCARENA_1(k) (sum += (ccarena_s64)w[k] * x[k])
#define CCARENA_2(k) (CCARENA_1(k), CCARENA_1((k) + 1))
#define CCARENA_4(k) (CCARENA_2(k), CCARENA_2((k) + 2))
#define CCARENA_8(k)                 \
	do {                         \
		CCARENA_4(k);        \
		CCARENA_IN_TURN(sum); \
		CCARENA_4((k) + 4);  \
		CCARENA_IN_TURN(sum); \
	} while (0)
#define CCARENA_16(k)                \
	do {                         \
		CCARENA_8(k);        \
		CCARENA_8((k) + 8);  \
	} while (0)
/* From input k on. */
#define CCARENA_MOVE(k)                                                 \
	do {                                                            \
		ccarena_u32 at = (k);                                   \
                                                                        \
		CCARENA_IN_TURN(at);                                    \
		w = weights + CCARENA_AT(first + at, CCARENA_WEIGHTS);  \
		x = values + CCARENA_AT(from + at, CCARENA_VALUES);     \
	} while (0)
/* 16 and 64 inputs from k on. */
#define CCARENA_GROUP(k)         \
	do {                     \
		CCARENA_MOVE(k); \
		CCARENA_16(0);   \
	} while (0)
#define CCARENA_64(k)                    \
	do {                             \
		CCARENA_GROUP(k);        \
		CCARENA_GROUP((k) + 16); \
		CCARENA_GROUP((k) + 32); \
		CCARENA_GROUP((k) + 48); \
	} while (0)
/* The part of the sum that bit n of the number of inputs stands for; those of higher bits come before it. */
#define CCARENA_REST(n)                           \
	do {                                      \
		if (inputs & (n)) {               \
			CCARENA_MOVE(inputs & -2u * (n)); \
			CCARENA_##n(0);           \
		}                                 \
	} while (0)

/* The sum of weights from `first` on times values from `from` on. A turn of a BPF program's loop costs as much as many
 * products, so there is none below 256 inputs. */
CCARENA_INLINE ccarena_s64 ccarena_dot(const ccarena_u16 *weights, const ccarena_s32 *values, ccarena_u32 first,
					ccarena_u32 from, ccarena_u32 inputs)
{
	const ccarena_u16 *w;
	const ccarena_s32 *x;
	ccarena_s64 sum = 0;
	ccarena_u32 i;

	if (inputs >= 256) {
		CCARENA_FOR(i, inputs / 256 * 4)
			CCARENA_64(64 * i);
	}
	if (inputs & 128) {
		CCARENA_64(inputs & -256u);
		CCARENA_64((inputs & -256u) + 64);
	}
	if (inputs & 64)
		CCARENA_64(inputs & -128u);
	if (inputs & 32) {
		CCARENA_GROUP(inputs & -64u);
		CCARENA_GROUP((inputs & -64u) + 16);
	}
	CCARENA_REST(16);
	CCARENA_REST(8);
	CCARENA_REST(4);
	CCARENA_REST(2);
	CCARENA_REST(1);
	return sum;
}

CCARENA_INLINE void ccarena_linear(const struct ccarena_policy *policy, const struct ccarena_step *step,
				   ccarena_s32 *values)
{
	ccarena_u32 inputs = step->inputs, row, o, i;

	CCARENA_FOR(row, step->rows) {
		ccarena_u32 from = step->input + row * inputs;
		ccarena_s64 offset = 0;

		CCARENA_FOR(i, inputs / 8) {
			const ccarena_s32 *x = values + CCARENA_AT(from + 8 * i, CCARENA_VALUES);

			offset += (ccarena_s64)x[0] + x[1] + x[2] + x[3] + x[4] + x[5] + x[6] + x[7];
		}
		CCARENA_FOR(i, inputs % 8)
			offset += values[CCARENA_AT(from + inputs / 8 * 8 + i, CCARENA_VALUES)];
		CCARENA_FOR(o, step->outputs) {
			ccarena_s64 sum = CCARENA_DOT(policy->weights, values, step->weights + o * inputs, from, inputs);

			sum -= offset * 32768;
			CCARENA_Y(row * step->outputs + o) =
				(ccarena_s32)ccarena_shift(sum + CCARENA_C(2 * o), (ccarena_u32)CCARENA_C(2 * o + 1));
		}
	}
}

CCARENA_INLINE ccarena_s32 ccarena_table(const struct ccarena_policy *policy, const struct ccarena_step *step,
					 ccarena_s32 value)
{
	ccarena_s64 x = ccarena_clamp(value, step->low, step->high) - CCARENA_C(0);
	ccarena_s64 segment = ccarena_clamp(x >> (step->shift & 63), 0, (ccarena_s64)step->inputs - 1);
	ccarena_s64 from = CCARENA_C(1 + (ccarena_u32)segment), to = CCARENA_C(2 + (ccarena_u32)segment);

	return (ccarena_s32)(from + ccarena_shift((to - from) * (x - (segment << (step->shift & 63))), step->shift));
}

CCARENA_INLINE void ccarena_layer_norm(const struct ccarena_policy *policy, const struct ccarena_step *step,
				       ccarena_s32 *values)
{
	ccarena_u32 row, i;

	CCARENA_FOR(row, step->rows) {
		ccarena_u32 from = row * step->inputs, shift;
		ccarena_s64 sum = 0, largest = 0, d;
		ccarena_u64 squares = 0, root, size;

		CCARENA_FOR(i, step->inputs)
			sum += CCARENA_X(from + i);
		CCARENA_FOR(i, step->inputs) {
			d = (ccarena_s64)step->inputs * CCARENA_X(from + i) - sum;
			largest = d > largest ? d : -d > largest ? -d : largest;
		}
		shift = ccarena_excess(largest);
		CCARENA_FOR(i, step->inputs) {
			d = ((ccarena_s64)step->inputs * CCARENA_X(from + i) - sum) >> (shift & 63);
			squares += (ccarena_u64)(d * d);
		}
		root = ccarena_root(squares + ((ccarena_u64)CCARENA_C(1) >> (2 * shift & 63)));
		root = root ? root : 1;
		CCARENA_FOR(i, step->inputs) {
			d = (((ccarena_s64)step->inputs * CCARENA_X(from + i) - sum) >> (shift & 63)) * CCARENA_C(0);
			/* BPF divides unsigned numbers only. */
			size = (d < 0 ? (ccarena_u64)-d : (ccarena_u64)d) / root;
			CCARENA_Y(from + i) = d < 0 ? -(ccarena_s32)size : (ccarena_s32)size;
		}
	}
}

CCARENA_INLINE void ccarena_step_run(const struct ccarena_policy *policy, const struct ccarena_step *step,
				     ccarena_s32 *values)
{
	ccarena_u32 i;

	switch (step->op) {
	case CCARENA_GATHER:
		CCARENA_FOR(i, step->outputs) {
			ccarena_s64 from = CCARENA_C(i);

			CCARENA_Y(i) = from < 0 ? 0 : (ccarena_s32)ccarena_shift(CCARENA_X((ccarena_u32)from), step->shift);
		}
		break;
	case CCARENA_LINEAR:
		ccarena_linear(policy, step, values);
		break;
	case CCARENA_CLIP:
		CCARENA_FOR(i, step->outputs)
			CCARENA_Y(i) = (ccarena_s32)ccarena_clamp(CCARENA_X(i), step->low, step->high);
		break;
	case CCARENA_TABLE:
		CCARENA_FOR(i, step->outputs)
			CCARENA_Y(i) = ccarena_table(policy, step, CCARENA_X(i));
		break;
	case CCARENA_ADD:
		CCARENA_FOR(i, step->outputs)
			CCARENA_Y(i) = (ccarena_s32)ccarena_shift(CCARENA_C(0) * CCARENA_X(i) + CCARENA_C(1) * CCARENA_Z(i),
								  step->shift);
		break;
	case CCARENA_MUL:
		CCARENA_FOR(i, step->outputs)
			CCARENA_Y(i) = (ccarena_s32)ccarena_shift((ccarena_s64)CCARENA_X(i) * CCARENA_Z(i), step->shift);
		break;
	case CCARENA_AFFINE:
		CCARENA_FOR(i, step->outputs)
			CCARENA_Y(i) = (ccarena_s32)ccarena_shift(CCARENA_X(i) * CCARENA_C(2 * i) + CCARENA_C(2 * i + 1),
								  step->shift);
		break;
	case CCARENA_LAYER_NORM:
		ccarena_layer_norm(policy, step, values);
		break;
	}
}

#define CCARENA_ENTRY(k) policy->constants[CCARENA_AT(at + (k), CCARENA_CONSTANTS)]

/* Entry i of the observation, from a raw one in units of 2^-20. Any number may be given. */
CCARENA_INLINE ccarena_s32 ccarena_normalise(const struct ccarena_policy *policy, ccarena_u32 i, ccarena_s64 raw)
{
	ccarena_u32 at = i * CCARENA_PER_ENTRY;
	ccarena_s64 from = CCARENA_ENTRY(2), factor = CCARENA_ENTRY(3);

	raw = (ccarena_clamp(raw, CCARENA_ENTRY(0), CCARENA_ENTRY(1)) - from) * factor;
	return (ccarena_s32)ccarena_clamp(ccarena_shift(raw, (ccarena_u32)CCARENA_ENTRY(4)), CCARENA_ENTRY(5),
					  CCARENA_ENTRY(6));
}

/* All steps, on `values` that begin with the normalised observation and the flow's state. */
CCARENA_INLINE void ccarena_policy_run(const struct ccarena_policy *policy, ccarena_s32 *values)
{
	ccarena_u32 i;

	CCARENA_FOR(i, policy->steps_length)
		ccarena_step_run(policy, &policy->steps[CCARENA_AT(i, CCARENA_STEPS)], values);
}

/* The first of the largest of `length` values. */
CCARENA_INLINE ccarena_u32 ccarena_argmax(const ccarena_s32 *values, ccarena_u32 length)
{
	ccarena_u32 i, best = 0;

	CCARENA_FOR(i, length)
		best = values[i] > values[best] ? i : best;
	return best;
}

#endif
