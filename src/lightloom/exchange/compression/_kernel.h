/* What all C kernels share: what the shared object exports, which vector paths the compiler can build, and functions
 * that are copied for each constant argument. */
#ifndef LIGHTLOOM_KERNEL_H
#define LIGHTLOOM_KERNEL_H

#if defined(__GNUC__) || defined(__clang__)
#define API __attribute__((visibility("default")))
#else
#define API
#endif

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define HAVE_AVX2_PATH 1
#else
#define HAVE_AVX2_PATH 0
#endif
#if HAVE_AVX2_PATH && ((defined(__clang__) && __clang_major__ >= 7) || (!defined(__clang__) && __GNUC__ >= 9))
#define HAVE_AVX512_PATH 1
#else
#define HAVE_AVX512_PATH 0
#endif

/* One copy of a function for each constant argument; `TARGET` is the instruction set that a source is for. */
#define SPECIALISED TARGET static inline __attribute__((always_inline))

#endif
