/* Sparse codecs: k of the m values of each block, and which. A block has at most 65536 values.
 *
 * topk keeps the k largest magnitudes, compared as the integers that their bits are: NaN above Inf above all finite
 * ones; of equal magnitudes those at lower indices. Error: |decode(encode(x)) - x|^2 <= (1 - k/m) |x|^2.
 * randk keeps one value at random of each of k cells, the same on every rank that has the same key, and decodes them
 * times m/k. Error: E decode(encode(x)) = x up to 2^-32, E|decode(encode(x)) - x|^2 = (m/k - 1) |x|^2.
 *
 * Wire of a block: the k values in order of their indices (as they are, or as another codec writes them); then
 *   topk    the indices, `width` bits each, the first lowest, in as many bytes as they need; a byte `mark`
 *   randk   8 bytes, little-endian: 63 bits of the block's key, from which the indices follow, and `mark` as bit 63
 * and zeros up to a multiple of 8 bytes. With `mark` set all of the block decodes to NaN: topk's holds more than k values
 * that are NaN or Inf, randk's one or more.
 *
 * Cells are m/k values long, rounded, on a circle of the block's values that is turned at random. So every value is as
 * likely to be kept as any other, also where k does not divide m and cells differ by one. */
#ifndef MC_SPARSE_H
#define MC_SPARSE_H
#include "rng.h"

#define MC_SPARSE_MOST 65536                /* values of a block */
#define MC_RANDK_MARK 0x8000000000000000u

/* Bits of an index below m. */
MC_FN mc_u32 mc_topk_width(mc_i64 m)
{
    mc_u32 width = 0;
    while (m > (mc_i64)1 << width)
        width++;
    return width;
}

MC_FN mc_u64 mc_randk_key(mc_u64 key, mc_u64 block)
{
    mc_group_t g = mc_group(key, block);
    return ((mc_u64)g.b << 32 | g.a) & ~MC_RANDK_MARK;
}

/* The k cells of m values: cell j begins at j * m / k, in 32 bits after the point; all of them turned by `turn`. */
typedef struct { mc_u32 whole, part, turn; } mc_cells_t;

MC_FN mc_cells_t mc_randk_cells(mc_u64 key, mc_i64 m, mc_i64 k)
{
    mc_group_t g = mc_group(key, MC_SPARSE_MOST / MC_GROUP);
    mc_u64 high = ((mc_u64)g.b << 32 | g.a) >> 16;
    mc_cells_t c;
    c.whole = (mc_u32)(m / k);
    c.part = (mc_u32)((((mc_u64)(m % k) << 32) + (mc_u64)k - 1) / (mc_u64)k);
    c.turn = (mc_u32)(high * (mc_u64)m >> 48);
    return c;
}

MC_FN mc_u32 mc_randk_begin(mc_cells_t c, mc_u32 j) { return j * c.whole + (mc_u32)((mc_u64)j * c.part >> 32); }

/* What cell j keeps, before the turn: the group is that of j / 64. Rises with j. */
MC_FN mc_u32 mc_randk_place(mc_cells_t c, mc_group_t g, mc_u32 j)
{
    mc_u32 from = mc_randk_begin(c, j), size = mc_randk_begin(c, j + 1) - from;
    return from + (mc_u32)((mc_u64)mc_draw(g, j % MC_GROUP) * size >> 32);
}

#endif
