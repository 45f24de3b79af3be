/* Levels of 64 values: see dithering.h. levels_natural and levels_standard take doubles that are ready to be compared with
 * levels, as that says, and random numbers; those for floats make both. */
#ifndef MC_CPU_LEVELS_H
#define MC_CPU_LEVELS_H
#include "../dithering.h"
#include "pack.h"

#if defined(__AVX512BW__)

typedef struct {
    __m512i high, low;
} words_t;

/* The words of 16 doubles, apart. */
MC_FN words_t words_of(const mc_any32 *w)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    __m512i first = _mm512_loadu_si512(w), second = _mm512_loadu_si512(w + 16);
    words_t found = {_mm512_permutex2var_epi32(first, odd, second), _mm512_permutex2var_epi32(first, even, second)};
    return found;
}

/* 16 numbers, and one more where r is below the fraction. */
MC_FN __m512i one_more(__m512i v, const mc_u32 *r, __m512i fraction)
{
    return _mm512_mask_add_epi32(v, _mm512_cmplt_epu32_mask(_mm512_loadu_si512(r), fraction), v, _mm512_set1_epi32(1));
}

/* Bytes in order from what the packs, which work in lanes of 128 bits, leave. */
MC_FN __m512i in_order(__m512i packed)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, packed);
}

MC_FN void levels_natural(const double *y, const mc_u32 *r, mc_u8 *level)
{
    const mc_any32 *w = (const mc_any32 *)y;
    const __m512i lowest = _mm512_set1_epi16(1022);
    __m512i t[4];
    for (int k = 0; k < 4; k++) {
        words_t u = words_of(w + 32 * k);
        __m512i fraction = _mm512_or_si512(_mm512_slli_epi32(u.high, 12), _mm512_srli_epi32(u.low, 20));
        t[k] = one_more(_mm512_srli_epi32(u.high, 20), r + 16 * k, fraction);
    }
    __m512i first = _mm512_subs_epu16(_mm512_packus_epi32(t[0], t[1]), lowest);
    __m512i second = _mm512_subs_epu16(_mm512_packus_epi32(t[2], t[3]), lowest);
    _mm512_storeu_si512(level, in_order(_mm512_packus_epi16(first, second)));
}

/* Sizes of levels; which of them are negative. */
MC_FN mc_u64 levels_standard(const double *y, const mc_u32 *r, mc_u8 *level)
{
    const mc_any32 *w = (const mc_any32 *)y;
    __m512i t[4];
    for (int k = 0; k < 4; k++) {
        words_t u = words_of(w + 32 * k);
        __m512i v = one_more(u.high, r + 16 * k, u.low);
        t[k] = _mm512_srai_epi32(_mm512_slli_epi32(v, 24), 24);
    }
    __m512i packed = _mm512_packs_epi16(_mm512_packs_epi32(t[0], t[1]), _mm512_packs_epi32(t[2], t[3]));
    packed = in_order(packed);
    _mm512_storeu_si512(level, _mm512_abs_epi8(packed));
    return _mm512_movepi8_mask(packed);
}

#elif defined(__AVX2__)

/* Doubles of 8 values are halves of 4; what is taken from both with one shuffle is in the order 0 1 4 5 2 3 6 7. */
#define EVERY_SECOND(y, first)                                                                                             \
    _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castpd_ps((y)[0]), _mm256_castpd_ps((y)[1]), (first) ? 0xDD : 0x88))

/* Random numbers in that order, the top bit turned, since vectors are compared as signed numbers. */
typedef struct {
    __m256i a, b, plus;
} lanes_t;

MC_FN lanes_t lanes_of(draws_t from)
{
#define LANE(j) ((mc_i32)(j * 0x9E3779B9u))
    const __m256i lane = _mm256_setr_epi32(0, LANE(1), LANE(4), LANE(5), LANE(2), LANE(3), LANE(6), LANE(7));
    mc_group_t g = mc_group(from.key, from.first / MC_GROUP);
    lanes_t lanes = {_mm256_add_epi32(_mm256_set1_epi32((mc_i32)g.a), lane), _mm256_set1_epi32((mc_i32)g.b),
                     _mm256_set1_epi32((mc_i32)(from.offset + 0x80000000u))};
    return lanes;
}

/* mc_draw of the next 8. */
MC_FN __m256i draw_8(lanes_t *lanes)
{
    __m256i x = lanes->a;
    lanes->a = _mm256_add_epi32(x, _mm256_set1_epi32(LANE(8)));
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
    x = _mm256_add_epi32(_mm256_mullo_epi32(x, _mm256_set1_epi32(0x7FEB352D)), lanes->b);
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
    x = _mm256_mullo_epi32(x, _mm256_set1_epi32((mc_i32)0x846CA68Bu));
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
    return _mm256_add_epi32(x, lanes->plus);
#undef LANE
}

/* The same of those that stand in memory. */
MC_FN __m256i drawn_8(const mc_u32 *r)
{
    return _mm256_xor_si256(_mm256_permute4x64_epi64(load_256(r), 0xD8), _mm256_set1_epi32((mc_i32)0x80000000u));
}

/* 8 numbers, and one more where r is below the fraction. */
MC_FN __m256i one_more(__m256i v, __m256i r, __m256i fraction)
{
    __m256i below = _mm256_cmpgt_epi32(_mm256_xor_si256(fraction, _mm256_set1_epi32((mc_i32)0x80000000u)), r);
    return _mm256_sub_epi32(v, below);
}

MC_FN __m256i natural_8(const __m256d y[2], __m256i r)
{
    __m256d fraction[2];
    EACH(h, 2) fraction[h] = _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(y[h]), 12));
    return one_more(_mm256_srli_epi32(EVERY_SECOND(y, 1), 20), r, EVERY_SECOND(fraction, 1));
}

MC_FN __m256i standard_8(const __m256d y[2], __m256i r)
{
    __m256i v = one_more(EVERY_SECOND(y, 1), r, EVERY_SECOND(y, 0));
    return _mm256_srai_epi32(_mm256_slli_epi32(v, 24), 24);
}

/* Bytes in order from what the packs, which work in lanes of 128 bits, leave of four times that. */
MC_FN __m256i in_order(__m256i packed)
{
    const __m256i swap = _mm256_set_epi64x(0x0F0E0B0A0D0C0908, 0x0706030205040100, 0x0F0E0B0A0D0C0908, 0x0706030205040100);
    packed = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_shuffle_epi8(packed, swap);
}

MC_FN void natural_32(const __m256i t[4], mc_u8 *level)
{
    const __m256i lowest = _mm256_set1_epi16(1022);
    __m256i first = _mm256_subs_epu16(_mm256_packus_epi32(t[0], t[1]), lowest);
    __m256i second = _mm256_subs_epu16(_mm256_packus_epi32(t[2], t[3]), lowest);
    _mm256_storeu_si256((__m256i *)level, in_order(_mm256_packus_epi16(first, second)));
}

/* Sizes of 32 levels; which of them are negative. */
MC_FN mc_u32 standard_32(const __m256i t[4], mc_u8 *level)
{
    __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(t[0], t[1]), _mm256_packs_epi32(t[2], t[3]));
    packed = in_order(packed);
    _mm256_storeu_si256((__m256i *)level, _mm256_abs_epi8(packed));
    return (mc_u32)_mm256_movemask_epi8(packed);
}

MC_FN void levels_natural(const double *y, const mc_u32 *r, mc_u8 *level)
{
    for (int i = 0; i < 64; i += 32) {
        __m256i t[4];
        for (int k = 0; k < 4; k++) {
            __m256d pair[2] = {_mm256_loadu_pd(y + i + 8 * k), _mm256_loadu_pd(y + i + 8 * k + 4)};
            t[k] = natural_8(pair, drawn_8(r + i + 8 * k));
        }
        natural_32(t, level + i);
    }
}

MC_FN mc_u64 levels_standard(const double *y, const mc_u32 *r, mc_u8 *level)
{
    mc_u32 sign[2];
    for (int i = 0; i < 64; i += 32) {
        __m256i t[4];
        for (int k = 0; k < 4; k++) {
            __m256d pair[2] = {_mm256_loadu_pd(y + i + 8 * k), _mm256_loadu_pd(y + i + 8 * k + 4)};
            t[k] = standard_8(pair, drawn_8(r + i + 8 * k));
        }
        sign[i / 32] = standard_32(t, level + i);
    }
    return (mc_u64)sign[1] << 32 | sign[0];
}

/* Of floats, with nothing on the way through memory. */
#define FLOATS_AT_ONCE
MC_FN void natural_at_once(const float *v, double inverse, lanes_t lanes, mc_u8 *level)
{
    const __m256d size = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7FFFFFFFFFFFFFFF)), half = _mm256_set1_pd(0.5);
    const __m256d by = _mm256_set1_pd(inverse);
    for (int i = 0; i < 64; i += 32) {
        __m256i t[4];
        for (int k = 0; k < 4; k++) {
            __m256d y[2];
            for (int h = 0; h < 2; h++) { /* mc_dithering_bend */
                __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(v + i + 8 * k + 4 * h));
                x = _mm256_mul_pd(_mm256_and_pd(x, size), by);
                y[h] = _mm256_max_pd(x, _mm256_fmadd_pd(half, x, half));
            }
            t[k] = natural_8(y, draw_8(&lanes));
        }
        natural_32(t, level + i);
    }
}

MC_FN mc_u64 standard_at_once(const float *v, double inverse, lanes_t lanes, mc_u8 *level)
{
    const __m256d by = _mm256_set1_pd(inverse), shift = _mm256_set1_pd(MC_DITHERING_SHIFT);
    mc_u32 sign[2];
    for (int i = 0; i < 64; i += 32) {
        __m256i t[4];
        for (int k = 0; k < 4; k++) {
            __m256d y[2];
            for (int h = 0; h < 2; h++) {
                __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(v + i + 8 * k + 4 * h));
                y[h] = _mm256_add_pd(_mm256_mul_pd(x, by), shift);
            }
            t[k] = standard_8(y, draw_8(&lanes));
        }
        sign[i / 32] = standard_32(t, level + i);
    }
    return (mc_u64)sign[1] << 32 | sign[0];
}

#else

MC_FN void levels_natural(const double *y, const mc_u32 *r, mc_u8 *level)
{
    const mc_any32 *w = (const mc_any32 *)y;
    mc_u32 t[64];
    for (int j = 0; j < 64; j++)
        t[j] = mc_dithering_natural(w[2 * j + 1], w[2 * j], r[j]);
    bytes_of_words(t, level);
}

/* Sizes of levels; which of them are negative. */
MC_FN mc_u64 levels_standard(const double *y, const mc_u32 *r, mc_u8 *level)
{
    const mc_any32 *w = (const mc_any32 *)y;
    mc_u32 t[64];
    mc_u8 sign[64];
    for (int j = 0; j < 64; j++)
        t[j] = mc_dithering_standard(w[2 * j + 1], w[2 * j], r[j]);
    bytes_of_words(t, level);
    for (int j = 0; j < 64; j++) {
        sign[j] = level[j] >> 7;
        level[j] = (mc_u8)(sign[j] ? -level[j] : level[j]);
    }
    return bytes_equal(sign, 1);
}

#endif

MC_FN void levels_natural_f32(const float *v, double inverse, draws_t from, mc_u8 *level)
{
    mc_u32 r[64];
    double y[64];
#ifdef FLOATS_AT_ONCE
    if (!from.nearest) {
        natural_at_once(v, inverse, lanes_of(from), level);
        return;
    }
#endif
    draw_32(r, from);
    doubles_of(v, y);
    EACH(j, 64) y[j] = mc_dithering_bend(__builtin_fabs(y[j]) * inverse);
    levels_natural(y, r, level);
}

MC_FN mc_u64 levels_standard_f32(const float *v, double inverse, draws_t from, mc_u8 *level)
{
    mc_u32 r[64];
    double y[64];
#ifdef FLOATS_AT_ONCE
    if (!from.nearest)
        return standard_at_once(v, inverse, lanes_of(from), level);
#endif
    draw_32(r, from);
    doubles_of(v, y);
    EACH(j, 64) y[j] = y[j] * inverse + MC_DITHERING_SHIFT;
    return levels_standard(y, r, level);
}

#endif
