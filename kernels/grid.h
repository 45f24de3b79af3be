/* A value on an absolute grid, and back: g stands for g * step.
 *
 *   g = floor(x / step + r), r uniform on [0, 1): x / step on average. Beyond +-most it is cut off, and what is not finite
 *   is -most - 1. All in doubles, which are exact enough for any step.
 *
 * The wire: g in `bits` bits of two's complement, 2, 4, 8 or 16 of them, the first value in the lowest. */
#ifndef MC_GRID_H
#define MC_GRID_H
#include "mc.h"

MC_FN mc_i32 mc_grid_most(mc_i32 bits) { return (1 << (bits - 1)) - 1; }

MC_FN mc_i32 mc_grid_number(double x, mc_u32 r, double step, mc_i32 most)
{
    double chance = ((double)(mc_i32)(r ^ 0x80000000u) + 2147483648.0) * 2.3283064365386963e-10;   /* r / 2^32 */
    double y = x / step + chance, top = most;
    y = y < -top ? -top : y;
    y = y > top ? top : y;
    y = x - x == 0 ? y : -top - 1;
    return (mc_i32)mc_floor(y);
}

/* From the lowest bits of `code`. */
MC_FN double mc_grid_value(mc_u32 code, double step, mc_i32 bits)
{
    mc_i32 g = (mc_i32)(code << (32 - bits)) >> (32 - bits);
    return g < -mc_grid_most(bits) ? mc_f64(0x7FF8000000000000u) : (double)g * step;
}

#endif
