/* Sparse codecs of every kind: see sparse.h for the wire. The threads of a CUDA block take a block of the codec together.
 *
 * A block's kept values are marked in a map of bits in shared memory; counting the bits before each tells where a value
 * stands on the wire. Decoders return what is wrong with the bytes in `status`: 0 nothing, 1 they are no wire. */
#include "../sparse.h"
#include "quads.h"

#define THREADS 256
#define WORDS (MC_SPARSE_MOST / 32)
#define BAD_WIRE 1

/* Of the stored values' bits: see cpu/sparse.c. */
MC_FN mc_u32 raw(float x) { return mc_bits_f32(x); }
MC_FN mc_u64 raw(double x) { return mc_bits_f64(x); }
MC_FN mc_u32 raw(mc_u16 x) { return x; }
MC_FN mc_u32 infinite(f32) { return 0x7F800000u; }
MC_FN mc_u64 infinite(f64) { return 0x7FF0000000000000u; }
MC_FN mc_u32 infinite(f16) { return 0x7C00u; }
MC_FN mc_u32 infinite(bf16) { return 0x7F80u; }

template <class K> MC_FN mc_u64 magnitude(typename K::STORED x)
{
    return raw(x) & (~(mc_u64)0 >> (65 - 8 * sizeof(typename K::STORED)));
}

struct room_t {
    mc_u32 kept[WORDS];     /* a bit for each value of a block */
    mc_u32 before[WORDS];   /* how many are kept in front of a word */
    mc_u32 equal[WORDS];    /* topk: values as large as the kth */
    mc_u32 number[THREADS]; /* a histogram, or sums */
    mc_u32 infinite, bad, digit, remaining;
};

MC_FN room_t *room()
{
    __shared__ room_t r;
    return &r;
}

#define EACH_SHARED(i, n) for (int i = threadIdx.x; i < (n); i += THREADS)
#define EACH_QUAD_SHARED(i, n) for (int i = 4 * threadIdx.x; i < ((n) + 127) / 128 * 128; i += 4 * THREADS)

/* room->before of a map with m bits. */
MC_FN void count_before(const mc_u32 *map, int m)
{
    room_t *r = room();
    int words = (m + 31) / 32, first = threadIdx.x * (WORDS / THREADS), t = threadIdx.x;
    mc_u32 mine = 0;
    __syncthreads();
    for (int w = first; w < first + WORDS / THREADS && w < words; w++)
        mine += __popc(map[w]);
    r->number[t] = mine;
    __syncthreads();
    for (int distance = 1; distance < THREADS; distance *= 2) {
        mc_u32 more = t >= distance ? r->number[t - distance] : 0;
        __syncthreads();
        r->number[t] += more;
        __syncthreads();
    }
    mine = r->number[t] - mine;
    for (int w = first; w < first + WORDS / THREADS && w < words; w++) {
        r->before[w] = mine;
        mine += __popc(map[w]);
    }
    __syncthreads();
}

MC_FN bool is_kept(int i) { return room()->kept[i / 32] >> (i % 32) & 1; }

/* The number of a kept value among those kept. */
MC_FN mc_u32 number_of(int i)
{
    return room()->before[i / 32] + __popc(room()->kept[i / 32] & ((1u << (i % 32)) - 1));
}

/* The kth largest magnitude of a block, eight bits at a time; room->remaining of the values that equal it are kept, the
 * first ones. room->infinite counts what is not finite. */
template <class K> MC_FN mc_u64 kth(const typename K::STORED *x, int m, int k)
{
    room_t *r = room();
    mc_u64 found = 0, mask = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        r->remaining = k;
        r->infinite = 0;
    }
    for (int shift = 8 * (int)sizeof(typename K::STORED) - 8; shift >= 0; shift -= 8) {
        EACH_SHARED(i, 256) r->number[i] = 0;
        __syncthreads();
        EACH_SHARED(i, m)
        {
            mc_u64 u = magnitude<K>(x[i]);
            if ((u & mask) == found)
                atomicAdd(&r->number[u >> shift & 255], 1u);
            if (mask == 0 && u >= infinite(K()))
                atomicAdd(&r->infinite, 1u);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int digit = 255;
            for (; r->number[digit] < r->remaining; digit--)
                r->remaining -= r->number[digit];
            r->digit = digit;
        }
        __syncthreads();
        found |= (mc_u64)r->digit << shift;
        mask |= (mc_u64)255 << shift;
    }
    return found;
}

/* Marks the k largest. A value a thread, not four: ballots make words of the map, which costs more loads but no shuffles. */
template <class K> MC_FN void mark_largest(const typename K::STORED *x, int m, int k)
{
    room_t *r = room();
    mc_u64 least = kth<K>(x, m, k);
    mc_u32 ties = r->remaining;
    EACH_SHARED(i, (m + 31) / 32 * 32)
    {
        mc_u64 u = i < m ? magnitude<K>(x[i]) : 0;
        mc_u32 more = mc_ballot(i < m && u > least), equal = mc_ballot(i < m && u == least);
        if (threadIdx.x % 32 == 0) {
            r->kept[i / 32] = more;
            r->equal[i / 32] = equal;
        }
    }
    count_before(r->equal, m);
    EACH_SHARED(w, (m + 31) / 32)
    {
        mc_u32 some = r->equal[w];
        for (mc_u32 n = r->before[w]; some && n < ties; n++, some &= some - 1)
            r->kept[w] |= some & (0 - some);
    }
    count_before(r->kept, m);
}

/* Marks what a block's key draws. */
MC_FN void mark_drawn(mc_u64 key, int m, int k)
{
    room_t *r = room();
    mc_cells_t c = mc_randk_cells(key, m, k);
    __syncthreads();
    EACH_SHARED(w, (m + 31) / 32) r->kept[w] = 0;
    __syncthreads();
    EACH_SHARED(j, k)
    {
        mc_u32 i = mc_randk_place(c, mc_group(key, j / MC_GROUP), j) + c.turn;
        i -= i < (mc_u32)m ? 0 : (mc_u32)m;
        atomicOr(&r->kept[i / 32], 1u << (i % 32));
    }
    count_before(r->kept, m);
}

/* An item at any address. */
template <class T> MC_FN T load_item(const mc_u8 *p)
{
    T x;
    mc_u8 *to = (mc_u8 *)&x;
    if (aligned(p, sizeof x))
        return *(const T *)p;
    EACH(j, (int)sizeof x) to[j] = p[j];
    return x;
}

template <class T> MC_FN void store_item(mc_u8 *p, T x)
{
    const mc_u8 *from = (const mc_u8 *)&x;
    if (aligned(p, sizeof x))
        *(T *)p = x;
    else
        EACH(j, (int)sizeof x) p[j] = from[j];
}

/* topk's indices: `width` bits each from the address `tail` on, zero so far. The words around them are the wire's. */
MC_FN void put_index(mc_u8 *tail, mc_u32 number, mc_u32 width, mc_u32 index)
{
    mc_u64 bit = ((mc_u64)tail & 3) * 8 + (mc_u64)number * width;
    mc_u32 *word = (mc_u32 *)((mc_u64)tail & ~(mc_u64)3) + bit / 32, shift = (mc_u32)(bit % 32);
    atomicOr(word, index << shift);
    if (shift + width > 32)
        atomicOr(word + 1, index >> (32 - shift));
}

MC_FN mc_u32 get_index(const mc_u8 *tail, mc_u32 number, mc_u32 width)
{
    mc_u64 bit = (mc_u64)number * width, end = (bit + width + 7) / 8;
    mc_u32 w = 0;
    for (mc_u64 byte = bit / 8; byte < end; byte++)
        w |= (mc_u32)tail[byte] << (8 * (byte - bit / 8));
    return w >> (bit % 8) & ((1u << width) - 1);
}

MC_FN mc_i64 indices_size(int m, int k) { return ((mc_i64)k * mc_topk_width(m) + 7) / 8; }

/* Marks what a wire says is kept, and finds out whether all of the block is NaN. */
struct topk {
    static __device__ bool read(const mc_u8 *tail, int m, int k)
    {
        room_t *r = room();
        mc_u32 width = mc_topk_width(m), mark = tail[indices_size(m, k)];
        __syncthreads();
        EACH_SHARED(w, (m + 31) / 32) r->kept[w] = 0;
        if (threadIdx.x == 0)
            r->bad = mark > 1;
        __syncthreads();
        EACH_SHARED(i, k)
        {
            mc_u32 index = get_index(tail, i, width);
            if ((int)index >= m || (i && index <= get_index(tail, i - 1, width)))
                r->bad = 1;
            else
                atomicOr(&r->kept[index / 32], 1u << (index % 32));
        }
        count_before(r->kept, m);
        return mark != 0;
    }
    static __device__ bool scaled() { return false; }
};

struct randk {
    static __device__ bool read(const mc_u8 *tail, int m, int k)
    {
        mc_u64 word = load_item<mc_u64>(tail);
        __syncthreads();
        if (threadIdx.x == 0)
            room()->bad = 0;
        mark_drawn(word & ~MC_RANDK_MARK, m, k);
        return word >> 63;
    }
    static __device__ bool scaled() { return true; }
};

template <class K>
MC_FN void select_topk(const typename K::STORED *x, int m, int k, mc_u8 *values, mc_u8 *tail)
{
    mc_u32 width = mc_topk_width(m);
    mark_largest<K>(x, m, k);
    EACH_SHARED(i, m)
        if (is_kept(i))
            store_item(values + (mc_i64)number_of(i) * sizeof *x, x[i]);
    __syncthreads(); /* the last value and the first index may share a word */
    EACH_SHARED(i, m)
        if (width && is_kept(i))
            put_index(tail, number_of(i), width, i);
    __syncthreads();
    if (threadIdx.x == 0)
        tail[indices_size(m, k)] = room()->infinite > (mc_u32)k;
}

template <class K>
MC_FN void select_randk(const typename K::STORED *x, int m, int k, mc_u8 *values, mc_u8 *tail, mc_u64 word)
{
    room_t *r = room();
    mark_drawn(word, m, k);
    if (threadIdx.x == 0)
        r->infinite = 0;
    __syncthreads();
    EACH_SHARED(i, m)
    {
        if (magnitude<K>(x[i]) >= infinite(K()))
            r->infinite = 1;
        if (is_kept(i))
            store_item(values + (mc_i64)number_of(i) * sizeof *x, x[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        store_item(tail, r->infinite ? word | MC_RANDK_MARK : word);
}

/* What a wire holds at i; `scale` is what randk multiplies with. */
template <class C, class K> MC_FN typename K::SUM sum_at(const mc_u8 *values, int i, typename K::SUM scale)
{
    typename K::SUM v = K::widen(load_item<typename K::STORED>(values + (mc_i64)number_of(i) * sizeof(typename K::STORED)));
    return C::scaled() ? K::mul(v, scale) : v;
}

template <class C, class K>
MC_FN void scatter(const mc_u8 *values, const mc_u8 *tail, int m, int k, typename K::STORED *out, mc_u32 *status)
{
    typename K::SUM scale = K::div((typename K::SUM)m, (typename K::SUM)k);
    bool nan = C::read(tail, m, k);
    if (room()->bad) {
        *status = BAD_WIRE;
        return;
    }
    EACH_QUAD_SHARED(i, m)
    {
        four<typename K::STORED> q;
        EACH(j, 4)
        {
            q.v[j] = nan ? K::round(K::nan()) : (typename K::STORED)0;
            if (i + j < m && !nan && is_kept(i + j))
                q.v[j] = C::scaled() ? K::round(sum_at<C, K>(values, i + j, scale))
                                     : load_item<typename K::STORED>(values + (mc_i64)number_of(i + j) * sizeof *out);
        }
        store4(out, i, m, q);
    }
}

template <class C, class K>
MC_FN void accumulate(const mc_u8 *values, const mc_u8 *tail, int m, int k, typename K::SUM *acc, typename K::SUM weight,
                      mc_u32 *status)
{
    typename K::SUM scale = K::div((typename K::SUM)m, (typename K::SUM)k);
    bool nan = C::read(tail, m, k);
    if (room()->bad) {
        *status = BAD_WIRE;
        return;
    }
    EACH_SHARED(i, m)
    {
        if (nan)
            acc[i] = K::nan();
        else if (is_kept(i))
            acc[i] = K::add(acc[i], K::mul(weight, sum_at<C, K>(values, i, scale)));
    }
}

#define EACH_BLOCK(b, n, block) for (mc_i64 b = blockIdx.x; b * block < n; b += gridDim.x)

#define DECODERS(C, K)                                                                                                  \
    MC_KERNEL(mc_##C##_scatter_##K)(const mc_u8 *values, mc_i64 pace, const mc_u8 *tail, mc_i64 stride, mc_i64 n,       \
                                    mc_i64 block, mc_i64 k, K::STORED *out, mc_u32 *status)                             \
    {                                                                                                                   \
        EACH_BLOCK(b, n, block)                                                                                         \
        scatter<C, K>(values + b * pace, tail + b * stride, (int)block, (int)k, out + b * block, status);               \
    }                                                                                                                   \
    MC_KERNEL(mc_##C##_accumulate_##K)(const mc_u8 *values, mc_i64 pace, const mc_u8 *tail, mc_i64 stride, mc_i64 n,    \
                                       mc_i64 block, mc_i64 k, K::SUM *acc, K::SUM weight, mc_u32 *status)              \
    {                                                                                                                   \
        EACH_BLOCK(b, n, block)                                                                                         \
        accumulate<C, K>(values + b * pace, tail + b * stride, (int)block, (int)k, acc + b * block, weight, status);    \
    }

#define SPARSE(K)                                                                                                       \
    MC_KERNEL(mc_topk_select_##K)(const K::STORED *x, mc_i64 n, mc_i64 block, mc_i64 k, mc_u8 *values, mc_i64 pace,     \
                                  mc_u8 *tail, mc_i64 stride, mc_u64 key, mc_u64 first)                                 \
    {                                                                                                                   \
        EACH_BLOCK(b, n, block)                                                                                         \
        select_topk<K>(x + b * block, (int)block, (int)k, values + b * pace, tail + b * stride);                        \
    }                                                                                                                   \
    MC_KERNEL(mc_randk_select_##K)(const K::STORED *x, mc_i64 n, mc_i64 block, mc_i64 k, mc_u8 *values, mc_i64 pace,    \
                                   mc_u8 *tail, mc_i64 stride, mc_u64 key, mc_u64 first)                                \
    {                                                                                                                   \
        EACH_BLOCK(b, n, block)                                                                                         \
        select_randk<K>(x + b * block, (int)block, (int)k, values + b * pace, tail + b * stride,                        \
                        mc_randk_key(key, first + b));                                                                  \
    }                                                                                                                   \
    DECODERS(topk, K)                                                                                                   \
    DECODERS(randk, K)

FOR_KINDS(SPARSE)
