/* Encoding by the vector paths, one copy for each kind, number of bits and mode. Included where `TARGET` and
 * `encode_values` are defined. */

SPECIALISED void encode_mode(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode) {
    if (f->kind == LLOYD) encode_values(f, values, residual, blocks, out, mode, LLOYD, 2);
    else if (f->kind == SIGN) encode_values(f, values, residual, blocks, out, mode, SIGN, 1);
    else if (f->bits == 8) encode_values(f, values, residual, blocks, out, mode, LINEAR, 8);
    else if (f->bits == 4) encode_values(f, values, residual, blocks, out, mode, LINEAR, 4);
    else encode_values(f, values, residual, blocks, out, mode, LINEAR, f->bits);
}

#include "_blocks_fp8.h"

TARGET static void encode(const Format *f, float *values, float *residual, int64_t blocks, uint8_t *out, int mode) {
    if (f->kind == FP8) encode_fp8_mode(f, values, residual, blocks, out, mode);
    else if (mode == FEEDBACK) encode_mode(f, values, residual, blocks, out, FEEDBACK);
    else if (mode == LEAVE) encode_mode(f, values, values, blocks, out, LEAVE);
    else encode_mode(f, values, values, blocks, out, PLAIN);
}
