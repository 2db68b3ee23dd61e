/* INCEPTIONN frames in portable C, with an AVX2 path chosen at run time.
 *
 * The bytes are those of kernels_numba.py; docs/compression.md describes them. Nothing of Python is used, so that the
 * shared object is loaded with ctypes and calls run without the interpreter lock. Little-endian machines only.
 */
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAVE_AVX2_PATH 1
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#define SPECIALISED AVX2 static inline __attribute__((always_inline)) /* one copy for each constant argument */
#else
#define HAVE_AVX2_PATH 0
#endif

#if defined(__GNUC__) || defined(__clang__)
#define API __attribute__((visibility("default")))
#else
#define API
#endif

enum { FRAME_HEADER = 8, GROUP = 8, LARGEST_GROUP = 34 };
enum { ABREAST = 2 }; /* frames decoded side by side */
enum { REPLACE = 0, ADD = 1, STREAM = 2 }; /* what decoding does with `out`; STREAM replaces, past the caches */
enum { TRUNCATED = 1, BAD_LENGTH = 2, BAD_CHECKSUM = 3, BAD_PAYLOAD = 4 }; /* reasons, as in kernels_numba.py */

static uint32_t load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static uint64_t load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static void store32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }

/* ---- XXH64 (Collet's specification, version 0.1.1) ---- */

static const uint64_t P1 = 0x9E3779B185EBCA87ULL, P2 = 0xC2B2AE3D27D4EB4FULL, P3 = 0x165667B19E3779F9ULL,
                      P4 = 0x85EBCA77C2B2AE63ULL, P5 = 0x27D4EB2F165667C5ULL;

static uint64_t rotate(uint64_t x, int r) { return (x << r) | (x >> (64 - r)); }
static uint64_t xxh_round(uint64_t a, uint64_t w) { return rotate(a + w * P2, 31) * P1; }
static uint64_t xxh_merge(uint64_t h, uint64_t a) { return (h ^ xxh_round(0, a)) * P1 + P4; }

API uint64_t lightloom_xxh64(const uint8_t *p, int64_t n, uint64_t seed) {
    const uint8_t *end = p + n;
    uint64_t h = seed + P5;
    if (n >= 32) {
        uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
        for (; end - p >= 32; p += 32) {
            a = xxh_round(a, load64(p));
            b = xxh_round(b, load64(p + 8));
            c = xxh_round(c, load64(p + 16));
            d = xxh_round(d, load64(p + 24));
        }
        h = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
        h = xxh_merge(xxh_merge(xxh_merge(xxh_merge(h, a), b), c), d);
    }
    h += (uint64_t)n;
    for (; end - p >= 8; p += 8) h = rotate(h ^ xxh_round(0, load64(p)), 27) * P1 + P4;
    if (end - p >= 4) {
        h = rotate(h ^ (load32(p) * P1), 23) * P2 + P3;
        p += 4;
    }
    for (; p < end; p++) h = rotate(h ^ (*p * P5), 11) * P1;
    h = (h ^ (h >> 33)) * P2;
    h = (h ^ (h >> 29)) * P3;
    return h ^ (h >> 32);
}

/* The seed ties a checksum to the frame's place and length. */
static uint32_t frame_checksum(const uint8_t *p, int64_t n, int64_t index) {
    return (uint32_t)lightloom_xxh64(p, n, ((uint64_t)index << 32) | (uint64_t)n);
}

/* ---- scalar path; also the ends of the AVX2 path ---- */

static const int code_length[4] = {0, 1, 2, 4};

/* f less the value of its code, sign(f) `code` / `unit`: exact, as the code is f's leading bits. */
static uint32_t loss_of(uint32_t f, uint32_t code, float unit) {
    float value, decoded = (float)code * unit;
    memcpy(&value, &f, 4);
    value -= f >> 31 ? -decoded : decoded;
    memcpy(&f, &value, 4);
    return f;
}

/* `bound` is k of the bound 2^-k; `width` is w of an 8-bit code trunc(|f| 2^w). With `leave` the values become what the
 * codes lack; otherwise they are only read. */
static uint8_t *encode_group(uint32_t *values, int n, uint8_t *out, int bound, int width, int leave) {
    unsigned tags = 0;
    uint8_t *p = out + 2;
    for (int i = 0; i < n; i++) {
        uint32_t f = values[i], sign = f >> 31, e = (f >> 23) & 255, m = (f & 0x7FFFFF) | 0x800000;
        if (e >= 127) {
            tags |= 3u << (2 * i);
            store32(p, f);
            p += 4;
            if (leave) values[i] = 0;
        } else if (e >= (uint32_t)(127 - bound / 2)) {
            uint32_t size = m >> (135 - e), code = (sign << 15) | size;
            tags |= 2u << (2 * i);
            *p++ = (uint8_t)code;
            *p++ = (uint8_t)(code >> 8);
            if (leave) values[i] = loss_of(f, size, 0x1p-15f);
        } else if (e >= (uint32_t)(127 - bound)) {
            uint32_t size = m >> (150 - e - width);
            tags |= 1u << (2 * i);
            *p++ = (uint8_t)((sign << 7) | size);
            if (leave) values[i] = loss_of(f, size, 1.0f / (float)(1 << width));
        }
    }
    out[0] = (uint8_t)tags;
    out[1] = (uint8_t)(tags >> 8);
    return p;
}

/* Returns the end of the group, or NULL where the group would pass `end` or codes more than n values. With `add` the
 * values are added to those in `out`, which stay the same bits where the tag is 0. */
static const uint8_t *decode_group(const uint8_t *p, const uint8_t *end, uint32_t *out, int n, float step8, int add) {
    if (end - p < 2) return NULL;
    unsigned tags = p[0] | ((unsigned)p[1] << 8);
    if ((tags >> 1 >> (2 * n - 1)) != 0) return NULL;
    p += 2;
    for (int i = 0; i < n; i++, tags >>= 2) {
        int length = code_length[tags & 3];
        if (end - p < length) return NULL;
        float value = 0.0f;
        if (length == 1) {
            value = (float)((p[0] & 128) ? -(int)(p[0] & 127) : p[0]) * step8;
        } else if (length == 2) {
            int code = p[0] | (p[1] << 8);
            value = (float)((code & 0x8000) ? -(code & 0x7FFF) : code) * 0x1p-15f;
        }
        if (length == 4) memcpy(&value, p, 4);
        if (!add) {
            memcpy(out + i, &value, 4);
        } else if (length) {
            float sum;
            memcpy(&sum, out + i, 4);
            sum += value;
            memcpy(out + i, &sum, 4);
        }
        p += length;
    }
    return p;
}

static uint8_t *encode_chunk_scalar(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave) {
    for (; n > 0; n -= GROUP, values += GROUP)
        out = encode_group(values, n < GROUP ? (int)n : GROUP, out, bound, width, leave);
    return out;
}

typedef struct {
    const uint8_t *p, *end;
    uint32_t *out;
    int64_t left; /* values still to come */
} Cursor;

static int finish_scalar(Cursor *c, float step8, int add) {
    for (; c->left > 0; c->left -= GROUP, c->out += GROUP) {
        c->p = decode_group(c->p, c->end, c->out, c->left < GROUP ? (int)c->left : GROUP, step8, add);
        if (!c->p) return 0;
    }
    return c->p == c->end;
}

/* ---- AVX2: four values a byte shuffle, eight a group ---- */

#if HAVE_AVX2_PATH

enum { STREAM_FROM = 1 << 21 }; /* values: 8 MiB, more than a core's own caches hold */
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
AVX2 static inline unsigned group_codes(__m256i x, __m256i low, __m256i middle, __m256 scale8, __m256 step8,
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

AVX2 static inline uint8_t *store_group(uint8_t *p, unsigned tags, __m256i codes) {
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

AVX2 static inline __m256i load_group(const uint32_t *values) {
    return _mm256_loadu_si256((const __m256i *)values);
}

/* Writes up to 16 bytes past what it returns. */
AVX2 static uint8_t *encode_chunk_avx2(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave) {
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
    return encode_chunk_scalar(values, n, out, bound, width, leave);
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

SPECIALISED void four_steps(Cursor *c, __m256 scales, int put) {
    for (int i = 0; i < 4; i++) step(c, scales, put);
}

SPECIALISED void four_zeros(Cursor *c, int put) {
    for (int i = 0; put != ADD && i < 4; i++) put_values(c->out + i * GROUP, _mm256_setzero_ps(), put);
    c->out += 4 * GROUP;
    c->left -= 4 * GROUP;
    c->p += 8;
}

static inline int has_four(const Cursor *c) {
    return c->left >= 4 * GROUP && c->end - c->p >= 4 * LARGEST_GROUP;
}

SPECIALISED int finish_putting(Cursor *c, int64_t ahead, float step8, int put) {
    const __m256 scales = _mm256_setr_ps(0, step8 * 0x1p-24f, 0x1p-31f, 0, 0, step8 * 0x1p-24f, 0x1p-31f, 0);
    while (has_four(c)) {
        _mm_prefetch((const char *)c->p + ahead, _MM_HINT_T0);
        if (load64(c->p) == 0)
            four_zeros(c, put);
        else
            four_steps(c, scales, put);
    }
    while (c->left >= GROUP && c->end - c->p >= LARGEST_GROUP) step(c, scales, put);
    return finish_scalar(c, step8, put == ADD);
}

/* Where a group ends is known only from its tag, so one frame is a chain of dependent loads: several go side by side,
 * and in rounds short enough that none of them can reach its end. What lies as far ahead as the frames after these is
 * fetched on the way, for their checksums. */
SPECIALISED void advance_putting(Cursor *frames, int64_t ahead, float step8, int put) {
    const __m256 scales = _mm256_setr_ps(0, step8 * 0x1p-24f, 0x1p-31f, 0, 0, step8 * 0x1p-24f, 0x1p-31f, 0);
    for (;;) {
        int64_t rounds = frames[0].left / (4 * GROUP);
        for (int i = 0; i < ABREAST; i++) {
            int64_t left = frames[i].left / (4 * GROUP), safe = (frames[i].end - frames[i].p) / (4 * LARGEST_GROUP);
            rounds = left < rounds ? left : rounds;
            rounds = safe < rounds ? safe : rounds;
        }
        if (rounds == 0) return;
        Cursor c[ABREAST];
        for (int i = 0; i < ABREAST; i++) c[i] = frames[i];
        for (; rounds > 0; rounds--)
            for (int i = 0; i < ABREAST; i++) {
                _mm_prefetch((const char *)c[i].p + ahead, _MM_HINT_T0);
                if (load64(c[i].p) == 0)
                    four_zeros(&c[i], put);
                else
                    four_steps(&c[i], scales, put);
            }
        for (int i = 0; i < ABREAST; i++) frames[i] = c[i];
    }
}

AVX2 static int finish_avx2(Cursor *c, int64_t ahead, float step8, int put) {
    if (put == STREAM) return finish_putting(c, ahead, step8, STREAM);
    return put == ADD ? finish_putting(c, ahead, step8, ADD) : finish_putting(c, ahead, step8, REPLACE);
}

AVX2 static void advance_abreast(Cursor *frames, int64_t ahead, float step8, int put) {
    if (put == STREAM)
        advance_putting(frames, ahead, step8, STREAM);
    else if (put == ADD)
        advance_putting(frames, ahead, step8, ADD);
    else
        advance_putting(frames, ahead, step8, REPLACE);
}

static int worth_streaming(const uint32_t *out, int64_t count) {
    return count >= STREAM_FROM && ((uintptr_t)out & 15) == 0;
}

/* Streamed stores are not ordered with what follows. */
static void end_streaming(void) { _mm_sfence(); }

API int lightloom_has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") ? 1 : 0;
}

#else

static uint8_t *encode_chunk_avx2(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave) {
    return encode_chunk_scalar(values, n, out, bound, width, leave);
}
static int finish_avx2(Cursor *c, int64_t ahead, float step8, int put) {
    (void)ahead;
    return finish_scalar(c, step8, put == ADD);
}
static void advance_abreast(Cursor *frames, int64_t ahead, float step8, int put) {
    (void)frames; (void)ahead; (void)step8; (void)put;
}
static int worth_streaming(const uint32_t *out, int64_t count) { (void)out; (void)count; return 0; }
static void end_streaming(void) {}
API int lightloom_has_avx2(void) { return 0; }

#endif

/* ---- frames: u32 length, u32 checksum, payload ---- */

/* `out` must hold the largest encoding and 32 bytes more. Returns the bytes written. */
static inline int64_t encode_frames(uint32_t *values, int64_t count, int64_t chunk, int64_t first, uint8_t *out,
                                    int bound, int width, int avx2, int leave) {
    uint8_t *p = out;
    for (int64_t index = first; count > 0; index++, count -= chunk, values += chunk) {
        int64_t n = count < chunk ? count : chunk;
        uint8_t *payload = p + FRAME_HEADER;
        uint8_t *end = avx2 ? encode_chunk_avx2(values, n, payload, bound, width, leave)
                            : encode_chunk_scalar(values, n, payload, bound, width, leave);
        store32(p, (uint32_t)(end - payload));
        store32(p + 4, frame_checksum(payload, end - payload, index));
        p = end;
    }
    return p - out;
}

API int64_t lightloom_encode_frames(const uint32_t *values, int64_t count, int64_t chunk, int64_t first, uint8_t *out,
                                    int bound, int width, int avx2) {
    uint32_t *only_read = (uint32_t *)values;
    return avx2 ? encode_frames(only_read, count, chunk, first, out, bound, width, 1, 0)
                : encode_frames(only_read, count, chunk, first, out, bound, width, 0, 0);
}

/* The same bytes; `values` become what they lack: values less decoded values, 0 where all 32 bits are sent. */
API int64_t lightloom_encode_frames_leaving(uint32_t *values, int64_t count, int64_t chunk, int64_t first, uint8_t *out,
                                            int bound, int width, int avx2) {
    return avx2 ? encode_frames(values, count, chunk, first, out, bound, width, 1, 1)
                : encode_frames(values, count, chunk, first, out, bound, width, 0, 1);
}

/* Checks the frame at `p` and points the cursor into it. Returns 0 or the reason. */
static int open_frame(const uint8_t *p, const uint8_t *end, uint32_t *out, int64_t n, int64_t index, Cursor *c) {
    if (end - p < FRAME_HEADER) return TRUNCATED;
    int64_t length = load32(p), groups = (n + GROUP - 1) / GROUP;
    if (length < 2 * groups || length > 2 * groups + 4 * n) return BAD_LENGTH;
    p += FRAME_HEADER;
    if (end - p < length) return TRUNCATED;
    if (frame_checksum(p, length, index) != load32(p - 4)) return BAD_CHECKSUM;
    c->p = p;
    c->end = p + length;
    c->out = out;
    c->left = n;
    return 0;
}

/* Returns the bytes read, or -(8 frame + reason). Reads nothing outside [in, in + nbytes), writes only `count` values. */
static inline int64_t decode_frames(const uint8_t *in, int64_t nbytes, uint32_t *out, int64_t count, int64_t chunk,
                                    int64_t first, int width, int avx2, int put) {
    const uint8_t *p = in, *end = in + nbytes;
    const float step8 = 1.0f / (float)(1 << width);
    int64_t index = first;
    while (count > 0) {
        Cursor frames[ABREAST];
        int opened = 0;
        for (; opened < (avx2 ? ABREAST : 1) && count > 0; opened++) {
            int64_t n = count < chunk ? count : chunk;
            int reason = open_frame(p, end, out, n, index + opened, &frames[opened]);
            if (reason) return -(8 * (index + opened) + reason);
            p = frames[opened].end;
            out += n;
            count -= n;
        }
        int64_t ahead = p - frames[0].p;
        /* Every row of streamed stores costs; where most groups are empty, the chain of loads costs less. */
        int apart = put == STREAM && 3 * ahead < frames[0].left * opened;
        if (opened == ABREAST && !apart) advance_abreast(frames, ahead, step8, put);
        for (int i = 0; i < opened; i++, index++)
            if (!(avx2 ? finish_avx2(&frames[i], ahead, step8, put) : finish_scalar(&frames[i], step8, put == ADD)))
                return -(8 * index + BAD_PAYLOAD);
    }
    return p - in;
}

API int64_t lightloom_decode_frames(const uint8_t *in, int64_t nbytes, uint32_t *out, int64_t count, int64_t chunk,
                                    int64_t first, int width, int avx2) {
    if (!avx2) return decode_frames(in, nbytes, out, count, chunk, first, width, 0, REPLACE);
    if (!worth_streaming(out, count)) return decode_frames(in, nbytes, out, count, chunk, first, width, 1, REPLACE);
    int64_t used = decode_frames(in, nbytes, out, count, chunk, first, width, 1, STREAM);
    end_streaming();
    return used;
}

/* The same, added to what `out` holds. */
API int64_t lightloom_decode_frames_adding(const uint8_t *in, int64_t nbytes, uint32_t *out, int64_t count,
                                           int64_t chunk, int64_t first, int width, int avx2) {
    return avx2 ? decode_frames(in, nbytes, out, count, chunk, first, width, 1, ADD)
                : decode_frames(in, nbytes, out, count, chunk, first, width, 0, ADD);
}

static int pairs_set(unsigned pairs) { /* how many of the bits 0x5555 are set */
    pairs = (pairs & 0x3333) + ((pairs >> 2) & 0x3333);
    pairs = (pairs & 0x0F0F) + ((pairs >> 4) & 0x0F0F);
    return (int)((pairs & 0xFF) + (pairs >> 8));
}

/* Adds the number of values of each tag to `counts`; returns as decoding does. */
API int64_t lightloom_count_tags(const uint8_t *in, int64_t nbytes, int64_t count, int64_t chunk, int64_t *counts) {
    const uint8_t *p = in, *end = in + nbytes;
    for (int64_t index = 0; count > 0; index++, count -= chunk) {
        int64_t n = count < chunk ? count : chunk, sums[4] = {n, 0, 0, 0};
        Cursor frame;
        int reason = open_frame(p, end, 0, n, index, &frame);
        if (reason) return -(8 * index + reason);
        for (p = frame.p; n > 0; n -= GROUP) {
            if (frame.end - p < 2) return -(8 * index + BAD_PAYLOAD);
            unsigned tags = p[0] | ((unsigned)p[1] << 8), high = (tags >> 1) & 0x5555, low = tags & 0x5555;
            p += 2;
            if (tags == 0) continue;
            if (n < GROUP && tags >> (2 * n)) return -(8 * index + BAD_PAYLOAD);
            int raw = pairs_set(high & low), wide = pairs_set(high & ~low), narrow = pairs_set(low & ~high);
            p += 4 * raw + 2 * wide + narrow;
            sums[1] += narrow;
            sums[2] += wide;
            sums[3] += raw;
        }
        if (p != frame.end) return -(8 * index + BAD_PAYLOAD);
        sums[0] -= sums[1] + sums[2] + sums[3];
        for (int tag = 0; tag < 4; tag++) counts[tag] += sums[tag];
    }
    return p - in;
}
