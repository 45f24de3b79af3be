/* Runs CUDA kernels on the CPU, compiled by g++: one fiber for each CUDA thread, one block at a time.
 *
 * Barriers and shuffles wait for all threads that must come, and it is an error if they cannot. Threads of a block run in
 * any order that is asked for. Shared memory is poisoned before each block. What this cannot show: the arithmetic that
 * NVIDIA's compiler makes of the source (ptx.py does), and races between threads that no barrier separates, but for those
 * that another order brings to light. */
#pragma once
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <ucontext.h>

#define __CUDACC__ 1
#define __device__
#ifndef __global__
#define __global__
#endif
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __shared__ static __attribute__((section("cuda_shared")))

extern "C" double sqrt(double); /* all of <math.h> would take as long to compile as the kernels */

struct uint3 { unsigned x, y, z; };
static uint3 threadIdx, blockIdx, blockDim, gridDim;
extern "C" char __start_cuda_shared[] __attribute__((weak)), __stop_cuda_shared[] __attribute__((weak));

namespace shim {

enum State { FRESH, READY, WAITING, ENDED };
enum Cause { BARRIER, SHUFFLE };
const int MOST = 1024, STACK = 1 << 16;

struct Fiber {
    jmp_buf place;
    ucontext_t context;
    char *stack = nullptr;
    bool begun = false;
};

struct Thread {
    State state;
    Cause cause;
    int source;               /* of a shuffle: the lane; of a barrier: its line */
    uint64_t given, got;
    Fiber *fiber;
};

static Fiber fibers[MOST], *idle[MOST];
static Thread threads[MOST];
static int turns[MOST], count, alive, current, at_barrier, idle_count;
static jmp_buf scheduler, failure;
static void (*body)(void *);
static void *argument;
static char message[200];

[[noreturn]] static void fail(const char *what)
{
    snprintf(message, sizeof message, "%s (block %u, thread %d)", what, blockIdx.x, current);
    _longjmp(failure, 1);
}

/* Ends the shuffle of a warp that all its live lanes have come to. */
static void try_warp(int lane)
{
    int first = lane / 32 * 32, end = first + 32 < count ? first + 32 : count;
    for (int t = first; t < end; t++)
        if (threads[t].state != ENDED && (threads[t].state != WAITING || threads[t].cause != SHUFFLE))
            return;
    for (int t = first; t < end; t++) {
        if (threads[t].state == ENDED)
            fail("a lane of a shuffle has ended");
        if (first + threads[t].source >= end)
            fail("shuffle from a lane that is not there");
        threads[t].got = threads[first + threads[t].source].given;
    }
    for (int t = first; t < end; t++)
        threads[t].state = READY;
}

/* Opens the barrier that all live threads of the block have come to. */
static void try_block()
{
    int line = 0;
    if (!at_barrier || at_barrier != alive)
        return;
    at_barrier = 0;
    for (int t = 0; t < count; t++)
        if (threads[t].state == WAITING) {
            if (line && threads[t].source != line)
                fail("threads at different barriers");
            line = threads[t].source;
            threads[t].state = READY;
        }
}

static uint64_t wait(Cause cause, uint64_t given, int source)
{
    Thread &me = threads[current];
    me.cause = cause, me.given = given, me.source = source, me.state = WAITING;
    if (cause == BARRIER) {
        at_barrier++;
        try_block();
    } else {
        try_warp(current);
    }
    if (me.state == WAITING && !_setjmp(me.fiber->place))
        _longjmp(scheduler, 1);
    return me.got;
}

static void run_for_ever()
{
    for (;;) {
        body(argument);
        Thread &me = threads[current];
        Fiber *fiber = me.fiber;
        me.state = ENDED;
        alive--;
        idle[idle_count++] = fiber;
        try_block();
        if (!_setjmp(fiber->place))
            _longjmp(scheduler, 1);
    }
}

static void resume(int t)
{
    current = t;
    threadIdx = {(unsigned)t, 0, 0};
    if (_setjmp(scheduler))
        return;
    Thread &thread = threads[t];
    if (thread.state == FRESH) {
        thread.state = READY;
        Fiber *fiber = thread.fiber = idle[--idle_count];
        if (!fiber->begun) {
            fiber->begun = true;
            if (!fiber->stack)
                fiber->stack = (char *)malloc(STACK);
            getcontext(&fiber->context);
            fiber->context.uc_stack.ss_sp = fiber->stack;
            fiber->context.uc_stack.ss_size = STACK;
            fiber->context.uc_link = nullptr;
            makecontext(&fiber->context, run_for_ever, 0);
            setcontext(&fiber->context);
        }
    }
    _longjmp(thread.fiber->place, 1);
}

/* order: 0 forwards, 1 backwards, others at random. Returns what went wrong, or null. */
static const char *run_grid(void (*function)(void *), void *given, unsigned grid, unsigned block, unsigned order)
{
    if (block < 1 || block > MOST || !grid)
        return "launch of no threads, or of too many";
    count = (int)block, body = function, argument = given;
    blockDim = {block, 1, 1}, gridDim = {grid, 1, 1};
    idle_count = MOST;
    for (int i = 0; i < MOST; i++)
        idle[i] = fibers + i;
    if (_setjmp(failure)) {
        for (auto &fiber : fibers)
            fiber.begun = false;
        return message;
    }
    for (unsigned b = 0; b < grid; b++) {
        blockIdx = {b, 0, 0};
        if (__start_cuda_shared)
            memset(__start_cuda_shared, 0xCD, __stop_cuda_shared - __start_cuda_shared);
        for (int t = 0; t < count; t++) {
            threads[t].state = FRESH;
            turns[t] = order == 1 ? count - 1 - t : t;
        }
        for (int t = count - 1; order > 1 && t > 0; t--) {
            order = order * 1664525u + 1013904223u;
            std::swap(turns[t], turns[(order >> 8) % (t + 1)]);
        }
        alive = count, at_barrier = 0;
        while (alive) {
            bool moved = false;
            for (int turn = 0; turn < count; turn++)
                if (threads[turns[turn]].state <= READY) {
                    moved = true;
                    resume(turns[turn]);
                }
            if (!moved)
                fail("deadlock: a barrier or a shuffle that not all threads come to");
        }
    }
    return nullptr;
}

template <class... A, size_t... I> void call(void (*kernel)(A...), void **given, std::index_sequence<I...>)
{
    kernel(*(A *)given[I]...);
}

template <class... A> const char *launch(void (*kernel)(A...), unsigned grid, unsigned block, void **given, unsigned order)
{
    auto function = [&] { call(kernel, given, std::index_sequence_for<A...>{}); };
    return run_grid([](void *f) { (*(decltype(function) *)f)(); }, &function, grid, block, order);
}

/* A letter for each argument's type, as ctypes and struct name them; P for pointers. */
template <class X> char letter()
{
    return std::is_pointer<X>::value ? 'P' : std::is_floating_point<X>::value ? (sizeof(X) == 4 ? 'f' : 'd') : sizeof(X) == 4 ? 'i' : 'q';
}

template <class... A> const char *letters(void (*)(A...))
{
    static const char all[] = {letter<A>()..., 0};
    return all;
}

} /* namespace shim */

#define SHIM_EXPORT(kernel)                                                                                      \
    extern "C" const char *launch_##kernel(unsigned grid, unsigned block, void **given, unsigned order)          \
    {                                                                                                            \
        return shim::launch(kernel, grid, block, given, order);                                                  \
    }                                                                                                            \
    extern "C" const char *letters_##kernel() { return shim::letters(kernel); }

#define __syncthreads() ((void)shim::wait(shim::BARRIER, 0, __LINE__))

static inline unsigned __shfl_xor_sync(unsigned mask, unsigned v, int distance)
{
    if (mask != 0xFFFFFFFFu)
        shim::fail("only whole warps shuffle here");
    return (unsigned)shim::wait(shim::SHUFFLE, v, (shim::current & 31) ^ distance);
}

static inline unsigned __ballot_sync(unsigned mask, bool vote)
{
    unsigned votes = (unsigned)vote << (shim::current & 31);
    for (int distance = 1; distance < 32; distance *= 2)
        votes |= __shfl_xor_sync(mask, votes, distance);
    return votes;
}

template <class X> X atomicMax(X *p, X v) { X old = *p; *p = old > v ? old : v; return old; }
template <class X> X atomicAdd(X *p, X v) { X old = *p; *p = old + v; return old; }
template <class X> X atomicOr(X *p, X v) { X old = *p; *p = old | v; return old; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __ffs(int v) { return __builtin_ffs(v); }

template <class To, class From> static inline To shim_cast(From v) { To r; memcpy(&r, &v, sizeof r); return r; }
static inline unsigned __float_as_uint(float v) { return shim_cast<unsigned>(v); }
static inline float __uint_as_float(unsigned v) { return shim_cast<float>(v); }
static inline long long __double_as_longlong(double v) { return shim_cast<long long>(v); }
static inline double __longlong_as_double(long long v) { return shim_cast<double>(v); }
