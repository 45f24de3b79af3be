/* float16 and bfloat16, as bits, from and to float. Rounding is to nearest even; too large becomes Inf; every NaN
 * becomes the one quiet NaN, so that all machines agree on the bits. */
#ifndef MC_HALF_H
#define MC_HALF_H
#include "mc.h"

MC_FN float mc_f32_of_bf16(mc_u16 h) { return mc_f32((mc_u32)h << 16); }

MC_FN mc_u16 mc_bf16_of_f32(float x)
{
    mc_u32 u = mc_bits_f32(x);
    mc_u32 rounded = (u + 0x7FFF + (u >> 16 & 1)) >> 16;
    return (mc_u16)((u & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : rounded);
}

MC_FN float mc_f32_of_f16(mc_u16 h)
{
    mc_u32 u = h & 0x7FFF, sign = (mc_u32)(h & 0x8000) << 16;
    mc_u32 normal = (u << 13) + (u >= 0x7C00 ? 224u << 23 : 112u << 23);
    mc_u32 small = mc_bits_f32((float)(mc_i32)u * 5.9604644775390625e-8f);   /* 2^-24: exact */
    return mc_f32(sign | (u < 0x400 ? small : normal));
}

MC_FN mc_u16 mc_f16_of_f32(float x)
{
    mc_u32 bits = mc_bits_f32(x), u = bits & 0x7FFFFFFF;
    mc_u32 normal = ((u + 0xFFF + (u >> 13 & 1)) >> 13) - (112u << 10);
    mc_u32 small = mc_bits_f32(mc_f32(u) + 0.5f) - mc_bits_f32(0.5f);        /* the adder rounds to 2^-24 */
    mc_u32 h = u < 0x38800000 ? small : normal;
    h = u >= 0x477FF000 ? 0x7C00 : h;
    h |= bits >> 16 & 0x8000;
    return (mc_u16)(u > 0x7F800000 ? 0x7E00 : h);
}

#endif
