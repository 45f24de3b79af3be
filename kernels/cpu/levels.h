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

MC_FN void levels_natural_f64(const double *y, const mc_u32 *r, mc_u8 *level)
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
MC_FN mc_u64 levels_standard_f64(const double *y, const mc_u32 *r, mc_u8 *level)
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

MC_FN void levels_natural_f64(const double *y, const mc_u32 *r, mc_u8 *level)
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

MC_FN mc_u64 levels_standard_f64(const double *y, const mc_u32 *r, mc_u8 *level)
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

#else

MC_FN void levels_natural_f64(const double *y, const mc_u32 *r, mc_u8 *level)
{
    const mc_any32 *w = (const mc_any32 *)y;
    mc_u32 t[64];
    for (int j = 0; j < 64; j++)
        t[j] = mc_dithering_natural_f64(w[2 * j + 1], w[2 * j], r[j]);
    bytes_of_words(t, level);
}

/* Sizes of levels; which of them are negative. */
MC_FN mc_u64 levels_standard_f64(const double *y, const mc_u32 *r, mc_u8 *level)
{
    const mc_any32 *w = (const mc_any32 *)y;
    mc_u32 t[64];
    mc_u8 sign[64];
    for (int j = 0; j < 64; j++)
        t[j] = mc_dithering_standard_f64(w[2 * j + 1], w[2 * j], r[j]);
    bytes_of_words(t, level);
    for (int j = 0; j < 64; j++) {
        sign[j] = level[j] >> 7;
        level[j] = (mc_u8)(sign[j] ? -level[j] : level[j]);
    }
    return bytes_equal(sign, 1);
}

#endif

/* Of floats: one loop from values to levels, with nothing on the way through memory. */
#define EACH_DRAWN(j, r, step)                                                                                             \
    do {                                                                                                                   \
        mc_group_t g = mc_group(from.key, from.first / MC_GROUP);                                                          \
        mc_u32 r = MC_HALF;                                                                                                \
        if (from.nearest)                                                                                                  \
            EACH(j, 64) step;                                                                                              \
        else                                                                                                               \
            EACH(j, 64) r = mc_draw(g, (mc_u32)j) + from.offset, step;                                                     \
    } while (0)

MC_FN void levels_natural_f32(const float *v, float inverse, mc_u32 top, draws_t from, mc_u8 *level)
{
    const mc_u8 below = (mc_u8)(MC_NATURAL_TOP - top);
    float half = mc_f32((mc_u32)below << 23);
    mc_u32 t[64];
    EACH_DRAWN(j, r, t[j] = mc_dithering_natural_f32(__builtin_fabsf(v[j]) * inverse, half, r));
    bytes_of_words(t, level);
    EACH(j, 64) level[j] = (mc_u8)(level[j] - below);
}

/* Sizes of levels; which of them are negative. */
MC_FN mc_u64 levels_standard_f32(const float *v, float inverse, int bits, draws_t from, mc_u8 *level)
{
    mc_i32 t[64];
    signed char c[64];
    EACH_DRAWN(j, r, t[j] = mc_dithering_standard_f32(v[j] * inverse, r, bits));
    signed_bytes_of_words(t, c);
    EACH(j, 64) level[j] = (mc_u8)(c[j] < 0 ? -c[j] : c[j]);
    return top_bits_of_bytes(c);
}

#endif
