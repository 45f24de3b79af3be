/* Natural compression: the sign and exponent of a value, the exponent rounded up at random with the probability
 * that keeps the value right on average.
 *
 * A code is an exponent c with the sign bit above it. c = 0 is zero, c = all ones is Inf, sign with c = 0 is NaN.
 * Error: E decode(encode(x)) = x exactly, E|decode(encode(x))|^2 <= 9/8 x^2. Finite values never become Inf: from
 * the top exponent there is no rounding up, so above 2^127 (f32) the mean is the lower power of two.
 *
 * Wire, in blocks of 64 values (a shorter last block has the same two parts, cut; unused bits are 0):
 *   f32, bf16   9 bits: 64 bytes c; 8 bytes of signs, value j in bit j%8 of byte j/8
 *   f64        12 bits: 64 bytes c & 255; 32 bytes of nibbles sign<<3 | c>>8, value j in nibble j%2 of byte j/2
 *   f16         6 bits: 32 bytes of nibbles c & 15; 16 bytes of two bits sign<<1 | c>>4, value j at 2(j%4) of byte j/4
 * natural8 (f32), in blocks of 512: a byte `base`, then a byte sign<<7 | c each. Exponent c + s, s = max(base-127, 0).
 *
 * r is the element's random number; for rounding to the nearest (ties up) it is one half: MC_HALF or MC_HALF64. */
#ifndef MC_NATURAL_H
#define MC_NATURAL_H
#include "mc.h"

#define MC_HALF 0x80000000u
#define MC_HALF64 0x8000000000000000u
#define MC_INF 0x7F800000u                     /* bits of an infinite float; larger ones are NaN */
#define MC_INF64 0x7FF0000000000000u

/* Sign above c; zero has no sign; NaN (that is, u > inf) is the sign alone. */
MC_FN mc_u32 mc_natural_sign(mc_u32 negative, mc_u32 c, mc_u32 bit, mc_u32 nan)
{
    mc_u32 sign = c ? bit * negative : 0;
    return nan ? bit : c | sign;
}

MC_FN mc_u32 mc_natural_code_f32(mc_u32 bits, mc_u32 r)
{
    mc_u32 u = bits & 0x7FFFFFFF, c = (u + (r >> 9)) >> 23;
    c = c > 254 ? 254 : c;
    c = u >= MC_INF ? 255 : c;
    return mc_natural_sign(bits >> 31, c, 256, u > MC_INF);
}

MC_FN mc_u32 mc_natural_bits_f32(mc_u32 code)
{
    return code == 256 ? 0x7FC00000 : (code >> 8) << 31 | (code & 255) << 23;
}

MC_FN mc_u32 mc_natural_code_f64(mc_u64 bits, mc_u64 r)
{
    mc_u64 u = bits & 0x7FFFFFFFFFFFFFFFu;
    mc_u32 c = (mc_u32)((u + (r >> 12)) >> 52);
    c = c > 2046 ? 2046 : c;
    c = u >= MC_INF64 ? 2047 : c;
    return mc_natural_sign((mc_u32)(bits >> 63), c, 2048, u > MC_INF64);
}

MC_FN mc_u64 mc_natural_bits_f64(mc_u32 code)
{
    return code == 2048 ? 0x7FF8000000000000u : (mc_u64)(code >> 11) << 63 | (mc_u64)(code & 2047) << 52;
}

/* The level of |float| u where the levels are 0 and the powers of two with exponents above s (the first is 1).
 * Below the first level up to 32 bits of the value count: truncation costs at most 2^-32 of that level. */
MC_FN mc_u32 mc_natural_level(mc_u32 u, mc_u32 r, mc_u32 s)
{
    mc_u32 e = u >> 23, m = u & 0x7FFFFF;
    mc_u32 lowest = e ? e : 1, whole = e ? m | 0x800000 : m;
    mc_u32 down = s - lowest;
    mc_u32 fraction = lowest > s ? m << 9 : down > 31 ? 0 : whole << 8 >> (down & 31);
    return (lowest > s ? e - s : 0) + (fraction + r < r);
}

/* f16's code from a float, for sums: 65536 and above is Inf, smaller never rounds up to it. */
MC_FN mc_u32 mc_natural_code_f16(mc_u32 bits, mc_u32 r)
{
    mc_u32 u = bits & 0x7FFFFFFF, c = mc_natural_level(u, r, 112);
    c = c > 30 ? 30 : c;
    c = u >= 143u << 23 ? 31 : c;
    return mc_natural_sign(bits >> 31, c, 32, u > MC_INF);
}

MC_FN mc_u32 mc_natural_bits_f16(mc_u32 code)
{
    return code == 32 ? 0x7E00 : (code >> 5) << 15 | (code & 31) << 10;
}

/* The value of f16's code, as a float. */
MC_FN mc_u32 mc_natural_wide_f16(mc_u32 code)
{
    mc_u32 c = code & 31, e = c == 31 ? 255 : c ? c + 112 : 0;
    return code == 32 ? 0x7FC00000 : (code >> 5) << 31 | e << 23;
}

/* natural8: a block's base is the largest of its values' tops, the exponents they may round to. */
MC_FN mc_u32 mc_natural8_top(mc_u32 bits)
{
    mc_u32 u = bits & 0x7FFFFFFF, e = (u + 0x7FFFFF) >> 23;
    e = e > 254 ? 254 : e;
    return u > MC_INF ? 0 : u == MC_INF ? 255 : e;
}

MC_FN mc_u32 mc_natural8_floor(mc_u32 base) { return base > 127 ? base - 127 : 0; }

MC_FN mc_u32 mc_natural8_code(mc_u32 bits, mc_u32 r, mc_u32 s)
{
    mc_u32 u = bits & 0x7FFFFFFF, c = mc_natural_level(u, r, s);
    c = c > 254 - s ? 254 - s : c;
    c = u >= MC_INF ? 127 : c;
    return mc_natural_sign(bits >> 31, c, 128, u > MC_INF);
}

MC_FN mc_u32 mc_natural8_bits(mc_u32 code, mc_u32 s)
{
    mc_u32 c = code & 127;
    return code == 128 ? 0x7FC00000 : (code >> 7) << 31 | (c ? c + s : 0) << 23;
}

#endif
