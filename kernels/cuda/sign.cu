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
MC_FN float with_sign(double scale, mc_u32 sign, float) { return mc_f32(mc_bits_f32(mc_narrow(scale)) | sign << 31); }
MC_FN double with_sign(double scale, mc_u32 sign, double) { return mc_f64(mc_bits_f64(scale) | (mc_u64)sign << 63); }

struct sign_codec {
    typedef settings_t settings;
    typedef double scale;

    template <class K> static __device__ double read(const mc_u8 *wire, settings_t set)
    {
        return sizeof(typename K::SUM) == 8 ? read_norm_f64(wire, 0) : mc_wide(read_norm_f32(wire, 0));
    }

    template <class K> static __device__ double make(double norm, double factor, bool bad, int m, settings_t set)
    {
        return norm / (double)m / factor;
    }

    template <class K> static __device__ void write(double scale, bool bad, settings_t set, draws_t from, mc_u8 *wire)
    {
        if (sizeof(typename K::SUM) == 8)
            write_norm_f64(bad ? mc_f64(0x7FF8000000000000u) : scale, 0, 0, wire);
        else
            write_norm_f32(bad ? mc_f32(0x7FC00000) : mc_narrow(scale), 0, 0, wire);
    }

    template <class K> static __device__ mc_u32 code(typename K::SUM v, settings_t set, double scale, mc_u32 r)
    {
        return negative(v);
    }

    template <class K> static __device__ typename K::SUM value(mc_u32 code, settings_t set, double scale)
    {
        return scale != scale ? K::nan() : with_sign(scale, code, typename K::SUM());
    }
};

#define SIGN(K) SCALED_KERNELS(sign, sign_codec, K, settings(block, sizeof(K::SUM)), mc_i32 block)

FOR_KINDS(SIGN)
