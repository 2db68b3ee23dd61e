/* The codec with AVX-512 (VBMI2): 32 values at a time where none takes more than eight bits, as in most rows of most
 * gradients.
 *
 * Such a narrow row is four groups of two bytes of tags and eight of codes, 40 bytes less the codes of dropped values:
 * one byte compression writes it, and one byte expansion reads it.
 */
#include "_inceptionn.h"

#if HAVE_AVX512_PATH

#include <immintrin.h>
#define TARGET __attribute__((target("avx2,bmi2,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,prfchw")))

/* Bytes to prefetch ahead, into the second cache and the first: a fifth faster on vectors out of cache. */
enum { FAR = 8192, NEAR = 1024 };

enum { SAMPLE = 64 }; /* groups */
enum { WIDE_RUN = 16 }; /* rows: where one is wide, the next ones probably are, and trying them as narrow ones costs */

static const uint64_t LOW_BITS = 0x5555555555555555ULL; /* of tags */
static const uint64_t TAG_BYTES = 0x00C0300C03ULL, CODE_BYTES = 0xFF3FCFF3FCULL; /* of the 40 bytes */
static const uint64_t UPPER_BYTES = 0xCCCCCCCCCCCCCCCCULL; /* bytes 2 and 3 of 16 lanes */

static uint8_t code_from[64] __attribute__((aligned(64)));    /* the 40 bytes: codes from byte 0 of 32 lanes */
static uint8_t tag_from[64] __attribute__((aligned(64)));     /* the 40 bytes: tags from eight bytes in a row */
static uint8_t lane_from[2][64] __attribute__((aligned(64))); /* bytes 2 and 3 of 16 lanes: codes from the 40 bytes */

__attribute__((constructor)) static void build_tables(void) {
    for (int i = 0; i < ROW; i++) {
        int at = 10 * (i / GROUP) + 2 + i % GROUP;
        code_from[at] = (uint8_t)(4 * i);
        lane_from[i / 16][4 * (i % 16) + 2] = lane_from[i / 16][4 * (i % 16) + 3] = (uint8_t)at;
    }
    for (int i = 0; i < 8; i++) tag_from[10 * (i / 2) + i % 2] = (uint8_t)i;
}

SPECIALISED __m512i with_sign_of(__m512i size, __m512i x, __m512i signs) {
    return _mm512_ternarylogic_epi32(size, x, signs, 0xF8); /* size | x & signs */
}

/* What the codes in the low bits of `sums` lack. */
SPECIALISED void leave_half(uint32_t *values, __m512i x, __m512 sums, __m512 base, __mmask16 coded) {
    __m512i size = _mm512_castps_si512(_mm512_sub_ps(sums, base));
    __m512 decoded = _mm512_castsi512_ps(with_sign_of(size, x, _mm512_set1_epi32((int)0x80000000u)));
    _mm512_mask_storeu_ps(values, coded, _mm512_sub_ps(_mm512_castsi512_ps(x), decoded));
}

SPECIALISED uint8_t *encode_values(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave) {
    const __m512i low = _mm512_set1_epi32(((127 - bound) << 23) - 1);
    const __m512i middle = _mm512_set1_epi32(((127 - bound / 2) << 23) - 1);
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF), signs = _mm512_set1_epi8((char)0x80);
    const __m512i bottoms = _mm512_load_si512(code_from), tops = _mm512_or_si512(bottoms, _mm512_set1_epi8(3));
    const __m512i tag_places = _mm512_load_si512(tag_from);
    /* 2^(23-w) + |f|, rounded towards zero, ends in the bits of trunc(|f| 2^w). */
    const __m512 base = _mm512_set1_ps((float)(1 << 23) / (float)(1 << width));
    for (int64_t taken; n >= ROW; n -= taken, values += taken) {
        taken = ROW;
        for (int line = 0; line < 128; line += 64) {
            _mm_prefetch((const char *)values + FAR + line, _MM_HINT_T1);
            _mm_prefetch((const char *)values + NEAR + line, _MM_HINT_T0);
        }
        __builtin_prefetch(out + NEAR, 1);
        __m512i a = _mm512_loadu_si512(values), b = _mm512_loadu_si512(values + 16);
        __m512i size_a = _mm512_and_si512(a, magnitude), size_b = _mm512_and_si512(b, magnitude);
        __mmask16 coded_a = _mm512_cmpgt_epi32_mask(size_a, low), coded_b = _mm512_cmpgt_epi32_mask(size_b, low);
        uint32_t coded = (uint32_t)coded_a | (uint32_t)coded_b << 16;
        if (coded == 0) {
            memset(out, 0, 8);
            out += 8;
            continue;
        }
        if (_mm512_cmpgt_epi32_mask(_mm512_max_epi32(size_a, size_b), middle)) {
            taken = smaller(n / ROW, WIDE_RUN) * ROW;
            out = lightloom_avx2.encode(values, taken, out, bound, width, leave);
            continue;
        }
        __m512 sums_a = _mm512_add_round_ps(_mm512_castsi512_ps(size_a), base, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
        __m512 sums_b = _mm512_add_round_ps(_mm512_castsi512_ps(size_b), base, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
        __m512i row = _mm512_permutex2var_epi8(_mm512_castps_si512(sums_a), bottoms, _mm512_castps_si512(sums_b));
        row = with_sign_of(row, _mm512_permutex2var_epi8(a, tops, b), signs);
        __m512i tags = _mm512_castsi128_si512(_mm_cvtsi64_si128((long long)_pdep_u64(coded, LOW_BITS)));
        row = _mm512_mask_permutexvar_epi8(row, TAG_BYTES, tag_places, tags);
        _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(TAG_BYTES | _pdep_u64(coded, CODE_BYTES), row));
        out += 8 + _mm_popcnt_u32(coded);
        if (leave) {
            leave_half(values, a, sums_a, base, coded_a);
            leave_half(values + 16, b, sums_b, base, coded_b);
        }
    }
    return lightloom_avx2.encode(values, n, out, bound, width, leave);
}

TARGET static uint8_t *encode(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave) {
    return leave ? encode_values(values, n, out, bound, width, 1) : encode_values(values, n, out, bound, width, 0);
}

static inline uint64_t load16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return v; }

/* Apart from the expansion, which is slow with an operand in memory. */
SPECIALISED __m512i load_row(const uint8_t *p) {
    __m512i x = _mm512_loadu_si512(p);
    __asm__("" : "+v"(x));
    return x;
}

/* Codes in bytes 2 and 3 of their lanes: +-2^e (1 + m / 128) less +-2^e is exact, and +0 where m is 0. */
SPECIALISED __m512 narrow_values(__m512i codes, __m512i base) {
    __m512i sums = _mm512_ternarylogic_epi32(codes, _mm512_set1_epi32((int)0x807F0000u), base, 0xEA); /* a & b | c */
    __m512i bases = _mm512_ternarylogic_epi32(codes, _mm512_set1_epi32((int)0x80000000u), base, 0xEA);
    return _mm512_sub_ps(_mm512_castsi512_ps(sums), _mm512_castsi512_ps(bases));
}

/* Where the values of a frame go. Streamed stores pay only as whole lines, so what does not fill one is held back. */
typedef struct {
    __m512 held;   /* the 16 values before `out` */
    __m512i joins; /* which of them and of those from `out` on are a line */
    int64_t past;  /* how many of them are */
} Line;

SPECIALISED void put_half(uint32_t *out, __m512 values, __mmask16 coded, Line *line, int put) {
    if (put == STREAM) {
        _mm512_stream_ps((float *)(out - line->past), _mm512_permutex2var_ps(line->held, line->joins, values));
        line->held = values;
    } else if (put == ADD) {
        __m512 before = _mm512_loadu_ps(out);
        _mm512_storeu_ps(out, _mm512_mask_add_ps(before, coded, before, values));
    } else {
        _mm512_storeu_ps(out, values);
    }
}

typedef struct {
    __m512i base;
    __m512i places[2];
    __m256 scales;
} Constants;

/* Needs 34 readable bytes. Codes go to the top of their lanes: value = code 2^-(24+w). Which of the values have one
 * comes into `coded` from above. */
SPECIALISED __m256 decode_group(const uint8_t **p, uint32_t *coded, __m256 scales) {
    const __m256i shifts = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    uint32_t tags = (uint32_t)load16(*p), pairs = _pdep_u32(tags, 0x33333333);
    uint32_t wide = pairs >> 1 & 0x11111111, raw = pairs & wide;
    uint32_t bytes = ((pairs | wide) & 0x11111111) << 3 | wide << 2 | raw << 1 | raw;
    __m256i x = _mm256_loadu_si256((const __m256i *)(*p + 2));
    __asm__("" : "+v"(x)); /* as in load_row */
    x = _mm256_maskz_expand_epi8(bytes, x);
    __m256i tag = _mm256_srlv_epi32(_mm256_set1_epi32((int)tags), shifts); /* permutevar reads the low two bits */
    __m256 values = _mm256_cvtepi32_ps(_mm256_sign_epi32(_mm256_and_si256(x, _mm256_set1_epi32(0x7FFFFFFF)), x));
    values = _mm256_mul_ps(values, _mm256_permutevar_ps(scales, tag));
    values = _mm256_mask_mov_ps(values, (__mmask8)_pext_u32(raw, 0x11111111), _mm256_castsi256_ps(x));
    *p += 2 + _mm_popcnt_u32(bytes);
    *coded = *coded >> GROUP | _pext_u32(tags | tags >> 1, 0x5555) << (ROW - GROUP);
    return values;
}

/* Returns which values have a code. */
SPECIALISED uint32_t decode_wide_row(Cursor *c, const Constants *k, __m512 *halves) {
    uint32_t coded = 0;
    for (int i = 0; i < 2; i++) {
        __m256 first = decode_group(&c->p, &coded, k->scales), second = decode_group(&c->p, &coded, k->scales);
        halves[i] = _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(first)),
                                                        _mm256_castps_pd(second), 1));
    }
    return coded;
}

/* Needs 32 values to come and 136 readable bytes. */
SPECIALISED void decode_row(Cursor *c, const Constants *k, Line *line, int put) {
    const uint8_t *p = c->p;
    __m512 halves[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    uint32_t coded = 0;
    if (load64(p) == 0) {
        c->p += 8;
    } else {
        uint64_t tags = 0;
        for (int i = 0; i < 4; i++) {
            uint64_t tag = load16(p);
            tags |= tag << (16 * i);
            p += 2 + _mm_popcnt_u64(tag);
        }
        if (__builtin_expect((tags & ~LOW_BITS) == 0, 1)) {
            coded = (uint32_t)_pext_u64(tags, LOW_BITS);
            __m512i row = _mm512_maskz_expand_epi8(TAG_BYTES | _pdep_u64(coded, CODE_BYTES), load_row(c->p));
            for (int i = 0; i < 2; i++)
                halves[i] = narrow_values(_mm512_maskz_permutexvar_epi8(UPPER_BYTES, k->places[i], row), k->base);
            c->p = p;
        } else { /* one of the tags is wide, and what was read behind it were no tags */
            coded = decode_wide_row(c, k, halves);
        }
    }
    if (put != ADD || coded)
        for (int i = 0; i < 2; i++) put_half(c->out + 16 * i, halves[i], (__mmask16)(coded >> (16 * i)), line, put);
    c->out += ROW;
    c->left -= ROW;
}

/* The first line of each frame is not streamed, as it may not be the frame's alone. */
SPECIALISED int begin_lines(Cursor *c, int abreast, const Constants *k, Line *lines) {
    const __m512i following = _mm512_setr_epi32(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    if (safe_rows(c, abreast) == 0) return 0;
    for (int i = 0; i < abreast; i++) {
        decode_row(&c[i], k, 0, REPLACE);
        lines[i].held = _mm512_loadu_ps(c[i].out - 16);
        lines[i].past = (int64_t)((uintptr_t)c[i].out / 4 % 16);
        lines[i].joins = _mm512_sub_epi32(following, _mm512_set1_epi32((int)lines[i].past));
    }
    return 1;
}

SPECIALISED void advance_abreast(Cursor *frames, int abreast, int64_t ahead, float step8, int put) {
    const Constants k = {_mm512_castps_si512(_mm512_set1_ps(128 * step8)),
                         {_mm512_load_si512(lane_from[0]), _mm512_load_si512(lane_from[1])},
                         _mm256_setr_ps(0, step8 * 0x1p-24f, 0x1p-31f, 0, 0, step8 * 0x1p-24f, 0x1p-31f, 0)};
    Cursor c[MOST_ABREAST];
    Line lines[MOST_ABREAST];
    for (int i = 0; i < abreast; i++) c[i] = frames[i];
    if (put == STREAM && !begin_lines(c, abreast, &k, lines)) return;
    for (int64_t rows; (rows = safe_rows(c, abreast)) > 0;)
        for (; rows > 0; rows--)
#pragma GCC unroll 4
            for (int i = 0; i < abreast; i++) {
                _mm_prefetch((const char *)c[i].p + ahead, _MM_HINT_T0);
                decode_row(&c[i], &k, &lines[i], put);
            }
    for (int i = 0; i < abreast; i++) {
        if (put == STREAM) _mm512_storeu_ps(c[i].out - 16, lines[i].held);
        frames[i] = c[i];
    }
}

DEFINE_ADVANCE(advance_one, 1)
DEFINE_ADVANCE(advance_two, 2)
DEFINE_ADVANCE(advance_four, 4)

/* Whether many of the first groups have a wide tag: then AVX2 is faster. */
TARGET static int mostly_wide(const Cursor *c) {
    const uint8_t *p = c->p;
    int wide = 0;
    for (int i = 0; i < SAMPLE && c->end - p >= LARGEST_GROUP; i++) {
        uint32_t tags = (uint32_t)load16(p), high = tags & 0xAAAA, raw = high & tags << 1;
        wide += high != 0;
        p += 2 + _mm_popcnt_u32(tags) + _mm_popcnt_u32(high & ~raw) + 2 * _mm_popcnt_u32(raw);
    }
    return 6 * wide > SAMPLE;
}

TARGET static void advance(Cursor *frames, int abreast, int64_t ahead, float step8, int put) {
    if (mostly_wide(frames)) {
        for (int i = 0; i < abreast; i += 2) lightloom_avx2.advance(frames + i, abreast < 2 ? 1 : 2, ahead, step8, put);
        return;
    }
    (abreast == 4 ? advance_four : abreast == 2 ? advance_two : advance_one)(frames, ahead, step8, put);
    if (put == STREAM) _mm_sfence(); /* streamed stores are not ordered with what follows */
}

static int decode(Cursor *c, float step8, int add) {
    if (!mostly_wide(c)) advance_one(c, 0, step8, add ? ADD : REPLACE);
    return lightloom_avx2.decode(c, step8, add);
}

const Path lightloom_avx512 = {4, encode, advance, decode};

#endif
