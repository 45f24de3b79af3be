/* Natural compression of every kind: see natural.h for the wire, quads.h for how threads share the work.
 *
 * A format knows where the parts of four codes stand in a block of m values (64, or the last few). */
#include "quads.h"

/* 9 bits: a byte each, and a bit each, for which two threads share a byte. */
struct nine_bits {
    static __device__ mc_i64 size() { return 72; }
    static __device__ mc_u32 code(mc_u32 bits, draws_t from, mc_group_t g, mc_i64 i)
    {
        return mc_natural_code_f32(bits, draw_32(from, g, i));
    }
    static __device__ mc_u32 bits(mc_u32 code) { return mc_natural_bits_f32(code); }
    static __device__ void put(mc_u8 *block, int j, int m, const mc_u32 *code)
    {
        mc_u32 low = 0, sign = 0;
        EACH(k, 4) low |= (code[k] & 255) << (8 * k);
        EACH(k, 4) sign |= code[k] >> 8 << k;
        sign |= mc_swap(sign, 1) << 4;
        store_bytes(block + j, low, clamped(m - j, 4));
        if (j % 8 == 0 && j < m)
            block[m + j / 8] = (mc_u8)sign;
    }
    static __device__ void get(const mc_u8 *block, int j, int m, mc_u32 *code)
    {
        mc_u32 low = load_bytes(block + j, clamped(m - j, 4)), sign = j < m ? block[m + j / 8] >> (j & 4) : 0;
        EACH(k, 4) code[k] = (low >> (8 * k) & 255) | (sign >> k & 1) << 8;
    }
};

/* 12 bits: a byte and a nibble each. */
struct twelve_bits {
    static __device__ mc_i64 size() { return 96; }
    static __device__ mc_u32 code(mc_u64 bits, draws_t from, mc_group_t g, mc_i64 i)
    {
        return mc_natural_code_f64(bits, draw_64(from, g, i));
    }
    static __device__ mc_u64 bits(mc_u32 code) { return mc_natural_bits_f64(code); }
    static __device__ void put(mc_u8 *block, int j, int m, const mc_u32 *code)
    {
        mc_u32 low = 0, high = 0;
        EACH(k, 4) low |= (code[k] & 255) << (8 * k);
        EACH(k, 4) high |= code[k] >> 8 << (4 * k);
        store_bytes(block + j, low, clamped(m - j, 4));
        store_bytes(block + m + j / 2, high, (clamped(m - j, 4) + 1) / 2);
    }
    static __device__ void get(const mc_u8 *block, int j, int m, mc_u32 *code)
    {
        mc_u32 low = load_bytes(block + j, clamped(m - j, 4));
        mc_u32 high = load_bytes(block + m + j / 2, (clamped(m - j, 4) + 1) / 2);
        EACH(k, 4) code[k] = (low >> (8 * k) & 255) | (high >> (4 * k) & 15) << 8;
    }
};

/* 6 bits: a nibble and two bits each. */
struct six_bits {
    static __device__ mc_i64 size() { return 48; }
    static __device__ mc_u32 code(mc_u32 bits, draws_t from, mc_group_t g, mc_i64 i)
    {
        return mc_natural_code_f16(bits, draw_32(from, g, i));
    }
    static __device__ mc_u32 bits(mc_u32 code) { return mc_natural_wide_f16(code); }
    static __device__ void put(mc_u8 *block, int j, int m, const mc_u32 *code)
    {
        mc_u32 low = 0, high = 0;
        EACH(k, 4) low |= (code[k] & 15) << (4 * k);
        EACH(k, 4) high |= code[k] >> 4 << (2 * k);
        store_bytes(block + j / 2, low, (clamped(m - j, 4) + 1) / 2);
        if (j < m)
            block[(m + 1) / 2 + j / 4] = (mc_u8)high;
    }
    static __device__ void get(const mc_u8 *block, int j, int m, mc_u32 *code)
    {
        mc_u32 low = load_bytes(block + j / 2, (clamped(m - j, 4) + 1) / 2);
        mc_u32 high = j < m ? block[(m + 1) / 2 + j / 4] : 0;
        EACH(k, 4) code[k] = (low >> (4 * k) & 15) | (high >> (2 * k) & 3) << 4;
    }
};

template <class K> struct format : nine_bits {};
template <> struct format<f64> : twelve_bits {};
template <> struct format<f16> : six_bits {};

/* Four sums to the wire of n values, and back. */
template <class K> MC_FN void put4(const typename K::SUM *v, draws_t from, mc_i64 i, mc_i64 n, mc_u8 *wire)
{
    mc_group_t g = group_of(from, i);
    mc_u32 code[4];
    EACH(k, 4) code[k] = format<K>::code(K::bits(v[k]), from, g, i + k);
    format<K>::put(wire + i / 64 * format<K>::size(), (int)(i % 64), clamped(n - i / 64 * 64, 64), code);
}

template <class K> MC_FN void get4(const mc_u8 *wire, mc_i64 i, mc_i64 n, typename K::SUM *v)
{
    mc_u32 code[4];
    format<K>::get(wire + i / 64 * format<K>::size(), (int)(i % 64), clamped(n - i / 64 * 64, 64), code);
    EACH(k, 4) v[k] = K::real(format<K>::bits(code[k]));
}

template <class K> MC_FN void encode(const typename K::STORED *x, mc_i64 n, mc_u8 *wire, draws_t from)
{
    EACH_QUAD(i, n)
    {
        four<typename K::STORED> q = load4(x, i, n);
        typename K::SUM v[4];
        EACH(k, 4) v[k] = K::widen(q.v[k]);
        put4<K>(v, from, i, n, wire);
    }
}

template <class K> MC_FN void decode(const mc_u8 *wire, mc_i64 n, typename K::STORED *out)
{
    EACH_QUAD(i, n)
    {
        four<typename K::STORED> q;
        typename K::SUM v[4];
        get4<K>(wire, i, n, v);
        EACH(k, 4) q.v[k] = K::round(v[k]);
        store4(out, i, n, q);
    }
}

template <class K> MC_FN void add(const mc_u8 *wire, mc_i64 n, typename K::SUM *acc, typename K::SUM weight)
{
    EACH_QUAD(i, n)
    {
        four<typename K::SUM> q = load4(acc, i, n);
        typename K::SUM v[4];
        get4<K>(wire, i, n, v);
        EACH(k, 4) q.v[k] = K::add(q.v[k], K::mul(weight, v[k]));
        store4(acc, i, n, q);
    }
}

template <class K>
MC_FN void reduce(const mc_u8 *const *wires, mc_i32 p, mc_i32 position, const typename K::STORED *own, mc_i64 n,
                  typename K::SUM scale, mc_u8 *out, draws_t from)
{
    EACH_QUAD(i, n)
    {
        typename K::SUM sum[4], v[4];
        EACH(k, 4) sum[k] = (typename K::SUM)-0.0; /* to which adding the first term gives that term */
        for (mc_i32 t = 0; t < p + (own != 0); t++) {
            if (own && t == position) {
                four<typename K::STORED> q = load4(own, i, n);
                EACH(k, 4) v[k] = K::widen(q.v[k]);
            } else {
                get4<K>(wires[t - (own && t > position)], i, n, v);
            }
            EACH(k, 4) sum[k] = K::add(sum[k], v[k]);
        }
        EACH(k, 4) sum[k] = K::mul(sum[k], scale);
        put4<K>(sum, from, i, n, out);
    }
}

#define KERNELS(K)                                                                                                      \
    MC_KERNEL(mc_natural_encode_##K)(const K::STORED *x, mc_i64 n, mc_u8 *wire, mc_u64 key, mc_u64 first,               \
                                     mc_u32 offset, mc_i32 nearest)                                                     \
    {                                                                                                                   \
        draws_t from = {key, first, offset, nearest};                                                                   \
        encode<K>(x, n, wire, from);                                                                                    \
    }                                                                                                                   \
    MC_KERNEL(mc_natural_decode_##K)(const mc_u8 *wire, mc_i64 n, K::STORED *out) { decode<K>(wire, n, out); }          \
    MC_KERNEL(mc_natural_add_##K)(const mc_u8 *wire, mc_i64 n, K::SUM *acc, K::SUM weight)                              \
    {                                                                                                                   \
        add<K>(wire, n, acc, weight);                                                                                   \
    }                                                                                                                   \
    MC_KERNEL(mc_natural_reduce_##K)(const mc_u8 *const *wires, mc_i32 p, mc_i32 position, const K::STORED *own,        \
                                     mc_i64 n, K::SUM scale, mc_u8 *out, mc_u64 key, mc_u64 first, mc_u32 offset,       \
                                     mc_i32 nearest)                                                                    \
    {                                                                                                                   \
        draws_t from = {key, first, offset, nearest};                                                                   \
        reduce<K>(wires, p, position, own, n, scale, out, from);                                                        \
    }

FOR_KINDS(KERNELS)
