// What columns F = k(X, Z) W of a factor explain of each row: Σf², and of each column, over the rows of a block.
//
// W are the last columns of an upper triangle, in panels [panel][row of W][column of the panel], and so is F of a block
// of rows, which a thread has in memory of its own. No row of F is ever seen by another thread, and sums over blocks are
// left to the caller: neither the number of threads nor their timing changes a bit.
#pragma once

#include "vectors.hpp"

namespace {

struct Explained {
    const void *w;          // (panels, height, PANEL)
    int64_t panels, height;
    int64_t before;         // what W is: zero below row `before` + column; the last column has `height` numbers
    const double *weights;  // (rows,), or one each
    double *rows;           // (rows,)
    double *energies;       // (blocks of rows, panels · PANEL)
    int64_t offset;         // where in its memory a thread has F
};

// Σf² of m rows, and Σw f² of each column.
template <class Real> void explained_squares(const Explained &to, long block, long top, long m, long stride, const double *f) {
    typedef Doubles<Real> Wide;
    for (long i = 0; i < m; i++) to.rows[top + i] = 0;
    for (long q = 0; q < to.panels; q++) {
        Wide energies[PAIR_VECS];
        UNROLLED for (int c = 0; c < PAIR_VECS; c++) energies[c] = Wide{};
        for (long i = 0; i < m; i++) {
            const double w = to.weights ? to.weights[top + i] : 1.0;
            Wide sum = Wide{};
            UNROLLED for (int c = 0; c < PAIR_VECS; c++) {
                const Wide x = *reinterpret_cast<const Wide *>(f + (q * stride + i) * PANEL<Real> + c * WIDTH<Real>);
                const Wide square = x * x;
                sum += square;
                energies[c] += w * square;
            }
            double total = 0;
            UNROLLED for (int k = 0; k < WIDTH<Real>; k++) total += sum[k];
            to.rows[top + i] += total;
        }
        double *at = to.energies + (block * to.panels + q) * PANEL<Real>;
        UNROLLED for (int c = 0; c < PAIR_VECS; c++) UNROLLED for (int k = 0; k < WIDTH<Real>; k++) at[c * WIDTH<Real> + k] = energies[c][k];
    }
}

}  // namespace
