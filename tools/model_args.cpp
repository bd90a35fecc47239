#include "model_args.h"

#include <charconv>

namespace pock {

ImportOptions import_options(const ModelArgs& args) {
  ImportOptions options;
  options.batch = args.batch;
  options.assume_opset = args.assume_opset;
  for (const std::string& text : args.dims) {
    size_t equals = text.find('=');
    const char* last = text.data() + text.size();
    int64_t value = 0;
    auto [stop, problem] =
        std::from_chars(equals == std::string::npos ? last : text.data() + equals + 1, last, value);
    if (problem != std::errc{} || stop != last || value <= 0)
      throw error("--dim '{}': want NAME=N with N a positive number", text);
    if (!options.dims.emplace(text.substr(0, equals), value).second)
      throw error("--dim '{}': '{}' is bound twice", text, text.substr(0, equals));
  }
  return options;
}

}  // namespace pock
