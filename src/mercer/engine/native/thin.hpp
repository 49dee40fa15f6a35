// Dense matrices times thin ones, Y += T V, for matrices that are stored: a kernel matrix of few rows, a Krylov basis.
//
// A BLAS packs T first, which for a thin V takes longer than the product, and its threads spin while others want their
// cores. Here T is read once, as it lies in memory, by threads that end with the product.
#pragma once

#include <atomic>
#include <cstring>

#include "vectors.hpp"

namespace {

template <class Real> inline std::atomic<Real> &shared(Real &number) { return reinterpret_cast<std::atomic<Real> &>(number); }

struct Thin {
    const void *t;             // (m, n), entries `down` and `along` apart
    int64_t m, n, down, along;
    const void *v;             // (n, vectors · WIDTH - back), rows `v_stride` apart
    int64_t v_stride, vectors;
    int64_t back;              // columns that the last vector shares with the one before it
    double *y;                 // (groups, m, ..), rows `y_stride` and groups `y_group` apart
    int64_t y_stride, y_group;
    int64_t height, length;    // rows and columns of T that a ticket takes
    int64_t n_tickets;
    int64_t ticket, stop;
};

// Numbers that lie anywhere.
template <class Real> struct Anywhere;
template <> struct Anywhere<double> { typedef double vec __attribute__((vector_size(VECTOR_BYTES), aligned(8))); };
template <> struct Anywhere<float> { typedef float vec __attribute__((vector_size(VECTOR_BYTES), aligned(4))); };

constexpr long DEPTH = 512;  // columns of T at a time: the rows of V that they meet stay in a core's cache

// The last of the vectors begins `back` columns early, and adds nothing to these.
template <class Real, int ROWS, int VECS>
inline void thin_rows(const Real *t, long down, long along, long n, const Real *v, long v_stride, double *y, long y_stride, long back) {
    typedef typename Anywhere<Real>::vec From;
    auto column = [=](int c) { return c * WIDTH<Real> - (c + 1 == VECS ? back : 0); };
    Vec<Real> sums[ROWS][VECS];
    UNROLLED for (int r = 0; r < ROWS; r++) UNROLLED for (int c = 0; c < VECS; c++) sums[r][c] = Vec<Real>{};
    for (long j = 0; j < n; j++) {
        Vec<Real> right[VECS];
        UNROLLED for (int c = 0; c < VECS; c++) right[c] = *reinterpret_cast<const From *>(v + j * v_stride + column(c));
        UNROLLED for (int r = 0; r < ROWS; r++) {
            Vec<Real> left = all(t[r * down + j * along]);
            UNROLLED for (int c = 0; c < VECS; c++) sums[r][c] += left * right[c];
        }
    }
    if (back)
        UNROLLED for (int i = 0; i < WIDTH<Real>; i++)
            if (i < back) UNROLLED for (int r = 0; r < ROWS; r++) sums[r][VECS - 1][i] = 0;
    UNROLLED for (int r = 0; r < ROWS; r++) UNROLLED for (int c = 0; c < VECS; c++) {
        // Copied, not written through a pointer: sums of float32 are two vectors, and GCC moves a load of one of them
        // before a store of the other, which it may share columns with.
        double *to = y + r * y_stride + column(c);
        Doubles<Real> so_far;
        std::memcpy(&so_far, to, sizeof so_far);
        so_far += __builtin_convertvector(sums[r][c], Doubles<Real>);
        std::memcpy(to, &so_far, sizeof so_far);
    }
}

template <class Real, int VECS>
void thin_columns(const Real *t, long m, long n, long down, long along, const Real *v, long v_stride, double *y, long y_stride,
                  long back) {
    // As many sums as there are registers for: a product waits for the one before it.
    constexpr int ROWS = VECS == 1 ? 2 * THIN_ROWS : THIN_ROWS;
    long r = 0;
    for (; r + ROWS <= m; r += ROWS) thin_rows<Real, ROWS, VECS>(t + r * down, down, along, n, v, v_stride, y + r * y_stride, y_stride, back);
    for (; r < m; r++) thin_rows<Real, 1, VECS>(t + r * down, down, along, n, v, v_stride, y + r * y_stride, y_stride, back);
}

// A block of T against all of V.
template <class Real> void thin_block(const Real *t, long m, long n, long down, long along, const Thin &job, long first, double *y) {
    for (long c = 0, width; c < job.vectors; c += width) {
        const long left = job.vectors - c;
        width = left > THIN_VECS ? (left == THIN_VECS + 1 ? (left + 1) / 2 : THIN_VECS) : left;
        const Real *v = static_cast<const Real *>(job.v) + first * job.v_stride + c * WIDTH<Real>;
        const long back = width == left ? job.back : 0;
        double *to = y + c * WIDTH<Real>;
        switch (width) {
            case 1: thin_columns<Real, 1>(t, m, n, down, along, v, job.v_stride, to, job.y_stride, back); break;
            case 2: thin_columns<Real, 2>(t, m, n, down, along, v, job.v_stride, to, job.y_stride, back); break;
            case 3: thin_columns<Real, 3>(t, m, n, down, along, v, job.v_stride, to, job.y_stride, back); break;
            default: thin_columns<Real, THIN_VECS>(t, m, n, down, along, v, job.v_stride, to, job.y_stride, back);
        }
    }
}

// Where columns lie together, entries of a row are a page apart each: some rows are gathered first.
constexpr long GATHERED = 48, GATHERED_DEPTH = 128;

template <class Real> void thin_ticket(const Thin &job, long ticket) {
    const long below = (job.m + job.height - 1) / job.height, i = ticket % below, g = ticket / below;
    const long top = i * job.height, m = job.m - top < job.height ? job.m - top : job.height;
    const long first = g * job.length, end = job.n - first < job.length ? job.n : first + job.length;
    const Real *t = static_cast<const Real *>(job.t) + top * job.down;
    double *y = job.y + g * job.y_group + top * job.y_stride;
    const bool gathers = job.down == 1 && job.along != 1;
    const long depth = gathers ? GATHERED_DEPTH : DEPTH, height = gathers ? GATHERED : m;
    Real rows[GATHERED_DEPTH * GATHERED];
    for (long r = 0; r < m; r += height) {
        const long some = m - r < height ? m - r : height;
        for (long j = first; j < end; j += depth) {
            const long n = end - j < depth ? end - j : depth;
            const Real *from = t + r * job.down + j * job.along;
            if (gathers)
                for (long c = 0; c < n; c++) std::memcpy(rows + c * GATHERED, from + c * job.along, some * sizeof(Real));
            if (gathers)
                thin_block<Real>(rows, some, n, 1, GATHERED, job, j, y + r * job.y_stride);
            else
                thin_block<Real>(from, some, n, job.down, job.along, job, j, y + r * job.y_stride);
        }
    }
}

template <class Real> int64_t run_thin(Thin &job, int64_t most) {
    int64_t drawn = 0;
    for (; drawn < most && !shared(job.stop).load(std::memory_order_relaxed); drawn++) {
        const int64_t ticket = shared(job.ticket).fetch_add(1, std::memory_order_relaxed);
        if (ticket >= job.n_tickets) break;
        thin_ticket<Real>(job, ticket);
    }
    return drawn;
}

}  // namespace
