/* A matrix as left^T right: see cpu/lowrank.c for the four kernels and the order of their additions, which is the same
 * here. 32 lanes of a dot product are the lanes of a warp; a sum over rows is a thread's for each column. */
#include "quads.h"

#define LANES 32

MC_FN float swapped(float x, int distance) { return mc_f32(mc_swap(mc_bits_f32(x), distance)); }
MC_FN double swapped(double x, int distance)
{
    mc_u64 u = mc_bits_f64(x);
    return mc_f64((mc_u64)mc_swap((mc_u32)(u >> 32), distance) << 32 | mc_swap((mc_u32)u, distance));
}

/* Lane by lane, then halved five times; every lane gets the result. K says in which type. */
template <class K, class REAL> MC_FN typename K::SUM dot(const REAL *a, const REAL *b, mc_i64 n)
{
    typename K::SUM sum = 0;
    for (mc_i64 i = threadIdx.x % LANES; i < n; i += LANES)
        sum = K::add(sum, K::mul((typename K::SUM)K::from(a[i]), (typename K::SUM)K::from(b[i])));
    for (int half = LANES / 2; half; half /= 2)
        sum = K::add(sum, swapped(sum, half));
    return sum;
}

struct in_float : f32 {
    static __device__ float from(float x) { return x; }
};
struct in_double : f64 {
    static __device__ double from(float x) { return mc_wide(x); }
    static __device__ double from(double x) { return x; }
};
template <class K> struct own_type : in_float {};
template <> struct own_type<f64> : in_double {};

template <class K>
MC_FN void project(const typename K::SUM *x, mc_i64 n, mc_i64 cols, const typename K::SUM *right, typename K::SUM *left,
                   mc_i64 pace, mc_i64 rank)
{
    mc_i64 rows = (n + cols - 1) / cols, warps = (mc_i64)gridDim.x * (blockDim.x / LANES);
    for (mc_i64 job = (mc_i64)blockIdx.x * (blockDim.x / LANES) + threadIdx.x / LANES; job < rows * rank; job += warps) {
        mc_i64 i = job / rank, t = job % rank;
        typename K::SUM value = dot<own_type<K> >(x + i * cols, right + t * cols, cols);
        if (threadIdx.x % LANES == 0)
            left[t * pace + i] = value;
    }
}

template <class K>
MC_FN void back(const typename K::SUM *x, mc_i64 n, mc_i64 cols, mc_i64 stride, const typename K::SUM *left,
                typename K::SUM *right, mc_i64 pace, mc_i64 rank)
{
    mc_i64 rows = (n - cols) / stride + 1, threads = (mc_i64)gridDim.x * blockDim.x;
    for (mc_i64 job = (mc_i64)blockIdx.x * blockDim.x + threadIdx.x; job < cols * rank; job += threads) {
        mc_i64 t = job / cols, j = job % cols;
        typename K::SUM sum = 0;
        for (mc_i64 i = 0; i < rows; i++)
            sum = K::add(sum, K::mul(left[t * rows + i], x[i * stride + j]));
        right[t * pace + j] = sum;
    }
}

template <class K>
MC_FN void expand(const typename K::SUM *left, mc_i64 pace, const typename K::SUM *right, mc_i64 rank, mc_i64 n,
                  mc_i64 cols, typename K::SUM *out)
{
    mc_i64 threads = (mc_i64)gridDim.x * blockDim.x;
    for (mc_i64 at = (mc_i64)blockIdx.x * blockDim.x + threadIdx.x; at < n; at += threads) {
        mc_i64 i = at / cols, j = at % cols;
        typename K::SUM sum = K::mul(left[i], right[j]);
        for (mc_i64 t = 1; t < rank; t++)
            sum = K::add(sum, K::mul(left[t * pace + i], right[t * cols + j]));
        out[at] = sum;
    }
}

#define EACH_LANE(i, n) for (mc_i64 i = threadIdx.x; i < (n); i += LANES)

/* One warp. A lane goes on where it was when it wrote, so that only the dot products need the others. */
template <class K> MC_FN void orthonormalize(typename K::SUM *left, mc_i64 n, mc_i64 rank, double dependent)
{
    typedef typename K::SUM REAL;
    for (mc_i64 t = 0; t < rank; t++) {
        REAL *v = left + t * n;
        double most = 0;
        EACH_LANE(i, n)
        {
            double size = K::wide(v[i]);
            size = size < 0 ? -size : size;
            most = size > most ? size : most;
        }
        for (int half = LANES / 2; half; half /= 2) {
            double other = swapped(most, half);
            most = other > most ? other : most;
        }
        if (most == 0)
            continue;
        EACH_LANE(i, n) v[i] = K::div(v[i], K::narrowed(most)); /* so that squares neither vanish nor overflow */
        __syncthreads();
        double before = dot<in_double>(v, v, n);
        for (int twice = 0; twice < 2; twice++)
            for (mc_i64 s = 0; s < t; s++) {
                REAL back = K::mul(K::narrowed(dot<in_double>(left + s * n, v, n)), (REAL)-1); /* a minus sign would flush */
                EACH_LANE(i, n) v[i] = K::add(v[i], K::mul(back, left[s * n + i]));
                __syncthreads();
            }
        double after = dot<in_double>(v, v, n), length = sqrt(after);
        EACH_LANE(i, n)
            v[i] = after <= dependent * dependent * before ? (REAL)0 : K::narrowed(K::wide(v[i]) / length);
        __syncthreads();
    }
}

#define LOWRANK(K, DEPENDENT)                                                                                           \
    MC_KERNEL(mc_lowrank_project_##K)(const K::SUM *x, mc_i64 n, mc_i64 cols, const K::SUM *right, K::SUM *left,        \
                                      mc_i64 pace, mc_i64 rank)                                                         \
    {                                                                                                                   \
        project<K>(x, n, cols, right, left, pace, rank);                                                                \
    }                                                                                                                   \
    MC_KERNEL(mc_lowrank_back_##K)(const K::SUM *x, mc_i64 n, mc_i64 cols, mc_i64 stride, const K::SUM *left,           \
                                   K::SUM *right, mc_i64 pace, mc_i64 rank)                                             \
    {                                                                                                                   \
        back<K>(x, n, cols, stride, left, right, pace, rank);                                                           \
    }                                                                                                                   \
    MC_KERNEL(mc_lowrank_expand_##K)(const K::SUM *left, mc_i64 pace, const K::SUM *right, mc_i64 rank, mc_i64 n,       \
                                     mc_i64 cols, K::SUM *out)                                                          \
    {                                                                                                                   \
        expand<K>(left, pace, right, rank, n, cols, out);                                                               \
    }                                                                                                                   \
    MC_KERNEL(mc_lowrank_orthonormalize_##K)(K::SUM *left, mc_i64 n, mc_i64 rank)                                       \
    {                                                                                                                   \
        orthonormalize<K>(left, n, rank, DEPENDENT);                                                                    \
    }

LOWRANK(f32, 1e-5)
LOWRANK(f64, 1e-13)
