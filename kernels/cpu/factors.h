/* The loops of lowrank.c for one type, REAL. */

MC_FN REAL LOCAL(dot)(const REAL *a, const REAL *b, mc_i64 n)
{
    REAL sum[LANES] = {0};
    mc_i64 whole = n / LANES * LANES;
    for (mc_i64 at = 0; at < whole; at += LANES)
        EACH(j, LANES) sum[j] += a[at + j] * b[at + j];
    EACH(j, n - whole) sum[j] += a[whole + j] * b[whole + j];
    for (int half = LANES / 2; half; half /= 2)
        EACH(j, half) sum[j] += sum[j + half];
    return sum[0];
}

/* The same in double. */
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

/* n values of x, rows of `cols`; left[t * pace + i] for row i. */
MC_KERNEL(NAME(project))(const REAL *x, mc_i64 n, mc_i64 cols, const REAL *right, REAL *left, mc_i64 pace, mc_i64 rank)
{
    for (mc_i64 i = 0; i * cols < n; i++) {
        const REAL *row = x + i * cols;
        for (mc_i64 k = 0; k < cols * (mc_i64)sizeof *x; k += 64)
            far_ahead((const char *)row + k, 64);
        EACH(t, rank) left[t * pace + i] = LOCAL(dot)(row, right + t * cols, cols);
    }
}

/* Rows of `cols` values that begin every `stride`, n from the first to the last; right[t * pace + j] for column j. */
MC_KERNEL(NAME(back))(const REAL *x, mc_i64 n, mc_i64 cols, mc_i64 stride, const REAL *left, REAL *right, mc_i64 pace,
                      mc_i64 rank)
{
    mc_i64 rows = (n - cols) / stride + 1, i = 0;
    EACH(t, rank) memset(right + t * pace, 0, (size_t)cols * sizeof *right);
    for (; i + 4 <= rows; i += 4)
        EACH(t, rank)
        {
            const REAL *a = x + i * stride, *b = a + stride, *c = b + stride, *d = c + stride, *w = left + t * rows + i;
            REAL *sum = right + t * pace;
            EACH(j, cols) sum[j] = sum[j] + w[0] * a[j] + w[1] * b[j] + w[2] * c[j] + w[3] * d[j];
        }
    for (; i < rows; i++)
        EACH(t, rank)
        {
            const REAL *a = x + i * stride, w = left[t * rows + i];
            REAL *sum = right + t * pace;
            EACH(j, cols) sum[j] += w * a[j];
        }
}

MC_FN void LOCAL(products)(const REAL *left, mc_i64 pace, const REAL *right, mc_i64 rank, mc_i64 cols, mc_i64 count, REAL *out)
{
    EACH(j, count) out[j] = left[0] * right[j];
    for (mc_i64 t = 1; t < rank; t++)
        EACH(j, count) out[j] += left[t * pace] * right[t * cols + j];
}

/* n values of out, rows of `cols`; left[t * pace + i] for row i. */
MC_KERNEL(NAME(expand))(const REAL *left, mc_i64 pace, const REAL *right, mc_i64 rank, mc_i64 n, mc_i64 cols, REAL *out)
{
    int large = MC_STREAMS && n * (mc_i64)sizeof *out >= STREAM_FROM && (uintptr_t)out % 16 == 0 && cols % 64 == 0;
    for (mc_i64 i = 0; i * cols < n; i++)
        for (mc_i64 at = 0; at < cols; at += 64) {
            REAL *place = out + i * cols + at, piece[64];
            if (cols - at < 64) {
                LOCAL(products)(left + i, pace, right + at, rank, cols, cols - at, place);
            } else {
                LOCAL(products)(left + i, pace, right + at, rank, cols, 64, piece);
                if (large)
                    stream(place, piece, sizeof piece);
                else
                    memcpy(place, piece, sizeof piece);
            }
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

#undef NAME
#undef LOCAL
#undef REAL
#undef DEPENDENT
