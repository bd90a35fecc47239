// Sliding windows in plain C++, for the references of convolutions and poolings.
#pragma once

#include "ops/cases/op_case.h"
#include "support/support.h"

namespace pock::test {

inline Dims spatial(const Type& t) { return Dims(t.dims.begin() + 2, t.dims.end()); }

inline bool inside(const Dims& index, const Dims& dims) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (index[i] < 0 || index[i] >= dims[i]) return false;
  return true;
}

inline int64_t offset(const Type& t, int64_t first, int64_t channel, const Dims& position) {
  int64_t at = first * t.dim(1) + channel;
  for (size_t i = 0; i < position.size(); ++i) at = at * t.dim(static_cast<int>(i) + 2) + position[i];
  return at;
}

struct WindowAttrs {
  Dims stride, pad, dilation;
  WindowAttrs(const Node& n, size_t axes)
      : stride(n.integers("stride")), pad(n.integers("pad")), dilation(n.integers("dilation")) {
    stride.resize(axes, 1);
    pad.resize(2 * axes, 0);
    dilation.resize(axes, 1);
  }
  Dims input(const Dims& output, const Dims& tap) const {
    Dims in;
    for (size_t i = 0; i < output.size(); ++i)
      in.push_back(output[i] * stride[i] - pad[i] + tap[i] * dilation[i]);
    return in;
  }
};

template <class T>
CaseAttrs with(const char* name, T value, CaseAttrs a) {
  a.attrs[name] = Attr{std::move(value)};
  return a;
}
inline CaseAttrs with(const char* name, std::initializer_list<int64_t> value, CaseAttrs a) {
  return with(name, Dims(value), std::move(a));
}

}  // namespace pock::test
