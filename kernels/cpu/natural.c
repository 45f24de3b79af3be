/* Natural compression of every kind: see natural.h for the wire and loops.h for the loops. */
#include "blocks.h"
#include "level.h"

#define KERNEL(verb) MC_KERNEL(mc_natural_##verb##_f32)
#define KERNEL_LOCAL(name) name##_f32
#define STORED float
#define SUM float
#define ANY mc_any32
#define BLOCK 64
#define HEAD 0
#define ONE 8
#define TWO 1
#define PACK pack_9
#define UNPACK unpack_9
#define LOAD load_f32
#define ENCODE encode_f32
#define DECODE decode_f32
#include "loops.h"

#define KERNEL(verb) MC_KERNEL(mc_natural_##verb##_bf16)
#define KERNEL_LOCAL(name) name##_bf16
#define STORED mc_u16
#define SUM float
#define ANY mc_any32
#define BLOCK 64
#define HEAD 0
#define ONE 8
#define TWO 1
#define PACK pack_9
#define UNPACK unpack_9
#define LOAD load_bf16
#define ENCODE encode_bf16
#define DECODE decode_bf16
#include "loops.h"

#define KERNEL(verb) MC_KERNEL(mc_natural_##verb##_f16)
#define KERNEL_LOCAL(name) name##_f16
#define STORED mc_u16
#define SUM float
#define ANY mc_any32
#define BLOCK 64
#define HEAD 0
#define ONE 4
#define TWO 2
#define PACK pack_6
#define UNPACK unpack_6
#define LOAD load_f16
#define ENCODE encode_f16
#define DECODE decode_f16
#include "loops.h"

#define KERNEL(verb) MC_KERNEL(mc_natural_##verb##_f64)
#define KERNEL_LOCAL(name) name##_f64
#define STORED double
#define SUM double
#define ANY mc_any64
#define BLOCK 64
#define HEAD 0
#define ONE 8
#define TWO 4
#define PACK pack_12
#define UNPACK unpack_12
#define LOAD load_f64
#define ENCODE encode_f64
#define DECODE decode_f64
#include "loops.h"
