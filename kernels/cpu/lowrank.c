/* A matrix as left^T right: left has `rank` rows, one value for each row of the matrix; right one for each column.
 *
 * Every sum has an order of its own that depends on nothing but the lengths: the same bits at every level, on any
 * number of threads, on every rank. BLAS promises none of that, and is no faster here, where memory is the limit.
 *
 *   project          left = matrix right^T: dot products, in 32 lanes, then halved five times
 *   back             right = left matrix: rows of the matrix, one after the other
 *   expand           out = left^T right: products, one after the other
 *   orthonormalize   the rows of left, in place, by Gram-Schmidt, twice; a row that depends on those before it becomes 0
 *
 * A NaN or Inf in the matrix makes left NaN, hence all of right and of the product. */
#include "level.h"
#include "simd.h"

#define EACH(j, count) for (mc_i64 j = 0; j < (count); j++)
#define LANES 32

/* How many rows are read together: by project, and by back. */
#if MC_LEVEL == 4
#define WIDTH 64
#define ROWS (12 / PIECES)
#define TOGETHER 6
#elif MC_LEVEL == 3
#define WIDTH 32
#define ROWS 4
#define TOGETHER 8
#else
#define WIDTH 16
#define ROWS 1
#define TOGETHER 8
#endif

/* How far ahead memory is asked for where rows are read together: further along the same rows, or, of short ones, in those after
 * them. */
MC_FN mc_i64 following(mc_i64 nbytes, int rows) { return nbytes < 8192 ? nbytes * rows : 1024; }

/* Asks for the memory that will be read after these bytes. Zen 3, the processor that AVX2 was measured on, reads several rows
 * at once nearly twice as fast where it is not asked. */
MC_FN void ask(const void *p, mc_i64 away)
{
    if (MC_LEVEL != 3)
        __builtin_prefetch((const char *)p + away);
}

#define NAME(verb) mc_lowrank_##verb##_f32
#define LOCAL(name) name##_f32
#define REAL float
#define DEPENDENT 1e-5
#include "factors.h"

#define NAME(verb) mc_lowrank_##verb##_f64
#define LOCAL(name) name##_f64
#define REAL double
#define DEPENDENT 1e-13
#include "factors.h"
