// Vectors of one instruction set. This file and all that include it are compiled once for each of them, with
// VECTOR_BYTES and ISA given on the command line; everything but the C interface is in an unnamed namespace, so
// that no two of them meet.
//
// The vectors are those of GCC and Clang: arithmetic on whole vectors, no intrinsics, the same source everywhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace {

template <class Real> struct Lanes;
template <> struct Lanes<double> {
    typedef double vec __attribute__((vector_size(VECTOR_BYTES)));
    typedef int64_t ints __attribute__((vector_size(VECTOR_BYTES)));
};
template <> struct Lanes<float> {
    typedef float vec __attribute__((vector_size(VECTOR_BYTES)));
    typedef int32_t ints __attribute__((vector_size(VECTOR_BYTES)));
};
template <class Real> using Vec = typename Lanes<Real>::vec;
template <class Real> using Ints = typename Lanes<Real>::ints;

// As many float64 as a vector has numbers: two vectors of them for one of float32.
template <class Real> struct Sums;
template <> struct Sums<double> { typedef double vec __attribute__((vector_size(VECTOR_BYTES))); };
template <> struct Sums<float> {
    typedef double vec __attribute__((vector_size(2 * VECTOR_BYTES), aligned(VECTOR_BYTES)));
};
template <class Real> using Doubles = typename Sums<Real>::vec;

// Numbers of a vector.
template <class Real> constexpr long WIDTH = VECTOR_BYTES / sizeof(Real);

// The largest blocks whose sums stay in registers: rows x vectors for pairs, rows x vectors for products. AVX-512 and
// NEON have 32 registers, SSE2 and AVX2 have 16.
#if VECTOR_BYTES == 64
constexpr int PAIR_ROWS = 8, PAIR_VECS = 3, THIN_ROWS = 6, THIN_VECS = 4;
#elif VECTOR_BYTES == 32
constexpr int PAIR_ROWS = 4, PAIR_VECS = 3, THIN_ROWS = 4, THIN_VECS = 3;
#elif defined(__aarch64__)
constexpr int PAIR_ROWS = 6, PAIR_VECS = 3, THIN_ROWS = 6, THIN_VECS = 4;
#else
constexpr int PAIR_ROWS = 3, PAIR_VECS = 3, THIN_ROWS = 3, THIN_VECS = 3;
#endif

// Rows of a panel: rows are packed as [panel][column][row of the panel], and the same packing serves as left side
// (numbers that are broadcast) and as right side (vectors that are loaded).
template <class Real> constexpr long PANEL = PAIR_VECS * WIDTH<Real>;
static_assert(PANEL<double> % PAIR_ROWS == 0 && PANEL<double> % THIN_ROWS == 0, "blocks cover a panel");

template <class Real> inline Vec<Real> all(Real number) { return number - Vec<Real>{}; }
template <class Real> inline Vec<Real> load(const Real *from) { return *reinterpret_cast<const Vec<Real> *>(from); }
template <class Real> inline void store(Real *to, Vec<Real> v) { *reinterpret_cast<Vec<Real> *>(to) = v; }

#define UNROLLED _Pragma("GCC unroll 16")

}  // namespace
