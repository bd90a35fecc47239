// The bytes of a file without reading it: only what is looked at takes memory. What cannot be mapped, a pipe, is read,
// up to 2 GiB.
//
//   MappedFile file("tuned.safetensors");
//   file.bytes().size();
//   file.data()[7] = 0;   // this copy's own: the file stays as it is
#pragma once

#include <string>
#include <string_view>

namespace pock {

class MappedFile {
 public:
  // Throws Error naming the file and the system's reason.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  std::string_view bytes() const { return {data_, size_}; }
  char* data() { return data_; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  std::string read_;  // where data_ is no mapping
};

}  // namespace pock
