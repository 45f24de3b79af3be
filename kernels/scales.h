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
    float norm, unit, factor, inverse;
} scale_t_f32;

typedef struct {
    double norm, unit, factor, inverse;
} scale_t_f64;

MC_FN settings_t settings(mc_i32 bits, mc_i32 p, mc_i32 block, mc_i32 flags, int norm_bytes, mc_u32 spare)
{
    int natural_norm = (flags & MC_NATURAL_NORM) != 0, head = natural_norm ? norm_bytes / 4 : norm_bytes;
    /* One natural level above 0 is a standard one, for which floats have more bits of fraction. */
    int natural = flags & MC_NATURAL_LEVELS && (bits > 2 || norm_bytes == 8);
    settings_t set = {bits, p, block, head, natural, natural_norm, (1u << (bits - 1)) - 1, spare};
    return set;
}

/* A scale as it is read. */
MC_FN scale_t_f32 scale_f32(float norm, settings_t set)
{
    scale_t_f32 scale = {norm, set.natural ? norm : mc_dithering_step_f32(norm, set.top, set.spare), 1, 0};
    return scale;
}

MC_FN scale_t_f64 scale_f64(double norm, settings_t set)
{
    scale_t_f64 scale = {norm, set.natural ? norm : mc_dithering_step_f64(norm, set.top), 1, 0};
    return scale;
}

/* A scale to code with, and to write. A natural norm is another on the wire, and what levels are multiplied with proportional
 * to it. */
MC_FN scale_t_f32 scale_to_code_f32(float norm, settings_t set)
{
    scale_t_f32 scale = scale_f32(norm, set);
    mc_u32 to = set.natural ? MC_NATURAL_TOP : (mc_u32)(127 + 31 - set.bits);
    float near;
    scale.factor = mc_dithering_factor(norm);
    if (set.natural_norm && !set.natural)
        near = mc_mul_f32(mc_mul_f32(norm, scale.factor), mc_dithering_step_f32(1, set.top, set.spare));
    else
        near = mc_mul_f32(scale.unit, scale.factor);
    scale.inverse = mc_div_f32(mc_f32(to << 23), near);
    return scale;
}

MC_FN scale_t_f64 scale_to_code_f64(double norm, double factor, settings_t set)
{
    scale_t_f64 scale = scale_f64(norm, set);
    double lowest = mc_f64((mc_u64)(1022 + set.top) << 52), of = norm * factor;
    scale.factor = factor;
    if (set.natural)
        scale.inverse = lowest / of;
    else
        scale.inverse = 1 / (set.natural_norm ? of * mc_dithering_step_f64(1, set.top) : scale.unit * factor);
    return scale;
}

#endif
