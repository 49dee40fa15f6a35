// Steps of Lanczos on a small symmetric matrix that is stored: a product with one vector, made orthogonal to a basis.
//
// A step is a handful of products so short that calling BLAS for each takes as long as they do. Here one call makes
// many steps. Of the matrix one side of the diagonal is read, and a row of the basis is read for its product with the
// vector and is still near when that much of it is taken off.
#pragma once

#include <cmath>
#include <cstring>

#include "thin.hpp"

namespace {

struct Steps {
    const double *matrix;    // (n, n)
    int64_t n;
    double *basis;           // (.., n) orthonormal rows: those that are projected out, then the Krylov space
    int64_t fixed, row;      // rows of the first kind; the last row that counts
    double *alpha, *beta;    // the diagonal of T, and beside it
    int64_t size, end;       // of T: as it is, and as it should be
    double scale;            // the largest number of T so far
    double least, most, eps; // entries of the first product whose squares are in range; what is left of a spent space
    double *w, *along;       // (n,), (rows,) room
};

typedef Anywhere<double>::vec Unaligned;
inline Vec<double> gathered(const double *from) { return *reinterpret_cast<const Unaligned *>(from); }
inline void put(double *to, Vec<double> v) { *reinterpret_cast<Unaligned *>(to) = v; }

inline double sum_of(Vec<double> v) {
    double sum = 0.0;
    UNROLLED for (int i = 0; i < WIDTH<double>; i++) sum += v[i];
    return sum;
}

inline double dot(const double *x, const double *y, long n) {
    Vec<double> sums[4] = {};
    long j = 0;
    for (; j + 4 * WIDTH<double> <= n; j += 4 * WIDTH<double>)
        UNROLLED for (int c = 0; c < 4; c++) sums[c] += gathered(x + j + c * WIDTH<double>) * gathered(y + j + c * WIDTH<double>);
    double sum = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
    for (; j < n; j++) sum += x[j] * y[j];
    return sum;
}

// y += A x for ROWS rows from the i-th on, right of the diagonal and on both of its sides.
template <int ROWS> inline void symmetric_rows(const double *a, long n, long i, const double *x, double *y) {
    const double *rows = a + i * n;
    Vec<double> sums[ROWS] = {}, left[ROWS];
    double rest[ROWS];
    UNROLLED for (int r = 0; r < ROWS; r++) {
        left[r] = all(x[i + r]);
        rest[r] = rows[r * n + i + r] * x[i + r];
        for (int c = r + 1; c < ROWS; c++) {
            rest[r] += rows[r * n + i + c] * x[i + c];
            y[i + c] += rows[r * n + i + c] * x[i + r];
        }
    }
    long j = i + ROWS;
    for (; j + WIDTH<double> <= n; j += WIDTH<double>) {
        Vec<double> right = gathered(x + j), below = gathered(y + j);
        UNROLLED for (int r = 0; r < ROWS; r++) {
            const Vec<double> entries = gathered(rows + r * n + j);
            sums[r] += entries * right;
            below += entries * left[r];
        }
        put(y + j, below);
    }
    for (; j < n; j++) UNROLLED for (int r = 0; r < ROWS; r++) {
        rest[r] += rows[r * n + j] * x[j];
        y[j] += rows[r * n + j] * x[i + r];
    }
    UNROLLED for (int r = 0; r < ROWS; r++) y[i + r] += rest[r] + sum_of(sums[r]);
}

// Rows that are looked at together: as many as there are registers for their sums.
constexpr int TOGETHER = VECTOR_BYTES == 64 ? 8 : 4;

inline void symmetric_times(const double *a, long n, const double *x, double *y) {
    std::memset(y, 0, n * sizeof(double));
    long i = 0;
    for (; i + TOGETHER <= n; i += TOGETHER) symmetric_rows<TOGETHER>(a, n, i, x, y);
    for (; i < n; i++) symmetric_rows<1>(a, n, i, x, y);
}

// w less its part along some orthonormal rows; how long that is along each.
template <int ROWS> inline void take_off(const double *rows, long n, double *w, double *along) {
    Vec<double> sums[ROWS] = {}, times[ROWS];
    long j = 0;
    for (; j + WIDTH<double> <= n; j += WIDTH<double>) {
        const Vec<double> right = gathered(w + j);
        UNROLLED for (int r = 0; r < ROWS; r++) sums[r] += gathered(rows + r * n + j) * right;
    }
    UNROLLED for (int r = 0; r < ROWS; r++) {
        along[r] = sum_of(sums[r]);
        for (long i = j; i < n; i++) along[r] += rows[r * n + i] * w[i];
        times[r] = all(along[r]);
    }
    long i = 0;
    for (; i + WIDTH<double> <= n; i += WIDTH<double>) {
        Vec<double> left = gathered(w + i);
        UNROLLED for (int r = 0; r < ROWS; r++) left -= times[r] * gathered(rows + r * n + i);
        put(w + i, left);
    }
    for (; i < n; i++) UNROLLED for (int r = 0; r < ROWS; r++) w[i] -= along[r] * rows[r * n + i];
}

inline void take_off_all(const double *rows, long count, long n, double *w, double *along) {
    long r = 0;
    for (; r + TOGETHER <= count; r += TOGETHER) take_off<TOGETHER>(rows + r * n, n, w, along + r);
    for (; r < count; r++) take_off<1>(rows + r * n, n, w, along + r);
}

// Steps until T is as large as it should be, or the space is spent (1: its last β is zero), or the squares of the
// first product are out of range (then nothing has happened).
int64_t lanczos(Steps &job) {
    const long n = job.n;
    while (job.size < job.end && job.row < n) {
        const double *last = job.basis + job.row * n;
        double *w = job.w;
        symmetric_times(job.matrix, n, last, w);
        if (!job.size) {
            double largest = 0.0;
            for (long i = 0; i < n; i++) largest = !(std::fabs(w[i]) <= largest) ? std::fabs(w[i]) : largest;
            if (!(job.least < largest && largest < job.most)) return 0;
        }
        // What a product has along the basis lies along the rows that are projected out and the last two; along the
        // others there is rounding. So these come first, and then all: twice, which is enough (Kahan), unless the
        // second time shortens the vector too. Then once more.
        const long near = job.row > job.fixed ? job.row - 1 : job.row;
        take_off_all(job.basis, job.fixed, n, w, job.along);
        take_off_all(job.basis + near * n, job.row + 1 - near, n, w, job.along);
        const double own = job.along[job.row - near];
        double before = dot(w, w, n), length = before;
        for (int again = 0; again < 2; again++) {
            take_off_all(job.basis, job.row + 1, n, w, job.along);
            length = dot(w, w, n);
            if (length > 0.5 * before) break;
            before = length;
        }
        length = std::sqrt(length);
        const double larger = std::fabs(own) > length ? std::fabs(own) : length;
        job.scale = larger > job.scale ? larger : job.scale;
        const bool spent = length <= job.eps * job.scale;
        job.alpha[job.size] = own;
        job.beta[job.size++] = spent ? 0.0 : length;
        if (spent) return 1;
        double *next = job.basis + ++job.row * n;
        const double unit = 1.0 / length;
        for (long i = 0; i < n; i++) next[i] = unit * w[i];
    }
    return 0;
}

}  // namespace
