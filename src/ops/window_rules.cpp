#include "window_rules.h"

#include <algorithm>

namespace pock {

using loop::Expr;

Window make_window(int64_t taps, int64_t stride, int64_t pad, int64_t pad_end, int64_t dilation,
                   int64_t inputs, bool ceil) {
  Window w{taps, stride, pad, pad_end, dilation, inputs, 0};
  int64_t room = inputs + pad + pad_end - w.extent() + (ceil ? stride - 1 : 0);
  if (room < 0) return w;
  w.outputs = room / stride + 1;
  if (ceil && (w.outputs - 1) * stride >= inputs + pad) --w.outputs;
  return w;
}

std::vector<AttrDef> window_attrs(std::vector<AttrDef> more) {
  std::vector<AttrDef> attrs = {ints_attr("stride", {}), ints_attr("pad", {}), ints_attr("dilation", {})};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

void need_window_attrs(const InferArgs& a, size_t axes) {
  auto need = [&](const char* name, size_t count, int64_t least) {
    if (!a.integers(name).empty()) need_ints(a, name, count, least);
  };
  need("stride", axes, 1);
  need("dilation", axes, 1);
  need("pad", 2 * axes, -kMostElements);
  for (int64_t n : a.integers("dilation"))
    if (n > kMostTimes) throw a.fail("'dilation' is {}, the most is {}", n, kMostTimes);
  const auto& pad = a.integers("pad");
  if (!pad.empty() && *std::min_element(pad.begin(), pad.begin() + std::ssize(pad) / 2) < 0)
    throw a.fail("'pad' is {}, which starts inside of the input", to_string(pad));
}

namespace {

// "z", "y", "x": the last axis is x.
std::string axis_name(size_t axis, size_t axes) { return std::string(1, "zyx"[3 - axes + axis]); }

Dims of_each(const Windows& windows, int64_t Window::*number) {
  Dims dims;
  for (const Window& w : windows) dims.push_back(w.*number);
  return dims;
}

}  // namespace

Dims Windows::outputs() const { return of_each(*this, &Window::outputs); }
Dims Windows::inputs() const { return of_each(*this, &Window::inputs); }
Dims Windows::taps() const { return of_each(*this, &Window::taps); }

void Windows::loops(loop::KernelBuilder& k, Loop loop, const std::string& prefix, const Index& at,
                    const Pair& body) const {
  Index first, second;
  std::function<void()> next = [&] {
    size_t axis = first.size();
    if (axis == size()) return body(first, second);
    ((*this)[axis].*loop)(k, prefix + axis_name(axis, size()), at[axis], [&](Expr a, Expr b) {
      first.push_back(std::move(a));
      second.push_back(std::move(b));
      next();
      first.pop_back();
      second.pop_back();
    });
  };
  next();
}

void each_spatial(loop::KernelBuilder& k, const std::string& prefix, const Dims& dims,
                  const loop::BodyN& body) {
  std::vector<Expr> index;
  std::function<void()> next = [&] {
    size_t axis = index.size();
    if (axis == dims.size()) return body(index);
    k.each(prefix + axis_name(axis, dims.size()), dims[axis], [&](Expr i) {
      index.push_back(std::move(i));
      next();
      index.pop_back();
    });
  };
  next();
}

Dims spatial(const Type& t) { return Dims(t.dims.begin() + 2, t.dims.end()); }

Type with_spatial(const Type& t, int64_t channels, const Dims& dims) {
  Type result{t.dtype, {t.dim(0), channels}};
  result.dims.insert(result.dims.end(), dims.begin(), dims.end());
  return result;
}

size_t need_spatial(const InferArgs& a, int i, size_t axes) {
  int rank = a.in(i).rank();
  if (axes) {
    need_rank(a, i, static_cast<int>(axes) + 2);
  } else if (rank < 3 || rank > 5) {
    throw a.fail("input {} must have 3 to 5 axes, it has {}", i, rank);
  }
  return rank - 2;
}

void need_outputs(const InferArgs& a, const Windows& windows) {
  constexpr const char* kNames[] = {"depth", "height", "width"};
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& w = windows[i];
    if (w.outputs < 1)
      throw a.fail("a kernel that spans {} does not fit into {} {} with padding {} and {}", w.extent(),
                   kNames[3 - windows.size() + i], w.inputs, w.pad, w.pad_end);
  }
}

bool Window::always_meets_input() const {
  // Taps no further apart than the input is long cannot step over it: the first and the last output decide.
  if (dilation <= inputs) return (taps - 1) * dilation >= pad && (outputs - 1) * stride - pad < inputs;
  // Rounds down.
  auto quotient = [&](int64_t a) { return a >= 0 ? a / stride : -((stride - 1 - a) / stride); };
  // Each tap meets the input for a range of outputs; the higher the tap, the lower they are.
  int64_t last = outputs - 1;  // of the outputs that no tap so far serves
  for (int64_t tap = 0; tap < taps && last >= 0; ++tap) {
    int64_t start = pad - tap * dilation;
    if (quotient(start + inputs - 1) < last) return false;
    last = std::min(last, quotient(start - 1));
  }
  return last < 0;
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
