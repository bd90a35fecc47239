// A folder for files that other code wants to read from, and that nobody else shall see. It goes away with the object.
//
//   TemporaryFolder folder;
//   write_file(folder.file("a.o"), bytes);
#pragma once

#include <filesystem>
#include <string>

namespace pock {

class TemporaryFolder {
 public:
  TemporaryFolder();  // throws Error where there can be none
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Throw Error.
void write_file(const std::string& path, const std::string& bytes);
std::string read_file(const std::string& path);

}  // namespace pock
