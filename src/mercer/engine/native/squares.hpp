// Squares of sections: rows of a tile about their mean, and C'C of the sections C of a block of rows.
//
// A block lies in panels of sections, [panel][row][section of the panel]: what a product of two panels reads lies
// together, and is the layout that pairs of rows have, with sections for rows. Products are added in the order of the
// rows to one array of float64, an entry always by the ticket that has its panels, so that neither the number of threads
// nor how many panels a ticket has changes a bit.
#pragma once

#include <cstring>

#include "pairs.hpp"
#include "thin.hpp"

namespace {

struct Centred {  // where rows of tiles go, times the roots of their weights
    void *to;               // (panels, height, PANEL)
    int64_t height, wide;   // rows that there is room for; whether numbers are float64 though tiles are not
    const double *weights;  // (rows,), or one each
    double *means;          // (blocks of rows, width)
    int64_t width;
};

struct Squares {
    const void *centred;             // (panels, height, PANEL)
    int64_t panels, height, rows;
    double *sums;                    // (panels · PANEL, panels · PANEL): those on and above the diagonal
    int64_t group;                   // panels of a ticket, on each side
    int64_t n_tickets;
    int64_t ticket, stop;
};

// ── rows about their mean ───────────────────────────────────────────────────
// The mean is that of differences from the first row: rows that are all alike have that very row for a mean.
template <class Real, class To>
void centre_panel(const Centred &job, long block, long top, long m, long first, const Real *tile, long stride) {
    typedef Doubles<Real> Wide;
    Wide sums[PAIR_VECS], mean[PAIR_VECS];
    UNROLLED for (int c = 0; c < PAIR_VECS; c++) {
        mean[c] = __builtin_convertvector(load(tile + c * WIDTH<Real>), Wide);
        sums[c] = Wide{};
    }
    double weight = 0;
    for (long i = 0; i < m; i++) {
        const double w = job.weights ? job.weights[top + i] : 1.0;
        weight += w;
        UNROLLED for (int c = 0; c < PAIR_VECS; c++)
            sums[c] += w * (__builtin_convertvector(load(tile + i * stride + c * WIDTH<Real>), Wide) - mean[c]);
    }
    if (weight > 0)
        UNROLLED for (int c = 0; c < PAIR_VECS; c++) mean[c] += sums[c] / weight;
    std::memcpy(job.means + block * job.width + first, mean, sizeof mean);
    To *to = static_cast<To *>(job.to) + first * job.height + top * PANEL<To>;
    for (long i = 0; i < m; i++) {
        const double root = job.weights ? __builtin_sqrt(job.weights[top + i]) : 1.0;
        alignas(VECTOR_BYTES) To row[PANEL<Real>];
        UNROLLED for (int c = 0; c < PAIR_VECS; c++) {
            const Wide gap = (__builtin_convertvector(load(tile + i * stride + c * WIDTH<Real>), Wide) - mean[c]) * root;
            typedef To Out __attribute__((vector_size(WIDTH<Real> * sizeof(To)), aligned(VECTOR_BYTES)));
            *reinterpret_cast<Out *>(row + c * WIDTH<Real>) = __builtin_convertvector(gap, Out);
        }
        // A panel of float32 has twice the sections of one of float64.
        for (long q = 0; q < PANEL<Real> / PANEL<To>; q++)
            std::memcpy(to + (q * job.height + i) * PANEL<To>, row + q * PANEL<To>, PANEL<To> * sizeof(To));
    }
}

template <class Real>
void centre(const Centred &job, long block, long top, long rows, long first, long height, long width, const Real *tile) {
    const long m = rows - top < height * PANEL<Real> ? rows - top : height * PANEL<Real>, stride = width * PANEL<Real>;
    for (long j = 0; j < stride; j += PANEL<Real>)
        if (job.wide)
            centre_panel<Real, double>(job, block, top, m, first + j, tile + j, stride);
        else
            centre_panel<Real, Real>(job, block, top, m, first + j, tile + j, stride);
}

// ── products ────────────────────────────────────────────────────────────────
constexpr long SQUARED_ROWS = 192;  // at a time: a panel of them stays in a core's nearest cache

template <class Real> void squares_ticket(const Squares &job, long ticket) {
    long top = 0;  // groups of panels, by columns of a triangle
    while ((top + 1) * (top + 2) / 2 <= ticket) top++;
    const long i0 = (ticket - top * (top + 1) / 2) * job.group, j0 = top * job.group, stride = job.panels * PANEL<Real>;
    const long i1 = i0 + job.group, j1 = j0 + job.group < job.panels ? j0 + job.group : job.panels;
    const Real *centred = static_cast<const Real *>(job.centred);
    for (long k = 0; k < job.rows; k += SQUARED_ROWS) {
        const long n = job.rows - k < SQUARED_ROWS ? job.rows - k : SQUARED_ROWS;
        for (long j = j0; j < j1; j++)
            for (long i = i0; i < i1 && i <= j; i++)
                for (long r = 0; r < PANEL<Real>; r += PAIR_ROWS) {
                    Vec<Real> sums[PAIR_ROWS][PAIR_VECS];
                    const Real *left = centred + (i * job.height + k) * PANEL<Real> + r;
                    pair_block<Real, DOT>(left, centred + (j * job.height + k) * PANEL<Real>, n, sums);
                    double *to = job.sums + (i * PANEL<Real> + r) * stride + j * PANEL<Real>;
                    UNROLLED for (int s = 0; s < PAIR_ROWS; s++) UNROLLED for (int c = 0; c < PAIR_VECS; c++)
                        *reinterpret_cast<Doubles<Real> *>(to + s * stride + c * WIDTH<Real>) +=
                            __builtin_convertvector(sums[s][c], Doubles<Real>);
                }
    }
}

template <class Real> int64_t run_squares(Squares &job, int64_t most) {
    int64_t drawn = 0;
    for (; drawn < most && !shared(job.stop).load(std::memory_order_relaxed); drawn++) {
        const int64_t ticket = shared(job.ticket).fetch_add(1, std::memory_order_relaxed);
        if (ticket >= job.n_tickets) break;
        squares_ticket<Real>(job, job.n_tickets - 1 - ticket);
    }
    return drawn;
}

}  // namespace
