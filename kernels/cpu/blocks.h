/* A block of values, between memory and wire, as the bits of the floats they are summed in. Plain C that compilers
 * vectorise: every loop has a fixed length and works on local arrays, so that nothing can overlap. */
#ifndef MC_CPU_BLOCKS_H
#define MC_CPU_BLOCKS_H
#include "../half.h"
#include "../natural.h"
#include "../rng.h"
#include "simd.h"

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

/* 9 bits: f32 and bf16. Infinities, NaN and the top exponent are rare: they go the long way, a whole block. */
MC_FN void pack_9(const mc_u32 *u, const mc_u32 *r, mc_u8 *wire)
{
    mc_u32 t[64];
    mc_u8 low[64];
    mc_u64 sign;
    EACH(j, 64) t[j] = ((u[j] & 0x7FFFFFFF) + (r[j] >> 9)) >> 23;
    bytes_of_words(t, low);
    sign = top_bits(u) & ~bytes_equal(low, 0);
    if (bytes_equal(low, 255)) {
        EACH(j, 64) t[j] = mc_natural_code_f32(u[j], r[j]);
        EACH(j, 64) low[j] = (mc_u8)t[j];
        EACH(j, 64) t[j] <<= 23;
        sign = top_bits(t);
    }
    memcpy(wire, low, 64);
    memcpy(wire + 64, &sign, 8);
}

MC_FN void unpack_9(const mc_u8 *wire, mc_u32 *u)
{
    mc_u8 low[64];
    mc_u32 top[64];
    mc_u64 sign;
    memcpy(low, wire, 64);
    memcpy(&sign, wire + 64, 8);
    tops_of_bits(sign, top);
    EACH(j, 64) u[j] = (mc_u32)low[j] << 23 | top[j];
    if (sign & bytes_equal(low, 0))
        EACH(j, 64) u[j] = mc_natural_bits_f32(u[j] >> 23);
}

/* 12 bits: f64 */
MC_FN void pack_12(const mc_u64 *u, const mc_u64 *r, mc_u8 *wire)
{
    mc_u16 code[64];
    mc_u8 part[96];
    EACH(j, 64) code[j] = (mc_u16)mc_natural_code_f64(u[j], r[j]);
    EACH(j, 64) part[j] = (mc_u8)code[j];
    EACH(j, 32) part[64 + j] = (mc_u8)(code[2 * j] >> 8 | code[2 * j + 1] >> 8 << 4);
    memcpy(wire, part, 96);
}

MC_FN void unpack_12(const mc_u8 *wire, mc_u64 *u)
{
    mc_u16 code[64];
    mc_u8 part[96];
    memcpy(part, wire, 96);
    EACH(j, 32)
    {
        code[2 * j] = (mc_u16)(part[2 * j] | (part[64 + j] & 15) << 8);
        code[2 * j + 1] = (mc_u16)(part[2 * j + 1] | part[64 + j] >> 4 << 8);
    }
    EACH(j, 64) u[j] = mc_natural_bits_f64(code[j]);
}

/* 6 bits: f16 */
MC_FN void pack_6(const mc_u32 *u, const mc_u32 *r, mc_u8 *wire)
{
    mc_u8 code[64], two[32], part[48];
    EACH(j, 64) code[j] = (mc_u8)mc_natural_code_f16(u[j], r[j]);
    EACH(j, 32) part[j] = (mc_u8)((code[2 * j] & 15) | code[2 * j + 1] << 4);
    EACH(j, 32) two[j] = (mc_u8)(code[2 * j] >> 4 | code[2 * j + 1] >> 4 << 2);
    EACH(j, 16) part[32 + j] = (mc_u8)(two[2 * j] | two[2 * j + 1] << 4);
    memcpy(wire, part, 48);
}

MC_FN void codes_6(const mc_u8 *wire, mc_u8 *code)
{
    mc_u8 part[48], two[32];
    memcpy(part, wire, 48);
    EACH(j, 16)
    {
        two[2 * j] = part[32 + j] & 15;
        two[2 * j + 1] = part[32 + j] >> 4;
    }
    EACH(j, 32)
    {
        code[2 * j] = (mc_u8)((part[j] & 15) | (two[j] & 3) << 4);
        code[2 * j + 1] = (mc_u8)(part[j] >> 4 | two[j] >> 2 << 4);
    }
}

MC_FN void unpack_6(const mc_u8 *wire, mc_u32 *u)
{
    mc_u8 code[64];
    codes_6(wire, code);
    EACH(j, 64) u[j] = mc_natural_wide_f16(code[j]);
}

/* 8 bits in a window: natural8, 512 values. The short way is for blocks without infinities, NaN, the top exponent
 * or values below the lowest level (but zeros): that is, for nearly all. */
MC_FN void pack_8(const mc_u32 *u, const mc_u32 *r, mc_u8 *wire)
{
    mc_i32 most = 0, least = 0x7FFFFFFF, nan = 0;
    mc_u32 base, s, t[512];
    mc_u8 code[512];
    EACH(j, 512)
    {
        mc_i32 v = (mc_i32)(u[j] & 0x7FFFFFFF), w = (mc_i32)((mc_u32)(v - 1) & 0x7FFFFFFF);
        mc_i32 number = v > (mc_i32)MC_INF ? 0 : v;
        nan |= v - number;
        most = number > most ? number : most;
        least = w < least ? w : least;
    }
    base = mc_natural8_top((mc_u32)most);
    s = mc_natural8_floor(base);
    if (base < 254 && !nan && (s == 0 || (mc_u32)least + 1 >= (s + 1) << 23)) {
        EACH(j, 512)
        {
            mc_i32 c = (mc_i32)(((u[j] & 0x7FFFFFFF) + (r[j] >> 9)) >> 23) - (mc_i32)s;
            t[j] = c > 0 ? (mc_u32)c | (u[j] >> 24 & 128) : 0;
        }
        EACH(k, 8) bytes_of_words(t + 64 * k, code + 64 * k);
    } else {
        EACH(j, 512) code[j] = (mc_u8)mc_natural8_code(u[j], r[j], s);
    }
    wire[0] = (mc_u8)base;
    memcpy(wire + 1, code, 512);
}

MC_FN void unpack_8(const mc_u8 *wire, mc_u32 *u)
{
    mc_u32 s = mc_natural8_floor(wire[0]);
    mc_u8 code[512];
    memcpy(code, wire + 1, 512);
    EACH(j, 512) u[j] = mc_natural8_bits(code[j], s);
}

/* Stored values as the bits of sums, and decoded ones as stored: the latter need no rounding. */
MC_FN void load_bf16(const mc_u16 *x, mc_u32 *u)
{
    EACH(j, 64) u[j] = (mc_u32)x[j] << 16;
}

MC_FN void load_f16(const mc_u16 *x, mc_u32 *u)
{
    EACH(j, 64) u[j] = mc_bits_f32(mc_f32_of_f16(x[j]));
}

MC_FN void decode_f32(const mc_u8 *wire, float *x)
{
    mc_u32 u[64];
    unpack_9(wire, u);
    memcpy(x, u, sizeof u);
}

MC_FN void decode_f64(const mc_u8 *wire, double *x)
{
    mc_u64 u[64];
    unpack_12(wire, u);
    memcpy(x, u, sizeof u);
}

MC_FN void decode_8(const mc_u8 *wire, float *x)
{
    mc_u32 u[512];
    unpack_8(wire, u);
    memcpy(x, u, sizeof u);
}

MC_FN void decode_bf16(const mc_u8 *wire, mc_u16 *x)
{
    mc_u32 u[64];
    unpack_9(wire, u);
    EACH(j, 64) x[j] = (mc_u16)(u[j] >> 16);
}

MC_FN void decode_f16(const mc_u8 *wire, mc_u16 *x)
{
    mc_u8 code[64];
    codes_6(wire, code);
    EACH(j, 64) x[j] = (mc_u16)mc_natural_bits_f16(code[j]);
}

#endif
