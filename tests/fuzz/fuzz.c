/* Throws hostile bytes at every kernel: fuzz LIBRARY CODEC INPUTS SEED. With -DLIBFUZZER the library and the codec are in the
 * environment, FUZZ_LIBRARY and FUZZ_CODEC, and the fuzzer's bytes decide what is tried, chance where they end.
 *
 * Wires are encoded values with bits flipped, bytes overwritten and pieces moved, or plain noise; values are floats of any
 * bits. Every buffer is allocated to the byte, so that AddressSanitizer sees one step too far. The kernels of all levels
 * must give the same bytes and the same verdict. Lengths of wires are not a kernel's business: Python checks them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;
typedef void (*encode_t)(const void *, i64, u8 *, u64, u64, u32, int, int, int, int, int);
typedef void (*decode_t)(const u8 *, i64, void *, int, int, int, int);
typedef void (*grid_encode_t)(const void *, i64, u8 *, u64, u64, u32, int, double, int);
typedef void (*grid_decode_t)(const u8 *, i64, void *, double, int);
typedef void (*add32_t)(const u8 *, i64, void *, float, int, int, int, int);
typedef void (*add64_t)(const u8 *, i64, void *, double, int, int, int, int);
typedef void (*reduce32_t)(const u8 *const *, int, int, const void *, i64, float, u8 *, u64, u64, u32, int, int, int, int, int);
typedef void (*reduce64_t)(const u8 *const *, int, int, const void *, i64, double, u8 *, u64, u64, u32, int, int, int, int, int);
typedef void (*select_t)(const void *, i64, i64, i64, u8 *, i64, u8 *, i64, u64, u64);
typedef int (*scatter_t)(const u8 *, i64, const u8 *, i64, i64, i64, i64, void *);
typedef int (*accumulate32_t)(const u8 *, i64, const u8 *, i64, i64, i64, i64, void *, float);
typedef int (*accumulate64_t)(const u8 *, i64, const u8 *, i64, i64, i64, i64, void *, double);
typedef void (*project_t)(const void *, i64, i64, const void *, void *, i64, i64);
typedef void (*back_t)(const void *, i64, i64, i64, const void *, void *, i64, i64);
typedef void (*expand_t)(const void *, i64, const void *, i64, i64, i64, void *);
typedef void (*orthonormalize_t)(void *, i64, i64);

static const char *const KINDS[] = {"f32", "f64", "f16", "bf16"};
static const int STORED[] = {4, 8, 2, 2}, SUMS[] = {4, 8, 4, 4}, LEVELS[] = {1, 3, 4};
static const char *codec;
static void *library;
static int best;
static u64 state, input;
static const u8 *given;
static size_t left;

static u64 draw(void)
{
    u64 word;
    if (left >= sizeof word)
        return memcpy(&word, given, sizeof word), given += sizeof word, left -= sizeof word, word;
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Du;
}

static i64 below(i64 n) { return (i64)(draw() >> 33) % n; }

/* Mostly short, with a liking for the edges of blocks. */
static i64 length(void)
{
    static const i64 edges[] = {0, 1, 63, 64, 65, 511, 512, 513, 1023, 1024, 1025};
    i64 sort = below(64);
    return sort < 4 ? edges[below(11)] : sort == 4 ? below(2000) : below(sort < 32 ? 150 : 70);
}

static void *room(i64 nbytes) { return malloc(nbytes ? (size_t)nbytes : 1); }

static void noise(u8 *p, i64 nbytes)
{
    for (i64 i = 0; i < nbytes; i += 8) {
        u64 word = draw();
        memcpy(p + i, &word, (size_t)(nbytes - i < 8 ? nbytes - i : 8));
    }
}

/* Values of a kind: any bits, or small numbers among which are a few of any bits. */
static void *values(i64 n, int kind)
{
    static const u8 top[] = {0x3E, 0x3F, 0x34, 0x3E};
    int item = STORED[kind];
    u8 *x = room(n * item);
    noise(x, n * item);
    if (below(3))
        for (u8 *p = x + item - 1, mask = (u8)(draw() | 1); p < x + n * item; p += item)
            if ((p[1 - item] & mask) != mask)
                *p = (u8)(top[kind] | (*p & 0x81));
    return x;
}

static void mutate(u8 *wire, i64 nbytes)
{
    static const u8 telling[] = {0, 1, 0x7F, 0x80, 0xFE, 0xFF};
    if (!nbytes)
        return;
    for (i64 times = 1 + below(6); times; times--) {
        i64 at = below(nbytes), rest = nbytes - at, from = below(nbytes), m = below(16);
        m = m < rest ? m : rest;
        m = m < nbytes - from ? m : nbytes - from;
        switch (below(4)) {
        case 0: wire[at] ^= (u8)(1 << below(8)); break;
        case 1: wire[at] = telling[below(6)]; break;
        case 2: memmove(wire + at, wire + from, (size_t)m); break;
        default: memset(wire + at, telling[below(6)], (size_t)m);
        }
    }
}

/* Makes a wire hostile, or leaves it. */
static void spoil(u8 *wire, i64 nbytes)
{
    i64 sort = below(8);
    if (sort < 4)
        mutate(wire, nbytes);
    else if (sort < 6)
        noise(wire, nbytes);
    else if (sort == 6)
        memset(wire, below(2) ? 0xFF : 0, (size_t)nbytes), mutate(wire, nbytes);
}

enum verb { ENCODE, DECODE, ADD, REDUCE, SELECT, SCATTER, ACCUMULATE, PROJECT, BACK, EXPAND, ORTHONORMALIZE, VERBS };
static const char *const NAMES[] = {"encode", "decode", "add", "reduce", "select", "scatter", "accumulate", "project", "back",
                                    "expand", "orthonormalize"};
static void *kernels[VERBS][4][5];

/* Looks up every kernel of the codec. */
static void find(void)
{
    char name[96];
    for (int verb = 0; verb < VERBS; verb++)
        for (int kind = 0; kind < 4; kind++)
            for (int l = 0; l < 3 && LEVELS[l] <= best; l++) {
                snprintf(name, sizeof name, "mc_%s_%s_%s__v%d", codec, NAMES[verb], KINDS[kind], LEVELS[l]);
                kernels[verb][kind][LEVELS[l]] = dlsym(library, name);
            }
}

/* Whether two results are equal; with `numbers` any NaN equals any other, since sums keep this or that payload. */
static int same(const u8 *a, const u8 *b, i64 nbytes, int numbers)
{
    if (!memcmp(a, b, (size_t)nbytes) || !numbers)
        return !memcmp(a, b, (size_t)nbytes);
    for (i64 i = 0; i < nbytes; i += numbers) {
        double x, y;
        float v, w;
        if (numbers == 8)
            memcpy(&x, a + i, 8), memcpy(&y, b + i, 8);
        else
            memcpy(&v, a + i, 4), memcpy(&w, b + i, 4), x = v, y = w;
        if (memcmp(a + i, b + i, (size_t)numbers) && (x == x || y == y))
            return 0;
    }
    return 1;
}

/* Compares the result of a level with the first one's, which is kept, and frees the others. */
static void *compare(void *kept, void *result, i64 nbytes, int numbers, const char *verb, int kind, int level)
{
    if (kept && !same(kept, result, nbytes, numbers)) {
        fprintf(stderr, "%s_%s_%s: v%d differs from a lower level at input %llu\n", codec, verb, KINDS[kind], level,
                (unsigned long long)input);
        exit(1);
    }
    if (kept)
        free(result);
    return kept ? kept : result;
}

/* Each level of which there are kernels and which this processor has. */
#define EACH_LEVEL(verb, level)                                           \
    for (int l = 0, level; l < 3 && (level = LEVELS[l]) <= best; l++)     \
        if (kernels[verb][kind][level])

/* Codecs with encode, decode, add and reduce; a, b, c and d are what the codec's kernels take besides. */
static void dense(int kind, i64 n, i64 nbytes, int a, int b, int c, int d)
{
    int plain = !strncmp(codec, "natural", 7), nearest = plain && below(2), own = (int)below(2);
    int e0 = plain ? nearest : 0, sums = SUMS[kind];
    u64 key = draw(), first = draw() >> below(64);
    u32 offset = (u32)draw();
    void *x = values(n, kind);
    u8 *wire = NULL, *decoded = NULL, *added = NULL, *reduced = NULL;
    EACH_LEVEL(ENCODE, level)
    {
        encode_t encode = (encode_t)kernels[ENCODE][kind][level];
        u8 *out = room(nbytes);
        memset(out, 0xEE, (size_t)nbytes);
        encode(x, n, out, key, first, offset, e0, a, b, c, d);
        wire = compare(wire, out, nbytes, 0, "encode", kind, level);
    }
    spoil(wire, nbytes);
    EACH_LEVEL(DECODE, level)
    {
        decode_t decode = (decode_t)kernels[DECODE][kind][level];
        u8 *out = room(n * STORED[kind]);
        decode(wire, n, out, a, b, c, d);
        decoded = compare(decoded, out, n * STORED[kind], 0, "decode", kind, level);
    }
    u64 part = below(4), initial = draw();
    if (part == 0) {
        EACH_LEVEL(ADD, level)
        {
            void *add = kernels[ADD][kind][level];
            u8 *acc = room(n * sums);
            u64 before = state;
            state = initial | 1, noise(acc, n * sums), state = before;
            if (sums == 8)
                ((add64_t)add)(wire, n, acc, 0.37, a, b, c, d);
            else
                ((add32_t)add)(wire, n, acc, 0.37f, a, b, c, d);
            added = compare(added, acc, n * sums, sums, "add", kind, level);
        }
    } else if (part == 1) {
        EACH_LEVEL(REDUCE, level)
        {
            void *reduce = kernels[REDUCE][kind][level];
            const u8 *wires[] = {wire, wire};
            u8 *out = room(nbytes);
            memset(out, 0xEE, (size_t)nbytes);
            if (sums == 8)
                ((reduce64_t)reduce)(wires, 2, 1, own ? x : NULL, n, 0.3, out, key, first, offset, e0, a, b, c, d);
            else
                ((reduce32_t)reduce)(wires, 2, 1, own ? x : NULL, n, 0.3f, out, key, first, offset, e0, a, b, c, d);
            reduced = compare(reduced, out, nbytes, 0, "reduce", kind, level);
        }
    }
    free(x), free(wire), free(decoded), free(added), free(reduced);
}

static void natural(void)
{
    static const int one[] = {8, 8, 4, 8}, two[] = {1, 4, 2, 1};
    int kind = (int)below(4);
    i64 n = length(), tail = n % 64;
    i64 nbytes = n / 64 * (8 * (one[kind] + two[kind])) + (tail * one[kind] + 7) / 8 + (tail * two[kind] + 7) / 8;
    dense(kind, n, nbytes, 0, 0, 0, 0);
}

static void natural8(void)
{
    i64 n = length();
    dense(0, n, n + (n + 511) / 512, 0, 0, 0, 0);
}

static i64 blocks(i64 n, i64 bits, i64 block, i64 head)
{
    i64 rest = n % block, tail = rest ? head + (rest / 64 * 8 + (rest % 64 + 7) / 8) * bits : 0;
    return n / block * (head + block / 8 * bits) + tail;
}

static void dithering(void)
{
    int kind = (int)below(4), bits = 2 + (int)below(7), flags = (int)below(4), block = 64 * (1 + (int)below(10));
    i64 n = length(), head = kind == 1 ? 8 : 4;
    dense(kind, n, blocks(n, bits, block, flags & 2 ? head / 4 : head), bits, (int)below(3), block, flags);
}

static void sign(void)
{
    int kind = (int)below(4), block = 64 * (1 + (int)below(10));
    i64 n = length();
    dense(kind, n, blocks(n, 1, block, kind == 1 ? 8 : 4), block, 0, 0, 0);
}

static void grid(void)
{
    int kind = (int)below(2), bits = 2 << below(4);
    i64 n = length(), nbytes = (n * bits + 7) / 8;
    u64 key = draw(), first = draw() >> below(64);
    double step = below(8) ? 0.01 : 1e-300;
    void *x = values(n, kind);
    u8 *wire = NULL, *decoded = NULL;
    EACH_LEVEL(ENCODE, level)
    {
        u8 *out = room(nbytes);
        ((grid_encode_t)kernels[ENCODE][kind][level])(x, n, out, key, first, 0, 0, step, bits);
        wire = compare(wire, out, nbytes, 0, "encode", kind, level);
    }
    spoil(wire, nbytes);
    EACH_LEVEL(DECODE, level)
    {
        u8 *out = room(n * STORED[kind]);
        ((grid_decode_t)kernels[DECODE][kind][level])(wire, n, out, step, bits);
        decoded = compare(decoded, out, n * STORED[kind], 0, "decode", kind, level);
    }
    free(x), free(wire), free(decoded);
}

/* topk and randk: `number` blocks of m values, k of each on the wire, their values among its bytes or apart from them. */
static void sparse(void)
{
    int kind = (int)below(4), item = STORED[kind], sums = SUMS[kind], topk = codec[0] == 't', apart = (int)below(2), width = 0;
    i64 m = below(500) ? 1 + below(below(16) ? 130 : 1200) : 60000 + below(5537), number;
    m = below(32) ? m : 1024 * (1 + below(2)); /* what is written in pieces */
    number = m > 2000 ? 1 : 1 + below(3);
    i64 k = 1 + below(below(2) ? m : (m + 7) / 8), n = number * m;
    while (m > (i64)1 << width)
        width++;
    i64 inner = apart ? 0 : k * item, tail = topk ? (k * width + 7) / 8 + 1 : 8, stride = (inner + tail + 7) / 8 * 8;
    i64 nbytes = number * stride, pace = apart ? k * item : stride;
    u64 key = draw(), first = draw() >> below(64);
    void *x = values(n, kind);
    u8 *wire = NULL, *kept = NULL, *out = NULL;
    int verdict = 0;
    EACH_LEVEL(SELECT, level)
    {
        select_t select = (select_t)kernels[SELECT][kind][level];
        u8 *w = calloc(1, (size_t)nbytes), *v = apart ? calloc(1, (size_t)(number * pace)) : w;
        select(x, n, m, k, v, pace, w + inner, stride, key, first);
        if (apart)
            kept = compare(kept, v, number * pace, 0, "select", kind, level);
        wire = compare(wire, w, nbytes, 0, "select", kind, level);
    }
    spoil(wire, nbytes);
    for (int sum = 0; sum < 2; sum++, free(out), out = NULL)
        EACH_LEVEL(sum ? ACCUMULATE : SCATTER, level)
        {
            void *function = kernels[sum ? ACCUMULATE : SCATTER][kind][level];
            i64 size = n * (sum ? sums : item);
            u8 *y = calloc(1, (size_t)size);
            int bad = !sum ? ((scatter_t)function)(apart ? kept : wire, pace, wire + inner, stride, n, m, k, y)
                : sums == 8 ? ((accumulate64_t)function)(apart ? kept : wire, pace, wire + inner, stride, n, m, k, y, 0.7)
                : ((accumulate32_t)function)(apart ? kept : wire, pace, wire + inner, stride, n, m, k, y, 0.7f);
            if (out && bad != verdict)
                fprintf(stderr, "%s: v%d and a lower level have other verdicts at input %llu\n", codec, level, (unsigned long long)input), exit(1);
            verdict = bad;
            if (bad)
                memset(y, 0, (size_t)size);
            out = compare(out, y, size, sum ? sums : 0, sum ? "accumulate" : "scatter", kind, level);
        }
    free(x), free(wire), free(kept);
}

static void lowrank(void)
{
    int kind = (int)below(2), item = STORED[kind];
    i64 rank = 1 + below(4), rows = 1 + below(12), cols = 1 + below(below(8) ? 40 : 300), n = rows * cols;
    u8 *x = values(n, kind), *start = values(rank * cols, kind), *left = NULL, *right = NULL, *out = NULL;
    EACH_LEVEL(PROJECT, level)
    {
        project_t project = (project_t)kernels[PROJECT][kind][level];
        u8 *y = room(rank * rows * item);
        project(x, n, cols, start, y, rows, rank);
        ((orthonormalize_t)kernels[ORTHONORMALIZE][kind][level])(y, rows, rank);
        left = compare(left, y, rank * rows * item, item, "project", kind, level);
    }
    EACH_LEVEL(BACK, level)
    {
        u8 *y = room(rank * cols * item);
        ((back_t)kernels[BACK][kind][level])(x, n, cols, cols, left, y, cols, rank);
        right = compare(right, y, rank * cols * item, item, "back", kind, level);
    }
    spoil(left, rank * rows * item), spoil(right, rank * cols * item);
    EACH_LEVEL(EXPAND, level)
    {
        u8 *y = room(n * item);
        ((expand_t)kernels[EXPAND][kind][level])(left, rows, right, rank, n, cols, y);
        out = compare(out, y, n * item, item, "expand", kind, level);
    }
    free(x), free(start), free(left), free(right), free(out);
}

static void (*attack)(void);
static int *through_caches;

/* One input, with large arrays written in one of the two ways. */
static void once(void)
{
    *through_caches = (int)(input & 1);
    attack();
}

/* Sets `attack` up; 0 if it cannot. */
static int prepare(const char *path, const char *name)
{
    static const struct { const char *name; void (*attack)(void); } codecs[] = {
        {"natural", natural}, {"natural8", natural8}, {"dithering", dithering}, {"sign", sign},
        {"topk", sparse},     {"randk", sparse},      {"lowrank", lowrank},   {"grid", grid},
    };
    if (!(library = dlopen(path, RTLD_NOW)))
        return fprintf(stderr, "%s\n", dlerror()), 0;
    best = ((int (*)(void))dlsym(library, "mc_cpu_level"))();
    through_caches = dlsym(library, "mc_through_caches");
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (!strcmp(codecs[i].name, name))
            codec = codecs[i].name, attack = codecs[i].attack;
    if (!attack)
        return fprintf(stderr, "no codec named %s\n", name), 0;
    find();
    return 1;
}

#ifdef LIBFUZZER
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    if (!prepare(getenv("FUZZ_LIBRARY"), getenv("FUZZ_CODEC")))
        exit(2);
    return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
    given = data, left = size, state = 1, input++;
    once();
    return 0;
}
#else
int main(int argc, char **argv)
{
    if (argc != 5)
        return fprintf(stderr, "fuzz LIBRARY CODEC INPUTS SEED\n"), 2;
    if (!prepare(argv[1], argv[2]))
        return 2;
    u64 inputs = strtoull(argv[3], NULL, 10);
    state = strtoull(argv[4], NULL, 10) * 0x9E3779B97F4A7C15u | 1;
    for (input = 0; input < inputs; input++) {
        if (input % 4096 == 0)
            setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {60, 0}}, NULL); /* a hang is a fault too */
        once();
    }
    printf("%s: %llu inputs, nothing found\n", codec, (unsigned long long)inputs);
    return 0;
}
#endif
