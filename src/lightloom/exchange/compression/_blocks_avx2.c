/* Blocks with AVX2: 16 values at a time. */
#include "_blocks.h"

#if HAVE_AVX2_PATH

#include <immintrin.h>
#define TARGET __attribute__((target("avx2")))

static uint8_t pack_shuffle[9][16] __attribute__((aligned(16))); /* eight codes in the low bytes of 64 bits, in a row */

__attribute__((constructor)) static void build_tables(void) {
    for (int bits = 1; bits <= 8; bits++)
        for (int i = 0; i < 16; i++) pack_shuffle[bits][i] = i < 2 * bits ? (uint8_t)(8 * (i / bits) + i % bits) : 128;
}

typedef struct {
    __m256 a, b;
} Values;

SPECIALISED Values load_values(const float *values, const float *residual, int mode) {
    Values x = {_mm256_loadu_ps(values), _mm256_loadu_ps(values + 8)};
    if (mode == FEEDBACK) {
        x.a = _mm256_add_ps(x.a, _mm256_loadu_ps(residual));
        x.b = _mm256_add_ps(x.b, _mm256_loadu_ps(residual + 8));
    }
    return x;
}

SPECIALISED __m256 size_of(__m256 x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }

SPECIALISED uint32_t largest_size(const Format *f, const float *values, const float *residual, int mode) {
    __m256i largest = _mm256_setzero_si256();
    for (int i = 0; i < f->block; i += VECTOR) {
        Values x = load_values(values + i, residual + i, mode);
        __m256i size = _mm256_max_epi32(_mm256_castps_si256(size_of(x.a)), _mm256_castps_si256(size_of(x.b)));
        largest = _mm256_max_epi32(largest, size);
    }
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4E));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(most);
}

SPECIALISED float sum_of_eight(__m256 x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* The sum by halves of sizes over their number. */
SPECIALISED float tree_sum(const Format *f, const float *values, const float *residual, int mode) {
    const __m256 share = _mm256_set1_ps(1.0f / (float)f->block);
    float sums[LARGEST_BLOCK / 2];
    int half = f->block / 2;
    for (int i = 0; i < half; i += 8) {
        __m256 x = _mm256_loadu_ps(values + i), y = _mm256_loadu_ps(values + i + half);
        if (mode == FEEDBACK) {
            x = _mm256_add_ps(x, _mm256_loadu_ps(residual + i));
            y = _mm256_add_ps(y, _mm256_loadu_ps(residual + i + half));
        }
        _mm256_storeu_ps(sums + i, _mm256_add_ps(_mm256_mul_ps(size_of(x), share), _mm256_mul_ps(size_of(y), share)));
    }
    for (half /= 2; half >= 8; half /= 2)
        for (int i = 0; i < half; i += 8)
            _mm256_storeu_ps(sums + i, _mm256_add_ps(_mm256_loadu_ps(sums + i), _mm256_loadu_ps(sums + i + half)));
    return sum_of_eight(_mm256_loadu_ps(sums));
}

/* The low bits of 16 bytes in a row: 2 `bits` bytes, then 0. */
SPECIALISED __m128i pack_codes(__m128i codes, int bits) {
    const __m128i one = _mm_set1_epi16((short)((1 << bits) - 1)), two = _mm_set1_epi32((1 << 2 * bits) - 1);
    const __m128i four = _mm_set1_epi64x((1LL << 4 * bits) - 1);
    __m128i x = _mm_and_si128(codes, _mm_set1_epi8((char)((1 << bits) - 1)));
    if (bits == 4) { /* a product with 1 and one with 16, added */
        x = _mm_maddubs_epi16(x, _mm_set1_epi16(0x1001));
        return _mm_packus_epi16(x, x);
    }
    if (bits == 2) {
        x = _mm_madd_epi16(_mm_maddubs_epi16(x, _mm_set1_epi16(0x0401)), _mm_set1_epi32(0x00100001));
        return _mm_shuffle_epi8(x, _mm_set1_epi32(0x0C080400));
    }
    if (bits == 1) return _mm_cvtsi32_si128(_mm_movemask_epi8(_mm_slli_epi16(x, 7)));
    /* Of two neighbours the upper one moves down next to the lower one: in 16 bits, then in 32, then in 64. */
    __m128i upper = _mm_srl_epi16(x, _mm_cvtsi32_si128(8 - bits));
    x = _mm_or_si128(_mm_and_si128(one, x), _mm_andnot_si128(one, upper));
    upper = _mm_srl_epi32(x, _mm_cvtsi32_si128(16 - 2 * bits));
    x = _mm_or_si128(_mm_and_si128(two, x), _mm_andnot_si128(two, upper));
    upper = _mm_srl_epi64(x, _mm_cvtsi32_si128(32 - 4 * bits));
    x = _mm_or_si128(_mm_and_si128(four, x), _mm_andnot_si128(four, upper));
    return _mm_shuffle_epi8(x, _mm_load_si128((const __m128i *)pack_shuffle[bits]));
}

/* Stores nothing behind the codes: what follows may be another thread's. */
SPECIALISED void store_codes(uint8_t *out, __m128i packed, int bits) {
    uint64_t low = (uint64_t)_mm_cvtsi128_si64(packed);
    switch (bits) {
    case 8: _mm_storeu_si128((__m128i *)out, packed); return;
    case 4: memcpy(out, &low, 8); return;
    case 3: memcpy(out, &low, 6); return;
    case 2: memcpy(out, &low, 4); return;
    case 1: memcpy(out, &low, 2); return;
    }
    uint64_t high = (uint64_t)_mm_extract_epi64(packed, 1);
    memcpy(out, &low, 8);
    memcpy(out + 8, &high, (size_t)(2 * bits - 8));
}

typedef struct {
    __m256 scale, inverse, threshold, inner, outer;
} Constants;

/* The codes of eight values in 32 bits each; their errors go to `rest`. */
SPECIALISED __m256i codes_of(__m256 x, const Constants *c, float *rest, int kind) {
    __m256i codes;
    __m256 decoded;
    if (kind == LINEAR) {
        codes = _mm256_cvtps_epi32(_mm256_mul_ps(x, c->inverse));
        decoded = _mm256_mul_ps(_mm256_cvtepi32_ps(codes), c->scale);
    } else {
        __m256 negative = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
        __m256 large = kind == LLOYD ? _mm256_cmp_ps(size_of(x), c->threshold, _CMP_GT_OQ) : _mm256_setzero_ps();
        int top = kind == LLOYD ? 2 : 1;
        codes = _mm256_or_si256(_mm256_and_si256(_mm256_castps_si256(negative), _mm256_set1_epi32(top)),
                                _mm256_srli_epi32(_mm256_castps_si256(large), 31));
        decoded = _mm256_xor_ps(_mm256_blendv_ps(c->inner, c->outer, large),
                                _mm256_and_ps(negative, _mm256_set1_ps(-0.0f)));
    }
    if (rest) _mm256_storeu_ps(rest, _mm256_sub_ps(x, decoded));
    return codes;
}

SPECIALISED Scale scale_of(const Format *f, const float *values, const float *residual, int mode, int kind, int bits) {
    if (kind == LINEAR) return linear_scale(largest_size(f, values, residual, mode), (float)((1 << (bits - 1)) - 1));
    return mean_scale(kind, tree_sum(f, values, residual, mode));
}

SPECIALISED void encode_values(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode,
                               int kind, int bits) {
    const int64_t block = f->block, residuals = mode == FEEDBACK ? block : 0;
    Scale next = {0.0f, 0.0f, 0};
    if (blocks > 0) next = scale_of(f, values, residual, mode, kind, bits);
    for (; blocks > 0; blocks--, values += block, out += bytes_of(f), residual += residuals) {
        float *rest = mode == FEEDBACK ? residual : mode == LEAVE ? values : 0;
        Scale s = next;
        /* A scale takes two divisions after the last value is seen: the next one's while this block is coded. */
        if (blocks > 1) next = scale_of(f, values + block, residual + residuals, mode, kind, bits);
        if (!s.valid) {
            store_nan_block(f, out, rest);
            continue;
        }
        store_scale(out, s.scale);
        const Constants c = {_mm256_set1_ps(s.scale), _mm256_set1_ps(s.inverse), _mm256_set1_ps(f->threshold * s.scale),
                             _mm256_set1_ps(f->decoded[0] * s.scale), _mm256_set1_ps(f->decoded[1] * s.scale)};
        uint8_t *p = out + SCALE_BYTES;
        for (int i = 0; i < f->block; i += VECTOR, p += 2 * bits) {
            Values x = load_values(values + i, residual + i, mode);
            __m256i a = codes_of(x.a, &c, rest ? rest + i : 0, kind);
            __m256i b = codes_of(x.b, &c, rest ? rest + i + 8 : 0, kind);
            __m128i low = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
            __m128i high = _mm_packs_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
            __m128i codes = _mm_packs_epi16(low, high);
            store_codes(p, bits == 8 ? codes : pack_codes(codes, bits), bits);
        }
    }
}

#include "_blocks_modes.h"

/* A streamed store does not read the line that it overwrites. */
SPECIALISED void put_values(float *out, __m256 values, int put) {
    if (put == STREAM) {
        _mm_stream_ps(out, _mm256_castps256_ps128(values));
        _mm_stream_ps(out + 4, _mm256_extractf128_ps(values, 1));
    } else {
        _mm256_storeu_ps(out, put == ADD ? _mm256_add_ps(_mm256_loadu_ps(out), values) : values);
    }
}

/* Eight codes; more than `bits` bytes are read where `end` is not near. */
SPECIALISED uint64_t load_eight(const uint8_t *in, const uint8_t *end, int bits) {
    uint64_t word = 0;
    if (end - in >= 8) memcpy(&word, in, 8);
    else for (int b = 0; b < bits; b++) word |= (uint64_t)in[b] << (8 * b);
    return word;
}

SPECIALISED void decode_values(const Format *f, const uint8_t *in, const uint8_t *end, int64_t blocks, float *out,
                               float factor, int put, int kind, int bits) {
    const __m256i place = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3), _mm256_set1_epi32(bits));
    const __m256i up = _mm256_sub_epi32(_mm256_set1_epi32(32 - bits), place);
    const __m128i down = _mm_cvtsi32_si128(32 - bits);
    const __m256 levels = _mm256_loadu_ps(f->decoded), factors = _mm256_set1_ps(factor);
    for (; blocks > 0; blocks--, in += bytes_of(f)) {
        const __m256 scale = _mm256_set1_ps(load_scale(in));
        const __m256 table = _mm256_mul_ps(_mm256_mul_ps(levels, scale), factors);
        const uint8_t *p = in + SCALE_BYTES;
        for (int i = 0; i < f->block; i += 8, p += bits, out += 8) {
            uint64_t word = load_eight(p, end, bits);
            __m256i x = _mm256_inserti128_si256(_mm256_set1_epi32((int)(uint32_t)word),
                                                _mm_set1_epi32((int)(uint32_t)(word >> (4 * bits))), 1);
            __m256 value;
            if (kind == LINEAR) {
                __m256i code = bits == 8 ? _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p))
                                         : _mm256_sra_epi32(_mm256_sllv_epi32(x, up), down);
                value = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(code), scale), factors);
            } else { /* the table repeats itself, so that bits of the next code do not matter */
                value = _mm256_permutevar8x32_ps(table, _mm256_srlv_epi32(x, place));
            }
            put_values(out, value, put);
        }
    }
    if (put == STREAM) _mm_sfence(); /* streamed stores are not ordered with what follows */
}

SPECIALISED void decode_put(const Format *f, const uint8_t *in, const uint8_t *end, int64_t blocks, float *out,
                            float factor, int put) {
    if (f->kind != LINEAR) decode_values(f, in, end, blocks, out, factor, put, LLOYD, f->bits);
    else if (f->bits == 8) decode_values(f, in, end, blocks, out, factor, put, LINEAR, 8);
    else if (f->bits == 4) decode_values(f, in, end, blocks, out, factor, put, LINEAR, 4);
    else decode_values(f, in, end, blocks, out, factor, put, LINEAR, f->bits);
}

TARGET static void decode(const Format *f, const uint8_t *in, const uint8_t *end, int64_t blocks, float *out,
                          float factor, int put) {
    if (f->kind == FP8) decode_fp8_put(f, in, blocks, out, factor, put);
    else if (put == STREAM) decode_put(f, in, end, blocks, out, factor, STREAM);
    else if (put == ADD) decode_put(f, in, end, blocks, out, factor, ADD);
    else decode_put(f, in, end, blocks, out, factor, REPLACE);
}

const Path lightloom_blocks_avx2 = {encode, decode};

#endif
