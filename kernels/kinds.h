/* What loops need to know of a kind, by its name: NAMED(STORED, KIND) is STORED_f16.
 *
 *   STORED, SUM     types of a stored value and of a sum
 *   SUMS            the kind of the sum
 *   WIDEN, NARROW   stored values to sums and back; what is finite in a sum stays so when it is stored
 *   IN_PLACE        whether stored values can be read as sums where they stand
 *   LIMIT           bits of the smallest positive sum that the kind cannot store
 *   SPARE           the low bits of a float's mantissa that the kind has no room for
 *   NEEDS_TOP       whether a block's largest value is asked for, where its norm does not say that sums overflow */
#ifndef MC_KINDS_H
#define MC_KINDS_H
#include "half.h"
#include "natural.h"

#define NAMED_(name, kind) name##_##kind
#define NAMED(name, kind) NAMED_(name, kind)

MC_FN float widen_f32(float x) { return x; }
MC_FN double widen_f64(double x) { return x; }
MC_FN float widen_f16(mc_u16 x) { return mc_f32_of_f16(x); }
MC_FN float widen_bf16(mc_u16 x) { return mc_f32_of_bf16(x); }

MC_FN float narrow_f32(float v) { return v; }
MC_FN double narrow_f64(double v) { return v; }
MC_FN mc_u16 narrow_f16(float v) { return mc_f16_of_f32(v > 65504.0f ? 65504.0f : v < -65504.0f ? -65504.0f : v); }
MC_FN mc_u16 narrow_bf16(float v)
{
    float most = mc_f32(0x7F7F0000);
    return mc_bf16_of_f32(v > most ? most : v < -most ? -most : v);
}

#define STORED_f32 float
#define STORED_f64 double
#define STORED_f16 mc_u16
#define STORED_bf16 mc_u16
#define SUM_f32 float
#define SUM_f64 double
#define SUM_f16 float
#define SUM_bf16 float
#define SUMS_f32 f32
#define SUMS_f64 f64
#define SUMS_f16 f32
#define SUMS_bf16 f32
#define IN_PLACE_f32 1
#define IN_PLACE_f64 1
#define IN_PLACE_f16 0
#define IN_PLACE_bf16 0
#define LIMIT_f32 MC_INF
#define LIMIT_f64 MC_INF64
#define LIMIT_f16 0x477FF000u
#define LIMIT_bf16 0x7F7F8000u
#define NEEDS_TOP_f32 0
#define NEEDS_TOP_f64 1
#define NEEDS_TOP_f16 1
#define NEEDS_TOP_bf16 1
#define SPARE_f32 0u
#define SPARE_f64 0u
#define SPARE_f16 0x1FFFu
#define SPARE_bf16 0xFFFFu

#endif
