#include "pock/support/new_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "pock/support/diag.h"

namespace pock {
namespace {

namespace fs = std::filesystem;

Error cannot_write(const std::string& path) {
  return error("cannot write {}: {}", path == "-" ? "standard output" : "'" + path + "'",
               std::strerror(errno));
}

void write_all(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw cannot_write(path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

std::string end_of_links(const std::string& path) {
  constexpr int kMost = 40;  // as the system has it
  fs::path end = path;
  std::error_code code;
  for (int i = 0; i < kMost && fs::is_symlink(end, code); ++i)
    end = end.parent_path() / fs::read_symlink(end, code);
  return end.string();
}

NewFile::NewFile(std::string path, std::string_view bytes, bool executable)
    : NewFile(std::move(path), std::vector<std::string_view>{bytes}, executable) {}

NewFile::NewFile(std::string path, const std::vector<std::string_view>& parts, bool executable)
    : path_(std::move(path)) {
  struct stat info;
  bool exists = path_ != "-" && ::stat(path_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) throw error("cannot write '{}': it is a folder", path_);
  if (path_ == "-" || (exists && !S_ISREG(info.st_mode))) {
    for (std::string_view part : parts) stream_ += part;
    return;
  }
  place_ = end_of_links(path_);
  std::string name = place_ + ".XXXXXX";
  int file = ::mkstemp(name.data());
  if (file < 0) throw cannot_write(path_);
  try {
    for (std::string_view part : parts) write_all(file, part, path_);
    mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(file, (executable ? 0777 : 0666) & ~mask) != 0) throw cannot_write(path_);
  } catch (...) {
    ::close(file);
    ::unlink(name.c_str());
    throw;
  }
  if (::close(file) != 0) {
    Error problem = cannot_write(path_);
    ::unlink(name.c_str());
    throw problem;
  }
  temporary_ = name;
}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::commit() {
  if (temporary_.empty()) {
    int file = path_ == "-" ? STDOUT_FILENO : ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) throw cannot_write(path_);
    try {
      write_all(file, stream_, path_);
    } catch (...) {
      if (file != STDOUT_FILENO) ::close(file);
      throw;
    }
    if (file != STDOUT_FILENO && ::close(file) != 0) throw cannot_write(path_);
    stream_.clear();
    return;
  }
  if (::rename(temporary_.c_str(), place_.c_str()) != 0) throw cannot_write(path_);
  temporary_.clear();
}

bool same_place(const std::string& a, const std::string& b) {
  std::error_code code;
  if (a == b) return true;
  if (a == "-" || b == "-") return false;
  if (fs::equivalent(a, b, code)) return true;
  // Absolute at first: of what is not there, "x" and "./x" would stay two.
  auto place = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(end_of_links(path), code), code);
  };
  const fs::path one = place(a);
  return !one.empty() && one == place(b);
}

}  // namespace pock
