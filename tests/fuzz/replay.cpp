// Runs a fuzz target over files, and over every file in folders, once each: replay FILE|FOLDER...
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "target.h"

namespace fs = std::filesystem;

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      files.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    // Exactly as large as the bytes, so that a sanitizer sees a read past the end.
    std::vector<uint8_t> block(bytes.begin(), bytes.end());
    block.shrink_to_fit();
    LLVMFuzzerTestOneInput(block.data(), block.size());
  }
  if (files.empty()) std::printf("no files\n");
  return files.empty();
}
