/* What this processor is: the highest level that it (and its operating system) can run, and how it writes best. */
#include "level.h"

#if MC_LEVEL == 1
mc_i32 mc_through_caches;
#if defined(__x86_64__)
/* The first Xeons with AVX-512 wait for the memory with every line that goes past their caches: 7 GB/s, 11 through them. */
__attribute__((constructor)) static void look(void)
{
    __builtin_cpu_init();
    mc_through_caches = __builtin_cpu_is("skylake-avx512") || __builtin_cpu_is("cascadelake") || __builtin_cpu_is("cooperlake");
}
#endif
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
