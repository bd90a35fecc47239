#include "files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pock/support/diag.h"

namespace pock {

void write_file(const std::string& path, const std::string& bytes, bool executable) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0)
      throw error("cannot write to standard output: {}", std::strerror(errno));
    return;
  }
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) throw error("cannot write '{}': it is a folder", path);
  std::string temporary = path + ".XXXXXX";
  int file = ::mkstemp(temporary.data());
  if (file < 0) throw error("cannot write '{}': {}", path, std::strerror(errno));
  auto give_up = [&](const char* doing) {
    int reason = errno;
    ::close(file);
    ::unlink(temporary.c_str());
    return error("cannot {} '{}': {}", doing, path, std::strerror(reason));
  };
  for (size_t done = 0; done < bytes.size();) {
    ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw give_up("write");
    done += static_cast<size_t>(n);
  }
  mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(file, (executable ? 0777 : 0666) & ~mask) != 0) throw give_up("set the mode of");
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw give_up("write");
  ::close(file);
}

}  // namespace pock
