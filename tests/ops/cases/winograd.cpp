#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

constexpr double kG[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
constexpr double kB[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
constexpr double kA[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};

// Left times a square times right transposed, element (i, j).
template <int n, int m>
double sandwich(const double (&matrix)[n][m], int i, int j, const std::function<double(int, int)>& square) {
  double sum = 0;
  for (int a = 0; a < m; ++a)
    for (int b = 0; b < m; ++b) sum += matrix[i][a] * matrix[j][b] * square(a, b);
  return sum;
}

template <bool flipped>
std::vector<Numbers> filter(const Node& n, const std::vector<Numbers>& in) {
  const int64_t outputs = n.in(0)->type.dim(0), inputs = n.in(0)->type.dim(1);
  Numbers u(n.out()->type.elements());
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t c = 0; c < inputs; ++c)
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
          auto tap = [&](int a, int b) {
            return in[0][(o * inputs + c) * 9 + (flipped ? 8 - a * 3 - b : a * 3 + b)];
          };
          const int64_t matrix = (i * 4 + j) * inputs * outputs;
          u[matrix + (flipped ? o * inputs + c : c * outputs + o)] = sandwich(kG, i, j, tap);
        }
  return {u};
}

std::vector<Numbers> tiles(const Node& n, const std::vector<Numbers>& in) {
  const Type &x = n.in(0)->type, &y = n.out()->type;
  const std::vector<int64_t>& pad = n.integers("pad");
  Numbers out(y.elements());
  for (int64_t image = 0; image < y.dim(0); ++image)
    for (int64_t o = 0; o < y.dim(1); ++o)
      for (int64_t row = 0; row < y.dim(2); ++row)
        for (int64_t column = 0; column < y.dim(3); ++column) {
          auto product = [&](int i, int j) {
            double sum = 0;
            for (int64_t c = 0; c < x.dim(1); ++c) {
              auto element = [&](int a, int b) {
                const int64_t at_y = row / 2 * 2 + a - pad[0], at_x = column / 2 * 2 + b - pad[1];
                const bool inside = at_y >= 0 && at_y < x.dim(2) && at_x >= 0 && at_x < x.dim(3);
                return inside ? in[0][((image * x.dim(1) + c) * x.dim(2) + at_y) * x.dim(3) + at_x] : 0;
              };
              sum += sandwich(kB, i, j, element) * in[1][((i * 4 + j) * x.dim(1) + c) * y.dim(1) + o];
            }
            return sum;
          };
          out[((image * y.dim(1) + o) * y.dim(2) + row) * y.dim(3) + column] =
              sandwich(kA, static_cast<int>(row % 2), static_cast<int>(column % 2), product);
        }
  return {out};
}

CaseAttrs to(Dims pad, Dims size, int64_t bytes = 1 << 20) {
  return attrs({{"pad", std::move(pad)}, {"size", std::move(size)}, {"bytes", bytes}});
}

OP_CASE(winograd_filter, in({4, 3, 3, 3}), like(filter<false>));
OP_CASE(winograd_filter, in({17, 5, 3, 3}), like(filter<false>));
OP_CASE(winograd_filter, in({128, 2, 3, 3}), like(filter<false>));
OP_CASE(winograd_flipped_filter, in({4, 3, 3, 3}), like(filter<true>));
OP_CASE(winograd_flipped_filter, in({3, 33, 3, 3}), like(filter<true>));

OP_CASE(winograd_conv, in({2, 3, 5, 6}), in({16, 3, 4}), to({1, 1}, {5, 6}), like(tiles));
OP_CASE(winograd_conv, in({1, 2, 7, 4}), in({16, 2, 17}), to({0, 0}, {5, 2}), like(tiles));
OP_CASE(winograd_conv, in({1, 17, 4, 3}), in({16, 17, 5}), to({2, 2}, {6, 5}), like(tiles));
OP_CASE(winograd_conv, in({1, 3, 4, 5}), in({16, 3, 2}), to({2, 0}, {3, 7}), like(tiles));
OP_CASE(winograd_conv, in({1, 1, 1, 1}), in({16, 1, 1}), to({1, 1}, {1, 1}), like(tiles));
// In parts: rows of tiles, images, and some images together.
OP_CASE(winograd_conv, in({2, 3, 8, 5}), in({16, 3, 4}), to({1, 1}, {8, 5}, 1), like(tiles));
OP_CASE(winograd_conv, in({1, 5, 12, 4}), in({16, 5, 16}), to({1, 1}, {12, 4}, 6000), like(tiles));
OP_CASE(winograd_conv, in({3, 4, 5, 7}), in({16, 4, 33}), to({1, 1}, {5, 7}, 1), like(tiles));
OP_CASE(winograd_conv, in({4, 2, 3, 4}), in({16, 2, 3}), to({1, 1}, {3, 4}, 2600), like(tiles));

}  // namespace
}  // namespace pock::test
