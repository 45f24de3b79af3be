/* Random numbers by counting: 32 bits for element i of the stream `key`, a function of (key, i) and nothing else.
 *
 * Elements go in groups of 64. A group costs one 64-bit mix (mc_group), an element two 32-bit multiplications
 * (mc_draw). For any lane, the draw is a bijection of `a` and of `b`, so it is exactly uniform if they are.
 * `key2` makes two keys differ by more than where they start, so no stream is a shifted copy of another. */
#ifndef MC_RNG_H
#define MC_RNG_H
#include "mc.h"

#define MC_GROUP 64

typedef struct { mc_u32 a, b; } mc_group_t;

MC_FN mc_group_t mc_group(mc_u64 key, mc_u64 group)
{
    mc_u64 key2 = key * 0xD1342543DE82EF95u + 0xA0761D6478BD642Fu;
    mc_u64 h = group * 0x9E3779B97F4A7C15u ^ key;
    mc_group_t g;
    key2 = key2 << 32 | key2 >> 32;
    h ^= h >> 32;
    h *= 0xBF58476D1CE4E5B9u;
    h ^= h >> 29;
    h += key2;
    h *= 0x94D049BB133111EBu;
    h ^= h >> 32;
    g.a = (mc_u32)h;
    g.b = (mc_u32)(h >> 32);
    return g;
}

/* The draw of one lane, 0..63, of a group. */
MC_FN mc_u32 mc_draw(mc_group_t g, mc_u32 lane)
{
    mc_u32 x = g.a + lane * 0x9E3779B9u;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x += g.b;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    x ^= x >> 16;
    return x;
}

/* The group to draw from where an element needs 32 bits more. */
MC_FN mc_group_t mc_group_more(mc_group_t g)
{
    mc_group_t more;
    more.a = g.b ^ 0x5851F42Du;
    more.b = g.a;
    return more;
}

#endif
