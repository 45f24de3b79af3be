/* Dithering of every kind: see dithering.h for levels and wire, scaled.h for the loops. */
#include "../scales.h"
#include "scaled.h"

MC_FN mc_u32 spare_of(f32) { return SPARE_f32; }
MC_FN mc_u32 spare_of(f64) { return SPARE_f64; }
MC_FN mc_u32 spare_of(f16) { return SPARE_f16; }
MC_FN mc_u32 spare_of(bf16) { return SPARE_bf16; }

MC_FN scale_t read_scale(const mc_u8 *wire, settings_t set, float) { return scale_f32(read_norm_f32(wire, set.natural_norm), set); }
MC_FN scale_t read_scale(const mc_u8 *wire, settings_t set, double) { return scale_f64(read_norm_f64(wire, set.natural_norm), set); }

MC_FN scale_t make_scale(double norm, double factor, bool bad, settings_t set, float)
{
    scale_t scale = scale_f32(bad ? mc_f32(0x7FC00000) : mc_norm_f32(norm, set.spare), set);
    scale.inverse = inverse(scale.norm, scale.unit, mc_dithering_step_f32(1, set.top, set.spare), set);
    return scale;
}

MC_FN scale_t make_scale(double norm, double factor, bool bad, settings_t set, double)
{
    scale_t scale = scale_f64(bad ? mc_f64(0x7FF8000000000000u) : mc_norm_f64(norm / factor), set);
    scale.factor = factor;
    scale.inverse = inverse(scale.norm * factor, scale.unit * factor, mc_dithering_step_f64(1, set.top), set);
    return scale;
}

/* The norm's random numbers come from the group beside the block's first. */
MC_FN mc_u64 norm_draw(draws_t from)
{
    mc_group_t g = mc_group_more(group_of(from, 0));
    return (mc_u64)draw_32(from, g, 0) << 32 | (from.nearest ? 0 : mc_draw(g, 1));
}

/* Levels times the unit; no value of the sums' own kind is above the norm, though its rounded steps together may be. */
MC_FN float level_value(mc_u32 level, mc_u32 sign, settings_t set, scale_t scale, float)
{
    mc_u32 e = level ? level + (127 - set.top) : 0;
    float unit = mc_narrow(scale.unit);
    if (set.natural)
        return mc_mul_f32(mc_f32(e << 23 | sign << 31), unit);
    float v = mc_mul_f32((float)(mc_i32)level, unit), most = mc_narrow(scale.norm);
    v = !set.spare && mc_wide(v) > scale.norm ? most : v;
    return sign ? mc_f32(mc_bits_f32(v) ^ (level ? 0x80000000u : 0)) : v;
}

MC_FN double level_value(mc_u32 level, mc_u32 sign, settings_t set, scale_t scale, double)
{
    mc_u64 e = level ? level + (1023 - set.top) : 0;
    if (set.natural)
        return mc_f64(e << 52 | (mc_u64)sign << 63) * scale.unit;
    double v = (double)(mc_i32)level * scale.unit;
    v = v > scale.norm ? scale.norm : v;
    return sign && level ? -v : v;
}

struct dithering {
    typedef settings_t settings;
    typedef scale_t scale;

    template <class K> static __device__ scale_t read(const mc_u8 *wire, settings_t set)
    {
        return read_scale(wire, set, typename K::SUM());
    }

    template <class K> static __device__ scale_t make(double norm, double factor, bool bad, int m, settings_t set)
    {
        return make_scale(norm, factor, bad, set, typename K::SUM());
    }

    template <class K> static __device__ void write(scale_t scale, bool bad, settings_t set, draws_t from, mc_u8 *wire)
    {
        if (sizeof(typename K::SUM) == 8)
            write_norm_f64(scale.norm, set.natural_norm, norm_draw(from), wire);
        else
            write_norm_f32(bad ? mc_f32(0x7FC00000) : mc_narrow(scale.norm), set.natural_norm, norm_draw(from), wire);
    }

    template <class K> static __device__ mc_u32 code(typename K::SUM v, settings_t set, scale_t scale, mc_u32 r)
    {
        double x = K::wide(v);
        mc_u32 level, sign;
        if (set.natural) {
            mc_u64 y = mc_bits_f64(mc_dithering_bend(mc_f64(mc_bits_f64(x) & 0x7FFFFFFFFFFFFFFFu) * scale.factor * scale.inverse));
            level = mc_dithering_natural((mc_u32)(y >> 32), (mc_u32)y, r);
            sign = (mc_u32)(mc_bits_f64(x) >> 63);
        } else {
            mc_u64 y = mc_bits_f64(x * scale.factor * scale.inverse + MC_DITHERING_SHIFT);
            level = mc_dithering_standard((mc_u32)(y >> 32), (mc_u32)y, r);
            sign = level >> 7;
            level = sign ? 256 - level : level;
        }
        level = level > set.top ? set.top : level;
        return level | (level ? sign << (set.bits - 1) : 0);
    }

    template <class K> static __device__ typename K::SUM value(mc_u32 code, settings_t set, scale_t scale)
    {
        mc_u32 sign = code >> (set.bits - 1), level = code & set.top;
        return scale.norm != scale.norm ? K::nan() : level_value(level, sign, set, scale, typename K::SUM());
    }
};

#define DITHERING(K)                                                                                                    \
    SCALED_KERNELS(dithering, dithering, K, settings(bits, p, block, flags, sizeof(K::SUM), spare_of(K())), mc_i32 bits, \
                   mc_i32 p, mc_i32 block, mc_i32 flags)

FOR_KINDS(DITHERING)
