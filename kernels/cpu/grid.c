/* Values on an absolute grid: see grid.h. In blocks of 64, of which the last is filled up with zeros. */
#include "../grid.h"
#include "level.h"
#include "pack.h"

MC_FN void pack_grid(const mc_i32 *g, mc_i32 bits, mc_u8 *wire)
{
    mc_u16 pair[64];
    mc_u8 byte[64];
    EACH(j, 64) pair[j] = (mc_u16)g[j];
    EACH(j, 64) byte[j] = (mc_u8)g[j];
    if (bits == 16) {
        copy(wire, pair, 128);
        return;
    }
    if (bits == 2)
        EACH(j, 16) byte[j] = (mc_u8)((byte[4 * j] & 3) | (byte[4 * j + 1] & 3) << 2 | (byte[4 * j + 2] & 3) << 4 | byte[4 * j + 3] << 6);
    else if (bits == 4)
        EACH(j, 32) byte[j] = (mc_u8)((byte[2 * j] & 15) | byte[2 * j + 1] << 4);
    memcpy(wire, byte, (size_t)(8 * bits));
}

MC_FN void unpack_grid(const mc_u8 *wire, mc_i32 bits, mc_u32 *code)
{
    if (bits == 16)
        EACH(j, 64) code[j] = (mc_u32)wire[2 * j] | (mc_u32)wire[2 * j + 1] << 8;
    else if (bits == 8)
        EACH(j, 64) code[j] = wire[j];
    else if (bits == 4)
        EACH(j, 64) code[j] = wire[j / 2] >> (4 * (j % 2));
    else
        EACH(j, 64) code[j] = wire[j / 4] >> (2 * (j % 4));
}

MC_FN void copy_of(const double *x, double *y) { memcpy(y, x, 64 * sizeof *x); }

#define GRID(kind, STORED, WIDE)                                                                                         \
    MC_FN void encode_##kind(const STORED *x, draws_t from, double step, mc_i32 bits, mc_u8 *wire)                       \
    {                                                                                                                    \
        mc_i32 g[64], most = mc_grid_most(bits);                                                                         \
        mc_u32 r[64];                                                                                                    \
        double y[64];                                                                                                    \
        draw_32(r, from);                                                                                                \
        WIDE(x, y);                                                                                                      \
        EACH(j, 64) g[j] = mc_grid_number(y[j], r[j], step, most);                                                       \
        pack_grid(g, bits, wire);                                                                                        \
    }                                                                                                                    \
    MC_FN void decode_##kind(const mc_u8 *wire, double step, mc_i32 bits, STORED *out)                                   \
    {                                                                                                                    \
        mc_u32 code[64];                                                                                                 \
        unpack_grid(wire, bits, code);                                                                                   \
        EACH(j, 64) out[j] = (STORED)mc_grid_value(code[j], step, bits);                                                 \
    }                                                                                                                    \
    MC_KERNEL(mc_grid_encode_##kind)(const STORED *x, mc_i64 n, mc_u8 *wire, mc_u64 key, mc_u64 first, mc_u32 offset,     \
                                     mc_i32 nearest, double step, mc_i32 bits)                                           \
    {                                                                                                                    \
        draws_t from = {key, first, offset, nearest};                                                                    \
        for (; n >= 64; n -= 64, x += 64, wire += 8 * bits, from.first += 64) {                                          \
            ahead(x, 64 * sizeof *x);                                                                                    \
            encode_##kind(x, from, step, bits, wire);                                                                    \
        }                                                                                                                \
        if (n > 0) {                                                                                                     \
            STORED last[64] = {0};                                                                                       \
            mc_u8 full[128];                                                                                             \
            memcpy(last, x, (size_t)n * sizeof *x);                                                                      \
            encode_##kind(last, from, step, bits, full);                                                                 \
            memcpy(wire, full, (size_t)(n * bits + 7) / 8);                                                              \
        }                                                                                                                \
    }                                                                                                                    \
    MC_KERNEL(mc_grid_decode_##kind)(const mc_u8 *wire, mc_i64 n, STORED *out, double step, mc_i32 bits)                 \
    {                                                                                                                    \
        for (; n >= 64; n -= 64, out += 64, wire += 8 * bits)                                                            \
            decode_##kind(wire, step, bits, out);                                                                        \
        if (n > 0) {                                                                                                     \
            STORED last[64];                                                                                             \
            mc_u8 full[128] = {0};                                                                                       \
            memcpy(full, wire, (size_t)(n * bits + 7) / 8);                                                              \
            decode_##kind(full, step, bits, last);                                                                       \
            memcpy(out, last, (size_t)n * sizeof *out);                                                                  \
        }                                                                                                                \
    }

GRID(f32, float, doubles_of)
GRID(f64, double, copy_of)
