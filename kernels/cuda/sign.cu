/* Signs with a scale, of every kind: see sign.h for the wire, scaled.h for the loops. */
#include "../sign.h"
#include "scaled.h"

struct settings_t {
    int bits, p, block, head;
};

MC_FN settings_t settings(mc_i32 block, int scale_bytes)
{
    settings_t set = {1, 1, block, scale_bytes};
    return set;
}

MC_FN mc_u32 negative(float v) { return mc_sign_negative(mc_bits_f32(v)) >> 31; }
MC_FN mc_u32 negative(double v) { return v < 0; }
MC_FN float with_sign(float scale, mc_u32 sign) { return mc_f32(mc_bits_f32(scale) | sign << 31); }
MC_FN double with_sign(double scale, mc_u32 sign) { return mc_f64(mc_bits_f64(scale) | (mc_u64)sign << 63); }
MC_FN void read_scale(const mc_u8 *wire, float *scale) { *scale = read_norm_f32(wire, 0); }
MC_FN void read_scale(const mc_u8 *wire, double *scale) { *scale = read_norm_f64(wire, 0); }
MC_FN void write_scale(float scale, mc_u8 *wire) { write_norm_f32(scale, 0, 0, wire); }
MC_FN void write_scale(double scale, mc_u8 *wire) { write_norm_f64(scale, 0, 0, wire); }

struct sign_codec {
    typedef settings_t settings;
    template <class K> using scale = typename K::SUM;

    template <class K> static __device__ scale<K> read(const mc_u8 *wire, settings_t set)
    {
        scale<K> found;
        read_scale(wire, &found);
        return found;
    }

    template <class K> static __device__ scale<K> make(double norm, double factor, bool bad, int m, settings_t set)
    {
        return bad ? K::nan() : K::narrowed(norm / (double)m / factor);
    }

    template <class K> static __device__ void write(scale<K> scale, settings_t set, draws_t from, mc_u8 *wire)
    {
        write_scale(scale, wire);
    }

    template <class K> static __device__ mc_u32 code(typename K::SUM v, settings_t set, scale<K> scale, mc_u32 r)
    {
        return negative(v);
    }

    template <class K> static __device__ typename K::SUM value(mc_u32 code, settings_t set, scale<K> scale)
    {
        return scale != scale ? K::nan() : with_sign(scale, code);
    }
};

#define SIGN(K) SCALED_KERNELS(sign, sign_codec, K, settings(block, sizeof(K::SUM)), mc_i32 block)

FOR_KINDS(SIGN)
