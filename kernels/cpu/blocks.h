/* A block of stored values of each kind: as sums, to the wire and from it. */
#ifndef MC_CPU_BLOCKS_H
#define MC_CPU_BLOCKS_H
#include "../half.h"
#include "pack.h"

/* Stored values as the bits of sums: where they stand, or in the given room. */
MC_FN const mc_any32 *load_f32(const float *x, mc_any32 *room)
{
    (void)room;
    return (const mc_any32 *)x;
}

MC_FN const mc_any64 *load_f64(const double *x, mc_any64 *room)
{
    (void)room;
    return (const mc_any64 *)x;
}

MC_FN const mc_any32 *load_bf16(const mc_u16 *x, mc_any32 *room)
{
    EACH(j, 64) room[j] = (mc_u32)x[j] << 16;
    return room;
}

MC_FN const mc_any32 *load_f16(const mc_u16 *x, mc_any32 *room)
{
    EACH(j, 64) room[j] = mc_bits_f32(mc_f32_of_f16(x[j]));
    return room;
}

/* Stored values to wire. A float16's mantissa is short enough for 16-bit arithmetic: the upper 10 random bits decide. */
MC_FN void encode_f32(const float *x, draws_t from, mc_u8 *wire) { pack_9((const mc_any32 *)x, from, wire); }
MC_FN void encode_8(const float *x, draws_t from, mc_u8 *wire) { pack_8((const mc_any32 *)x, from, wire); }
MC_FN void encode_f64(const double *x, draws_t from, mc_u8 *wire) { pack_12((const mc_any64 *)x, from, wire); }

MC_FN void encode_bf16(const mc_u16 *x, draws_t from, mc_u8 *wire)
{
    mc_u32 room[64];
    pack_9(load_bf16(x, room), from, wire);
}

MC_FN void encode_f16(const mc_u16 *x, draws_t from, mc_u8 *wire)
{
    mc_u32 r[64], t[64], sign[64];
    mc_u8 code[64];
    draw_32(r, from);
    EACH(j, 64) t[j] = ((x[j] & 0x7FFFu) + (r[j] >> 22)) >> 10;
    EACH(j, 64) sign[j] = x[j] >> 15;
    codes_of(t, sign, 0, 5, code);
    if (any_top_6(t))
        EACH(j, 64) code[j] = (mc_u8)mc_natural_code_f16(mc_bits_f32(mc_f32_of_f16(x[j])), r[j]);
    wire_of_6(code, wire);
}

/* Wire to stored values: they need no rounding. */
MC_FN void decode_f32(const mc_u8 *wire, float *x) { unpack_9(wire, (mc_any32 *)x); }
MC_FN void decode_8(const mc_u8 *wire, float *x) { unpack_8(wire, (mc_any32 *)x); }
MC_FN void decode_f64(const mc_u8 *wire, double *x) { unpack_12(wire, (mc_any64 *)x); }

MC_FN void decode_bf16(const mc_u8 *wire, mc_u16 *x)
{
    mc_u32 u[64];
    unpack_9(wire, u);
    EACH(j, 64) x[j] = (mc_u16)(u[j] >> 16);
}

MC_FN void decode_f16(const mc_u8 *wire, mc_u16 *x)
{
    mc_u8 code[64];
    codes_of_6(wire, code);
    EACH(j, 64) x[j] = (mc_u16)mc_natural_bits_f16(code[j]);
}

#endif
