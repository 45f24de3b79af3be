/* A block of sums, as the bits of floats, to and from the wire. Plain C that compilers vectorise: every loop has a
 * fixed length and works on local arrays, so that nothing can overlap. */
#ifndef MC_CPU_PACK_H
#define MC_CPU_PACK_H
#include "../natural.h"
#include "../rng.h"
#include "simd.h"

#define EACH(j, count) for (int j = 0; j < (count); j++)
/* For a loop so short that gcc would take it apart before it looks for vectors. */
#define EACH_ROLLED(j, count) _Pragma("GCC unroll 1") EACH(j, count)

/* Where random numbers come from: element `first` (a multiple of 64) of the stream `key`, or no chance at all. */
typedef struct {
    mc_u64 key, first;
    mc_u32 offset;
    mc_i32 nearest;
} draws_t;

MC_FN void draw_32(mc_u32 *r, draws_t from)
{
    mc_group_t g = mc_group(from.key, from.first / MC_GROUP);
    if (from.nearest)
        EACH(j, 64) r[j] = MC_HALF;
    else
        EACH(j, 64) r[j] = mc_draw(g, (mc_u32)j) + from.offset;
}

MC_FN void draw_64(mc_u64 *r, draws_t from)
{
    mc_group_t g = mc_group(from.key, from.first / MC_GROUP), more = mc_group_more(g);
    mc_u32 high[64], low[64];
    EACH(j, 64) high[j] = mc_draw(g, (mc_u32)j) + from.offset;
    EACH(j, 64) low[j] = mc_draw(more, (mc_u32)j);
    if (from.nearest)
        EACH(j, 64) r[j] = MC_HALF64;
    else
        EACH(j, 64) r[j] = (mc_u64)high[j] << 32 | low[j];
}

/* 9 bits: f32 and bf16. Infinities, NaN and the top exponent are rare: they go the long way, a whole block. */
MC_FN void pack_9(const mc_any32 *u, draws_t from, mc_u8 *wire)
{
    mc_u32 t[64], r[64];
    mc_u8 low[64];
    mc_u64 sign;
    draw_32(r, from);
    EACH(j, 64) t[j] = ((u[j] & 0x7FFFFFFF) + (r[j] >> 9)) >> 23;
    bytes_of_words(t, low);
    sign = top_bits(u) & ~bytes_equal(low, 0);
    if (bytes_equal(low, 255)) {
        EACH(j, 64) t[j] = mc_natural_code_f32(u[j], r[j]);
        EACH(j, 64) low[j] = (mc_u8)t[j];
        EACH(j, 64) t[j] <<= 23;
        sign = top_bits(t);
    }
    copy(wire, low, 64);
    memcpy(wire + 64, &sign, 8);
}

MC_FN void unpack_9(const mc_u8 *wire, mc_any32 *u)
{
    mc_u64 sign;
    memcpy(&sign, wire + 64, 8);
    floats_of(wire, sign, u);
}

/* 12 bits: f64 */
MC_FN void pack_12(const mc_any64 *u, draws_t from, mc_u8 *wire)
{
    mc_u64 r[64];
    mc_u16 code[64];
    mc_u8 part[96];
    draw_64(r, from);
    EACH(j, 64) code[j] = (mc_u16)mc_natural_code_f64(u[j], r[j]);
    EACH(j, 64) part[j] = (mc_u8)code[j];
    EACH(j, 32) part[64 + j] = (mc_u8)(code[2 * j] >> 8 | code[2 * j + 1] >> 8 << 4);
    copy(wire, part, 96);
}

MC_FN void unpack_12(const mc_u8 *wire, mc_any64 *u)
{
    mc_u16 code[64];
    mc_u8 part[96];
    copy(part, wire, 96);
    EACH(j, 32)
    {
        code[2 * j] = (mc_u16)(part[2 * j] | (part[64 + j] & 15) << 8);
        code[2 * j + 1] = (mc_u16)(part[2 * j + 1] | part[64 + j] >> 4 << 8);
    }
    EACH(j, 64) u[j] = mc_natural_bits_f64(code[j]);
}

/* Codes in bytes from levels and signs: the level above s, with the sign at `bit` where it is not 0. */
MC_FN void codes_of(const mc_u32 *level, const mc_u32 *sign, mc_u32 s, int bit, mc_u8 *code)
{
    mc_u8 c[64], high[64], floor = (mc_u8)s;
    bytes_of_words(level, c);
    bytes_of_words(sign, high);
    EACH(j, 64) c[j] = (mc_u8)(c[j] > floor ? c[j] - floor : 0);
    EACH(j, 64) code[j] = (mc_u8)(c[j] ? c[j] | high[j] << bit : 0);
}

/* 6 bits: f16. A pair of codes is 16 bits, of which first the nibbles, then the upper bits come together. */
MC_FN void wire_of_6(const mc_u8 *code, mc_u8 *wire)
{
    mc_u16 pair[32], quad[16];
    mc_u8 part[48], two[32];
    copy(pair, code, 64);
    EACH(j, 32) part[j] = (mc_u8)((pair[j] & 0x0F) | (pair[j] >> 4 & 0xF0));
    EACH(j, 32) two[j] = (mc_u8)((pair[j] >> 4 & 0x03) | (pair[j] >> 10 & 0x0C));
    copy(quad, two, 32);
    EACH_ROLLED(j, 16) part[32 + j] = (mc_u8)((quad[j] & 0x0F) | (quad[j] >> 4 & 0xF0));
    copy(wire, part, 48);
}

MC_FN void codes_of_6(const mc_u8 *wire, mc_u8 *code)
{
    mc_u16 pair[32], quad[16];
    mc_u8 part[48], two[32];
    copy(part, wire, 48);
    EACH_ROLLED(j, 16) quad[j] = (mc_u16)((part[32 + j] & 0x0F) | (part[32 + j] & 0xF0) << 4);
    copy(two, quad, 32);
    EACH(j, 32)
    pair[j] = (mc_u16)((part[j] & 0x0F) | (part[j] & 0xF0) << 4 | (two[j] & 0x03) << 4 | (two[j] & 0x0C) << 10);
    copy(code, pair, 64);
}

/* Infinities, NaN and the top exponent: a level of 31 or more. */
MC_FN int any_top_6(const mc_u32 *level)
{
    mc_u32 most = 0;
    EACH(j, 64) most |= level[j] + 1;
    return most > 31;
}

MC_FN void pack_6(const mc_any32 *u, draws_t from, mc_u8 *wire)
{
    mc_u32 r[64], t[64], sign[64];
    mc_u8 code[64];
    draw_32(r, from);
    EACH(j, 64) t[j] = mc_natural_level(u[j] & 0x7FFFFFFF, r[j], 112);
    EACH(j, 64) sign[j] = u[j] >> 31;
    codes_of(t, sign, 0, 5, code);
    if (any_top_6(t))
        EACH(j, 64) code[j] = (mc_u8)mc_natural_code_f16(u[j], r[j]);
    wire_of_6(code, wire);
}

MC_FN void unpack_6(const mc_u8 *wire, mc_any32 *u)
{
    mc_u8 code[64], e[64], high[64];
    codes_of_6(wire, code);
    EACH(j, 64)
    {
        mc_u8 c = code[j] & 31;
        e[j] = (mc_u8)(c == 31 ? 255 : c ? c + 112 : 0);
        high[j] = code[j] >> 5;
    }
    floats_of(e, bytes_equal(high, 1), u);
}

/* 8 bits in a window: natural8, 512 values. A block without infinities, NaN, the top exponent and values below the
 * lowest level (but zeros) goes the short way. */
MC_FN mc_u32 base_8(const mc_any32 *u, int *rare)
{
    mc_u32 most = 0, low = 0xFFFFFFFF, base = 0, s;
    EACH(j, 512)
    {
        mc_u32 v = u[j] & 0x7FFFFFFF, w = v - 1; /* so that zero does not count as small */
        most = (mc_i32)v > (mc_i32)most ? v : most;
        low = w < low ? w : low;
    }
    if (most <= MC_INF)
        base = mc_natural8_top(most);
    else
        EACH(j, 512) base = mc_natural8_top(u[j]) > base ? mc_natural8_top(u[j]) : base;
    s = mc_natural8_floor(base);
    *rare = most > MC_INF || base >= 254 || (s > 0 && low < ((s + 1) << 23) - 1);
    return base;
}

MC_FN void pack_8(const mc_any32 *u, draws_t from, mc_u8 *wire)
{
    int rare;
    mc_u32 base = base_8(u, &rare), s = mc_natural8_floor(base);
    wire[0] = (mc_u8)base;
    for (int i = 0; i < 512; i += 64, from.first += 64) {
        mc_u32 r[64], t[64], sign[64];
        mc_u8 code[64];
        draw_32(r, from);
        EACH(j, 64) t[j] = ((u[i + j] & 0x7FFFFFFF) + (r[j] >> 9)) >> 23;
        EACH(j, 64) sign[j] = u[i + j] >> 31;
        codes_of(t, sign, s, 7, code);
        if (rare)
            EACH(j, 64) code[j] = (mc_u8)mc_natural8_code(u[i + j], r[j], s);
        copy(wire + 1 + i, code, 64);
    }
}

MC_FN void unpack_8(const mc_u8 *wire, mc_any32 *u)
{
    mc_u8 s = (mc_u8)mc_natural8_floor(wire[0]);
    for (int i = 0; i < 512; i += 64) {
        mc_u8 code[64], e[64], high[64];
        copy(code, wire + 1 + i, 64);
        EACH(j, 64)
        {
            mc_u8 c = code[j] & 127;
            e[j] = (mc_u8)(c ? c + s : 0);
            high[j] = code[j] & 128;
        }
        floats_of(e, bytes_equal(high, 128), u + i);
    }
}

#endif
