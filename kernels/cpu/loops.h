/* The four loops of one codec and kind: encode, decode, add, reduce. Read once for each, after these definitions:
 *
 *   KERNEL(verb)             the kernel's name
 *   STORED, SUM, WORD        types of a stored value, of a sum, of a sum's bits and random numbers
 *   BLOCK, HEAD, ONE, TWO    values a block; its wire: HEAD bytes, then ONE bits a value, then TWO bits a value
 *   DRAW, LOAD, DECODE       random numbers of a block; STORED to WORDs; wire to STORED
 *   PACK, UNPACK             WORDs to wire; wire to WORDs
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

/* LOAD, UNPACK and PACK of a block of which m values are there; the others are 0. */
MC_FN void KERNEL_LOCAL(load_some)(const STORED *x, mc_i64 m, WORD *u)
{
    STORED last[BLOCK] = {0};
    if (m < BLOCK)
        x = memcpy(last, x, (size_t)m * sizeof *x);
    LOAD(x, u);
}

MC_FN void KERNEL_LOCAL(unpack_some)(const mc_u8 *wire, mc_i64 m, WORD *u)
{
    mc_u8 full[FULL];
    if (m < BLOCK) {
        KERNEL_LOCAL(lengthen)(wire, (int)m, full);
        wire = full;
    }
    UNPACK(wire, u);
}

MC_FN void KERNEL_LOCAL(pack_some)(const WORD *u, const WORD *r, mc_i64 m, mc_u8 *wire)
{
    if (m >= BLOCK) {
        PACK(u, r, wire);
    } else {
        mc_u8 full[FULL];
        PACK(u, r, full);
        KERNEL_LOCAL(shorten)(full, (int)m, wire);
    }
}

KERNEL(encode)(const STORED *x, mc_i64 n, mc_u8 *wire, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    for (; n > 0; n -= BLOCK, x += BLOCK, first += BLOCK, wire += FULL) {
        WORD u[BLOCK], r[BLOCK];
        DRAW(r, BLOCK, key, first, offset, nearest);
        KERNEL_LOCAL(load_some)(x, n, u);
        KERNEL_LOCAL(pack_some)(u, r, n, wire);
    }
}

KERNEL(decode)(const mc_u8 *wire, mc_i64 n, STORED *out)
{
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
        WORD u[BLOCK];
        KERNEL_LOCAL(unpack_some)(wire, n, u);
        memcpy(v, u, sizeof u);
        if (n >= BLOCK)
            EACH(j, BLOCK) acc[j] += weight * v[j];
        else
            EACH(j, (int)n) acc[j] += weight * v[j];
    }
}

KERNEL(reduce)(const mc_u8 *const *wires, mc_i32 p, mc_i32 position, const STORED *own, mc_i64 n, SUM scale,
               mc_u8 *out, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    mc_i32 terms = p + (own != NULL);
    for (mc_i64 at = 0, skip = 0; at < n && terms > 0; at += BLOCK, skip += FULL) {
        SUM sum[BLOCK], v[BLOCK];
        WORD u[BLOCK], r[BLOCK];
        for (mc_i32 t = 0; t < terms; t++) {
            if (own && t == position)
                KERNEL_LOCAL(load_some)(own + at, n - at, u);
            else
                KERNEL_LOCAL(unpack_some)(wires[t - (own && t > position)] + skip, n - at, u);
            memcpy(t == 0 ? sum : v, u, sizeof u);
            if (t == 0)
                continue;
            EACH(j, BLOCK) sum[j] += v[j];
        }
        EACH(j, BLOCK) sum[j] *= scale;
        memcpy(u, sum, sizeof u);
        DRAW(r, BLOCK, key, first + (mc_u64)at, offset, nearest);
        KERNEL_LOCAL(pack_some)(u, r, n - at, out + skip);
    }
}

#undef FULL
#undef PART
#undef KERNEL
#undef KERNEL_LOCAL
#undef STORED
#undef SUM
#undef WORD
#undef BLOCK
#undef HEAD
#undef ONE
#undef TWO
#undef DRAW
#undef PACK
#undef UNPACK
#undef LOAD
#undef DECODE
