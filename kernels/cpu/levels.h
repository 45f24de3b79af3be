/* Levels of 64 values that are given as the words of doubles: see dithering.h. */
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

MC_FN void levels_natural(const mc_any32 *w, const mc_u32 *r, mc_u8 *level)
{
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
MC_FN mc_u64 levels_standard(const mc_any32 *w, const mc_u32 *r, mc_u8 *level)
{
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

#else

MC_FN void levels_natural(const mc_any32 *w, const mc_u32 *r, mc_u8 *level)
{
    mc_u32 t[64];
    for (int j = 0; j < 64; j++)
        t[j] = mc_dithering_natural(w[2 * j + 1], w[2 * j], r[j]);
    bytes_of_words(t, level);
}

/* Sizes of levels; which of them are negative. */
MC_FN mc_u64 levels_standard(const mc_any32 *w, const mc_u32 *r, mc_u8 *level)
{
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
#endif
