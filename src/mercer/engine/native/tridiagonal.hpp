// What a ridge misses of rows that are left out, for many penalties, from the tridiagonal form of its kernel matrix; and
// what it says beside them.
//
// With κ = Q T Q' and T + α = L D L' the rows of L⁻¹Q' come one after the other, each from the one before, and row i of
// the kernel matrix is a lane of a vector in all of them: a penalty is one look at Q, and all sums are in registers.
#pragma once

#include "vectors.hpp"

namespace {

struct LeftOut {
    const double *q;                // (n, stride) Q', zero beyond the n-th column; its rows start where a vector may
    int64_t n, stride;
    const double *diagonal, *off;   // (n,), (n - 1,) of T
    const double *x;                // (n, columns) Q'x, a whole number of TARGETS
    int64_t columns;
    const double *alphas;           // (penalties,)
    int64_t penalties;
    double *pivots, *below;         // (penalties, n) D, and what is below the diagonal of L
    double *inverse, *targets;      // (n,), (n, columns) room
    double *errors;                 // (penalties,)
};

struct Beside {  // the same for a penalty that has its factor, at scores near those of some rows
    const double *q, *seen;         // (n, stride) columns of Q', and of Q'κ at the other scores
    int64_t n, stride;
    const double *pivots, *below;   // (n,), (n - 1,)
    const double *x;                // (n, columns)
    int64_t columns;
    double *inverse, *targets;      // (n,), (n, columns) room
    double *said;                   // (columns, stride)
};

struct Reduction {  // κ = Q T Q' by reflections (Householder 1958), for matrices that stay in a core's own cache
    double *a;                      // (n, stride) κ, overwritten; its rows, and those below, start where a vector may
    int64_t n, stride;
    double *diagonal, *off;         // (n,), (n - 1,) of T
    double *q;                      // (n, stride) Q', zero beyond the n-th column; none: it is left as reflections
    double *room;                   // (3, stride)
    double *rows;                   // (count, stride) coordinates in the columns of Q, zero beyond the n-th column
    int64_t count;
};

// Columns of x come in whole numbers of these; so many at most share a look at Q, as there are registers for.
constexpr int TARGETS = 4;
#if VECTOR_BYTES == 64 || defined(__aarch64__)
constexpr int MOST_TARGETS = 16;
#else
constexpr int MOST_TARGETS = 8;
#endif

// T + α = L D L'; false where rounding leaves no such factor.
inline bool factor(const LeftOut &job, double alpha, double *pivots, double *below) {
    double pivot = job.diagonal[0] + alpha;
    for (long j = 0;; j++) {
        if (!(pivot > 0.0)) return false;
        pivots[j] = pivot;
        if (j + 1 == job.n) return true;
        below[j] = job.off[j] / pivot;
        pivot = job.diagonal[j + 1] + alpha - job.off[j] * below[j];
    }
}

// D⁻¹ and D⁻¹L⁻¹Q'x
template <class Task> inline void eliminate(const Task &job, const double *pivots, const double *below) {
    for (long j = 0; j < job.n; j++) job.inverse[j] = 1.0 / pivots[j];
    for (long c = 0; c < job.columns; c += TARGETS) {
        double last[TARGETS] = {};
        for (long j = 0; j < job.n; j++) {
            const double low = j ? below[j - 1] : 0.0;
            UNROLLED for (int k = 0; k < TARGETS; k++) {
                last[k] = job.x[j * job.columns + c + k] - low * last[k];
                job.targets[j * job.columns + c + k] = job.inverse[j] * last[k];
            }
        }
    }
}

// Of the rows of one vector, the diagonal of G, Σ_j v_j²/d_j, and the squares of some coefficients, Σ_j v_j t_j.
template <int COLUMNS>
inline void look(const LeftOut &job, const double *below, const double *q, const double *targets,
                 Vec<double> &own, Vec<double> &squares) {
    Vec<double> v{}, diagonal{}, sums[COLUMNS] = {};
    for (long j = 0; j < job.n; j++) {
        v = load(q + j * job.stride) - (j ? below[j - 1] : 0.0) * v;
        diagonal += job.inverse[j] * v * v;
        UNROLLED for (int c = 0; c < COLUMNS; c++) sums[c] += targets[j * job.columns + c] * v;
    }
    own = diagonal;
    UNROLLED for (int c = 0; c < COLUMNS; c++) squares += sums[c] * sums[c];
}

// Σ_i ‖a_i‖²/G_ii² over the rows of one vector.
inline double left_out_rows(const LeftOut &job, const double *below, long top) {
    Vec<double> own{}, squares{};
    for (long c = 0; c < job.columns;) {
        const long left = job.columns - c;
        const double *q = job.q + top, *targets = job.targets + c;
        if (left >= 16 && MOST_TARGETS >= 16)
            look<MOST_TARGETS>(job, below, q, targets, own, squares), c += MOST_TARGETS;
        else if (left >= 8)
            look<8>(job, below, q, targets, own, squares), c += 8;
        else
            look<4>(job, below, q, targets, own, squares), c += 4;
    }
    double sum = 0.0;
    for (long i = 0; i < WIDTH<double> && top + i < job.n; i++) sum += squares[i] / (own[i] * own[i]);
    return sum;
}

void left_out(const LeftOut &job) {
    for (long p = 0; p < job.penalties; p++) {
        double *pivots = job.pivots + p * job.n, *below = job.below + p * job.n, sum = 0.0;
        if (!factor(job, job.alphas[p], pivots, below)) {
            job.errors[p] = __builtin_inf();
            continue;
        }
        eliminate(job, pivots, below);
        for (long top = 0; top < job.n; top += WIDTH<double>) sum += left_out_rows(job, below, top);
        job.errors[p] = sum;
    }
}

// The map learned without row i, at the scores beside its own: Σ_j s_j t_j less what row i adds, a_i (Σ_j s_j v_j/d_j) / G_ii.
inline void beside_rows(const Beside &job, long top, long first) {
    Vec<double> v{}, s{}, own{}, inner{}, coef[TARGETS] = {}, said[TARGETS] = {};
    for (long j = 0; j < job.n; j++) {
        const double low = j ? job.below[j - 1] : 0.0;
        const double *targets = job.targets + j * job.columns + first;
        v = load(job.q + j * job.stride + top) - low * v;
        s = load(job.seen + j * job.stride + top) - low * s;
        own += job.inverse[j] * v * v;
        inner += job.inverse[j] * v * s;
        UNROLLED for (int c = 0; c < TARGETS; c++) {
            coef[c] += targets[c] * v;
            said[c] += targets[c] * s;
        }
    }
    UNROLLED for (int c = 0; c < TARGETS; c++) store(job.said + (first + c) * job.stride + top, said[c] - inner / own * coef[c]);
}

void beside(const Beside &job) {
    eliminate(job, job.pivots, job.below);
    for (long top = 0; top < job.stride; top += WIDTH<double>)
        for (long c = 0; c < job.columns; c += TARGETS) beside_rows(job, top, c);
}

// ── the tridiagonal form itself ─────────────────────────────────────────────
constexpr int SHARING = 4;  // rows that share a look at a vector

inline double total(Vec<double> v) {
    double sum = 0.0;
    UNROLLED for (int i = 0; i < WIDTH<double>; i++) sum += v[i];
    return sum;
}

// ROWS rows of A - v w' - w v', and their products with `next`, over m columns.
template <int ROWS>
inline void turn_rows(double *a, long stride, long m, const double *v, const double *w, const double *own_v, const double *own_w,
                      const double *next, double *products) {
    Vec<double> sums[ROWS] = {};
    for (long c = 0; c < m; c += WIDTH<double>) {
        const Vec<double> beside_v = load(v + c), beside_w = load(w + c), with = load(next + c);
        UNROLLED for (int r = 0; r < ROWS; r++) {
            const Vec<double> turned = load(a + r * stride + c) - own_v[r] * beside_w - own_w[r] * beside_v;
            store(a + r * stride + c, turned);
            sums[r] += turned * with;
        }
    }
    UNROLLED for (int r = 0; r < ROWS; r++) products[r] = total(sums[r]);
}

// ROWS rows times I - τvv', over m columns.
template <int ROWS> inline void reflect_rows(double *rows, long stride, long m, const double *v, double tau) {
    Vec<double> sums[ROWS] = {}, times[ROWS];
    for (long c = 0; c < m; c += WIDTH<double>)
        UNROLLED for (int r = 0; r < ROWS; r++) sums[r] += load(rows + r * stride + c) * load(v + c);
    UNROLLED for (int r = 0; r < ROWS; r++) times[r] = all(tau * total(sums[r]));
    for (long c = 0; c < m; c += WIDTH<double>)
        UNROLLED for (int r = 0; r < ROWS; r++) store(rows + r * stride + c, load(rows + r * stride + c) - times[r] * load(v + c));
}

// The first m entries of a row become v, with zeros behind, and (I - τvv') takes them to the last of them alone: β.
inline double reflection(double *row, long m, long stride, double &tau) {
    const double alpha = row[m - 1];
    double unit = 0.0, squares = 0.0, beta = alpha, over = 0.0;
    for (long c = 0; c < m; c++) unit = __builtin_fabs(row[c]) > unit ? __builtin_fabs(row[c]) : unit;
    // In units of the largest, so that squares neither overflow nor lose digits. What is left of rows without rank may
    // be as small as any number, and then is nothing.
    const double inverse = unit > 1e-290 ? 1.0 / unit : 0.0;
    for (long c = 0; c + 1 < m; c++) squares += (inverse * row[c]) * (inverse * row[c]);
    tau = 0.0;
    if (squares > 0.0) {
        const double own = inverse * alpha;
        beta = (alpha > 0.0 ? -unit : unit) * __builtin_sqrt(squares + own * own);
        tau = (beta - alpha) / beta;
        over = 1.0 / (alpha - beta);
    }
    for (long c = 0; c + 1 < m; c++) row[c] *= over;
    row[m - 1] = 1.0;
    for (long c = m; c < stride; c++) row[c] = 0.0;
    return beta;
}

// From the last row to the first: what a reflection does to the others is done on the way to the product with the next.
void reduce(const Reduction &job) {
    const long n = job.n, stride = job.stride;
    double *w = job.room, *products = w + stride, *taus = products + stride;
    for (long c = 0; c < stride; c++) w[c] = products[c] = 0.0;
    const double *before = w;  // the reflection before: there is none, and zeros do nothing
    for (long m = n - 1; m > 0; m--) {
        double *v = job.a + m * stride;
        const double own_v = before[m], own_w = w[m];
        for (long c = 0; c <= m; c++) v[c] -= own_v * w[c] + own_w * before[c];
        job.diagonal[m] = v[m];
        job.off[m - 1] = reflection(v, m, stride, taus[m]);
        long r = 0;
        for (; r + SHARING <= m; r += SHARING)
            turn_rows<SHARING>(job.a + r * stride, stride, m, before, w, before + r, w + r, v, products + r);
        for (; r < m; r++) turn_rows<1>(job.a + r * stride, stride, m, before, w, before + r, w + r, v, products + r);
        double inner = 0.0;
        for (long c = 0; c < m; c++) inner += products[c] * v[c];
        const double tau = taus[m], half = 0.5 * tau * tau * inner;
        for (long c = 0; c < m; c++) w[c] = tau * products[c] - half * v[c];
        for (long c = m; c < stride; c++) w[c] = 0.0;
        before = v;
    }
    job.diagonal[0] = job.a[0] - 2.0 * before[0] * w[0];
    if (!job.q) return;
    for (long r = 0; r < n; r++)
        for (long c = 0; c < stride; c++) job.q[r * stride + c] = r == c ? 1.0 : 0.0;
    for (long m = 1; m < n; m++) {
        const double *v = job.a + m * stride;
        long r = 0;
        for (; r + SHARING <= m; r += SHARING) reflect_rows<SHARING>(job.q + r * stride, stride, m, v, taus[m]);
        for (; r < m; r++) reflect_rows<1>(job.q + r * stride, stride, m, v, taus[m]);
    }
}

// Rows of coordinates times Q', reflection by reflection: for a few of them Q' itself would take far longer.
void turn_back(const Reduction &job) {
    const long n = job.n, stride = job.stride;
    const double *taus = job.room + 2 * stride;
    long r = 0;
    for (; r + SHARING <= job.count; r += SHARING)
        for (long m = 1; m < n; m++)
            reflect_rows<SHARING>(job.rows + r * stride, stride, m, job.a + m * stride, taus[m]);
    for (; r < job.count; r++)
        for (long m = 1; m < n; m++) reflect_rows<1>(job.rows + r * stride, stride, m, job.a + m * stride, taus[m]);
}

}  // namespace
