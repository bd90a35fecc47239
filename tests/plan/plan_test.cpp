#include "pock/plan/plan.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "pock/ir/builder.h"
#include "pock/ir/storage.h"
#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {
namespace {

// A random step over tensors of one size (so that results can take over memory) or two, with views, optimizer
// steps and updates.
class RandomGraph {
 public:
  // `fused`: nodes share kernels, without those that nobody reads, as in the pipeline.
  explicit RandomGraph(unsigned seed, bool fused = false) : random_(seed), b_(*g_) {
    for (int i = 0; i < 2; ++i) pool_.push_back(g_->add_input(fmt::format("x{}", i), type()));
    for (int i = 0; i < 4; ++i) params_.push_back(g_->add_param(fmt::format("w{}", i), type(), nullptr));
    for (Value* p : params_) pool_.push_back(p);
    scalar_ = g_->add_scalar("lr");
    for (int i = 0, n = 5 + below(40); i < n; ++i) node();
    for (int i = 0; i < 1 + below(3); ++i) g_->add_output(pool_[below(pool_.size())]);
    for (Value* p : params_) update(p);
    place_updates();
    if (fused) dce(*g_, {}), fuse(*g_, {});
    if (below(4)) inplace(*g_, {});
    verify(*g_, "making it");
  }
  std::unique_ptr<Graph> take() { return std::move(g_); }

 private:
  int below(size_t n) { return static_cast<int>(random_() % n); }
  Type type() { return {DType::f32, below(3) ? Dims{8, 4} : Dims{16, 16}}; }
  Value* any() { return pool_[below(pool_.size())]; }
  Value* recent() { return pool_[pool_.size() - 1 - below(std::min<size_t>(pool_.size(), 5))]; }
  Value* like(const Value* v) {
    for (int i = 0; i < 20; ++i)
      if (Value* w = any(); w->type == v->type) return w;
    return nullptr;
  }

  void node() {
    Value* a = below(3) ? recent() : any();
    Value* other = like(a);
    switch (below(6)) {
      case 0:
        pool_.push_back(b_.neg(a));
        break;
      case 1:
        pool_.push_back(b_.value("exp", {a}));
        break;
      case 2: {
        int64_t n = a->type.elements();
        pool_.push_back(b_.reshape(a, below(2) ? Dims{n} : n == 32 ? Dims{8, 4} : Dims{16, 16}));
        break;
      }
      case 3:
        pool_.push_back(b_.mul(a, scalar_));
        break;
      default:
        pool_.push_back(other ? b_.add(a, other) : b_.value("relu", {a}));
    }
  }

  void update(Value* p) {
    Value* gradient = like(p);
    if (!gradient || below(5) == 0) return;
    p->trained = true;
    if (below(2)) {
      Value* m = g_->add_optimizer_state(p, "momentum", p->type);
      Node* step = b_.make("momentum_step", {p, m, gradient, scalar_, scalar_, scalar_, scalar_});
      if (below(3) == 0) g_->add_output(b_.neg(step->out(below(2))));
      b_.update(p, step->out(0));
      b_.update(m, step->out(1));
    } else {
      Value* next = b_.value("sgd_step", {p, gradient, scalar_, scalar_});
      b_.update(p, next);
      if (below(3) == 0) g_->add_output(b_.neg(next));
    }
  }

  // The graph was made without a thought for readers after updates: an update goes behind all of them.
  void place_updates() {
    for (Node* n : g_->nodes())
      if (n->op->has_effect()) g_->move_before(n, nullptr);
    for (size_t i = 0; i < g_->outputs().size(); ++i)
      if (storage_owner(g_->outputs()[i])->kind != ValueKind::result)
        g_->set_output(i, b_.neg(g_->outputs()[i]));
    for (Node* n : g_->nodes())
      if (n->op->has_effect()) g_->move_before(n, nullptr);
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> g_ = std::make_unique<Graph>("random");
  Builder b_;
  std::vector<Value*> pool_, params_;
  Value* scalar_ = nullptr;
};

PlanOptions with_workspace() {
  PlanOptions options;
  options.workspace = [](const Node& n) { return n.op->cheap ? int64_t{0} : int64_t{100}; };
  return options;
}

void expect_refused(const Graph& g, const Plan& plan, const PlanOptions& options, const std::string& why) {
  try {
    check_plan(g, plan, options);
    ADD_FAILURE() << "accepted: " << why << "\n" << print(g) << table(g, plan);
  } catch (const std::logic_error&) {
  }
}

TEST(Plan, RandomGraphsHoldTheProof) {
  int in_place = 0, in_params = 0, views = 0, at_bound = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    auto g = RandomGraph(seed).take();
    PlanOptions options = with_workspace();
    options.updates_in_place = seed % 4 != 0;
    Plan plan = plan_memory(*g, options);
    ASSERT_NO_THROW(check_plan(*g, plan, options)) << seed << "\n" << print(*g) << table(*g, plan);
    EXPECT_GE(plan.arena_bytes, plan.lower_bound);
    at_bound += plan.arena_bytes == plan.lower_bound;
    for (const Node* n : g->nodes()) {
      in_place += n->in_place >= 0;
      views += n->op->is_view();
      for (const Value* v : n->results())
        in_params += options.updates_in_place && update_target(*g, v) != nullptr;
    }
  }
  EXPECT_GT(in_place, 500);
  EXPECT_GT(in_params, 200);
  EXPECT_GT(views, 300);
  EXPECT_GT(at_bound, 190);
}

// What the table shows: for each block of memory the bytes that it takes and the nodes from which to which it is alive.
// Read back from the text, no two blocks share a byte at one moment, and as much is alive at once as it says.
TEST(Plan, TheTableShowsThatNothingOverlaps) {
  struct Row {
    int64_t offset, bytes, first, last;
  };
  int together = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const auto g = RandomGraph(seed, seed % 2 != 0).take();
    const Plan plan = plan_memory(*g, with_workspace());
    std::istringstream text(table(*g, plan));
    std::vector<Row> rows;
    std::string line;
    std::getline(text, line);
    Row row{};
    while (std::getline(text, line) &&
           std::istringstream(line) >> row.offset >> row.bytes >> row.first >> row.last)
      rows.push_back(row);
    EXPECT_EQ(rows.size(), plan.blocks.size());
    int64_t end = 0, most = 0;
    for (const Row& a : rows) {
      end = std::max(end, a.offset + a.bytes);
      int64_t alive = 0;
      for (const Row& b : rows) {
        if (b.first <= a.first && a.first <= b.last) alive += b.bytes;
        if (&a == &b || a.first > b.last || b.first > a.last) continue;
        ++together;
        ASSERT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << table(*g, plan);
      }
      most = std::max(most, alive);
    }
    EXPECT_EQ(line.rfind(fmt::format("arena {} bytes, at least {} needed", end, most), 0), 0u)
        << table(*g, plan);
  }
  EXPECT_GT(together, 5000);
}

// Nodes of one kernel run at once, and some of them still go over what others of it read or make.
TEST(Plan, RandomKernelsHoldTheProof) {
  int in_kernels = 0, over_memory = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    auto g = RandomGraph(seed, true).take();
    PlanOptions options;
    options.updates_in_place = seed % 4 != 0;
    const Plan plan = plan_memory(*g, options);
    ASSERT_NO_THROW(check_plan(*g, plan, options)) << seed << "\n" << print(*g) << table(*g, plan);
    for (const Node* n : g->nodes()) {
      in_kernels += n->kernel != 0;
      over_memory += n->kernel && n->in_place >= 0;
    }
  }
  EXPECT_GT(in_kernels, 1000);
  EXPECT_GT(over_memory, 100);
}

// An input that nobody reads is written before the step and then done with.
bool is_idle(const Graph& g, const Block& b) {
  if (!b.value || b.value->kind != ValueKind::input) return false;
  for (const Value* v : aliases(b.value)) {
    if (g.is_output(v)) return false;
    for (const Node* user : v->users)
      if (!user->op->is_view()) return false;
  }
  return true;
}

TEST(Plan, WrongPlansAreRefused) {
  int overlaps = 0, moved_views = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    auto g = RandomGraph(seed).take();
    PlanOptions options = with_workspace();
    const Plan plan = plan_memory(*g, options);
    std::mt19937 random(seed);
    auto& blocks = plan.blocks;
    auto move = [&](Plan& p, const Block& b, int64_t to) {
      if (b.node) p.workspace_offset[b.node] = to;
      if (b.value)
        for (const Value* v : aliases(b.value)) p.offset[v] = to;
    };
    const Block& b = blocks[random() % blocks.size()];

    for (const Block& other : blocks) {
      if (&other == &b || other.first > b.last || other.last < b.first) continue;
      Plan p = plan;
      p.arena_bytes += b.bytes;
      // The same place, or the last line of the other one.
      move(p, b, random() % 2 ? other.offset : other.offset + other.bytes - options.alignment);
      if (is_idle(*g, b) || is_idle(*g, other)) continue;
      expect_refused(*g, p, options, fmt::format("overlap at seed {}", seed));
      ++overlaps;
    }
    Plan p = plan;
    move(p, b, b.offset + 4);
    p.arena_bytes += 64;
    expect_refused(*g, p, options, "misaligned");

    p = plan;
    move(p, b, plan.arena_bytes);
    expect_refused(*g, p, options, "beyond the end");
    move(p, b, -64);
    expect_refused(*g, p, options, "before the start");

    p = plan;
    if (b.node)
      p.workspace_offset.erase(b.node);
    else
      p.offset.erase(b.value);
    bool goes_into_param = false;
    if (b.value)
      for (const Node* user : b.value->users) goes_into_param |= user->op->has_effect();
    if (!goes_into_param) expect_refused(*g, p, options, "missing offset");

    for (const Node* n : g->nodes()) {
      if (n->results().empty() || !storage_source(n->out()) || !plan.offset.count(n->out())) continue;
      p = plan;
      p.arena_bytes += 4096;
      p.offset[n->out()] = plan.arena_bytes;
      p.arena_bytes = (p.arena_bytes + 63) / 64 * 64;
      expect_refused(*g, p, options, "view or in-place result elsewhere");
      ++moved_views;
    }
  }
  EXPECT_GT(overlaps, 1000);
  EXPECT_GT(moved_views, 500);
}

const char kUpdates[] = R"(pock 1 graph @g {
  input %x : f32[4]
  param %a : f32[4] trained
  param %b : f32[4] trained
  param %c : f32[4] trained
  param %d : f32[4] trained
  param %e : f32[4] trained
  param %f : f32[4] trained
  %0 = sub(%a, %x) : f32[4]
  %1 = sub(%b, %x) : f32[4]
  %2 = neg(%b) : f32[4]
  %3 = exp(%x) : f32[4]
  %4 = add(%3, %2) : f32[4]
  %5 = reshape(%d) {shape = [2,2]} : f32[2,2]
  %6 = neg(%d) : f32[4]
  %7 = exp(%5) : f32[2,2]
  %8 = neg(%e) : f32[4]
  %9 = neg(%0) : f32[4]
  %10 = matmul(%5, %5) : f32[2,2]
  output %4
  output %7
  output %9
  output %10
  update %a = %0
  update %b = %1
  update %c = %3
  update %d = %6
  update %f = %e
  update %e = %8
})";

TEST(Plan, UpdateTargets) {
  auto g = parse_graph(kUpdates);
  auto nodes = g->nodes();
  auto target = [&](int i) {
    const Value* p = update_target(*g, nodes[i]->out());
    return p ? p->name : "";
  };
  EXPECT_EQ(target(0), "a");  // its own reader, and a later reader of the result
  EXPECT_EQ(target(1), "");   // b is read after it
  EXPECT_EQ(target(2), "");   // goes nowhere
  EXPECT_EQ(target(3), "c");  // c is not read at all
  EXPECT_EQ(target(6), "");   // d is read after it by way of a view
  EXPECT_EQ(target(8), "");   // e is copied into f afterwards
}

TEST(Plan, UpdateTargetNeedsElementForElement) {
  auto g = parse_graph(R"(pock 1 graph @g {
    param %w : f32[4,4] trained
    param %v : f32[4,4] trained
    input %x : f32[4,4]
    %0 = matmul(%w, %x) : f32[4,4]
    %1 = matmul(%x, %x) : f32[4,4]
    update %w = %0
    update %v = %1
  })");
  EXPECT_EQ(update_target(*g, g->nodes()[0]->out()), nullptr);
  EXPECT_EQ(update_target(*g, g->nodes()[1]->out()), g->find("v"));
  Plan plan = plan_memory(*g);
  check_plan(*g, plan);
  EXPECT_FALSE(plan.offset.count(g->nodes()[1]->out()));
  plan.offset.erase(g->nodes()[0]->out());
  expect_refused(*g, plan, {}, "matmul written over its own input");
}

TEST(Plan, UpdateTargetReadLaterIsRefused) {
  auto g = parse_graph(kUpdates);
  Plan plan = plan_memory(*g);
  check_plan(*g, plan);
  for (int i : {1, 6, 8}) {
    Plan p = plan;
    p.offset.erase(g->nodes()[i]->out());
    expect_refused(*g, p, {}, fmt::format("result {} written into its parameter", i));
  }
}

TEST(Plan, LifetimesAndTable) {
  auto g = parse_graph(R"(pock 1 graph @g {
    input %x : f32[64]
    input %y : f32[16]
    %0 = exp(%x) : f32[64]
    %1 = reshape(%0) {shape = [8,8]} : f32[8,8]
    %2 = neg(%y) : f32[16]
    %3 = exp(%1) : f32[8,8] in_place @ "fc"
    %4 = exp(%3) : f32[8,8]
    output %2
    output %4
  })");
  PlanOptions options;
  options.workspace = [&](const Node& n) { return &n == g->nodes()[3] ? 1000 : 0; };
  Plan plan = plan_memory(*g, options);
  check_plan(*g, plan, options);
  std::string lives;
  Names names(*g);
  for (const Block& b : plan.blocks)
    lives += fmt::format("{} {} {}-{}\n", b.value ? names(b.value) : "workspace", b.bytes, b.first, b.last);
  EXPECT_EQ(lives, "%x 256 0-0\n%y 64 0-2\n%0 256 0-4\n%2 64 2-4\nworkspace 1024 3-3\n%4 256 4-4\n");
  EXPECT_EQ(plan.lower_bound, 256 + 64 + 1024);
  EXPECT_EQ(plan.arena_bytes, plan.lower_bound);
  EXPECT_EQ(plan.peak_node, g->nodes()[3]);
  std::string text = table(*g, plan);
  EXPECT_NE(text.find("workspace of %3 = exp 'fc'"), std::string::npos) << text;
  EXPECT_NE(text.find("arena 1344 bytes, at least 1344 needed at %3 = exp 'fc' (+0.00 %)"), std::string::npos)
      << text;
}

TEST(Plan, EmptyGraphs) {
  Graph g("g");
  check_plan(g, plan_memory(g));
  EXPECT_EQ(plan_memory(g).arena_bytes, 0);
  g.add_output(g.add_input("x", {DType::f32, {3}}));
  Plan plan = plan_memory(g);
  check_plan(g, plan);
  EXPECT_EQ(plan.arena_bytes, 64);
}

// The shape of a CNN's training step: `layers` blocks of three saved activations of falling resolution, then
// gradients that read them backwards, with parameter gradients that live till an update at the end.
std::unique_ptr<Graph> training_shape(int layers, unsigned seed) {
  std::mt19937 random(seed);
  auto g = std::make_unique<Graph>("cnn");
  Builder b(*g);
  auto sized = [&](int64_t n) {
    Value* v = g->add_constant({DType::f32, {1}}, make_data(std::vector<float>{1}));
    return b.broadcast_to(v, {n});
  };
  // One node that reads all of `inputs` and makes a tensor of n elements.
  auto node = [&](std::vector<Value*> inputs, int64_t n) {
    Value* sum = nullptr;
    for (Value* v : inputs) {
      Value* s = b.reduce_sum(v, {0}, true);
      sum = sum ? b.add(sum, s) : s;
    }
    return b.broadcast_to(sum, {n});
  };
  struct Layer {
    Value* in;
    Value* wide;
    Value* out;
  };
  std::vector<Layer> saved;
  Value* x = sized(3 * 224 * 224);
  for (int i = 0; i < layers; ++i) {
    int64_t pixels = int64_t{112} * 112 >> (2 * (i * 5 / layers)),
            channels = 16 + i * 160 / layers + random() % 8;
    Value* wide = node({x}, pixels * channels * 3);
    Value* out = node({wide}, pixels * channels);
    if (i && x->type == out->type) out = b.add(out, x);
    saved.push_back({x, wide, out});
    x = out;
  }
  Value* d = node({x}, x->type.elements());
  for (int i = layers; i-- > 0;) {
    Layer& l = saved[i];
    Value* dwide = node({d, l.wide}, l.wide->type.elements());
    Value* dw = node({d, l.wide}, 500 + i * 3000);
    Value* dx = node({dwide, l.in}, l.in->type.elements());
    Value* p = g->add_param(fmt::format("w{}", i), dw->type, nullptr);
    p->trained = true;
    b.update(p, b.sub(p, dw));
    d = dx;
  }
  g->add_output(d);
  return g;
}

TEST(Plan, TrainingGraphsComeCloseToTheBound) {
  for (unsigned seed = 0; seed < 3; ++seed)
    for (int layers : {18, 52}) {
      auto g = training_shape(layers, seed);
      Plan plan = plan_memory(*g);
      check_plan(*g, plan);
      double over = static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.lower_bound) - 1;
      EXPECT_LE(over, 0.02);
    }
}

}  // namespace
}  // namespace pock
