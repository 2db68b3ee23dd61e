/* What the sources of the C kernel of blocks share. Nothing of Python is used, so that the shared object is loaded with
 * ctypes and calls run without the interpreter lock. Little-endian machines only. Products and sums must not be
 * contracted: compile with -ffp-contract=off. */
#ifndef LIGHTLOOM_BLOCKS_H
#define LIGHTLOOM_BLOCKS_H

#include <stdint.h>
#include <string.h>

#include "_kernel.h"

enum { LINEAR = 0, LLOYD = 1, SIGN = 2, FP8 = 3 };   /* kinds, as in kernels.py */
enum { PLAIN = 0, LEAVE = 1, FEEDBACK = 2 };         /* values are read; become their errors; are added to residuals */
enum { REPLACE = 0, ADD = 1, STREAM = 2 };           /* what decoding does with `out`; STREAM passes the caches */
enum { SCALE_BYTES = 2, LARGEST_BLOCK = 4096, VECTOR = 16 }; /* VECTOR: values that the vector paths take at a time */

typedef struct {
    int32_t kind, bits, block;
    float threshold;  /* of |x|, in scales: Lloyd and Max */
    float decoded[16]; /* values of codes 0 ... 15, in scales, repeated; not used where codes have more than 4 bits */
} Format;

/* One way to run; `blocks` whole blocks. The vector paths need blocks of a multiple of VECTOR values. */
typedef struct {
    void (*encode)(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode);
    /* `end` is the end of the memory that may be read. */
    void (*decode)(const Format *f, const uint8_t *in, const uint8_t *end, int64_t blocks, float *out, float factor,
                   int put);
} Path;

extern const Path lightloom_blocks_scalar, lightloom_blocks_avx2, lightloom_blocks_avx512;

static inline int64_t bytes_of(const Format *f) { return SCALE_BYTES + f->block * f->bits / 8; }

static inline uint32_t bits_of(float v) { uint32_t b; memcpy(&b, &v, 4); return b; }
static inline float float_of(uint32_t b) { float v; memcpy(&v, &b, 4); return v; }

static inline float load_scale(const uint8_t *in) {
    uint16_t head;
    memcpy(&head, in, 2);
    return float_of((uint32_t)head << 16);
}

typedef struct {
    float scale, inverse;
    int valid; /* 0 where a value is not finite or the scale overflows */
} Scale;

/* The largest size over q, rounded up to bfloat16; `largest` is the bit pattern of the largest |x|. */
static inline Scale linear_scale(uint32_t largest, float q) {
    Scale s = {0.0f, 0.0f, 0};
    s.scale = float_of((bits_of(float_of(largest) / q) + 0xFFFF) & 0xFFFF0000u);
    s.valid = largest < 0x7F800000u && bits_of(s.scale * q) < 0x7F800000u;
    if (!(s.scale > 0x1p-128f)) s.scale = 0.0f;
    else s.inverse = 1.0f / s.scale;
    return s;
}

/* The mean of a block, rounded to the nearest bfloat16, ties to even, at most the largest one whose levels are finite. */
static inline Scale mean_scale(int kind, float total) {
    const uint32_t mean = bits_of(total), most = kind == LLOYD ? 0x7F070000u : 0x7F7F0000u;
    const uint32_t rounded = (mean + 0x7FFF + ((mean >> 16) & 1)) & 0xFFFF0000u;
    Scale s = {float_of(rounded < most ? rounded : most), 0.0f, mean < 0x7F800000u};
    return s;
}

static inline void store_scale(uint8_t *out, float scale) {
    uint16_t head = (uint16_t)(bits_of(scale) >> 16);
    memcpy(out, &head, 2);
}

/* A block without a scale: NaN, codes 0, no residual. */
static inline void store_nan_block(const Format *f, uint8_t *out, float *rest) {
    store_scale(out, float_of(0x7FC00000u));
    memset(out + SCALE_BYTES, 0, (size_t)(bytes_of(f) - SCALE_BYTES));
    if (rest) memset(rest, 0, 4 * (size_t)f->block);
}

#endif
