#include "reader.h"

#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>

namespace pock::onnx_frontend {
namespace {
namespace fs = std::filesystem;
using onnx::TensorProto;

struct ElementType {
  int onnx;
  const char* name;
  int bytes;
};
// Bytes 0: no elements that pock reads.
constexpr ElementType kElementTypes[] = {{TensorProto::FLOAT, "float", 4},
                                         {TensorProto::UINT8, "uint8", 1},
                                         {TensorProto::INT8, "int8", 1},
                                         {TensorProto::UINT16, "uint16", 2},
                                         {TensorProto::INT16, "int16", 2},
                                         {TensorProto::INT32, "int32", 4},
                                         {TensorProto::INT64, "int64", 8},
                                         {TensorProto::STRING, "string", 0},
                                         {TensorProto::BOOL, "bool", 1},
                                         {TensorProto::FLOAT16, "float16", 2},
                                         {TensorProto::DOUBLE, "double", 8},
                                         {TensorProto::UINT32, "uint32", 4},
                                         {TensorProto::UINT64, "uint64", 8},
                                         {TensorProto::COMPLEX64, "complex64", 0},
                                         {TensorProto::COMPLEX128, "complex128", 0},
                                         {TensorProto::BFLOAT16, "bfloat16", 2}};

const ElementType* element_type(int type) {
  for (const ElementType& e : kElementTypes)
    if (e.onnx == type) return &e;
  return nullptr;
}

class Fnv {
 public:
  void add(std::string_view bytes) {
    for (unsigned char c : bytes) hash_ = (hash_ ^ c) * 0x100000001b3u;
  }
  std::string hex() const { return fmt::format("{:016x}", hash_); }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

std::shared_ptr<const MappedFile> open_model(const std::string& path) {
  std::error_code code;
  fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) throw error("{}: no such file", path);
  if (fs::is_directory(status)) throw error("{}: is a directory, not an ONNX file", path);
  auto file = std::make_shared<const MappedFile>(path);
  if (file->bytes().size() > std::numeric_limits<int32_t>::max())
    throw error("{}: is larger than 2 GiB, which no ONNX file can be; large weights belong in external data",
                path);
  return file;
}

// Walks the top-level fields of a protobuf message and says why it does not parse.
class FieldWalk {
 public:
  explicit FieldWalk(std::string_view bytes) : bytes_(bytes) {}

  std::string why() {
    bool known = false;  // a field that a model has, with the right wire type
    while (at_ < bytes_.size()) {
      size_t start = at_;
      uint64_t tag = 0, n = 0;
      if (!varint(&tag)) return known && at_ == bytes_.size() ? cut_off(start) : kForeign;
      bool right = is_model_field(tag);
      if (!known && !right) return kForeign;
      known = true;
      switch (tag & 7) {
        case 0:
          if (!varint(&n)) return at_ == bytes_.size() ? cut_off(start) : damaged(start);
          break;
        case 1:
          n = 8;
          break;
        case 2:
          if (!varint(&n)) return at_ == bytes_.size() ? cut_off(start) : damaged(start);
          break;
        case 5:
          n = 4;
          break;
        default:
          return damaged(start);
      }
      if ((tag & 7) == 0) continue;
      if (n > bytes_.size() - at_)
        return fmt::format("is truncated: it has {} bytes, and the field at byte {} alone needs {} more",
                           bytes_.size(), start, n - (bytes_.size() - at_));
      at_ += n;
    }
    return "is damaged: a message inside it breaks off or has an impossible field";
  }

 private:
  static constexpr const char* kForeign = "is not an ONNX file";

  static bool is_model_field(uint64_t tag) {
    switch (tag >> 3) {
      case 1:
      case 5:
        return (tag & 7) == 0;  // versions
      case 2:
      case 3:
      case 4:
      case 6:
      case 7:
      case 8:
      case 14:
      case 20:
      case 25:
        return (tag & 7) == 2;
      default:
        return false;
    }
  }
  bool varint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      auto byte = static_cast<unsigned char>(bytes_[at_++]);
      *value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  static std::string damaged(size_t at) { return fmt::format("is damaged at byte {}", at); }
  std::string cut_off(size_t at) const {
    return fmt::format("is truncated: it has {} bytes and ends inside the field at byte {}", bytes_.size(),
                       at);
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

bool inside(const fs::path& file, const fs::path& folder) {
  fs::path relative = file.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

std::optional<uint64_t> parse_size(const std::string& text) {
  uint64_t n = 0;
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

void inline_external(ModelFile& file, TensorProto* t, const std::string& path, Fnv& hash) {
  if (t->data_location() != TensorProto::EXTERNAL) return;
  try {
    ExternalPlace place = external_place(*t, path);
    MappedFile data(place.file);
    std::string_view bytes = data.bytes().substr(place.offset, place.bytes);
    hash.add(bytes);
    t->set_raw_data(bytes.data(), bytes.size());
  } catch (const Error& e) {
    file.problems[t] = e.what();
  }
}

template <class T>
T load(const std::string& raw, int64_t i) {
  T value;
  std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
  return value;
}

int64_t raw_int(int type, const std::string& raw, int64_t i) {
  switch (type) {
    case TensorProto::UINT8:
      return load<uint8_t>(raw, i);
    case TensorProto::INT8:
      return load<int8_t>(raw, i);
    case TensorProto::UINT16:
      return load<uint16_t>(raw, i);
    case TensorProto::INT16:
      return load<int16_t>(raw, i);
    case TensorProto::INT32:
      return load<int32_t>(raw, i);
    case TensorProto::UINT32:
      return load<uint32_t>(raw, i);
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return load<int64_t>(raw, i);
    default:
      return load<uint8_t>(raw, i) != 0;
  }
}

// Where there is no raw_data, each element type has a list of its own, the narrow ones in that of a wider
// type.
int64_t listed(const TensorProto& t) {
  switch (t.data_type()) {
    case TensorProto::FLOAT:
      return t.float_data_size();
    case TensorProto::DOUBLE:
      return t.double_data_size();
    case TensorProto::INT64:
      return t.int64_data_size();
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return t.uint64_data_size();
    default:
      return t.int32_data_size();
  }
}

int64_t listed_int(const TensorProto& t, int i) {
  switch (t.data_type()) {
    case TensorProto::INT64:
      return t.int64_data(i);
    case TensorProto::UINT32:
      return static_cast<uint32_t>(t.uint64_data(i));
    case TensorProto::UINT64:
      return static_cast<int64_t>(t.uint64_data(i));
    case TensorProto::BOOL:
      return t.int32_data(i) != 0;
    default:
      return t.int32_data(i);
  }
}

}  // namespace

std::string type_name(int type) {
  const ElementType* e = element_type(type);
  return e ? e->name : fmt::format("ONNX type {}", type);
}

int64_t checked_elements(const Dims& dims, const Loc& loc) {
  for (int64_t d : dims)
    if (d < 0) throw Error(loc, "has shape {}, with a negative size", to_string(dims));
  if (!are_possible(dims))
    throw Error(loc, "has shape {}: too large, the most elements are 2^40", to_string(dims));
  return Type{DType::f32, dims}.elements();
}

// A name that leads out of the model's folder is refused; where the model is a link, the folder of what it
// points to will do as well.
ExternalPlace external_place(const TensorProto& t, const fs::path& model_path) {
  ExternalPlace place;
  std::string offset = "0", length;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") place.location = entry.value();
    if (entry.key() == "offset") offset = entry.value();
    if (entry.key() == "length") length = entry.value();
  }
  const std::string& location = place.location;
  if (location.empty()) throw error("its external data has no location");
  fs::path folder = model_path.has_parent_path() ? model_path.parent_path() : fs::path(".");
  bool leaves = fs::path(location).is_absolute();
  for (const fs::path& part : fs::path(location)) leaves |= part == "..";
  std::error_code code;
  fs::path real = fs::weakly_canonical(folder / location, code);
  if (!leaves && !inside(real, fs::weakly_canonical(folder, code)) &&
      !inside(real, fs::weakly_canonical(model_path, code).parent_path()))
    leaves = true;
  if (leaves) throw error("its external data '{}' lies outside the model's folder", location);
  if (!fs::is_regular_file(real, code)) throw error("its external data '{}' is missing or no file", location);

  uint64_t size = fs::file_size(real, code);
  std::optional<uint64_t> from = parse_size(offset), count = parse_size(length);
  if (!from || (!length.empty() && !count))
    throw error("its external data has offset '{}' and length '{}', which are no sizes", offset, length);
  if (*from > size || (count && *count > size - *from))
    throw error("its external data reaches from byte {} to {}, but '{}' has {} bytes", *from,
                *from + count.value_or(0), location, size);
  place.file = real.string();
  place.offset = *from;
  place.bytes = count ? *count : size - *from;
  return place;
}

ModelFile read_model(const std::string& path) {
  ModelFile file;
  file.mapped = open_model(path);
  std::string_view bytes = file.mapped->bytes();
  if (bytes.empty()) throw error("{}: is empty", path);
  if (!file.model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    if (bytes.starts_with("PK\3\4"))
      throw error("{}: is a zip archive (a PyTorch file?), not an ONNX file", path);
    if (bytes.starts_with("version https://git-lfs"))
      throw error("{}: is a Git LFS pointer, not the file it stands for: fetch that with git lfs pull", path);
    throw error("{}: {}", path, FieldWalk(bytes).why());
  }
  if (!file.model.has_graph()) {
    bool other = !file.model.has_ir_version() && file.model.opset_import_size() == 0;
    throw error("{}: {}", path,
                other ? "is not an ONNX file" : "has no graph: the file is truncated, or not a model");
  }
  file.name = fs::path(path).filename().string();
  Fnv hash;
  hash.add(bytes);
  for (TensorProto& t : *file.model.mutable_graph()->mutable_initializer())
    inline_external(file, &t, path, hash);
  for (onnx::NodeProto& node : *file.model.mutable_graph()->mutable_node())
    for (onnx::AttributeProto& a : *node.mutable_attribute())
      if (a.has_t()) inline_external(file, a.mutable_t(), path, hash);
  file.hash = hash.hex();
  return file;
}

float Tensor::element(int64_t i) const {
  if (!is_float) return static_cast<float>(ints[i]);
  float x;
  std::memcpy(&x, floats->data() + i * static_cast<int64_t>(sizeof(float)), sizeof(float));
  return x;
}

Tensor read_tensor(const ModelFile& file, const TensorProto& t, const Loc& loc) {
  if (auto problem = file.problems.find(&t); problem != file.problems.end())
    throw Error(loc, "{}", problem->second);
  const ElementType* type = element_type(t.data_type());
  if (!type || !type->bytes)
    throw Error(loc, "is a tensor of {}; pock reads floats, integers and booleans", type_name(t.data_type()));
  Tensor result;
  result.dims.assign(t.dims().begin(), t.dims().end());
  int64_t n = checked_elements(result.dims, loc);
  std::string shown = type->name + to_string(result.dims);
  bool raw = t.has_raw_data();
  if (raw && static_cast<int64_t>(t.raw_data().size()) != n * type->bytes)
    throw Error(loc, "is {}, which takes {} bytes, but the file holds {}", shown, n * type->bytes,
                t.raw_data().size());
  if (!raw && listed(t) != n)
    throw Error(loc, "is {}, which has {} elements, but the file holds {}", shown, n, listed(t));

  result.type = t.data_type();
  result.is_float = is_float_type(t.data_type());
  if (result.is_float) {
    std::vector<float> values(n);
    const std::string lists = raw ? "" : stored_bytes(t), &bytes = raw ? t.raw_data() : lists;
    for (int64_t i = 0; i < n; ++i) values[i] = flushed(load_float(t.data_type(), bytes.data(), i));
    result.floats = make_data(values);
  } else {
    result.ints.resize(n);
    for (int64_t i = 0; i < n; ++i)
      result.ints[i] = raw ? raw_int(t.data_type(), t.raw_data(), i) : listed_int(t, static_cast<int>(i));
    if (t.data_type() == TensorProto::UINT64)
      for (int64_t i : result.ints)
        if (i < 0) throw Error(loc, "is {} with an element of 2^63 or more, which pock does not read", shown);
  }
  return result;
}

}  // namespace pock::onnx_frontend
