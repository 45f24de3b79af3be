/* Natural compression to 8 bits, float32: see natural.h for the wire and loops.h for the loops. */
#include "blocks.h"
#include "level.h"

#define KERNEL(verb) MC_KERNEL(mc_natural8_##verb##_f32)
#define KERNEL_LOCAL(name) name##_natural8
#define STORED float
#define SUM float
#define WORD mc_u32
#define BLOCK 512
#define HEAD 1
#define ONE 8
#define TWO 0
#define DRAW draw_32
#define PACK pack_8
#define UNPACK unpack_8
#define LOAD(x, u) memcpy(u, x, BLOCK * sizeof *u)
#define DECODE decode_8
#include "loops.h"
