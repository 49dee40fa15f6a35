// Sums over points, weighed by the entries p of a tile, where ∂u/∂x of a pair of rows is no product of numbers of each:
// Σ_j p_ij ∂u(x_i, z_j)/∂x_i of Manhattan distances and χ². And how large the terms of such sums are, Σ_j |p_ij|.
//
// Rows are packed as for pairs. A thread adds to the sums of its own tickets alone, one tile after the other.
#pragma once

#include "pairs.hpp"

namespace {

struct Pulls {
    int64_t kind, columns;     // of the quantity
    const void *left, *right;  // packed rows
    double *sums;              // (groups, rows, columns), or none
    double *sizes;             // (groups, rows), or none
};

// ∂u/∂x of one column: a sign, or that of (x - z)²/(x + z), which is 0 where both are.
template <class Real, int KIND> inline Vec<Real> column_slope(Vec<Real> x, Vec<Real> z) {
    const Vec<Real> gap = x - z, none = Vec<Real>{};
    if constexpr (KIND == MANHATTAN) return gap > 0 ? all(Real(1)) : gap < 0 ? all(Real(-1)) : none;
    const Vec<Real> total = x + z;
    return total == 0 ? none : gap / total * ((x + 3 * z) / total);
}

template <class Real> inline double sum_of(Vec<Real> v) {
    double sum = 0;
    UNROLLED for (int i = 0; i < WIDTH<Real>; i++) sum += v[i];
    return sum;
}

// Of `height` x `width` panels of a tile, whose rows start in panel `top` and whose columns in panel `first`.
template <class Real, int KIND>
void add_pulls(const Pulls &to, const Real *tile, long top, long height, long first, long width, double *sums) {
    const long d = to.columns, stride = width * PANEL<Real>;
    const Real *left = static_cast<const Real *>(to.left) + top * d * PANEL<Real>;
    const Real *right = static_cast<const Real *>(to.right) + first * d * PANEL<Real>;
    for (long i = 0; i < height * PANEL<Real>; i += PAIR_ROWS) {
        const Real *x = left + i / PANEL<Real> * d * PANEL<Real> + i % PANEL<Real>;
        for (long c = 0; c < d; c++) {
            Vec<Real> own[PAIR_ROWS], found[PAIR_ROWS];
            UNROLLED for (int r = 0; r < PAIR_ROWS; r++) own[r] = all(x[c * PANEL<Real> + r]), found[r] = Vec<Real>{};
            for (long j = 0; j < stride; j += WIDTH<Real>) {
                const Vec<Real> z = load(right + (j / PANEL<Real> * d + c) * PANEL<Real> + j % PANEL<Real>);
                UNROLLED for (int r = 0; r < PAIR_ROWS; r++) found[r] += load(tile + (i + r) * stride + j) * column_slope<Real, KIND>(own[r], z);
            }
            UNROLLED for (int r = 0; r < PAIR_ROWS; r++) sums[(i + r) * d + c] += sum_of<Real>(found[r]);
        }
    }
}

template <class Real> void add_sizes(const Real *tile, long rows, long stride, double *sizes) {
    for (long i = 0; i < rows; i++) {
        Vec<Real> sum = Vec<Real>{};
        for (long j = 0; j < stride; j += WIDTH<Real>) {
            const Vec<Real> p = load(tile + i * stride + j);
            sum += p < 0 ? -p : p;
        }
        sizes[i] += sum_of<Real>(sum);
    }
}

}  // namespace
