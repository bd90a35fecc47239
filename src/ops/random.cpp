// Randomness in a model. Whatever is random is a function of the trainer's seed, the number of the micro-batch, the
// node and the element (docs/arithmetic.md), so it can be computed again.
#include "random.h"

#include <cmath>

#include "pock/support/philox.h"
#include "rules.h"

namespace pock {

using loop::Expr;
using loop::int_lit;
using loop::lit;
using loop::ScalarOp;

Expr low_word(const Expr& e) { return make(ScalarOp::bit_and, {e, int_lit(0xffffffff)}, DType::i64); }
Expr high_word(const Expr& e) { return low_word(make(ScalarOp::shr, {e, int_lit(32)}, DType::i64)); }

namespace {

struct Exprs64 {
  loop::KernelBuilder& k;
  Expr low(const Expr& product) const { return low_word(product); }
  Expr high(const Expr& product) const { return high_word(product); }
  Expr different(const Expr& a, const Expr& b) const { return make(ScalarOp::bit_xor, {a, b}, DType::i64); }
  Expr keep(int i, const Expr& word) { return load(k.reg(fmt::format("c{}", i), word)); }
};

}  // namespace

Words philox(loop::KernelBuilder& k, const Words& counter, const std::array<Expr, 2>& key) {
  Exprs64 words{k};
  return philox(words, counter, key);
}

namespace {

void need_ratio(const InferArgs& a) {
  double ratio = a.number("ratio");
  if (!(ratio >= 0 && ratio <= 1)) throw a.fail("the ratio is {}, want 0 to 1", ratio);
  int64_t id = a.integer("id");
  if (id < 0 || id > 0xffffffff) throw a.fail("the id is {}", id);
}

const OpDef kDropout{
    .name = "dropout",
    .doc =
        "x, as in inference: a model's dropout of which the pass `dropout` decides whether it drops in "
        "training; "
        "`active` is what the file says",
    .inputs = 1,
    .attrs = {number_attr("ratio"), int_attr("id"), int_attr("active")},
    .infer =
        [](const InferArgs& a) {
          need_floats(a);
          need_ratio(a);
          return same_as(a.in(0));
        },
    .gradient = Gradient([](GradArgs& g) { g.add(0, g.dout()); }),
    .lower = View(),
};

// Blocks of four words are made many at once, as lanes of vectors.
constexpr int64_t kBlocks = 8;

const OpDef kDropoutTrain{
    .name = "dropout_train",
    .doc =
        "of x [n] and the i32 words seed_low, seed_high, micro_step: element i is x / (1 - ratio) where word "
        "i mod "
        "4 of Philox4x32-10 with key (seed_low, seed_high) and counter (micro_step, id, i div 4, its high "
        "word) is "
        "at least ratio * 2^32, rounded; else 0",
    .inputs = 4,
    .attrs = {number_attr("ratio"), int_attr("id")},
    .infer = [](const InferArgs& a) -> Types {
      need_dtype(a, 0, DType::f32);
      need_rank(a, 0, 1);
      for (int i = 1; i < 4; ++i) need_type(a, i, {DType::i32, {}}, "a word of randomness");
      need_ratio(a);
      return same_as(a.in(0));
    },
    .gradient = Gradient([](GradArgs& g) {
      g.add(0, g.b.value("dropout_train", {g.dout(), g.in(1), g.in(2), g.in(3)}, g.node.attrs));
    }),
    .lower = Nest([](NestArgs& n) {
      const double ratio = n.node.number("ratio");
      const Expr least = int_lit(static_cast<int64_t>(std::round(ratio * 0x1p32)));
      const Expr scale = lit(ratio < 1 ? 1 / (1 - ratio) : 0), id = n.node.integer("id");
      const int64_t count = n.out_type().dim(0), chunk = 4 * kBlocks, whole = count / chunk;
      auto word = [&](int i) { return low_word(cast(n.in(i, {}), DType::i64)); };
      auto elements_from = [&](const Expr& first, int64_t elements) {
        const int64_t blocks = (elements + 3) / 4;
        auto kept = n.reg("kept", DType::i32, {4 * blocks});
        n.each("block", blocks, [&](Expr block) {
          Expr at = floordiv(first, 4) + block;
          Words words = philox(n, {word(3), id, low_word(at), high_word(at)}, {word(1), word(2)});
          for (int i = 0; i < 4; ++i)
            n.store(kept, {block * 4 + i},
                    select(least <= words[i], int_lit(1, DType::i32), int_lit(0, DType::i32)));
        });
        n.each("e", elements, [&](Expr e) {
          Expr x = n.in(0, {first + e});
          n.out(0, {first + e}, select(load(kept, {e}) != int_lit(0, DType::i32), x * scale, lit(0)));
        });
      };
      if (whole > 0) n.each("chunk", whole, [&](Expr c) { elements_from(c * chunk, chunk); });
      if (count % chunk) elements_from(whole * chunk, count % chunk);
    }),
    .in_place = 1,
};

}  // namespace

OpList random_ops() { return {&kDropout, &kDropoutTrain}; }

}  // namespace pock
