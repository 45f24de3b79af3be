/* What every kernel needs: integer types, bit casts, arithmetic that no compiler rounds otherwise, and the mark of a
 * function. This is the only file that asks which compiler is reading. NVRTC has no <stdint.h>, so the types are
 * named here.
 *
 * Wherever subnormal floats can occur, floats are added, multiplied, divided and converted by the functions below: CuPy
 * compiles with -ftz=true, which makes zeros of them, in comparisons too. Doubles need no such care. */
#ifndef MC_H
#define MC_H

#if defined(__CUDACC__) || defined(__HIP__)
typedef unsigned char mc_u8;
typedef unsigned short mc_u16;
typedef unsigned int mc_u32;
typedef unsigned long long mc_u64;
typedef int mc_i32;
typedef long long mc_i64;
#define MC_FN static __device__ __forceinline__
MC_FN mc_u32 mc_bits_f32(float x) { return __float_as_uint(x); }
MC_FN float mc_f32(mc_u32 u) { return __uint_as_float(u); }
MC_FN mc_u64 mc_bits_f64(double x) { return (mc_u64)__double_as_longlong(x); }
MC_FN double mc_f64(mc_u64 u) { return __longlong_as_double((mc_i64)u); }
#ifdef __CUDACC__
MC_FN mc_u32 mc_swap(mc_u32 v, int distance) { return __shfl_xor_sync(0xFFFFFFFFu, v, distance); }
MC_FN mc_u32 mc_ballot(bool vote) { return __ballot_sync(0xFFFFFFFFu, vote); }
#else
MC_FN mc_u32 mc_swap(mc_u32 v, int distance) { return (mc_u32)__shfl_xor((int)v, distance); }
MC_FN mc_u32 mc_ballot(bool vote) { return (mc_u32)(__ballot(vote) >> (__lane_id() & 32)); } /* of 32 lanes, where a wave has 64 */
#endif
MC_FN double mc_add_exact(double c, double a, double b) { return a * b + c; }
MC_FN float mc_add_half(float c, float a) { return 0.5f * a + c; }
#else
#include <stdint.h>
#include <string.h>
typedef uint8_t mc_u8;
typedef uint16_t mc_u16;
typedef uint32_t mc_u32;
typedef uint64_t mc_u64;
typedef int32_t mc_i32;
typedef int64_t mc_i64;
#define MC_FN static inline __attribute__((always_inline, unused))
MC_FN mc_u32 mc_bits_f32(float x) { mc_u32 u; memcpy(&u, &x, 4); return u; }
MC_FN float mc_f32(mc_u32 u) { float x; memcpy(&x, &u, 4); return x; }
MC_FN mc_u64 mc_bits_f64(double x) { mc_u64 u; memcpy(&u, &x, 8); return u; }
MC_FN double mc_f64(mc_u64 u) { double x; memcpy(&x, &u, 8); return x; }
/* c + a * b where a * b is exact, and c + a / 2 where subnormal halves do not count: one instruction or two, the same bits. */
#if defined(__FMA__)
MC_FN double mc_add_exact(double c, double a, double b) { return __builtin_fma(a, b, c); }
MC_FN float mc_add_half(float c, float a) { return __builtin_fmaf(0.5f, a, c); }
#else
MC_FN double mc_add_exact(double c, double a, double b) { return a * b + c; }
MC_FN float mc_add_half(float c, float a) { return 0.5f * a + c; }
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "wires are little-endian; this machine is not"
#endif
#endif

#ifdef __CUDA_ARCH__
MC_FN float mc_add_f32(float a, float b) { float c; asm("add.rn.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
MC_FN float mc_mul_f32(float a, float b) { float c; asm("mul.rn.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
MC_FN float mc_div_f32(float a, float b) { float c; asm("div.rn.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
MC_FN double mc_wide(float x) { double y; asm("cvt.f64.f32 %0, %1;" : "=d"(y) : "f"(x)); return y; }
MC_FN float mc_narrow(double x) { float y; asm("cvt.rn.f32.f64 %0, %1;" : "=f"(y) : "d"(x)); return y; }
#else
MC_FN float mc_add_f32(float a, float b) { return a + b; }
MC_FN float mc_mul_f32(float a, float b) { return a * b; }
MC_FN float mc_div_f32(float a, float b) { return a / b; }
MC_FN double mc_wide(float x) { return (double)x; }
MC_FN float mc_narrow(double x) { return (float)x; }
#endif
MC_FN double mc_add_f64(double a, double b) { return a + b; }
MC_FN double mc_mul_f64(double a, double b) { return a * b; }
MC_FN double mc_div_f64(double a, double b) { return a / b; }

/* The largest whole number up to y, which fits into 31 bits. */
#if defined(__SSE4_1__) || defined(__aarch64__)
MC_FN double mc_floor(double y) { return __builtin_floor(y); }   /* one instruction */
#else
MC_FN double mc_floor(double y) { double whole = (double)(mc_i32)y; return whole > y ? whole - 1 : whole; }
#endif

#endif
