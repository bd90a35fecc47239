// Resize and Upsample in every spelling: values against ONNX's formulas in plain C++, gradients against
// differences.
#include <algorithm>
#include <cmath>

#include "forms.h"

namespace pock::test {
namespace {

struct Form {
  const char* what;
  Dims x;
  std::vector<float> scales;  // or
  Ints sizes;
  Attributes attributes;
  Dims y;
  std::vector<double> scale;  // of each axis, as the coordinates use it
  std::vector<float> region = {};
};

std::string text(const Attributes& attributes, const std::string& name, const char* standard) {
  for (const auto& [key, value] : attributes)
    if (key == name) return std::get<std::string>(value);
  return standard;
}

// The elements of the input along one axis that make up element i of the output, with their weights: none outside
// of a cropped input.
std::vector<std::pair<int64_t, double>> parts(const Form& f, size_t axis, int64_t i) {
  std::string how = text(f.attributes, "coordinate_transformation_mode", "half_pixel");
  double in = static_cast<double>(f.x[axis]), out = static_cast<double>(f.y[axis]), s = f.scale[axis],
         x = static_cast<double>(i), at = (x + 0.5) / s - 0.5;
  if (how == "asymmetric") at = x / s;
  if (how == "align_corners") at = out > 1 ? x * (in - 1) / (out - 1) : 0;
  if (how == "pytorch_half_pixel" && out == 1) at = 0;
  if (how == "tf_half_pixel_for_nn") at = (x + 0.5) / s;
  if (how == "half_pixel_symmetric") at = in / 2 * (1 - out / (in * s)) + (x + 0.5) / s - 0.5;
  if (how == "tf_crop_and_resize") {
    double start = f.region[axis], end = f.region[f.x.size() + axis];
    at = out > 1 ? start * (in - 1) + x * (end - start) * (in - 1) / (out - 1) : (start + end) / 2 * (in - 1);
    if (at < 0 || at > in - 1) return {};
  }
  auto element = [&](double e) { return static_cast<int64_t>(std::clamp(e, 0.0, in - 1)); };
  std::string mode = text(f.attributes, "mode", "nearest");
  if (mode == "cubic") {
    double a = -0.75, below = std::floor(at);
    std::vector<std::pair<int64_t, double>> four;
    for (int k = -1; k <= 2; ++k) {
      double d = std::abs(at - below - k);
      four.emplace_back(element(below + k), d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                                                   : a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a);
    }
    return four;
  }
  if (mode == "linear")
    return {{element(std::floor(at)), 1 - (at - std::floor(at))},
            {element(std::floor(at) + 1), at - std::floor(at)}};
  std::string round = text(f.attributes, "nearest_mode", "round_prefer_floor");
  double nearest = round == "floor"               ? std::floor(at)
                   : round == "ceil"              ? std::ceil(at)
                   : round == "round_prefer_ceil" ? std::floor(at + 0.5)
                                                  : std::ceil(at - 0.5);
  return {{element(nearest), 1}};
}

Numbers reference(const Form& f, const Numbers& x) {
  Numbers y;
  each_index(f.y, [&](const Dims& index) {
    std::vector<std::pair<int64_t, double>> all = {{0, 1}};
    for (size_t axis = 0; axis < index.size(); ++axis) {
      std::vector<std::pair<int64_t, double>> next;
      for (auto [at, weight] : all)
        for (auto [element, part] : parts(f, axis, index[axis]))
          next.emplace_back(at * f.x[axis] + element, weight * part);
      all = next;
    }
    y.push_back(0);
    for (auto [at, weight] : all) y.back() += weight * x[at];
    if (all.empty())
      for (const auto& [key, value] : f.attributes)
        if (key == "extrapolation_value") y.back() = std::get<float>(value);
  });
  return y;
}

std::string how(const char* s) { return s; }

std::vector<Form> forms() {
  std::vector<Form> all;
  auto mode = [](const char* mode, const char* coordinates) {
    return Attributes{{"mode", how(mode)}, {"coordinate_transformation_mode", how(coordinates)}};
  };
  const char* kCoordinates[] = {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                "half_pixel_symmetric"};
  for (const char* m : {"nearest", "linear", "cubic"})
    for (const char* c : kCoordinates) {
      all.push_back({"up by 2", {2, 3, 4, 5}, {1, 1, 2, 2}, {}, mode(m, c), {2, 3, 8, 10}, {1, 1, 2, 2}});
      all.push_back(
          {"to sizes", {1, 2, 4, 5}, {}, {1, 2, 7, 3}, mode(m, c), {1, 2, 7, 3}, {1, 1, 7 / 4.0, 3 / 5.0}});
      all.push_back({"to one", {1, 2, 4, 5}, {}, {1, 2, 1, 5}, mode(m, c), {1, 2, 1, 5}, {1, 1, 1 / 4.0, 1}});
      if (how(c) == "align_corners") continue;  // what ONNX and PyTorch make of these differs: see below
      all.push_back({"up by 1.5", {1, 3, 3}, {1, 1, 1.5}, {}, mode(m, c), {1, 3, 4}, {1, 1, 1.5}});
      all.push_back({"down by 0.6",
                     {1, 2, 7, 4},
                     {1, 1, 0.6f, 0.6f},
                     {},
                     mode(m, c),
                     {1, 2, 4, 2},
                     {1, 1, 0.6f, 0.6f}});
    }
  for (const char* r : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
    for (const char* c : {"half_pixel", "asymmetric", "align_corners"}) {
      Attributes a = mode("nearest", c);
      a.emplace_back("nearest_mode", how(r));
      all.push_back({r, {1, 1, 5, 6}, {}, {1, 1, 10, 4}, a, {1, 1, 10, 4}, {1, 1, 2, 4 / 6.0}});
      all.push_back({r, {1, 4, 5}, {}, {1, 4, 13}, a, {1, 4, 13}, {1, 1, 13 / 5.0}});
    }
  all.push_back(
      {"all axes", {2, 3, 4}, {2, 1, 0.5}, {}, mode("linear", "half_pixel"), {4, 3, 2}, {2, 1, 0.5}});
  all.push_back({"five axes",
                 {1, 2, 3, 2, 4},
                 {1, 1, 2, 3, 0.5},
                 {},
                 mode("linear", "align_corners"),
                 {1, 2, 6, 6, 2},
                 {1, 1, 2, 3, 0.5}});
  all.push_back({"nothing to do", {2, 3}, {1, 1}, {}, {}, {2, 3}, {1, 1}});
  // 5/3 in float is below it: it is meant all the same.
  all.push_back({"up by 5/3",
                 {1, 3, 6},
                 {1, 1, 1.66666666f},
                 {},
                 mode("nearest", "asymmetric"),
                 {1, 3, 10},
                 {1, 1, 5 / 3.0}});
  Attributes crop = mode("linear", "tf_crop_and_resize");
  crop.emplace_back("extrapolation_value", 10.0f);
  all.push_back({"cropped",
                 {1, 1, 4, 4},
                 {},
                 {1, 1, 3, 3},
                 crop,
                 {1, 1, 3, 3},
                 {1, 1, 1, 1},
                 {0, 0, 0.25f, 0.5f, 1, 1, 0.75f, 1.75f}});
  all.push_back({"cropped by scales",
                 {1, 8, 4},
                 {1, 1.5, 2},
                 {},
                 crop,
                 {1, 6, 4},
                 {1, 1, 1},
                 {0, 0.25f, 0.25f, 1, 0.75f, 0.75f}});
  return all;
}

Model model(const Form& f, int64_t opset) {
  Model m(opset);
  m.random("x", f.x);
  if (!f.region.empty()) m.floats("region", {std::ssize(f.region)}, f.region);
  if (!f.scales.empty()) m.floats("scales", {std::ssize(f.scales)}, f.scales);
  if (!f.sizes.empty()) m.ints("sizes", f.sizes);
  m.node("Resize",
         {"x", f.region.empty() ? "" : "region", f.scales.empty() ? "" : "scales",
          f.sizes.empty() ? "" : "sizes"},
         {"y"}, f.attributes);
  return m.output("y");
}

TEST(Resize, Forms) {
  for (const Form& form : forms()) {
    SCOPED_TRACE(fmt::format("{}, {} {} {}", form.what, text(form.attributes, "mode", ""),
                             text(form.attributes, "coordinate_transformation_mode", ""), to_string(form.y)));
    Model m = model(form, 19);
    auto g = m.import();
    ASSERT_EQ(g->outputs()[0]->type.dims, form.y);
    expect_near(run(*g), reference(form, data_of(*g, "x")));
    expect_gradients(m, 1);
  }
}

TEST(Resize, TfHalfPixelForNearest) {
  Form form{"",
            {1, 1, 3, 4},
            {},
            {1, 1, 6, 3},
            {{"coordinate_transformation_mode", how("tf_half_pixel_for_nn")}},
            {1, 1, 6, 3},
            {1, 1, 2, 0.75}};
  for (const char* r : {"floor", "round_prefer_floor"}) {
    form.attributes.resize(1);
    form.attributes.emplace_back("nearest_mode", how(r));
    auto g = model(form, 11).import();
    expect_near(run(*g), reference(form, data_of(*g, "x")));
  }
}

// ONNX takes the length of the result for what the scale makes of it, whole or not; PyTorch for what it is.
TEST(Resize, AlignedCornersOfAResultThatIsCut) {
  Model m(13);
  m.input("x", {4}).floats("scales", {1}, {0.6f});
  m.node("Resize", {"x", "", "scales"}, {"y"},
         {{"mode", how("linear")}, {"coordinate_transformation_mode", how("align_corners")}});
  m.output("y");
  expect_near(run(*m.import(), {1, 2, 3, 4}), {1, 1 + 3 / 1.4});
  m.proto.set_producer_name("pytorch");
  expect_near(run(*m.import(), {1, 2, 3, 4}), {1, 4});
}

TEST(Resize, OnlyTheAxesNamed) {
  Model m(18);
  m.input("x", {1, 4, 2}).ints("sizes", {4, 2});
  m.node("Resize", {"x", "", "", "sizes"}, {"y"}, {{"axes", Ints{-1, 1}}, {"mode", how("linear")}})
      .output("y");
  EXPECT_EQ(run(*m.import(), {0, 4, 2, 6, 4, 8, 6, 10}), (Numbers{1, 2, 4, 5, 5, 6, 8, 9}));
}

TEST(Resize, AspectRatios) {
  auto dims = [](const char* policy, const Dims& x, const Ints& sizes) {
    Model m(18);
    m.input("x", x).ints("sizes", sizes);
    m.node("Resize", {"x", "", "", "sizes"}, {"y"},
           {{"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", how(policy)}});
    return m.output("y").import()->outputs()[0]->type.dims;
  };
  EXPECT_EQ(dims("stretch", {1, 1, 4, 6}, {8, 9}), (Dims{1, 1, 8, 9}));
  EXPECT_EQ(dims("not_larger", {1, 1, 4, 6}, {8, 9}), (Dims{1, 1, 6, 9}));
  EXPECT_EQ(dims("not_smaller", {1, 1, 4, 6}, {8, 9}), (Dims{1, 1, 8, 12}));
  EXPECT_EQ(dims("not_larger", {1, 1, 3, 5}, {5, 7}), (Dims{1, 1, 4, 7}));  // 4.2
}

TEST(Resize, OldVersions) {
  auto resized = [](int64_t opset, const char* op, const char* mode, std::vector<float> scales) {
    Model m(opset);
    m.input("x", {1, 3});
    if (opset < 9) {
      m.node(op, {"x"}, {"y"}, {{"mode", how(mode)}});
      onnx::AttributeProto& a = *m.proto.mutable_graph()->mutable_node(0)->add_attribute();
      a.set_name("scales");
      a.set_type(onnx::AttributeProto::FLOATS);
      for (float s : scales) a.add_floats(s);
    } else {
      m.floats("scales", {std::ssize(scales)}, scales)
          .node(op, {"x", "scales"}, {"y"}, {{"mode", how(mode)}});
    }
    return run(*m.output("y").import(), {2, 4, 8});
  };
  for (auto [opset, op] : {std::pair(7, "Upsample"), {9, "Upsample"}, {10, "Resize"}}) {
    EXPECT_EQ(resized(opset, op, "nearest", {1, 2}), (Numbers{2, 2, 4, 4, 8, 8}));
    EXPECT_EQ(resized(opset, op, "linear", {1, 2}), (Numbers{2, 3, 4, 6, 8, 8}));
    EXPECT_EQ(resized(opset, op, "nearest", {2, 1}), (Numbers{2, 4, 8, 2, 4, 8}));
  }
}

TEST(Resize, Refusals) {
  auto problem = [](const Attributes& attributes, std::vector<float> scales, Ints sizes, int64_t opset = 19) {
    return model({"", {1, 1, 4, 4}, scales, sizes, attributes, {}, {}}, opset).problem();
  };
  expect_has(problem({{"mode", how("bilinear")}}, {1, 1, 2, 2}, {}),
             "attribute 'mode' is 'bilinear'; pock knows nearest, linear, cubic");
  expect_has(problem({{"antialias", int64_t{1}}, {"mode", how("linear")}}, {1, 1, 2, 2}, {}), "'antialias'");
  expect_has(problem({{"coordinate_transformation_mode", how("half")}}, {1, 1, 2, 2}, {}), "is 'half'");
  expect_has(problem({{"nearest_mode", how("up")}}, {1, 1, 2, 2}, {}), "'nearest_mode' is 'up'");
  expect_has(problem({}, {1, 1, 2, 2}, {1, 1, 8, 8}), "needs either scales or sizes");
  expect_has(problem({}, {}, {}), "needs either scales or sizes");
  expect_has(problem({}, {1, 2, 2}, {}), "there are 3 scales for 4 axes");
  expect_has(problem({}, {}, {8, 8}), "there are 2 sizes for 4 axes");
  expect_has(problem({}, {1, 1, 0.2f, 1}, {}),
             "a scale of 0.2 leaves axis 2 of length 4 with a length of 0.8");
  expect_has(problem({}, {1, 1, -1, 1}, {}), "the scale of axis 2 is -1");
  expect_has(problem({}, {1, 1, INFINITY, 1}, {}), "the scale of axis 2 is inf");
  expect_has(problem({}, {}, {1, 1, 0, 3}), "the sizes are [1,1,0,3]");
  expect_has(problem({{"axes", Ints{2, -2}}}, {}, {8, 8}), "name an axis twice");
  expect_has(problem({{"axes", Ints{4}}}, {}, {8}), "axis 4 is outside");
  expect_has(problem({{"coordinate_transformation_mode", how("tf_crop_and_resize")}}, {}, {1, 1, 2, 2}),
             "input 1 is missing");
  Model computed(13);
  computed.input("x", {2}).input("s", {1}).node("Resize", {"x", "", "s"}, {"y"}).output("y");
  expect_has(computed.problem(), "input 's' must be a constant");
  Model late(13);
  late.input("x", {2}).floats("s", {1}, {2}).node("Upsample", {"x", "s"}, {"y"}).output("y");
  expect_has(late.problem(), "ends with opset 9, the file has opset 13: it is Resize now");
}

}  // namespace
}  // namespace pock::test
