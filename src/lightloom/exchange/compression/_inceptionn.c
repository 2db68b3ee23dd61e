/* INCEPTIONN frames in C: portable, with AVX2 and AVX-512 paths chosen at run time.
 *
 * The bytes are those of kernels_numba.py; docs/compression.md describes them.
 */
#include "_inceptionn.h"

enum { FRAME_HEADER = 8 };
enum { TRUNCATED = 1, BAD_LENGTH = 2, BAD_CHECKSUM = 3, BAD_PAYLOAD = 4 }; /* reasons, as in kernels_numba.py */
enum { STREAM_FROM = 1 << 21 }; /* values: 8 MiB, more than a core's own caches hold */

/* 0 portable C, 1 AVX2, 2 AVX-512: the best that this CPU can run. */
API int lightloom_best_path(void) {
#if HAVE_AVX2_PATH
    __builtin_cpu_init();
#if HAVE_AVX512_PATH
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
        __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt"))
        return 2;
#endif
    if (__builtin_cpu_supports("avx2")) return 1;
#endif
    return 0;
}

static const Path *path_of(int number) {
#if HAVE_AVX512_PATH
    if (number == 2) return &lightloom_avx512;
#endif
#if HAVE_AVX2_PATH
    if (number == 1) return &lightloom_avx2;
#endif
    (void)number;
    return &lightloom_scalar;
}

/* The seed ties a checksum to the frame's place and length. */
static uint32_t frame_checksum(const uint8_t *p, int64_t n, int64_t index) {
    return (uint32_t)lightloom_xxh64(p, n, ((uint64_t)index << 32) | (uint64_t)n);
}

/* ---- frames: u32 length, u32 checksum, payload ---- */

/* `out` must hold the largest encoding and 64 bytes more. Returns the bytes written. */
static int64_t encode_frames(uint32_t *values, int64_t count, int64_t chunk, int64_t first, uint8_t *out, int bound,
                             int width, const Path *path, int leave) {
    uint8_t *p = out;
    for (int64_t index = first; count > 0; index++, count -= chunk, values += chunk) {
        uint8_t *payload = p + FRAME_HEADER;
        uint8_t *end = path->encode(values, smaller(count, chunk), payload, bound, width, leave);
        store32(p, (uint32_t)(end - payload));
        store32(p + 4, frame_checksum(payload, end - payload, index));
        p = end;
    }
    return p - out;
}

API int64_t lightloom_encode_frames(const uint32_t *values, int64_t count, int64_t chunk, int64_t first, uint8_t *out,
                                    int bound, int width, int path) {
    return encode_frames((uint32_t *)values, count, chunk, first, out, bound, width, path_of(path), 0);
}

/* The same bytes; `values` become what they lack: values less decoded values, 0 where all 32 bits are sent. */
API int64_t lightloom_encode_frames_leaving(uint32_t *values, int64_t count, int64_t chunk, int64_t first, uint8_t *out,
                                            int bound, int width, int path) {
    return encode_frames(values, count, chunk, first, out, bound, width, path_of(path), 1);
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

/* Returns the bytes read, or -(8 frame + reason). Reads nothing outside [in, in + nbytes), writes only `count`
 * values. */
static int64_t decode_frames(const uint8_t *in, int64_t nbytes, uint32_t *out, int64_t count, int64_t chunk,
                             int64_t first, int width, const Path *path, int put) {
    const uint8_t *p = in, *end = in + nbytes;
    const float step8 = 1.0f / (float)(1 << width);
    for (int64_t index = first; count > 0;) {
        Cursor frames[MOST_ABREAST];
        const uint8_t *from = p;
        int64_t left = (count + chunk - 1) / chunk;
        int abreast = left >= path->abreast ? path->abreast : left >= 2 ? 2 : 1;
        for (int i = 0; i < abreast; i++) {
            int64_t n = smaller(count, chunk);
            int reason = open_frame(p, end, out, n, index + i, &frames[i]);
            if (reason) return -(8 * (index + i) + reason);
            p = frames[i].end;
            out += n;
            count -= n;
        }
        int64_t ahead = p - from;
        path->advance(frames, abreast, ahead, step8, put);
        for (int i = 0; i < abreast; i++)
            if (!path->decode(&frames[i], step8, put == ADD)) return -(8 * (index + i) + BAD_PAYLOAD);
        index += abreast;
    }
    return p - in;
}

API int64_t lightloom_decode_frames(const uint8_t *in, int64_t nbytes, uint32_t *out, int64_t count, int64_t chunk,
                                    int64_t first, int width, int path) {
    int put = count >= STREAM_FROM && (uintptr_t)out % 16 == 0 ? STREAM : REPLACE;
    return decode_frames(in, nbytes, out, count, chunk, first, width, path_of(path), put);
}

/* The same, added to what `out` holds. */
API int64_t lightloom_decode_frames_adding(const uint8_t *in, int64_t nbytes, uint32_t *out, int64_t count,
                                           int64_t chunk, int64_t first, int width, int path) {
    return decode_frames(in, nbytes, out, count, chunk, first, width, path_of(path), ADD);
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
