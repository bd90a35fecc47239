#include "compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace pock {

Guarded::Guarded(const loop::Buffer& b) : bytes(b.type.bytes() + 2 * kGuard, std::byte{0xFF}), buffer(b) {
  std::fill_n(bytes.begin(), kGuard, std::byte{0xA5});
  std::fill_n(bytes.end() - kGuard, kGuard, std::byte{0xA5});
}

bool Guarded::guards_intact() const {
  for (size_t i = 0; i < kGuard; ++i)
    if (bytes[i] != std::byte{0xA5} || bytes[bytes.size() - 1 - i] != std::byte{0xA5}) return false;
  return true;
}

std::vector<void*> pointers(std::vector<Guarded>& args) {
  std::vector<void*> result;
  for (Guarded& g : args) result.push_back(g.data());
  return result;
}

static double number(std::mt19937& random, Fill fill) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  static const double special[] = {0.0,   -0.0,    kInf,     -kInf, NAN,    3e38,
                                   -3e38, 1.2e-38, -1.2e-38, 88.0,  -104.0, 0.5};
  if (fill == Fill::special && random() % 2) return special[random() % std::size(special)];
  return std::uniform_real_distribution<double>(-3, 3)(random);
}

std::vector<Guarded> make_arguments(const loop::Kernel& k, std::mt19937& random, Fill fill, int integers) {
  std::vector<Guarded> args;
  for (const loop::BufferRef& b : k.args) {
    Guarded& g = args.emplace_back(*b);
    if (b->space != loop::Space::in && b->space != loop::Space::inout) continue;
    auto put = [&](auto sample) {
      for (int64_t i = 0; i < b->type.elements(); ++i) {
        auto v = sample();
        std::memcpy(static_cast<char*>(g.data()) + i * sizeof v, &v, sizeof v);
      }
    };
    switch (b->type.dtype) {
      case DType::f32:
        put([&] { return static_cast<float>(number(random, fill)); });
        break;
      case DType::f64:
        put([&] { return number(random, fill); });
        break;
      case DType::i8:
        put([&] { return static_cast<int8_t>(random() % integers); });
        break;
      case DType::u8:
        put([&] { return static_cast<uint8_t>(random() % integers); });
        break;
      case DType::i32:
        put([&] { return static_cast<int32_t>(random() % integers); });
        break;
      case DType::i64:
        put([&] { return static_cast<int64_t>(random() % integers); });
        break;
      case DType::mask:
        for (int64_t i = 0; i < b->type.bytes(); ++i) static_cast<uint8_t*>(g.data())[i] = random();
    }
  }
  return args;
}

template <class T>
static std::string first_difference(Guarded& expected, Guarded& got) {
  const T *a = static_cast<const T*>(expected.data()), *b = static_cast<const T*>(got.data());
  for (int64_t i = 0; i < expected.buffer.type.bytes() / static_cast<int64_t>(sizeof(T)); ++i) {
    bool both_nan = false;
    if constexpr (std::is_floating_point_v<T>) both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (!both_nan && std::memcmp(a + i, b + i, sizeof(T)) != 0)
      return fmt::format("{}: element {} is {}, expected {}", expected.buffer.name, i, b[i], a[i]);
  }
  return "";
}

std::string difference(Guarded& expected, Guarded& got) {
  if (!got.guards_intact()) return fmt::format("{}: written outside its memory", got.buffer.name);
  switch (expected.buffer.type.dtype) {
    case DType::f32:
      return first_difference<float>(expected, got);
    case DType::f64:
      return first_difference<double>(expected, got);
    case DType::i32:
      return first_difference<int32_t>(expected, got);
    case DType::i64:
      return first_difference<int64_t>(expected, got);
    default:
      return first_difference<uint8_t>(expected, got);
  }
}

void expect_same(const loop::Kernel& plain, const loop::Kernel& scheduled, const Target& target, Fill fill,
                 int integers) {
  std::mt19937 random(7);
  std::vector<Guarded> start = make_arguments(plain, random, fill, integers);
  std::vector<Guarded> expected = start;
  loop::interpret(plain, pointers(expected));
  std::unique_ptr<HostKernels> compiled = load_kernels({scheduled}, target);
  for (int pieces : {1, 2, 3}) {
    std::vector<Guarded> got = start;
    for (size_t i = start.size(); i < scheduled.args.size(); ++i) got.emplace_back(*scheduled.args[i]);
    compiled->run(0, pointers(got), pieces);
    for (size_t i = 0; i < start.size(); ++i)
      if (start[i].buffer.space == loop::Space::workspace)
        EXPECT_TRUE(got[i].guards_intact()) << start[i].buffer.name;
      else
        EXPECT_EQ(difference(expected[i], got[i]), "")
            << "in " << pieces << " pieces for " << target.cpu << "\n"
            << loop::print(scheduled);
  }
}

const std::vector<Target>& test_targets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> t{find_target("host")};
    if (t[0].vector_bits > 256) t.push_back(find_target("x86-64", "x86-64-v3"));
    return t;
  }();
  return targets;
}

}  // namespace pock
