#include "files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "pock/ir/text.h"

namespace pock {
namespace {

void write_all(int file, const std::string& bytes, const std::string& path) {
  for (size_t done = 0; done < bytes.size();) {
    ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw error("cannot write '{}': {}", path, std::strerror(errno));
    done += static_cast<size_t>(n);
  }
}

}  // namespace

NewFile::NewFile(std::string path, const std::string& bytes, bool executable) : path_(std::move(path)) {
  if (path_ == "-") {
    write_all(STDOUT_FILENO, bytes, "standard output");
    return;
  }
  struct stat info;
  if (::stat(path_.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    throw error("cannot write '{}': it is a folder", path_);
  std::string name = path_ + ".XXXXXX";
  int file = ::mkstemp(name.data());
  if (file < 0) throw error("cannot write '{}': {}", path_, std::strerror(errno));
  try {
    write_all(file, bytes, path_);
    mode_t mask = ::umask(0);
    ::umask(mask);
    if (::fchmod(file, (executable ? 0777 : 0666) & ~mask) != 0)
      throw error("cannot set the mode of '{}': {}", path_, std::strerror(errno));
  } catch (...) {
    ::close(file);
    ::unlink(name.c_str());
    throw;
  }
  ::close(file);
  temporary_ = name;
}

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void NewFile::commit() {
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw error("cannot write '{}': {}", path_, std::strerror(errno));
  temporary_.clear();
}

void write_graph(const Graph& g, const std::string& path) {
  if (path == "-")
    NewFile("-", print(g));
  else
    save_graph(g, path);
}

}  // namespace pock
