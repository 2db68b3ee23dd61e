/* XXH64 (Collet's specification, version 0.1.1), the checksum of frames. */
#include "_inceptionn.h"

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

