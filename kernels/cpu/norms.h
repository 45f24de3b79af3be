/* Norms of blocks, summed in the order that dithering.h states. */
#ifndef MC_CPU_NORMS_H
#define MC_CPU_NORMS_H
#include "../dithering.h"
#include "../norms.h"
#include "pack.h"

/* What is known of a block so far: the largest bits of its floats or doubles, and eight sums. */
typedef struct {
    mc_u32 top[16];
    mc_u64 top64[8];
    double sum[8];
} tally_t;

/* Adds 32 halved terms to the eight sums. */
MC_FN void add_group(double *q, double *sum)
{
    EACH(j, 16) q[j] += q[j + 16];
    EACH_ROLLED(j, 8) sum[j] += q[j] + q[j + 8];
}

/* The larger magnitude, as bits. */
MC_FN mc_u32 larger(mc_u32 a, mc_u32 b)
{
    mc_i32 x = (mc_i32)(a & 0x7FFFFFFF), y = (mc_i32)(b & 0x7FFFFFFF);
    return (mc_u32)(x > y ? x : y);
}

/* Adds the squares of 64 floats, which are exact as doubles, to the eight sums. */
MC_FN void add_squares(const float *v, double *sum)
{
#if defined(__AVX2__) && !defined(__AVX512BW__)
    __m256d q[8];
    EACH(k, 8) {
        __m256d low = _mm256_cvtps_pd(_mm_loadu_ps(v + 4 * k)), high = _mm256_cvtps_pd(_mm_loadu_ps(v + 32 + 4 * k));
        q[k] = _mm256_fmadd_pd(high, high, _mm256_mul_pd(low, low));
    }
    EACH(k, 4) q[k] = _mm256_add_pd(q[k], q[k + 4]);
    EACH(k, 2) _mm256_storeu_pd(sum + 4 * k, _mm256_add_pd(_mm256_loadu_pd(sum + 4 * k), _mm256_add_pd(q[k], q[k + 2])));
#else
    double y[64], q[32];
    doubles_of(v, y);
    EACH(j, 32) q[j] = mc_add_exact(y[j] * y[j], y[j + 32], y[j + 32]);
    add_group(q, sum);
#endif
}

/* Takes in 64 values; p is 1, 2 or, for the largest value alone, 0. Sums of floats need no largest. */
MC_FN void tally_f32(tally_t *t, const float *v, double factor, int p, int top)
{
    const mc_any32 *u = (const mc_any32 *)v;
    double y[64], q[32];
    (void)factor;
    if (p == 0 || top)
        EACH_ROLLED(j, 16) {
            mc_u32 a = larger(u[j], u[j + 16]), b = larger(u[j + 32], u[j + 48]);
            t->top[j] = larger(larger(a, b), t->top[j]);
        }
    if (p == 0)
        return;
    if (p == 2) {
        add_squares(v, t->sum);
        return;
    }
    doubles_of(v, y);
    EACH(j, 32) q[j] = __builtin_fabs(y[j]) + __builtin_fabs(y[j + 32]);
    add_group(q, t->sum);
}

MC_FN void tally_f64(tally_t *t, const double *v, double factor, int p, int top)
{
    (void)top;
    const mc_any64 *u = (const mc_any64 *)v;
    double q[64];
    EACH(k, 8)
        EACH_ROLLED(j, 8) {
            mc_u64 w = u[8 * k + j] & 0x7FFFFFFFFFFFFFFFu;
            t->top64[j] = (mc_i64)w > (mc_i64)t->top64[j] ? w : t->top64[j];
        }
    if (p == 0)
        return;
    EACH(j, 64) q[j] = mc_f64(u[j] & 0x7FFFFFFFFFFFFFFFu) * factor;
    if (p == 2)
        EACH(j, 64) q[j] *= q[j];
    EACH(j, 32) q[j] += q[j + 32];
    add_group(q, t->sum);
}

MC_FN mc_u64 top_f32(const tally_t *t)
{
    mc_u32 most = 0;
    EACH(j, 16) most = t->top[j] > most ? t->top[j] : most;
    return most;
}

MC_FN mc_u64 top_f64(const tally_t *t)
{
    mc_u64 most = 0;
    EACH(j, 8) most = t->top64[j] > most ? t->top64[j] : most;
    return most;
}

MC_FN double real_f32(mc_u64 bits) { return (double)mc_f32((mc_u32)bits); }
MC_FN double real_f64(mc_u64 bits) { return mc_f64(bits); }

/* The norm of all that was taken in, of which `most` is the largest value. */
MC_FN double norm_of(const tally_t *t, double most, int p)
{
    double s[8];
    memcpy(s, t->sum, sizeof s);
    EACH(j, 4) s[j] += s[j + 4];
    EACH(j, 2) s[j] += s[j + 2];
    return p == 0 ? most : p == 1 ? s[0] + s[1] : __builtin_sqrt(s[0] + s[1]);
}

/* A norm's random numbers, where those of its block are `from`: from the group beside the first. */
MC_FN mc_u64 norm_draw(draws_t from)
{
    mc_group_t g = mc_group_more(mc_group(from.key, from.first / MC_GROUP));
    mc_u32 high = from.nearest ? MC_HALF : mc_draw(g, 0) + from.offset;
    return (mc_u64)high << 32 | (from.nearest ? 0 : mc_draw(g, 1));
}

#endif
