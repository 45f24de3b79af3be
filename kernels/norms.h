/* Norms of blocks on the wire. */
#ifndef MC_NORMS_H
#define MC_NORMS_H
#include "natural.h"

/* A norm to wire and back, through natural compression or as it is: what is not finite comes back as NaN, and nothing
 * negative does. `draw` are 64 random bits. */
MC_FN void write_norm_f32(float norm, int natural, mc_u64 draw, mc_u8 *wire)
{
    if (natural)
        wire[0] = norm == norm ? (mc_u8)mc_natural_code_f32(mc_bits_f32(norm), (mc_u32)(draw >> 32)) : 255;
    else
        memcpy(wire, &norm, 4);
}

MC_FN float read_norm_f32(const mc_u8 *wire, int natural)
{
    mc_u32 u;
    if (natural)
        u = (mc_u32)wire[0] << 23;
    else
        memcpy(&u, wire, 4);
    u &= 0x7FFFFFFF;
    return mc_f32(u < MC_INF ? u : 0x7FC00000);
}

MC_FN void write_norm_f64(double norm, int natural, mc_u64 draw, mc_u8 *wire)
{
    mc_u16 code = norm == norm ? (mc_u16)mc_natural_code_f64(mc_bits_f64(norm), draw) : 2047;
    if (natural)
        memcpy(wire, &code, 2);
    else
        memcpy(wire, &norm, 8);
}

MC_FN double read_norm_f64(const mc_u8 *wire, int natural)
{
    mc_u16 code;
    mc_u64 u;
    memcpy(&code, wire, 2);
    if (natural)
        u = (mc_u64)(code > 2047 ? 2047 : code) << 52;
    else
        memcpy(&u, wire, 8);
    u &= 0x7FFFFFFFFFFFFFFFu;
    return mc_f64(u < MC_INF64 ? u : 0x7FF8000000000000u);
}

#endif
