/* The four loops of one codec and kind: encode, decode, add, reduce. Read once for each, after these definitions:
 *
 *   KERNEL(verb)             the kernel's name
 *   STORED, SUM, DRAWN       types of a stored value, of a sum, of a random number
 *   BLOCK, HEAD, ONE, TWO    values a block; its wire: HEAD bytes, then ONE bits a value, then TWO bits a value
 *   DRAW, PACK, UNPACK       random numbers of a block; SUMs to wire; wire to SUMs
 *   WIDEN(x, v), DECODE      a pointer to a block of STORED as SUMs (v is room for them); wire to STORED
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

KERNEL(encode)(const STORED *x, mc_i64 n, mc_u8 *wire, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    SUM room[BLOCK];
    DRAWN r[BLOCK];
    STORED last[BLOCK] = {0};
    mc_u8 full[FULL];
    for (; n >= BLOCK; n -= BLOCK, x += BLOCK, first += BLOCK, wire += FULL) {
        DRAW(r, BLOCK, key, first, offset, nearest);
        PACK(WIDEN(x, room), r, wire);
    }
    if (n <= 0)
        return;
    memcpy(last, x, (size_t)n * sizeof *x);
    DRAW(r, BLOCK, key, first, offset, nearest);
    PACK(WIDEN(last, room), r, full);
    KERNEL_LOCAL(shorten)(full, (int)n, wire);
}

KERNEL(decode)(const mc_u8 *wire, mc_i64 n, STORED *out)
{
    STORED last[BLOCK];
    mc_u8 full[FULL];
    for (; n >= BLOCK; n -= BLOCK, out += BLOCK, wire += FULL)
        DECODE(wire, out);
    if (n <= 0)
        return;
    KERNEL_LOCAL(lengthen)(wire, (int)n, full);
    DECODE(full, last);
    memcpy(out, last, (size_t)n * sizeof *out);
}

KERNEL(add)(const mc_u8 *wire, mc_i64 n, SUM *acc, SUM weight)
{
    SUM v[BLOCK];
    mc_u8 full[FULL];
    for (; n >= BLOCK; n -= BLOCK, acc += BLOCK, wire += FULL) {
        UNPACK(wire, v);
        EACH(j, BLOCK) acc[j] += weight * v[j];
    }
    if (n <= 0)
        return;
    KERNEL_LOCAL(lengthen)(wire, (int)n, full);
    UNPACK(full, v);
    EACH(j, (int)n) acc[j] += weight * v[j];
}

/* One more term of a block's sum; the first is taken as it is. */
MC_FN void KERNEL_LOCAL(term)(SUM *sum, const SUM *v, int count)
{
    if (count == 0)
        memcpy(sum, v, BLOCK * sizeof *v);
    else
        EACH(j, BLOCK) sum[j] += v[j];
}

KERNEL(reduce)(const mc_u8 *const *wires, mc_i32 p, mc_i32 position, const STORED *own, mc_i64 n, SUM scale,
               mc_u8 *out, mc_u64 key, mc_u64 first, mc_u32 offset, mc_i32 nearest)
{
    for (mc_i64 at = 0, skip = 0; at < n; at += BLOCK, skip += FULL) {
        int m = n - at < BLOCK ? (int)(n - at) : BLOCK, count = 0;
        SUM v[BLOCK], sum[BLOCK] = {0};
        DRAWN r[BLOCK];
        STORED last[BLOCK] = {0};
        mc_u8 full[FULL];
        for (mc_i32 k = 0; k <= p; k++) {
            if (k == position && own) {
                const STORED *x = own + at;
                if (m < BLOCK)
                    x = memcpy(last, x, (size_t)m * sizeof *x);
                KERNEL_LOCAL(term)(sum, WIDEN(x, v), count++);
            }
            if (k < p) {
                const mc_u8 *wire = wires[k] + skip;
                if (m < BLOCK)
                    KERNEL_LOCAL(lengthen)(wire, m, full);
                UNPACK(m < BLOCK ? full : wire, v);
                KERNEL_LOCAL(term)(sum, v, count++);
            }
        }
        EACH(j, BLOCK) sum[j] *= scale;
        DRAW(r, BLOCK, key, first + (mc_u64)at, offset, nearest);
        PACK(sum, r, m < BLOCK ? full : out + skip);
        if (m < BLOCK)
            KERNEL_LOCAL(shorten)(full, m, out + skip);
    }
}

#undef FULL
#undef PART
#undef KERNEL
#undef KERNEL_LOCAL
#undef STORED
#undef SUM
#undef DRAWN
#undef BLOCK
#undef HEAD
#undef ONE
#undef TWO
#undef DRAW
#undef PACK
#undef UNPACK
#undef WIDEN
#undef DECODE
