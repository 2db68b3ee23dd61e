/* What the sources of the C kernel share. Nothing of Python is used, so that the shared object is loaded with ctypes
 * and calls run without the interpreter lock. Little-endian machines only. */
#ifndef LIGHTLOOM_INCEPTIONN_H
#define LIGHTLOOM_INCEPTIONN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_kernel.h"

/* A function that advances this many frames, with one copy of `advance_abreast` for each way to put values. */
#define DEFINE_ADVANCE(name, abreast)                                                        \
    TARGET static void name(Cursor *frames, int64_t ahead, float step8, int put) {           \
        if (put == STREAM)                                                                   \
            advance_abreast(frames, abreast, ahead, step8, STREAM);                          \
        else if (put == ADD)                                                                 \
            advance_abreast(frames, abreast, ahead, step8, ADD);                             \
        else                                                                                 \
            advance_abreast(frames, abreast, ahead, step8, REPLACE);                         \
    }

enum { GROUP = 8, LARGEST_GROUP = 34 }; /* values, bytes */
enum { ROW = 4 * GROUP }; /* values that the vector kernels take at a time */
enum { MOST_ABREAST = 4 }; /* frames decoded side by side */
enum { REPLACE = 0, ADD = 1, STREAM = 2 }; /* what decoding does with `out`; STREAM replaces, past the caches */

static const int code_length[4] = {0, 1, 2, 4};

typedef struct {
    const uint8_t *p, *end;
    uint32_t *out;
    int64_t left; /* values still to come */
} Cursor;

/* One way to run. `bound` is k of the bound 2^-k; `width` is w of an 8-bit code trunc(|f| 2^w), `step8` is 2^-w. */
typedef struct {
    int abreast; /* how many frames `advance` can take: this many, or two, or one */
    /* Returns the end of the payload and writes up to 64 bytes past it. With `leave` the values become what the codes
     * lack; otherwise they are only read. */
    uint8_t *(*encode)(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave);
    /* Decodes frames side by side for as long as none can reach its end. What lies `ahead` bytes further, in the frames
     * after these, is fetched on the way, for their checksums. */
    void (*advance)(Cursor *frames, int abreast, int64_t ahead, float step8, int put);
    /* Decodes the rest. Returns 0 where the payload is malformed: a group passes the end or codes too many values, or
     * bytes remain. With `add` values are added to those in `out`, which stay the same bits where the tag is 0. */
    int (*decode)(Cursor *c, float step8, int add);
} Path;

extern const Path lightloom_scalar, lightloom_avx2, lightloom_avx512;

uint64_t lightloom_xxh64(const uint8_t *p, int64_t n, uint64_t seed);

static inline uint32_t load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint64_t load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline void store32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* How many rows of 32 values can be read without looking at the end of the payload. */
static inline int64_t safe_rows(const Cursor *frames, int abreast) {
    int64_t rows = INT64_MAX;
    for (int i = 0; i < abreast; i++) {
        rows = smaller(rows, frames[i].left / ROW);
        rows = smaller(rows, (frames[i].end - frames[i].p) / (4 * LARGEST_GROUP));
    }
    return rows;
}

#endif
