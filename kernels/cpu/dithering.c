/* Dithering of every kind: see dithering.h for levels and wire, scaled.h for the loops. */
#include "../scales.h"
#include "level.h"
#include "norms.h"
#include "levels.h"
#include "planes.h"

MC_FN scale_t_f32 read_f32(const mc_u8 *wire, settings_t set)
{
    return scale_f32(read_norm_f32(wire, set.natural_norm), set);
}

MC_FN scale_t_f64 read_f64(const mc_u8 *wire, settings_t set)
{
    return scale_f64(read_norm_f64(wire, set.natural_norm), set);
}

MC_FN scale_t_f32 make_f32(double norm, double factor, int bad, mc_i64 m, settings_t set, draws_t from, mc_u8 *wire)
{
    float sent = bad ? mc_f32(0x7FC00000) : mc_norm_f32(norm, set.spare);
    (void)factor, (void)m;
    write_norm_f32(sent, set.natural_norm, set.natural_norm ? norm_draw(from) : 0, wire);
    return scale_to_code_f32(sent, set);
}

MC_FN scale_t_f64 make_f64(double norm, double factor, int bad, mc_i64 m, settings_t set, draws_t from, mc_u8 *wire)
{
    double sent = bad ? mc_f64(0x7FF8000000000000u) : mc_norm_f64(norm / factor);
    (void)m;
    write_norm_f64(sent, set.natural_norm, set.natural_norm ? norm_draw(from) : 0, wire);
    return scale_to_code_f64(sent, factor, set);
}

/* Planes of 64 levels, of which none is above the top; zero has no sign. */
MC_FN void code_levels(mc_u8 *level, mc_u64 sign, settings_t set, mc_u8 *wire)
{
    mc_u8 top = (mc_u8)set.top;
    EACH(j, 64) level[j] = level[j] > top ? top : level[j];
    planes_of(level, set.natural ? sign & ~bytes_equal(level, 0) : sign, set.bits, wire);
}

MC_FN void code_f32(const float *v, settings_t set, scale_t_f32 scale, draws_t from, mc_u8 *wire)
{
    mc_u8 level[64];
    mc_u64 sign;
    float near[64];
    if (scale.factor != 1) {
        EACH(j, 64) near[j] = v[j] * scale.factor;
        v = near;
    }
    if (set.natural) {
        levels_natural_f32(v, scale.inverse, set.top, from, level);
        sign = top_bits((const mc_any32 *)v);
    } else
        sign = levels_standard_f32(v, scale.inverse, set.bits, from, level);
    code_levels(level, sign, set, wire);
}

MC_FN void code_f64(const double *v, settings_t set, scale_t_f64 scale, draws_t from, mc_u8 *wire)
{
    const mc_any64 *u = (const mc_any64 *)v;
    mc_u32 high[64];
    mc_u8 level[64];
    mc_u64 sign;
    if (set.natural) {
        levels_natural_f64(v, scale.factor, scale.inverse, from, level);
        EACH(j, 64) high[j] = (mc_u32)(u[j] >> 32);
        sign = top_bits(high);
    } else
        sign = levels_standard_f64(v, scale.factor, scale.inverse, from, level);
    code_levels(level, sign, set, wire);
}

/* Levels with their signs from codes. */
MC_FN void signed_levels(const mc_u8 *wire, int bits, signed char *level)
{
    mc_u8 c[64];
    codes_of_planes(wire, bits, c);
    EACH(j, 64) level[j] = (signed char)(c[j] > 127 ? 128 - c[j] : c[j]);
}

/* No value of the sums' own kind is above the norm, though its rounded steps together may be. */
MC_FN void value_f32(const mc_u8 *wire, settings_t set, scale_t_f32 scale, float *v)
{
    mc_any32 *u = (mc_any32 *)v;
    float unit = scale.unit, most = set.spare ? __builtin_inff() : scale.norm;
    if (scale.norm != scale.norm) {
        EACH(j, 64) u[j] = 0x7FC00000;
    } else if (set.natural) {
        float lift = mc_f32((254 - set.top) << 23); /* levels are exponents, and 0 is zero */
        mc_u8 c[64];
        codes_of_planes(wire, set.bits, c);
        EACH(j, 64) u[j] = (mc_u32)((mc_i32)((mc_u32)c[j] << 24) >> 1) & 0xBFFFFFFF;
        EACH(j, 64) v[j] = v[j] * lift * unit;
    } else if (set.bits == 2) { /* one level, and 0 */
        mc_u64 some, sign;
        memcpy(&some, wire, 8);
        memcpy(&sign, wire + 8, 8);
        floats_of_size(mc_bits_f32(unit > most ? most : unit), some, sign, u);
    } else {
        signed char level[64];
        signed_levels(wire, set.bits, level);
        EACH(j, 64)
        {
            float x = (float)level[j] * unit;
            x = x > most ? most : x;
            v[j] = x < -most ? -most : x;
        }
    }
}

MC_FN void value_f64(const mc_u8 *wire, settings_t set, scale_t_f64 scale, double *v)
{
    mc_any64 *u = (mc_any64 *)v;
    double most = scale.norm;
    if (scale.norm != scale.norm) {
        EACH(j, 64) u[j] = 0x7FF8000000000000u;
    } else if (set.natural) {
        mc_u8 c[64];
        mc_u64 lowest = 1023 - set.top;
        codes_of_planes(wire, set.bits, c);
        EACH(j, 64) u[j] = (mc_u64)(c[j] & 128) << 56 | (c[j] & 127 ? ((c[j] & 127) + lowest) << 52 : 0);
        EACH(j, 64) v[j] *= scale.unit;
    } else {
        signed char level[64];
        signed_levels(wire, set.bits, level);
        EACH(j, 64) v[j] = (double)level[j] * scale.unit;
        EACH(j, 64) v[j] = v[j] > most ? most : v[j] < -most ? -most : v[j];
    }
}

#define CODEC dithering
#define TAIL mc_i32 bits, mc_i32 p, mc_i32 block, mc_i32 flags
#define SETTINGS settings(bits, p, block, flags, sizeof(SUM), LOCAL(SPARE))

#define KIND f32
#include "scaled.h"
#define KIND f64
#include "scaled.h"
#define KIND f16
#include "scaled.h"
#define KIND bf16
#include "scaled.h"
