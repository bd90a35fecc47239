#include <limits>

#include "ops/cases/op_case.h"
#include "ops/cases/windows.h"

namespace pock::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

CaseAttrs pool(Dims kernel, Dims stride, Dims pad = {}, int64_t ceil = 0) {
  return attrs({{"kernel", kernel}, {"stride", stride}, {"pad", pad}, {"ceil", ceil}});
}
CaseAttrs counting(CaseAttrs a) { return with("count_include_pad", int64_t{1}, std::move(a)); }

// Every (window, tap) of a pooling: offsets into y and x (-1 outside of it), the number of the tap, and whether it
// is on the input or the padding.
template <class F>
void each_element(const Node& n, const Type& x, const Type& y, F f) {
  const Dims &kernel = n.integers("kernel"), image = spatial(x), outputs = spatial(y);
  WindowAttrs windows(n, kernel.size());
  Dims padded = image;
  for (size_t i = 0; i < image.size(); ++i) padded[i] += windows.pad[image.size() + i];
  for (int64_t b = 0; b < y.dim(0); ++b)
    for (int64_t c = 0; c < y.dim(1); ++c)
      each_index(outputs, [&](const Dims& out) {
        int64_t number = 0;
        each_index(kernel, [&](const Dims& tap) {
          Dims in = windows.input(out, tap);
          bool counts = true;
          for (size_t i = 0; i < in.size(); ++i) counts &= in[i] < padded[i];
          f(offset(y, b, c, out), inside(in, image) ? offset(x, b, c, in) : -1, number++, counts);
        });
      });
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

std::vector<Numbers> max_pool_index(const Node& n, const std::vector<Numbers>& in) {
  const Type& y = n.out(0)->type;
  const Dims &kernel = n.integers("kernel"), &size = n.integers("size");
  const WindowAttrs windows(n, size.size());
  Numbers at;
  each_index(y.dims, [&](const Dims& out) {
    int64_t tap = static_cast<int64_t>(in[0][at.size()]), image = 1, number = 0, weight = 1;
    Dims taps(kernel.size());
    for (size_t i = kernel.size(); i-- > 0; tap /= kernel[i]) taps[i] = tap % kernel[i];
    const Dims x = windows.input({out.begin() + 2, out.end()}, taps);
    for (size_t k = 0; k < x.size(); ++k) {
      size_t i = n.integer("column_major") ? k : x.size() - 1 - k;
      number += weight * x[i];
      weight *= size[i];
    }
    for (int64_t s : size) image *= s;
    at.push_back(static_cast<double>((out[0] * y.dim(1) + out[1]) * image + number));
  });
  return {at};
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
// A last window may also be the first, and longer than the input.
OP_CASE(max_pool, in({1, 1, 1, 3}).is({4, 7, 2}), pool({2, 2}, {2, 2}, {0, 0, 0, 0}, 1), gives({7, 2}),
        gives(1, {1, 0}));
OP_CASE(max_pool, in({2, 3, 2, 1}).spaced(), pool({4, 3}, {3, 3}, {0, 0, 0, 0}, 1), like(max_pool));
OP_CASE(max_pool, in({1, 2, 9, 8}).spaced(), with("dilation", Dims{2, 3}, pool({3, 2}, {2, 1}, {1, 1, 1, 1})),
        like(max_pool));
OP_CASE(max_pool, in({1, 1, 17, 17}).spaced(), pool({16, 16}, {1, 1}), like(max_pool));  // more than 255 taps
OP_CASE(max_pool_index, in(DType::u8, {1, 1, 2, 2}).is({3, 0, 1, 1}),
        with("size", Dims{4, 3}, pool({2, 2}, {2, 1})), gives({4, 1, 7, 8}));
OP_CASE(max_pool_index, in(DType::u8, {1, 1, 2, 2}).is({3, 0, 1, 1}),
        with("column_major", int64_t{1}, with("size", Dims{4, 3}, pool({2, 2}, {2, 1}))),
        gives({5, 4, 6, 10}));
OP_CASE(max_pool_index, in(DType::u8, {2, 3, 3, 2}).between(0, 5),
        with("size", {7, 5}, with("dilation", {2, 1}, pool({2, 3}, {2, 2}, {1, 0, 0, 0}))),
        like(max_pool_index));
OP_CASE(max_pool_index, in(DType::u8, {2, 3, 3, 2}).between(0, 5),
        with("column_major", int64_t{1},
             with("size", {7, 5}, with("dilation", {2, 1}, pool({2, 3}, {2, 2}, {1, 0, 0, 0})))),
        like(max_pool_index));
OP_CASE(max_pool_index, in(DType::u8, {2, 2, 2, 3, 2}).between(0, 11),
        with("size", {3, 4, 5}, pool({2, 2, 3}, {1, 1, 2})), like(max_pool_index));
OP_CASE(max_pool_grad, in({1, 1, 1, 2}).is({5, 7}), in(DType::u8, {1, 1, 1, 2}).is({2, 0}),
        with("size", Dims{1, 4}, pool({1, 3}, {1, 1})), gives({0, 7, 5, 0}));
OP_CASE(max_pool_grad, in({1, 1, 1, 2}).is({5, 7}), in(DType::u8, {1, 1, 1, 2}).is({1, 0}),
        with("size", Dims{1, 4}, pool({1, 3}, {1, 1})), gives({0, 12, 0, 0}));
OP_CASE(avg_pool, in({1, 1, 2, 2}).is({1, 2, 3, 6}), pool({2, 2}, {1, 1}), gives({3}));
OP_CASE(avg_pool, in({2, 7, 7, 7}), pool({7, 7}, {1, 1}), like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 7, 9}), pool({3, 3}, {2, 2}, {1, 1, 1, 1}), like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 7, 9}), counting(pool({3, 3}, {2, 2}, {1, 1, 1, 1})), like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 6, 6}), counting(pool({3, 3}, {2, 2}, {1, 0, 0, 1}, 1)), like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 6, 6}), pool({3, 3}, {2, 2}, {0, 1, 0, 0}, 1), like(avg_pool));
OP_CASE(avg_pool_grad, in({1, 2, 3, 3}), with("size", Dims{6, 6}, pool({3, 3}, {2, 2}, {0, 0, 0, 0}, 1)),
        like(avg_pool_grad));
OP_CASE(avg_pool_grad, in({1, 2, 4, 5}),
        counting(with("size", Dims{7, 9}, pool({3, 3}, {2, 2}, {1, 1, 1, 1}))), like(avg_pool_grad));

// A last window that only starts in the padding behind the input is none; one that ends beyond it counts what is
// inside.
OP_CASE(max_pool, in({1, 1, 5}).is({1, 2, 3, 4, 5}), pool({2}, {2}, {}, 1), gives({2, 4, 5}));
OP_CASE(max_pool, in({1, 1, 4}).is({1, 2, 3, 4}), pool({2}, {3}, {1, 1}, 1), gives({1, 4}));
OP_CASE(avg_pool, in({1, 1, 5}).is({1, 2, 3, 4, 5}), pool({2}, {2}, {}, 1), gives({1.5, 3.5, 5}));
OP_CASE(avg_pool, in({1, 1, 5}).is({1, 2, 3, 4, 5}), counting(pool({2}, {2}, {}, 1)), gives({1.5, 3.5, 5}));
OP_CASE(avg_pool, in({1, 1, 5}).is({1, 2, 3, 4, 5}), counting(pool({3}, {3}, {1, 0}, 1)), gives({1, 4}));
OP_CASE(avg_pool, in({1, 1, 6}).is({1, 2, 3, 4, 5, 6}), counting(pool({3}, {3}, {1, 1}, 1)),
        gives({1, 4, 3}));
OP_CASE(avg_pool, in({1, 1, 6}).is({1, 2, 3, 4, 5, 6}), pool({3}, {3}, {1, 1}, 1), gives({1.5, 4, 6}));
// Windows that overlap: every element gets a share of each.
OP_CASE(max_pool, in({2, 3, 9, 7}).spaced(), with("dilation", {2, 2}, pool({3, 3}, {1, 1}, {2, 1, 2, 1})),
        like(max_pool));
OP_CASE(max_pool, in({1, 7, 31}).spaced(), with("dilation", {3}, pool({3}, {2}, {2, 3}, 1)), like(max_pool));
OP_CASE(max_pool, in({1, 2, 4, 5, 6}).spaced(), pool({2, 3, 2}, {2, 1, 2}, {1, 1, 0, 0, 1, 1}, 1),
        like(max_pool));
OP_CASE(avg_pool, in({1, 9, 33}), with("dilation", {2}, pool({3}, {2}, {2, 1})), like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 8, 9}), counting(with("dilation", {2, 3}, pool({3, 2}, {2, 2}, {1, 2, 2, 1}, 1))),
        like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 8, 9}), with("dilation", {2, 3}, pool({3, 2}, {2, 2}, {1, 2, 2, 1}, 1)),
        like(avg_pool));
OP_CASE(avg_pool, in({1, 2, 4, 5, 6}), counting(pool({2, 3, 2}, {2, 1, 2}, {1, 1, 0, 0, 1, 1}, 1)),
        like(avg_pool));
OP_CASE(avg_pool_grad, in({1, 2, 4, 5}),
        with("dilation", {2, 2}, with("size", {7, 9}, pool({3, 3}, {2, 2}, {2, 2, 2, 2}))),
        like(avg_pool_grad));

}  // namespace
}  // namespace pock::test
