/* The highest level that this processor (and its operating system) can run. */
#include "level.h"

#if MC_LEVEL == 1
__attribute__((visibility("default"))) mc_i32 mc_cpu_level(void);
mc_i32 mc_cpu_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2")
        || !__builtin_cpu_supports("fma"))
        return 1;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")
        || !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq")
        || !__builtin_cpu_supports("avx512vl"))
        return 3;
    return 4;
#else
    return 1;
#endif
}
#endif
