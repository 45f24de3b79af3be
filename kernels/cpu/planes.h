/* 64 small codes to and from planes of bits: 8 bytes for each bit, value j in bit j%8 of byte j/8. A code is a byte: a
 * level in its low bits and, in bit 7, a sign, which is the last plane. */
#ifndef MC_CPU_PLANES_H
#define MC_CPU_PLANES_H
#include "simd.h"

#if defined(__AVX512BW__)

/* Bit k in every byte. */
#define ROW(k) {[0 ... 63] = 1 << (k)}
static const mc_u8 BIT[8][64] __attribute__((aligned(64))) = {ROW(0), ROW(1), ROW(2), ROW(3),
                                                              ROW(4), ROW(5), ROW(6), ROW(7)};

MC_FN void planes_of(const mc_u8 *level, mc_u64 sign, int bits, mc_u8 *wire)
{
    __m512i v = _mm512_loadu_si512(level);
    for (int k = 0; k < bits - 1; k++) {
        mc_u64 plane = _mm512_test_epi8_mask(v, _mm512_load_si512(BIT[k]));
        memcpy(wire + 8 * k, &plane, 8);
    }
    memcpy(wire + 8 * (bits - 1), &sign, 8);
}

MC_FN void codes_of_planes(const mc_u8 *wire, int bits, mc_u8 *code)
{
    __m512i v = _mm512_setzero_si512();
    for (int k = 0; k < bits; k++) {
        mc_u64 plane;
        memcpy(&plane, wire + 8 * k, 8);
        v = _mm512_mask_add_epi8(v, plane, v, _mm512_load_si512(BIT[k < bits - 1 ? k : 7]));
    }
    _mm512_storeu_si512(code, v);
}

#elif defined(__AVX2__)

MC_FN void planes_of(const mc_u8 *level, mc_u64 sign, int bits, mc_u8 *wire)
{
    __m128i up = _mm_cvtsi32_si128(9 - bits);
    __m256i low = _mm256_sll_epi16(load_256(level), up), high = _mm256_sll_epi16(load_256(level + 32), up);
    for (int k = bits - 2; k >= 0; k--) {
        mc_u32 first = (mc_u32)_mm256_movemask_epi8(low), second = (mc_u32)_mm256_movemask_epi8(high);
        memcpy(wire + 8 * k, &first, 4);
        memcpy(wire + 8 * k + 4, &second, 4);
        low = _mm256_add_epi8(low, low);
        high = _mm256_add_epi8(high, high);
    }
    memcpy(wire + 8 * (bits - 1), &sign, 8);
}

/* Bytes of -1 where the bits of a word are 1. */
MC_FN __m256i bytes_of_bits(const mc_u8 *wire)
{
    const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i pick = _mm256_set1_epi64x((mc_i64)0x8040201008040201u);
    mc_i32 plane;
    memcpy(&plane, wire, 4);
    return _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(plane), spread), pick), pick);
}

MC_FN void codes_of_planes(const mc_u8 *wire, int bits, mc_u8 *code)
{
    for (int half = 0; half < 8; half += 4) {
        __m256i v = _mm256_setzero_si256(), sign = bytes_of_bits(wire + 8 * (bits - 1) + half);
        for (int k = bits - 2; k >= 0; k--)
            v = _mm256_sub_epi8(_mm256_add_epi8(v, v), bytes_of_bits(wire + 8 * k + half));
        v = _mm256_or_si256(v, _mm256_and_si256(sign, _mm256_set1_epi8((char)128)));
        _mm256_storeu_si256((__m256i *)(code + 8 * half), v);
    }
}

#else

/* The 8 x 8 bits of a word, turned: bit k of byte j becomes bit j of byte k. */
MC_FN mc_u64 turned(mc_u64 w)
{
    mc_u64 t = (w ^ w >> 7) & 0x00AA00AA00AA00AAu;
    w ^= t ^ t << 7;
    t = (w ^ w >> 14) & 0x0000CCCC0000CCCCu;
    w ^= t ^ t << 14;
    t = (w ^ w >> 28) & 0x00000000F0F0F0F0u;
    return w ^ t ^ t << 28;
}

MC_FN void planes_of(const mc_u8 *level, mc_u64 sign, int bits, mc_u8 *wire)
{
    mc_u64 w[8];
    memcpy(w, level, 64);
    for (int g = 0; g < 8; g++)
        w[g] = turned(w[g]);
    for (int k = 0; k < bits - 1; k++)
        for (int g = 0; g < 8; g++)
            wire[8 * k + g] = (mc_u8)(w[g] >> (8 * k));
    memcpy(wire + 8 * (bits - 1), &sign, 8);
}

MC_FN void codes_of_planes(const mc_u8 *wire, int bits, mc_u8 *code)
{
    mc_u64 w[8] = {0};
    for (int k = 0; k < bits; k++)
        for (int g = 0; g < 8; g++)
            w[g] |= (mc_u64)wire[8 * k + g] << (8 * (k < bits - 1 ? k : 7));
    for (int g = 0; g < 8; g++)
        w[g] = turned(w[g]);
    memcpy(code, w, 64);
}

#endif
#endif
