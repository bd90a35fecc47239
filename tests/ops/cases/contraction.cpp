#include "ops/cases/op_case.h"
#include "ops/cases/windows.h"

namespace pock::test {
namespace {

std::vector<Numbers> matmul(const Node& n, const std::vector<Numbers>& in) {
  bool ta = n.integer("transpose_a"), tb = n.integer("transpose_b");
  const Type &a = n.in(0)->type, &b = n.in(1)->type, &y = n.out(0)->type;
  int64_t rows = y.dim(-2), columns = y.dim(-1), sum = a.dim(ta ? -2 : -1);
  // Which matrix of a tensor stands at an index of y's batch.
  auto matrix = [&](const Type& t, const Dims& batch) {
    int64_t at = 0, missing = y.rank() - t.rank();
    for (int i = 0; i < t.rank() - 2; ++i) at = at * t.dim(i) + (t.dim(i) == 1 ? 0 : batch[missing + i]);
    return at;
  };
  Numbers out;
  each_index(Dims(y.dims.begin(), y.dims.end() - 2), [&](const Dims& batch) {
    const double *left = &in[0][matrix(a, batch) * rows * sum],
                 *right = &in[1][matrix(b, batch) * sum * columns];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        double s = 0;
        for (int64_t k = 0; k < sum; ++k)
          s += left[ta ? k * rows + i : i * sum + k] * right[tb ? j * sum + k : k * columns + j];
        out.push_back(s);
      }
  });
  return {out};
}

// Every product of a convolution, as offsets into x, w and y; taps on padding left out.
template <class F>
void each_product(const Node& n, const Type& x, const Type& w, const Type& y, F f) {
  WindowAttrs windows(n, x.rank() - 2);
  int64_t per_group = y.dim(1) / n.integer("groups");
  const Dims image = spatial(x), kernel = spatial(w), outputs = spatial(y);
  for (int64_t b = 0; b < y.dim(0); ++b)
    for (int64_t o = 0; o < y.dim(1); ++o)
      each_index(outputs, [&](const Dims& out) {
        for (int64_t c = 0; c < w.dim(1); ++c)
          each_index(kernel, [&](const Dims& tap) {
            Dims in = windows.input(out, tap);
            if (!inside(in, image)) return;
            int64_t channel = o / per_group * w.dim(1) + c;
            f(offset(x, b, channel, in), offset(w, o, c, tap), offset(y, b, o, out));
          });
      });
}

std::vector<Numbers> conv(const Node& n, const std::vector<Numbers>& in) {
  Numbers y(n.out(0)->type.elements(), 0);
  each_product(n, n.in(0)->type, n.in(1)->type, n.out(0)->type,
               [&](int64_t i, int64_t k, int64_t o) { y[o] += in[0][i] * in[1][k]; });
  return {y};
}
std::vector<Numbers> conv_dx(const Node& n, const std::vector<Numbers>& in) {
  Numbers x(n.out(0)->type.elements(), 0);
  each_product(n, n.out(0)->type, n.in(1)->type, n.in(0)->type,
               [&](int64_t i, int64_t k, int64_t o) { x[i] += in[0][o] * in[1][k]; });
  return {x};
}
std::vector<Numbers> conv_dw(const Node& n, const std::vector<Numbers>& in) {
  Numbers w(n.out(0)->type.elements(), 0);
  each_product(n, n.in(1)->type, n.out(0)->type, n.in(0)->type,
               [&](int64_t i, int64_t k, int64_t o) { w[k] += in[0][o] * in[1][i]; });
  return {w};
}

CaseAttrs conv_attrs(Dims stride, Dims pad, Dims dilation = {}, int64_t groups = 1) {
  return attrs({{"stride", stride}, {"pad", pad}, {"dilation", dilation}, {"groups", groups}});
}
CaseAttrs groups(int64_t n) { return conv_attrs({}, {}, {}, n); }
CaseAttrs transposed(int64_t a, int64_t b) { return attrs({{"transpose_a", a}, {"transpose_b", b}}); }

OP_CASE(matmul, in({2, 2}).is({1, 2, 3, 4}), in({2, 2}).is({5, 6, 7, 8}), gives({19, 22, 43, 50}));
OP_CASE(matmul, in({7, 9}), in({9, 15}), like(matmul));
OP_CASE(matmul, in({17, 5}), in({17, 6}), transposed(1, 0), like(matmul));
OP_CASE(matmul, in({3, 33}), in({24, 33}), transposed(0, 1), like(matmul));
OP_CASE(matmul, in({4, 7}), in({5, 4}), transposed(1, 1), like(matmul));
OP_CASE(matmul, in({5, 5}), in({5, 5}), like(matmul));
OP_CASE(matmul, in({1, 1}), in({1, 1}), like(matmul));
OP_CASE(matmul, in({2, 1, 2}).is({1, 2, 3, 4}), in({2, 2, 1}).is({5, 6, 7, 8}), gives({17, 53}));
OP_CASE(matmul, in({3, 7, 9}), in({3, 9, 15}), like(matmul));
OP_CASE(matmul, in({2, 3, 5, 4}), in({2, 3, 6, 4}), transposed(0, 1), like(matmul));
OP_CASE(matmul, in({3, 4, 17}), in({3, 4, 8}), transposed(1, 0), like(matmul));
// One matrix for all, on either side; axes that broadcast both ways; missing axes.
OP_CASE(matmul, in({3, 5, 4}), in({4, 7}), like(matmul));
OP_CASE(matmul, in({5, 4}), in({3, 4, 7}), like(matmul));
OP_CASE(matmul, in({2, 1, 3, 5}), in({3, 5, 6}), like(matmul));
OP_CASE(matmul, in({2, 1, 5, 3}), in({1, 4, 6, 5}), transposed(1, 1), like(matmul));

OP_CASE(conv, in({1, 1, 2, 2}).is({1, 2, 3, 4}), in({1, 1, 2, 2}).is({1, 10, 100, 1000}), gives({4321}));
OP_CASE(conv, in({2, 3, 5, 6}), in({4, 3, 3, 3}), like(conv));
OP_CASE(conv, in({2, 3, 5, 6}), in({7, 3, 3, 3}), conv_attrs({1, 1}, {1, 1, 1, 1}), like(conv));
OP_CASE(conv, in({1, 2, 7, 8}), in({3, 2, 3, 3}), conv_attrs({2, 2}, {1, 1, 1, 1}), like(conv));
OP_CASE(conv, in({1, 2, 7, 8}), in({3, 2, 3, 5}), conv_attrs({2, 3}, {0, 2, 1, 3}), like(conv));
OP_CASE(conv, in({1, 2, 9, 7}), in({2, 2, 3, 3}), conv_attrs({1, 1}, {2, 2, 2, 2}, {2, 2}), like(conv));
OP_CASE(conv, in({1, 2, 9, 9}), in({2, 2, 3, 2}), conv_attrs({2, 3}, {2, 1, 0, 2}, {2, 2}), like(conv));
OP_CASE(conv, in({1, 6, 5, 5}), in({9, 2, 3, 3}), conv_attrs({1, 1}, {1, 1, 1, 1}, {1, 1}, 3), like(conv));
OP_CASE(conv, in({2, 15, 6, 5}), in({15, 1, 3, 3}), conv_attrs({1, 1}, {1, 1, 1, 1}, {1, 1}, 15), like(conv));
OP_CASE(conv, in({1, 4, 7, 7}), in({8, 1, 3, 3}), conv_attrs({2, 2}, {1, 1, 1, 1}, {1, 1}, 4), like(conv));
OP_CASE(conv, in({2, 17, 3, 3}), in({9, 17, 1, 1}), like(conv));
OP_CASE(conv, in({2, 5, 6, 7}), in({4, 5, 1, 1}), conv_attrs({2, 2}, {0, 0, 0, 0}), like(conv));
OP_CASE(conv, in({1, 2, 3, 3}), in({2, 2, 7, 7}), conv_attrs({1, 1}, {3, 3, 3, 3}), like(conv));
OP_CASE(conv, in({1, 1, 11, 5}), in({1, 1, 2, 2}), conv_attrs({4, 4}, {0, 0, 0, 0}), like(conv));
OP_CASE(conv, in({1, 1, 4, 4}), in({2, 1, 1, 1}), conv_attrs({1, 2}, {1, 2, 0, 1}), like(conv));
OP_CASE(conv, in({3, 2, 20, 37}), in({3, 2, 3, 3}), conv_attrs({1, 1}, {1, 1, 1, 1}), like(conv));
// One and three spatial axes.
OP_CASE(conv, in({1, 1, 4}).is({1, 2, 3, 4}), in({1, 1, 2}).is({1, 10}), conv_attrs({2}, {}),
        gives({21, 43}));
OP_CASE(conv, in({2, 6, 11}), in({9, 2, 3}), conv_attrs({2}, {1, 2}, {2}, 3), like(conv));
OP_CASE(conv, in({1, 23, 17}), in({23, 1, 5}), conv_attrs({}, {2, 2}, {}, 23), like(conv));
OP_CASE(conv, in({1, 2, 4, 5, 6}), in({3, 2, 3, 2, 3}), conv_attrs({1, 2, 1}, {1, 0, 1, 0, 1, 1}, {1, 2, 1}),
        like(conv));
// Groups of odd sizes; more than one filter to a depthwise channel.
OP_CASE(conv, in({1, 15, 5, 4}), in({9, 5, 2, 3}), groups(3), like(conv));
OP_CASE(conv, in({1, 35, 4, 4}), in({25, 7, 1, 1}), groups(5), like(conv));
OP_CASE(conv, in({2, 7, 6, 5}), in({21, 1, 3, 3}), conv_attrs({2, 2}, {1, 1, 0, 1}, {}, 7), like(conv));
// Depthwise, wider than a tile of pixels and of channels, by odd numbers.
OP_CASE(conv, in({2, 21, 4, 19}), in({21, 1, 3, 3}), conv_attrs({}, {1, 1, 1, 1}, {}, 21), like(conv));
OP_CASE(conv, in({1, 37, 5, 35}), in({37, 1, 5, 5}), conv_attrs({2, 2}, {2, 2, 2, 2}, {}, 37), like(conv));
OP_CASE(conv, in({1, 18, 3, 17}), in({18, 1, 1, 7}), conv_attrs({1, 3}, {0, 1, 0, 5}, {}, 18), like(conv));
OP_CASE(conv, in({1, 8, 5, 20}), in({8, 1, 3, 3}), conv_attrs({1, 2}, {2, 2, 2, 1}, {2, 2}, 8), like(conv));
OP_CASE(conv, in({1, 16, 2, 18}), in({16, 1, 2, 13}), conv_attrs({}, {0, 6, 1, 6}, {}, 16), like(conv));
// The convolution leaves the end of its input out.
OP_CASE(conv, in({1, 2, 6, 7}), in({3, 2, 3, 2}), conv_attrs({}, {1, 0, -2, -1}), like(conv));

OP_CASE(conv_input_grad, in({2, 4, 3, 4}), in({4, 3, 3, 3}),
        with("size", {5, 6}, conv_attrs({1, 1}, {0, 0, 0, 0})), like(conv_dx));
OP_CASE(conv_input_grad, in({1, 3, 4, 4}), in({3, 2, 3, 3}),
        with("size", {7, 8}, conv_attrs({2, 2}, {1, 1, 1, 1})), like(conv_dx));
OP_CASE(conv_input_grad, in({1, 2, 4, 4}), in({2, 2, 3, 2}),
        with("size", {9, 9}, conv_attrs({2, 3}, {2, 1, 0, 2}, {2, 2})), like(conv_dx));
OP_CASE(conv_input_grad, in({1, 4, 3, 3}), in({4, 5, 1, 1}),
        with("size", {6, 5}, conv_attrs({2, 2}, {0, 0, 0, 0})), like(conv_dx));
OP_CASE(conv_input_grad, in({1, 9, 5, 5}), in({9, 2, 3, 3}),
        with("size", {5, 5}, conv_attrs({1, 1}, {1, 1, 1, 1}, {1, 1}, 3)), like(conv_dx));
// Transposed convolutions whose output ends behind the last window.
OP_CASE(conv_input_grad, in({1, 1, 2}).is({1, 2}), in({1, 1, 2}).is({1, 10}),
        with("size", {7}, conv_attrs({2}, {0, -3})), gives({1, 10, 2, 20, 0, 0, 0}));
OP_CASE(conv_input_grad, in({1, 4, 3, 3}), in({4, 2, 2, 3}),
        with("size", {8, 8}, conv_attrs({2, 2}, {1, 0, -3, -1}, {}, 2)), like(conv_dx));
OP_CASE(conv_input_grad, in({1, 9, 6}), in({9, 7, 3}), with("size", {13}, conv_attrs({2}, {1, 2}, {2})),
        like(conv_dx));
OP_CASE(conv_input_grad, in({1, 3, 4, 3, 3}), in({3, 1, 3, 2, 3}),
        with("size", {8, 4, 3}, conv_attrs({2, 1, 1}, {1, 0, 1, 1, 0, 1}, {}, 3)), like(conv_dx));

OP_CASE(conv_weight_grad, in({2, 4, 3, 4}), in({2, 3, 5, 6}),
        with("kernel", {3, 3}, conv_attrs({1, 1}, {0, 0, 0, 0})), like(conv_dw));
OP_CASE(conv_weight_grad, in({3, 2, 20, 37}), in({3, 2, 20, 37}),
        with("kernel", {3, 3}, conv_attrs({1, 1}, {1, 1, 1, 1})), like(conv_dw));
OP_CASE(conv_weight_grad, in({1, 2, 4, 4}), in({1, 2, 9, 9}),
        with("kernel", {3, 2}, conv_attrs({2, 3}, {2, 1, 0, 2}, {2, 2})), like(conv_dw));
OP_CASE(conv_weight_grad, in({1, 8, 4, 4}), in({1, 4, 7, 7}),
        with("kernel", {3, 3}, conv_attrs({2, 2}, {1, 1, 1, 1}, {1, 1}, 4)), like(conv_dw));
OP_CASE(conv_weight_grad, in({3, 9, 700}), in({3, 6, 703}),
        with("kernel", {5}, conv_attrs({}, {1, 0}, {}, 3)), like(conv_dw));
OP_CASE(conv_weight_grad, in({1, 2, 4, 3, 3}), in({1, 3, 5, 4, 7}),
        with("kernel", {2, 2, 3}, conv_attrs({1, 1, 2}, {})), like(conv_dw));

}  // namespace
}  // namespace pock::test
