/* Signs with a scale: each value becomes the mean of |x| over its block, with its own sign; zero counts as positive.
 *
 * Wire, in blocks of `block` values (a multiple of 64; the last may be shorter): the scale, a float32, for f64 a
 * float64; then a bit a value, 1 for negative, value j in bit j%8 of byte j/8; unused bits are 0. Where the scale is
 * not finite the block is NaN; a block that holds a NaN, an Inf or a sum that its kind cannot store becomes NaN.
 *
 * Error, deterministic: |C(x) - x|^2 = |x|^2 - |x|_1^2 / d for a block of d values: at most (1 - 1/d) |x|^2. Biased.
 * |x| is summed in double in the order that dithering.h states. */
#ifndef MC_SIGN_H
#define MC_SIGN_H
#include "mc.h"

/* A number whose top bit says that the float of these bits is less than 0 (or is a NaN with a sign). */
MC_FN mc_u32 mc_sign_negative(mc_u32 bits) { return bits & (bits - 1); }

#endif
