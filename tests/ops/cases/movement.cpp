#include "ops/cases/op_case.h"

namespace pock::test {
namespace {

CaseAttrs cut(int64_t axis, int64_t start, int64_t end) {
  return attrs({{"axis", axis}, {"start", start}, {"end", end}});
}
CaseAttrs padded(int64_t axis, int64_t before, int64_t after) {
  return attrs({{"axis", axis}, {"before", before}, {"after", after}});
}

OP_CASE(reshape, in({2, 3}).is({1, 2, 3, 4, 5, 6}), attrs({{"shape", Dims{3, 2}}}),
        gives({1, 2, 3, 4, 5, 6}));
OP_CASE(reshape, in({2, 9}), attrs({{"shape", Dims{1, 3, 6}}}));
OP_CASE(transpose, in({2, 3}).is({1, 2, 3, 4, 5, 6}), attrs({{"permutation", Dims{1, 0}}}),
        gives({1, 4, 2, 5, 3, 6}));
OP_CASE(transpose, in({2, 1, 3}).is({1, 2, 3, 4, 5, 6}), attrs({{"permutation", Dims{2, 0, 1}}}),
        gives({1, 4, 2, 5, 3, 6}));
OP_CASE(transpose, in({2, 3, 4, 5}), attrs({{"permutation", Dims{0, 2, 3, 1}}}));
OP_CASE(broadcast_to, in({2, 1}).is({1, 2}), attrs({{"shape", Dims{2, 2, 3}}}),
        gives({1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
OP_CASE(broadcast_to, in({7}), attrs({{"shape", Dims{3, 7}}}));
OP_CASE(relayout, in({2, 3}).is({1, 2, 3, 4, 5, 6}), gives({1, 2, 3, 4, 5, 6}));
OP_CASE(relayout, in({2, 6, 3, 8}));
OP_CASE(concat, in({2, 1}).is({1, 2}), in({2, 2}).is({3, 4, 5, 6}), attrs({{"axis", int64_t{1}}}),
        gives({1, 3, 4, 2, 5, 6}));
OP_CASE(concat, in({2, 3, 2}), in({2, 5, 2}), in({2, 1, 2}), attrs({{"axis", int64_t{-2}}}));
OP_CASE(slice, in({2, 3}).is({1, 2, 3, 4, 5, 6}), cut(1, 1, 3), gives({2, 3, 5, 6}));
OP_CASE(slice, in({5, 3}), cut(-2, 1, 3));
OP_CASE(pad, in({2, 2}).is({1, 2, 3, 4}), padded(1, 1, 2), gives({0, 1, 2, 0, 0, 0, 3, 4, 0, 0}));
OP_CASE(pad, in({2, 3}), padded(0, 2, 0));
OP_CASE(pad, in({2}).is({1, 2}),
        attrs({{"axis", int64_t{0}}, {"before", int64_t{1}}, {"after", int64_t{1}}, {"value", -1.5}}),
        gives({-1.5, 1, 2, -1.5}));
OP_CASE(pad, in(DType::i64, {2}).is({5, -7}), padded(0, 1, 0), gives({0, 5, -7}));
OP_CASE(gather, in({3, 2}).is({1, 2, 3, 4, 5, 6}), in(DType::i64, {4}).is({2, 0, 0, 2}),
        attrs({{"axis", int64_t{0}}}), gives({5, 6, 1, 2, 1, 2, 5, 6}));
OP_CASE(gather, in({2, 3}).is({1, 2, 3, 4, 5, 6}), in(DType::i32, {2}).is({1, 1}),
        attrs({{"axis", int64_t{-1}}}), gives({2, 2, 5, 5}));
OP_CASE(gather, in({2, 5, 3}), in(DType::i64, {7}).is({4, 0, 1, 1, 1, 3, 0}), attrs({{"axis", int64_t{1}}}));
OP_CASE(gather, in({2, 9}), in(DType::i64, {5}).is({8, 6, 4, 2, 0}), attrs({{"axis", int64_t{1}}}));
OP_CASE(gather, in({3}).is({1, 2, 3}).without_gradient(), in(DType::i64, {4}).is({-1, 7, -3, -9}),
        attrs({{"axis", int64_t{0}}}), gives({3, 3, 1, 1}));
OP_CASE(gather, in({3, 5}), in(DType::i32, {6}).is({-1, 2, 0, -3, -2, 1}), attrs({{"axis", int64_t{0}}}));
OP_CASE(gather_grad, in({4, 1}).is({1, 2, 3, 4}), in(DType::i64, {4}).is({-1, 1, 1, 0}),
        attrs({{"axis", int64_t{0}}, {"size", int64_t{2}}}), gives({4, 6}));
OP_CASE(gather_grad, in({3, 2}).is({1, 2, 3, 4, 5, 6}), in(DType::i64, {3}).is({3, 0, 3}),
        attrs({{"axis", int64_t{0}}, {"size", int64_t{4}}}), gives({3, 4, 0, 0, 0, 0, 6, 8}));
OP_CASE(gather_grad, in({3, 2}).is({1, 2, 3, 4, 5, 6}), in(DType::i64, {3}).is({-1, -9, 9}),
        attrs({{"axis", int64_t{0}}, {"size", int64_t{4}}}), gives({3, 4, 0, 0, 0, 0, 6, 8}));
OP_CASE(gather_grad, in({2, 3, 5}), in(DType::i64, {3}).is({-1, 6, 2}),
        attrs({{"axis", int64_t{1}}, {"size", int64_t{7}}}));
OP_CASE(gather_grad, in({2, 3, 5}), in(DType::i64, {3}).is({-1, 1, 0}),
        attrs({{"axis", int64_t{1}}, {"size", int64_t{2}}}));
OP_CASE(gather_grad, in({3, 33}), in(DType::i32, {3}).is({-1, 9, -9}),
        attrs({{"axis", int64_t{0}}, {"size", int64_t{5}}}));

}  // namespace
}  // namespace pock::test
