// Convolutions and poolings in every spelling: values against the definition in plain C++, gradients against
// differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "forms.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock::test {
namespace {

Model conv(const Strings& in, const std::vector<std::pair<std::string, Attribute>>& attributes, Dims x,
           Dims w) {
  Model m;
  int64_t n = 1;
  for (int64_t d : w) n *= d;
  m.input("x", x).floats("w", w, std::vector<float>(n, 1)).node("Conv", in, {"y"}, attributes).output("y");
  return m;
}

TEST(Conv, AutoPad) {
  auto padded = [](const char* how) {
    return run(*conv({"x", "w"}, {{"auto_pad", std::string(how)}, {"strides", Ints{2, 2}}}, {1, 1, 4, 4},
                     {1, 1, 3, 3})
                    .import(),
               Numbers(16, 1));
  };
  EXPECT_EQ(padded("SAME_UPPER"), (Numbers{9, 6, 6, 4}));
  EXPECT_EQ(padded("SAME_LOWER"), (Numbers{4, 6, 6, 9}));
  EXPECT_EQ(padded("VALID"), (Numbers{9}));
}

TEST(Conv, OneSpatialAxisWithUnevenPads) {
  Model m = conv({"x", "w", "b"}, {{"pads", Ints{1, 0}}, {"dilations", Ints{2}}, {"group", int64_t{2}}},
                 {1, 2, 4}, {2, 1, 2});
  m.floats("b", {2}, {10, 20});
  EXPECT_EQ(run(*m.import(), ramp(8)), (Numbers{11, 12, 14, 25, 30, 32}));
  EXPECT_EQ(m.import()->outputs()[0]->type.dims, (Dims{1, 2, 3}));
}

TEST(Conv, Refusals) {
  expect_has(conv({"x", "w"}, {{"kernel_shape", Ints{2, 2}}}, {1, 1, 4, 4}, {1, 1, 3, 3}).problem(),
             "'kernel_shape' is [2,2]");
  expect_has(conv({"x", "w"}, {{"sparkle", int64_t{1}}}, {1, 1, 4, 4}, {1, 1, 3, 3}).problem(),
             "'sparkle' is not supported");
}

TEST(Pool, OneSpatialAxis) {
  Model m;
  m.input("x", {1, 1, 6}).output("y");
  m.node("MaxPool", {"x"}, {"y", "unread"},
         {{"kernel_shape", Ints{2}}, {"dilations", Ints{2}}, {"strides", Ints{3}}});
  EXPECT_EQ(run(*m.import(), ramp(6)), (Numbers{2, 5}));
}
// Where each maximum is, in either order of the axes.
TEST(Pool, Indices) {
  for (int64_t column_major : {0, 1}) {
    Model m;
    m.input("x", {1, 2, 3, 4})
        .node("MaxPool", {"x"}, {"y", "at"},
              {{"kernel_shape", Ints{2, 2}},
               {"pads", Ints{1, 0, 0, 0}},
               {"strides", Ints{2, 2}},
               {"storage_order", column_major}});
    m.node("Cast", {"at"}, {"indices"}, {{"to", int64_t{1}}}).output("indices").output("y");
    EXPECT_EQ(run(*m.import(), ramp(24)),
              column_major ? (Numbers{3, 9, 5, 11, 15, 21, 17, 23}) : (Numbers{1, 3, 9, 11, 13, 15, 21, 23}));
  }
}

// At ties a pooling gives its gradient to the first maximum, a reduction shares it out.
TEST(Pool, GlobalMaximumIsAPooling) {
  for (const Dims& x : {Dims{1, 2, 3}, Dims{1, 2, 3, 1}, Dims{1, 2, 1, 3, 1}}) {
    Model m;
    m.input("x", x).node("GlobalMaxPool", {"x"}, {"y"}).output("y");
    std::unique_ptr<Graph> g = m.import();
    EXPECT_EQ(run(*g, {1, 4, 4, -3, -5, -7}), (Numbers{4, -3}));
    Dims y(x.size(), 1);
    y[1] = 2;
    EXPECT_EQ(g->outputs()[0]->type.dims, y);
    auto nodes = g->nodes();
    EXPECT_TRUE(std::any_of(nodes.begin(), nodes.end(),
                            [](const Node* n) { return n->op->name.text == std::string("max_pool"); }));
  }
}

TEST(Pool, AverageCountsPaddingOnRequest) {
  auto average = [](int64_t count) {
    Model m;
    m.input("x", {1, 1, 1, 4}).output("y");
    m.node("AveragePool", {"x"}, {"y"},
           {{"kernel_shape", Ints{1, 2}},
            {"strides", Ints{1, 2}},
            {"pads", Ints{0, 1, 0, 1}},
            {"count_include_pad", count}});
    return run(*m.import(), {2, 4, 6, 8});
  };
  EXPECT_EQ(average(0), (Numbers{2, 5, 8}));
  EXPECT_EQ(average(1), (Numbers{1, 5, 4}));
}

// ---- Against the definition

struct Axis {
  int64_t in, kernel, stride, dilation, pad, pad_end, out;
};

// x [N,C,...], w [O,C/groups,...], y [N,O,...]: f(element of x, of w, of y) for every product of the convolution.
void each_product(const std::vector<Axis>& axes, int64_t images, int64_t channels, int64_t filters,
                  int64_t groups, const std::function<void(int64_t, int64_t, int64_t)>& f) {
  Ints outputs, kernel;
  for (const Axis& a : axes) outputs.push_back(a.out), kernel.push_back(a.kernel);
  for (int64_t n = 0; n < images; ++n)
    for (int64_t o = 0; o < filters; ++o)
      for (int64_t c = 0; c < channels / groups; ++c)
        each_index(outputs, [&](const Ints& out) {
          each_index(kernel, [&](const Ints& tap) {
            int64_t x = n * channels + o / (filters / groups) * (channels / groups) + c,
                    w = o * (channels / groups) + c, y = n * filters + o;
            for (size_t i = 0; i < axes.size(); ++i) {
              int64_t in = out[i] * axes[i].stride - axes[i].pad + tap[i] * axes[i].dilation;
              if (in < 0 || in >= axes[i].in) return;
              x = x * axes[i].in + in;
              w = w * axes[i].kernel + tap[i];
              y = y * axes[i].out + out[i];
            }
            f(x, w, y);
          });
        });
}

Dims shape(int64_t first, int64_t second, const std::vector<Axis>& axes, int64_t Axis::*length) {
  Dims d{first, second};
  for (const Axis& a : axes) d.push_back(a.*length);
  return d;
}

struct ConvForm {
  const char* what;
  Attributes attributes;
  std::vector<Axis>
      axes;  // for a ConvTranspose, of the convolution that it turns around: in and out are swapped
  int64_t channels = 2, filters = 3, groups = 1;
};

const std::vector<ConvForm> kConvForms = {
    {"plain", {}, {{5, 3, 1, 1, 0, 0, 3}, {6, 2, 1, 1, 0, 0, 5}}},
    {"kernel_shape", {{"kernel_shape", Ints{3, 2}}}, {{5, 3, 1, 1, 0, 0, 3}, {6, 2, 1, 1, 0, 0, 5}}},
    {"uneven pads",
     {{"pads", Ints{1, 0, 2, 3}}, {"strides", Ints{2, 3}}},
     {{7, 3, 2, 1, 1, 2, 4}, {8, 4, 3, 1, 0, 3, 3}}},
    {"auto_pad NOTSET keeps pads",
     {{"auto_pad", std::string("NOTSET")}, {"pads", Ints{1, 1, 0, 0}}},
     {{4, 3, 1, 1, 1, 0, 3}, {4, 3, 1, 1, 1, 0, 3}}},
    {"VALID ignores pads",
     {{"auto_pad", std::string("VALID")}, {"pads", Ints{1, 1, 1, 1}}},
     {{4, 3, 1, 1, 0, 0, 2}, {4, 3, 1, 1, 0, 0, 2}}},
    {"SAME_LOWER with stride, dilation and groups",
     {{"auto_pad", std::string("SAME_LOWER")},
      {"strides", Ints{2, 2}},
      {"dilations", Ints{2, 2}},
      {"group", int64_t{2}}},
     {{7, 3, 2, 2, 2, 2, 4}, {10, 2, 2, 2, 1, 0, 5}},
     4,
     6,
     2},
    {"SAME_UPPER with dilation",
     {{"auto_pad", std::string("SAME_UPPER")}, {"dilations", Ints{3, 1}}},
     {{5, 2, 1, 3, 1, 2, 5}, {4, 4, 1, 1, 1, 2, 4}}},
    {"SAME_UPPER with a kernel below the stride",
     {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{3, 3}}},
     {{7, 1, 3, 1, 0, 0, 3}, {6, 2, 3, 1, 0, 0, 2}}},
    {"depthwise with two filters a channel",
     {{"group", int64_t{7}}, {"pads", Ints{1, 1, 1, 1}}},
     {{5, 3, 1, 1, 1, 1, 5}, {4, 3, 1, 1, 1, 1, 4}},
     7,
     14,
     7},
    {"odd groups", {{"group", int64_t{3}}}, {{4, 2, 1, 1, 0, 0, 3}, {4, 1, 1, 1, 0, 0, 4}}, 15, 9, 3},
    {"one axis", {{"strides", Ints{2}}, {"pads", Ints{2, 1}}}, {{9, 4, 2, 1, 2, 1, 5}}},
    {"one axis, SAME_LOWER", {{"auto_pad", std::string("SAME_LOWER")}}, {{9, 4, 1, 1, 2, 1, 9}}},
    {"three axes",
     {{"strides", Ints{1, 2, 1}}, {"pads", Ints{0, 1, 0, 1, 0, 1}}},
     {{3, 2, 1, 1, 0, 1, 3}, {4, 3, 2, 1, 1, 0, 2}, {3, 3, 1, 1, 0, 1, 2}}},
};

TEST(Conv, Forms) {
  for (const ConvForm& form : kConvForms)
    for (bool bias : {false, true}) {
      SCOPED_TRACE(form.what);
      Model m;
      m.random("x", shape(2, form.channels, form.axes, &Axis::in));
      m.random("w", shape(form.filters, form.channels / form.groups, form.axes, &Axis::kernel));
      if (bias) m.random("b", {form.filters});
      m.node("Conv", bias ? Strings{"x", "w", "b"} : Strings{"x", "w"}, {"y"}, form.attributes).output("y");
      auto g = m.import();
      ASSERT_EQ(g->outputs()[0]->type.dims, shape(2, form.filters, form.axes, &Axis::out));
      Numbers x = data_of(*g, "x"), w = data_of(*g, "w"), y(g->outputs()[0]->type.elements(), 0);
      each_product(form.axes, 2, form.channels, form.filters, form.groups,
                   [&](int64_t i, int64_t k, int64_t o) { y[o] += x[i] * w[k]; });
      int64_t per_filter = std::ssize(y) / 2 / form.filters;
      for (int64_t i = 0; bias && i < std::ssize(y); ++i)
        y[i] += data_of(*g, "b")[i / per_filter % form.filters];
      expect_near(run(*g), y);
      expect_gradients(m, bias ? 3 : 2);
    }
}

const std::vector<ConvForm> kConvTransposeForms = {
    {"plain", {}, {{5, 3, 1, 1, 0, 0, 3}, {4, 2, 1, 1, 0, 0, 3}}},
    {"strides", {{"strides", Ints{3, 2}}}, {{9, 3, 3, 1, 0, 0, 3}, {7, 3, 2, 1, 0, 0, 3}}},
    {"a stride above the kernel", {{"strides", Ints{3, 3}}}, {{8, 2, 3, 1, 0, 0, 3}, {7, 1, 3, 1, 0, 0, 3}}},
    {"dilations and pads",
     {{"dilations", Ints{2, 3}}, {"pads", Ints{1, 2, 0, 1}}},
     {{6, 3, 1, 2, 1, 0, 3}, {3, 2, 1, 3, 2, 1, 3}}},
    {"output_padding",
     {{"strides", Ints{2, 3}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 2}}},
     {{6, 3, 2, 1, 1, 0, 3}, {9, 3, 3, 1, 1, 0, 3}}},
    {"output_padding above the pads",
     {{"strides", Ints{3, 1}}, {"dilations", Ints{1, 2}}, {"output_padding", Ints{2, 1}}},
     {{9, 1, 3, 1, 0, 0, 3}, {6, 2, 1, 2, 0, 0, 3}}},
    {"groups",
     {{"group", int64_t{3}}, {"strides", Ints{2, 2}}},
     {{6, 2, 2, 1, 0, 0, 3}, {4, 2, 2, 1, 0, 0, 2}},
     15,
     9,
     3},
    {"output_shape: an odd one out goes in front",
     {{"strides", Ints{2, 2}}, {"output_shape", Ints{6, 7}}, {"pads", Ints{9, 9, 9, 9}}},
     {{6, 3, 2, 1, 1, 0, 3}, {7, 3, 2, 1, 0, 0, 3}}},
    {"output_shape and SAME_UPPER",
     {{"strides", Ints{2, 2}}, {"output_shape", Ints{6, 8}}, {"auto_pad", std::string("SAME_UPPER")}},
     {{6, 3, 2, 1, 0, 1, 3}, {8, 3, 2, 1, 0, 0, 3}}},
    {"output_shape with output_padding",
     {{"strides", Ints{2, 2}}, {"output_shape", Ints{7, 8}}, {"output_padding", Ints{1, 1}}},
     {{7, 3, 2, 1, 1, 0, 3}, {8, 3, 2, 1, 0, 0, 3}}},
    {"SAME_UPPER",
     {{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}},
     {{6, 3, 2, 1, 0, 1, 3}, {6, 4, 2, 1, 1, 1, 3}}},
    {"SAME_LOWER",
     {{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_LOWER")}},
     {{6, 3, 2, 1, 1, 0, 3}, {6, 1, 2, 1, 0, 0, 3}}},
    {"SAME_LOWER with output_padding",
     {{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_LOWER")}, {"output_padding", Ints{1, 0}}},
     {{6, 3, 2, 1, 1, 1, 3}, {6, 3, 2, 1, 1, 0, 3}}},
    {"VALID",
     {{"auto_pad", std::string("VALID")}, {"pads", Ints{1, 1, 1, 1}}},
     {{5, 3, 1, 1, 0, 0, 3}, {4, 2, 1, 1, 0, 0, 3}}},
    {"one axis",
     {{"strides", Ints{2}}, {"pads", Ints{1, 0}}, {"kernel_shape", Ints{4}}},
     {{7, 4, 2, 1, 1, 0, 3}}},
    {"three axes",
     {{"strides", Ints{1, 2, 1}}, {"pads", Ints{0, 1, 0, 1, 0, 1}}},
     {{2, 2, 1, 1, 0, 1, 2}, {4, 3, 2, 1, 1, 0, 2}, {2, 2, 1, 1, 0, 1, 2}}},
};

TEST(ConvTranspose, Forms) {
  for (const ConvForm& form : kConvTransposeForms)
    for (bool bias : {false, true}) {
      SCOPED_TRACE(form.what);
      int64_t outputs = form.channels;
      Model m;
      m.random("x", shape(2, form.filters, form.axes, &Axis::out));
      m.random("w", shape(form.filters, outputs / form.groups, form.axes, &Axis::kernel));
      if (bias) m.random("b", {outputs});
      m.node("ConvTranspose", bias ? Strings{"x", "w", "b"} : Strings{"x", "w"}, {"y"}, form.attributes)
          .output("y");
      auto g = m.import();
      ASSERT_EQ(g->outputs()[0]->type.dims, shape(2, outputs, form.axes, &Axis::in));
      Numbers x = data_of(*g, "x"), w = data_of(*g, "w"), y(g->outputs()[0]->type.elements(), 0);
      each_product(form.axes, 2, outputs, form.filters, form.groups,
                   [&](int64_t i, int64_t k, int64_t o) { y[i] += x[o] * w[k]; });
      int64_t per_channel = std::ssize(y) / 2 / outputs;
      for (int64_t i = 0; bias && i < std::ssize(y); ++i) y[i] += data_of(*g, "b")[i / per_channel % outputs];
      expect_near(run(*g), y);
      expect_gradients(m, bias ? 3 : 2);
    }
}

TEST(ConvTranspose, Refusals) {
  auto problem = [](const Attributes& attributes, Dims w = {2, 1, 3, 3}) {
    Model m;
    m.input("x", {1, 2, 3, 3})
        .random("w", w)
        .node("ConvTranspose", {"x", "w"}, {"y"}, attributes)
        .output("y");
    return m.problem();
  };
  expect_has(problem({{"output_padding", Ints{0, 1}}}), "'output_padding' is [0,1]: each must be below");
  expect_has(problem({{"output_shape", Ints{5, 6}}}),
             "length 6 along spatial axis 1 lies beyond the windows");
  expect_has(problem({{"output_shape", Ints{5}}}), "'output_shape' is [5], but needs 2 numbers");
  expect_has(problem({{"pads", Ints{3, 0, 2, 0}}}), "would have length 0 along spatial axis 0");
  expect_has(problem({}, {4, 1, 3, 3}), "the weight is for 4 input channels, but there are 2");
  expect_has(problem({{"group", int64_t{4}}}), "do not divide into 4 groups");
  expect_has(problem({{"auto_pad", std::string("SAME")}}), "'auto_pad' is 'SAME'");
}

// Whatever is trained, its gradient has the same bits, and nothing is computed for what is not.
TEST(Conv, EverySubsetOfTrainedInputs) {
  for (bool bias : {false, true}) {
    Model m;
    m.random("x", {2, 4, 7, 10}).random("w", {6, 2, 3, 2});
    if (bias) m.random("b", {6});
    m.node("Conv", bias ? Strings{"x", "w", "b"} : Strings{"x", "w"}, {"y"},
           {{"group", int64_t{2}}, {"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2, 2}}});
    m.node("Mul", {"y", "y"}, {"z"}).ints("axes", {0, 1, 2, 3}).node("ReduceSum", {"z", "axes"}, {"l"});
    m.output("l");
    const Strings names = bias ? Strings{"x", "w", "b"} : Strings{"x", "w"};
    std::map<std::string, Numbers> full;
    for (size_t wanted = (size_t{1} << names.size()) - 1; wanted > 0; --wanted) {
      auto g = m.import();
      PassOptions options;
      for (size_t i = 0; i < names.size(); ++i)
        (wanted >> i & 1 ? options.train : options.freeze).push_back(names[i]);
      run_passes(*g, {get_pass("select"), get_pass("autodiff"), get_pass("dce")}, options);
      Memory memory = initial_memory(*g);
      evaluate(*g, memory);
      std::set<std::string> made;
      for (const Node* n : g->nodes()) made.insert(n->op->name.text);
      EXPECT_EQ(made.count("conv_input_grad"), wanted & 1);
      EXPECT_EQ(made.count("conv_weight_grad"), wanted >> 1 & 1);
      for (size_t i = 1; i < g->outputs().size(); ++i) {
        Numbers gradient = memory.read(g->outputs()[i]);
        auto [first, fresh] = full.emplace(g->output_name(i), gradient);
        EXPECT_EQ(gradient, first->second) << g->output_name(i) << " of subset " << wanted;
      }
      EXPECT_EQ(g->outputs().size(), static_cast<size_t>(1 + std::popcount(wanted)));
    }
    EXPECT_EQ(full.size(), names.size());
  }
}

// ---- Poolings

TEST(Pools, EnormousKernelsAreAnsweredAtOnce) {
  Model m(13);
  m.input("x", {1, 1, 5, 5});
  m.node("MaxPool", {"x"}, {"y"},
         {{"kernel_shape", Ints{(int64_t{1} << 31) - 1, 7}}, {"auto_pad", std::string("SAME_UPPER")}});
  m.output("y");
  EXPECT_EQ(m.import()->outputs()[0]->type.dims, (Dims{1, 1, 5, 5}));
}

struct PoolForm {
  const char* what;
  Attributes attributes;
  std::vector<Axis> axes;
};

const std::vector<PoolForm> kPoolForms = {
    {"plain", {{"kernel_shape", Ints{2, 3}}}, {{4, 2, 1, 1, 0, 0, 3}, {5, 3, 1, 1, 0, 0, 3}}},
    {"overlapping windows",
     {{"kernel_shape", Ints{3, 3}}, {"dilations", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}},
     {{6, 3, 1, 2, 2, 2, 6}, {5, 3, 1, 2, 2, 2, 5}}},
    {"uneven pads",
     {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{2, 0, 1, 1}}},
     {{7, 3, 2, 1, 2, 1, 4}, {6, 2, 2, 1, 0, 1, 3}}},
    {"ceil",
     {{"kernel_shape", Ints{2, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}},
     {{5, 2, 2, 1, 0, 0, 3}, {6, 3, 2, 1, 0, 0, 3}}},
    {"ceil where the last window would start in the padding",
     {{"kernel_shape", Ints{3, 2}},
      {"strides", Ints{3, 3}},
      {"pads", Ints{1, 0, 1, 1}},
      {"ceil_mode", int64_t{1}}},
     {{6, 3, 3, 1, 1, 1, 3}, {6, 2, 3, 1, 0, 1, 2}}},
    {"SAME_LOWER",
     {{"kernel_shape", Ints{4, 2}}, {"strides", Ints{3, 1}}, {"auto_pad", std::string("SAME_LOWER")}},
     {{7, 4, 3, 1, 2, 1, 3}, {4, 2, 1, 1, 1, 0, 4}}},
    {"VALID",
     {{"kernel_shape", Ints{2, 2}}, {"auto_pad", std::string("VALID")}, {"strides", Ints{2, 2}}},
     {{5, 2, 2, 1, 0, 0, 2}, {4, 2, 2, 1, 0, 0, 2}}},
    {"one axis",
     {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}},
     {{5, 2, 2, 1, 0, 0, 3}}},
    {"three axes",
     {{"kernel_shape", Ints{2, 2, 3}},
      {"strides", Ints{2, 1, 2}},
      {"ceil_mode", int64_t{1}},
      {"pads", Ints{1, 0, 0, 0, 1, 0}}},
     {{4, 2, 2, 1, 1, 0, 3}, {3, 2, 1, 1, 0, 1, 3}, {4, 3, 2, 1, 0, 0, 2}}},
};

// For every output of one plane: f(output, the elements of its window, how many elements and padding it covers).
void each_window(const std::vector<Axis>& axes,
                 const std::function<void(int64_t, const Ints&, int64_t covered)>& f) {
  Ints outputs, kernel;
  for (const Axis& a : axes) outputs.push_back(a.out), kernel.push_back(a.kernel);
  int64_t number = 0;
  each_index(outputs, [&](const Ints& out) {
    Ints elements;
    int64_t covered = 0;
    each_index(kernel, [&](const Ints& tap) {
      int64_t at = 0;
      bool inside = true, padded = true;
      for (size_t i = 0; i < axes.size(); ++i) {
        int64_t in = out[i] * axes[i].stride - axes[i].pad + tap[i] * axes[i].dilation;
        inside &= in >= 0 && in < axes[i].in;
        padded &= in < axes[i].in + axes[i].pad_end;
        at = at * axes[i].in + in;
      }
      covered += padded;
      if (inside) elements.push_back(at);
    });
    f(number++, elements, covered);
  });
}

TEST(Pool, Forms) {
  for (const PoolForm& form : kPoolForms)
    for (const char* op : {"MaxPool", "AveragePool", "AveragePool counting the padding"}) {
      SCOPED_TRACE(fmt::format("{}, {}", op, form.what));
      bool maximum = op == std::string("MaxPool"), counting = std::string(op).size() > 11;
      Attributes attributes = form.attributes;
      if (!maximum) attributes.emplace_back("count_include_pad", int64_t{counting});
      Model m(19);
      m.random("x", shape(2, 3, form.axes, &Axis::in));
      m.node(maximum ? "MaxPool" : "AveragePool", {"x"}, {"y"}, attributes).output("y");
      auto g = m.import();
      ASSERT_EQ(g->outputs()[0]->type.dims, shape(2, 3, form.axes, &Axis::out));
      Numbers x = data_of(*g, "x"), y(g->outputs()[0]->type.elements(), 0);
      int64_t in = std::ssize(x) / 6, out = std::ssize(y) / 6;
      for (int64_t plane = 0; plane < 6; ++plane)
        each_window(form.axes, [&](int64_t number, const Ints& elements, int64_t covered) {
          double sum = 0, best = -9;
          for (int64_t e : elements) {
            sum += x[plane * in + e];
            best = std::max(best, x[plane * in + e]);
          }
          double count = static_cast<double>(counting ? covered : std::ssize(elements));
          y[plane * out + number] = maximum ? best : sum / count;
        });
      expect_near(run(*g), y);
      expect_gradients(m, 1);
    }
}

// At ties the first maximum has the gradient, in as many windows as it is in.
TEST(Pool, TiesInOverlappingWindows) {
  Model m;
  m.floats("x", {1, 1, 3, 3}, std::vector<float>(9, 2));
  m.node("MaxPool", {"x"}, {"y"},
         {{"kernel_shape", Ints{3, 3}}, {"dilations", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}});
  m.ints("axes", {0, 1, 2, 3}).node("ReduceSum", {"y", "axes"}, {"l"}).output("l");
  auto g = m.import();
  PassOptions options;
  options.train = {"x"};
  run_passes(*g, {get_pass("select"), get_pass("autodiff")}, options);
  Memory memory = initial_memory(*g);
  evaluate(*g, memory);
  // Taps are two apart: every other row and column share windows.
  EXPECT_EQ(memory.read(g->outputs()[1]), (Numbers{4, 2, 0, 2, 1, 0, 0, 0, 0}));
}

TEST(Pool, Refusals) {
  auto problem = [](const char* op, const Attributes& attributes) {
    Model m;
    m.input("x", {1, 1, 4, 4}).node(op, {"x"}, {"y"}, attributes).output("y");
    return m.problem();
  };
  expect_has(problem("MaxPool", {}), "attribute 'kernel_shape' is missing");
  expect_has(problem("MaxPool", {{"kernel_shape", Ints{2}}}), "'kernel_shape' is [2], but needs 2 numbers");
  expect_has(problem("AveragePool", {{"kernel_shape", Ints{2, 2}}, {"pads", Ints{2, 0, 0, 0}}}),
             "holds whole windows");
  Model flat;
  flat.input("x", {2, 3}).node("MaxPool", {"x"}, {"y"}, {{"kernel_shape", Ints{2}}}).output("y");
  expect_has(flat.problem(), "over 0 spatial axes is not supported, only over 1 to 3");
}

}  // namespace
}  // namespace pock::test
