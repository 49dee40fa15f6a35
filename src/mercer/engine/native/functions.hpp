// exp, tanh and powers of whole vectors, to two units in the last place, NaN, infinities and subnormals included.
// Compiled without -ffast-math: the order of operations below is the order that runs.
#pragma once

#include "vectors.hpp"

namespace {

template <class Real> inline Vec<Real> bits(Ints<Real> i) { return reinterpret_cast<Vec<Real>>(i); }
template <class Real> inline Ints<Real> bits(Vec<Real> v) { return reinterpret_cast<Ints<Real>>(v); }

inline Vec<double> square_root(Vec<double> x) {
    UNROLLED for (int i = 0; i < WIDTH<double>; i++) x[i] = __builtin_sqrt(x[i]);
    return x;
}
inline Vec<float> square_root(Vec<float> x) {
    UNROLLED for (int i = 0; i < WIDTH<float>; i++) x[i] = __builtin_sqrtf(x[i]);
    return x;
}

// p · 2^n for |n| up to 2100: in two steps, each of which is a number, so that subnormal results round once.
inline Vec<double> scaled_by_power(Vec<double> p, Ints<double> n) {
    Ints<double> half = n >> 1;
    return p * bits<double>((half + 1023) << 52) * bits<double>((n - half + 1023) << 52);
}
inline Vec<float> scaled_by_power(Vec<float> p, Ints<float> n) {
    Ints<float> half = n >> 1;
    return p * bits<float>((half + 127) << 23) * bits<float>((n - half + 127) << 23);
}

// e^(x + low), |low| below an ulp of x. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its Taylor polynomial, whose next
// term is below a fiftieth of an ulp. n · (first part of ln 2) is exact.
inline Vec<double> exponential(Vec<double> x, Vec<double> low = Vec<double>{}) {
    const Vec<double> magic = all(6755399441055744.0);  // 1.5 · 2^52: adding it rounds to a whole number
    x = x > 709.79 ? all(709.79) : x;                   // overflows; NaN stays what it is
    x = x < -745.2 ? all(-745.2) : x;                   // rounds to zero
    Vec<double> shifted = x * 1.4426950408889634 + magic, n = shifted - magic;
    Vec<double> r = x - n * 0.6931471803691238;
    r = r - n * 1.9082149292705877e-10 + low;
    Vec<double> p = all(1.6059043836821613e-10);
    p = p * r + 2.08767569878681e-09;
    p = p * r + 2.505210838544172e-08;
    p = p * r + 2.755731922398589e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.48015873015873e-05;
    p = p * r + 0.0001984126984126984;
    p = p * r + 0.001388888888888889;
    p = p * r + 0.008333333333333333;
    p = p * r + 0.041666666666666664;
    p = p * r + 0.16666666666666666;
    p = p * r + 0.5;
    p = p * (r * r) + r + 1.0;
    return scaled_by_power(p, bits<double>(shifted) - bits<double>(magic));
}

inline Vec<float> exponential(Vec<float> x) {
    const Vec<float> magic = all(12582912.0f);
    x = x > 88.73f ? all(88.73f) : x;
    x = x < -104.0f ? all(-104.0f) : x;
    Vec<float> shifted = x * 1.44269504f + magic, n = shifted - magic;
    Vec<float> r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    Vec<float> p = all(0.00019841270f);
    p = p * r + 0.0013888889f;
    p = p * r + 0.0083333333f;
    p = p * r + 0.041666667f;
    p = p * r + 0.16666667f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    return scaled_by_power(p, bits<float>(shifted) - bits<float>(magic));
}

// tanh: near zero x + x³ P(x²)/Q(x²) (the rational function of Cephes), else 1 - 2/(e^2|x| + 1), with the sign of x.
inline Vec<double> tangent(Vec<double> x) {
    Vec<double> size = x < 0 ? -x : x, z = x * x;
    Vec<double> p = (all(-9.64399179425052238628e-1) * z + -9.92877231001918586564e1) * z + -1.61468768441708447952e3;
    Vec<double> q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z + 4.84406305325125486048e3;
    Vec<double> far = 1.0 - 2.0 / (exponential(size + size) + 1.0);
    far = x < 0 ? -far : far;
    return size < 0.625 ? x + x * (z * (p / q)) : far;
}
inline Vec<float> tangent(Vec<float> x) {
    Vec<float> size = x < 0 ? -x : x, z = x * x;
    Vec<float> p = all(-5.70498872745e-3f);
    p = p * z + 2.06390887954e-2f;
    p = p * z + -5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z + -3.33332819422e-1f;
    Vec<float> far = 1.0f - 2.0f / (exponential(size + size) + 1.0f);
    far = x < 0 ? -far : far;
    return size < 0.625f ? x + x * (z * p) : far;
}

// ── powers ──────────────────────────────────────────────────────────────────
// A number as the sum of two, high + low, with twice the digits.
struct Double2 {
    Vec<double> high, low;
};
inline Double2 quick_sum(Vec<double> a, Vec<double> b) {  // |a| >= |b|
    Vec<double> s = a + b;
    return {s, b - (s - a)};
}
inline Vec<double> upper_half(Vec<double> a) { return bits<double>(bits<double>(a) & ~((int64_t(1) << 27) - 1)); }

// a · b with its rounding error: products of halves are exact.
inline Double2 exact_product(Vec<double> a, Vec<double> b) {
    Vec<double> p = a * b, ah = upper_half(a), al = a - ah, bh = upper_half(b), bl = b - bh;
    Vec<double> hh = ah * bh, hl = ah * bl, lh = al * bh, ll = al * bl;
    return {p, ((hh - p) + hl + lh) + ll};
}

// ln x for positive normal x, to about 2^-66. x = m 2^e with m in [√½, √2); ln m = 2 artanh s, s = (m - 1)/(m + 1):
// s and its cube have twice the digits, the rest of the series one time.
inline Double2 logarithm(Vec<double> x) {
    const int64_t root_half = 0x3FE6A09E667F3BCD;
    Ints<double> e = (bits<double>(x) - root_half) >> 52;
    Vec<double> m = bits<double>(bits<double>(x) - (e << 52));
    Vec<double> n = bits<double>((e + 0x4338000000000000)) - 6755399441055744.0;
    Vec<double> f = m - 1.0, g = m + 1.0, g_low = m - (g - 1.0);  // m + 1 = g + g_low
    Vec<double> s = f / g;
    Double2 back = exact_product(s, g);
    Vec<double> s_low = ((f - back.high) - back.low - s * g_low) / g;
    Double2 square = exact_product(s, s);
    square.low += 2.0 * (s * s_low);
    // 2 s³/3 in twice the digits: third = 2/3 as two numbers.
    Double2 cube = exact_product(square.high, s);
    cube.low += square.low * s + square.high * s_low;
    Double2 term = exact_product(cube.high, all(0.6666666666666666));
    term.low += cube.low * 0.6666666666666666 + cube.high * 3.700743415417188e-17;
    Vec<double> z = square.high, p = all(2.0 / 25.0);
    p = p * z + 2.0 / 23.0;
    p = p * z + 2.0 / 21.0;
    p = p * z + 2.0 / 19.0;
    p = p * z + 2.0 / 17.0;
    p = p * z + 2.0 / 15.0;
    p = p * z + 2.0 / 13.0;
    p = p * z + 2.0 / 11.0;
    p = p * z + 2.0 / 9.0;
    p = p * z + 2.0 / 7.0;
    p = p * z + 2.0 / 5.0;
    p = p * (cube.high * z);
    Double2 sum = quick_sum(2.0 * s, term.high);
    sum.low += term.low + 2.0 * s_low + p;
    Double2 whole = exact_product(n, all(0.6931471803691238));  // the first part of ln 2: exact
    Vec<double> large = whole.high, small = sum.high;           // n = 0: the sum alone
    Vec<double> total = large + small, part = total - large;
    Vec<double> lost = (large - (total - part)) + (small - part);
    return quick_sum(total, lost + sum.low + n * 1.9082149292705877e-10);
}

// x^p for x >= 0 and any p: e^(p ln x). Zero, infinity, subnormals and NaN are put in afterwards.
inline Vec<double> power(Vec<double> x, double p) {
    const double tiny = 2.2250738585072014e-308, huge = 1.7976931348623157e308;
    Ints<double> small = x < tiny;
    Vec<double> normal = small ? x * 18014398509481984.0 : x;  // 2^54
    normal = ((normal > huge) | (normal < tiny)) ? all(1.0) : normal;
    Double2 log = logarithm(normal);
    Vec<double> fewer = small ? all(-54.0) : Vec<double>{};
    Double2 whole = exact_product(fewer, all(0.6931471803691238));
    Double2 sum = quick_sum(whole.high == 0 ? log.high : whole.high, whole.high == 0 ? Vec<double>{} : log.high);
    log = {sum.high, sum.low + log.low + fewer * 1.9082149292705877e-10};
    Double2 product = exact_product(log.high, all(p));
    product.low += log.low * p;
    Vec<double> r = exponential(product.high, product.low);
    const double at_zero = p > 0 ? 0.0 : p == 0 ? 1.0 : __builtin_inf(), at_inf = p > 0 ? __builtin_inf() : p == 0 ? 1.0 : 0.0;
    r = x == 0 ? all(at_zero) : r;
    r = x > huge ? all(at_inf) : r;
    return ((x != x) | (x < 0)) ? all(__builtin_nan("")) : r;
}
// In float32 through float64, whose rounding does not show.
inline Vec<float> power(Vec<float> x, double p) {
    constexpr int W = WIDTH<double>;
    Vec<float> out;
    for (int half = 0; half < 2; half++) {
        Vec<double> part;
        for (int i = 0; i < W; i++) part[i] = x[half * W + i];
        part = power(part, p);
        for (int i = 0; i < W; i++) out[half * W + i] = static_cast<float>(part[i]);
    }
    return out;
}

}  // namespace
