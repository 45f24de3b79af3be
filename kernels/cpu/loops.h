/* The four loops of one codec and kind: encode, decode, add, reduce. Read once for each, after these definitions:
 *
 *   KERNEL(verb)             the kernel's name
 *   STORED, SUM, ANY         types of a stored value, of a sum, of a sum's bits
 *   BLOCK, HEAD, ONE, TWO    values a block; its wire: HEAD bytes, then ONE bits a value, then TWO bits a value
 *   PACK, UNPACK             a sum's bits to wire, and back
 *   LOAD                     STORED to a sum's bits
 *   ENCODE, DECODE           STORED to wire, and back
 *
 * A last, short block is copied into a full one with zeros behind it, so there is one way through the arithmetic. */

#define FULL (HEAD + BLOCK * (ONE + TWO) / 8)
#define PART(m, bits) ((size_t)(((m) * (bits) + 7) / 8))

/* The wire of m values from and to a full block's. */
static void KERNEL_LOCAL(shorten)(const mc_u8 *full, int m, mc_u8 *wire)
{
    memcpy(wire, full, HEAD + PART(m, ONE));
    memcpy(wire + HEAD + PART(m, ONE), full + HEAD + BLOCK * ONE / 8, PART(m, TWO));
}

static void KERNEL_LOCAL(lengthen)(const mc_u8 *wire, int m, mc_u8 *full)
{
    memset(full, 0, FULL);
    memcpy(full, wire, HEAD + PART(m, ONE));
    memcpy(full + HEAD + BLOCK * ONE / 8, wire + HEAD + PART(m, ONE), PART(m, TWO));
}

/* LOAD, UNPACK and PACK of a block of which m values are there. */
static __attribute__((noinline)) void KERNEL_LOCAL(fill)(const STORED *x, mc_i64 m, STORED *last)
{
    memset(last, 0, BLOCK * sizeof *x);
    memcpy(last, x, (size_t)m * sizeof *x);
}

MC_FN const ANY *KERNEL_LOCAL(load_some)(const STORED *x, mc_i64 m, STORED *last, SUM *room)
{
    if (m < BLOCK)
        KERNEL_LOCAL(fill)(x, m, last);
    return LOAD(m < BLOCK ? last : x, (ANY *)room);
}

MC_FN void KERNEL_LOCAL(unpack_some)(const mc_u8 *wire, mc_i64 m, ANY *u)
{
    mc_u8 full[FULL];
    if (m < BLOCK)
        KERNEL_LOCAL(lengthen)(wire, (int)m, full);
    UNPACK(m < BLOCK ? full : wire, u);
}

MC_FN void KERNEL_LOCAL(pack_some)(const ANY *u, draws_t from, mc_i64 m, mc_u8 *wire)
{
    mc_u8 full[FULL];
    PACK(u, from, m < BLOCK ? full : wire);
    if (m < BLOCK)
        KERNEL_LOCAL(shorten)(full, (int)m, wire);
}

KERNEL(encode)(const STORED *x, mc_i64 n, mc_u8 *wire, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    draws_t from = {key, first, offset, nearest};
    for (; n >= BLOCK; n -= BLOCK, x += BLOCK, wire += FULL, from.first += BLOCK) {
        ahead(x, BLOCK * sizeof *x);
        ENCODE(x, from, wire);
    }
    if (n > 0) {
        STORED last[BLOCK];
        mc_u8 full[FULL];
        KERNEL_LOCAL(fill)(x, n, last);
        ENCODE(last, from, full);
        KERNEL_LOCAL(shorten)(full, (int)n, wire);
    }
}

KERNEL(decode)(const mc_u8 *wire, mc_i64 n, STORED *out)
{
    int large = MC_STREAMS && n * (mc_i64)sizeof *out >= STREAM_FROM && (uintptr_t)out % 16 == 0;
    for (; large && n >= BLOCK; n -= BLOCK, out += BLOCK, wire += FULL) {
        STORED v[BLOCK];
        DECODE(wire, v);
        stream(out, v, sizeof v);
    }
    if (large)
        stream_end();
    for (; n >= BLOCK; n -= BLOCK, out += BLOCK, wire += FULL)
        DECODE(wire, out);
    if (n > 0) {
        STORED last[BLOCK];
        mc_u8 full[FULL];
        KERNEL_LOCAL(lengthen)(wire, (int)n, full);
        DECODE(full, last);
        memcpy(out, last, (size_t)n * sizeof *out);
    }
}

KERNEL(add)(const mc_u8 *wire, mc_i64 n, SUM *acc, SUM weight)
{
    for (; n > 0; n -= BLOCK, acc += BLOCK, wire += FULL) {
        SUM v[BLOCK];
        ahead(acc, BLOCK * sizeof *acc);
        KERNEL_LOCAL(unpack_some)(wire, n, (ANY *)v);
        if (n >= BLOCK)
            EACH(j, BLOCK) acc[j] += weight * v[j];
        else
            EACH(j, (int)n) acc[j] += weight * v[j];
    }
}

/* The sum begins with -0, to which adding the first term gives that term, whatever its sign. */
KERNEL(reduce)(const mc_u8 *const *wires, mc_i32 p, mc_i32 position, const STORED *own, mc_i64 n, SUM scale,
               mc_u8 *out, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    draws_t from = {key, first, offset, nearest};
    mc_i32 terms = p + (own != NULL);
    for (mc_i64 at = 0, skip = 0; at < n; at += BLOCK, skip += FULL, from.first += BLOCK) {
        SUM sum[BLOCK];
        EACH(j, BLOCK) sum[j] = (SUM)-0.0;
        for (mc_i32 t = 0; t < terms; t++) {
            if (own && t == position) {
                STORED last[BLOCK];
                SUM room[BLOCK];
                ahead(own + at, BLOCK * sizeof *own);
                const SUM *x = (const SUM *)KERNEL_LOCAL(load_some)(own + at, n - at, last, room);
                EACH(j, BLOCK) sum[j] += x[j];
            } else {
                SUM v[BLOCK];
                KERNEL_LOCAL(unpack_some)(wires[t - (own && t > position)] + skip, n - at, (ANY *)v);
                EACH(j, BLOCK) sum[j] += v[j];
            }
        }
        EACH(j, BLOCK) sum[j] *= scale;
        KERNEL_LOCAL(pack_some)((const ANY *)sum, from, n - at, out + skip);
    }
}

#undef FULL
#undef PART
#undef KERNEL
#undef KERNEL_LOCAL
#undef STORED
#undef SUM
#undef ANY
#undef BLOCK
#undef HEAD
#undef ONE
#undef TWO
#undef PACK
#undef UNPACK
#undef LOAD
#undef ENCODE
#undef DECODE
