#include <limits>

#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

CaseAttrs pool(Dims kernel, Dims stride, Dims pad = {0, 0, 0, 0}, int64_t ceil = 0) {
  return attrs({{"kernel", kernel}, {"stride", stride}, {"pad", pad}, {"ceil", ceil}});
}
CaseAttrs with(const char* name, Attr value, CaseAttrs a) {
  a.attrs[name] = std::move(value);
  return a;
}

// Every (image row of x, window, tap) of a pooling: offsets into x and y and the number of the tap.
template <class F>
void each_element(const Node& n, const Type& x, const Type& y, F f) {
  const auto &kernel = n.integers("kernel"), &stride = n.integers("stride"), &pad = n.integers("pad"),
             &dilation = n.integers("dilation");
  int64_t at_y = 0;
  for (int64_t plane = 0; plane < y.dim(0) * y.dim(1); ++plane)
    for (int64_t oy = 0; oy < y.dim(2); ++oy)
      for (int64_t ox = 0; ox < y.dim(3); ++ox, ++at_y)
        for (int64_t ky = 0; ky < kernel[0]; ++ky)
          for (int64_t kx = 0; kx < kernel[1]; ++kx) {
            int64_t iy = oy * stride[0] - pad[0] + ky * dilation[0],
                    ix = ox * stride[1] - pad[1] + kx * dilation[1];
            bool inside = iy >= 0 && ix >= 0 && iy < x.dim(2) && ix < x.dim(3);
            bool padded = iy < x.dim(2) + pad[2] && ix < x.dim(3) + pad[3];
            f(at_y, inside ? (plane * x.dim(2) + iy) * x.dim(3) + ix : -1, ky * kernel[1] + kx, padded);
          }
}

std::vector<Numbers> max_pool(const Node& n, const std::vector<Numbers>& in) {
  Numbers best(n.out(0)->type.elements(), -1e300), taps(best.size(), -1);
  each_element(n, n.in(0)->type, n.out(0)->type, [&](int64_t o, int64_t i, int64_t tap, bool) {
    if (i < 0 || in[0][i] <= best[o]) return;
    best[o] = in[0][i];
    taps[o] = static_cast<double>(tap);
  });
  return {best, taps};
}

Numbers divisors(const Node& n, const Type& x, const Type& y) {
  Numbers counts(y.elements(), 0);
  bool include = n.integer("count_include_pad");
  each_element(n, x, y,
               [&](int64_t o, int64_t i, int64_t, bool padded) { counts[o] += include ? padded : i >= 0; });
  return counts;
}
std::vector<Numbers> avg_pool(const Node& n, const std::vector<Numbers>& in) {
  const Type &x = n.in(0)->type, &y = n.out(0)->type;
  Numbers out(y.elements(), 0), counts = divisors(n, x, y);
  each_element(n, x, y,
               [&](int64_t o, int64_t i, int64_t, bool) { out[o] += i < 0 ? 0 : in[0][i] / counts[o]; });
  return {out};
}
std::vector<Numbers> avg_pool_grad(const Node& n, const std::vector<Numbers>& in) {
  const Type &x = n.out(0)->type, &y = n.in(0)->type;
  Numbers out(x.elements(), 0), counts = divisors(n, x, y);
  each_element(n, x, y, [&](int64_t o, int64_t i, int64_t, bool) {
    if (i >= 0) out[i] += in[0][o] / counts[o];
  });
  return {out};
}

// Ties: the first; NaN: the first, and it stays.
OP_CASE(max_pool, in({1, 1, 2, 4}).is({3, 3, 1, kNan, 3, 2, 9, kNan}).without_gradient(),
        pool({2, 2}, {2, 2}), gives({3, kNan}), gives(1, {0, 1}));
OP_CASE(max_pool, in({1, 1, 1, 3}).is({-5, -4, -7}), pool({1, 3}, {1, 2}, {0, 1, 0, 1}), gives({-4, -4}),
        gives(1, {2, 0}));
OP_CASE(max_pool, in({2, 3, 6, 8}).spaced(), pool({2, 2}, {2, 2}), like(max_pool));
OP_CASE(max_pool, in({2, 2, 7, 9}).spaced(), pool({3, 3}, {2, 2}, {1, 1, 1, 1}), like(max_pool));
OP_CASE(max_pool, in({1, 2, 6, 6}).spaced(), pool({3, 2}, {1, 1}, {0, 1, 2, 0}), like(max_pool));
OP_CASE(max_pool, in({1, 2, 6, 6}).spaced(), pool({3, 3}, {2, 2}, {0, 0, 0, 0}, 1), like(max_pool));
OP_CASE(max_pool, in({1, 2, 5, 5}).spaced(), pool({2, 2}, {2, 2}, {1, 1, 1, 1}, 1), like(max_pool));
OP_CASE(max_pool, in({1, 2, 9, 8}).spaced(), with("dilation", Dims{2, 3}, pool({3, 2}, {2, 1}, {1, 1, 1, 1})),
        like(max_pool));
OP_CASE(max_pool, in({1, 1, 17, 17}).spaced(), pool({16, 16}, {1, 1}), like(max_pool));  // more than 255 taps
OP_CASE(max_pool_grad, in({1, 1, 1, 2}).is({5, 7}), in(DType::u8, {1, 1, 1, 2}).is({2, 0}),
        with("size", Dims{1, 4}, pool({1, 3}, {1, 1})), gives({0, 7, 5, 0}));
OP_CASE(max_pool_grad, in({1, 1, 1, 2}).is({5, 7}), in(DType::u8, {1, 1, 1, 2}).is({1, 0}),
        with("size", Dims{1, 4}, pool({1, 3}, {1, 1})), gives({0, 12, 0, 0}));
OP_CASE(avg_pool, in({1, 1, 2, 2}).is({1, 2, 3, 6}), pool({2, 2}, {1, 1}), gives({3}));
OP_CASE(avg_pool, in({2, 7, 7, 7}), pool({7, 7}, {1, 1}), like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 7, 9}), pool({3, 3}, {2, 2}, {1, 1, 1, 1}), like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 7, 9}), with("count_include_pad", int64_t{1}, pool({3, 3}, {2, 2}, {1, 1, 1, 1})),
        like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 6, 6}),
        with("count_include_pad", int64_t{1}, pool({3, 3}, {2, 2}, {1, 0, 0, 1}, 1)), like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 6, 6}), pool({3, 3}, {2, 2}, {0, 1, 0, 0}, 1), like(avg_pool));
OP_CASE(avg_pool_grad, in({1, 2, 3, 3}), with("size", Dims{6, 6}, pool({3, 3}, {2, 2}, {0, 0, 0, 0}, 1)),
        like(avg_pool_grad));
OP_CASE(avg_pool_grad, in({1, 2, 4, 5}),
        with("count_include_pad", int64_t{1}, with("size", Dims{7, 9}, pool({3, 3}, {2, 2}, {1, 1, 1, 1}))),
        like(avg_pool_grad));

}  // namespace
}  // namespace pock::test
