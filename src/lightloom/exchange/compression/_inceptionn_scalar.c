/* The codec in portable C; also the ends of the vector paths. The bytes are those of kernels_numba.py. */
#include "_inceptionn.h"

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

static uint8_t *encode(uint32_t *values, int64_t n, uint8_t *out, int bound, int width, int leave) {
    for (; n > 0; n -= GROUP, values += GROUP)
        out = encode_group(values, n < GROUP ? (int)n : GROUP, out, bound, width, leave);
    return out;
}

static void advance(Cursor *frames, int abreast, int64_t ahead, float step8, int put) {
    (void)frames; (void)abreast; (void)ahead; (void)step8; (void)put;
}

static int decode(Cursor *c, float step8, int add) {
    for (; c->left > 0; c->left -= GROUP, c->out += GROUP) {
        c->p = decode_group(c->p, c->end, c->out, c->left < GROUP ? (int)c->left : GROUP, step8, add);
        if (!c->p) return 0;
    }
    return c->p == c->end;
}

const Path lightloom_scalar = {1, encode, advance, decode};
