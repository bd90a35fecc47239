#include "windows.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace pock::onnx_frontend {
namespace {

// Along one spatial axis.
struct Window {
  int64_t kernel, stride, dilation, pad, pad_end;

  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  // Evenly; the odd one stands behind the axis for SAME_UPPER, else in front.
  void split_padding(int64_t total, const std::string& automatic) {
    pad = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    pad_end = total - pad;
  }
};

std::vector<int64_t> checked(Call& c, const char* name, std::vector<int64_t> v, size_t count, int64_t least) {
  if (v.size() != count)
    throw c.fail("attribute '{}' is {}, but needs {} numbers", name, to_string(v), count);
  for (int64_t n : v)
    if (n < least || n > std::numeric_limits<int32_t>::max())
      throw c.fail("attribute '{}' is {}: each must be at least {}", name, to_string(v), least);
  return v;
}
std::vector<int64_t> per_axis(Call& c, const char* name, size_t count, int64_t standard, int64_t least) {
  return checked(c, name, c.integers(name, std::vector<int64_t>(count, standard)), count, least);
}
// The attribute must be there.
std::vector<int64_t> per_axis(Call& c, const char* name, size_t count, int64_t least) {
  return checked(c, name, c.integers(name), count, least);
}

bool is_same(const std::string& automatic) { return automatic == "SAME_UPPER" || automatic == "SAME_LOWER"; }

std::string read_auto_pad(Call& c) {
  std::string automatic = c.string("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID" && !is_same(automatic))
    throw c.fail("attribute 'auto_pad' is '{}'; there are NOTSET, VALID, SAME_UPPER and SAME_LOWER",
                 automatic);
  return automatic;
}

// The windows with the padding that the file gives; none where `auto_pad` decides.
std::vector<Window> read_windows(Call& c, const Dims& kernel, const std::string& automatic) {
  const size_t axes = kernel.size();
  auto stride = per_axis(c, "strides", axes, 1, 1), dilation = per_axis(c, "dilations", axes, 1, 1),
       pad = per_axis(c, "pads", 2 * axes, 0, 0);
  if (automatic != "NOTSET") pad.assign(2 * axes, 0);
  std::vector<Window> windows;
  for (size_t i = 0; i < axes; ++i)
    windows.push_back({kernel[i], stride[i], dilation[i], pad[i], pad[axes + i]});
  return windows;
}

Attrs window_attrs(const std::vector<Window>& windows) {
  Dims stride, dilation, pad;
  for (const Window& w : windows) {
    stride.push_back(w.stride);
    dilation.push_back(w.dilation);
    pad.push_back(w.pad);
  }
  for (const Window& w : windows) pad.push_back(w.pad_end);
  return {{"stride", stride}, {"dilation", dilation}, {"pad", pad}};
}

// Where the outputs are ceil(input / stride) many.
void pad_to_same(std::vector<Window>& windows, const Dims& x, const std::string& automatic) {
  for (size_t i = 0; i < windows.size(); ++i) {
    Window& w = windows[i];
    int64_t in = x[2 + i], out = (in + w.stride - 1) / w.stride;
    w.split_padding(std::max<int64_t>(0, (out - 1) * w.stride + w.extent() - in), automatic);
  }
}

void check_spatial(Call& c, const Dims& x) {
  if (x.size() < 3 || x.size() > 5)
    throw c.fail("{} over {} spatial axes is not supported, only over 1 to 3", c.loc().op,
                 std::max<int64_t>(0, static_cast<int64_t>(x.size()) - 2));
}

Dims read_weight_kernel(Call& c, const Dims& x, const Dims& weight) {
  check_spatial(c, x);
  if (weight.size() != x.size())
    throw c.fail("the weight has rank {}, its input {}", weight.size(), x.size());
  Dims kernel(weight.begin() + 2, weight.end());
  if (Dims given = c.integers("kernel_shape", kernel); given != kernel)
    throw c.fail("attribute 'kernel_shape' is {}, but the weight's kernel is {}", to_string(given),
                 to_string(kernel));
  return kernel;
}

int64_t read_groups(Call& c) {
  int64_t groups = c.integer("group", 1);
  if (groups < 1) throw c.fail("attribute 'group' is {}: it must be at least 1", groups);
  return groups;
}

Value* with_bias(Call& c, Value* y) {
  if (!c.has(2)) return y;
  Value* bias = c.in(2);
  int64_t channels = y->type.dim(1);
  if (bias->type.dims != Dims{channels})
    throw c.fail("the bias is {}, but there are {} output channels", to_string(bias->type), channels);
  Dims shape(y->type.rank() - 1, 1);
  shape[0] = channels;
  return c.value("add", {y, c.reshape(bias, shape)});
}

}  // namespace

void conv(Call& c, const char*) {
  Value *x = c.in(0), *weight = c.in(1);
  Dims kernel = read_weight_kernel(c, x->type.dims, weight->type.dims);
  std::string automatic = read_auto_pad(c);
  std::vector<Window> windows = read_windows(c, kernel, automatic);
  if (is_same(automatic)) pad_to_same(windows, x->type.dims, automatic);
  Attrs attrs = window_attrs(windows);
  attrs["groups"] = read_groups(c);
  c.out(0, with_bias(c, c.value("conv", {x, weight}, attrs)));
}

// The input gradient of the convolution that has the same weight.
void conv_transpose(Call& c, const char*) {
  Value *x = c.in(0), *weight = c.in(1);
  const Dims &xd = x->type.dims, &wd = weight->type.dims;
  Dims kernel = read_weight_kernel(c, xd, wd);
  const size_t axes = kernel.size();
  if (wd[0] != xd[1]) throw c.fail("the weight is for {} input channels, but there are {}", wd[0], xd[1]);
  std::string automatic = read_auto_pad(c);
  std::vector<Window> windows = read_windows(c, kernel, automatic);
  auto more = per_axis(c, "output_padding", axes, 0, 0);
  Dims size;
  if (c.has("output_shape"))
    size = per_axis(c, "output_shape", axes, 1);
  else if (is_same(automatic))
    for (size_t i = 0; i < axes; ++i) size.push_back(xd[2 + i] * windows[i].stride);
  const bool given = !size.empty();
  for (size_t i = 0; i < axes; ++i) {
    Window& w = windows[i];
    int64_t steps = std::max(w.stride, w.dilation);
    if (more[i] >= steps)
      throw c.fail("attribute 'output_padding' is {}: each must be below the stride or the dilation",
                   to_string(more));
    int64_t reach = (xd[2 + i] - 1) * w.stride + w.extent();  // of all windows
    if (given) {
      int64_t total = reach + more[i] - size[i];
      if (total <= -steps)
        throw c.fail("an output of length {} along spatial axis {} lies beyond the windows, which reach {}",
                     size[i], i, reach + more[i]);
      w.split_padding(std::max<int64_t>(0, total), automatic);
    } else {
      size.push_back(reach + more[i] - w.pad - w.pad_end);
      if (size[i] < 1) throw c.fail("the output would have length {} along spatial axis {}", size[i], i);
    }
    w.pad_end = reach - w.pad - size[i];
  }
  Attrs attrs = window_attrs(windows);
  attrs["groups"] = read_groups(c);
  attrs["size"] = size;
  c.out(0, with_bias(c, c.value("conv_input_grad", {x, weight}, attrs)));
}

namespace {

Attrs read_pool(Call& c, const Dims& x) {
  check_spatial(c, x);
  Dims kernel = per_axis(c, "kernel_shape", x.size() - 2, 1);
  std::string automatic = read_auto_pad(c);
  std::vector<Window> windows = read_windows(c, kernel, automatic);
  if (is_same(automatic)) pad_to_same(windows, x, automatic);
  Attrs attrs = window_attrs(windows);
  attrs["kernel"] = kernel;
  attrs["ceil"] = int64_t{c.flag("ceil_mode", false)};
  return attrs;
}

Value* with_spatial_axes(Call& c) {
  Value* x = c.in(0);
  if (x->type.rank() < 3) throw c.fail("there is no spatial axis in {}", to_string(x->type));
  return x;
}

}  // namespace

void max_pool(Call& c, const char*) {
  Value* x = c.in(0);
  Attrs attrs = read_pool(c, x->type.dims);
  int64_t column_major = c.flag("storage_order", false);
  if (!c.reads(1)) return c.out(0, c.value("max_pool", {x}, attrs));
  Loc node = c.loc();
  node.file.clear();
  c.scope().said.insert(
      fmt::format("{}: the indices of {} count through a whole batch of {}, as ONNX says, so in predictions "
                  "they begin anew with every "
                  "batch",
                  c.loc().file, to_string(node), x->type.dim(0)));
  Node* y = c.make("max_pool", {x}, attrs);
  attrs["size"] = Dims(x->type.dims.begin() + 2, x->type.dims.end());
  attrs["column_major"] = column_major;
  c.out(0, y->out(0));
  c.out(1, c.value("max_pool_index", {y->out(1)}, attrs));
}

void average_pool(Call& c, const char*) {
  Value* x = c.in(0);
  Attrs attrs = read_pool(c, x->type.dims);
  attrs["count_include_pad"] = int64_t{c.flag("count_include_pad", false)};
  c.out(0, c.value("avg_pool", {x}, attrs));
}

void global_average_pool(Call& c, const char*) {
  Value* x = with_spatial_axes(c);
  std::vector<int64_t> axes(x->type.rank() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  c.out(0, c.value("reduce_mean", {x}, {{"axes", axes}, {"keep", int64_t{1}}}));
}

// A pooling and not a reduction: at ties the gradient goes to the first maximum.
void global_max_pool(Call& c, const char*) {
  Value* x = with_spatial_axes(c);
  Dims d = x->type.dims, rows{d[0], d[1], 1};
  for (size_t i = 2; i < d.size(); ++i) {
    rows[2] *= d[i];
    d[i] = 1;
  }
  Value* y = c.value("max_pool", {c.reshape(x, rows)}, {{"kernel", Dims{rows[2]}}});
  c.out(0, c.reshape(y, d));
}

}  // namespace pock::onnx_frontend
