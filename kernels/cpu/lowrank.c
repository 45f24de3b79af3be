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

/* Asks for memory to be in the second cache when a loop comes to it. */
MC_FN void far_ahead(const void *p, int nbytes)
{
    for (int k = 0; k < nbytes; k += 64)
        __builtin_prefetch((const char *)p + 16384 + k, 0, 2);
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
