/* The four loops of a codec whose blocks are a scale and planes of bits: encode, decode, add, reduce. Read once for
 * each kind, after these definitions:
 *
 *   CODEC, KIND                 what makes up the kernel's name, as in mc_CODEC_encode_KIND
 *   TAIL, SETTINGS              the codec's own arguments, and the settings_t {bits, p, block, head, ...} they make
 *   scale_t_f32                 a block's scale; make_f32 makes and writes it, read_f32 reads it (or _f64, by the sum)
 *   code_f32, value_f32         64 sums to planes, and back
 *
 * A block is read once for its norm and once more to be coded; sums of up to ROOM values wait for that in the first
 * cache, those of longer blocks are taken again. */

#include "../kinds.h"

#define ROOM 4096
#define STORED NAMED(STORED, KIND)
#define SUM NAMED(SUM, KIND)
#define LIMIT NAMED(LIMIT, KIND)
#define LOCAL(name) NAMED(name, KIND)
#define FOR_SUM(name) NAMED(name, NAMED(SUMS, KIND))
#define KERNEL_(codec, verb, kind) MC_KERNEL(mc_##codec##_##verb##_##kind)
#define KERNEL__(codec, verb, kind) KERNEL_(codec, verb, kind)
#define KERNEL(verb) KERNEL__(CODEC, verb, KIND)
#define ENCODE_ARGUMENTS mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest, TAIL

typedef struct {
    const mc_u8 *const *wires;
    mc_i32 p, position;
    const STORED *own;
    SUM scale;
} LOCAL(terms_t);

/* Bytes of a block's first m values, a multiple of 64 or all it has. */
MC_FN size_t LOCAL(span)(settings_t set, mc_i64 m)
{
    return (size_t)set.head + (size_t)(m / 64 * 8 * set.bits) + (size_t)((m % 64 + 7) / 8 * set.bits);
}

/* 64 values of which m are there: a short group's planes are copied into full ones. */
MC_FN void LOCAL(group)(const mc_u8 *planes, mc_i64 m, settings_t set, FOR_SUM(scale_t) scale, SUM *v)
{
    mc_u8 full[64] = {0};
    if (m < 64)
        EACH(k, set.bits) memcpy(full + 8 * k, planes + (m + 7) / 8 * k, (size_t)(m + 7) / 8);
    FOR_SUM(value)(m < 64 ? full : planes, set, scale, v);
}

/* The values at..at+m of a wire, all of one block: added to the sums, or the first of them. */
static void LOCAL(add_wire)(const mc_u8 *wire, const settings_t *of, mc_i64 at, mc_i64 m, int begin, SUM *sum)
{
    settings_t set = *of;
    const mc_u8 *block = wire + (size_t)(at / set.block) * LOCAL(span)(set, set.block);
    FOR_SUM(scale_t) scale = FOR_SUM(read)(block, set);
    for (mc_i64 i = 0; i < m; i += 64) {
        SUM v[64];
        LOCAL(group)(block + LOCAL(span)(set, at % set.block + i), m - i, set, scale, v);
        if (begin)
            copy(sum + i, v, sizeof v);
        else
            EACH(j, 64) sum[i + j] += v[j];
    }
}

static void LOCAL(add_own)(const STORED *x, mc_i64 m, int begin, SUM *sum)
{
    if (begin)
        for (mc_i64 i = 0; i < m; i++)
            sum[i] = LOCAL(widen)(x[i]);
    else
        for (mc_i64 i = 0; i < m; i++)
            sum[i] += LOCAL(widen)(x[i]);
}

/* The sums at..at+m, all of one block, with zeros up to a multiple of 64: in `room`, or where they stand. */
static const SUM *LOCAL(sums)(const LOCAL(terms_t) *t, const settings_t *set, mc_i64 at, mc_i64 m, SUM *room)
{
    mc_i32 terms = t->p + (t->own != NULL);
    if (LOCAL(IN_PLACE) && t->p == 0 && t->scale == 1 && m % 64 == 0)
        return (const SUM *)(t->own + at);
    for (mc_i32 k = 0; k < terms; k++) {
        if (t->own && k == t->position)
            LOCAL(add_own)(t->own + at, m, k == 0, room);
        else
            LOCAL(add_wire)(t->wires[k - (t->own && k > t->position)], set, at, m, k == 0, room);
    }
    if (t->scale != 1)
        for (mc_i64 i = 0; i < m; i++)
            room[i] *= t->scale;
    for (mc_i64 i = m; i % 64; i++)
        room[i] = 0;
    return room;
}

/* Takes in m sums, all of one block; where the last of them are (that is all if they fit in the room). */
static const SUM *LOCAL(measure)(const LOCAL(terms_t) *t, const settings_t *set, mc_i64 at, mc_i64 m, double factor, SUM *room,
                               tally_t *got)
{
    const SUM *v = NULL;
    memset(got, 0, sizeof *got);
    for (mc_i64 i = 0; i < m; i += ROOM) {
        mc_i64 count = m - i < ROOM ? m - i : ROOM;
        v = LOCAL(sums)(t, set, at + i, count, room);
        for (mc_i64 k = 0; k < count; k += 64)
            FOR_SUM(tally)(got, v + k, factor, set->p, LOCAL(NEEDS_TOP));
    }
    return v;
}

/* Asks for values that blocks will read after this one, while it is coded: its own time is short for memory that is far. Those
 * of the next one, or of more if blocks are short; what is much further is gone from the first cache before it is used. */
MC_FN void LOCAL(next)(const LOCAL(terms_t) *t, settings_t set, mc_i64 at)
{
    const int far = 6144, block = (set.block < ROOM ? set.block : ROOM) * (int)sizeof(STORED);
    if (!t->own)
        return;
    const char *x = (const char *)(t->own + at) + (block > far ? block : far);
    EACH(k, (int)sizeof(STORED)) __builtin_prefetch(x + 64 * k);
}

MC_FN void LOCAL(code_group)(const SUM *v, mc_i64 m, settings_t set, FOR_SUM(scale_t) scale, draws_t from, mc_u8 *wire)
{
    mc_u8 full[64];
    FOR_SUM(code)(v, set, scale, from, m < 64 ? full : wire);
    if (m < 64)
        EACH(k, set.bits) memcpy(wire + (m + 7) / 8 * k, full + 8 * k, (size_t)(m + 7) / 8);
}

/* One block of m sums to wire. */
MC_FN void LOCAL(pack)(const LOCAL(terms_t) *t, settings_t set, mc_i64 at, mc_i64 m, draws_t from, mc_u8 *wire)
{
    SUM room[ROOM];
    tally_t got;
    const SUM *v = LOCAL(measure)(t, &set, at, m, 1, room, &got);
    mc_u64 top = FOR_SUM(top)(&got);
    double factor = top < LIMIT ? mc_norm_factor(FOR_SUM(real)(top)) : 1;
    if (factor != 1)
        v = LOCAL(measure)(t, &set, at, m, factor, room, &got);
    double norm = norm_of(&got, FOR_SUM(real)(top) * factor, set.p);
    int bad = top >= LIMIT || !(norm < __builtin_inf());
    FOR_SUM(scale_t) scale = FOR_SUM(make)(norm, factor, bad, m, set, from, wire);
    if (bad || norm == 0) {
        memset(wire + set.head, 0, LOCAL(span)(set, m) - (size_t)set.head);
        return;
    }
    for (mc_i64 i = 0; i < m; i += ROOM) {
        mc_i64 count = m - i < ROOM ? m - i : ROOM;
        if (m > ROOM)
            v = LOCAL(sums)(t, &set, at + i, count, room);
        for (mc_i64 k = 0; k < count; k += 64, from.first += 64) {
            LOCAL(next)(t, set, at + i + k);
            LOCAL(code_group)(v + k, count - k, set, scale, from, wire + LOCAL(span)(set, i + k));
        }
    }
}

static void LOCAL(pack_all)(const LOCAL(terms_t) *t, settings_t set, mc_i64 n, draws_t from, mc_u8 *wire)
{
    for (mc_i64 at = 0; at < n; at += set.block, from.first += (mc_u64)set.block) {
        LOCAL(pack)(t, set, at, n - at < set.block ? n - at : set.block, from, wire);
        wire += LOCAL(span)(set, set.block);
    }
}

KERNEL(encode)(const STORED *x, mc_i64 n, mc_u8 *wire, ENCODE_ARGUMENTS)
{
    LOCAL(terms_t) terms = {NULL, 0, 0, x, 1};
    LOCAL(pack_all)(&terms, SETTINGS, n, (draws_t){key, first, offset, nearest}, wire);
}

KERNEL(reduce)(const mc_u8 *const *wires, mc_i32 count, mc_i32 position, const STORED *own, mc_i64 n, SUM scale,
               mc_u8 *out, ENCODE_ARGUMENTS)
{
    LOCAL(terms_t) terms = {wires, count, position, own, scale};
    LOCAL(pack_all)(&terms, SETTINGS, n, (draws_t){key, first, offset, nearest}, out);
}

KERNEL(decode)(const mc_u8 *wire, mc_i64 n, STORED *out, TAIL)
{
    settings_t set = SETTINGS;
    int large = MC_STREAMS && n * (mc_i64)sizeof *out >= STREAM_FROM && (uintptr_t)out % 16 == 0;
    for (; n > 0; n -= set.block, out += set.block, wire += LOCAL(span)(set, set.block)) {
        mc_i64 m = n < set.block ? n : set.block;
        FOR_SUM(scale_t) scale = FOR_SUM(read)(wire, set);
        for (mc_i64 i = 0; i < m; i += 64) {
            SUM v[64];
            STORED narrowed[64];
            LOCAL(group)(wire + LOCAL(span)(set, i), m - i, set, scale, v);
            const STORED *x = LOCAL(IN_PLACE) ? (const STORED *)v : narrowed;
            if (!LOCAL(IN_PLACE))
                EACH(j, 64) narrowed[j] = LOCAL(narrow)(v[j]);
            if (m - i < 64)
                memcpy(out + i, x, (size_t)(m - i) * sizeof *x);
            else if (large)
                stream(out + i, x, sizeof narrowed);
            else
                copy(out + i, x, sizeof narrowed);
        }
    }
    if (large)
        stream_end();
}

KERNEL(add)(const mc_u8 *wire, mc_i64 n, SUM *acc, SUM weight, TAIL)
{
    settings_t set = SETTINGS;
    for (; n > 0; n -= set.block, acc += set.block, wire += LOCAL(span)(set, set.block)) {
        mc_i64 m = n < set.block ? n : set.block;
        FOR_SUM(scale_t) scale = FOR_SUM(read)(wire, set);
        for (mc_i64 i = 0; i < m; i += 64) {
            SUM v[64];
            ahead(acc + i, 64 * sizeof *acc);
            LOCAL(group)(wire + LOCAL(span)(set, i), m - i, set, scale, v);
            if (m - i >= 64)
                EACH(j, 64) acc[i + j] += weight * v[j];
            else
                EACH(j, (int)(m - i)) acc[i + j] += weight * v[j];
        }
    }
}

#undef KIND
#undef ROOM
#undef STORED
#undef SUM
#undef LIMIT
#undef LOCAL
#undef FOR_SUM
#undef KERNEL_
#undef KERNEL__
#undef KERNEL
#undef ENCODE_ARGUMENTS
