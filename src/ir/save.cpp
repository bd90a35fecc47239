// A graph in files: the text, and its data as safetensors: 8 bytes of header length, the header in JSON, the
// bytes.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "elements.h"
#include "pock/ir/text.h"
#include "pock/support/new_file.h"

namespace pock {
namespace {

using nlohmann::json;

std::string side_file(const std::string& path) { return path + ".safetensors"; }

// Masks are stored as the bytes they are.
const char* stored_dtype(DType t) {
  switch (t) {
    case DType::f32:
      return "F32";
    case DType::f64:
      return "F64";
    case DType::i8:
      return "I8";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::u8:
    case DType::mask:
      break;
  }
  return "U8";
}

Dims stored_dims(const Type& t) { return t.dtype == DType::mask ? Dims{t.bytes()} : t.dims; }

bool is_persistent(const Value* v) {
  return v->kind == ValueKind::param || v->kind == ValueKind::statistic || v->kind == ValueKind::optimizer;
}

// Whether the data of a leaf, if it has any, stands in the side file.
bool is_stored(const Value* v) {
  return is_persistent(v) || (v->kind == ValueKind::constant && v->type.elements() > kInlineElements);
}

// Optimizer state without data starts at zero, and a file that lacks it says so.
bool must_be_stored(const Value* v) { return is_stored(v) && v->kind != ValueKind::optimizer; }

std::string key_of(const Value* v, const Names& names) {
  return v->name.empty() ? names(v).substr(1) : v->name;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw error("cannot open '{}': {}", path, std::strerror(errno));
  if (std::filesystem::is_directory(path)) throw error("cannot read '{}': it is a folder", path);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) throw error("cannot read '{}'", path);
  return bytes;
}

// The side file, written but not yet in its place; null where there is no data.
std::unique_ptr<NewFile> save_data(const Graph& g, const std::string& path) {
  Names names(g);
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::vector<Data> parts;
  bool any = false;
  int64_t offset = 0;
  for (const Value* v : g.leaves()) {
    if (!is_stored(v) || (!v->data && !must_be_stored(v))) continue;
    any = any || v->data;
    int64_t bytes = v->type.bytes();
    header[key_of(v, names)] = {{"dtype", stored_dtype(v->type.dtype)},
                                {"shape", stored_dims(v->type)},
                                {"data_offsets", {offset, offset + bytes}}};
    parts.push_back(v->data ? v->data : std::make_shared<const std::vector<std::byte>>(bytes));
    offset += bytes;
  }
  if (!any) return nullptr;
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string head(8, '\0');
  for (int i = 0; i < 8; ++i) head[i] = static_cast<char>(text.size() >> (8 * i));
  head += text;
  std::vector<std::string_view> all = {head};
  for (const Data& part : parts) all.emplace_back(reinterpret_cast<const char*>(part->data()), part->size());
  return std::make_unique<NewFile>(path, all);
}

void load_data(Graph& g, const std::string& path) {
  std::string bytes = read_file(path);
  uint64_t length = 0;
  for (size_t i = 0; i < 8 && i < bytes.size(); ++i)
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (bytes.size() < 8 || length > bytes.size() - 8)
    throw error("{} is cut short or no safetensors file", path);
  json header =
      json::parse(bytes.begin() + 8, bytes.begin() + 8 + static_cast<int64_t>(length), nullptr, false);
  if (!header.is_object()) throw error("{}: its header is no JSON object", path);
  const char* data = bytes.data() + 8 + length;
  uint64_t available = bytes.size() - 8 - length;

  Names names(g);
  for (Value* v : g.leaves()) {
    if (!is_stored(v) || v->data) continue;
    std::string key = key_of(v, names);
    if (!header.contains(key)) {
      if (!must_be_stored(v)) continue;
      throw error("{} has no tensor '{}'", path, key);
    }
    try {
      const json& entry = header[key];
      Dims dims = entry.at("shape").get<Dims>();
      std::string dtype = entry.at("dtype").get<std::string>();
      auto offsets = entry.at("data_offsets").get<std::vector<uint64_t>>();
      if (dtype != stored_dtype(v->type.dtype) || dims != stored_dims(v->type))
        throw error("{}: tensor '{}' is {}{}, the graph has {}", path, key, dtype, to_string(dims),
                    to_string(v->type));
      if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > available ||
          offsets[1] - offsets[0] != static_cast<uint64_t>(v->type.bytes()))
        throw error("{}: the bytes of tensor '{}' are not all there", path, key);
      v->data = make_data(data + offsets[0], offsets[1] - offsets[0]);
    } catch (const json::exception&) {
      throw error("{}: the entry of tensor '{}' is malformed", path, key);
    }
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
  auto g = parse_graph(read_file(path), path);
  if (std::filesystem::exists(side_file(path))) load_data(*g, side_file(path));
  return g;
}

}  // namespace pock
