/* The few steps that compilers do not find: 64 flags (bytes of 0 or 255) to 64 bits and back. */
#ifndef MC_CPU_SIMD_H
#define MC_CPU_SIMD_H
#include "../mc.h"

#if defined(__AVX512BW__)
#include <immintrin.h>

MC_FN mc_u64 bits_of_flags(const mc_u8 *flag) { return _mm512_movepi8_mask(_mm512_loadu_si512(flag)); }

MC_FN void flags_of_bits(mc_u64 bits, mc_u8 *flag) { _mm512_storeu_si512(flag, _mm512_movm_epi8(bits)); }

#elif defined(__AVX2__)
#include <immintrin.h>

MC_FN mc_u64 bits_of_flags(const mc_u8 *flag)
{
    mc_u32 low = (mc_u32)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)flag));
    mc_u32 high = (mc_u32)_mm256_movemask_epi8(_mm256_loadu_si256((const __m256i *)(flag + 32)));
    return (mc_u64)high << 32 | low;
}

MC_FN __m256i flags_of_32(mc_u32 bits)
{
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((mc_i64)0x8040201008040201u);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32((mc_i32)bits), byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(v, bit), bit);
}

MC_FN void flags_of_bits(mc_u64 bits, mc_u8 *flag)
{
    _mm256_storeu_si256((__m256i *)flag, flags_of_32((mc_u32)bits));
    _mm256_storeu_si256((__m256i *)(flag + 32), flags_of_32((mc_u32)(bits >> 32)));
}

#else

/* Eight at a time: the product gathers the lowest bits of eight bytes in the top byte. */
MC_FN mc_u64 bits_of_flags(const mc_u8 *flag)
{
    mc_u64 bits = 0;
    for (int k = 0; k < 8; k++) {
        mc_u64 v;
        memcpy(&v, flag + 8 * k, 8);
        bits |= ((v & 0x0101010101010101u) * 0x0102040810204080u >> 56) << (8 * k);
    }
    return bits;
}

/* Byte j keeps bit j only; the sum carries it, if set, into the byte's top, and the product spreads it. */
MC_FN void flags_of_bits(mc_u64 bits, mc_u8 *flag)
{
    for (int k = 0; k < 8; k++) {
        mc_u64 v = ((bits >> (8 * k) & 255) * 0x0101010101010101u & 0x8040201008040201u) + 0x7F7F7F7F7F7F7F7Fu;
        v = (v >> 7 & 0x0101010101010101u) * 255;
        memcpy(flag + 8 * k, &v, 8);
    }
}

#endif
#endif
