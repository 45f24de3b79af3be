/* Levels of 64 values: see dithering.h. Of floats one loop makes random numbers and levels, with nothing on the way through
 * memory; doubles, which are twice as long, are faster if their random numbers are. */
#ifndef MC_CPU_LEVELS_H
#define MC_CPU_LEVELS_H
#include "../dithering.h"
#include "pack.h"

#define EACH_DRAWN(j, r, from, step)                                                                                       \
    do {                                                                                                                   \
        mc_group_t g = mc_group(from.key, from.first / MC_GROUP);                                                          \
        mc_u32 r = MC_HALF;                                                                                                \
        if (from.nearest)                                                                                                  \
            EACH(j, 64) step;                                                                                              \
        else                                                                                                               \
            EACH(j, 64) r = mc_draw(g, (mc_u32)j) + from.offset, step;                                                     \
    } while (0)

MC_FN void levels_natural_f32(const float *v, float inverse, mc_u32 top, draws_t from, mc_u8 *level)
{
    const mc_u8 below = (mc_u8)(MC_NATURAL_TOP - top);
    float half = mc_f32((mc_u32)below << 23);
    mc_u32 t[64];
    EACH_DRAWN(j, r, from, t[j] = mc_dithering_natural_f32(__builtin_fabsf(v[j]) * inverse, half, r));
    bytes_of_words(t, level);
    EACH(j, 64) level[j] = (mc_u8)(level[j] - below);
}

MC_FN void levels_natural_f64(const double *v, double factor, double inverse, draws_t from, mc_u8 *level)
{
    mc_u32 t[64], r[64];
    draw_32(r, from);
    EACH(j, 64) t[j] = mc_dithering_natural_f64(__builtin_fabs(v[j]) * factor * inverse, r[j]);
    bytes_of_words(t, level);
}

/* Sizes of levels; which of them are negative. */
MC_FN mc_u64 sizes_of(const mc_i32 *t, mc_u8 *level)
{
    signed char c[64];
    signed_bytes_of_words(t, c);
    EACH(j, 64) level[j] = (mc_u8)(c[j] < 0 ? -c[j] : c[j]);
    return top_bits_of_bytes(c);
}

MC_FN mc_u64 levels_standard_f32(const float *v, float inverse, int bits, draws_t from, mc_u8 *level)
{
    mc_i32 t[64];
    EACH_DRAWN(j, r, from, t[j] = mc_dithering_standard_f32(v[j] * inverse, r, bits));
    return sizes_of(t, level);
}

MC_FN mc_u64 levels_standard_f64(const double *v, double factor, double inverse, draws_t from, mc_u8 *level)
{
    mc_i32 t[64];
    mc_u32 r[64];
    draw_32(r, from);
    EACH(j, 64) t[j] = mc_dithering_standard_f64(v[j] * factor * inverse, r[j]);
    return sizes_of(t, level);
}

#endif
