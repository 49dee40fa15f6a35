// Tiles of a kernel matrix, made, used and forgotten: pairs of rows -> formula -> products with thin matrices.
//
// Rows come packed in panels (vectors.hpp), a formula as a list of operations on tiles (program.py writes it). A pass is
// a list of tickets, one tile each. Any number of threads draw tickets (`run`) until there are no more, without Python.
// Sums over tiles are added in the order of the tickets, whoever computes them, so that no number of threads and no
// timing changes a bit of a result.
#include <atomic>
#include <cstring>
#include <sched.h>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "explained.hpp"
#include "functions.hpp"
#include "lanczos.hpp"
#include "pairs.hpp"
#include "slopes.hpp"
#include "squares.hpp"
#include "thin.hpp"
#include "tridiagonal.hpp"
#ifdef PLAIN
#include "team.hpp"
#endif

namespace {

// ── what Python hands over: the same layout as in bindings.py ────────────────
struct Rows {  // as they lie in memory, packed block by block as tiles need them
    const void *numbers;
    int64_t n, down, along;   // numbers from a row to the next, and from a column
    int64_t single;           // float32
    const int64_t *which;     // columns, or all
    const double *origin;     // taken off, or nothing
    int64_t unit;             // divided by their length
};

struct Leaf {  // a quantity of a pair of rows
    int64_t kind, columns;
    const void *left, *right;              // packed rows, or none
    const void *left_norms, *right_norms;  // squared, of SQUARES
    const Rows *left_rows, *right_rows;    // where they are not packed
};

enum Code : int64_t { PAIR, AFFINE, EXP, TANH, ROOT, WHOLE_POWER, POWER, POLY_EXP, ADD, MULTIPLY, OUTER, CONSTANT, KEEP, TAKE, SMOOTH };

struct Op {  // on the last tile of a stack of tiles, or on the last two
    int64_t code, number;
    double a, b;
    const void *left, *right;
};

struct Job {
    const Leaf *leaves;
    const Op *ops;
    int64_t n_ops, depth;      // tiles of the stack
    int64_t rows, columns;     // of the matrix
    int64_t panels;            // of a block of rows or columns
    int64_t symmetric;         // each pair of blocks once, for both sides of the diagonal
    int64_t group;             // not symmetric: blocks of columns a ticket
    const void *v;             // (columns, vectors · WIDTH), or none
    int64_t vectors;
    double *sums, *other_sums; // (rows, ..) or (groups, rows, ..), and what lies across the diagonal
    void *matrix;              // (rows, columns), to be written, or none
    int64_t stride;
    Squares *squares;          // or to be centred and squared
    const Explained *explained;  // or multiplied with the columns of a factor
    const Pulls *pulls;        // or to weigh derivatives
    void *exact;               // the first tiles as they are
    int64_t n_exact;
    float *rounded;            // all tiles less `minus` in float32, or as codes of 16 bits
    uint16_t *codes;
    float *scales;             // low, step of the codes of each tile
    float *diagonals;          // (rows,) with codes: kept as it is
    float minus;
    int32_t from_rounded;      // multiply what is rounded
    uint8_t *made;             // tickets whose tiles are kept
    int64_t n_tickets;
    int64_t ticket, stop;      // the next one; whether to end early
    int64_t *done;             // by block, for sums and other_sums: tickets that have been added
};

// Whoever is waited for may not even be running, on a machine with more threads than cores.
inline void pause(int turn) {
#if defined(__x86_64__)
    if (turn % 64) return _mm_pause();
#endif
    sched_yield();
}

// Below this share of ‖x‖² + ‖y‖² a squared distance has lost digits to cancellation, and is computed from differences.
template <class Real> constexpr Real NEAR = sizeof(Real) == 8 ? Real(1e-4) : Real(0.05);

// Of so few columns differences cost no more than products and a look at what is near.
constexpr long FEW_COLUMNS = 4;

// ── pairs ───────────────────────────────────────────────────────────────────
// Σ(x - y)² of a block; not inlined, so that the block around it keeps its registers.
template <class Real>
[[gnu::noinline]] void difference_block(const Real *a, const Real *b, long columns, Vec<Real> (&squares)[PAIR_ROWS][PAIR_VECS]) {
    Vec<Real> sums[PAIR_ROWS][PAIR_VECS];
    pair_block<Real, SQUARES>(a, b, columns, sums);
    std::memcpy(squares, sums, sizeof sums);
}

// ‖x‖² + ‖y‖² - 2 x·y, and from differences for each pair that is near: decided pair by pair, so that a distance has the
// same bits whatever other rows stand beside it. OWN: the r-th row meets itself in column own + r, where the distance is
// nothing, and no reason to look at differences.
template <class Real, bool OWN>
inline void distance_block(const Real *a, const Real *b, long columns, const Real *a_norms, const Real *b_norms, long own,
                           Vec<Real> (&sums)[PAIR_ROWS][PAIR_VECS]) {
    if (columns <= FEW_COLUMNS) return pair_block<Real, SQUARES>(a, b, columns, sums);
    pair_block<Real, DOT>(a, b, columns, sums);
    auto is_near = [&](int r, int c, Vec<Real> distance) -> Ints<Real> {
        return distance < NEAR<Real> * (load(b_norms + c * WIDTH<Real>) + a_norms[r]);  // not of zeros beyond the last row
    };
    Ints<Real> near = Ints<Real>{};
    UNROLLED for (int r = 0; r < PAIR_ROWS; r++) UNROLLED for (int c = 0; c < PAIR_VECS; c++) {
        sums[r][c] = (load(b_norms + c * WIDTH<Real>) + a_norms[r]) - 2 * sums[r][c];
        Ints<Real> nearer = is_near(r, c, sums[r][c]);
        if constexpr (OWN) {
            const long lane = own + r - c * WIDTH<Real>;
            UNROLLED for (int i = 0; i < WIDTH<Real>; i++) if (i == lane) nearer[i] = 0, sums[r][c][i] = 0;
        }
        near |= nearer;
    }
    typename std::remove_reference<decltype(near[0])>::type any = 0;
    UNROLLED for (int i = 0; i < WIDTH<Real>; i++) any |= near[i];
    if (!any) return;
    Vec<Real> squares[PAIR_ROWS][PAIR_VECS];
    difference_block<Real>(a, b, columns, squares);
    UNROLLED for (int r = 0; r < PAIR_ROWS; r++) UNROLLED for (int c = 0; c < PAIR_VECS; c++)
        sums[r][c] = is_near(r, c, sums[r][c]) ? squares[r][c] : sums[r][c];
}

// Rows of a block in panels, shifted in float64 whatever they are, with their squared norms; zeros beyond the last.
// Some columns at a time: what a row writes to then is still near when the next row of the panel writes beside it.
constexpr long STRIP = 16;

template <class Real, class Number> void pack(const Rows &x, long d, long top, long panels, Real *to, Real *norms) {
    const Number *numbers = static_cast<const Number *>(x.numbers);
    for (long p = 0; p < panels; p++) {
        const long at = (top + p) * PANEL<Real>, rest = x.n - at, there = rest < 0 ? 0 : rest < PANEL<Real> ? rest : PANEL<Real>;
        auto number = [&](long r, long c) { return static_cast<double>(numbers[(at + r) * x.down + (x.which ? x.which[c] : c) * x.along]); };
        double scales[PANEL<Real>], lengths[PANEL<Real>];
        for (long r = 0; x.unit && r < there; r++) {  // a power of two first: no square is out of range
            double largest = 0, sum = 0;
            for (long c = 0; c < d; c++) largest = __builtin_fmax(largest, __builtin_fabs(number(r, c)));
            int power;
            __builtin_frexp(largest, &power);
            scales[r] = __builtin_ldexp(1.0, power < -1022 ? 1022 : power > 1022 ? -1022 : -power);
            for (long c = 0; c < d; c++) sum += (number(r, c) * scales[r]) * (number(r, c) * scales[r]);
            lengths[r] = sum > 0 ? __builtin_sqrt(sum) : 1;
        }
        Real *panel = to + p * d * PANEL<Real>;
        for (long strip = 0; strip < d; strip += STRIP) {
            const long end = strip + STRIP < d ? strip + STRIP : d;
            for (long r = 0; r < there; r++)
                for (long c = strip; c < end; c++) {
                    const double moved = number(r, c) - (x.origin ? x.origin[c] : 0);
                    panel[c * PANEL<Real> + r] = static_cast<Real>(x.unit ? moved * scales[r] / lengths[r] : moved);
                }
            for (long r = there; r < PANEL<Real>; r++)
                for (long c = strip; c < end; c++) panel[c * PANEL<Real> + r] = 0;
        }
        Vec<Real> sums[PAIR_VECS] = {};
        for (long c = 0; c < d; c++) UNROLLED for (int v = 0; v < PAIR_VECS; v++) {
            const Vec<Real> values = load(panel + c * PANEL<Real> + v * WIDTH<Real>);
            sums[v] += values * values;
        }
        UNROLLED for (int v = 0; v < PAIR_VECS; v++) store(norms + p * PANEL<Real> + v * WIDTH<Real>, sums[v]);
    }
}

template <class Real> void pack_rows(const Rows &x, long d, long top, long panels, Real *to, Real *norms) {
    x.single ? pack<Real, float>(x, d, top, panels, to, norms) : pack<Real, double>(x, d, top, panels, to, norms);
}

template <class Real> struct Panels {  // of a block of rows
    const Real *rows, *norms;
};

template <class Real>
Panels<Real> block_of(const void *rows, const void *norms, const Rows *raw, long d, long top, long panels, Real *room) {
    if (!raw) return {static_cast<const Real *>(rows) + top * d * PANEL<Real>, static_cast<const Real *>(norms) + top * PANEL<Real>};
    Real *own_norms = room + panels * d * PANEL<Real>;
    pack_rows<Real>(*raw, d, top, panels, room, own_norms);
    return {room, own_norms};
}

// The rows that lie packed in a thread's own memory: those of a tile serve for the next one beside it.
struct Lying {
    const Rows *rows;
    long top;
};

// A tile of a quantity, stride numbers a row; in `room` there is space for its rows on both sides. Of a tile on the
// diagonal the panels above it are computed, and mirrored.
template <class Real>
void fill_pairs(const Leaf &leaf, long top, long height, long first, long width, Real *tile, long stride, Real *room, Lying &lying,
                bool diagonal) {
    const long d = leaf.columns;
    const bool there = leaf.left_rows && lying.rows == leaf.left_rows && lying.top == top;
    const Panels<Real> left = there ? Panels<Real>{room, room + height * d * PANEL<Real>}
                                    : block_of(leaf.left, leaf.left_norms, leaf.left_rows, d, top, height, room);
    if (leaf.left_rows || leaf.right_rows) lying = {leaf.left_rows, top};
    Real *beyond = room + height * PANEL<Real> * (d + 1);
    const Panels<Real> right =
        diagonal ? left : block_of(leaf.right, leaf.right_norms, leaf.right_rows, d, first, width, beyond);
    for (long i = 0; i < height; i++)
        for (long r = 0; r < PANEL<Real>; r += PAIR_ROWS)
            for (long j = diagonal ? i : 0; j < width; j++) {
                const Real *a = left.rows + i * d * PANEL<Real> + r, *b = right.rows + j * d * PANEL<Real>;
                Vec<Real> sums[PAIR_ROWS][PAIR_VECS];
                switch (leaf.kind) {
                    case DOT: pair_block<Real, DOT>(a, b, d, sums); break;
                    case MANHATTAN: pair_block<Real, MANHATTAN>(a, b, d, sums); break;
                    case CHI2: pair_block<Real, CHI2>(a, b, d, sums); break;
                    default: {
                        const Real *a_norms = left.norms + i * PANEL<Real> + r, *b_norms = right.norms + j * PANEL<Real>;
                        diagonal && i == j ? distance_block<Real, true>(a, b, d, a_norms, b_norms, r, sums)
                                           : distance_block<Real, false>(a, b, d, a_norms, b_norms, 0, sums);
                    }
                }
                Real *to = tile + (i * PANEL<Real> + r) * stride + j * PANEL<Real>;
                UNROLLED for (int s = 0; s < PAIR_ROWS; s++) UNROLLED for (int c = 0; c < PAIR_VECS; c++)
                    store(to + s * stride + c * WIDTH<Real>, sums[s][c]);
            }
    if (!diagonal) return;
    for (long i = 1; i < height * PANEL<Real>; i++)
        for (long j = 0; j < i; j++) tile[i * stride + j] = tile[j * stride + i];
}

// ── a formula ───────────────────────────────────────────────────────────────
template <class Real, class Function> inline void each(Real *tile, long n, Function f) {
    for (long i = 0; i < n; i += WIDTH<Real>) store(tile + i, f(load(tile + i)));
}

template <class Real> Vec<Real> whole_power(Vec<Real> x, long p) {
    Vec<Real> out = all(Real(1));
    for (; p > 0; p >>= 1, x = x * x)
        if (p & 1) out = out * x;
    return out;
}

template <class Real> struct Place {
    long top, height, first, width;  // in panels
};

// Operations work on whole tiles, contiguous ones, which stay in a core's cache.
template <class Real> void apply(const Job &job, Place<Real> at, Real *stack, Real *room, Lying &lying) {
    const long stride = at.width * PANEL<Real>, n = at.height * PANEL<Real> * stride;
    Real *tile = stack - n;  // the last one of the stack
    for (long o = 0; o < job.n_ops; o++) {
        const Op &op = job.ops[o];
        const Real a = static_cast<Real>(op.a), b = static_cast<Real>(op.b), most = sizeof(Real) == 8 ? Real(1.7976931348623157e308) : Real(3.4028234663852886e38);
        switch (op.code) {
            case PAIR:
                tile += n;
                fill_pairs<Real>(job.leaves[op.number], at.top, at.height, at.first, at.width, tile, stride, room, lying,
                                 job.symmetric && at.top == at.first);
                break;
            case CONSTANT:
                tile += n;
                each(tile, n, [=](Vec<Real>) { return all(a); });
                break;
            case KEEP: std::memcpy(stack + (job.depth - 1 - op.number) * n, tile, n * sizeof(Real)); break;
            case TAKE:
                tile += n;
                std::memcpy(tile, stack + (job.depth - 1 - op.number) * n, n * sizeof(Real));
                break;
            case SMOOTH: each(tile, n, [=](Vec<Real> x) { return ((x > most) | (x < -most)) ? Vec<Real>{} : x; }); break;
            case AFFINE: each(tile, n, [=](Vec<Real> x) { return x * a + b; }); break;
            case EXP: each(tile, n, [=](Vec<Real> x) { return exponential(x * a); }); break;
            case TANH: each(tile, n, [](Vec<Real> x) { return tangent(x); }); break;
            case ROOT: each(tile, n, [](Vec<Real> x) { return square_root(x); }); break;
            case WHOLE_POWER: each(tile, n, [&](Vec<Real> x) { return whole_power<Real>(x, op.number); }); break;
            case POWER: each(tile, n, [&](Vec<Real> x) { return power(x, op.a); }); break;
            case POLY_EXP: {  // Σ c_i s^i e^-s: far away s^i would overflow before e^-s makes it nothing
                const double *c = static_cast<const double *>(op.left);
                each(tile, n, [&](Vec<Real> s) {
                    s = s > Real(1000) ? all(Real(1000)) : s;
                    Vec<Real> sum = all(static_cast<Real>(c[op.number]));
                    for (long i = op.number - 1; i >= 0; i--) sum = sum * s + static_cast<Real>(c[i]);
                    return sum * exponential(-s);
                });
                break;
            }
            case ADD:
            case MULTIPLY: {
                Real *under = tile - n;
                for (long i = 0; i < n; i += WIDTH<Real>) {
                    Vec<Real> x = load(under + i), y = load(tile + i);
                    store(under + i, op.code == ADD ? x + y : x * y);
                }
                tile = under;
                break;
            }
            case OUTER: {  // by a number of each row and one of each column
                const Real *rows = static_cast<const Real *>(op.left) + at.top * PANEL<Real>;
                const Real *columns = static_cast<const Real *>(op.right) + at.first * PANEL<Real>;
                for (long i = 0; i < at.height * PANEL<Real>; i++)
                    for (long j = 0; j < stride; j += WIDTH<Real>)
                        store(tile + i * stride + j, load(tile + i * stride + j) * (load(columns + j) * rows[i]));
                break;
            }
        }
    }
}

// ── products with thin matrices ─────────────────────────────────────────────
// y += t v for ROWS rows of t, whose entries lie `down` and `along` apart (so that a transpose is the same code), and VECS
// vectors of v. Sums of a tile are in the precision of its entries, those over tiles in float64.
template <class Real, int ROWS, int VECS>
inline void tile_rows(const Real *t, long down, long along, long n, const Real *v, double *y, long stride) {
    Vec<Real> sums[ROWS][VECS];
    UNROLLED for (int r = 0; r < ROWS; r++) UNROLLED for (int c = 0; c < VECS; c++) sums[r][c] = Vec<Real>{};
    for (long j = 0; j < n; j++) {
        Vec<Real> right[VECS];
        UNROLLED for (int c = 0; c < VECS; c++) right[c] = load(v + j * stride + c * WIDTH<Real>);
        UNROLLED for (int r = 0; r < ROWS; r++) {
            Vec<Real> left = all(t[r * down + j * along]);
            UNROLLED for (int c = 0; c < VECS; c++) sums[r][c] += left * right[c];
        }
    }
    UNROLLED for (int r = 0; r < ROWS; r++) UNROLLED for (int c = 0; c < VECS; c++) {
        auto &to = *reinterpret_cast<Doubles<Real> *>(y + r * stride + c * WIDTH<Real>);
        to += __builtin_convertvector(sums[r][c], Doubles<Real>);
    }
}

template <class Real>
void thin(const Real *t, long m, long n, long down, long along, const Real *v, double *y, long vectors) {
    const long stride = vectors * WIDTH<Real>;
    for (long c = 0, width; c < vectors; c += width) {
        const long left = vectors - c;
        width = left > THIN_VECS ? (left == THIN_VECS + 1 ? (left + 1) / 2 : THIN_VECS) : left;
        for (long r = 0; r < m; r += THIN_ROWS) {
            const Real *from = t + r * down, *with = v + c * WIDTH<Real>;
            double *to = y + r * stride + c * WIDTH<Real>;
            switch (width) {
                case 1: tile_rows<Real, THIN_ROWS, 1>(from, down, along, n, with, to, stride); break;
                case 2: tile_rows<Real, THIN_ROWS, 2>(from, down, along, n, with, to, stride); break;
                case 3: tile_rows<Real, THIN_ROWS, 3>(from, down, along, n, with, to, stride); break;
                default: tile_rows<Real, THIN_ROWS, THIN_VECS>(from, down, along, n, with, to, stride);
            }
        }
    }
}

// ── tickets ─────────────────────────────────────────────────────────────────
// Blocks of rows on a ring: in round s block i meets block i + s. Each round gives a block one tile of its own and one
// from another block, so that sums need no more than two arrays, and neighbours in time never wait for each other.
struct Tile {
    long i, j, round;
};
inline Tile ring(long ticket, long blocks) { return {ticket % blocks, (ticket % blocks + ticket / blocks) % blocks, ticket / blocks}; }

inline void wait_for(int64_t &done, long turn) {
    for (int i = 1; shared(done).load(std::memory_order_acquire) < turn; i++) pause(i);
}
inline void one_more(int64_t &done) { shared(done).fetch_add(1, std::memory_order_acq_rel); }
inline void finished(int64_t &done, long turn) { shared(done).store(turn, std::memory_order_release); }

// What lies beyond the matrix in the last panel counts for nothing.
template <class Real> void clear_margins(const Job &job, Place<Real> at, Real *tile) {
    const long stride = at.width * PANEL<Real>, m = at.height * PANEL<Real>;
    const long rows = job.rows - at.top * PANEL<Real>, columns = job.columns - at.first * PANEL<Real>;
    for (long i = rows < m ? rows : m; i < m; i++) std::memset(tile + i * stride, 0, stride * sizeof(Real));
    if (columns < stride)
        for (long i = 0; i < m; i++) std::memset(tile + i * stride + columns, 0, (stride - columns) * sizeof(Real));
}

template <class Real> void write(const Job &job, Place<Real> at, const Real *tile, bool mirrored) {
    const long stride = at.width * PANEL<Real>, top = at.top * PANEL<Real>, first = at.first * PANEL<Real>;
    const long m = job.rows - top < at.height * PANEL<Real> ? job.rows - top : at.height * PANEL<Real>;
    const long n = job.columns - first < stride ? job.columns - first : stride;
    Real *matrix = static_cast<Real *>(job.matrix);
    for (long i = 0; i < m; i++) std::memcpy(matrix + (top + i) * job.stride + first, tile + i * stride, n * sizeof(Real));
    if (mirrored)
        for (long j = 0; j < n; j++)
            for (long i = 0; i < m; i++) matrix[(first + j) * job.stride + top + i] = tile[i * stride + j];
}

// ── rounded tiles ───────────────────────────────────────────────────────────
// As codes of 16 bits: low + step · code, in fixed point, since the entries of a tile are of one size and then so is
// their rounding. The diagonal of a narrow kernel lies far from the rest of it, and is kept as it is.
template <class Real> void encode(const Job &job, Tile at, const Real *tile, long m, long stride, uint16_t *codes, float *scale, long top) {
    const bool diagonal = at.round == 0;
    const Real minus = job.minus, none = __builtin_inf();
    Vec<Real> lows = all(none), highs = all(-none);
    for (long i = 0; i < m; i++)
        for (long j = 0; j < stride; j += WIDTH<Real>) {
            const Vec<Real> x = load(tile + i * stride + j) - minus;
            Vec<Real> least = x, most = x;
            if (diagonal && i >= j && i < j + WIDTH<Real>) least[i - j] = none, most[i - j] = -none;
            lows = least < lows ? least : lows;
            highs = most > highs ? most : highs;
        }
    Real least = none, most = -none;
    for (int i = 0; i < WIDTH<Real>; i++) least = lows[i] < least ? lows[i] : least, most = highs[i] > most ? highs[i] : most;
    float low = static_cast<float>(least), high = static_cast<float>(most);
    if (!(low <= high)) low = high = 0;
    const float step = (high - low) / 65535.0f, per = step > 1.1754944e-38f ? 1.0f / step : 0.0f;
    for (long i = 0; i < m * stride; i++) {
        const float x = (static_cast<float>(tile[i] - minus) - low) * per + 0.5f;
        codes[i] = static_cast<uint16_t>(static_cast<int32_t>(x < 0 ? 0 : x > 65535.0f ? 65535.0f : x));
    }
    if (diagonal)
        for (long i = 0; i < m && top + i < job.rows; i++) job.diagonals[top + i] = static_cast<float>(tile[i * stride + i] - job.minus);
    scale[0] = low, scale[1] = step;
}
void decode(const Job &job, Tile at, const uint16_t *codes, const float *scale, long m, long stride, float *tile, long top) {
    const float low = scale[0], step = scale[1];
    for (long i = 0; i < m * stride; i++) tile[i] = codes[i] * step + low;
    if (at.round == 0)
        for (long i = 0; i < m && top + i < job.rows; i++) tile[i * stride + i] = job.diagonals[top + i];
}

// ── passes ──────────────────────────────────────────────────────────────────
template <class Real> struct Pass {
    Job &job;
    Real *scratch;  // the stack of tiles, then rows that are packed for one of them
    long room;      // numbers of a full tile
    Lying lying{};

    Place<Real> place(long i, long j) const {
        const long left = (job.rows + PANEL<Real> - 1) / PANEL<Real>, right = (job.columns + PANEL<Real> - 1) / PANEL<Real>;
        const long top = i * job.panels, first = j * job.panels;
        return {top, left - top < job.panels ? left - top : job.panels, first, right - first < job.panels ? right - first : job.panels};
    }

    // A product of a tile with its side of v, and across the diagonal.
    template <class Entry> void multiply(Tile at, const Entry *tile, Place<Real> p) {
        const Entry *v = static_cast<const Entry *>(job.v);
        // A panel of float32 has twice the rows of one of float64: places are those of the matrix's precision.
        const long m = p.height * PANEL<Real>, n = p.width * PANEL<Real>, width = job.vectors * WIDTH<Entry>;
        const long top = p.top * PANEL<Real>, first = p.first * PANEL<Real>;
        wait_for(job.done[2 * at.i], at.round);
        thin<Entry>(tile, m, n, n, 1, v + first * width, job.sums + top * width, job.vectors);
        finished(job.done[2 * at.i], at.round + 1);
        if (at.round == 0) return;
        wait_for(job.done[2 * at.j + 1], at.round - 1);
        thin<Entry>(tile, n, m, 1, n, v + top * width, job.other_sums + first * width, job.vectors);
        finished(job.done[2 * at.j + 1], at.round);
    }

    const Real *made(long ticket, Tile at, Place<Real> p) {
        const bool kept = ticket < job.n_exact;
        Real *tile = kept ? static_cast<Real *>(job.exact) + ticket * room : scratch;
        if (kept && job.made[ticket]) return tile;
        apply<Real>(job, p, scratch, scratch + job.depth * room, lying);
        if (kept) std::memcpy(tile, scratch, p.height * PANEL<Real> * p.width * PANEL<Real> * sizeof(Real));
        clear_margins<Real>(job, p, tile);
        return tile;
    }

    void symmetric(long ticket) {
        const long blocks = (((job.rows + PANEL<Real> - 1) / PANEL<Real>) + job.panels - 1) / job.panels;
        const Tile at = ring(ticket, blocks);
        const Place<Real> p = place(at.i, at.j);
        const long m = p.height * PANEL<Real>, n = p.width * PANEL<Real>, top = p.top * PANEL<Real>;
        const bool rounds = job.rounded || job.codes;
        if (!(job.from_rounded && job.made[ticket])) {
            const Real *tile = made(ticket, at, p);
            if (rounds && !job.made[ticket]) {
                if (job.rounded)
                    for (long i = 0; i < m * n; i++) job.rounded[ticket * room + i] = static_cast<float>(tile[i] - job.minus);
                else
                    encode<Real>(job, at, tile, m, n, job.codes + ticket * room, job.scales + 2 * ticket, top);
            }
            if (job.made) job.made[ticket] = 1;
            if (job.matrix) write<Real>(job, p, tile, at.round > 0);
            if (job.v && !job.from_rounded) return multiply<Real>(at, tile, p);
        }
        if (!job.from_rounded) return;
        const float *rough = job.rounded + ticket * room;
        if (job.codes) {
            float *unpacked = reinterpret_cast<float *>(scratch);
            decode(job, at, job.codes + ticket * room, job.scales + 2 * ticket, m, n, unpacked, top);
            rough = unpacked;
        }
        multiply<float>(at, rough, p);
    }

    // A block of rows against a group of blocks of columns.
    void rectangle(long ticket) {
        const long below = (((job.rows + PANEL<Real> - 1) / PANEL<Real>) + job.panels - 1) / job.panels;
        const long beside = (((job.columns + PANEL<Real> - 1) / PANEL<Real>) + job.panels - 1) / job.panels;
        const long i = ticket % below, g = ticket / below, width = job.vectors * WIDTH<Real>;
        for (long j = g * job.group; j < beside && j < (g + 1) * job.group; j++) {
            const Place<Real> p = place(i, j);
            apply<Real>(job, p, scratch, scratch + job.depth * room, lying);
            clear_margins<Real>(job, p, scratch);
            if (job.matrix) write<Real>(job, p, scratch, false);
            const long n = p.width * PANEL<Real>, rows = below * job.panels * PANEL<Real>;
            if (job.pulls) pull(*job.pulls, p, g * rows + p.top * PANEL<Real>);
            if (!job.v) continue;
            const Real *v = static_cast<const Real *>(job.v) + p.first * PANEL<Real> * width;
            thin<Real>(scratch, p.height * PANEL<Real>, n, n, 1, v, job.sums + (g * rows + p.top * PANEL<Real>) * width, job.vectors);
        }
    }

    void pull(const Pulls &to, Place<Real> p, long row) {
        if (to.sizes) add_sizes<Real>(scratch, p.height * PANEL<Real>, p.width * PANEL<Real>, to.sizes + row);
        if (!to.sums) return;
        double *sums = to.sums + row * to.columns;
        to.kind == CHI2 ? add_pulls<Real, CHI2>(to, scratch, p.top, p.height, p.first, p.width, sums)
                        : add_pulls<Real, MANHATTAN>(to, scratch, p.top, p.height, p.first, p.width, sums);
    }

    // In a round: the tiles of a block, then the means and the products of the block before it.
    void square(long ticket) {
        Squares &to = *job.squares;
        const long round = to.tiles + 1 + to.products, block = ticket / round, at = ticket % round;
        const bool wide = to.wide || sizeof(Real) == sizeof(double);
        if (at < to.tiles) return wide ? square_tile<double>(to, block, at) : square_tile<Real>(to, block, at);
        if (block > 0) wide ? square_block<double>(to, block - 1, at - to.tiles - 1) : square_block<Real>(to, block - 1, at - to.tiles - 1);
    }

    // A tile against all columns, about the mean of its rows.
    template <class To> void square_tile(Squares &to, long block, long at) {
        if (block >= to.blocks) return;
        if (block >= BLOCKS) wait_for(to.used[block - BLOCKS], to.products);
        const long side = job.panels * PANEL<Real>, i = block * to.tiles + at, left = job.rows - i * side;
        const long beside = (((job.columns + PANEL<Real> - 1) / PANEL<Real>) + job.panels - 1) / job.panels;
        for (long j = 0; j < beside && left > 0; j++) {
            const Place<Real> p = place(i, j);
            apply<Real>(job, p, scratch, scratch + job.depth * room, lying);
            clear_margins<Real>(job, p, scratch);
            centre<Real, To>(to, block, at, i * side, side, left < side ? left : side, p.first * PANEL<Real>, p.width, scratch);
        }
        one_more(to.made[block]);
    }

    // The means of a block where `product` is -1, and else one of its products.
    template <class To> void square_block(Squares &to, long block, long product) {
        const long height = to.tiles * job.panels * PANEL<Real>, top = block * height;
        if (product < 0) {
            wait_for(to.made[block], to.tiles);
            wait_for(to.merged, block);
            merge<To>(to, block, top, job.rows - top < height ? job.rows - top : height, job.panels * PANEL<Real>);
            return finished(to.merged, block + 1);
        }
        wait_for(to.merged, block + 1);
        wait_for(to.added[product], block);
        add_product<To>(to, block, product);
        finished(to.added[product], block + 1);
        one_more(to.used[block]);
    }

    // A block of rows against all columns: F = k(X, Z) W, in which no panel of W is multiplied below its last entry.
    void explain(long ticket) {
        const Explained &to = *job.explained;
        const long beside = (((job.columns + PANEL<Real> - 1) / PANEL<Real>) + job.panels - 1) / job.panels;
        const long m = place(ticket, 0).height * PANEL<Real>, top = ticket * job.panels * PANEL<Real>;
        const Real *w = static_cast<const Real *>(to.w);
        double *f = reinterpret_cast<double *>(scratch + to.offset);
        std::memset(f, 0, to.panels * m * PANEL<Real> * sizeof(double));
        for (long j = 0; j < beside; j++) {
            const Place<Real> p = place(ticket, j);
            const long first = p.first * PANEL<Real>, n = p.width * PANEL<Real>;
            apply<Real>(job, p, scratch, scratch + job.depth * room, lying);
            for (long q = 0; q < to.panels; q++) {
                const long depth = to.before + (q + 1) * PANEL<Real> - first;
                for (long r = 0; r < m && depth > 0; r += PAIR_ROWS)
                    tile_rows<Real, PAIR_ROWS, PAIR_VECS>(scratch + r * n, n, 1, depth < n ? depth : n,
                                                          w + (q * to.height + first) * PANEL<Real>,
                                                          f + (q * m + r) * PANEL<Real>, PANEL<Real>);
            }
        }
        explained_squares<Real>(to, ticket, top, job.rows - top < m ? job.rows - top : m, m, f);
    }
};

// Tickets until there are none, or so many; how many were drawn.
template <class Real> int64_t run(Job &job, void *scratch, int64_t most) {
    Pass<Real> pass{job, static_cast<Real *>(scratch), job.panels * PANEL<Real> * job.panels * PANEL<Real>};
    int64_t drawn = 0;
    for (; drawn < most && !shared(job.stop).load(std::memory_order_relaxed); drawn++) {
        const int64_t ticket = shared(job.ticket).fetch_add(1, std::memory_order_relaxed);
        if (ticket >= job.n_tickets) break;
        job.symmetric ? pass.symmetric(ticket) : job.explained ? pass.explain(ticket) : job.squares ? pass.square(ticket) : pass.rectangle(ticket);
    }
    return drawn;
}

template <class Real> void function(int64_t code, const Real *x, Real *y, int64_t n, double p) {
    for (int64_t i = 0; i < n; i += WIDTH<Real>) {
        Vec<Real> v = load(x + i);
        store(y + i, code == EXP ? exponential(v) : code == TANH ? tangent(v) : code == ROOT ? square_root(v) : power(v, p));
    }
}

}  // namespace

#define NAMED_(name, isa) mercer_##name##_##isa
#define NAMED(name, isa) NAMED_(name, isa)

#define EXPORT __attribute__((visibility("default")))

extern "C" {
EXPORT int64_t NAMED(run64, ISA)(Job *job, void *scratch, int64_t most) { return run<double>(*job, scratch, most); }
EXPORT int64_t NAMED(run32, ISA)(Job *job, void *scratch, int64_t most) { return run<float>(*job, scratch, most); }
EXPORT void NAMED(pack64, ISA)(Rows *rows, int64_t d, int64_t panels, void *to, void *norms) {
    pack_rows<double>(*rows, d, 0, panels, static_cast<double *>(to), static_cast<double *>(norms));
}
EXPORT void NAMED(pack32, ISA)(Rows *rows, int64_t d, int64_t panels, void *to, void *norms) {
    pack_rows<float>(*rows, d, 0, panels, static_cast<float *>(to), static_cast<float *>(norms));
}
EXPORT int64_t NAMED(thin64, ISA)(Thin *job, void *, int64_t most) { return run_thin<double>(*job, most); }
EXPORT int64_t NAMED(thin32, ISA)(Thin *job, void *, int64_t most) { return run_thin<float>(*job, most); }
EXPORT void NAMED(left_out, ISA)(LeftOut *job) { left_out(*job); }
EXPORT void NAMED(beside, ISA)(Beside *job) { beside(*job); }
EXPORT int64_t NAMED(lanczos, ISA)(Steps *job) { return lanczos(*job); }
EXPORT void NAMED(reduce, ISA)(Reduction *job) { reduce(*job); }
EXPORT void NAMED(turn_back, ISA)(Reduction *job) { turn_back(*job); }
EXPORT int64_t NAMED(targets, ISA)() { return TARGETS; }
EXPORT int64_t NAMED(panel64, ISA)() { return PANEL<double>; }
EXPORT int64_t NAMED(panel32, ISA)() { return PANEL<float>; }
EXPORT int64_t NAMED(bytes, ISA)() { return VECTOR_BYTES; }
EXPORT int64_t NAMED(sources, ISA)() { return SOURCES; }  // what this was compiled from: build.py
EXPORT void NAMED(function64, ISA)(int64_t code, const double *x, double *y, int64_t n, double p) { function<double>(code, x, y, n, p); }
EXPORT void NAMED(function32, ISA)(int64_t code, const float *x, float *y, int64_t n, double p) { function<float>(code, x, y, n, p); }
}

// What the processor can do; asked once, of the file that is compiled for every processor.
#ifdef PLAIN
extern "C" EXPORT int64_t mercer_supports(const char *isa) {
    if (!std::strcmp(isa, "plain")) return 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!std::strcmp(isa, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (!std::strcmp(isa, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma");
#endif
    return 0;
}

// Threads that draw tickets beside the caller, with a function above as their work; and the wait for their end.
extern "C" EXPORT void *mercer_started(void *work, void *job, void *scratch, int64_t scratch_bytes, int64_t n, int64_t *running) {
    return started(reinterpret_cast<Work>(work), job, static_cast<char *>(scratch), scratch_bytes, n, running);
}
extern "C" EXPORT void mercer_ended(void *team) { ended(static_cast<Team *>(team)); }
#endif
