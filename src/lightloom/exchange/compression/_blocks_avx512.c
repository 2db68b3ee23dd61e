/* Blocks with AVX-512 (VBMI): 16 values at a time. */
#include "_blocks.h"

#if HAVE_AVX512_PATH

#include <immintrin.h>
#define TARGET __attribute__((target("avx2,bmi2,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")))

enum { AHEAD = 1024 }; /* bytes to prefetch */

static uint8_t pack_shuffle[9][16] __attribute__((aligned(16)));   /* low bytes of two times 64 bits -> in a row */
static uint8_t unpack_shuffle[9][16] __attribute__((aligned(16))); /* and back */
static uint8_t windows[9][16] __attribute__((aligned(16)));        /* first bits of eight codes in 64 bits, twice */
static uint8_t lanes[5][64] __attribute__((aligned(64)));          /* first bits of 16 codes in 64 bits, one a lane */

__attribute__((constructor)) static void build_tables(void) {
    for (int bits = 1; bits <= 8; bits++)
        for (int i = 0; i < 16; i++) {
            pack_shuffle[bits][i] = i < 2 * bits ? (uint8_t)(8 * (i / bits) + i % bits) : 128;
            unpack_shuffle[bits][i] = i % 8 < bits ? (uint8_t)(bits * (i / 8) + i % 8) : 128;
            windows[bits][i] = (uint8_t)(bits * (i % 8));
            if (bits <= 4) lanes[bits][4 * i] = (uint8_t)(bits * i);
        }
}

SPECIALISED __m512 load_values(const float *values, const float *residual, int mode) {
    __m512 x = _mm512_loadu_ps(values);
    return mode == FEEDBACK ? _mm512_add_ps(x, _mm512_loadu_ps(residual)) : x;
}

SPECIALISED uint32_t largest_size(const Format *f, const float *values, const float *residual, int mode) {
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i largest = _mm512_setzero_si512();
    for (int i = 0; i < f->block; i += VECTOR) {
        __m512i x = _mm512_castps_si512(load_values(values + i, residual + i, mode));
        largest = _mm512_max_epi32(largest, _mm512_and_si512(x, magnitude));
    }
    return (uint32_t)_mm512_reduce_max_epi32(largest);
}

SPECIALISED float sum_of_sixteen(__m512 x) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* Sizes over the number of values of a block. */
SPECIALISED __m512 shares_of(const float *values, const float *residual, int mode, __m512 share) {
    return _mm512_mul_ps(_mm512_abs_ps(load_values(values, residual, mode)), share);
}

/* Those at i of the four quarters of a block, added by halves. */
SPECIALISED __m512 shares_of_quarters(const float *values, const float *residual, int quarter, int mode, __m512 share) {
    __m512 x[4];
    for (int i = 0; i < 4; i++) x[i] = shares_of(values + i * quarter, residual + i * quarter, mode, share);
    return _mm512_add_ps(_mm512_add_ps(x[0], x[2]), _mm512_add_ps(x[1], x[3]));
}

SPECIALISED float tree_sum(const Format *f, const float *values, const float *residual, int mode) {
    const __m512 share = _mm512_set1_ps(1.0f / (float)f->block);
    if (f->block == VECTOR) return sum_of_sixteen(shares_of(values, residual, mode, share));
    if (f->block == 2 * VECTOR)
        return sum_of_sixteen(_mm512_add_ps(shares_of(values, residual, mode, share),
                                            shares_of(values + VECTOR, residual + VECTOR, mode, share)));
    int width = f->block / 4;
    if (width == VECTOR) return sum_of_sixteen(shares_of_quarters(values, residual, width, mode, share));
    float sums[LARGEST_BLOCK / 4];
    for (int i = 0; i < width; i += VECTOR)
        _mm512_storeu_ps(sums + i, shares_of_quarters(values + i, residual + i, width, mode, share));
    for (width /= 2; width >= VECTOR; width /= 2)
        for (int i = 0; i < width; i += VECTOR)
            _mm512_storeu_ps(sums + i, _mm512_add_ps(_mm512_loadu_ps(sums + i), _mm512_loadu_ps(sums + i + width)));
    return sum_of_sixteen(_mm512_loadu_ps(sums));
}

SPECIALISED Scale scale_of(const Format *f, const float *values, const float *residual, int mode, int kind, int bits) {
    for (int i = 0; i < f->block; i += VECTOR) {
        _mm_prefetch((const char *)(values + i) + AHEAD, _MM_HINT_T0);
        if (mode == FEEDBACK) _mm_prefetch((const char *)(residual + i) + AHEAD, _MM_HINT_T0);
    }
    if (kind == LINEAR) return linear_scale(largest_size(f, values, residual, mode), (float)((1 << (bits - 1)) - 1));
    return mean_scale(kind, tree_sum(f, values, residual, mode));
}

typedef struct {
    __m512 scale, inverse, threshold, inner, outer;
    __m128i one, two, four; /* the low codes of pairs */
    __m128i down16, down32, down64;
    __m128i shuffle;
    __mmask16 bytes;
} Constants;

TARGET static Constants packing(int bits) {
    Constants c;
    c.one = _mm_set1_epi16((short)((1 << bits) - 1));
    c.two = _mm_set1_epi32((1 << 2 * bits) - 1);
    c.four = _mm_set1_epi64x((1LL << 4 * bits) - 1);
    c.down16 = _mm_cvtsi32_si128(8 - bits);
    c.down32 = _mm_cvtsi32_si128(16 - 2 * bits);
    c.down64 = _mm_cvtsi32_si128(32 - 4 * bits);
    c.shuffle = _mm_load_si128((const __m128i *)pack_shuffle[bits]);
    c.bytes = (__mmask16)((1u << 2 * bits) - 1);
    return c;
}

/* Of two neighbours the upper code moves down next to the lower one: in 16 bits, then in 32, then in 64. */
SPECIALISED void store_linear(uint8_t *out, __m512i codes, const Constants *c, int bits) {
    __m128i x = _mm512_cvtepi32_epi8(codes);
    if (bits == 8) {
        _mm_storeu_si128((__m128i *)out, x);
        return;
    }
    const __m128i mask = _mm_set1_epi8((char)((1 << bits) - 1));
    x = _mm_and_si128(x, mask);
    if (bits == 4) { /* a product with 1 and one with 16, added */
        x = _mm_maddubs_epi16(x, _mm_set1_epi16(0x1001));
        _mm_storel_epi64((__m128i *)out, _mm_packus_epi16(x, x));
        return;
    }
    x = _mm_ternarylogic_epi32(c->one, x, _mm_srl_epi16(x, c->down16), 0xCA); /* where one, x, else the other */
    x = _mm_ternarylogic_epi32(c->two, x, _mm_srl_epi32(x, c->down32), 0xCA);
    x = _mm_ternarylogic_epi32(c->four, x, _mm_srl_epi64(x, c->down64), 0xCA);
    /* Nothing behind: it may be another thread's. */
    _mm_mask_storeu_epi8(out, c->bytes, _mm_shuffle_epi8(x, c->shuffle));
}

SPECIALISED void encode_vector(__m512 x, const Constants *c, uint8_t *out, float *rest, int kind,
                               int bits) {
    __m512 decoded;
    if (kind == LINEAR) {
        __m512i codes =
            _mm512_cvt_roundps_epi32(_mm512_mul_ps(x, c->inverse), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        store_linear(out, codes, c, bits);
        decoded = _mm512_mul_ps(_mm512_cvtepi32_ps(codes), c->scale);
    } else {
        __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), large = 0;
        if (kind == LLOYD) {
            large = _mm512_cmp_ps_mask(_mm512_abs_ps(x), c->threshold, _CMP_GT_OQ);
            uint32_t word = _pdep_u32(large, 0x55555555) | _pdep_u32(negative, 0xAAAAAAAA);
            memcpy(out, &word, 4);
        } else {
            uint16_t word = (uint16_t)negative;
            memcpy(out, &word, 2);
        }
        decoded = _mm512_mask_blend_ps(large, c->inner, c->outer);
        decoded = _mm512_mask_xor_ps(decoded, negative, decoded, _mm512_set1_ps(-0.0f));
    }
    if (rest) _mm512_storeu_ps(rest, _mm512_sub_ps(x, decoded));
}

SPECIALISED void encode_values(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode,
                               int kind, int bits) {
    Constants c = packing(bits);
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
        c.scale = _mm512_set1_ps(s.scale);
        c.inverse = _mm512_set1_ps(s.inverse);
        c.threshold = _mm512_set1_ps(f->threshold * s.scale);
        c.inner = _mm512_set1_ps(f->decoded[0] * s.scale);
        c.outer = _mm512_set1_ps(f->decoded[1] * s.scale);
        uint8_t *p = out + SCALE_BYTES;
        for (int i = 0; i < f->block; i += VECTOR, p += 2 * bits)
            encode_vector(load_values(values + i, residual + i, mode), &c, p, rest ? rest + i : 0, kind, bits);
    }
}

#include "_blocks_modes.h"

/* A streamed store does not read the line that it overwrites; `out` is aligned to 16 bytes then. */
SPECIALISED void put_values(float *out, __m512 values, int put) {
    if (put == STREAM && (uintptr_t)out % 64 == 0) {
        _mm512_stream_ps(out, values);
    } else if (put == STREAM) {
        _mm_stream_ps(out, _mm512_castps512_ps128(values));
        _mm_stream_ps(out + 4, _mm512_extractf32x4_ps(values, 1));
        _mm_stream_ps(out + 8, _mm512_extractf32x4_ps(values, 2));
        _mm_stream_ps(out + 12, _mm512_extractf32x4_ps(values, 3));
    } else {
        _mm512_storeu_ps(out, put == ADD ? _mm512_add_ps(_mm512_loadu_ps(out), values) : values);
    }
}

/* Codes of up to 4 bits are looked up: the table repeats itself, so that bits of the next code do not matter. */
SPECIALISED void decode_narrow(const Format *f, const uint8_t *in, int64_t blocks, float *out, float factor, int put) {
    const __m512i place = _mm512_load_si512(lanes[f->bits]);
    const __m512 levels = _mm512_loadu_ps(f->decoded);
    const __mmask16 bytes = (__mmask16)((1u << 2 * f->bits) - 1);
    for (; blocks > 0; blocks--, in += bytes_of(f)) {
        __m512 table = _mm512_mul_ps(levels, _mm512_set1_ps(load_scale(in)));
        table = _mm512_mul_ps(table, _mm512_set1_ps(factor));
        const uint8_t *p = in + SCALE_BYTES;
        for (int i = 0; i < f->block; i += VECTOR, p += 2 * f->bits, out += VECTOR) {
            __m512i word = _mm512_broadcastq_epi64(_mm_maskz_loadu_epi8(bytes, p));
            put_values(out, _mm512_permutexvar_ps(_mm512_multishift_epi64_epi8(place, word), table), put);
        }
    }
}

SPECIALISED void decode_wide(const Format *f, const uint8_t *in, int64_t blocks, float *out, float factor, int put,
                             int bits) {
    const __m128i shuffle = _mm_load_si128((const __m128i *)unpack_shuffle[bits]);
    const __m128i window = _mm_load_si128((const __m128i *)windows[bits]), spare = _mm_cvtsi32_si128(32 - bits);
    const __mmask16 bytes = (__mmask16)((1u << 2 * bits) - 1);
    const __m512 factors = _mm512_set1_ps(factor);
    for (; blocks > 0; blocks--, in += bytes_of(f)) {
        const __m512 scale = _mm512_set1_ps(load_scale(in));
        const uint8_t *p = in + SCALE_BYTES;
        for (int i = 0; i < f->block; i += VECTOR, p += 2 * bits, out += VECTOR) {
            __m512i codes;
            if (bits == 8) {
                codes = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p));
            } else {
                __m128i x = _mm_shuffle_epi8(_mm_maskz_loadu_epi8(bytes, p), shuffle);
                codes = _mm512_cvtepu8_epi32(_mm_multishift_epi64_epi8(window, x));
                codes = _mm512_sra_epi32(_mm512_sll_epi32(codes, spare), spare);
            }
            put_values(out, _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(codes), scale), factors), put);
        }
    }
}

SPECIALISED void decode_put(const Format *f, const uint8_t *in, int64_t blocks, float *out, float factor, int put) {
    if (f->bits <= 4) decode_narrow(f, in, blocks, out, factor, put);
    else if (f->bits == 8) decode_wide(f, in, blocks, out, factor, put, 8);
    else decode_wide(f, in, blocks, out, factor, put, f->bits);
    if (put == STREAM) _mm_sfence(); /* streamed stores are not ordered with what follows */
}

TARGET static void decode(const Format *f, const uint8_t *in, const uint8_t *end, int64_t blocks, float *out,
                          float factor, int put) {
    (void)end;
    if (f->kind == FP8) decode_fp8_put(f, in, blocks, out, factor, put);
    else if (put == STREAM) decode_put(f, in, blocks, out, factor, STREAM);
    else if (put == ADD) decode_put(f, in, blocks, out, factor, ADD);
    else decode_put(f, in, blocks, out, factor, REPLACE);
}

const Path lightloom_blocks_avx512 = {encode, decode};

#endif
