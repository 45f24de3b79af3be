/* The scales of blocks: what dithering multiplies levels with. */
#ifndef MC_SCALES_H
#define MC_SCALES_H
#include "dithering.h"
#include "norms.h"

/* `top` is the highest level, `spare` the bits of a norm's mantissa that its kind has no room for. */
typedef struct {
    int bits, p, block, head, natural, natural_norm;
    mc_u32 top, spare;
} settings_t;

/* The norm; what levels are multiplied with, the norm (natural) or a step (standard); what values are multiplied with,
 * one factor after the other, to compare them with levels. */
typedef struct {
    double norm, unit, factor, inverse;
} scale_t;

MC_FN settings_t settings(mc_i32 bits, mc_i32 p, mc_i32 block, mc_i32 flags, int norm_bytes, mc_u32 spare)
{
    int natural_norm = (flags & MC_NATURAL_NORM) != 0, head = natural_norm ? norm_bytes / 4 : norm_bytes;
    settings_t set = {bits, p, block, head, flags & MC_NATURAL_LEVELS, natural_norm, (1u << (bits - 1)) - 1, spare};
    return set;
}

MC_FN scale_t scale_f32(float norm, settings_t set)
{
    scale_t scale = {mc_wide(norm), mc_wide(set.natural ? norm : mc_dithering_step_f32(norm, set.top, set.spare)), 1, 0};
    return scale;
}

MC_FN scale_t scale_f64(double norm, settings_t set)
{
    scale_t scale = {norm, set.natural ? norm : mc_dithering_step_f64(norm, set.top), 1, 0};
    return scale;
}

/* What values are multiplied with to compare them with levels: 1 / unit, but a natural norm is another on the wire, to
 * which the unit is proportional. Natural levels are counted from the lowest, norm / 2^(top-1). */
MC_FN double inverse(double norm, double unit, double unit_of_1, settings_t set)
{
    double lowest = mc_f64((mc_u64)(1022 + set.top) << 52);
    return set.natural ? lowest / norm : 1 / (set.natural_norm ? norm * unit_of_1 : unit);
}

#endif
