// How outputs, taps and inputs of a sliding window meet along one axis: input = output * stride - pad + tap *
// dilation. The loops written here visit exactly the taps inside of the input, by their bounds where that is
// possible.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "rules.h"

namespace pock {

struct Window {
  int64_t taps = 1, stride = 1, pad = 0, pad_end = 0, dilation = 1;
  int64_t inputs = 1, outputs = 1;

  int64_t extent() const { return (taps - 1) * dilation + 1; }
  // Whether every output has a tap inside of the input.
  bool always_meets_input() const;
  loop::Expr input_of(const loop::Expr& output, const loop::Expr& tap) const {
    return output * stride - pad + tap * dilation;
  }
  // First valid tap of an output, and the end of them.
  loop::Expr first_tap(const loop::Expr& output) const;
  loop::Expr end_tap(const loop::Expr& output) const;

  using Pair = std::function<void(loop::Expr, loop::Expr)>;
  // For an output: (tap, input), taps ascending.
  void each_tap(loop::KernelBuilder& k, const std::string& name, const loop::Expr& output,
                const Pair& body) const;
  // For an input: (tap, output) of all windows that it is in, taps ascending.
  void each_tap_on(loop::KernelBuilder& k, const std::string& name, const loop::Expr& input,
                   const Pair& body) const;
  // The same, outputs ascending.
  void each_output_on(loop::KernelBuilder& k, const std::string& name, const loop::Expr& input,
                      const Pair& body) const;
  // For a tap: (output, input), outputs ascending.
  void each_output_of(loop::KernelBuilder& k, const std::string& name, const loop::Expr& tap,
                      const Pair& body) const;
  // `body` with the input where the tap of the output is inside.
  void when_inside(loop::KernelBuilder& k, const loop::Expr& output, const loop::Expr& tap,
                   const loop::Body& body) const;

 private:
  // Whether some output has a tap before the input's start, or past its end.
  bool before_start() const { return pad > 0; }
  bool past_end() const { return (outputs - 1) * stride - pad + extent() > inputs; }
};

// `ceil`: also a last window that only starts inside of the input or the padding before it.
Window make_window(int64_t taps, int64_t stride, int64_t pad, int64_t pad_end, int64_t dilation,
                   int64_t inputs, bool ceil);

// The windows along all spatial axes of a tensor [N,C,...]: one, two or three.
struct Windows : std::vector<Window> {
  using std::vector<Window>::vector;
  using Index = std::vector<loop::Expr>;
  using Pair = std::function<void(const Index&, const Index&)>;
  using Loop = void (Window::*)(loop::KernelBuilder&, const std::string&, const loop::Expr&,
                                const Window::Pair&) const;

  Dims outputs() const;
  Dims inputs() const;
  Dims taps() const;
  // A loop of Window along every axis, the last one innermost. `at` has what each of them starts from; `body`
  // gets what they give.
  void loops(loop::KernelBuilder& k, Loop loop, const std::string& prefix, const Index& at,
             const Pair& body) const;
};

// Independent loops over spatial axes of these lengths: z, y, x behind `prefix`.
void each_spatial(loop::KernelBuilder& k, const std::string& prefix, const Dims& dims,
                  const loop::BodyN& body);

// The attributes stride and dilation have one number an axis, pad first the side before every axis and then
// those behind them; a negative one behind leaves the end of the input out. Where they are empty they are 1, 1
// and 0.
std::vector<AttrDef> window_attrs(std::vector<AttrDef> more);
void need_window_attrs(const InferArgs& a, size_t axes);
void need_outputs(const InferArgs& a, const Windows& windows);

// The spatial axes of a tensor [N,C,...].
Dims spatial(const Type& t);
// [N,C,...] with these spatial axes.
Type with_spatial(const Type& t, int64_t channels, const Dims& dims);
// Input `i` is such a tensor, with `axes` spatial axes (0: one to three); returns how many there are.
size_t need_spatial(const InferArgs& a, int i, size_t axes = 0);

template <class Source>  // InferArgs or Node
Windows make_windows(const Source& s, const Dims& kernel, const Dims& inputs, bool ceil) {
  const auto &stride = s.integers("stride"), &pad = s.integers("pad"), &dilation = s.integers("dilation");
  Windows all;
  const size_t axes = kernel.size();
  for (size_t i = 0; i < axes; ++i)
    all.push_back(make_window(kernel[i], stride.empty() ? 1 : stride[i], pad.empty() ? 0 : pad[i],
                              pad.empty() ? 0 : pad[axes + i], dilation.empty() ? 1 : dilation[i], inputs[i],
                              ceil));
  return all;
}

}  // namespace pock
