/* The four loops of a codec whose blocks are a scale and planes of bits: encode, decode, add, reduce. A codec C has
 *
 *   C::settings            bits, p, block and head, as the CPU's settings_t
 *   C::scale<K>            a block's scale; make<K> makes it of a norm, write<K> writes and read<K> reads it
 *   C::code<K>, value<K>   a sum as a small number, its sign in bit bits-1, and back
 *
 * To encode, the threads of a CUDA block take a block of the codec together, four values each, as often as it takes: once
 * for the norm, summed in the order that dithering.h states, and again to code. Sums that are one turn are not taken twice. */
#ifndef MC_CUDA_SCALED_H
#define MC_CUDA_SCALED_H
#include "../dithering.h"
#include "../norms.h"
#include "quads.h"

#define MOST_THREADS 256

/* Of the sums' bits: see kinds.h. */
MC_FN mc_u32 limit_of(f32) { return LIMIT_f32; }
MC_FN mc_u64 limit_of(f64) { return LIMIT_f64; }
MC_FN mc_u32 limit_of(f16) { return LIMIT_f16; }
MC_FN mc_u32 limit_of(bf16) { return LIMIT_bf16; }

/* Eight threads with eight nibbles each exchange them: nibble i of thread k becomes nibble k of thread i. */
MC_FN mc_u32 turned(mc_u32 w)
{
    EACH(step, 3)
    {
        int distance = 1 << step, shift = 4 * distance;
        mc_u32 mask = step == 0 ? 0x0F0F0F0Fu : step == 1 ? 0x00FF00FFu : 0x0000FFFFu, other = mc_swap(w, distance);
        w = threadIdx.x & distance ? (w & ~mask) | (other >> shift & mask) : (w & mask) | (other & mask) << shift;
    }
    return w;
}

/* Where four values from i on, of n in blocks, have their part of a wire. */
struct place_t {
    mc_i64 block;      /* bytes before the block */
    int group, width;  /* bytes before the group of 64, and of each of its planes */
    int at;            /* where this thread's values begin in the group */
};

template <class S> MC_FN place_t place_of(S set, mc_i64 i, mc_i64 n)
{
    place_t place;
    mc_i64 b = i / set.block, j = i - b * set.block;
    place.block = b * (set.head + set.block / 8 * set.bits);
    place.group = set.head + (int)(j / 64 * 8) * set.bits;
    place.width = (clamped(n - i / 64 * 64, 64) + 7) / 8;
    place.at = (int)(i % 64);
    return place;
}

/* Four codes to planes and back, eight threads together: thread k writes and reads 32 bits of plane k. */
template <class S> MC_FN void put_planes(const mc_u32 *code, S set, place_t place, mc_u8 *wire)
{
    mc_u32 w = 0, c = code[0] | code[1] << 8 | code[2] << 16 | code[3] << 24;
#pragma unroll 1
    for (int k = 0; k < set.bits; k++)
        w |= (((c >> k & 0x01010101u) * 0x01020408u) >> 24 & 15) << (4 * k);
    w = turned(w);
    int k = threadIdx.x & 7, half = place.at / 32 * 4;
    if (k < set.bits)
        store_bytes(wire + place.block + place.group + k * place.width + half, w, clamped(place.width - half, 4));
}

template <class S> MC_FN void get_planes(const mc_u8 *wire, S set, place_t place, mc_u32 *code)
{
    int k = threadIdx.x & 7, half = place.at / 32 * 4;
    mc_u32 w = 0, c = 0;
    if (k < set.bits)
        w = load_bytes(wire + place.block + place.group + k * place.width + half, clamped(place.width - half, 4));
    w = turned(w);
#pragma unroll 1
    for (k = 0; k < set.bits; k++)
        c |= ((w >> (4 * k) & 15) * 0x00204081u & 0x01010101u) << k;
    EACH(j, 4) code[j] = c >> (8 * j) & 255;
}

template <class C, class K> MC_FN void get4(const mc_u8 *wire, typename C::settings set, mc_i64 i, mc_i64 n, typename K::SUM *v)
{
    place_t place = place_of(set, i, n);
    mc_u32 code[4];
    get_planes(wire, set, place, code);
    typename C::template scale<K> scale = {};
    if (i < n)
        scale = C::template read<K>(wire + place.block, set);
    EACH(k, 4) v[k] = C::template value<K>(code[k], set, scale);
}

/* What a sum is made of. */
template <class K> struct terms_t {
    const mc_u8 *const *wires;
    mc_i32 p, position;
    const typename K::STORED *own;
    typename K::SUM scale;
};

template <class C, class K>
MC_FN void sum4(terms_t<K> t, typename C::settings set, mc_i64 i, mc_i64 n, typename K::SUM *sum)
{
    EACH(k, 4) sum[k] = (typename K::SUM)-0.0;
#pragma unroll 1
    for (mc_i32 term = 0; term < t.p + (t.own != 0); term++) {
        typename K::SUM v[4];
        if (t.own && term == t.position) {
            four<typename K::STORED> q = load4(t.own, i, n);
            EACH(k, 4) v[k] = K::widen(q.v[k]);
        } else {
            get4<C, K>(t.wires[term - (t.own && term > t.position)], set, i, n, v);
        }
        EACH(k, 4) sum[k] = K::add(sum[k], v[k]);
    }
    EACH(k, 4) sum[k] = i + k < n ? K::mul(sum[k], t.scale) : (typename K::SUM)0;
}

/* What the threads of a block share. */
struct room_t {
    double part[MOST_THREADS / 16][8], sum[8];
    mc_u64 top;
};

MC_FN room_t *room()
{
    __shared__ room_t r;
    return &r;
}

MC_FN double swapped(double x, int distance)
{
    mc_u64 u = mc_bits_f64(x);
    return mc_f64((mc_u64)mc_swap((mc_u32)(u >> 32), distance) << 32 | mc_swap((mc_u32)u, distance));
}

/* a of two threads added up in the first of them, b in the second. */
MC_FN double halved(double a, double b, bool second, int distance)
{
    double given = swapped(second ? a : b, distance);
    return (second ? b : a) + given;
}

/* Takes four values of each thread into the largest bits and, for p = 1 and 2, into the eight sums, group by group. */
template <class K> MC_FN void tally(const typename K::SUM *v, double factor, int p)
{
    room_t *r = room();
    double q[4];
    mc_u64 top = 0;
    EACH(k, 4)
    {
        mc_u64 u = K::bits(v[k]) & (typename K::UINT)((typename K::UINT)~(typename K::UINT)0 >> 1);
        top = u > top ? u : top;
        q[k] = K::wide(K::real((typename K::UINT)u)) * factor;
        q[k] = p == 2 ? q[k] * q[k] : q[k];
    }
    if (top > r->top)
        atomicMax(&r->top, top);
    if (p == 0)
        return;
    /* Of 16 threads, those 8 apart share the sums of their values: each gives two away, then, 4 apart, one. */
    bool second = threadIdx.x & 8, odd = threadIdx.x & 4;
    double a = halved(q[0], q[2], second, 8), b = halved(q[1], q[3], second, 8);
    a = halved(a, b, odd, 4);
    a += swapped(a, 2);
    if (!(threadIdx.x & 2))
        r->part[threadIdx.x / 16][4 * (threadIdx.x % 2) + 2 * second + odd] = a;
    __syncthreads();
    if (threadIdx.x < 8)
#pragma unroll 1
        for (unsigned g = 0; g < blockDim.x / 16; g++)
            r->sum[threadIdx.x] += r->part[g][threadIdx.x];
    __syncthreads();
}

MC_FN void forget()
{
    __syncthreads();
    if (threadIdx.x < 8)
        room()->sum[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        room()->top = 0;
    __syncthreads();
}

MC_FN double norm_of(double most, int p)
{
    double s[8];
    EACH(j, 8) s[j] = room()->sum[j];
    EACH(j, 4) s[j] += s[j + 4];
    EACH(j, 2) s[j] += s[j + 2];
    return p == 0 ? most : p == 1 ? s[0] + s[1] : sqrt(s[0] + s[1]);
}

/* One block of m sums to wire: they are measured, doubles that need a factor once more with it, and coded. */
template <class C, class K>
MC_FN void pack(terms_t<K> t, typename C::settings set, mc_i64 at, int m, draws_t from, mc_u8 *wire)
{
    __shared__ struct {
        typename C::template scale<K> scale;
        bool empty;
    } shared;
    typename K::SUM v[4];
    typename C::template scale<K> scale = {};
    double factor = 1;
    bool coding = false, empty = false, kept = false;
    from.first += at;
    for (;;) {
        if (!coding)
            forget();
        for (int turn = 0; turn < m; turn += 4 * blockDim.x) {
            int j = turn + 4 * threadIdx.x;
            if (!kept)
                sum4<C, K>(t, set, at + j, at + m, v);
            if (!coding) {
                tally<K>(v, factor, set.p);
                continue;
            }
            mc_group_t g = group_of(from, j);
            mc_u32 code[4];
            EACH(k, 4) code[k] = empty ? 0 : C::template code<K>(v[k], set, scale, draw_32(from, g, j + k));
            put_planes(code, set, place_of(set, at + j, at + m), wire);
        }
        if (coding)
            return;
        __syncthreads();
        kept = m <= 4 * (int)blockDim.x;
        mc_u64 top = room()->top;
        double most = K::wide(K::real((typename K::UINT)top));
        if (sizeof(typename K::SUM) == 8 && factor == 1 && top < limit_of(K()) && mc_norm_factor(most) != 1) {
            factor = mc_norm_factor(most);
            continue;
        }
        if (threadIdx.x == 0) { /* of doubles, which some GPUs have few units for, one thread is enough */
            double norm = norm_of(most * factor, set.p);
            bool bad = top >= limit_of(K()) || !(norm < mc_f64(MC_INF64));
            shared.scale = C::template make<K>(norm, factor, bad, m, set);
            shared.empty = bad || norm == 0;
            C::template write<K>(shared.scale, set, from, wire + place_of(set, at, at + m).block);
        }
        __syncthreads();
        scale = shared.scale;
        empty = shared.empty;
        coding = true;
    }
}

template <class C, class K>
MC_FN void pack_all(terms_t<K> t, typename C::settings set, mc_i64 n, draws_t from, mc_u8 *wire)
{
    for (mc_i64 at = (mc_i64)blockIdx.x * set.block; at < n; at += (mc_i64)gridDim.x * set.block)
        pack<C, K>(t, set, at, clamped(n - at, set.block), from, wire);
}

template <class C, class K>
MC_FN void decode(const mc_u8 *wire, mc_i64 n, typename K::STORED *out, typename C::settings set)
{
    EACH_QUAD(i, n)
    {
        four<typename K::STORED> q;
        typename K::SUM v[4];
        get4<C, K>(wire, set, i, n, v);
        EACH(k, 4) q.v[k] = K::narrow(v[k]);
        store4(out, i, n, q);
    }
}

template <class C, class K>
MC_FN void add(const mc_u8 *wire, mc_i64 n, typename K::SUM *acc, typename K::SUM weight, typename C::settings set)
{
    EACH_QUAD(i, n)
    {
        four<typename K::SUM> q = load4(acc, i, n);
        typename K::SUM v[4];
        get4<C, K>(wire, set, i, n, v);
        EACH(k, 4) q.v[k] = K::add(q.v[k], K::mul(weight, v[k]));
        store4(acc, i, n, q);
    }
}

/* The kernels mc_NAME_VERB_K of a codec C whose own arguments are TAIL, which make SETTINGS. */
#define SCALED_KERNELS(NAME, C, K, SETTINGS, ...)                                                                       \
    MC_KERNEL(mc_##NAME##_encode_##K)(const K::STORED *x, mc_i64 n, mc_u8 *wire, mc_u64 key, mc_u64 first,              \
                                      mc_u32 offset, mc_i32 nearest, __VA_ARGS__)                                       \
    {                                                                                                                   \
        draws_t from = {key, first, offset, nearest};                                                                   \
        terms_t<K> terms = {0, 0, 0, x, 1};                                                                             \
        pack_all<C, K>(terms, SETTINGS, n, from, wire);                                                                 \
    }                                                                                                                   \
    MC_KERNEL(mc_##NAME##_reduce_##K)(const mc_u8 *const *wires, mc_i32 count, mc_i32 position, const K::STORED *own,   \
                                      mc_i64 n, K::SUM scale, mc_u8 *out, mc_u64 key, mc_u64 first, mc_u32 offset,      \
                                      mc_i32 nearest, __VA_ARGS__)                                                      \
    {                                                                                                                   \
        draws_t from = {key, first, offset, nearest};                                                                   \
        terms_t<K> terms = {wires, count, position, own, scale};                                                        \
        pack_all<C, K>(terms, SETTINGS, n, from, out);                                                                  \
    }                                                                                                                   \
    MC_KERNEL(mc_##NAME##_decode_##K)(const mc_u8 *wire, mc_i64 n, K::STORED *out, __VA_ARGS__)                         \
    {                                                                                                                   \
        decode<C, K>(wire, n, out, SETTINGS);                                                                           \
    }                                                                                                                   \
    MC_KERNEL(mc_##NAME##_add_##K)(const mc_u8 *wire, mc_i64 n, K::SUM *acc, K::SUM weight, __VA_ARGS__)                \
    {                                                                                                                   \
        add<C, K>(wire, n, acc, weight, SETTINGS);                                                                      \
    }

#endif
