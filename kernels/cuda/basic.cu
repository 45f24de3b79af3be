/* Sums of plain arrays: acc += weight * x (two roundings, no fused multiply-add), sums rounded to storage, and what is
 * stored in the type of sums. */
#include "quads.h"

template <class K>
MC_FN void scale_add(const typename K::STORED *x, mc_i64 n, typename K::SUM *acc, typename K::SUM weight)
{
    EACH_QUAD(i, n)
    {
        four<typename K::STORED> v = load4(x, i, n);
        four<typename K::SUM> sum = load4(acc, i, n);
        EACH(k, 4) sum.v[k] = K::add(sum.v[k], K::mul(weight, K::widen(v.v[k])));
        store4(acc, i, n, sum);
    }
}

template <class FROM, class TO, TO (*convert)(FROM)> MC_FN void convert_all(const FROM *x, mc_i64 n, TO *out)
{
    EACH_QUAD(i, n)
    {
        four<FROM> v = load4(x, i, n);
        four<TO> q;
        EACH(k, 4) q.v[k] = convert(v.v[k]);
        store4(out, i, n, q);
    }
}

/* Arithmetic in place that does not flush subnormals, as CuPy's own does; the CPU needs no kernels for it. */
template <class K> MC_FN void multiply(typename K::SUM *acc, mc_i64 n, typename K::SUM by, bool divide)
{
    EACH_QUAD(i, n)
    {
        four<typename K::SUM> q = load4(acc, i, n);
        EACH(k, 4) q.v[k] = divide ? K::div(q.v[k], by) : K::mul(q.v[k], by);
        store4(acc, i, n, q);
    }
}

#define KERNELS(K)                                                                                                      \
    MC_KERNEL(mc_scale_add_##K)(const K::STORED *x, mc_i64 n, K::SUM *acc, K::SUM weight)                               \
    {                                                                                                                   \
        scale_add<K>(x, n, acc, weight);                                                                                \
    }                                                                                                                   \
    MC_KERNEL(mc_round_##K)(const K::SUM *acc, mc_i64 n, K::STORED *out)                                             \
    {                                                                                                                   \
        convert_all<K::SUM, K::STORED, K::round>(acc, n, out);                                                          \
    }                                                                                                                   \
    MC_KERNEL(mc_lift_##K)(const K::STORED *x, mc_i64 n, K::SUM *acc)                                                   \
    {                                                                                                                   \
        convert_all<K::STORED, K::SUM, K::widen>(x, n, acc);                                                            \
    }                                                                                                                   \
    MC_KERNEL(mc_multiply_##K)(K::SUM *acc, mc_i64 n, K::SUM weight) { multiply<K>(acc, n, weight, false); }            \
    MC_KERNEL(mc_divide_##K)(K::SUM *acc, mc_i64 n, K::SUM weight) { multiply<K>(acc, n, weight, true); }

FOR_KINDS(KERNELS)
