// Sums over the columns of two rows, for blocks of pairs whose sums stay in registers.
#pragma once

#include "vectors.hpp"

namespace {

enum Kind : int64_t { DOT, SQUARES, MANHATTAN, CHI2 };

template <class Real, int KIND> inline Vec<Real> added(Vec<Real> sum, Vec<Real> a, Vec<Real> b) {
    if constexpr (KIND == DOT) return sum + a * b;
    Vec<Real> gap = a - b;
    if constexpr (KIND == SQUARES) return sum + gap * gap;
    if constexpr (KIND == MANHATTAN) return sum + (gap < 0 ? -gap : gap);
    Vec<Real> total = a + b;
    return sum + (total == 0 ? Vec<Real>{} : gap * (gap / total));  // a share is at most 1: gap² may vanish
}

template <class Real, int KIND>
inline void pair_block(const Real *a, const Real *b, long columns, Vec<Real> (&sums)[PAIR_ROWS][PAIR_VECS]) {
    UNROLLED for (int r = 0; r < PAIR_ROWS; r++) UNROLLED for (int c = 0; c < PAIR_VECS; c++) sums[r][c] = Vec<Real>{};
    for (long k = 0; k < columns; k++, a += PANEL<Real>, b += PANEL<Real>) {
        Vec<Real> right[PAIR_VECS];
        UNROLLED for (int c = 0; c < PAIR_VECS; c++) right[c] = load(b + c * WIDTH<Real>);
        UNROLLED for (int r = 0; r < PAIR_ROWS; r++) {
            Vec<Real> left = all(a[r]);
            UNROLLED for (int c = 0; c < PAIR_VECS; c++) sums[r][c] = added<Real, KIND>(sums[r][c], left, right[c]);
        }
    }
}

}  // namespace
