// What several test suites need: programs run as a person would, temporary folders, .npy and safetensors
// files.
//
//   TempDir dir;
//   Ran ran = run({kPockc, "compile", dir.write("m.onnx", bytes), "-o", dir / "trainer"});
//   EXPECT_EQ(ran.status, 0) << ran.err;
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace pock::test {

// This checkout, its build, and the pockc in it.
extern const char* const kSourceDir;
extern const char* const kBuildDir;
extern const char* const kPockc;

struct Ran {
  int status = -1;  // exit code, or 128 + signal
  std::string out, err;
};

// Runs argv[0] with no shell between, in `folder`; standard input is empty.
Ran run(const std::vector<std::string>& argv, const std::filesystem::path& folder = {});
// The same in two halves, with the program's output in the files `out` and `err`.
int start(const std::vector<std::string>& argv, const std::filesystem::path& folder, const std::string& out,
          const std::string& err);
int status_of(int process);  // waits for its end
bool is_installed(const std::string& program);
bool lacks_package(const Ran& script);  // whether a Python script ended for want of a package

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  std::filesystem::path path;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const;  // its path
};

// Every index of a tensor with these axes, the last one fastest.
template <class F>
void each_index(const std::vector<int64_t>& dims, const F& f) {
  std::vector<int64_t> index(dims.size(), 0);
  for (;;) {
    f(index);
    size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

std::string read_file(const std::filesystem::path&);
void write_file(const std::filesystem::path&, const std::string& bytes);

// The bytes of a .npy file: npy("<f4", "(3, 2)", data). `version` 2 and 3 have a longer length of the header.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data, char version = 1,
                const std::string& fortran = "False");
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct Array {
  std::string dtype;  // as in the file: "<f4", "F32", ...
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
