#include "pock/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pock/support/diag.h"

namespace pock {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  Descriptor(const Descriptor&) = delete;
  const int number;
};

constexpr size_t kMostRead = size_t{2} << 30;  // /dev/zero has no end

bool read_all(int file, std::string* out) {
  char buffer[1 << 16];
  for (;;) {
    ssize_t n = ::read(file, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    out->append(buffer, static_cast<size_t>(n));
    if (out->size() > kMostRead) {
      errno = EFBIG;
      return false;
    }
  }
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  Descriptor file(path);
  if (file.number < 0) throw error("cannot open '{}': {}", path, std::strerror(errno));
  struct stat info = {};
  auto unreadable = [&] { return error("cannot read '{}': {}", path, std::strerror(errno)); };
  if (::fstat(file.number, &info) != 0) throw unreadable();
  if (S_ISDIR(info.st_mode)) throw error("cannot read '{}': it is a folder", path);
  if (S_ISREG(info.st_mode) && info.st_size > 0) {
    size_ = static_cast<size_t>(info.st_size);
    void* memory =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.number, 0);
    if (memory == MAP_FAILED) throw unreadable();
    data_ = static_cast<char*>(memory);
    return;
  }
  if (!read_all(file.number, &read_)) throw unreadable();
  data_ = read_.data();
  size_ = read_.size();
}

MappedFile::~MappedFile() {
  if (data_ != read_.data()) ::munmap(data_, size_);
}

}  // namespace pock
