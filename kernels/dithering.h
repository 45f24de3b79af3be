/* Dithering: each value as a level between 0 and 1 of its block's norm, chosen at random between the two levels next
 * to it, so that it is right on average.
 *
 *   standard levels   j * step, j = 0..u, u = 2^(bits-1) - 1, step = norm/u rounded up
 *   natural levels    0 and 2^(c-s), c = 1..s, s = 2^(bits-1) - 1
 *
 * Wire, in blocks of `block` values (a multiple of 64; the last may be shorter): the norm, then for each 64 values
 * `bits` planes of 8 bytes: plane k < bits-1 has bit k of the level, the last plane the signs; value j is bit j%8 of
 * byte j/8. A last group of m values has planes of ceil(m/8) bytes. Zero has no sign; unused bits are 0.
 * The norm: a float32, for f64 a float64; through natural compression its exponent alone, in 1 byte, for f64 in 2.
 * Its sign does not count; where it is not finite the block is NaN. A block that holds a NaN, an Inf or a sum that its kind cannot store
 * becomes NaN.
 *
 * Error, f32, f16 and bf16: levels are chosen in float32, and |E decode(encode(x)) - x| is at most 2^-22 |x| (its
 * roundings) and, standard, 2^-29 of the norm, natural, 2^-24 of the lowest level. f64: 2^-32 of the distance of two
 * levels and a rounding. For f16 and bf16 norms and steps are rounded up to so few bits that what is decoded can be stored
 * exactly (but below 2^-14 in f16, where it is rounded to multiples of 2^-24).
 * With a natural norm, which is a power of two, a step is norm times the step of 1.
 *
 * Norms are summed in double in a fixed order, the same on every machine: the 64 terms of a group are halved three
 * times (j and j+32, j and j+16, j and j+8), the eight sums are added up group by group, and halved three times. */
#ifndef MC_DITHERING_H
#define MC_DITHERING_H
#include "mc.h"

#define MC_NATURAL_LEVELS 1                    /* flags */
#define MC_NATURAL_NORM 2
#define MC_NORM_MOST 1e120                     /* squares of larger doubles, or of smaller than 1 by this, are scaled */

/* A level is the next one below a value, and one more with the probability of the fraction that is left: random bits (r, of
 * doubles ~r) are added to it and carry into the level.
 *
 * Standard levels, with their signs. Floats: y = x * inverse is 2^(31-bits) for each level, which leaves a bit to spare for what
 * was rounded up. Doubles: y is 1 for each, and the sum with MC_DITHERING_SHIFT has 32 bits of fraction, also below 0. */
MC_FN mc_i32 mc_dithering_standard_f32(float y, mc_u32 r, int bits)
{
    return ((mc_i32)y + (mc_i32)(r >> (bits + 1))) >> (31 - bits);
}

#define MC_DITHERING_SHIFT 1572864.0           /* 1.5 * 2^20 */
#define MC_DITHERING_ZERO 0x41380000           /* its upper word */
MC_FN mc_i32 mc_dithering_standard_f64(double y, mc_u32 r)
{
    return (mc_i32)((mc_bits_f64(y + MC_DITHERING_SHIFT) + (mc_u32)~r) >> 32) - MC_DITHERING_ZERO;
}

/* Natural levels are powers of two of y = |x| * inverse: of floats the highest is 2^64, of doubles the lowest 1. `half` is half
 * of the lowest: below that y / 2 + half takes the place of y, an exponent less, and y itself as the fraction. Floats: the
 * level above MC_NATURAL_TOP - top. */
#define MC_NATURAL_TOP (127u + 64)
MC_FN mc_u32 mc_dithering_natural_f32(float y, float half, mc_u32 r)
{
    float low = mc_add_half(half, y);
    return (mc_bits_f32(y > low ? y : low) + (r >> 9)) >> 23;
}

MC_FN mc_u32 mc_dithering_natural_f64(double y, mc_u32 r)
{
    double low = mc_add_exact(0.5, 0.5, y);
    return (mc_u32)((mc_bits_f64(y > low ? y : low) + ((mc_u64)(mc_u32)~r << 20)) >> 52) - 1022;
}

/* Norms of floats below 2^-63 are brought nearer to 1, with their values: else no float could be the inverse of a subnormal. */
MC_FN float mc_dithering_factor(float norm) { return mc_bits_f32(norm) < 64u << 23 ? 79228162514264337593543950336.0f : 1; }

/* What one standard level is worth: norm / u, rounded up, so that no value is above the highest. For f16 and bf16,
 * which have no room for the `spare` bits of a mantissa, to so few bits that every level can be stored. */
MC_FN mc_u32 mc_dithering_spare(mc_u32 spare, mc_u32 u) { return u > 1 && spare ? (spare + 1) * (u + 1) - 1 : spare; }

/* Floats as whole numbers times a power of two: whether step * u is below norm, exactly. */
MC_FN mc_u32 mc_dithering_exponent(mc_u32 bits) { return bits >> 23 ? bits >> 23 : 1; }
MC_FN mc_u32 mc_dithering_whole(mc_u32 bits) { return (bits & 0x7FFFFF) | (bits >> 23 ? 0x800000 : 0); }
MC_FN mc_u32 mc_dithering_below(mc_u32 step, mc_u32 u, mc_u32 norm)
{
    mc_u32 more = mc_dithering_exponent(norm) - mc_dithering_exponent(step);
    return mc_dithering_whole(step) * u < mc_dithering_whole(norm) << (more & 31);
}

MC_FN float mc_dithering_step_f32(float norm, mc_u32 u, mc_u32 spare)
{
    mc_u32 step = mc_bits_f32(mc_div_f32(norm, (float)u)), more = mc_dithering_spare(spare, u);
    step += mc_dithering_below(step, u, mc_bits_f32(norm));
    return mc_f32((step + more) & ~more);
}

MC_FN double mc_dithering_step_f64(double norm, mc_u32 u)
{
    double step = norm / (double)u;
    return mc_f64(mc_bits_f64(step) + (step * (double)u < norm));
}

/* A norm as it is sent: at most the largest finite number. `spare` bits of the mantissa are rounded up to 0. */
MC_FN float mc_norm_f32(double size, mc_u32 spare)
{
    mc_u32 u = mc_bits_f32(size > 3.4028234663852886e38 ? 3.4028234663852886e38f : mc_narrow(size));
    u = (u + spare) & ~spare;
    return mc_f32(u >= 0x7F800000 ? 0x7F7FFFFF & ~spare : u);
}

MC_FN double mc_norm_f64(double size) { return size > 1.7976931348623157e308 ? 1.7976931348623157e308 : size; }

/* The power of two that brings a double near 1 (as near as one factor can), where its square needs it, else 1. */
MC_FN double mc_norm_factor(double most)
{
    mc_u32 e = (mc_u32)(mc_bits_f64(most) >> 52), to = e > 2045 ? 1 : e < 1 ? 2045 : 2046 - e;
    int fits = most == 0 || (most < MC_NORM_MOST && most > 1 / MC_NORM_MOST);
    return fits ? 1 : mc_f64((mc_u64)to << 52);
}

#endif
