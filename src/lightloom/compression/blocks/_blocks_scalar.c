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
    for (int i = 0; i < f->block; i++) sizes[i] = float_of(bits_of(x[i]) & 0x7FFFFFFF);
    return mean_scale(tree_sum(sizes, f->block), f->block);
}

/* Replaces eight values by their errors and returns their codes, one in `bits` bits. */
SPECIALISED uint64_t encode_eight(const Format *f, float *x, Scale s, int kind) {
    uint64_t word = 0, mask = (1u << f->bits) - 1;
    for (int i = 0; i < 8; i++) {
        float decoded;
        uint64_t code;
        if (kind == LINEAR) {
            float sum = x[i] * s.inverse + ROUNDING;
            code = bits_of(sum) & mask;
            decoded = (sum - ROUNDING) * s.scale;
        } else {
            code = x[i] < 0.0f;
            if (kind == LLOYD) code = 2 * code + (float_of(bits_of(x[i]) & 0x7FFFFFFF) > f->threshold * s.scale);
            decoded = f->decoded[code] * s.scale;
        }
        word |= code << (f->bits * i);
        x[i] -= decoded;
    }
    return word;
}

SPECIALISED void encode_kind(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode,
                             int kind) {
    float x[LARGEST_BLOCK], *rest = mode == FEEDBACK ? residual : mode == LEAVE ? values : 0;
    for (; blocks > 0; blocks--, values += f->block, out += bytes_of(f)) {
        memcpy(x, values, 4 * (size_t)f->block);
        for (int i = 0; mode == FEEDBACK && i < f->block; i++) x[i] += rest[i];
        Scale s = scale_of(f, x);
        if (!s.valid) {
            store_nan_block(f, out, rest);
        } else {
            store_scale(out, s.scale);
            uint8_t *p = out + SCALE_BYTES;
            for (int i = 0; i < f->block; i += 8, p += f->bits) {
                uint64_t word = encode_eight(f, x + i, s, kind);
                for (int b = 0; b < f->bits; b++) p[b] = (uint8_t)(word >> (8 * b));
            }
            if (rest) memcpy(rest, x, 4 * (size_t)f->block);
        }
        if (rest) rest += f->block;
    }
}

static void encode(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode) {
    if (f->kind == LINEAR) encode_kind(f, values, residual, blocks, out, mode, LINEAR);
    else if (f->kind == LLOYD) encode_kind(f, values, residual, blocks, out, mode, LLOYD);
    else encode_kind(f, values, residual, blocks, out, mode, SIGN);
}

static void decode(const Format *f, const uint8_t *in, const uint8_t *end, int64_t blocks, float *out, float factor,
                   int put) {
    (void)end;
    int bits = f->bits;
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
