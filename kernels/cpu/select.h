/* The loops of the sparse codecs for one kind: select, scatter, accumulate. Read once for each, after these definitions:
 *
 *   NAME(codec, verb), LOCAL(name)   names of kernels and of functions of this file
 *   STORED, SUM, UINT                types of a stored value, of a sum, of a stored value's bits
 *   INFINITE, NOT_A_NUMBER           bits of Inf and of the NaN that is written
 *   WIDE, NARROW                     STORED to SUM and back
 *
 * Blocks of `block` values, n in all. A block's k values begin at values + b * pace, what follows them at tail + b * stride. */
#define MAGNITUDE(u) ((UINT)((u) & (UINT)((UINT)~(UINT)0 >> 1)))

static mc_i64 LOCAL(count)(const UINT *u, mc_i64 n, UINT least)
{
    mc_i64 total = 0;
    for (mc_i64 at = 0; at < n; at += 4096) {
        mc_i64 end = n - at < 4096 ? n : at + 4096;
        UINT some = 0;                                       /* as narrow as the values: more of them in a vector */
        for (mc_i64 j = at; j < end; j++)
            some = (UINT)(some + (MAGNITUDE(u[j]) >= least));
        total += (mc_i64)some;
    }
    return total;
}

/* A magnitude t, as small as it can be, with at least k of n values >= t: bit after bit. Fewer than k are larger than it,
 * or it is exactly k that are not smaller. */
static UINT LOCAL(kth)(const UINT *u, mc_i64 n, mc_i64 k)
{
    UINT t = 0;
    for (int bit = 8 * (int)sizeof(UINT) - 2; bit >= 0; bit--) {
        UINT higher = (UINT)(t | (UINT)1 << bit);
        mc_i64 found = LOCAL(count)(u, n, higher);
        if (found >= k)
            t = higher;
        if (found == k)
            break;
    }
    return t;
}

/* Bit j: whether |u[j]| >= least; of 64 values or, at the end, of m. */
MC_FN mc_u64 LOCAL(large)(const UINT *u, mc_i64 m, UINT least)
{
    mc_u8 flag[64];
    if (m < 64)
        memset(flag, 0, 64);
    if (m < 64)
        EACH(j, m) flag[j] = MAGNITUDE(u[j]) >= least;
    else
        EACH(j, 64) flag[j] = MAGNITUDE(u[j]) >= least;
    return bytes_equal(flag, 1);
}

/* The indices of values >= least, in order; no more than `most` of them and those of 64 values. */
static mc_i64 LOCAL(find)(const UINT *u, mc_i64 m, UINT least, mc_i64 most, mc_u16 *index)
{
    mc_i64 found = 0;
    for (mc_i64 at = 0; at < m && found <= most; at += 64) {
        far_ahead(u + at, 64 * sizeof *u);
        found = append(LOCAL(large)(u + at, m - at, least), at, index, found);
    }
    return found;
}

/* Indices that include those of the k largest; all their values are >= *t, and no more than k - 1 are > *t, unless they
 * are k. First by way of a guess: few values are not smaller than one of a sample, and the kth of those is the kth of all. */
static mc_i64 LOCAL(candidates)(const UINT *u, mc_i64 m, mc_i64 k, mc_u16 *index, UINT *t)
{
    UINT some[CANDIDATES + 64], least;
    mc_i64 rank = k * SAMPLE / m, step = m / SAMPLE, found = 0;
    rank += rank / 4 + 8;
    if (m >= 4 * SAMPLE && rank * step <= CANDIDATES / 2) {
        EACH(i, SAMPLE) some[i] = u[i * step];
        least = LOCAL(kth)(some, SAMPLE, rank);
        found = LOCAL(find)(u, m, least, CANDIDATES, index);
        if (k <= found && found <= CANDIDATES) {
            EACH(i, found) some[i] = u[index[i]];
            *t = LOCAL(kth)(some, found, k);
            *t = *t > least ? *t : least;
            return found;
        }
    }
    *t = LOCAL(kth)(u, m, k);
    return LOCAL(find)(u, m, *t, m, index);
}

/* The indices of the k largest magnitudes, in order. */
static void LOCAL(largest)(const UINT *u, mc_i64 m, mc_i64 k, mc_u16 *index, int *mark)
{
    UINT t;
    mc_i64 found = LOCAL(candidates)(u, m, k, index, &t), ties = k, kept = 0;
    EACH(i, found) ties -= MAGNITUDE(u[index[i]]) > t;
    EACH(i, found)
    {
        UINT v = MAGNITUDE(u[index[i]]);
        index[kept] = index[i];
        kept += v > t || (v == t && ties > 0);
        ties -= v == t;
    }
    *mark = t >= INFINITE && LOCAL(count)(u, m, INFINITE) > k;
}

MC_FN void LOCAL(gather)(const STORED *x, const mc_u16 *index, mc_i64 k, mc_u8 *values)
{
    EACH(i, k) memcpy(values + i * (mc_i64)sizeof *x, x + index[i], sizeof *x);
}

MC_KERNEL(NAME(topk, select))(const STORED *x, mc_i64 n, mc_i64 block, mc_i64 k, mc_u8 *values, mc_i64 pace,
                              mc_u8 *tail, mc_i64 stride, mc_u64 key, mc_u64 first)
{
    mc_i64 used = indices_size(block, k);
    (void)key, (void)first;
    for (; n > 0; n -= block, x += block, values += pace, tail += stride) {
        mc_u16 index[ROOM];
        int mark;
        LOCAL(largest)((const UINT *)x, block, k, index, &mark);
        LOCAL(gather)(x, index, k, values);
        pack_indices(index, k, mc_topk_width(block), tail);
        tail[used] = (mc_u8)mark;
    }
}

/* The largest magnitude among x[from] to x[end] and the same places of the other blocks. */
MC_FN UINT LOCAL(largest_of)(const STORED *x, mc_i64 apart, mc_i64 from, mc_i64 end, int places)
{
    const UINT *u = (const UINT *)x;
    UINT most[64] = {0}, top = 0;
    for (; from + 64 <= end; from += 64)
        UNROLLED(p, places)
        EACH(l, 64)
        {
            UINT v = MAGNITUDE(u[p * apart + from + l]);
            most[l] = v > most[l] ? v : most[l];
        }
    for (; from < end; from++)
        EACH(p, places) top = MAGNITUDE(u[p * apart + from]) > top ? MAGNITUDE(u[p * apart + from]) : top;
    EACH(i, 64) top = most[i] > top ? most[i] : top;
    return top;
}

/* `places` blocks, which is a constant, at once; each `apart` blocks behind the one before. What is drawn of READ values is taken
 * while they are in the caches; all of them but the first are read by whole lines. */
MC_FN void LOCAL(draw_blocks)(const STORED *x, mc_i64 apart, mc_i64 block, mc_i64 k, mc_u8 *values, mc_i64 pace, mc_u8 *tail,
                              mc_i64 stride, mc_u64 key, mc_u64 first, int places)
{
    mc_u64 word[PLACES];
    mc_u16 index[PLACES][ROOM];
    mc_i64 end = (mc_i64)(-(uintptr_t)x % 64 / sizeof *x), taken[PLACES] = {0};
    UINT top = 0;
    EACH(p, places)
    {
        word[p] = mc_randk_key(key, first + (mc_u64)(p * apart));
        draw(word[p], block, k, index[p], x + p * apart * block);
    }
    for (mc_i64 from = 0; from < block; from = end, end += READ) {
        UINT most;
        end = end < block ? end : block;
        most = LOCAL(largest_of)(x, apart * block, from, end, places);
        top = most > top ? most : top;
        UNROLLED(p, places)
        for (; taken[p] < k && index[p][taken[p]] < end; taken[p]++)
            memcpy(values + p * apart * pace + taken[p] * (mc_i64)sizeof *x, x + p * apart * block + index[p][taken[p]],
                   sizeof *x);
    }
    EACH(p, places)
    {
        if (top >= INFINITE && LOCAL(count)((const UINT *)x + p * apart * block, block, INFINITE))
            word[p] |= MC_RANDK_MARK;
        memcpy(tail + p * apart * stride, word + p, 8);
    }
}

MC_KERNEL(NAME(randk, select))(const STORED *x, mc_i64 n, mc_i64 block, mc_i64 k, mc_u8 *values, mc_i64 pace,
                               mc_u8 *tail, mc_i64 stride, mc_u64 key, mc_u64 first)
{
    mc_i64 all = n / block, apart = all / PLACES;
    EACH(b, apart)
    LOCAL(draw_blocks)(x + b * block, apart, block, k, values + b * pace, pace, tail + b * stride, stride, key,
                       first + (mc_u64)b, PLACES);
    for (mc_i64 b = PLACES * apart; b < all; b++)
        LOCAL(draw_blocks)(x + b * block, 0, block, k, values + b * pace, pace, tail + b * stride, stride, key,
                           first + (mc_u64)b, 1);
}

/* Writes those of the k values that belong to out, which begins at `from`; returns how many are done. Or zeros in their
 * places. */
MC_FN mc_i64 LOCAL(place)(const mc_u8 *values, const mc_u16 *index, mc_i64 k, mc_i64 from, mc_i64 end, SUM scale,
                          STORED *out, int random)
{
    mc_i64 i = 0;
    for (; i < k && index[i] < end; i++) {
        STORED v = 0;
        if (values)
            memcpy(&v, values + i * (mc_i64)sizeof v, sizeof v);
        out[index[i] - from] = random ? NARROW(WIDE(v) * scale) : v;
    }
    return i;
}

/* The block by stream(), piece by piece, of zeros: past the caches with its values, else before them. All but the first and
 * the last are whole lines of the cache, of which zeros past it cost some processors a fraction of what other bytes do. */
MC_FN void LOCAL(stream_block)(const mc_u8 *values, const mc_u16 *index, mc_i64 k, mc_i64 block, SUM scale, STORED *out,
                               int random)
{
    STORED piece[PIECE] = {0};
    mc_i64 head = (mc_i64)(-(uintptr_t)out % 64 / sizeof *out);
    for (mc_i64 from = 0, end = head, i = 0; from < block; from = end, end += PIECE) {
        mc_i64 done;
        end = end < block ? end : block;
        if (mc_through_caches)
            stream(out + from, piece, (int)((end - from) * (mc_i64)sizeof *out));
        done = LOCAL(place)(values + i * (mc_i64)sizeof *out, index + i, k - i, from, end, scale,
                            mc_through_caches ? out + from : piece, random);
        if (!mc_through_caches) {
            stream(out + from, piece, (int)((end - from) * (mc_i64)sizeof *out));
            LOCAL(place)(NULL, index + i, done, from, end, scale, piece, 0);
        }
        i += done;
    }
}

/* out = the blocks; returns BAD_WIRE, with some of out written, if the bytes are no wire. */
MC_FN mc_i32 LOCAL(scatter)(const mc_u8 *values, mc_i64 pace, const mc_u8 *tail, mc_i64 stride, mc_i64 n, mc_i64 block,
                            mc_i64 k, STORED *out, int random)
{
    SUM scale = (SUM)block / (SUM)k;
    UINT nan = NOT_A_NUMBER;
    int large = MC_STREAMS && n * (mc_i64)sizeof *out >= STREAM_FROM && (uintptr_t)out % 16 == 0 && block % PIECE == 0;
    for (; n > 0; n -= block, out += block, values += pace, tail += stride) {
        mc_u16 index[ROOM];
        int mark;
        if (!(random ? read_randk : read_topk)(tail, block, k, index, &mark, mc_through_caches ? out : NULL))
            return BAD_WIRE;
        if (mark) {
            EACH(j, block) memcpy(out + j, &nan, sizeof nan);
        } else if (large) {
            LOCAL(stream_block)(values, index, k, block, scale, out, random);
        } else {
            memset(out, 0, (size_t)block * sizeof *out);
            LOCAL(place)(values, index, k, 0, block, scale, out, random);
        }
    }
    stream_end();
    return 0;
}

/* acc += weight * the blocks, at the indices alone. */
MC_FN mc_i32 LOCAL(accumulate)(const mc_u8 *values, mc_i64 pace, const mc_u8 *tail, mc_i64 stride, mc_i64 n, mc_i64 block,
                               mc_i64 k, SUM *acc, SUM weight, int random)
{
    SUM scale = (SUM)block / (SUM)k;
    for (; n > 0; n -= block, acc += block, values += pace, tail += stride) {
        mc_u16 index[ROOM];
        int mark;
        if (!(random ? read_randk : read_topk)(tail, block, k, index, &mark, NULL))
            return BAD_WIRE;
        EACH(i, mark ? 0 : k)
        {
            STORED v;
            memcpy(&v, values + i * (mc_i64)sizeof v, sizeof v);
            acc[index[i]] += weight * (random ? WIDE(v) * scale : WIDE(v));
        }
        EACH(j, mark ? block : 0) acc[j] = (SUM)__builtin_nanf("");
    }
    return 0;
}

#define DECODERS(codec, random)                                                                                          \
    MC_STATUS_KERNEL(NAME(codec, scatter))(const mc_u8 *values, mc_i64 pace, const mc_u8 *tail, mc_i64 stride, mc_i64 n, \
                                           mc_i64 block, mc_i64 k, STORED *out)                                          \
    {                                                                                                                    \
        return LOCAL(scatter)(values, pace, tail, stride, n, block, k, out, random);                                     \
    }                                                                                                                    \
    MC_STATUS_KERNEL(NAME(codec, accumulate))(const mc_u8 *values, mc_i64 pace, const mc_u8 *tail, mc_i64 stride,        \
                                              mc_i64 n, mc_i64 block, mc_i64 k, SUM *acc, SUM weight)                    \
    {                                                                                                                    \
        return LOCAL(accumulate)(values, pace, tail, stride, n, block, k, acc, weight, random);                          \
    }
DECODERS(topk, 0)
DECODERS(randk, 1)

#undef DECODERS
#undef MAGNITUDE
#undef NAME
#undef LOCAL
#undef STORED
#undef SUM
#undef UINT
#undef INFINITE
#undef NOT_A_NUMBER
#undef WIDE
#undef NARROW
