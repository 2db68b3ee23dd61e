/* Blocks in portable C; also blocks that the vector paths do not take. The bytes are those of portable.py. */
#include "_blocks.h"

#define TARGET

/* 1.5 2^23: a float32 added to it is rounded to the nearest integer, ties to even, which ends its bit pattern. */
static const float ROUNDING = 12582912.0f;

/* The sum by halves, in place. */
static float tree_sum(float *sizes, int block) {
    for (int half = block / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) sizes[i] += sizes[i + half];
    return sizes[0];
}

static Scale scale_of(const Format *f, const float *x) {
    if (f->kind == LINEAR) {
        uint32_t largest = 0;
        for (int i = 0; i < f->block; i++) {
            uint32_t size = bits_of(x[i]) & 0x7FFFFFFF;
            largest = size > largest ? size : largest;
        }
        return linear_scale(largest, (float)((1 << (f->bits - 1)) - 1));
    }
    float sizes[LARGEST_BLOCK];
    const float share = 1.0f / (float)f->block;
    for (int i = 0; i < f->block; i++) sizes[i] = float_of(bits_of(x[i]) & 0x7FFFFFFF) * share;
    return mean_scale(f->kind, tree_sum(sizes, f->block));
}

/* Replaces values by their errors; their codes come one in a byte. The compiler makes vectors of these loops. */
SPECIALISED void quantise(const Format *f, float *x, uint8_t *codes, Scale s, int kind) {
    const float threshold = f->threshold * s.scale, inner = f->decoded[0] * s.scale, outer = f->decoded[1] * s.scale;
    for (int i = 0; i < f->block; i++) {
        float decoded;
        if (kind == LINEAR) {
            float sum = x[i] * s.inverse + ROUNDING;
            codes[i] = (uint8_t)bits_of(sum);
            decoded = (sum - ROUNDING) * s.scale;
        } else {
            int negative = x[i] < 0.0f, large = kind == LLOYD && float_of(bits_of(x[i]) & 0x7FFFFFFF) > threshold;
            codes[i] = (uint8_t)(kind == LLOYD ? 2 * negative + large : negative);
            decoded = large ? outer : inner;
            decoded = negative ? -decoded : decoded;
        }
        x[i] -= decoded;
    }
}

static void pack(const uint8_t *codes, uint8_t *out, int block, int bits) {
    const uint64_t mask = (1u << bits) - 1;
    for (int i = 0; i < block; i += 8, out += bits) {
        uint64_t word = 0;
        for (int j = 0; j < 8; j++) word |= (codes[i + j] & mask) << (bits * j);
        for (int b = 0; b < bits; b++) out[b] = (uint8_t)(word >> (8 * b));
    }
}

SPECIALISED void encode_kind(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode,
                             int kind) {
    float x[LARGEST_BLOCK], *rest = mode == FEEDBACK ? residual : mode == LEAVE ? values : 0;
    uint8_t codes[LARGEST_BLOCK];
    for (; blocks > 0; blocks--, values += f->block, out += bytes_of(f)) {
        memcpy(x, values, 4 * (size_t)f->block);
        for (int i = 0; mode == FEEDBACK && i < f->block; i++) x[i] += rest[i];
        Scale s = scale_of(f, x);
        if (!s.valid) {
            store_nan_block(f, out, rest);
        } else {
            store_scale(out, s.scale);
            quantise(f, x, codes, s, kind);
            if (f->bits == 8) memcpy(out + SCALE_BYTES, codes, (size_t)f->block);
            else pack(codes, out + SCALE_BYTES, f->block, f->bits);
            if (rest) memcpy(rest, x, 4 * (size_t)f->block);
        }
        if (rest) rest += f->block;
    }
}

#include "_blocks_fp8.h"

static void encode(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode) {
    if (f->kind == FP8) encode_fp8_mode(f, values, residual, blocks, out, mode);
    else if (f->kind == LINEAR) encode_kind(f, values, residual, blocks, out, mode, LINEAR);
    else if (f->kind == LLOYD) encode_kind(f, values, residual, blocks, out, mode, LLOYD);
    else encode_kind(f, values, residual, blocks, out, mode, SIGN);
}

static void decode(const Format *f, const uint8_t *in, const uint8_t *end, int64_t blocks, float *out, float factor,
                   int put) {
    (void)end;
    int bits = f->bits;
    if (f->kind == FP8) {
        decode_fp8_put(f, in, blocks, out, factor, put);
        return;
    }
    for (; blocks > 0; blocks--, in += bytes_of(f)) {
        float scale = load_scale(in);
        const uint8_t *p = in + SCALE_BYTES;
        for (int i = 0; i < f->block; i += 8, p += bits, out += 8) {
            uint64_t word = 0;
            for (int b = 0; b < bits; b++) word |= (uint64_t)p[b] << (8 * b);
            for (int j = 0; j < 8; j++, word >>= bits) {
                float value;
                if (f->kind == LINEAR) value = (float)((int32_t)((uint32_t)word << (32 - bits)) >> (32 - bits)) * scale;
                else value = f->decoded[word & 3] * scale;
                value *= factor;
                out[j] = put == ADD ? out[j] + value : value;
            }
        }
    }
}

const Path lightloom_blocks_scalar = {encode, decode};
