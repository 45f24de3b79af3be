/* Signs with a scale, of every kind: see sign.h for the wire, scaled.h for the loops. */
#include "../sign.h"
#include "level.h"
#include "norms.h"
#include "planes.h"

typedef struct {
    int bits, p, block, head;
} settings_t;

typedef float scale_t_f32;
typedef double scale_t_f64;

MC_FN settings_t settings(mc_i32 block, int scale_bytes)
{
    settings_t set = {1, 1, block, scale_bytes};
    return set;
}

MC_FN scale_t_f32 read_f32(const mc_u8 *wire, settings_t set) { return (void)set, read_norm_f32(wire, 0); }
MC_FN scale_t_f64 read_f64(const mc_u8 *wire, settings_t set) { return (void)set, read_norm_f64(wire, 0); }

MC_FN scale_t_f32 make_f32(double norm, double factor, int bad, mc_i64 m, settings_t set, draws_t from, mc_u8 *wire)
{
    float scale = bad ? mc_f32(0x7FC00000) : (float)(norm / (double)m);
    (void)factor, (void)set, (void)from;
    write_norm_f32(scale, 0, 0, wire);
    return scale;
}

MC_FN scale_t_f64 make_f64(double norm, double factor, int bad, mc_i64 m, settings_t set, draws_t from, mc_u8 *wire)
{
    double scale = bad ? mc_f64(0x7FF8000000000000u) : norm / (double)m / factor;
    (void)set, (void)from;
    write_norm_f64(scale, 0, 0, wire);
    return scale;
}

MC_FN void code_f32(const float *v, settings_t set, scale_t_f32 scale, draws_t from, mc_u8 *wire)
{
    const mc_any32 *u = (const mc_any32 *)v;
    mc_u32 negative[64];
    mc_u64 signs;
    (void)set, (void)scale, (void)from;
    EACH(j, 64) negative[j] = mc_sign_negative(u[j]);
    signs = top_bits(negative);
    memcpy(wire, &signs, 8);
}

MC_FN void code_f64(const double *v, settings_t set, scale_t_f64 scale, draws_t from, mc_u8 *wire)
{
    mc_u32 negative[64];
    mc_u64 signs;
    (void)set, (void)scale, (void)from;
    EACH(j, 64) negative[j] = v[j] < 0 ? 0x80000000u : 0;
    signs = top_bits(negative);
    memcpy(wire, &signs, 8);
}

MC_FN void value_f32(const mc_u8 *wire, settings_t set, scale_t_f32 scale, float *v)
{
    mc_any32 *u = (mc_any32 *)v;
    mc_u32 size = scale == scale ? mc_bits_f32(scale) : 0x7FC00000, keep = scale == scale ? 0x80000000u : 0;
    mc_u8 sign[64];
    codes_of_planes(wire, set.bits, sign);
    EACH(j, 64) u[j] = size | ((mc_u32)sign[j] << 24 & keep);
}

MC_FN void value_f64(const mc_u8 *wire, settings_t set, scale_t_f64 scale, double *v)
{
    mc_any64 *u = (mc_any64 *)v;
    mc_u64 size = scale == scale ? mc_bits_f64(scale) : 0x7FF8000000000000u, keep = scale == scale ? ~0ull : 0;
    mc_u8 sign[64];
    codes_of_planes(wire, set.bits, sign);
    EACH(j, 64) u[j] = size | ((mc_u64)sign[j] << 56 & keep);
}

#define CODEC sign
#define TAIL mc_i32 block
#define SETTINGS settings(block, sizeof(SUM))

#define KIND f32
#include "scaled.h"
#define KIND f64
#include "scaled.h"
#define KIND f16
#include "scaled.h"
#define KIND bf16
#include "scaled.h"
