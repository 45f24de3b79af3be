/* Dithering of every kind: see dithering.h for levels and wire, scaled.h for the loops. */
#include "../scales.h"
#include "scaled.h"

MC_FN mc_u32 spare_of(f32) { return SPARE_f32; }
MC_FN mc_u32 spare_of(f64) { return SPARE_f64; }
MC_FN mc_u32 spare_of(f16) { return SPARE_f16; }
MC_FN mc_u32 spare_of(bf16) { return SPARE_bf16; }

/* Scales, by the type of sums. */
template <class SUM> struct scale_of {
    typedef scale_t_f32 type;
};
template <> struct scale_of<double> {
    typedef scale_t_f64 type;
};

MC_FN scale_t_f32 read_scale(const mc_u8 *wire, settings_t set, float) { return scale_f32(read_norm_f32(wire, set.natural_norm), set); }
MC_FN scale_t_f64 read_scale(const mc_u8 *wire, settings_t set, double) { return scale_f64(read_norm_f64(wire, set.natural_norm), set); }

MC_FN scale_t_f32 make_scale(double norm, double factor, bool bad, settings_t set, float)
{
    return scale_to_code_f32(bad ? mc_f32(0x7FC00000) : mc_norm_f32(norm, set.spare), set);
}

MC_FN scale_t_f64 make_scale(double norm, double factor, bool bad, settings_t set, double)
{
    return scale_to_code_f64(bad ? mc_f64(0x7FF8000000000000u) : mc_norm_f64(norm / factor), factor, set);
}

MC_FN void write_scale(scale_t_f32 scale, settings_t set, mc_u64 draw, mc_u8 *wire) { write_norm_f32(scale.norm, set.natural_norm, draw, wire); }
MC_FN void write_scale(scale_t_f64 scale, settings_t set, mc_u64 draw, mc_u8 *wire) { write_norm_f64(scale.norm, set.natural_norm, draw, wire); }

/* The norm's random numbers come from the group beside the block's first. */
MC_FN mc_u64 norm_draw(draws_t from)
{
    mc_group_t g = mc_group_more(group_of(from, 0));
    return (mc_u64)draw_32(from, g, 0) << 32 | (from.nearest ? 0 : mc_draw(g, 1));
}

/* A value's level, its sign in bit 31. */
MC_FN mc_u32 with_sign(mc_i32 level) { return level < 0 ? (mc_u32)-level | 0x80000000u : (mc_u32)level; }

MC_FN mc_u32 level_of(float v, settings_t set, scale_t_f32 scale, mc_u32 r)
{
    float y = mc_mul_f32(mc_mul_f32(v, scale.factor), scale.inverse);
    if (!set.natural)
        return with_sign(mc_dithering_standard_f32(y, r, set.bits));
    mc_u32 below = MC_NATURAL_TOP - set.top, u = mc_bits_f32(y);
    return (mc_dithering_natural_f32(mc_f32(u & 0x7FFFFFFF), mc_f32(below << 23), r) - below) | (u & 0x80000000u);
}

MC_FN mc_u32 level_of(double v, settings_t set, scale_t_f64 scale, mc_u32 r)
{
    double y = v * scale.factor * scale.inverse;
    if (!set.natural)
        return with_sign(mc_dithering_standard_f64(y, r));
    mc_u64 u = mc_bits_f64(y);
    return mc_dithering_natural_f64(mc_f64(u & 0x7FFFFFFFFFFFFFFFu), r) | (mc_u32)(u >> 32 & 0x80000000u);
}

/* Levels times the unit; no value of the sums' own kind is above the norm, though its rounded steps together may be. */
MC_FN float level_value(mc_u32 level, mc_u32 sign, settings_t set, scale_t_f32 scale)
{
    mc_u32 e = level ? level + (127 - set.top) : 0;
    if (set.natural)
        return mc_mul_f32(mc_f32(e << 23 | sign << 31), scale.unit);
    mc_u32 u = mc_bits_f32(mc_mul_f32((float)(mc_i32)level, scale.unit)), most = mc_bits_f32(scale.norm);
    u = !set.spare && u > most ? most : u;
    return mc_f32(u | (level ? sign << 31 : 0));
}

MC_FN double level_value(mc_u32 level, mc_u32 sign, settings_t set, scale_t_f64 scale)
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
    template <class K> using scale = typename scale_of<typename K::SUM>::type;

    template <class K> static __device__ scale<K> read(const mc_u8 *wire, settings_t set)
    {
        return read_scale(wire, set, typename K::SUM());
    }

    template <class K> static __device__ scale<K> make(double norm, double factor, bool bad, int m, settings_t set)
    {
        return make_scale(norm, factor, bad, set, typename K::SUM());
    }

    template <class K> static __device__ void write(scale<K> scale, settings_t set, draws_t from, mc_u8 *wire)
    {
        write_scale(scale, set, norm_draw(from), wire);
    }

    template <class K> static __device__ mc_u32 code(typename K::SUM v, settings_t set, scale<K> scale, mc_u32 r)
    {
        mc_u32 u = level_of(v, set, scale, r), level = u & 0x7FFFFFFF;
        level = level > set.top ? set.top : level;
        return level | (level ? u >> 31 << (set.bits - 1) : 0);
    }

    template <class K> static __device__ typename K::SUM value(mc_u32 code, settings_t set, scale<K> scale)
    {
        mc_u32 sign = code >> (set.bits - 1), level = code & set.top;
        return scale.norm != scale.norm ? K::nan() : level_value(level, sign, set, scale);
    }
};

#define DITHERING(K)                                                                                                    \
    SCALED_KERNELS(dithering, dithering, K, settings(bits, p, block, flags, sizeof(K::SUM), spare_of(K())), mc_i32 bits, \
                   mc_i32 p, mc_i32 block, mc_i32 flags)

FOR_KINDS(DITHERING)
