// Writing results so that nothing half-done is left behind.
//
//   NewFile graph(path, text), data(path + ".safetensors", bytes);   // both fit on the disk
//   data.commit();                                                   // now they are there
//   graph.commit();
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pock {

// A file that is written in full beside its place and put there by commit(). Until then, or if that fails, nothing of
// it is left. A link is followed; what is no file (a pipe, a device) is written by commit(), and "-" is standard output.
class NewFile {
 public:
  // Throws Error naming the file and the system's reason.
  NewFile(std::string path, std::string_view bytes, bool executable = false);
  NewFile(std::string path, const std::vector<std::string_view>& parts, bool executable = false);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void commit();

 private:
  std::string path_;       // as it was given
  std::string place_;      // where it leads
  std::string temporary_;  // empty where there is no such file
  std::string stream_;     // for what cannot be written beside its place
};

// Where a path leads when the file itself is a link, or a link to a link.
std::string end_of_links(const std::string& path);
// Whether two paths lead to one file, or would; "-" is one too.
bool same_place(const std::string& a, const std::string& b);

}  // namespace pock
