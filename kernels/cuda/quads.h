/* How CUDA kernels go through arrays: a thread takes four values at a time, 16 threads a group of 64, in loops over the
 * grid with 64-bit indices. Whole warps go through every loop, so that lanes can exchange bits.
 *
 * Four values are loaded and stored at once where they stand aligned, as do all arrays and most slices; else one by one. */
#ifndef MC_CUDA_QUADS_H
#define MC_CUDA_QUADS_H
#include "../kinds.h"
#include "../rng.h"

#define MC_KERNEL(name) extern "C" __global__ void name
/* KERNELS for every kind or, where the build names one (as CuPy's does: it saves time), for that alone. */
#ifdef MC_KIND
#define FOR_KINDS(kernels) FOR_KIND(kernels, MC_KIND)
#define FOR_KIND(kernels, kind) kernels(kind)
#else
#define FOR_KINDS(kernels) kernels(f32) kernels(f64) kernels(f16) kernels(bf16)
#endif

#define EACH(j, count) for (int j = 0; j < (count); j++)
#define EACH_QUAD(i, n)                                                                                          \
    for (mc_i64 i = 4 * ((mc_i64)blockIdx.x * blockDim.x + threadIdx.x); i < ((n) + 127) / 128 * 128;            \
         i += 4 * (mc_i64)gridDim.x * blockDim.x)

MC_FN bool aligned(const void *p, mc_u64 bytes) { return ((mc_u64)p & (bytes - 1)) == 0; }
MC_FN int clamped(mc_i64 n, int most) { return n < 0 ? 0 : n < most ? (int)n : most; }

/* What kernels need to know of a kind: see kinds.h. UINT are the bits of a sum. */
template <class STORED_, class SUM_, class UINT_> struct types {
    typedef STORED_ STORED;
    typedef SUM_ SUM;
    typedef UINT_ UINT;
};
struct wide_sums {
    static __device__ mc_u64 bits(double v) { return mc_bits_f64(v); }
    static __device__ double real(mc_u64 u) { return mc_f64(u); }
    static __device__ double add(double a, double b) { return mc_add_f64(a, b); }
    static __device__ double mul(double a, double b) { return mc_mul_f64(a, b); }
    static __device__ double div(double a, double b) { return mc_div_f64(a, b); }
    static __device__ double nan() { return mc_f64(0x7FF8000000000000u); }
    static __device__ double wide(double v) { return v; }
    static __device__ double narrowed(double v) { return v; }
};
struct float_sums {
    static __device__ mc_u32 bits(float v) { return mc_bits_f32(v); }
    static __device__ float real(mc_u32 u) { return mc_f32(u); }
    static __device__ float add(float a, float b) { return mc_add_f32(a, b); }
    static __device__ float mul(float a, float b) { return mc_mul_f32(a, b); }
    static __device__ float div(float a, float b) { return mc_div_f32(a, b); }
    static __device__ float nan() { return mc_f32(0x7FC00000u); }
    static __device__ double wide(float v) { return mc_wide(v); }
    static __device__ float narrowed(double v) { return mc_narrow(v); }
};
struct f32 : types<float, float, mc_u32>, float_sums {
    static __device__ float widen(float x) { return x; }
    static __device__ float narrow(float v) { return v; }
    static __device__ float round(float v) { return v; }
};
struct f64 : types<double, double, mc_u64>, wide_sums {
    static __device__ double widen(double x) { return x; }
    static __device__ double narrow(double v) { return v; }
    static __device__ double round(double v) { return v; }
};
struct f16 : types<mc_u16, float, mc_u32>, float_sums {
    static __device__ float widen(mc_u16 x) { return widen_f16(x); }
    static __device__ mc_u16 narrow(float v) { return narrow_f16(v); }
    static __device__ mc_u16 round(float v) { return mc_f16_of_f32(v); } /* too large becomes Inf */
};
struct bf16 : types<mc_u16, float, mc_u32>, float_sums {
    static __device__ float widen(mc_u16 x) { return widen_bf16(x); }
    static __device__ mc_u16 narrow(float v) { return narrow_bf16(v); }
    static __device__ mc_u16 round(float v) { return mc_bf16_of_f32(v); } /* too large becomes Inf */
};

template <class T> struct __align__(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) four {
    T v[4];
};

/* Values i..i+3 of n; zeros behind the last. */
template <class T> MC_FN four<T> load4(const T *x, mc_i64 i, mc_i64 n)
{
    four<T> q;
    if (i + 4 <= n && aligned(x, sizeof q < 16 ? sizeof q : 16))
        return *(const four<T> *)(x + i);
    EACH(j, 4) q.v[j] = i + j < n ? x[i + j] : (T)0;
    return q;
}

template <class T> MC_FN void store4(T *x, mc_i64 i, mc_i64 n, four<T> q)
{
    if (i + 4 <= n && aligned(x, sizeof q < 16 ? sizeof q : 16))
        *(four<T> *)(x + i) = q;
    else
        EACH(j, 4)
            if (i + j < n)
                x[i + j] = q.v[j];
}

/* Up to four bytes as a little-endian word; wires stand at any address. */
MC_FN mc_u32 load_bytes(const mc_u8 *p, int count)
{
    mc_u32 w = 0;
    if (count == 4 && aligned(p, 4))
        return *(const mc_u32 *)p;
    if (count == 2 && aligned(p, 2))
        return *(const mc_u16 *)p;
    EACH(j, 4) w |= j < count ? (mc_u32)p[j] << (8 * j) : 0;
    return w;
}

MC_FN void store_bytes(mc_u8 *p, mc_u32 w, int count)
{
    if (count == 4 && aligned(p, 4))
        *(mc_u32 *)p = w;
    else if (count == 2 && aligned(p, 2))
        *(mc_u16 *)p = (mc_u16)w;
    else
        EACH(j, 4)
            if (j < count)
                p[j] = (mc_u8)(w >> (8 * j));
}

/* Where random numbers come from: element `first` (a multiple of 64) of the stream `key`, or no chance at all. */
struct draws_t {
    mc_u64 key, first;
    mc_u32 offset;
    mc_i32 nearest;
};

MC_FN mc_group_t group_of(draws_t from, mc_i64 i) { return mc_group(from.key, (from.first + (mc_u64)i) / MC_GROUP); }

MC_FN mc_u32 draw_32(draws_t from, mc_group_t g, mc_i64 i)
{
    return from.nearest ? MC_HALF : mc_draw(g, (mc_u32)(i % MC_GROUP)) + from.offset;
}

MC_FN mc_u64 draw_64(draws_t from, mc_group_t g, mc_i64 i)
{
    mc_u32 lane = (mc_u32)(i % MC_GROUP), high = mc_draw(g, lane) + from.offset;
    return from.nearest ? MC_HALF64 : (mc_u64)high << 32 | mc_draw(mc_group_more(g), lane);
}

#endif
