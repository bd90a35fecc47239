// Writing results so that nothing half-done is left behind.
#pragma once

#include <string>

#include "pock/ir/graph.h"

namespace pock {

// A file that is written in full beside its place and put there by commit(). Until then, or if that fails,
// nothing of it is left. "-" is standard output.
class NewFile {
 public:
  // Throws Error naming the file and the system's reason.
  NewFile(std::string path, const std::string& bytes, bool executable = false);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void commit();

 private:
  std::string path_, temporary_;  // temporary_ is empty where there is no such file
};

// The text form, with its data beside it; "-" prints the text alone.
void write_graph(const Graph&, const std::string& path);

}  // namespace pock
