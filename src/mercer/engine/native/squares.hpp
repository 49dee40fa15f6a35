// Squares of sections: rows of a tile about their mean, and C'C of the sections C of blocks of rows.
//
// A block lies in panels of sections, [panel][row][section of the panel]: what a product of two panels reads lies
// together, and is the layout that pairs of rows have, with sections for rows. Tiles are centred about their own means,
// and how far these are apart, and from the mean of the blocks before, is told by a few rows more (Chan, Golub & LeVeque
// 1979). Products are added in the order of the blocks to one array of float64, so that neither the number of threads nor
// how many panels a product has changes a bit.
//
// A round of tickets makes the tiles of one block and the products of the block before it. So threads go from block to
// block without a break: whoever is late is waited for a round later, if at all.
#pragma once

#include <cstring>

#include "pairs.hpp"
#include "thin.hpp"

namespace {

constexpr long BLOCKS = 3;  // in memory: one that is made, one that is multiplied, and one for whoever is late

struct Squares {
    void *centred;           // (panels, BLOCKS · height, PANEL): rows of blocks, times the roots of their weights
    int64_t wide, height;    // whether its numbers are float64 though tiles are not; rows that a block has room for
    int64_t tiles, blocks;   // tiles of a block, and blocks of all rows
    const double *weights;   // (rows,), or one each
    double *means;           // (BLOCKS, tiles, width) of tiles
    int64_t width;
    double *so_far;          // (1 + width,): the weight of all blocks so far, and their mean
    double *sums;            // (panels · PANEL, panels · PANEL): those on and above the diagonal
    int64_t panels, group;   // of the sums; of a product, on each side
    int64_t products;        // of a block
    int64_t *made, *used;    // by block: tiles that are centred, products that are added
    int64_t *added;          // by product: blocks that it has
    int64_t merged;          // blocks whose means are merged
    int64_t rows[BLOCKS];    // to be squared, of the blocks in memory
};

constexpr long MOST_TILES = 64;  // of a block

// ── rows about their mean ───────────────────────────────────────────────────
// The mean is that of differences from the first row: rows that are all alike have that very row for a mean.
template <class Real, class To>
void centre_panel(const Squares &job, double *means, const double *weights, To *to, long m, const Real *tile, long stride) {
    typedef Doubles<Real> Wide;
    Wide sums[PAIR_VECS], mean[PAIR_VECS];
    UNROLLED for (int c = 0; c < PAIR_VECS; c++) {
        mean[c] = __builtin_convertvector(load(tile + c * WIDTH<Real>), Wide);
        sums[c] = Wide{};
    }
    double weight = 0;
    for (long i = 0; i < m; i++) {
        const double w = weights ? weights[i] : 1.0;
        weight += w;
        UNROLLED for (int c = 0; c < PAIR_VECS; c++)
            sums[c] += w * (__builtin_convertvector(load(tile + i * stride + c * WIDTH<Real>), Wide) - mean[c]);
    }
    if (weight > 0)
        UNROLLED for (int c = 0; c < PAIR_VECS; c++) mean[c] += sums[c] / weight;
    std::memcpy(means, mean, sizeof mean);
    for (long i = 0; i < m; i++) {
        const double root = weights ? __builtin_sqrt(weights[i]) : 1.0;
        alignas(VECTOR_BYTES) To row[PANEL<Real>];
        UNROLLED for (int c = 0; c < PAIR_VECS; c++) {
            const Wide gap = (__builtin_convertvector(load(tile + i * stride + c * WIDTH<Real>), Wide) - mean[c]) * root;
            typedef To Out __attribute__((vector_size(WIDTH<Real> * sizeof(To)), aligned(VECTOR_BYTES)));
            *reinterpret_cast<Out *>(row + c * WIDTH<Real>) = __builtin_convertvector(gap, Out);
        }
        // A panel of float32 has twice the sections of one of float64.
        for (long q = 0; q < PANEL<Real> / PANEL<To>; q++)
            std::memcpy(to + (q * BLOCKS * job.height + i) * PANEL<To>, row + q * PANEL<To>, PANEL<To> * sizeof(To));
    }
}

// A tile of m rows from `top` on, the one at this place of a block, and sections from `first` on.
template <class Real, class To>
void centre(const Squares &job, long block, long place, long top, long height, long m, long first, long width, const Real *tile) {
    const long slot = block % BLOCKS, stride = width * PANEL<Real>;
    for (long j = first; j < first + stride; j += PANEL<Real>)
        centre_panel<Real, To>(job, job.means + (slot * job.tiles + place) * job.width + j, job.weights ? job.weights + top : nullptr,
                               static_cast<To *>(job.centred) + (j * BLOCKS + slot * PANEL<To>) * job.height + place * height * PANEL<To>,
                               m, tile + j - first, stride);
}

// What the means of m rows in tiles of `height` are apart, as rows of their block.
template <class To> void merge(Squares &job, long block, long top, long m, long height) {
    const long slot = block % BLOCKS, tiles = (m + height - 1) / height, width = job.width;
    double *means = job.means + slot * job.tiles * width, *mean = job.so_far + 1, weight = 0, tile[MOST_TILES];
    for (long t = 0; t < tiles; t++) {
        tile[t] = 0;
        for (long i = t * height; i < m && i < (t + 1) * height; i++) tile[t] += job.weights ? job.weights[top + i] : 1.0;
        weight += tile[t];
    }
    job.rows[slot] = weight > 0 ? m + tiles + 1 : 0;
    if (weight == 0) return;
    const double before = job.so_far[0], total = before + weight, share = weight / total, apart = __builtin_sqrt(before * share);
    job.so_far[0] = total;
    for (long j = 0; j < width; j++) {
        double own = 0;
        for (long t = 0; t < tiles; t++) own += tile[t] * (means[t * width + j] - means[j]);
        own = means[j] + own / weight;
        To *to = static_cast<To *>(job.centred) + (j / PANEL<To> * BLOCKS + slot) * job.height * PANEL<To> + m * PANEL<To> + j % PANEL<To>;
        for (long t = 0; t < tiles; t++) to[t * PANEL<To>] = static_cast<To>((means[t * width + j] - own) * __builtin_sqrt(tile[t]));
        const double gap = own - mean[j];
        to[tiles * PANEL<To>] = static_cast<To>(apart * gap);
        mean[j] += share * gap;
    }
}

// ── products ────────────────────────────────────────────────────────────────
constexpr long SQUARED_ROWS = 192;  // at a time: a panel of them stays in a core's nearest cache

template <class Real> void add_product(const Squares &job, long block, long product) {
    long top = 0;  // groups of panels, by columns of a triangle
    while ((top + 1) * (top + 2) / 2 <= product) top++;
    const long i0 = (product - top * (top + 1) / 2) * job.group, j0 = top * job.group, stride = job.panels * PANEL<Real>;
    const long i1 = i0 + job.group, j1 = j0 + job.group < job.panels ? j0 + job.group : job.panels;
    const long rows = job.rows[block % BLOCKS], apart = BLOCKS * job.height;  // rows from a panel to the next
    const Real *centred = static_cast<const Real *>(job.centred) + block % BLOCKS * job.height * PANEL<Real>;
    for (long k = 0; k < rows; k += SQUARED_ROWS) {
        const long n = rows - k < SQUARED_ROWS ? rows - k : SQUARED_ROWS;
        for (long j = j0; j < j1; j++)
            for (long i = i0; i < i1 && i <= j; i++)
                for (long r = 0; r < PANEL<Real>; r += PAIR_ROWS) {
                    Vec<Real> sums[PAIR_ROWS][PAIR_VECS];
                    const Real *left = centred + (i * apart + k) * PANEL<Real> + r;
                    pair_block<Real, DOT>(left, centred + (j * apart + k) * PANEL<Real>, n, sums);
                    double *to = job.sums + (i * PANEL<Real> + r) * stride + j * PANEL<Real>;
                    UNROLLED for (int s = 0; s < PAIR_ROWS; s++) UNROLLED for (int c = 0; c < PAIR_VECS; c++)
                        *reinterpret_cast<Doubles<Real> *>(to + s * stride + c * WIDTH<Real>) +=
                            __builtin_convertvector(sums[s][c], Doubles<Real>);
                }
    }
}

}  // namespace
