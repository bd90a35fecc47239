#include "window_rules.h"

namespace pock {

using loop::Expr;

Window make_window(int64_t taps, int64_t stride, int64_t pad, int64_t pad_end, int64_t dilation,
                   int64_t inputs, bool ceil) {
  Window w{taps, stride, pad, pad_end, dilation, inputs, 0};
  int64_t room = inputs + pad + pad_end - w.extent();
  if (room < 0) return w;
  w.outputs = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (w.outputs - 1) * stride >= inputs + pad) --w.outputs;
  return w;
}

std::vector<AttrDef> window_attrs(std::vector<AttrDef> more) {
  std::vector<AttrDef> attrs = {ints_attr("stride", {1, 1}), ints_attr("pad", {0, 0, 0, 0}),
                                ints_attr("dilation", {1, 1})};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

void need_window_attrs(const InferArgs& a) {
  need_ints(a, "stride", 2, 1);
  need_ints(a, "pad", 4, 0);
  need_ints(a, "dilation", 2, 1);
}

void need_outputs(const InferArgs& a, const Window& w, const char* axis) {
  if (w.outputs < 1)
    throw a.fail("a kernel that spans {} does not fit into {} {} with padding {} and {}", w.extent(), axis,
                 w.inputs, w.pad, w.pad_end);
}

Expr Window::first_tap(const Expr& output) const {
  if (!before_start()) return 0;
  return max(Expr(0), ceildiv(Expr(pad) - output * stride, dilation));
}

Expr Window::end_tap(const Expr& output) const {
  if (!past_end()) return taps;
  return min(Expr(taps), floordiv(Expr(inputs - 1 + pad) - output * stride, dilation) + 1);
}

void Window::each_tap(loop::KernelBuilder& k, const std::string& name, const Expr& output,
                      const Pair& body) const {
  if (taps == 1 && !before_start() && !past_end()) return body(0, input_of(output, 0));
  k.loop(name, first_tap(output), end_tap(output), [&](Expr tap) { body(tap, input_of(output, tap)); });
}

void Window::each_tap_on(loop::KernelBuilder& k, const std::string& name, const Expr& input,
                         const Pair& body) const {
  // output = (input + pad - tap * dilation) / stride must be whole, >= 0 and < outputs.
  Expr at = input + pad;
  int64_t reach = (outputs - 1) * stride;  // of the last output
  bool all_below = pad >= (taps - 1) * dilation, all_above = inputs - 1 + pad <= reach;
  Expr end = all_below ? Expr(taps) : min(Expr(taps), floordiv(at, dilation) + 1);
  Expr first = all_above ? Expr(0) : ceildiv(at - reach, dilation);
  auto output_of = [&](const Expr& tap) { return floordiv(at - tap * dilation, stride); };
  if (stride == 1) {
    if (taps == 1 && all_below && all_above) return body(0, at);
    k.loop(name, max(Expr(0), first), end, [&](Expr tap) { body(tap, output_of(tap)); });
  } else if (dilation == 1) {
    // Every stride-th tap from `at` mod stride on; at - reach has the same remainder, so the maximum keeps
    // it.
    k.loop(
        name, all_above ? mod(at, stride) : max(mod(at, stride), first), end,
        [&](Expr tap) { body(tap, output_of(tap)); }, stride);
  } else {
    k.loop(name, max(Expr(0), first), end, [&](Expr tap) {
      k.when(mod(at - tap * dilation, stride) == Expr(0), [&] { body(tap, output_of(tap)); });
    });
  }
}

void Window::each_output_on(loop::KernelBuilder& k, const std::string& name, const Expr& input,
                            const Pair& body) const {
  Expr at = input + pad;
  Expr first = ceildiv(at - (taps - 1) * dilation, stride), end = floordiv(at, stride) + 1;
  if (pad - (taps - 1) * dilation <= -stride) first = max(Expr(0), first);
  if ((inputs - 1 + pad) / stride >= outputs) end = min(Expr(outputs), end);
  k.loop(name, first, end, [&](Expr output) {
    Expr offset = at - output * stride;
    if (dilation == 1) return body(offset, output);
    k.when(mod(offset, dilation) == Expr(0), [&] { body(floordiv(offset, dilation), output); });
  });
}

void Window::each_output_of(loop::KernelBuilder& k, const std::string& name, const Expr& tap,
                            const Pair& body) const {
  Expr first = before_start() ? max(Expr(0), ceildiv(Expr(pad) - tap * dilation, stride)) : Expr(0);
  Expr end = past_end() ? min(Expr(outputs), floordiv(Expr(inputs - 1 + pad) - tap * dilation, stride) + 1)
                        : Expr(outputs);
  k.loop(name, first, end, [&](Expr output) { body(output, input_of(output, tap)); });
}

void Window::when_inside(loop::KernelBuilder& k, const Expr& output, const Expr& tap,
                         const loop::Body& body) const {
  Expr input = input_of(output, tap);
  if (!before_start() && !past_end()) return body(input);
  Expr inside = before_start() ? Expr(0) <= input : input < Expr(inputs);
  if (before_start() && past_end()) inside = inside && input < Expr(inputs);
  k.when(inside, [&] { body(input); });
}

}  // namespace pock
