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

// Windows along height and width from the attributes stride, pad (top, left, bottom, right) and dilation.
// `ceil`: also a last window that only starts inside of the input or the padding before it.
Window make_window(int64_t taps, int64_t stride, int64_t pad, int64_t pad_end, int64_t dilation,
                   int64_t inputs, bool ceil);

template <class Source>  // InferArgs or Node
std::pair<Window, Window> windows(const Source& s, const Dims& kernel, const Dims& inputs, bool ceil) {
  const auto &stride = s.integers("stride"), &pad = s.integers("pad"), &dilation = s.integers("dilation");
  return {make_window(kernel[0], stride[0], pad[0], pad[2], dilation[0], inputs[0], ceil),
          make_window(kernel[1], stride[1], pad[1], pad[3], dilation[1], inputs[1], ceil)};
}

std::vector<AttrDef> window_attrs(std::vector<AttrDef> more);
void need_window_attrs(const InferArgs& a);
void need_outputs(const InferArgs& a, const Window& w, const char* axis);

}  // namespace pock
