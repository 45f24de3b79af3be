/* What every kernel needs: integer types, bit casts and the mark of a function. This is the only file that asks
 * which compiler is reading. NVRTC has no <stdint.h>, so the types are named here. */
#ifndef MC_H
#define MC_H

#ifdef __CUDACC_RTC__
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
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "wires are little-endian; this machine is not"
#endif
#endif

#endif
