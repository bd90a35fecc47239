// What the operators' definitions share: attributes, checks of shape rules, and the list of each family.
#pragma once

#include "pock/ops/op.h"

namespace pock {

using OpList = std::vector<const OpDef*>;

// One list a family; registry.cpp joins them.
OpList pointwise_ops();
OpList activation_ops();
OpList reduce_ops();
OpList norm_ops();
OpList contraction_ops();
OpList winograd_ops();
OpList window_ops();
OpList resize_ops();
OpList movement_ops();
OpList random_ops();
OpList loss_ops();
OpList update_ops();

inline AttrDef int_attr(const char* name) { return {AttrDef::integer, name}; }
inline AttrDef int_attr(const char* name, int64_t standard) {
  return {AttrDef::integer, name, Attr{standard}};
}
inline AttrDef number_attr(const char* name) { return {AttrDef::number, name}; }
inline AttrDef number_attr(const char* name, double standard) {
  return {AttrDef::number, name, Attr{standard}};
}
inline AttrDef string_attr(const char* name) { return {AttrDef::string, name}; }
inline AttrDef string_attr(const char* name, std::string standard) {
  return {AttrDef::string, name, Attr{std::move(standard)}};
}
inline AttrDef ints_attr(const char* name) { return {AttrDef::integers, name}; }
inline AttrDef ints_attr(const char* name, std::vector<int64_t> standard) {
  return {AttrDef::integers, name, Attr{std::move(standard)}};
}

// Reason of the operators that only stand in gradients.
inline constexpr const char* kFirstOrderOnly = "it is itself part of a gradient, and pock derives only once";

// Of Expand operators whose gradient is that of their parts.
inline constexpr const char* kExpandedFirst =
    "it becomes other operators, which have one, before gradients are made";

// Throws a.fail unless input `i` (all inputs) has this element type.
void need_dtype(const InferArgs& a, int i, DType dtype);
void need_floats(const InferArgs& a);
void need_rank(const InferArgs& a, int i, int rank);
void need_type(const InferArgs& a, int i, const Type& type, const char* what);
// `count` numbers, none below `least`.
const std::vector<int64_t>& need_ints(const InferArgs& a, const char* attr, size_t count, int64_t least);
// Of what sizes are multiplied by, so that no product overflows.
inline constexpr int64_t kMostTimes = int64_t{1} << 20;

// A number as an element of this type, which is no mask.
inline loop::Expr number(double x, DType type) {
  return is_float(type) ? loop::lit(x, type) : loop::int_lit(static_cast<int64_t>(x), type);
}

// Axes may count from the end; an axis outside of the rank is an error.
inline int64_t from_start(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }
int64_t need_axis(const InferArgs& a, int64_t axis, int rank);

// Input `i` is a list of elements along an axis.
void need_index(const InferArgs& a, int i);

// What a shape and one of input `i` broadcast to; throws a.fail where they do not fit.
Dims broadcast(const InferArgs& a, const Dims& left, const Dims& right, int i);
// As broadcast_all, of floats only.
Types broadcast_floats(const InferArgs& a);
// As broadcast_all, of floats or integers.
Types broadcast_numbers(const InferArgs& a);
// Whether `from` broadcasts to exactly `to`.
bool broadcasts_to(const Dims& from, const Dims& to);

// [C,1,1] for an x of [N,C,H,W]: what broadcasts along x's channels. x has at least rank 2.
Type channel_shape(const Type& x);

}  // namespace pock
