/* Levels of 64 values: see dithering.h. levels_natural and levels_standard take doubles that are ready to be compared with
 * levels, as that says; those for floats make them. */
#ifndef MC_CPU_LEVELS_H
#define MC_CPU_LEVELS_H
#include "../dithering.h"
#include "simd.h"

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

/* 8 numbers, and one more where r is below the fraction. */
MC_FN __m256i one_more(__m256i v, const mc_u32 *r, __m256i fraction)
{
    const __m256i top = _mm256_set1_epi32((mc_i32)0x80000000u);
    __m256i below = _mm256_cmpgt_epi32(_mm256_xor_si256(fraction, top), _mm256_xor_si256(load_256(r), top));
    return _mm256_sub_epi32(v, below);
}

/* Every second word of 8 doubles: the high ones with 0xDD, the low ones with 0x88. */
#define WORDS(y, which)                                                                                                    \
    _mm256_castpd_si256(_mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(_mm256_castpd_ps((y)[0]),                 \
                                                                                 _mm256_castpd_ps((y)[1]), which)), 0xD8))

MC_FN __m256i natural_8(const __m256d y[2], const mc_u32 *r)
{
    __m256i high = WORDS(y, 0xDD), low = WORDS(y, 0x88);
    __m256i fraction = _mm256_or_si256(_mm256_slli_epi32(high, 12), _mm256_srli_epi32(low, 20));
    return one_more(_mm256_srli_epi32(high, 20), r, fraction);
}

MC_FN __m256i standard_8(const __m256d y[2], const mc_u32 *r)
{
    __m256i v = one_more(WORDS(y, 0xDD), r, WORDS(y, 0x88));
    return _mm256_srai_epi32(_mm256_slli_epi32(v, 24), 24);
}

/* Bytes in order from what the packs, which work in lanes of 128 bits, leave. */
MC_FN __m256i in_order(__m256i packed)
{
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
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
            t[k] = natural_8(pair, r + i + 8 * k);
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
            t[k] = standard_8(pair, r + i + 8 * k);
        }
        sign[i / 32] = standard_32(t, level + i);
    }
    return (mc_u64)sign[1] << 32 | sign[0];
}

/* Of floats, without a way through memory. */
MC_FN void levels_natural_f32(const float *v, double inverse, const mc_u32 *r, mc_u8 *level)
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
            t[k] = natural_8(y, r + i + 8 * k);
        }
        natural_32(t, level + i);
    }
}

MC_FN mc_u64 levels_standard_f32(const float *v, double inverse, const mc_u32 *r, mc_u8 *level)
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
            t[k] = standard_8(y, r + i + 8 * k);
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

#if defined(__AVX512BW__) || !defined(__AVX2__)

MC_FN void levels_natural_f32(const float *v, double inverse, const mc_u32 *r, mc_u8 *level)
{
    double y[64];
    doubles_of(v, y);
    for (int j = 0; j < 64; j++)
        y[j] = mc_dithering_bend(__builtin_fabs(y[j]) * inverse);
    levels_natural(y, r, level);
}

MC_FN mc_u64 levels_standard_f32(const float *v, double inverse, const mc_u32 *r, mc_u8 *level)
{
    double y[64];
    doubles_of(v, y);
    for (int j = 0; j < 64; j++)
        y[j] = y[j] * inverse + MC_DITHERING_SHIFT;
    return levels_standard(y, r, level);
}

#endif
#endif
