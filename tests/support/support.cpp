#include "support/support.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace pock::test {

namespace fs = std::filesystem;

int start(const std::vector<std::string>& argv, const fs::path& folder, const std::string& out,
          const std::string& err) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  pid_t child = ::fork();
  if (child == 0) {
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    ::execvp(args[0], args.data());
    ::_exit(127);
  }
  return child;
}

bool is_installed(const std::string& program) {
  std::istringstream folders(std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

bool lacks_package(const Ran& script) {
  return script.status != 0 && script.err.find("ModuleNotFoundError") != std::string::npos;
}

int status_of(int process) {
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Ran run(const std::vector<std::string>& argv, const fs::path& folder) {
  TempDir dir;
  std::string out = dir / "out", err = dir / "err";
  int status = status_of(start(argv, folder, out, err));
  return {status, read_file(out), read_file(err)};
}

TempDir::TempDir() {
  std::string name = (fs::temp_directory_path() / "pock-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
  path = name;
}
TempDir::~TempDir() { fs::remove_all(path); }

std::string TempDir::write(const std::string& name, const std::string& bytes) const {
  fs::remove(path / name);  // some file systems flush a file that is overwritten
  write_file(path / name, bytes);
  return *this / name;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data, char version,
                const std::string& fortran) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
  std::string out = "\x93NUMPY";
  out += version;
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> 8 * i & 255);
  return out + header + data;
}

namespace {
template <class T>
void convert(const std::string& bytes, std::vector<double>* out) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  out->assign(values.begin(), values.end());
}
}  // namespace

std::vector<double> Array::numbers() const {
  std::vector<double> out;
  if (dtype == "<f4" || dtype == "F32")
    convert<float>(bytes, &out);
  else if (dtype == "<f8" || dtype == "F64")
    convert<double>(bytes, &out);
  else if (dtype == "<i8" || dtype == "I64")
    convert<int64_t>(bytes, &out);
  else if (dtype == "<i4" || dtype == "I32")
    convert<int32_t>(bytes, &out);
  else if (dtype == "|u1" || dtype == "U8")
    convert<uint8_t>(bytes, &out);
  else
    throw std::runtime_error("element type " + dtype);
  return out;
}

Array read_npy(const fs::path& path) {
  std::string file = read_file(path);
  auto quoted = [&](const std::string& key) {
    size_t at = file.find("'", file.find(key) + key.size());
    return file.substr(at + 1, file.find("'", at + 1) - at - 1);
  };
  Array array;
  array.dtype = quoted("'descr':");
  size_t open = file.find('(', file.find("'shape':"));
  for (const char* at = file.c_str() + open + 1; *at != ')';) {
    if (*at >= '0' && *at <= '9')
      array.dims.push_back(std::strtoll(at, const_cast<char**>(&at), 10));
    else
      ++at;
  }
  size_t header = static_cast<unsigned char>(file[8]) + 256 * static_cast<unsigned char>(file[9]);
  array.bytes = file.substr(10 + header);
  return array;
}

Safetensors read_safetensors(const fs::path& path) {
  std::string file = read_file(path);
  uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  Safetensors out;
  nlohmann::json entries = nlohmann::json::parse(file.substr(8, header));
  for (auto& [name, entry] : entries.items()) {
    if (name == "__metadata__") {
      out.metadata = entry.get<std::map<std::string, std::string>>();
      continue;
    }
    uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    out.tensors[name] = {entry["dtype"], entry["shape"], file.substr(8 + header + begin, end - begin)};
  }
  return out;
}

}  // namespace pock::test
