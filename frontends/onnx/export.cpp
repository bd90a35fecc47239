// The bytes of a tuned model: those of the original, but for what changes.h names.
#include "pock/frontends/export.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "changes.h"
#include "pock/support/new_file.h"
#include "wire.h"

namespace pock {
namespace {
using namespace onnx_frontend;
namespace fs = std::filesystem;
using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::StringStringEntryProto;
using onnx::TensorProto;

bool is_external(const TensorProto& t) { return t.data_location() == TensorProto::EXTERNAL; }

// Every tensor in which pock looks for weights.
template <class F>
void for_tensors(const GraphProto& g, const F& f) {
  for (const TensorProto& t : g.initializer()) f(t);
  for (const NodeProto& node : g.node())
    for (const AttributeProto& a : node.attribute())
      if (a.has_t()) f(a.t());
}

template <class Key, class T>
const T* find(const std::map<Key, T>& map, const Key& key) {
  auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

// Copies of the files in which a model keeps tensors, changed and given places beside the tuned model.
class DataFiles {
 public:
  DataFiles(const std::string& path, const ModelFile& model, const Changes& changes, const std::string& out)
      : path_(path), model_(model), changes_(changes), out_(out) {
    originals_.insert(canonical(path));
    for_external([&](const TensorProto&, const ExternalPlace& p) {
      DataFile& d = files_[key(p.location)];
      if (!d.copy) d = {key(p.location), "", "", std::make_shared<MappedFile>(p.file)};
      originals_.insert(p.file);
    });
    if (!files_.empty() && out == "-")
      throw error("{} keeps weights in files beside it: -o must be a file, so that these can lie beside that",
                  model.name);
    if (originals_.count(canonical(out)))
      throw error("-o {} would write over the model's external data", out);
    Report report;
    for (auto& [name, d] : files_) report.collect([&, &d = d] { choose_place(&d); });
    report.throw_if_any();
    change();
  }

  // What the tuned model calls the file; null where that stays.
  const std::string* renamed(const std::string& location) const {
    const DataFile* d = find(files_, key(location));
    return d && !d->renamed.empty() ? &d->renamed : nullptr;
  }

  void add_to(TunedModel* result) const {
    for (const auto& [name, d] : files_) {
      if (!d.renamed.empty())
        result->notes.push_back(
            fmt::format("the copy of its external data '{}' is '{}'", d.location, d.renamed));
      result->files.push_back({d.to, d.copy->bytes()});
      result->kept.push_back(d.copy);
    }
  }

 private:
  struct DataFile {
    std::string location, renamed;  // in the model and, if that is another, in the tuned one
    std::string to;
    std::shared_ptr<MappedFile> copy;
  };

  static std::string key(const std::string& location) {
    return fs::path(location).lexically_normal().string();
  }
  static std::string canonical(const std::string& path) {
    std::error_code code;
    return fs::weakly_canonical(path, code).string();
  }

  template <class F>
  void for_external(const F& f) {
    for_tensors(model_.model.graph(), [&](const TensorProto& t) {
      if (is_external(t)) f(t, external_place(t, path_));
    });
  }

  // As the original lies beside its model; where that is the same folder, under a name that starts with the tuned
  // model's.
  void choose_place(DataFile* d) {
    const fs::path folder = fs::path(out_).parent_path(), location = d->location;
    d->to = (folder / location).string();
    if (originals_.count(canonical(d->to))) {
      std::string name = location.filename().string(), own = fs::path(out_).filename().string();
      own += name.starts_with(model_.name) ? name.substr(model_.name.size()) : "." + name;
      d->renamed = fs::path(location).replace_filename(own).string();
      d->to = (folder / d->renamed).string();
    }
    std::error_code code;
    if (originals_.count(canonical(d->to)) || same_place(d->to, out_))
      throw error(
          "the copy of the external data '{}' would be '{}', which is another file of the model's: choose "
          "another folder for -o",
          d->location, d->to);
    if (fs::exists(d->to, code) && fs::file_size(d->to, code) != d->copy->bytes().size())
      throw error(
          "the copy of the external data '{}' would be '{}', where something else is: move that away, or "
          "choose "
          "another folder for -o",
          d->location, d->to);
  }

  void change() {
    for_external([&](const TensorProto& t, const ExternalPlace& p) {
      if (const std::string* bytes = find(changes_.tensors, &t))
        std::memcpy(files_.at(key(p.location)).copy->data() + p.offset, bytes->data(), bytes->size());
    });
    // Ranges may overlap, and still each tensor must find its own elements.
    Report report;
    for_external([&](const TensorProto& t, const ExternalPlace& p) {
      const std::string* tuned = find(changes_.tensors, &t);
      if (files_.at(key(p.location)).copy->bytes().substr(p.offset, p.bytes) !=
          (tuned ? *tuned : t.raw_data()))
        report.add(Error({model_.name, t.name(), "", "tensor"},
                         "shares bytes of '{}' with another tensor that has other values now", p.location)
                       .what());
    });
    report.throw_if_any();
  }

  const std::string& path_;
  const ModelFile& model_;
  const Changes& changes_;
  const std::string& out_;
  std::set<std::string> originals_;
  std::map<std::string, DataFile> files_;  // by location
};

class ModelWriter {
 public:
  ModelWriter(const ModelFile& file, const Changes& changes, const DataFiles& data)
      : file_(file), graph_(file.model.graph()), changes_(changes), data_(data) {}

  std::string run() {
    std::string bytes = rewrite(file_.mapped->bytes(), [&](const WireField& f, std::string* out) {
      if (!f.is(ModelProto::kGraphFieldNumber)) return false;
      put_again(f, graph(f.payload), out);
      return true;
    });
    check(bytes);
    return bytes;
  }

 private:
  std::string graph(std::string_view message) {
    return rewrite(message, [&](const WireField& f, std::string* out) {
      if (f.is(GraphProto::kInitializerFieldNumber)) {
        put_again(f, tensor(f.payload, graph_.initializer(initializer_++)), out);
        return true;
      }
      if (!f.is(GraphProto::kNodeFieldNumber)) return false;
      const NodeProto& node = graph_.node(node_++);
      if (const auto* inputs = find(changes_.inputs, &node))
        for (const auto& [input, constant] : *inputs) put_field(f.number, constant.SerializeAsString(), out);
      put_again(f, this->node(f.payload, node), out);
      return true;
    });
  }

  std::string node(std::string_view message, const NodeProto& node) {
    if (const AttributeProto* value = find(changes_.constants, &node)) return constant(message, *value);
    const auto* inputs = find(changes_.inputs, &node);
    int input = 0, attribute = 0;
    return rewrite(message, [&](const WireField& f, std::string* out) {
      if (f.is(NodeProto::kAttributeFieldNumber)) {
        put_again(f, attribute_value(f.payload, node.attribute(attribute++)), out);
        return true;
      }
      if (!f.is(NodeProto::kInputFieldNumber) || !inputs) return false;
      const NodeProto* maker = find(*inputs, input++);
      if (maker) put_again(f, maker->output(0), out);
      return maker != nullptr;
    });
  }

  // The node, its names kept, as a Constant.
  static std::string constant(std::string_view message, const AttributeProto& value) {
    std::string bytes = rewrite(message, [&](const WireField& f, std::string* out) {
      if (f.is(NodeProto::kOpTypeFieldNumber)) put_again(f, "Constant", out);
      return f.is(NodeProto::kOpTypeFieldNumber) || f.is(NodeProto::kInputFieldNumber) ||
             f.is(NodeProto::kAttributeFieldNumber);
    });
    put_field(NodeProto::kAttributeFieldNumber, value.SerializeAsString(), &bytes);
    return bytes;
  }

  std::string attribute_value(std::string_view message, const AttributeProto& a) {
    const std::string* list = find(changes_.lists, &a);
    size_t at = 0;
    return rewrite(message, [&](const WireField& f, std::string* out) {
      if (f.is(AttributeProto::kTFieldNumber))
        put_again(f, tensor(f.payload, a.t()), out);
      else if (f.number == AttributeProto::kFloatsFieldNumber && list)
        put_next(f, *list, &at, out);
      else
        return false;
      return true;
    });
  }

  // The field with as many of the bytes as it has, from `at` on.
  static void put_next(const WireField& f, const std::string& bytes, size_t* at, std::string* out) {
    std::string_view rest = std::string_view(bytes).substr(std::min(*at, bytes.size()));
    put_again(f, rest.substr(0, f.payload.size()), out);
    *at += f.payload.size();
  }

  std::string tensor(std::string_view message, const TensorProto& t) {
    if (is_external(t)) return external_tensor(message);
    const std::string* tuned = find(changes_.tensors, &t);
    if (!tuned) return std::string(message);
    const int type = t.data_type();
    const uint64_t holder = t.has_raw_data()              ? TensorProto::kRawDataFieldNumber
                            : type == TensorProto::FLOAT  ? TensorProto::kFloatDataFieldNumber
                            : type == TensorProto::DOUBLE ? TensorProto::kDoubleDataFieldNumber
                                                          : TensorProto::kInt32DataFieldNumber;
    size_t at = 0;
    return rewrite(message, [&](const WireField& f, std::string* out) {
      if (f.number != holder) return false;
      if (holder == TensorProto::kInt32DataFieldNumber)
        put_again(f, narrow_elements(f.payload, *tuned, &at), out);
      else
        put_next(f, *tuned, &at, out);
      return true;
    });
  }

  // Elements of two bytes, each in a varint of its own.
  static std::string narrow_elements(std::string_view payload, const std::string& tuned, size_t* at) {
    std::string out;
    while (!payload.empty()) {
      std::string_view start = payload;
      uint64_t before = 0;
      if (!take_varint(&payload, &before)) break;  // the file was parsed: there are whole ones only
      uint16_t now = 0;
      std::memcpy(&now, tuned.data() + std::min(*at, tuned.size() - sizeof now), sizeof now);
      *at += sizeof now;
      if (static_cast<uint16_t>(before) == now)
        out += start.substr(0, start.size() - payload.size());
      else
        put_varint(now, &out);
    }
    return out;
  }

  std::string external_tensor(std::string_view message) {
    return rewrite(message, [&](const WireField& f, std::string* out) {
      StringStringEntryProto entry;
      if (!f.is(TensorProto::kExternalDataFieldNumber) ||
          !entry.ParseFromArray(f.payload.data(), static_cast<int>(f.payload.size())) ||
          entry.key() != "location")
        return false;
      const std::string* name = data_.renamed(entry.value());
      if (!name) return false;
      put_again(f,
                rewrite(f.payload,
                        [&](const WireField& inner, std::string* to) {
                          if (!inner.is(StringStringEntryProto::kValueFieldNumber)) return false;
                          put_again(inner, *name, to);
                          return true;
                        }),
                out);
      return true;
    });
  }

  // What was written reads back as what was meant, in whatever odd form the message came.
  void check(const std::string& bytes) const {
    ModelProto model;
    if (bytes.size() > std::numeric_limits<int32_t>::max() ||
        !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      throw error("{}: with what was trained it is no ONNX file any more", file_.name);
    auto expect = [&](const TensorProto& before, const TensorProto& after) {
      if (is_external(before) || !is_float_type(before.data_type())) return;
      const std::string* tuned = find(changes_.tensors, &before);
      if (stored_bytes(after) != (tuned ? *tuned : stored_bytes(before)))
        throw Error({file_.name, before.name(), "", "tensor"},
                    "is stored in pieces that cannot be written again");
    };
    const GraphProto& tuned = model.graph();
    for (int i = 0; i < graph_.initializer_size(); ++i) expect(graph_.initializer(i), tuned.initializer(i));
    int at = 0;
    for (const NodeProto& node : graph_.node()) {
      if (const auto* inputs = find(changes_.inputs, &node)) at += static_cast<int>(inputs->size());
      const NodeProto& after = tuned.node(at++);
      if (find(changes_.constants, &node)) continue;
      for (int i = 0; i < node.attribute_size(); ++i)
        if (node.attribute(i).has_t()) expect(node.attribute(i).t(), after.attribute(i).t());
    }
  }

  const ModelFile& file_;
  const GraphProto& graph_;
  const Changes& changes_;
  const DataFiles& data_;
  int initializer_ = 0, node_ = 0;
};

}  // namespace

namespace {

ModelFile read_trained(const std::string& path, const std::string& model_hash) {
  ModelFile file = read_model(path);
  Report report;
  for (const auto& [tensor, problem] : file.problems)
    report.add(Error({file.name, tensor->name(), "", "tensor"}, "{}", problem).what());
  report.throw_if_any();
  if (file.hash != model_hash)
    throw error("{}: is not the model that was trained: its hash is {}, that one's is {}", file.name,
                file.hash, model_hash);
  return file;
}

}  // namespace

std::vector<std::string> model_files(const std::string& path, const std::string& model_hash) {
  const ModelFile file = read_trained(path, model_hash);
  std::vector<std::string> files = {path};
  for_tensors(file.model.graph(), [&](const TensorProto& t) {
    if (is_external(t)) files.push_back(external_place(t, path).file);
  });
  return files;
}

TunedModel export_onnx(const std::string& path, const std::string& model_hash, const Tuning& tuning,
                       const std::string& out) {
  if (same_place(path, out)) throw error("-o {} would write over the model", out);
  const ModelFile file = read_trained(path, model_hash);
  const Changes changes = find_changes(file, tuning);
  DataFiles data(path, file, changes, out);
  TunedModel result;
  result.changed = changes.count;
  result.notes = changes.notes;
  data.add_to(&result);
  auto bytes = std::make_shared<std::string>(ModelWriter(file, changes, data).run());
  result.kept.push_back(bytes);
  result.files.push_back({out, *bytes});
  return result;
}

}  // namespace pock
