/* Sparse codecs: k of the m values of each block, and which. A block has at most 65536 values.
 *
 * topk keeps the k largest magnitudes, compared as the integers that their bits are: NaN above Inf above all finite
 * ones; of equal magnitudes those at lower indices. Error: |decode(encode(x)) - x|^2 <= (1 - k/m) |x|^2.
 * randk keeps k values drawn without replacement, the same on every rank that has the same key, and decodes them times
 * m/k. Error: E decode(encode(x)) = x up to 2^-32, E|decode(encode(x)) - x|^2 = (m/k - 1) |x|^2.
 *
 * Wire of a block: the k values in order of their indices (as they are, or as another codec writes them); then
 *   topk    the indices, `width` bits each, the first lowest, in as many bytes as they need; a byte `mark`
 *   randk   8 bytes, little-endian: 63 bits of the block's key, from which the indices follow, and `mark` as bit 63
 * and zeros up to a multiple of 8 bytes. With `mark` set all of the block decodes to NaN: topk's holds more than k values
 * that are NaN or Inf, randk's one or more.
 *
 * The draw without replacement is Floyd's: for j = m-k ... m-1 take an index t uniform in 0..j, or j if t is taken. */
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

/* The s-th index that a block's key draws: uniform in 0..j up to 2^-32, j < 65536. */
MC_FN mc_u32 mc_randk_draw(mc_u64 key, mc_u32 s, mc_u32 j)
{
    mc_group_t g = mc_group(key, s);
    mc_u64 high = ((mc_u64)g.b << 32 | g.a) >> 16;
    return (mc_u32)(high * (j + 1) >> 48);
}

#endif
