// The runtime's parsers, number formatting and shuffling, under the address and undefined behaviour
// sanitizers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "support/support.h"

#define restrict __restrict
extern "C" {
#include "runtime.h"
#include "weights_file.h"
}

namespace {

using namespace pock::test;

template <typename Put>
std::string put(Put&& function) {
  char buffer[256];
  pock_text text{buffer, 0, sizeof buffer};
  function(&text);
  return {buffer, pock_text_size(&text)};
}

TEST(Text, FloatsRoundTrip) {
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    uint32_t bits = random();
    if ((bits & 0x7F800000) == 0x7F800000 || !(bits & 0x7F800000)) continue;
    float value;
    std::memcpy(&value, &bits, 4);
    std::string text = put([&](pock_text* t) { pock_put_float(t, value); });
    ASSERT_EQ(std::strtof(text.c_str(), nullptr), value) << text;
    ASSERT_LE(text.size(), 17u);
  }
  EXPECT_EQ(put([](pock_text* t) { pock_put_float(t, 2.3f); }), "2.3");
  EXPECT_EQ(put([](pock_text* t) { pock_put_float(t, -0.0f); }), "-0");
}

TEST(Text, Doubles) {
  EXPECT_EQ(
      put([](pock_text* t) { pock_format(t, "%g|%g|%g|%.3g|%g", 0.01, 100.0, 1e-8, 1234.567, -1.5e30); }),
      "0.01|100|1e-8|1230|-1.5e30");
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, 8);
    if (!std::isnormal(value) || std::fabs(value) > 1e300 || std::fabs(value) < 1e-300) continue;
    char text[40];
    std::snprintf(text, sizeof text, "%.17g", value);
    double got;
    ASSERT_NE(pock_parse_number(text, &got), nullptr);
    ASSERT_TRUE(got == value || got == std::nextafter(value, got)) << text;
    std::snprintf(text, sizeof text, "%.*ge%d", int(random() % 15) + 1, double(random() % 1000000007) / 997,
                  int(random() % 17) - 8);
    ASSERT_NE(pock_parse_number(text, &got), nullptr);
    ASSERT_EQ(got, std::strtod(text, nullptr)) << text;
  }
  for (const char* bad : {"", "-", ".", "e5", "1e", "1e+", "x"}) {
    double ignored;
    EXPECT_EQ(pock_parse_number(bad, &ignored), nullptr) << bad;
  }
}

TEST(Text, JsonStrings) {
  EXPECT_EQ(put([](pock_text* t) { pock_put_json(t, "a\"b\\\n\xC3\xA4"); }), "\"a\\\"b\\\\\\u000a\xC3\xA4\"");
}

TEST(Shuffle, IsAPermutation) {
  for (uint64_t n : {1, 2, 3, 7, 8, 1000, 60000})
    for (uint64_t epoch : {0, 1}) {
      pock_shuffle shuffle = pock_shuffle_for(n, 42, epoch);
      std::vector<bool> seen(n);
      uint64_t in_place = 0;
      for (uint64_t i = 0; i < n; ++i) {
        uint64_t to = pock_shuffled(&shuffle, i);
        ASSERT_LT(to, n);
        ASSERT_FALSE(seen[to]);
        seen[to] = true;
        in_place += to == i;
      }
      EXPECT_LT(in_place, n > 100 ? 12u : 9u);
    }
  pock_shuffle a = pock_shuffle_for(60000, 42, 0), b = pock_shuffle_for(60000, 42, 1),
               c = pock_shuffle_for(60000, 43, 0);
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i)
    same += pock_shuffled(&a, i) == pock_shuffled(&b, i) || pock_shuffled(&a, i) == pock_shuffled(&c, i);
  EXPECT_LT(same, 5);
}

TEST(ThreadsNone, RunsTheLoopAtOnce) {
  EXPECT_EQ(pock_start_pool(2), nullptr);
  int64_t seen[2] = {-1, -1};
  void* args[] = {seen};
  auto note = [](void* const* a, int64_t begin, int64_t end) {
    static_cast<int64_t*>(a[0])[0] = begin;
    static_cast<int64_t*>(a[0])[1] = end;
  };
  pock_parallel_for(pock_start_pool(1), note, args, 0);
  EXPECT_EQ(seen[0], -1);
  pock_parallel_for(pock_start_pool(1), note, args, 5);
  EXPECT_EQ(seen[0], 0);
  EXPECT_EQ(seen[1], 5);
}

TEST(Crc, IsTheUsualOne) {
  EXPECT_EQ(pock_crc32(0, reinterpret_cast<const uint8_t*>("123456789"), 9), 0xCBF43926u);
}

// Three inputs in one program: token ids, floats with a denormal, and float labels read from doubles.
TEST(Dataset, SeveralInputs) {
  const int64_t ids_dims[] = {2, 3}, x_dims[] = {2, 2, 1}, y_dims[] = {2};
  const pock_input inputs[] = {
      {"ids", ids_dims, 0, 64, 24, 100, 0, INT64_MIN, 1, 0, 1, 0, POCK_I32, POCK_DATA, 2},
      {"x", x_dims, 24, 88, 16, 0, 0, INT64_MIN, 1, 0, 1, 0, POCK_F32, POCK_DATA, 3},
      {"out", y_dims, 40, 104, 8, 0, 0, INT64_MIN, 1, 0, 0, 0, POCK_F32, POCK_LABELS, 1}};
  struct pock_program program {};
  program.inputs = inputs;
  program.input_count = 3;
  program.batch = 2;
  TempDir dir;
  std::vector<int64_t> ids = {1, 2, 3, 4, 5, 99};
  std::vector<float> x = {1, 1e-40f, -1e-40f, 2};
  std::vector<double> y = {0.5, 0.1};
  std::string paths[] = {dir.write("ids", npy("<i8", "(2, 3)", bytes_of(ids))),
                         dir.write("x", npy("<f4", "(2, 1, 2)", bytes_of(x))),
                         dir.write("y", npy("<f8", "(2, 1)", bytes_of(y)))};
  const char* names[] = {paths[0].c_str(), paths[1].c_str(), paths[2].c_str()};
  pock_source sources[3];
  pock_dataset set{};
  set.sources = sources;
  std::string problems = put([&](pock_text* t) { pock_open_dataset(&program, names, "", &set, t); });
  ASSERT_EQ(problems, "");
  ASSERT_EQ(set.samples, 2u);
  alignas(8) char arena[112];
  for (bool infer : {false, true}) {
    pock_gather(&set, 1, 0, arena, infer);
    pock_gather(&set, 0, 1, arena, infer);
    const char* at = arena + (infer ? 64 : 0);
    const int32_t wanted_ids[] = {4, 5, 99, 1, 2, 3};
    const float wanted[] = {-0.0f, 2, 1, 0, 0.1f, 0.5f};
    EXPECT_EQ(0, std::memcmp(at, wanted_ids, sizeof wanted_ids));
    EXPECT_EQ(0, std::memcmp(at + 24, wanted, sizeof wanted));
  }
  // Without a file: zeros, whatever was there.
  const char* without[] = {nullptr, names[1], nullptr};
  problems = put([&](pock_text* t) { pock_open_dataset(&program, without, "", &set, t); });
  ASSERT_EQ(problems, "");
  for (bool infer : {false, true}) {
    std::memset(arena, 0xff, sizeof arena);
    for (uint32_t row : {0, 1}) pock_gather(&set, row, row, arena, infer);
    const char* at = arena + (infer ? 64 : 0);
    EXPECT_EQ(std::string(at, 24), std::string(24, 0));
    EXPECT_EQ(std::string(at + 40, 8), std::string(8, 0));
  }
  ids[4] = 100;
  dir.write("ids", npy("<i8", "(2, 3)", bytes_of(ids)));
  problems = put([&](pock_text* t) { pock_open_dataset(&program, names, "eval-", &set, t); });
  EXPECT_NE(problems.find("element 4 (sample 1) is 100, outside [0,99]"), std::string::npos) << problems;
  EXPECT_EQ(problems.find("  --eval-data '"), 0u) << problems;
}

// An image file with channels last has as many elements as one with channels first.
TEST(Dataset, ChannelsLastAreNotTakenForChannelsFirst) {
  const int64_t dims[] = {2, 3, 4, 5};
  const pock_input input{"x", dims, 0, 0, 2 * 60 * 4, 0, 0, INT64_MIN, 1, 0, 1, 0, POCK_F32, POCK_DATA, 4};
  struct pock_program program {};
  program.inputs = &input;
  program.input_count = 1;
  program.batch = 2;
  TempDir dir;
  std::string bytes = bytes_of(std::vector<float>(2 * 60));
  for (auto [shape, says] : {std::pair{"(2, 3, 4, 5)", ""},
                             {"(2, 4, 5, 3)", "needs [N,3,4,5]: are its channels last? Transpose it"},
                             {"(2, 5, 4, 3)", "has shape [2,5,4,3], 'x' needs [N,3,4,5]\n"},
                             {"(2, 60)", "has shape [2,60], 'x' needs [N,3,4,5]\n"},
                             {"(120,)", "has shape [120], 'x' needs [N,3,4,5]\n"},
                             {"(3, 4, 5, 2)", "has shape [3,4,5,2]"}}) {
    std::string path = dir.write("x", npy("<f4", shape, bytes));
    const char* paths[] = {path.c_str()};
    pock_source source{};
    pock_dataset set{};
    set.sources = &source;
    std::string problems = put([&](pock_text* t) { pock_open_dataset(&program, paths, "", &set, t); });
    EXPECT_NE(problems.find(says), std::string::npos) << problems;
    EXPECT_EQ(problems.empty(), !*says) << problems;
  }
}

// Cuts, flips and overwrites; the result lies in a block of exactly its size, so that any step outside is
// caught.
std::vector<uint8_t> damaged(const std::string& good, std::mt19937& random) {
  std::vector<uint8_t> bytes(good.begin(), good.end());
  int kind = random() % 4;
  if (kind == 0) bytes.resize(random() % good.size());
  for (int i = 0; kind > 0 && i < kind; ++i) bytes[random() % bytes.size()] ^= uint8_t(1 << random() % 8);
  if (kind == 3) bytes[random() % bytes.size()] = "\"\\{}[],:u0"[random() % 10];
  bytes.shrink_to_fit();
  return bytes;
}

TEST(Fuzz, Npy) {
  for (char version : {1, 2}) {
    std::string good = npy("<f4", "(3, 2)", std::string(24, 'x'), version);
    char reason[512];
    pock_text why{reason, 0, sizeof reason};
    pock_array array;
    ASSERT_TRUE(pock_parse_array(reinterpret_cast<const uint8_t*>(good.data()), good.size(), &array, &why));
    EXPECT_EQ(array.count, 6u);
    std::mt19937 random(3);
    for (int i = 0; i < 10000; ++i) {
      std::vector<uint8_t> bytes = damaged(good, random);
      why.length = 0;
      if (pock_parse_array(bytes.data(), bytes.size(), &array, &why))
        ASSERT_EQ(array.data + array.count * pock_dtype_bytes(array.dtype), bytes.data() + bytes.size());
      else
        ASSERT_GT(why.length, 0u);
    }
  }
  std::string good("\0\0\x08\x02\0\0\0\2\0\0\0\3abcdef", 18);
  std::mt19937 random(4);
  for (int i = 0; i < 10000; ++i) {
    std::vector<uint8_t> bytes = damaged(good, random);
    char reason[512];
    pock_text why{reason, 0, sizeof reason};
    pock_array array;
    pock_parse_array(bytes.data(), bytes.size(), &array, &why);
  }
}

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(pock_save_checkpoint(&pock_program, &memory_, &saved_, (dir_ / "c").c_str(), true));
    good_ = read_file(dir_ / "c");
    ASSERT_EQ(check({good_.begin(), good_.end()}), POCK_GOOD);
  }
  // The bytes lie in a block of exactly their size.
  pock_verdict check(std::vector<uint8_t> bytes) {
    bytes.shrink_to_fit();
    why_.length = 0;
    pock_verdict verdict = pock_check_checkpoint(&pock_program, bytes.data(), bytes.size(), &read_, &why_);
    EXPECT_EQ(verdict == POCK_GOOD, why_.length == 0);
    return verdict;
  }
  std::string reason() const { return {reason_, pock_text_size(&why_)}; }

  std::vector<char> params_ = std::vector<char>(pock_program.params_bytes, 1),
                    state_ = std::vector<char>(pock_program.state_bytes, 2);
  pock_buffers memory_{nullptr, params_.data(), state_.data(), pock_program.weights, nullptr};
  pock_progress saved_{12, 1, 24, 99, 83, 0.1f, 1, 10};
  char reason_[512];
  pock_text why_{reason_, 0, sizeof reason_};
  std::vector<uint64_t> offsets_ = std::vector<uint64_t>(pock_program.tensor_count);
  std::vector<char> scratch_ = std::vector<char>(pock_checkpoint_scratch(&pock_program));
  pock_checkpoint read_{false, nullptr, offsets_.data(), {scratch_.data(), 0, scratch_.size()}, {}};
  TempDir dir_;
  std::string good_;
};

TEST_F(Checkpoint, GivesBackWhatWasSaved) {
  const pock_progress& p = read_.progress;
  EXPECT_EQ(p.step, 12u);
  EXPECT_EQ(p.epoch, 1u);
  EXPECT_EQ(p.position, 24u);
  EXPECT_EQ(p.seed, 99u);
  EXPECT_EQ(p.samples, 83u);
  EXPECT_EQ(p.best_loss, 0.1f);
  EXPECT_EQ(p.best_epoch, 1u);
  EXPECT_EQ(p.best_step, 10u);
  saved_.best_loss = INFINITY;
  ASSERT_TRUE(pock_save_checkpoint(&pock_program, &memory_, &saved_, (dir_ / "c").c_str(), true));
  std::string file = read_file(dir_ / "c");
  EXPECT_EQ(file.find("best"), std::string::npos);
  ASSERT_EQ(check({file.begin(), file.end()}), POCK_GOOD);
  EXPECT_EQ(read_.progress.best_loss, INFINITY);
}

// A damaged file is never taken for a good one, nor for another model's: then FILE.prev would not be looked at.
TEST_F(Checkpoint, EveryFlippedBitIsFound) {
  for (bool weights_only : {false, true}) {
    read_.weights_only = weights_only;
    for (size_t bit = 0; bit < 8 * good_.size(); ++bit) {
      std::vector<uint8_t> bytes(good_.begin(), good_.end());
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
      ASSERT_EQ(check(bytes), POCK_DAMAGED)
          << "bit " << bit % 8 << " of byte " << bit / 8 << ": " << reason();
    }
  }
}

TEST_F(Checkpoint, EveryTruncationIsFound) {
  for (bool weights_only : {false, true}) {
    read_.weights_only = weights_only;
    for (size_t n = 0; n < good_.size(); ++n)
      ASSERT_EQ(check({good_.begin(), good_.begin() + static_cast<long>(n)}), POCK_DAMAGED) << n << reason();
    std::string longer = good_ + '\0';
    ASSERT_EQ(check({longer.begin(), longer.end()}), POCK_DAMAGED);
  }
}

TEST_F(Checkpoint, AnyDamageIsFound) {
  std::mt19937 random(6);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes = damaged(good_, random);
    if (check(bytes) == POCK_GOOD) {
      ASSERT_EQ(std::string(bytes.begin(), bytes.end()), good_);
    }
  }
}

// Makes the header's checksum right, where there is one.
void sign(std::vector<uint8_t>* file) {
  uint64_t size = 0;
  if (file->size() >= 8) std::memcpy(&size, file->data(), 8);
  if (file->size() < 8 || size > file->size() - 8 || !pock_starts_checkpoint(file->data(), size + 8)) return;
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", pock_header_crc(file->data(), size + 8));
  std::memcpy(file->data() + POCK_CRC_AT, digits, 8);
}

// Anybody can make a checksum.
TEST_F(Checkpoint, SignedDamageIsReadWithinItsBounds) {
  std::mt19937 random(7);
  int good = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes = damaged(good_, random);
    sign(&bytes);
    read_.weights_only = i % 2;
    if (check(bytes) == POCK_GOOD) ++good;
  }
  EXPECT_GT(good, 20);  // other numbers of steps, say
}

// What no trainer of this format writes, in place of what it does.
TEST_F(Checkpoint, SignedLiesAreAnswered) {
  struct Lie {
    std::string truth, lie;
    pock_verdict verdict;
    std::string says;
  };
  const Lie lies[] = {
      {"pock-checkpoint-3", "pock-checkpoint-9", POCK_FOREIGN, "an unknown format"},
      {"\"position\":\"24\"", "\"position\":\"84\"", POCK_DAMAGED, "more samples used than there were"},
      {"\"position\":\"24\"", "\"position\":\"2x\"", POCK_FOREIGN, "an unknown format"},
      {"\"best_loss\":\"0.1\"", "\"best_loss\":\"0.x\"", POCK_FOREIGN, "an unknown format"},
      {"\"fc.b\":", "\"fc.c\":", POCK_FOREIGN, "tensor 'fc.b' is missing"},
      {"optimizer/momentum/fc.b", "optimizer/momentum/fc.c", POCK_FOREIGN,
       "tensor 'momentum of fc.b' is missing"},
      {"[3]", "[4]", POCK_FOREIGN, "is missing"},
      {"\"F32\"", "\"F64\"", POCK_FOREIGN, "is missing"},
      {"]}} ", "]}, ", POCK_FOREIGN, "tensor '' is frozen here"}};
  for (const Lie& l : lies) {
    SCOPED_TRACE(l.lie);
    std::string file = good_;
    const size_t at = file.find(l.truth);
    ASSERT_NE(at, std::string::npos);
    file.replace(at, l.truth.size(), l.lie);
    std::vector<uint8_t> bytes(file.begin(), file.end());
    sign(&bytes);
    EXPECT_EQ(check(bytes), l.verdict);
    EXPECT_NE(reason().find(l.says), std::string::npos) << reason();
  }
}

// A weights file in a block of exactly its size: nothing but its own bytes is read, and every changed bit is found.
TEST(Weights, AnyDamageIsFound) {
  const std::string data = "the data of some weights";
  std::string header = std::string(POCK_WEIGHTS_START) + "00000000\",\"" POCK_WEIGHTS_HASH "\":\"" +
                       pock_program.model_hash +
                       "\"},\"w\":{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24]}}";
  header.resize((header.size() + 63) / 64 * 64 - 8, ' ');
  const uint64_t length = header.size();
  std::string good = std::string(reinterpret_cast<const char*>(&length), 8) + header;
  struct pock_program program = ::pock_program;
  program.weights_header_crc = pock_header_crc(reinterpret_cast<const uint8_t*>(good.data()), good.size());
  program.weights_crc = pock_crc32(0, reinterpret_cast<const uint8_t*>(data.data()), data.size());
  program.weights_bytes = data.size();
  good.replace(POCK_CRC_AT, 8,
               put([&](pock_text* t) { pock_format(t, "%08x", program.weights_header_crc); }));
  good += data;

  auto accepts = [&](std::vector<uint8_t> bytes) {
    bytes.shrink_to_fit();
    const pock_file file{bytes.data(), bytes.size()};
    const char* found = nullptr;
    if (pock_check_weights(&program, &file, &found)) return false;
    EXPECT_EQ(std::string(found, data.size()), data);
    return true;
  };
  ASSERT_TRUE(accepts({good.begin(), good.end()}));
  for (size_t n = 0; n < good.size(); ++n)
    ASSERT_FALSE(accepts({good.begin(), good.begin() + static_cast<long>(n)})) << n << " bytes";
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::vector<uint8_t> bytes(good.begin(), good.end());
    bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    ASSERT_FALSE(accepts(bytes)) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
  std::mt19937 random(8);
  for (int i = 0; i < 10000; ++i) {
    const std::vector<uint8_t> bytes = damaged(good, random);
    ASSERT_EQ(accepts(bytes), std::string(bytes.begin(), bytes.end()) == good);
  }
  // Of another model, and of another program of this one.
  program.model_hash = "fedcba9876543210";
  ASSERT_FALSE(accepts({good.begin(), good.end()}));
  program = ::pock_program;
  program.weights_bytes = data.size();
  ASSERT_FALSE(accepts({good.begin(), good.end()}));
}

}  // namespace
