/* Natural compression to 8 bits, float32: see natural.h for the wire. 128 threads take a block of 512 values together. */
#include "quads.h"

#define BLOCK 512
#define FULL 513

/* The largest of all threads' numbers. */
MC_FN mc_u32 largest(mc_u32 v)
{
    __shared__ mc_u32 most;
    for (int distance = 1; distance < 8; distance *= 2) {
        mc_u32 other = mc_swap(v, distance);
        v = other > v ? other : v;
    }
    if (threadIdx.x == 0)
        most = 0;
    __syncthreads();
    if (threadIdx.x % 8 == 0)
        atomicMax(&most, v);
    __syncthreads();
    v = most;
    __syncthreads();
    return v;
}

MC_FN void put4(const float *v, draws_t from, mc_i64 b, mc_i64 n, mc_u8 *wire)
{
    mc_i64 i = b * BLOCK + 4 * threadIdx.x;
    mc_group_t g = group_of(from, i);
    mc_u32 top = 0, codes = 0;
    EACH(k, 4) top = mc_natural8_top(mc_bits_f32(v[k])) > top ? mc_natural8_top(mc_bits_f32(v[k])) : top;
    mc_u32 base = largest(top), s = mc_natural8_floor(base);
    EACH(k, 4) codes |= mc_natural8_code(mc_bits_f32(v[k]), draw_32(from, g, i + k), s) << (8 * k);
    if (threadIdx.x == 0)
        wire[b * FULL] = (mc_u8)base;
    store_bytes(wire + b * FULL + 1 + 4 * threadIdx.x, codes, clamped(n - i, 4));
}

MC_FN void get4(const mc_u8 *wire, mc_i64 i, mc_i64 n, float *v)
{
    const mc_u8 *block = wire + i / BLOCK * FULL;
    mc_u32 codes = load_bytes(block + 1 + i % BLOCK, clamped(n - i, 4)), s = mc_natural8_floor(i < n ? block[0] : 0);
    EACH(k, 4) v[k] = mc_f32(mc_natural8_bits(codes >> (8 * k) & 255, s));
}

MC_KERNEL(mc_natural8_encode_f32)(const float *x, mc_i64 n, mc_u8 *wire, mc_u64 key, mc_u64 first, mc_u32 offset,
                                  mc_i32 nearest)
{
    draws_t from = {key, first, offset, nearest};
    for (mc_i64 b = blockIdx.x; b * BLOCK < n; b += gridDim.x) {
        four<float> q = load4(x, b * BLOCK + 4 * threadIdx.x, n);
        put4(q.v, from, b, n, wire);
    }
}

MC_KERNEL(mc_natural8_decode_f32)(const mc_u8 *wire, mc_i64 n, float *out)
{
    EACH_QUAD(i, n)
    {
        four<float> q;
        get4(wire, i, n, q.v);
        store4(out, i, n, q);
    }
}

MC_KERNEL(mc_natural8_add_f32)(const mc_u8 *wire, mc_i64 n, float *acc, float weight)
{
    EACH_QUAD(i, n)
    {
        four<float> q = load4(acc, i, n);
        float v[4];
        get4(wire, i, n, v);
        EACH(k, 4) q.v[k] = mc_add_f32(q.v[k], mc_mul_f32(weight, v[k]));
        store4(acc, i, n, q);
    }
}

MC_KERNEL(mc_natural8_reduce_f32)(const mc_u8 *const *wires, mc_i32 p, mc_i32 position, const float *own, mc_i64 n,
                                  float scale, mc_u8 *out, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    draws_t from = {key, first, offset, nearest};
    for (mc_i64 b = blockIdx.x; b * BLOCK < n; b += gridDim.x) {
        mc_i64 i = b * BLOCK + 4 * threadIdx.x;
        float sum[4] = {-0.0f, -0.0f, -0.0f, -0.0f};
        for (mc_i32 t = 0; t < p + (own != 0); t++) {
            four<float> q;
            if (own && t == position)
                q = load4(own, i, n);
            else
                get4(wires[t - (own && t > position)], i, n, q.v);
            EACH(k, 4) sum[k] = mc_add_f32(sum[k], q.v[k]);
        }
        EACH(k, 4) sum[k] = mc_mul_f32(sum[k], scale);
        put4(sum, from, b, n, out);
    }
}
