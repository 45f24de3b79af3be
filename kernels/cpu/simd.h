/* The few steps on 64 values that compilers do not find, or not well. Bit j of a 64-bit word stands for value j. */
#ifndef MC_CPU_SIMD_H
#define MC_CPU_SIMD_H
#include "level.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* A float's bits where it stands in memory. */
typedef mc_u32 __attribute__((may_alias)) mc_any32;
typedef mc_u64 __attribute__((may_alias)) mc_any64;

/* With `count` a constant: no loop is left. */
#define UNROLLED_(text) _Pragma(#text)
#define UNROLLED(j, count) UNROLLED_(GCC unroll 16) for (int j = 0; j < (count); j++)

/* Asks for memory that a loop will come to: processors' own prefetching stops at the end of each page. */
MC_FN void ahead(const void *p, int nbytes)
{
    for (int k = 0; k < nbytes; k += 64)
        __builtin_prefetch((const char *)p + 4096 + k);
}

/* memcpy of a fixed number of bytes, by whole vectors. Compilers take shorter ones, and what is then loaded as one has to wait
 * until all of them have reached the cache. */
MC_FN void copy(void *to, const void *from, int nbytes)
{
    int k = 0;
#if defined(__AVX512BW__)
    for (; k + 64 <= nbytes; k += 64)
        _mm512_storeu_si512((char *)to + k, _mm512_loadu_si512((const char *)from + k));
#endif
#if defined(__AVX2__)
    for (; k + 32 <= nbytes; k += 32)
        _mm256_storeu_si256((__m256i *)((char *)to + k), _mm256_loadu_si256((const __m256i *)((const char *)from + k)));
#endif
    memcpy((char *)to + k, (const char *)from + k, (size_t)(nbytes - k));
}

/* Copies a block past the caches: memory that is only written need not be read first. On processors that
 * level.c names it goes through them instead. A multiple of 16 bytes to a multiple of 16; stream_end() comes after the last.
 * For outputs of STREAM_FROM bytes and more: collectives decode a large array in parts. */
#ifndef STREAM_FROM
#define STREAM_FROM (128 << 10)
#endif
#if defined(__x86_64__)
#define MC_STREAMS 1
MC_FN void stream(void *out, const void *v, int nbytes)
{
    if (mc_through_caches) {
        for (int k = 0; k < nbytes; k += 64) {
            __builtin_prefetch((const char *)out + 2048 + k);
            copy((char *)out + k, (const char *)v + k, nbytes - k < 64 ? nbytes - k : 64);
        }
        return;
    }
#if defined(__AVX512F__)
    if ((uintptr_t)out % 64 == 0 && nbytes % 64 == 0) { /* a line at a time */
        for (int k = 0; k < nbytes; k += 64)
            _mm512_stream_si512((__m512i *)((char *)out + k), _mm512_loadu_si512((const char *)v + k));
        return;
    }
#elif defined(__AVX__)
    if ((uintptr_t)out % 32 == 0 && nbytes % 32 == 0) {
        for (int k = 0; k < nbytes; k += 32)
            _mm256_stream_si256((__m256i *)((char *)out + k), _mm256_loadu_si256((const __m256i *)((const char *)v + k)));
        return;
    }
#endif
    for (int k = 0; k < nbytes; k += 16)
        _mm_stream_si128((__m128i *)((char *)out + k), _mm_loadu_si128((const __m128i *)((const char *)v + k)));
}
MC_FN void stream_end(void) { _mm_sfence(); }
#else
#define MC_STREAMS 0
MC_FN void stream(void *out, const void *v, int nbytes) { memcpy(out, v, (size_t)nbytes); }
MC_FN void stream_end(void) {}
#endif

#if defined(__AVX512BW__)

/* min(v, 255) as bytes. The packs work in lanes of 128 bits, so the words come out of order. */
MC_FN void bytes_of_words(const mc_u32 *v, mc_u8 *out)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low = _mm512_packus_epi32(_mm512_loadu_si512(v), _mm512_loadu_si512(v + 16));
    __m512i high = _mm512_packus_epi32(_mm512_loadu_si512(v + 32), _mm512_loadu_si512(v + 48));
    _mm512_storeu_si512(out, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high)));
}

/* Floats as doubles, from memory, where converting costs half of what it does in registers. */
MC_FN void doubles_of(const float *v, double *y)
{
    for (int k = 0; k < 64; k += 8)
        _mm512_storeu_pd(y + k, _mm512_cvtps_pd(_mm256_loadu_ps(v + k)));
}

/* v, cut off at -128 and 127, as bytes. */
MC_FN void signed_bytes_of_words(const mc_i32 *v, signed char *out)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low = _mm512_packs_epi32(_mm512_loadu_si512(v), _mm512_loadu_si512(v + 16));
    __m512i high = _mm512_packs_epi32(_mm512_loadu_si512(v + 32), _mm512_loadu_si512(v + 48));
    _mm512_storeu_si512(out, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high)));
}

MC_FN mc_u64 top_bits_of_bytes(const signed char *v) { return _mm512_movepi8_mask(_mm512_loadu_si512(v)); }

MC_FN mc_u64 top_bits(const mc_any32 *v)
{
    __mmask32 low = _mm512_kunpackw(_mm512_movepi32_mask(_mm512_loadu_si512(v + 16)),
                                    _mm512_movepi32_mask(_mm512_loadu_si512(v)));
    __mmask32 high = _mm512_kunpackw(_mm512_movepi32_mask(_mm512_loadu_si512(v + 48)),
                                     _mm512_movepi32_mask(_mm512_loadu_si512(v + 32)));
    return _mm512_kunpackd(high, low);
}

MC_FN mc_u64 bytes_equal(const mc_u8 *bytes, mc_u8 value)
{
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(bytes), _mm512_set1_epi8((char)value));
}

/* Floats' bits from exponents and signs; what would be -0 is NaN. */
MC_FN void floats_of(const mc_u8 *exponent, mc_u64 sign, mc_any32 *u)
{
    const __m512i top = _mm512_set1_epi32((mc_i32)0x80000000u), nan = _mm512_set1_epi32(0x7FC00000);
    for (int k = 0; k < 4; k++) {
        __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(exponent + 16 * k)));
        v = _mm512_slli_epi32(v, 23);
        v = _mm512_mask_or_epi32(v, (__mmask16)(sign >> (16 * k)), v, top);
        v = _mm512_mask_mov_epi32(v, _mm512_cmpeq_epi32_mask(v, top), nan);
        _mm512_storeu_si512(u + 16 * k, v);
    }
}

/* Floats of one size, or 0 where `some` has no bit; negative where `sign` has one too. */
MC_FN void floats_of_size(mc_u32 size, mc_u64 some, mc_u64 sign, mc_any32 *u)
{
    const __m512i top = _mm512_set1_epi32((mc_i32)0x80000000u), of = _mm512_set1_epi32((mc_i32)size);
    for (int k = 0; k < 64; k += 16) {
        __m512i v = _mm512_maskz_mov_epi32((__mmask16)(some >> k), of);
        _mm512_storeu_si512(u + k, _mm512_mask_or_epi32(v, (__mmask16)((sign & some) >> k), v, top));
    }
}

#elif defined(__AVX2__)

MC_FN __m256i load_256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

MC_FN void doubles_of(const float *v, double *y)
{
    for (int k = 0; k < 64; k += 4)
        _mm256_storeu_pd(y + k, _mm256_cvtps_pd(_mm_loadu_ps(v + k)));
}

MC_FN void bytes_of_words(const mc_u32 *v, mc_u8 *out)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int k = 0; k < 64; k += 32) {
        __m256i low = _mm256_packus_epi32(load_256(v + k), load_256(v + k + 8));
        __m256i high = _mm256_packus_epi32(load_256(v + k + 16), load_256(v + k + 24));
        __m256i all = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
        _mm256_storeu_si256((__m256i *)(out + k), all);
    }
}

MC_FN void signed_bytes_of_words(const mc_i32 *v, signed char *out)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int k = 0; k < 64; k += 32) {
        __m256i low = _mm256_packs_epi32(load_256(v + k), load_256(v + k + 8));
        __m256i high = _mm256_packs_epi32(load_256(v + k + 16), load_256(v + k + 24));
        __m256i all = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        _mm256_storeu_si256((__m256i *)(out + k), all);
    }
}

MC_FN mc_u64 top_bits_of_bytes(const signed char *v)
{
    return (mc_u64)(mc_u32)_mm256_movemask_epi8(load_256(v + 32)) << 32 | (mc_u32)_mm256_movemask_epi8(load_256(v));
}

MC_FN mc_u64 top_bits(const mc_any32 *v)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    mc_u32 half[2];
    for (int k = 0; k < 2; k++, v += 32) { /* packs keep the sign */
        __m256i low = _mm256_packs_epi32(load_256(v), load_256(v + 8));
        __m256i high = _mm256_packs_epi32(load_256(v + 16), load_256(v + 24));
        half[k] = (mc_u32)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
    }
    return (mc_u64)half[1] << 32 | half[0];
}

MC_FN mc_u64 bytes_equal(const mc_u8 *bytes, mc_u8 value)
{
    __m256i v = _mm256_set1_epi8((char)value);
    mc_u32 low = (mc_u32)_mm256_movemask_epi8(_mm256_cmpeq_epi8(load_256(bytes), v));
    mc_u32 high = (mc_u32)_mm256_movemask_epi8(_mm256_cmpeq_epi8(load_256(bytes + 32), v));
    return (mc_u64)high << 32 | low;
}

MC_FN void floats_of(const mc_u8 *exponent, mc_u64 sign, mc_any32 *u)
{
    const __m256i up = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    const __m256i top = _mm256_set1_epi32((mc_i32)0x80000000u), nan = _mm256_set1_epi32(0x7FC00000);
    for (int k = 0; k < 8; k++) {
        __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(exponent + 8 * k)));
        __m256i s = _mm256_sllv_epi32(_mm256_set1_epi32((mc_i32)(sign >> (8 * k) & 255)), up);
        v = _mm256_or_si256(_mm256_slli_epi32(v, 23), _mm256_and_si256(s, top));
        v = _mm256_blendv_epi8(v, nan, _mm256_cmpeq_epi32(v, top));
        _mm256_storeu_si256((__m256i *)(u + 8 * k), v);
    }
}

MC_FN void floats_of_size(mc_u32 size, mc_u64 some, mc_u64 sign, mc_any32 *u)
{
    const __m256i pick = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i top = _mm256_set1_epi32((mc_i32)0x80000000u), of = _mm256_set1_epi32((mc_i32)size);
    for (int k = 0; k < 64; k += 8) {
        __m256i on = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((mc_i32)(some >> k)), pick), pick);
        __m256i minus = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((mc_i32)(sign >> k)), pick), pick);
        __m256i v = _mm256_and_si256(on, _mm256_or_si256(of, _mm256_and_si256(minus, top)));
        _mm256_storeu_si256((__m256i *)(u + k), v);
    }
}

#else

MC_FN void doubles_of(const float *v, double *y)
{
    for (int j = 0; j < 64; j++)
        y[j] = (double)v[j];
}

MC_FN void bytes_of_words(const mc_u32 *v, mc_u8 *out)
{
    for (int j = 0; j < 64; j++)
        out[j] = (mc_u8)(v[j] > 255 ? 255 : v[j]);
}

/* Bits from bytes of 0 and 1, eight at a time: the product gathers them in the top byte. */
MC_FN mc_u64 bits_of_bytes(const mc_u8 *flag)
{
    mc_u64 bits = 0;
    for (int k = 0; k < 8; k++) {
        mc_u64 v;
        memcpy(&v, flag + 8 * k, 8);
        bits |= (v * 0x0102040810204080u >> 56) << (8 * k);
    }
    return bits;
}

MC_FN void signed_bytes_of_words(const mc_i32 *v, signed char *out)
{
    for (int j = 0; j < 64; j++)
        out[j] = (signed char)(v[j] < -128 ? -128 : v[j] > 127 ? 127 : v[j]);
}

MC_FN mc_u64 top_bits_of_bytes(const signed char *v)
{
    mc_u8 flag[64];
    for (int j = 0; j < 64; j++)
        flag[j] = v[j] < 0;
    return bits_of_bytes(flag);
}

MC_FN mc_u64 top_bits(const mc_any32 *v)
{
    mc_u8 flag[64];
    for (int j = 0; j < 64; j++)
        flag[j] = (mc_u8)(v[j] >> 31);
    return bits_of_bytes(flag);
}

MC_FN mc_u64 bytes_equal(const mc_u8 *bytes, mc_u8 value)
{
    mc_u8 flag[64];
    for (int j = 0; j < 64; j++)
        flag[j] = bytes[j] == value;
    return bits_of_bytes(flag);
}

MC_FN void floats_of(const mc_u8 *exponent, mc_u64 sign, mc_any32 *u)
{
    mc_u8 low[64];
    memcpy(low, exponent, 64);
    for (int k = 0; k < 64; k += 8, sign >>= 8)
        for (int j = 0; j < 8; j++) {
            mc_u32 v = (mc_u32)low[k + j] << 23 | ((mc_u32)sign & 1u << j) << (31 - j);
            u[k + j] = v == 0x80000000 ? 0x7FC00000 : v;
        }
}

MC_FN void floats_of_size(mc_u32 size, mc_u64 some, mc_u64 sign, mc_any32 *u)
{
    for (int k = 0; k < 64; k += 8, some >>= 8, sign >>= 8)
        for (int j = 0; j < 8; j++)
            u[k + j] = (size | ((mc_u32)sign & 1u << j) << (31 - j)) & -((mc_u32)some >> j & 1);
}

#endif
#endif
