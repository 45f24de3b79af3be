/* A block of values, in and out of registers: the random numbers of a block, its conversion to sums, and the packing
 * of its codes. Plain C that compilers vectorise; every loop has a fixed length. */
#ifndef MC_CPU_BLOCKS_H
#define MC_CPU_BLOCKS_H
#include "../half.h"
#include "../natural.h"
#include "../rng.h"

#define EACH(j, count) for (int j = 0; j < (count); j++)

/* Random numbers of `count` elements (a multiple of 64) from element `first` (likewise). */
MC_FN void draw_32(mc_u32 *r, int count, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    if (nearest) {
        EACH(j, count) r[j] = MC_HALF;
        return;
    }
    for (int i = 0; i < count; i += MC_GROUP) {
        mc_group_t g = mc_group(key, (first + (mc_u64)i) / MC_GROUP);
        EACH(j, MC_GROUP) r[i + j] = mc_draw(g, (mc_u32)j) + offset;
    }
}

MC_FN void draw_64(mc_u64 *r, int count, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    if (nearest) {
        EACH(j, count) r[j] = MC_HALF64;
        return;
    }
    for (int i = 0; i < count; i += MC_GROUP) {
        mc_group_t g = mc_group(key, (first + (mc_u64)i) / MC_GROUP), more = mc_group_more(g);
        mc_u32 high[MC_GROUP], low[MC_GROUP];
        EACH(j, MC_GROUP) high[j] = mc_draw(g, (mc_u32)j) + offset;
        EACH(j, MC_GROUP) low[j] = mc_draw(more, (mc_u32)j);
        EACH(j, MC_GROUP) r[i + j] = (mc_u64)high[j] << 32 | low[j];
    }
}

/* Bytes of 0 and 1 to bits and back, eight at a time: the products and masks move byte k to bit k and back. */
MC_FN mc_u8 bits_of_bytes(const mc_u8 *flag)
{
    mc_u64 v;
    memcpy(&v, flag, 8);
    return (mc_u8)(v * 0x0102040810204080u >> 56);
}

MC_FN void bytes_of_bits(mc_u8 bits, mc_u8 *flag)
{
    mc_u64 v = (bits * 0x0101010101010101u & 0x8040201008040201u) + 0x7F7F7F7F7F7F7F7Fu;
    v = v >> 7 & 0x0101010101010101u;
    memcpy(flag, &v, 8);
}

/* 9 bits: f32 and bf16 */
MC_FN void pack_9(const float *x, const mc_u32 *r, mc_u8 *wire)
{
    mc_u8 sign[64];
    mc_u16 code[64];
    EACH(j, 64) code[j] = (mc_u16)mc_natural_code_f32(mc_bits_f32(x[j]), r[j]);
    EACH(j, 64) wire[j] = (mc_u8)code[j];
    EACH(j, 64) sign[j] = (mc_u8)(code[j] >> 8);
    EACH(k, 8) wire[64 + k] = bits_of_bytes(sign + 8 * k);
}

MC_FN void unpack_9(const mc_u8 *wire, float *x)
{
    mc_u8 sign[64];
    EACH(k, 8) bytes_of_bits(wire[64 + k], sign + 8 * k);
    EACH(j, 64) x[j] = mc_f32(mc_natural_bits_f32((mc_u32)sign[j] << 8 | wire[j]));
}

/* 12 bits: f64 */
MC_FN void pack_12(const double *x, const mc_u64 *r, mc_u8 *wire)
{
    mc_u16 code[64];
    EACH(j, 64) code[j] = (mc_u16)mc_natural_code_f64(mc_bits_f64(x[j]), r[j]);
    EACH(j, 64) wire[j] = (mc_u8)code[j];
    EACH(j, 32) wire[64 + j] = (mc_u8)(code[2 * j] >> 8 | code[2 * j + 1] >> 8 << 4);
}

MC_FN void unpack_12(const mc_u8 *wire, double *x)
{
    mc_u16 code[64];
    EACH(j, 32) code[2 * j] = (mc_u16)(wire[2 * j] | (wire[64 + j] & 15) << 8);
    EACH(j, 32) code[2 * j + 1] = (mc_u16)(wire[2 * j + 1] | wire[64 + j] >> 4 << 8);
    EACH(j, 64) x[j] = mc_f64(mc_natural_bits_f64(code[j]));
}

/* 6 bits: f16 */
MC_FN void pack_6(const float *x, const mc_u32 *r, mc_u8 *wire)
{
    mc_u8 code[64];
    EACH(j, 64) code[j] = (mc_u8)mc_natural_code_f16(mc_bits_f32(x[j]), r[j]);
    EACH(j, 32) wire[j] = (mc_u8)((code[2 * j] & 15) | (code[2 * j + 1] & 15) << 4);
    EACH(j, 16)
    wire[32 + j] = (mc_u8)(code[4 * j] >> 4 | code[4 * j + 1] >> 4 << 2 | code[4 * j + 2] >> 4 << 4
                           | code[4 * j + 3] >> 4 << 6);
}

MC_FN void codes_6(const mc_u8 *wire, mc_u8 *code)
{
    EACH(j, 16)
    EACH(k, 4)
    code[4 * j + k] = (mc_u8)((wire[2 * j + k / 2] >> (4 * (k % 2)) & 15) | (wire[32 + j] >> (2 * k) & 3) << 4);
}

MC_FN void unpack_6(const mc_u8 *wire, float *x)
{
    mc_u8 code[64];
    codes_6(wire, code);
    EACH(j, 64) x[j] = mc_f32(mc_natural_wide_f16(code[j]));
}

/* 8 bits in a window: natural8, 512 values */
MC_FN void pack_8(const float *x, const mc_u32 *r, mc_u8 *wire)
{
    mc_u32 base = 0, s;
    EACH(j, 512)
    {
        mc_u32 top = mc_natural8_top(mc_bits_f32(x[j]));
        base = top > base ? top : base;
    }
    s = mc_natural8_floor(base);
    wire[0] = (mc_u8)base;
    EACH(j, 512) wire[1 + j] = (mc_u8)mc_natural8_code(mc_bits_f32(x[j]), r[j], s);
}

MC_FN void unpack_8(const mc_u8 *wire, float *x)
{
    mc_u32 s = mc_natural8_floor(wire[0]);
    EACH(j, 512) x[j] = mc_f32(mc_natural8_bits(wire[1 + j], s));
}

/* Values as they are stored, to and from the type they are summed in. Narrowing here is for decoded values, which
 * need no rounding. */
MC_FN void widen_bf16(const mc_u16 *x, float *v) { EACH(j, 64) v[j] = mc_f32_of_bf16(x[j]); }
MC_FN void widen_f16(const mc_u16 *x, float *v) { EACH(j, 64) v[j] = mc_f32_of_f16(x[j]); }

MC_FN void decode_bf16(const mc_u8 *wire, mc_u16 *x)
{
    float v[64];
    unpack_9(wire, v);
    EACH(j, 64) x[j] = (mc_u16)(mc_bits_f32(v[j]) >> 16);
}

MC_FN void decode_f16(const mc_u8 *wire, mc_u16 *x)
{
    mc_u8 code[64];
    codes_6(wire, code);
    EACH(j, 64) x[j] = (mc_u16)mc_natural_bits_f16(code[j]);
}

#endif
