// A graph in files: the text, and its data as safetensors.
#include <filesystem>

#include "elements.h"
#include "pock/ir/stored.h"
#include "pock/ir/text.h"
#include "pock/support/mapped_file.h"
#include "pock/support/new_file.h"
#include "pock/support/safetensors.h"

namespace pock {
namespace {

std::string side_file(const std::string& path) { return path + ".safetensors"; }

// Whether the data of a leaf, if it has any, stands in the side file.
bool is_stored(const Value* v) {
  if (v->kind == ValueKind::accumulator) return false;
  return v->persistent() || (v->kind == ValueKind::constant && v->type.elements() > kInlineElements);
}

// Optimizer state without data starts at zero, and a file that lacks it says so.
bool must_be_stored(const Value* v) { return is_stored(v) && v->kind != ValueKind::optimizer; }

std::string key_of(const Value* v, const Names& names) {
  return v->name.empty() ? names(v).substr(1) : v->name;
}

// The side file, written but not yet in its place; null where there is no data.
std::unique_ptr<NewFile> save_data(const Graph& g, const std::string& path) {
  Names names(g);
  std::vector<std::pair<std::string, StoredTensor>> tensors;
  std::vector<Data> zeros;
  bool any = false;
  for (const Value* v : g.leaves()) {
    if (!is_stored(v) || (!v->data && !must_be_stored(v))) continue;
    any = any || v->data;
    Data data = v->data;
    if (!data) zeros.push_back(data = std::make_shared<const std::vector<std::byte>>(v->type.bytes()));
    tensors.emplace_back(key_of(v, names),
                         stored_tensor(v->type, {reinterpret_cast<const char*>(data->data()), data->size()}));
  }
  if (!any) return nullptr;
  std::string head = safetensors_head(tensors);
  std::vector<std::string_view> all = {head};
  for (const auto& [name, t] : tensors) all.push_back(t.bytes);
  return std::make_unique<NewFile>(path, all);
}

void load_data(Graph& g, const std::string& path) {
  MappedFile file(path);
  Safetensors stored = parse_safetensors(file.bytes(), path);
  Names names(g);
  for (Value* v : g.leaves()) {
    if (!is_stored(v) || v->data) continue;
    std::string key = key_of(v, names);
    auto found = stored.tensors.find(key);
    if (found == stored.tensors.end()) {
      if (!must_be_stored(v)) continue;
      throw error("{} has no tensor '{}'", path, key);
    }
    const StoredTensor& t = found->second;
    const StoredTensor wanted = stored_tensor(v->type, {});
    if (t.dtype != wanted.dtype || t.dims != wanted.dims)
      throw error("{}: tensor '{}' is {}{}, the graph has {}", path, key, t.dtype, to_string(t.dims),
                  to_string(v->type));
    v->data = make_data(t.bytes.data(), t.bytes.size());
  }
}

}  // namespace

void save_graph(const Graph& g, const std::string& path) {
  if (path == "-") return NewFile(path, print(g)).commit();
  std::string side = side_file(path);
  auto data = save_data(g, side);
  NewFile text(path, print(g));
  std::error_code code;
  if (data)
    data->commit();
  else if (std::filesystem::remove(side, code); code)
    throw error("cannot remove '{}': {}", side, code.message());
  text.commit();
}

std::unique_ptr<Graph> load_graph(const std::string& path) {
  MappedFile text(path);
  auto g = parse_graph(std::string(text.bytes()), path);
  if (std::filesystem::exists(side_file(path))) load_data(*g, side_file(path));
  return g;
}

}  // namespace pock
