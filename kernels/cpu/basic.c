/* Sums of plain arrays: acc += weight * x (two roundings, no fused multiply-add), sums rounded to storage, and what is
 * stored in the type of sums. */
#include "../half.h"
#include "level.h"

#define SAME(x) (x)
#define SCALE_ADD(kind, STORED, SUM, WIDE)                                                      \
    MC_KERNEL(mc_scale_add_##kind)(const STORED *x, mc_i64 n, SUM *acc, SUM weight)             \
    {                                                                                           \
        for (mc_i64 i = 0; i < n; i++)                                                          \
            acc[i] += weight * WIDE(x[i]);                                                      \
    }
#define ROUND(kind, STORED, SUM, NARROW)                                                        \
    MC_KERNEL(mc_round_##kind)(const SUM *acc, mc_i64 n, STORED *out)                           \
    {                                                                                           \
        for (mc_i64 i = 0; i < n; i++)                                                          \
            out[i] = NARROW(acc[i]);                                                            \
    }
#define LIFT(kind, STORED, SUM, WIDE)                                                           \
    MC_KERNEL(mc_lift_##kind)(const STORED *x, mc_i64 n, SUM *acc)                              \
    {                                                                                           \
        for (mc_i64 i = 0; i < n; i++)                                                          \
            acc[i] = WIDE(x[i]);                                                                \
    }

SCALE_ADD(f32, float, float, SAME)
SCALE_ADD(f64, double, double, SAME)
SCALE_ADD(f16, mc_u16, float, mc_f32_of_f16)
SCALE_ADD(bf16, mc_u16, float, mc_f32_of_bf16)

ROUND(f32, float, float, SAME)
ROUND(f64, double, double, SAME)
ROUND(f16, mc_u16, float, mc_f16_of_f32)
ROUND(bf16, mc_u16, float, mc_bf16_of_f32)

LIFT(f32, float, float, SAME)
LIFT(f64, double, double, SAME)
LIFT(f16, mc_u16, float, mc_f32_of_f16)
LIFT(bf16, mc_u16, float, mc_f32_of_bf16)
