/* Sparse codecs of every kind: see sparse.h for the wire. Indices here, which know no kind; select.h has the rest. */
#include "../half.h"
#include "../sparse.h"
#include "level.h"
#include "simd.h"

#define EACH(j, count) for (mc_i64 j = 0; j < (count); j++)
#define SAMPLE 1024
#define CANDIDATES 4096
#define BAD_WIRE 1
#define ROOM (MC_SPARSE_MOST + 2)           /* for indices: append() writes up to two more than it counts */
#define PIECE 1024                          /* values that are put together before they are written past the caches */
#define READ 4096                           /* values of which randk then takes those that it has drawn */
#define PLACES 2                            /* blocks, far apart, that randk reads at once: faster than one after the other */

/* Asks for memory to be in the second cache when a loop comes to it, which can wait for more at a time than the first. */
MC_FN void far_ahead(const void *p, int nbytes)
{
    for (int k = 0; k < nbytes; k += 64)
        __builtin_prefetch((const char *)p + 16384 + k, 0, 2);
}

/* topk: indices to bits and back. */
static void pack_indices(const mc_u16 *index, mc_i64 k, mc_u32 width, mc_u8 *wire)
{
    mc_u64 bits = 0;
    mc_u32 have = 0;
    if (width == 16) {
        memcpy(wire, index, (size_t)k * 2);
        return;
    }
    EACH(i, k)
    {
        bits |= (mc_u64)index[i] << have;
        for (have += width; have >= 8; have -= 8, bits >>= 8)
            *wire++ = (mc_u8)bits;
    }
    if (have)
        *wire = (mc_u8)bits;
}

/* Whether they are indices below m in rising order. */
static int unpack_indices(const mc_u8 *wire, mc_i64 k, mc_u32 width, mc_i64 m, mc_u16 *index)
{
    mc_u64 bits = 0;
    mc_u32 have = 0;
    int rising = 1;
    if (width == 16)
        memcpy(index, wire, (size_t)k * 2);
    else
        EACH(i, k)
        {
            for (; have < width; have += 8)
                bits |= (mc_u64)*wire++ << have;
            index[i] = (mc_u16)(bits & ((1u << width) - 1));
            bits >>= width;
            have -= width;
        }
    for (mc_i64 i = 1; i < k; i++)
        rising &= index[i - 1] < index[i];
    return rising && index[k - 1] < m;
}

static mc_i64 indices_size(mc_i64 m, mc_i64 k) { return (k * mc_topk_width(m) + 7) / 8; }

static int read_topk(const mc_u8 *tail, mc_i64 m, mc_i64 k, mc_u16 *index, int *mark, const void *soon)
{
    (void)soon;
    *mark = tail[indices_size(m, k)];
    return unpack_indices(tail, k, mc_topk_width(m), m, index) && *mark <= 1;
}

/* Appends the places of bits that are set. Most words have none, one or two: those cost no wrong guess of a branch. */
MC_FN mc_i64 append(mc_u64 bits, mc_i64 at, mc_u16 *index, mc_i64 found)
{
    for (int twice = 0; twice < 2; twice++) {
        index[found] = (mc_u16)(at + __builtin_ctzll(bits | (mc_u64)1 << 63));
        found += bits != 0;
        bits &= bits - 1;
    }
    for (; bits; bits &= bits - 1)
        index[found++] = (mc_u16)(at + __builtin_ctzll(bits));
    return found;
}

/* randk: the indices that a block's key draws, in order. Those that are turned past the end come first. The memory that comes
 * next, if it is given, is asked for meanwhile. */
static void draw(mc_u64 key, mc_i64 m, mc_i64 k, mc_u16 *index, const void *soon)
{
    mc_cells_t c = mc_randk_cells(key, m, k);
    mc_u32 room = (mc_u32)m - c.turn;
    mc_u16 place[MC_SPARSE_MOST];
    mc_i64 before = 0;
    for (mc_i64 at = 0; at < k; at += MC_GROUP) {
        mc_group_t g = mc_group(key, (mc_u64)at / MC_GROUP);
        for (mc_i64 line = at / 2; soon && line < at / 2 + 32 && line < m / 16; line++)
            __builtin_prefetch((const char *)soon + 64 * line);
        EACH(j, MC_GROUP) place[at + j] = (mc_u16)mc_randk_place(c, g, (mc_u32)(at + j));
    }
    EACH(j, k) before += place[j] < room;
    EACH(j, k - before) index[j] = (mc_u16)(place[before + j] - room);
    EACH(j, before) index[k - before + j] = (mc_u16)(place[j] + c.turn);
}

static mc_u64 randk_word(const mc_u8 *tail)
{
    mc_u64 word;
    memcpy(&word, tail, 8);
    return word;
}

static int read_randk(const mc_u8 *tail, mc_i64 m, mc_i64 k, mc_u16 *index, int *mark, const void *soon)
{
    *mark = (int)(randk_word(tail) >> 63);
    draw(randk_word(tail) & ~MC_RANDK_MARK, m, k, index, soon);
    return 1;
}

#define SAME(x) (x)

#define NAME(codec, verb) mc_##codec##_##verb##_f32
#define LOCAL(name) name##_f32
#define STORED float
#define SUM float
#define UINT mc_any32
#define INFINITE 0x7F800000u
#define NOT_A_NUMBER 0x7FC00000u
#define WIDE SAME
#define NARROW SAME
#include "select.h"

#define NAME(codec, verb) mc_##codec##_##verb##_f64
#define LOCAL(name) name##_f64
#define STORED double
#define SUM double
#define UINT mc_any64
#define INFINITE 0x7FF0000000000000u
#define NOT_A_NUMBER 0x7FF8000000000000u
#define WIDE SAME
#define NARROW SAME
#include "select.h"

#define NAME(codec, verb) mc_##codec##_##verb##_f16
#define LOCAL(name) name##_f16
#define STORED mc_u16
#define SUM float
#define UINT mc_u16
#define INFINITE 0x7C00
#define NOT_A_NUMBER 0x7E00
#define WIDE mc_f32_of_f16
#define NARROW mc_f16_of_f32
#include "select.h"

#define NAME(codec, verb) mc_##codec##_##verb##_bf16
#define LOCAL(name) name##_bf16
#define STORED mc_u16
#define SUM float
#define UINT mc_u16
#define INFINITE 0x7F80
#define NOT_A_NUMBER 0x7FC0
#define WIDE mc_f32_of_bf16
#define NARROW mc_bf16_of_f32
#include "select.h"
