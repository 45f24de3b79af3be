/* Values on an absolute grid: see grid.h. A thread has four values, half a byte to eight bytes of the wire. */
#include "../grid.h"
#include "quads.h"

template <class K>
MC_FN void grid_encode(const typename K::STORED *x, mc_i64 n, mc_u8 *wire, draws_t from, double step, mc_i32 bits)
{
    EACH_QUAD(i, n)
    {
        four<typename K::STORED> v = load4(x, i, n);
        mc_group_t g = group_of(from, i);
        mc_u64 word = 0, mask = (1u << bits) - 1;
        int bytes = (clamped(n - i, 4) * bits + 7) / 8;
        EACH(k, 4)
        word |= ((mc_u64)mc_grid_number(K::wide(v.v[k]), draw_32(from, g, i + k), step, mc_grid_most(bits)) & mask) << (bits * k);
        store_bytes(wire + i * bits / 8, (mc_u32)word, bytes < 4 ? bytes : 4);
        if (bytes > 4)
            store_bytes(wire + i * bits / 8 + 4, (mc_u32)(word >> 32), bytes - 4);
    }
}

template <class K> MC_FN void grid_decode(const mc_u8 *wire, mc_i64 n, typename K::STORED *out, double step, mc_i32 bits)
{
    EACH_QUAD(i, n)
    {
        four<typename K::STORED> v;
        int bytes = (clamped(n - i, 4) * bits + 7) / 8;
        mc_u64 word = load_bytes(wire + i * bits / 8, bytes < 4 ? bytes : 4);
        if (bytes > 4)
            word |= (mc_u64)load_bytes(wire + i * bits / 8 + 4, bytes - 4) << 32;
        EACH(k, 4) v.v[k] = K::narrowed(mc_grid_value((mc_u32)(word >> (bits * k)), step, bits));
        store4(out, i, n, v);
    }
}

#define GRID(K)                                                                                                          \
    MC_KERNEL(mc_grid_encode_##K)(const K::STORED *x, mc_i64 n, mc_u8 *wire, mc_u64 key, mc_u64 first, mc_u32 offset,     \
                                  mc_i32 nearest, double step, mc_i32 bits)                                              \
    {                                                                                                                    \
        draws_t from = {key, first, offset, nearest};                                                                    \
        grid_encode<K>(x, n, wire, from, step, bits);                                                                    \
    }                                                                                                                    \
    MC_KERNEL(mc_grid_decode_##K)(const mc_u8 *wire, mc_i64 n, K::STORED *out, double step, mc_i32 bits)                 \
    {                                                                                                                    \
        grid_decode<K>(wire, n, out, step, bits);                                                                        \
    }

GRID(f32)
GRID(f64)
