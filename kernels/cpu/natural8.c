/* Natural compression to 8 bits, float32: see natural.h for the wire and loops.h for the loops. */
#include "blocks.h"
#include "level.h"

#define KERNEL(verb) MC_KERNEL(mc_natural8_##verb##_f32)
#define KERNEL_LOCAL(name) name##_natural8
#define STORED float
#define SUM float
#define ANY mc_any32
#define BLOCK 512
#define HEAD 1
#define ONE 8
#define TWO 0
#define PACK pack_8
#define UNPACK unpack_8
#define LOAD load_f32
#define ENCODE encode_8
#define DECODE decode_8
#include "loops.h"
