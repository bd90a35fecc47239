#include "pock/support/safetensors.h"

#include <gtest/gtest.h>

#include <random>

#include "pock/support/diag.h"

namespace pock {
namespace {

std::string file(const std::string& header, const std::string& data) {
  std::string head(8, '\0');
  for (int i = 0; i < 8; ++i) head[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return head + header + data;
}

TEST(Safetensors, Reads) {
  const std::string bytes =
      file(R"({"b":{"dtype":"I64","shape":[],"data_offsets":[12,20]},"__metadata__":{"k\u00e9":"v"},)"
           R"("a\"":{"dtype":"F16","shape":[3,2],"data_offsets":[0,12]},)"
           R"("none":{"dtype":"U8","shape":[0,5],"data_offsets":[20,20]}}   )",
           std::string("0123456789abcdefghij"));
  Safetensors f = parse_safetensors(bytes, "f");
  ASSERT_EQ(f.tensors.size(), 3u);
  EXPECT_EQ(f.tensors.at("a\"").dtype, "F16");
  EXPECT_EQ(f.tensors.at("a\"").dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(f.tensors.at("a\"").bytes, "0123456789ab");
  EXPECT_EQ(f.tensors.at("b").bytes, "cdefghij");
  EXPECT_EQ(f.tensors.at("none").bytes, "");
  EXPECT_EQ(f.metadata.at("ké"), "v");
  EXPECT_EQ(f.data.size(), 20u);
}

TEST(Safetensors, ReadsWhatItWrites) {
  const std::vector<std::pair<std::string, StoredTensor>> tensors = {{"z", {"F32", {2}, "01234567"}},
                                                                     {"a b", {"U8", {}, "x"}}};
  const std::string head = safetensors_head(tensors), bytes = head + "01234567x";
  EXPECT_EQ(head.size() % 8, 0u);
  Safetensors f = parse_safetensors(bytes, "f");
  EXPECT_EQ(f.tensors.at("z").bytes, "01234567");
  EXPECT_EQ(f.tensors.at("a b").bytes, "x");
}

TEST(Safetensors, SaysWhatIsWrong) {
  const auto tensor = [](const std::string& fields) { return R"({"t":{)" + fields + "}}"; };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  struct Case {
    std::string bytes, says;
  };
  const Case cases[] = {
      {"", "f: the file is empty"},
      {"1234567", "f: is cut short inside its header"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "f: is cut short inside its header"},
      {file("", ""), "it is no JSON object"},
      {file("[]", ""), "it is no JSON object"},
      {file("{\"a\":", ""), "it is no JSON object"},
      {file(std::string(100000, '['), ""), "it is no JSON object"},
      {file(R"({"__metadata__":[]})", ""), "its metadata is damaged"},
      {file(R"({"__metadata__":{"step":3}})", ""), "its metadata is damaged: 'step' is no text"},
      {file(R"({"t":{)" + good + R"(},"t":{)" + good + "}}", "01234567"), "there are two entries 't'"},
      {file(R"({"t":3})", ""), "tensor 't' is damaged: it has no shape"},
      {file(tensor(R"("dtype":"F32","shape":[2])"), ""), "it has no data_offsets"},
      {file(tensor(R"("shape":[2],"data_offsets":[0,8])"), "01234567"), "it has no dtype"},
      {file(tensor(R"("dtype":"F8","shape":[2],"data_offsets":[0,8])"), "01234567"), "unknown type 'F8'"},
      {file(tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "01234567"), "shape are not whole"},
      {file(tensor(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "01234567"),
       "shape are not whole"},
      {file(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615])"), ""),
       "data_offsets are not whole"},
      {file(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "01234567"),
       "does not take the bytes"},
      {file(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])"), "01234567"),
       "does not take the bytes"},
      {file(tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "01234567"),
       "does not take the bytes"},
      {file(tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), ""),
       "does not take the bytes"},
      {file(tensor(good), "0123456"),
       "is cut short: tensor 't' ends at byte 8 of the data, of which there are 7"},
      {file(tensor(good), "012345678"), "bytes that belong to no tensor"},
      {file(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "01234567"), "belong to no tensor"},
      {file(R"({"s":{"dtype":"U8","shape":[5],"data_offsets":[3,8]},"t":{)" + good + "}}", "01234567"),
       "two tensors share bytes"},
  };
  for (const Case& c : cases) {
    try {
      parse_safetensors(c.bytes, "f");
      ADD_FAILURE() << "was read: " << c.bytes;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(c.says), std::string::npos) << e.what() << "\nwants: " << c.says;
    }
  }
}

TEST(Safetensors, NoBytesCrashTheReader) {
  const std::string good =
      file(R"({"__metadata__":{"a":"b"},"s":{"dtype":"U8","shape":[5],"data_offsets":[8,13]},)"
           R"("t":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}})",
           "0123456789abc");
  std::mt19937 random(1);
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good;
    if (i % 4 == 0) bytes.resize(random() % bytes.size());
    for (int k = 0; k < i % 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 4 == 3) bytes[8 + random() % 100] = "{}[],:\"0"[random() % 8];
    try {
      for (const auto& [name, t] : parse_safetensors(bytes, "f").tensors) {
        EXPECT_GE(t.bytes.data(), bytes.data());
        EXPECT_LE(t.bytes.data() + t.bytes.size(), bytes.data() + bytes.size());
      }
      ++read;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace pock
