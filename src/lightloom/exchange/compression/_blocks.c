/* Block quantisation in C: portable, with AVX2 and AVX-512 paths chosen at run time.
 *
 * The bytes are those of portable.py; format.py describes them.
 */
#include "_blocks.h"

enum { STREAM_FROM = 1 << 21 }; /* values: 8 MiB, more than a core's own caches hold */

/* Number of kinds, by which kernels that were built before one was added are told. */
API int lightloom_blocks_kinds(void) { return FP8 + 1; }

/* 0 portable C, 1 AVX2, 2 AVX-512: the best that this CPU can run. */
API int lightloom_blocks_best_path(void) {
#if HAVE_AVX2_PATH
    __builtin_cpu_init();
#if HAVE_AVX512_PATH
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("bmi2"))
        return 2;
#endif
    if (__builtin_cpu_supports("avx2")) return 1;
#endif
    return 0;
}

static const Path *path_of(int number, const Format *f) {
    if (f->block % VECTOR) return &lightloom_blocks_scalar;
#if HAVE_AVX512_PATH
    if (number == 2) return &lightloom_blocks_avx512;
#endif
#if HAVE_AVX2_PATH
    if (number == 1) return &lightloom_blocks_avx2;
#endif
    (void)number;
    return &lightloom_blocks_scalar;
}

static void copy_padded(float *to, const float *from, int64_t n, int block) {
    memcpy(to, from, 4 * (size_t)n);
    memset(to + n, 0, 4 * (size_t)(block - n));
}

/* One run: `count` values, with residuals where `residual` is given; with `leave` the values become their errors. */
static void encode(const Format *f, float *values, float *residual, int64_t count, uint8_t *out, int leave,
                   const Path *path) {
    int mode = residual ? FEEDBACK : leave ? LEAVE : PLAIN;
    int64_t whole = count / f->block, first = whole * f->block, left = count - first;
    path->encode(f, values, residual, whole, out, mode);
    if (!left) return;
    float x[LARGEST_BLOCK], rest[LARGEST_BLOCK];
    copy_padded(x, values + first, left, f->block);
    if (residual) copy_padded(rest, residual + first, left, f->block);
    path->encode(f, x, rest, 1, out + whole * bytes_of(f), mode);
    if (residual) memcpy(residual + first, rest, 4 * (size_t)left);
    else if (leave) memcpy(values + first, x, 4 * (size_t)left);
}

API void lightloom_blocks_encode(const Format *f, float *values, float *residual, int64_t count, uint8_t *out, int leave,
                                 int path) {
    encode(f, values, residual, count, out, leave, path_of(path, f));
}

/* `runs` are rows of first value, number of values, first byte. */
API void lightloom_blocks_encode_runs(const Format *f, float *values, float *residual, const int64_t *runs, int64_t n,
                                      uint8_t *out, int path) {
    const Path *chosen = path_of(path, f);
    for (const int64_t *run = runs; run < runs + 3 * n; run += 3)
        encode(f, values + run[0], residual ? residual + run[0] : 0, run[1], out + run[2], 0, chosen);
}

/* One run: `out` becomes, or grows by, `factor` times the values. */
static void decode(const Format *f, const uint8_t *in, float *out, int64_t count, float factor, int add,
                   const Path *path) {
    int64_t whole = count / f->block, first = whole * f->block, left = count - first;
    int stream = count >= STREAM_FROM && (uintptr_t)out % 16 == 0;
    const uint8_t *last = in + whole * bytes_of(f), *end = last + (left ? bytes_of(f) : 0);
    path->decode(f, in, end, whole, out, factor, add ? ADD : stream ? STREAM : REPLACE);
    if (!left) return;
    float x[LARGEST_BLOCK];
    path->decode(f, last, end, 1, x, factor, REPLACE);
    for (int64_t i = 0; i < left; i++) out[first + i] = add ? out[first + i] + x[i] : x[i];
}

API void lightloom_blocks_decode(const Format *f, const uint8_t *in, float *out, int64_t count, float factor, int add,
                                 int path) {
    decode(f, in, out, count, factor, add, path_of(path, f));
}

API void lightloom_blocks_decode_runs(const Format *f, const uint8_t *in, const int64_t *runs, int64_t n, float *out,
                                      float factor, int add, int path) {
    const Path *chosen = path_of(path, f);
    for (const int64_t *run = runs; run < runs + 3 * n; run += 3)
        decode(f, in + run[2], out + run[0], run[1], factor, add, chosen);
}
