/* The codec with AVX2: four values a byte shuffle, eight a group. */
#include "_inceptionn.h"

#if HAVE_AVX2_PATH

#include <immintrin.h>
#define TARGET __attribute__((target("avx2")))

enum { AHEAD = 2048 }; /* bytes to prefetch ahead: a third faster than the hardware alone on vectors out of cache */

static uint8_t length_of[256];
static uint8_t pack_shuffle[256][16] __attribute__((aligned(64)));   /* four 32-bit lanes -> their bytes in a row */
static uint8_t unpack_shuffle[256][16] __attribute__((aligned(64))); /* codes to the top of their lanes */

__attribute__((constructor)) static void build_tables(void) {
    for (int tags = 0; tags < 256; tags++) {
        int at = 0;
        memset(pack_shuffle[tags], 128, 16);
        memset(unpack_shuffle[tags], 128, 16);
        for (int lane = 0; lane < 4; lane++) {
            int n = code_length[(tags >> (2 * lane)) & 3];
            for (int b = 0; b < n; b++, at++) {
                pack_shuffle[tags][at] = (uint8_t)(4 * lane + b);
                unpack_shuffle[tags][4 * lane + 4 - n + b] = (uint8_t)at;
            }
        }
        length_of[tags] = (uint8_t)at;
    }
}

/* Integer comparison of the bits of |f| orders as |f| does; NaN and Inf lie above one and stay raw. */
TARGET static inline unsigned group_codes(__m256i x, __m256i low, __m256i middle, __m256 scale8, __m256 step8,
                                        __m256i *codes, uint32_t *leave) {
    const __m256i sign = _mm256_set1_epi32((int)0x80000000u);
    __m256i size = _mm256_andnot_si256(sign, x);
    __m256i coded = _mm256_cmpgt_epi32(size, low), wide = _mm256_cmpgt_epi32(size, middle);
    __m256i raw = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x3F7FFFFF));
    __m256 scale = _mm256_blendv_ps(scale8, _mm256_set1_ps(0x1p15f), _mm256_castsi256_ps(wide));
    __m256i places = _mm256_add_epi32(_mm256_set1_epi32(24), _mm256_slli_epi32(wide, 3)); /* the sign goes down by */
    __m256i whole = _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(size), scale));
    __m256i code = _mm256_or_si256(whole, _mm256_srlv_epi32(_mm256_and_si256(x, sign), places));
    *codes = _mm256_blendv_epi8(code, x, raw);
    __m256i bit0 = _mm256_xor_si256(_mm256_xor_si256(coded, wide), raw); /* 01 and 11; bit 1 is `wide` */
    __m256i pair = _mm256_blendv_epi8(wide, bit0, _mm256_set1_epi32(0xFF));
    __m128i packed = _mm_packs_epi32(_mm256_castsi256_si128(pair), _mm256_extracti128_si256(pair, 1));
    if (leave) {
        __m256 unit = _mm256_blendv_ps(step8, _mm256_set1_ps(0x1p-15f), _mm256_castsi256_ps(wide));
        __m256 decoded = _mm256_or_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(whole), unit),
                                      _mm256_castsi256_ps(_mm256_and_si256(x, sign)));
        __m256 loss = _mm256_sub_ps(_mm256_castsi256_ps(x), decoded);
        __m256i kept = _mm256_blendv_epi8(x, _mm256_andnot_si256(raw, _mm256_castps_si256(loss)), coded);
        _mm256_storeu_si256((__m256i *)leave, kept);
    }
    return (unsigned)_mm_movemask_epi8(packed);
}

TARGET static inline uint8_t *store_group(uint8_t *p, unsigned tags, __m256i codes) {
    unsigned low = tags & 255, high = tags >> 8;
    uint16_t both = (uint16_t)tags;
    memcpy(p, &both, 2);
    p += 2;
    _mm_storeu_si128((__m128i *)p, _mm_shuffle_epi8(_mm256_castsi256_si128(codes),
                                                    _mm_load_si128((const __m128i *)pack_shuffle[low])));
    p += length_of[low];
    _mm_storeu_si128((__m128i *)p, _mm_shuffle_epi8(_mm256_extracti128_si256(codes, 1),
                                                    _mm_load_si128((const __m128i *)pack_shuffle[high])));
    return p + length_of[high];
}

TARGET static inline __m256i load_group(const uint32_t *values) {
    return _mm256_loadu_si256((const __m256i *)values);
}

SPECIALISED uint8_t *encode_values(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave) {
    const __m256i low = _mm256_set1_epi32(((127 - bound) << 23) - 1);
    const __m256i middle = _mm256_set1_epi32(((127 - bound / 2) << 23) - 1);
    const __m256 scale8 = _mm256_set1_ps((float)(1 << width)), step8 = _mm256_set1_ps(1.0f / (float)(1 << width));
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    for (; n >= 4 * GROUP; n -= 4 * GROUP, values += 4 * GROUP) {
        _mm_prefetch((const char *)values + AHEAD, _MM_HINT_T0);
        _mm_prefetch((const char *)values + AHEAD + 64, _MM_HINT_T0);
        __m256i a = load_group(values), b = load_group(values + 8), c = load_group(values + 16),
                d = load_group(values + 24);
        __m256i either = _mm256_max_epu32(
            _mm256_max_epu32(_mm256_and_si256(a, magnitude), _mm256_and_si256(b, magnitude)),
            _mm256_max_epu32(_mm256_and_si256(c, magnitude), _mm256_and_si256(d, magnitude)));
        __m256i any = _mm256_cmpgt_epi32(either, low);
        if (_mm256_testz_si256(any, any)) {
            memset(out, 0, 8);
            out += 8;
            continue;
        }
        __m256i ca, cb, cc, cd;
        uint32_t *la = leave ? values : 0, *lb = leave ? values + 8 : 0;
        uint32_t *lc = leave ? values + 16 : 0, *ld = leave ? values + 24 : 0;
        unsigned ta = group_codes(a, low, middle, scale8, step8, &ca, la);
        unsigned tb = group_codes(b, low, middle, scale8, step8, &cb, lb);
        unsigned tc = group_codes(c, low, middle, scale8, step8, &cc, lc);
        unsigned td = group_codes(d, low, middle, scale8, step8, &cd, ld);
        out = store_group(out, ta, ca);
        out = store_group(out, tb, cb);
        out = store_group(out, tc, cc);
        out = store_group(out, td, cd);
    }
    return lightloom_scalar.encode(values, n, out, bound, width, leave);
}

TARGET static uint8_t *encode(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave) {
    return leave ? encode_values(values, n, out, bound, width, 1) : encode_values(values, n, out, bound, width, 0);
}

/* A streamed store does not read the line that it overwrites: twice as fast on vectors out of cache. */
SPECIALISED void put_values(uint32_t *out, __m256 values, int put) {
    if (put == STREAM) {
        _mm_stream_ps((float *)out, _mm256_castps256_ps128(values));
        _mm_stream_ps((float *)out + 4, _mm256_extractf128_ps(values, 1));
    } else {
        _mm256_storeu_ps((float *)out, values);
    }
}

/* Needs eight values to come and 34 readable bytes. Codes sit at the top of their lanes: value = code 2^-(24+w). */
SPECIALISED void step(Cursor *c, __m256 scales, int put) {
    const __m256i shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    const __m256 raws = _mm256_castsi256_ps(_mm256_setr_epi32(0, 0, 0, -1, 0, 0, 0, -1));
    const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
    uint16_t tags;
    memcpy(&tags, c->p, 2);
    unsigned low = tags & 255, high = tags >> 8;
    const uint8_t *p = c->p + 2, *q = p + length_of[low];
    c->p = q + length_of[high];
    __m128i first = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p),
                                     _mm_load_si128((const __m128i *)unpack_shuffle[low]));
    __m128i second = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)q),
                                      _mm_load_si128((const __m128i *)unpack_shuffle[high]));
    __m256i x = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
    __m256i tag = _mm256_srlv_epi32(_mm256_set1_epi32(tags), shifts); /* permutevar reads the low two bits */
    __m256 value = _mm256_cvtepi32_ps(_mm256_sign_epi32(_mm256_and_si256(x, magnitude), x));
    value = _mm256_mul_ps(value, _mm256_permutevar_ps(scales, tag));
    value = _mm256_blendv_ps(value, _mm256_castsi256_ps(x), _mm256_permutevar_ps(raws, tag));
    if (put == ADD) { /* -0 for tag 0, as x + -0 is x, bit for bit */
        const __m256 zeros = _mm256_setr_ps(-0.0f, 0, 0, 0, -0.0f, 0, 0, 0);
        value = _mm256_add_ps(_mm256_loadu_ps((const float *)c->out),
                              _mm256_or_ps(value, _mm256_permutevar_ps(zeros, tag)));
    }
    put_values(c->out, value, put);
    c->out += GROUP;
    c->left -= GROUP;
}

SPECIALISED void decode_row(Cursor *c, __m256 scales, int put) {
    for (int i = 0; i < 4; i++) step(c, scales, put);
}

SPECIALISED void skip_row(Cursor *c, int put) {
    for (int i = 0; put != ADD && i < 4; i++) put_values(c->out + i * GROUP, _mm256_setzero_ps(), put);
    c->out += 4 * GROUP;
    c->left -= 4 * GROUP;
    c->p += 8;
}

SPECIALISED __m256 scales_of(float step8) {
    return _mm256_setr_ps(0, step8 * 0x1p-24f, 0x1p-31f, 0, 0, step8 * 0x1p-24f, 0x1p-31f, 0);
}

/* Where a group ends is known only from its tag, so one frame is a chain of dependent loads: several go side by
 * side. */
SPECIALISED void advance_abreast(Cursor *frames, int abreast, int64_t ahead, float step8, int put) {
    const __m256 scales = scales_of(step8);
    Cursor c[MOST_ABREAST];
    for (int i = 0; i < abreast; i++) c[i] = frames[i];
    for (int64_t rows; (rows = safe_rows(c, abreast)) > 0;)
        for (; rows > 0; rows--)
            for (int i = 0; i < abreast; i++) {
                _mm_prefetch((const char *)c[i].p + ahead, _MM_HINT_T0);
                if (load64(c[i].p) == 0)
                    skip_row(&c[i], put);
                else
                    decode_row(&c[i], scales, put);
            }
    for (int i = 0; i < abreast; i++) frames[i] = c[i];
}

DEFINE_ADVANCE(advance_one, 1)
DEFINE_ADVANCE(advance_two, 2)

TARGET static void advance(Cursor *frames, int abreast, int64_t ahead, float step8, int put) {
    /* Every row of streamed stores costs; where most groups are empty, the chain of loads costs less. */
    int apart = put == STREAM && 3 * ahead < frames[0].left * abreast;
    if (abreast == 2 && !apart) advance_two(frames, ahead, step8, put);
    for (int i = 0; i < abreast; i++) advance_one(&frames[i], ahead, step8, put);
    if (put == STREAM) _mm_sfence(); /* streamed stores are not ordered with what follows */
}

TARGET static int decode(Cursor *c, float step8, int add) {
    const __m256 scales = scales_of(step8);
    advance_one(c, 0, step8, add ? ADD : REPLACE);
    while (c->left >= GROUP && c->end - c->p >= LARGEST_GROUP) add ? step(c, scales, ADD) : step(c, scales, REPLACE);
    return lightloom_scalar.decode(c, step8, add);
}

const Path lightloom_avx2 = {2, encode, advance, decode};

#endif
