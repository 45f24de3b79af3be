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

/* Dot products of each of `rows` rows of x with each of `ranks` of right. Both are constants where this is inlined: sums are in
 * registers (AVX2 has too few, and four rows that are read at a time are worth it), and what is loaded serves several. */
MC_FN void LOCAL(dots)(const REAL *x, mc_i64 cols, int rows, const REAL *right, int ranks, REAL *left, mc_i64 pace)
{
    mc_i64 whole = cols / LANES * LANES, next = following(cols * sizeof *x, rows);
    LOCAL(vector) sum[ROWS * RANKS][PIECES] = {{{0}}};
    REAL(*lanes)[LANES] = (REAL(*)[LANES])sum;
    for (mc_i64 at = 0; at < whole; at += LANES) {
        UNROLLED(i, rows)
        for (int k = 0; k < LANES * (int)sizeof *x; k += 64)
            ask(x + i * cols + at, next + k);
        UNROLLED(k, PIECES)
        UNROLLED(i, rows)
        UNROLLED(t, ranks)
        sum[i * ranks + t][k] += ((const LOCAL(vector) *)(x + i * cols + at))[k] *
                                 ((const LOCAL(vector) *)(right + t * cols + at))[k];
    }
    EACH(q, rows * ranks)
    EACH(j, cols - whole) lanes[q][j] += x[q / ranks * cols + whole + j] * right[q % ranks * cols + whole + j];
    UNROLLED(h, 5) /* all of them at once: each halving waits for the one before */
    EACH(q, rows * ranks)
    EACH(j, LANES / 2 >> h) lanes[q][j] += lanes[q][j + (LANES / 2 >> h)];
    UNROLLED(q, rows * ranks) left[q % ranks * pace + q / ranks] = lanes[q][0];
}

/* n values of x, rows of `cols`; left[t * pace + i] for row i. */
MC_KERNEL(NAME(project))(const REAL *x, mc_i64 n, mc_i64 cols, const REAL *right, REAL *left, mc_i64 pace, mc_i64 rank)
{
    mc_i64 all = n / cols;
    for (mc_i64 i = 0, rows; i < all; i += rows) {
        rows = all - i < ROWS ? 1 : ROWS;
        for (mc_i64 t = 0, ranks; t < rank; t += ranks) {
            const REAL *from = x + i * cols, *with = right + t * cols;
            REAL *to = left + t * pace + i;
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
    mc_i64 next = following(stride * sizeof *x, rows);
    mc_i64 line = 64 / (mc_i64)sizeof *x, at = stride % line ? 0 : (mc_i64)(-(uintptr_t)x % 64 / sizeof *x);
    at = at < cols ? at : cols;
    EACH(j, at)
    UNROLLED(t, ranks)
    UNROLLED(i, rows) sum[t * pace + j] += left[t * n + i] * x[i * stride + j];
    for (; at + line <= cols; at += line) {
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
        some = rows - i < TOGETHER ? 1 : TOGETHER;
        for (mc_i64 t = 0, ranks; t < rank; t += ranks) {
            const REAL *from = x + i * stride, *with = left + t * rows + i;
            REAL *to = right + t * pace;
            ranks = rank - t < 2 ? 1 : 2;
            if (some == TOGETHER && ranks == 2)
                LOCAL(add_rows)(from, cols, stride, TOGETHER, with, rows, 2, to, pace);
            else if (some == TOGETHER)
                LOCAL(add_rows)(from, cols, stride, TOGETHER, with, rows, 1, to, pace);
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

/* `count` products from row i, column j on, over the ends of rows. */
MC_FN void LOCAL(span)(const REAL *left, mc_i64 pace, const REAL *right, mc_i64 rank, mc_i64 cols, mc_i64 i, mc_i64 j, mc_i64 count,
                       REAL *out)
{
    for (mc_i64 some; count > 0; count -= some, out += some, j += some) {
        i += j / cols, j %= cols;
        some = count < cols - j ? count : cols - j;
        LOCAL(products)(left + i, pace, right + j, rank, cols, some, out);
    }
}

/* n values of out, rows of `cols`; left[t * pace + i] for row i. Of large ones whole lines of the cache go past it, those too in
 * which a row ends. */
MC_KERNEL(NAME(expand))(const REAL *left, mc_i64 pace, const REAL *right, mc_i64 rank, mc_i64 n, mc_i64 cols, REAL *out)
{
    int large = MC_STREAMS && n * (mc_i64)sizeof *out >= STREAM_FROM;
    mc_i64 at = large ? (mc_i64)(-(uintptr_t)out % 64 / sizeof *out) : n, i = 0, j = at;
    LOCAL(span)(left, pace, right, rank, cols, 0, 0, at, out);
    for (REAL piece[64]; at + 64 <= n; at += 64, j += 64) {
        if (j >= cols)
            i += j / cols, j %= cols;
        if (j + 64 <= cols)
            LOCAL(products)(left + i, pace, right + j, rank, cols, 64, piece);
        else
            LOCAL(span)(left, pace, right, rank, cols, i, j, 64, piece);
        stream(out + at, piece, sizeof piece);
    }
    LOCAL(span)(left, pace, right, rank, cols, i, j, n - at, out + at);
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
