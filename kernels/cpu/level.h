/* Every loop is compiled once for each level of processor, told apart by a suffix: mc_round_f16__v4 (AVX-512), __v3
 * (AVX2) and __v1 (any). The build gives MC_LEVEL; only mc_cpu_level() has no suffix. */
#ifndef MC_CPU_LEVEL_H
#define MC_CPU_LEVEL_H
#include "../mc.h"

#ifndef MC_LEVEL
#define MC_LEVEL 1
#endif
/* Whether large arrays are better written through the caches, asked for ahead, than past them. */
extern __attribute__((visibility("default"))) mc_i32 mc_through_caches;
#define MC_SUFFIXED_(name, level) name##__v##level
#define MC_SUFFIXED(name, level) MC_SUFFIXED_(name, level)
#define MC_KERNEL(name) __attribute__((visibility("default"))) void MC_SUFFIXED(name, MC_LEVEL)
#define MC_STATUS_KERNEL(name) __attribute__((visibility("default"))) mc_i32 MC_SUFFIXED(name, MC_LEVEL)   /* 0: well */

#endif
