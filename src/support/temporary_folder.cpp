#include "pock/support/temporary_folder.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "pock/support/diag.h"

namespace pock {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "pock-XXXXXX").string();
  if (!mkdtemp(name.data())) throw error("cannot make a temporary folder {}", name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw error("cannot write {}: is the disk full?", path);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) throw error("cannot read {}", path);
  std::string bytes(static_cast<size_t>(in.tellg()), '\0');
  in.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw error("cannot read {}", path);
  return bytes;
}

}  // namespace pock
