/* Blocks of float8 e4m3 in loops of which the compiler makes vectors. Included where `TARGET` is defined. */

/* The first where a condition holds, else the second; GCC makes no vectors of sums in branches. */
SPECIALISED uint32_t chosen(int condition, uint32_t first, uint32_t second) {
    uint32_t mask = 0u - (uint32_t)condition;
    return (first & mask) | (second & ~mask);
}

/* The code of |v| <= 448, to the nearest, ties to even; the bits of `v` without its sign. Below 2^-6 codes are multiples
 * of 2^-9, which the sum with 2^14 rounds to; above, 20 bits of the mantissa go. */
SPECIALISED uint32_t fp8_code(uint32_t size) {
    uint32_t rounded = (size + 0x7FFFF + ((size >> 20) & 1)) >> 20;
    uint32_t small = bits_of(float_of(size) + 0x1p14f) - bits_of(0x1p14f);
    return chosen(size < 0x3C800000, small, rounded - (120u << 3));
}

/* The value of a code without its sign, as bits: 127 is NaN, up to 7 are multiples of 2^-9. */
SPECIALISED uint32_t fp8_size(uint32_t code) {
    uint32_t small = bits_of((float)(int32_t)code * 0x1p-9f), size = (code << 20) + (120u << 23);
    return chosen(code == 127, 0x7FC00000u, chosen(code < 8, small, size));
}

SPECIALISED void encode_fp8_block(int block, float *restrict x, uint8_t *restrict codes, Scale s) {
    /* Without an inverse all codes are 0, and not those of -0 either. */
    const uint32_t all = s.inverse > 0.0f ? 0xFFFFFFFFu : 0;
    for (int i = 0; i < block; i++) {
        uint32_t scaled = bits_of(x[i] * s.inverse) & all, sign = scaled & 0x80000000u;
        uint32_t code = fp8_code(scaled & 0x7FFFFFFFu);
        codes[i] = (uint8_t)(code | sign >> 24);
        x[i] -= float_of(fp8_size(code) | sign) * s.scale;
    }
}

SPECIALISED void encode_fp8(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode) {
    const int block = f->block; /* a constant: bytes that are stored might else change it */
    float x[LARGEST_BLOCK], *rest = mode == FEEDBACK ? residual : mode == LEAVE ? values : 0;
    for (; blocks > 0; blocks--, values += block, out += SCALE_BYTES + block) {
        uint32_t largest = 0;
        for (int i = 0; i < block; i++) {
            x[i] = mode == FEEDBACK ? values[i] + rest[i] : values[i];
            uint32_t size = bits_of(x[i]) & 0x7FFFFFFF;
            largest = size > largest ? size : largest;
        }
        Scale s = linear_scale(largest, 448.0f);
        if (!s.valid) {
            store_nan_block(f, out, rest);
        } else {
            store_scale(out, s.scale);
            encode_fp8_block(block, x, out + SCALE_BYTES, s);
            if (rest) memcpy(rest, x, 4 * (size_t)block);
        }
        if (rest) rest += block;
    }
}

SPECIALISED void decode_fp8(int block, const uint8_t *restrict in, int64_t blocks, float *restrict out, float factor,
                            int add) {
    for (; blocks > 0; blocks--, in += SCALE_BYTES + block, out += block) {
        const float scale = load_scale(in);
        const uint8_t *codes = in + SCALE_BYTES;
        for (int i = 0; i < block; i++) {
            uint32_t code = codes[i];
            float value = float_of(fp8_size(code & 127) | (code & 128u) << 24) * scale * factor;
            out[i] = add ? out[i] + value : value;
        }
    }
}

TARGET static void encode_fp8_mode(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out,
                                   int mode) {
    if (mode == FEEDBACK) encode_fp8(f, values, residual, blocks, out, FEEDBACK);
    else if (mode == LEAVE) encode_fp8(f, values, residual, blocks, out, LEAVE);
    else encode_fp8(f, values, residual, blocks, out, PLAIN);
}

TARGET static void decode_fp8_put(const Format *f, const uint8_t *in, int64_t blocks, float *out, float factor,
                                  int put) {
    if (put == ADD) decode_fp8(f->block, in, blocks, out, factor, 1);
    else decode_fp8(f->block, in, blocks, out, factor, 0);
}
