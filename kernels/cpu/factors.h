/* The loops of lowrank.c for one type, REAL. */

/* A dot product in double. */
static double LOCAL(dot_wide)(const REAL *a, const REAL *b, mc_i64 n)
{
    double sum[LANES] = {0};
    mc_i64 whole = n / LANES * LANES;
    for (mc_i64 at = 0; at < whole; at += LANES)
        EACH(j, LANES) sum[j] += (double)a[at + j] * (double)b[at + j];
    EACH(j, n - whole) sum[j] += (double)a[whole + j] * (double)b[whole + j];
    for (int half = LANES / 2; half; half /= 2)
        EACH(j, half) sum[j] += sum[j + half];
    return sum[0];
}

/* WIDTH bytes, wherever they begin. */
typedef REAL LOCAL(vector) __attribute__((vector_size(WIDTH), aligned(sizeof(REAL)), may_alias));
#define PIECES (LANES * (int)sizeof(REAL) / WIDTH)
#define RANKS (PIECES > 4 ? 1 : 2)

/* A dot product from its lanes, and the products of the last values, fewer than a lane each. */
MC_FN REAL LOCAL(close)(REAL *sum, const REAL *a, const REAL *b, mc_i64 n)
{
    EACH(j, n) sum[j] += a[j] * b[j];
    for (int half = LANES / 2; half; half /= 2)
        EACH(j, half) sum[j] += sum[j + half];
    return sum[0];
}

/* Dot products of each of `rows` rows of x with each of `ranks` of right. Both are constants where this is inlined: sums are in
 * registers (AVX2 has too few, and four rows that are read at a time are worth it), and what is loaded serves several. Asks for
 * the memory of as many rows before these. */
MC_FN void LOCAL(dots)(const REAL *x, mc_i64 cols, int rows, const REAL *right, int ranks, REAL *left, mc_i64 pace)
{
    mc_i64 whole = cols / LANES * LANES, next = rows * cols * (mc_i64)sizeof *x;
    LOCAL(vector) sum[ROWS * RANKS][PIECES] = {{{0}}};
    next = next > NEXT ? next : NEXT;
    for (mc_i64 at = 0; at < whole; at += LANES) {
        UNROLLED(i, rows)
        for (int k = 0; k < LANES * (int)sizeof *x; k += 64)
            ask(x + i * cols + at, k - next);
        UNROLLED(k, PIECES)
        UNROLLED(i, rows)
        UNROLLED(t, ranks)
        sum[i * RANKS + t][k] += ((const LOCAL(vector) *)(x + i * cols + at))[k] *
                                 ((const LOCAL(vector) *)(right + t * cols + at))[k];
    }
    UNROLLED(i, rows)
    UNROLLED(t, ranks)
    left[t * pace + i] = LOCAL(close)((REAL *)sum[i * RANKS + t], x + i * cols + whole, right + t * cols + whole, cols - whole);
}

/* n values of x, rows of `cols`; left[t * pace + i] for row i. From the last row to the first: `back`, which comes next,
 * finds the first ones in a cache. */
MC_KERNEL(NAME(project))(const REAL *x, mc_i64 n, mc_i64 cols, const REAL *right, REAL *left, mc_i64 pace, mc_i64 rank)
{
    for (mc_i64 i = n / cols, rows; i > 0; i -= rows) {
        rows = i < ROWS ? 1 : ROWS;
        for (mc_i64 t = 0, ranks; t < rank; t += ranks) {
            const REAL *from = x + (i - rows) * cols, *with = right + t * cols;
            REAL *to = left + t * pace + i - rows;
            ranks = rank - t < RANKS ? 1 : RANKS;
            if (rows == ROWS && ranks == RANKS)
                LOCAL(dots)(from, cols, ROWS, with, RANKS, to, pace);
            else if (rows == ROWS)
                LOCAL(dots)(from, cols, ROWS, with, 1, to, pace);
            else if (ranks == RANKS)
                LOCAL(dots)(from, cols, 1, with, RANKS, to, pace);
            else
                LOCAL(dots)(from, cols, 1, with, 1, to, pace);
        }
    }
}

/* sum[t * pace + j] and the products of `rows` rows of x, one after the other, for `ranks` of left: both are constants. */
MC_FN void LOCAL(add_rows)(const REAL *x, mc_i64 cols, mc_i64 stride, int rows, const REAL *left, mc_i64 n, int ranks,
                           REAL *restrict sum, mc_i64 pace)
{
    mc_i64 next = rows * stride * (mc_i64)sizeof *x;
    mc_i64 whole = cols / (64 / (mc_i64)sizeof *x) * (64 / (mc_i64)sizeof *x), at = 0;
    for (; at < whole; at += 64 / (mc_i64)sizeof *x) {
        UNROLLED(i, rows) ask(x + i * stride + at, next);
        UNROLLED(k, 64 / WIDTH)
        UNROLLED(t, ranks)
        {
            LOCAL(vector) *to = (LOCAL(vector) *)(sum + t * pace + at) + k, total = *to;
            UNROLLED(i, rows) total += left[t * n + i] * ((const LOCAL(vector) *)(x + i * stride + at))[k];
            *to = total;
        }
    }
    for (; at < cols; at++)
        UNROLLED(t, ranks)
        UNROLLED(i, rows) sum[t * pace + at] += left[t * n + i] * x[i * stride + at];
}

/* Rows of `cols` values that begin every `stride`, n from the first to the last; right[t * pace + j] for column j. */
MC_KERNEL(NAME(back))(const REAL *x, mc_i64 n, mc_i64 cols, mc_i64 stride, const REAL *left, REAL *right, mc_i64 pace,
                      mc_i64 rank)
{
    mc_i64 rows = (n - cols) / stride + 1;
    EACH(t, rank) memset(right + t * pace, 0, (size_t)cols * sizeof *right);
    for (mc_i64 i = 0, some; i < rows; i += some) {
        some = rows - i < 8 ? 1 : 8;
        for (mc_i64 t = 0, ranks; t < rank; t += ranks) {
            const REAL *from = x + i * stride, *with = left + t * rows + i;
            REAL *to = right + t * pace;
            ranks = rank - t < 2 ? 1 : 2;
            if (some == 8 && ranks == 2)
                LOCAL(add_rows)(from, cols, stride, 8, with, rows, 2, to, pace);
            else if (some == 8)
                LOCAL(add_rows)(from, cols, stride, 8, with, rows, 1, to, pace);
            else
                EACH(u, ranks) LOCAL(add_rows)(from, cols, stride, 1, with + u * rows, rows, 1, to + u * pace, pace);
        }
    }
}

MC_FN void LOCAL(products)(const REAL *left, mc_i64 pace, const REAL *right, mc_i64 rank, mc_i64 cols, mc_i64 count, REAL *out)
{
    if (rank == 1)
        EACH(j, count) out[j] = left[0] * right[j];
    else
        EACH(j, count) out[j] = left[0] * right[j] + left[pace] * right[cols + j];
    for (mc_i64 t = 2; t < rank; t++)
        EACH(j, count) out[j] += left[t * pace] * right[t * cols + j];
}

/* n values of out, rows of `cols`; left[t * pace + i] for row i. Of large ones whole lines of the cache go past it. */
MC_KERNEL(NAME(expand))(const REAL *left, mc_i64 pace, const REAL *right, mc_i64 rank, mc_i64 n, mc_i64 cols, REAL *out)
{
    int large = MC_STREAMS && n * (mc_i64)sizeof *out >= STREAM_FROM;
    for (mc_i64 i = 0; i * cols < n; i++) {
        REAL *row = out + i * cols, piece[64];
        mc_i64 at = (mc_i64)(-(uintptr_t)row % 64 / sizeof *row);
        at = large && at < cols ? at : cols;
        LOCAL(products)(left + i, pace, right, rank, cols, at, row);
        for (; at + 64 <= cols; at += 64) {
            LOCAL(products)(left + i, pace, right + at, rank, cols, 64, piece);
            stream(row + at, piece, sizeof piece);
        }
        LOCAL(products)(left + i, pace, right + at, rank, cols, cols - at, row + at);
    }
    if (large)
        stream_end();
}

MC_KERNEL(NAME(orthonormalize))(REAL *left, mc_i64 n, mc_i64 rank)
{
    EACH(t, rank)
    {
        REAL *v = left + t * n, most = 0;
        double before, after;
        EACH(i, n)
        {
            REAL size = v[i] < 0 ? -v[i] : v[i];
            most = size > most ? size : most;
        }
        if (most == 0)
            continue;
        EACH(i, n) v[i] /= most;                             /* so that squares neither vanish nor overflow */
        before = LOCAL(dot_wide)(v, v, n);
        for (int twice = 0; twice < 2; twice++)
            EACH(s, t)
            {
                REAL along = (REAL)LOCAL(dot_wide)(left + s * n, v, n);
                EACH(i, n) v[i] -= along * left[s * n + i];
            }
        after = LOCAL(dot_wide)(v, v, n);
        if (after <= DEPENDENT * DEPENDENT * before)
            memset(v, 0, (size_t)n * sizeof *v);
        else
            EACH(i, n) v[i] = (REAL)(v[i] / __builtin_sqrt(after));
    }
}

#undef PIECES
#undef RANKS
#undef NAME
#undef LOCAL
#undef REAL
#undef DEPENDENT
