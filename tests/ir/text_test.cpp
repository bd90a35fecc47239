#include "pock/ir/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "pock/ir/builder.h"
#include "pock/ir/verify.h"
#include "support/support.h"

namespace pock {
namespace {

const char kWhole[] = R"(pock 1
graph @fit-2.b {
  model "net.onnx" "0123456789abcdef" "pytorch"
  input %x : f32[2,4]
  input %"0" : f32[2,4]
  param %layer/w.1 : f32[4] trained
  param %"my \"odd\"\n\x01 weight" : f32[4]
  statistic %m : f32[4]
  optimizer %layer/w.1.momentum : f32[4] of %layer/w.1
  optimizer %layer/w.1.momentum_ : f32[4] of %layer/w.1 slot "momentum" from 0.1
  optimizer %layer/w.1.sum : f32[4] of %layer/w.1 from 1e-10
  accumulator %layer/w.1.accumulator : f32[4] of %layer/w.1
  const %const.0 : f32[] = -0
  const %named : f32[2,2] = [0.1, inf, -inf, nan]
  const %const.1 : i64[2] = [-9223372036854775808, 9223372036854775807]
  const %const.2 : mask[2,3] = [1, 0, 1, 0, 1, 1]
  const %const.3 : f64[1] = [1e-310]
  const %const.4 : u8[0] = []
  const %const.5 : f32[4,5]
  scalar %lr : f32[]
  %0 = add(%x, %"0") : f32[2,4] @ "conv \"1\"" "Conv"
  %1 = relu(%0) : f32[2,4] in_place
  %2 = mul(%1, %layer/w.1) : f32[2,4] recomputed
  %3 = add(%x, %2) : f32[2,4] in_place 1 recomputed @ "res"
  %4 = mul(%lr, %layer/w.1) : f32[4]
  %5 = exp(%3) : f32[2,4]
  update %layer/w.1 = %4
  %6 = exp(%5) : f32[2,4]
  output %6 "logits"
  output %5
  output %6 "sum" whole
  output %5 whole
  update %m = %4 @ "bn"
}
)";

TEST(Text, PrintingWhatWasParsedGivesTheSameText) {
  auto g = parse_graph(kWhole, "whole.pock");
  EXPECT_EQ(print(*g), kWhole);
  EXPECT_EQ(print(*g->clone()), kWhole);
  EXPECT_EQ(g->find("0")->kind, ValueKind::input);
  EXPECT_EQ(g->find("my \"odd\"\n\x01 weight")->kind, ValueKind::param);
  EXPECT_EQ(g->find("layer/w.1.momentum_")->slot, "momentum");
  EXPECT_EQ(g->nodes()[0]->loc.name, "conv \"1\"");
  EXPECT_EQ(g->nodes()[0]->loc.op, "Conv");
  EXPECT_EQ(to_string(g->nodes()[0]->loc), "whole.pock:21:3: node 'conv \"1\"' (Conv)");
  EXPECT_EQ(to_string(g->find("m")->loc()), "whole.pock:8:13: statistic 'm'");
}

TEST(Text, ElementsKeepTheirBits) {
  auto g = parse_graph(kWhole);
  auto constants = g->constants();
  float number;
  std::memcpy(&number, constants[0]->data->data(), 4);
  EXPECT_TRUE(number == 0 && std::signbit(number));
  std::memcpy(&number, constants[1]->data->data(), 4);
  EXPECT_EQ(number, 0.1f);
  EXPECT_EQ(*constants[3]->data, (std::vector<std::byte>{std::byte{0b101}, std::byte{0b110}}));
  EXPECT_EQ(constants[6]->data, nullptr);
}

TEST(Text, NumbersResultsByAppearance) {
  Graph g("g");
  Value* x = g.add_input("x", {DType::f32, {4}});
  Builder b(g);
  Value* dead = b.relu(x);
  Value* y = b.neg(b.relu(x));
  g.erase(dead->node);
  g.add_output(y);
  EXPECT_EQ(print(g),
            "pock 1\ngraph @g {\n  input %x : f32[4]\n  %0 = relu(%x) : f32[4]\n  %1 = neg(%0) : f32[4]\n"
            "  output %1\n}\n");
  EXPECT_EQ(Names(g)(y), "%1");
}

// The text stands in a graph over %x : f32[2,3]; the message must hold what is expected, after "t.pock:".
void expect_error(const std::string& body, const std::string& expected) {
  std::string text =
      "pock 1\ngraph @g {\n  input %x : f32[2,3]\n  param %w : f32[3] trained\n" + body + "\n}\n";
  try {
    parse_graph(text, "t.pock");
    ADD_FAILURE() << "accepted: " << body;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("t.pock:" + expected), std::string::npos) << e.what();
  }
}

TEST(Text, ErrorsNameTheirPlace) {
  expect_error("  %0 = relux(%x) : f32[2,3]", "5:8: there is no operator 'relux'");
  expect_error("  %0 = relu(%y) : f32[2,3]", "5:13: %y is not defined above");
  expect_error("  %0 = relu(%x) : f32[3,2]", "5:3: %0 is declared f32[3,2], but relu gives f32[2,3]");
  expect_error("  %0 = relu(%x) : f31[2,3]", "5:19: there is no element type 'f31'");
  expect_error("  %0 = relu(%x) : f32[2,3]{0,0}", "5:19: {0,0} is no layout of f32[2,3]");
  expect_error("  %0 = relu(%x) : f32[2,3]{1/2,0,1%2}", "5:19: {1/2,0,1%2} is no layout of f32[2,3]");
  expect_error("  %0 = relu(%x) : f32[2,3]{0,1/}", "5:30: '1/' is no axis of a layout: 1, 1/16 or 1%16");
  expect_error("  %0 = relu(%x) : f32[2,3]{0,%1}", "5:30: expected an axis");
  expect_error(
      "  %0 = reshape(%x) {shape = [6]} : f32[6]\n  %1 = relu(%x) : f32[2,3]{1,0}\n"
      "  %2 = reshape(%1) {shape = [6]} : f32[6]",
      " %2 = reshape is a view and wants row-major order");
  expect_error(
      "  %0 = relu(%w) : f32[3]\n  optimizer %s : f32[2,3] of %w slot \"s\"\n"
      "  %1 = relu(%x) : f32[2,3]{1,0}\n  update %s = %1",
      " update stores f32[2,3]{1,0} into f32[2,3]");
  expect_error("  %0 = relu(%x) {a = 1} : f32[2,3]", "5:3: relu has no attribute 'a'");
  expect_error("  %0 = relu(%x, %x) : f32[2,3]", "5:3: relu takes 1 input, given 2");
  expect_error("  %0, %1 = relu(%x) : f32[2,3]", "5:3: relu has 1 results, named are 2");
  expect_error("  input %x : f32[2,3]", "5:9: %x is defined twice");
  expect_error("  input %y : f32[2,-3]", "5:14: an axis has the negative length -3");
  expect_error("  input %y : f32[3037000500,3037000500]", "5:14: a tensor of more than 2^40 elements");
  expect_error("  input %y : f32[99999999999999999999]", "5:18: '99999999999999999999' is no 64-bit integer");
  expect_error("  const %c : f32[3] = [1, 2]", "5:23: f32[3] has 3 elements, given are 2");
  expect_error("  const %c : i8[] = 128", "5:21: these are no elements of i8[]");
  expect_error("  const %c : f32[] = 1e99", "5:22: these are no elements of f32[]");
  expect_error("  scalar %s : f32[2]", "5:10: a scalar is f32[] or i32[], not f32[2]");
  expect_error("  optimizer %s : f32[3] of %x", "5:28: %x is no parameter");
  expect_error("  optimizer %s : f32[3] of %w", "5:13: the name does not start with \"w.\"");
  expect_error("  optimizer %w.s : f32[3] of %w from 1e99", "5:38: '1e99' is no f32");
  expect_error("  accumulator %a : f32[4] of %w", "5:15: the parameter is f32[3]");
  expect_error("  output \"x\"", "5:10: expected the name of a value, found \"x\"");
  expect_error("  %0 = relu(%x) : f32[2,3] in_place 1", "5:28: in_place names no input of relu");
  expect_error("  %0 = relu(%x) : f32[2,3] in_place", " %0 = relu may not take over the memory of input 0");
  expect_error("  update %w = %w\n  update %w = %w", " %w is updated twice");
  expect_error("  update %w = %w\n  %0 = relu(%w) : f32[3]", " %0 = relu reads %w after its update");
  expect_error("  update %x = %x", " update stores into %x, which is input");
  expect_error("  %0 = relu(%x) : f32[2,3] @ \"un", "5:30: no \" ends this string");
  expect_error("  %0 = relu(%w, %w) : f32[2,3] @ \"a\\x1b[31mb\"", "5:3: node 'a\\x1b[31mb': relu takes 1");
  expect_error("  ?", "5:3: '?' has no meaning here");
  expect_error("} %", "5:3: '%' has no meaning here");
}

TEST(Text, RefusesOtherVersions) {
  EXPECT_THROW(parse_graph("pock 2\ngraph @g {}"), Error);
  EXPECT_THROW(parse_graph("graph @g {}"), Error);
  EXPECT_THROW(parse_graph(""), Error);
  EXPECT_NO_THROW(parse_graph("pock 1 graph @g {} # nothing"));
}

// Operators with shape rules that calculate, which must bear any attribute and any shape.
const char kOperators[] = R"(pock 1
graph @g {
  input %x : f32[2,4,9,8]
  input %labels : i32[2]
  param %w : f32[6,4,3,3] trained
  param %fc : f32[6,10] trained
  %0 = conv(%x, %w) {dilation = [1,1], pad = [1,1,1,1], stride = [2,2]} : f32[2,6,5,4]
  %1, %taps = max_pool(%0) {kernel = [2,2], stride = [2,2]} : f32[2,6,2,2], u8[2,6,2,2]
  %2 = slice(%1) {axis = 2, end = 2, start = 1} : f32[2,6,1,2]
  %3 = pad(%2) {after = 2, axis = -1, before = 1} : f32[2,6,1,5]
  %4 = transpose(%3) {permutation = [0,2,3,1]} : f32[2,1,5,6]
  %5 = reshape(%4) {shape = [10,6]} : f32[10,6]
  %6 = matmul(%5, %fc) : f32[10,10]
  %7 = concat(%6, %6) {axis = 1} : f32[10,20]
  %8 = reduce_mean(%7) {axes = [0], keep = 1} : f32[1,20]
  %9 = broadcast_to(%8) {shape = [3,2,20]} : f32[3,2,20]
  %10 = avg_pool(%0) {kernel = [3,2], pad = [1,1,1,1]} : f32[2,6,5,5]
  output %9
  output %10
}
)";

// Cuts a text short or changes some of its characters.
std::string damaged(const std::string& whole, int way, std::mt19937& random) {
  auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  std::string text = whole;
  if (way == 0) text.resize(pick(text.size()));
  for (size_t changes = way == 0 ? 0 : 1 + pick(4); changes > 0; --changes) {
    size_t at = pick(text.size());
    if (way == 1)
      text[at] = static_cast<char>(pick(256));
    else if (way == 2)
      text[at] = whole[pick(whole.size())];  // characters that mean something
    else if (at = text.find_first_of("0123456789", at); at != std::string::npos)
      text.replace(at, 1,
                   std::vector<std::string>{"-1", "0", "3", "77777777777", "9223372036854775807"}[pick(5)]);
  }
  return text;
}

TEST(Text, NoInputCrashesTheParser) {
  std::mt19937 random(1);
  int refused = 0, read = 0;
  for (const char* whole : {kWhole, kOperators}) {
    EXPECT_EQ(print(*parse_graph(whole)), print(*parse_graph(print(*parse_graph(whole)))));
    for (int i = 0; i < 4000; ++i) {
      std::string text = damaged(whole, i % 4, random);
      try {
        std::string printed = print(*parse_graph(text));
        EXPECT_EQ(print(*parse_graph(printed)), printed) << text;
        ++read;
      } catch (const Error&) {
        ++refused;
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what() << "\n" << text;
      }
    }
  }
  EXPECT_GT(refused, 4000);
  EXPECT_GT(read, 100);
}

class Files : public testing::Test {
 protected:
  test::TempDir folder_;
  std::string path_ = folder_ / "g.pock";
  std::string side_ = path_ + ".safetensors";
};

TEST_F(Files, DataComesBack) {
  Graph g("g");
  std::vector<float> numbers(20);
  for (int i = 0; i < 20; ++i) numbers[i] = 1.0f / static_cast<float>(i);
  Value* w = g.add_param("w", {DType::f32, {4, 5}}, make_data(numbers));
  Value* frozen = g.add_param("const.0", {DType::f32, {5}}, nullptr);
  Value* c = g.add_constant({DType::mask, {2, 17}}, make_data("abcdef", 6));
  Builder b(g);
  g.add_output(b.add(w, frozen));
  save_graph(g, path_);
  auto loaded = load_graph(path_);
  EXPECT_EQ(print(*loaded), print(g));
  EXPECT_EQ(*loaded->find("w")->data, *w->data);
  EXPECT_EQ(*loaded->find("const.0")->data, std::vector<std::byte>(20));
  EXPECT_EQ(*loaded->constants()[0]->data, *c->data);
}

TEST_F(Files, DamageIsRefused) {
  Graph g("g");
  g.add_output(g.add_param("w", {DType::f32, {2}}, make_data(std::vector<float>{1, 2})));
  save_graph(g, path_);
  std::string whole = test::read_file(side_);
  for (size_t size = 0; size < whole.size(); ++size) {
    test::write_file(side_, whole.substr(0, size));
    EXPECT_THROW(load_graph(path_), Error) << size;
  }
  std::mt19937 random(2);
  for (int i = 0; i < 300; ++i) {
    std::string text = whole;
    text[random() % text.size()] = static_cast<char>(random());
    test::write_file(side_, text);
    try {
      load_graph(path_);
    } catch (const Error&) {
    }
  }
}

TEST_F(Files, NoDataNoFile) {
  auto g = parse_graph(kWhole);
  save_graph(*g, path_);
  EXPECT_FALSE(std::filesystem::exists(side_));
  EXPECT_EQ(print(*load_graph(path_)), kWhole);
}

}  // namespace
}  // namespace pock
