// What several test suites need: programs run as a person would, temporary folders, .npy and safetensors files.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pock::test {

struct Ran {
  int status = -1;  // exit code, or 128 + signal
  std::string out, err;
};

// Runs argv[0] with no shell between; standard input is empty.
Ran run(const std::vector<std::string>& argv, const std::filesystem::path& folder = {});

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  std::filesystem::path path;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

std::string read_file(const std::filesystem::path&);
void write_file(const std::filesystem::path&, const std::string& bytes);

struct Array {
  std::string dtype;           // as in the file: "<f4", "F32", ...
  std::vector<int64_t> dims;
  std::string bytes;
  std::vector<double> numbers() const;
};
Array read_npy(const std::filesystem::path&);

struct Safetensors {
  std::map<std::string, Array> tensors;
  std::map<std::string, std::string> metadata;
};
Safetensors read_safetensors(const std::filesystem::path&);

}  // namespace pock::test
