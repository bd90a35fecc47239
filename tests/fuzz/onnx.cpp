// ONNX files, all the way to a memory plan: refused with a reason, or a sound graph that the passes turn into a
// training step. Damaged bytes seldom remain a message that protobuf reads, so most changes are made to the
// fields of the message: they change, go, are doubled or are taken from elsewhere.
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "compile.h"
#include "pock/frontends/import.h"
#include "pock/frontends/inspect.h"
#include "pock/ir/text.h"
#include "pock/ir/verify.h"
#include "support/support.h"
#include "target.h"

using namespace pock;

namespace {

// ---- Messages of protobuf as trees

struct Field {
  uint64_t key = 0;  // number and kind
  uint64_t number = 0;
  std::string bytes;          // of a text, a list, or anything with a length
  std::vector<Field> fields;  // instead, where the bytes read as a message
  uint64_t kind() const { return key & 7; }
};
using Fields = std::vector<Field>;

bool take_varint(const std::string& s, size_t* at, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && *at < s.size(); shift += 7) {
    auto byte = static_cast<unsigned char>(s[(*at)++]);
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

void put_varint(std::string* s, uint64_t value) {
  for (; value > 127; value >>= 7) *s += static_cast<char>(value | 128);
  *s += static_cast<char>(value);
}

bool read(const std::string& s, Fields* fields, int depth = 0) {
  for (size_t at = 0; at < s.size();) {
    Field& f = fields->emplace_back();
    if (!take_varint(s, &at, &f.key) || f.key >> 3 == 0 || f.key >> 3 > 30) return false;
    uint64_t n = f.kind() == 1 ? 8 : 4;
    if (f.kind() == 0) {
      if (!take_varint(s, &at, &f.number)) return false;
      continue;
    }
    if (f.kind() == 2 ? !take_varint(s, &at, &n) : f.kind() != 1 && f.kind() != 5) return false;
    if (n > s.size() - at) return false;
    f.bytes = s.substr(at, n);
    at += n;
    if (f.kind() == 2 && depth < 12 && !f.bytes.empty() && !read(f.bytes, &f.fields, depth + 1))
      f.fields.clear();
  }
  return true;
}

std::string written(const Fields& fields) {
  std::string s;
  for (const Field& f : fields) {
    put_varint(&s, f.key);
    std::string inside = f.fields.empty() ? f.bytes : written(f.fields);
    if (f.kind() == 0) put_varint(&s, f.number);
    if (f.kind() == 2) put_varint(&s, inside.size());
    s += inside;
  }
  return s;
}

struct Place {
  Fields* list;
  size_t at;
  Field& field() const { return (*list)[at]; }
};

void collect(Fields* fields, std::vector<Place>* places) {
  for (size_t i = 0; i < fields->size(); ++i) {
    places->push_back({fields, i});
    collect(&(*fields)[i].fields, places);
  }
}

class Changes {
 public:
  explicit Changes(unsigned seed) : random_(seed) {}
  size_t below(size_t n) { return random_() % n; }

  void change(Fields* model) {
    std::vector<Place> places;
    collect(model, &places);
    if (places.empty()) return;
    Place p = places[below(places.size())];
    Field& f = p.field();
    switch (below(8)) {
      case 0:
        p.list->erase(p.list->begin() + static_cast<std::ptrdiff_t>(p.at));
        break;
      case 1:
        p.list->insert(p.list->begin() + static_cast<std::ptrdiff_t>(below(p.list->size() + 1)), Field(f));
        break;
      case 2:
        std::swap(f, (*p.list)[below(p.list->size())]);
        break;
      case 3:
        f.key = (below(24) + 1) << 3 | f.kind();
        break;
      default:
        if (f.kind() == 0)
          f.number = integer();
        else if (!take_alike(&f, places))
          change_bytes(&f);
    }
  }

  // Something of `from` takes the place of something alike in `to`.
  void cross(Fields* to, Fields* from) {
    std::vector<Place> there, here;
    collect(to, &there);
    collect(from, &here);
    if (!there.empty() && !here.empty()) take_alike(&there[below(there.size())].field(), here);
  }

 private:
  uint64_t integer() {
    static const int64_t odd[] = {0, 1, 2, 3, 4, 5, 7, 8, 13, 64, 255, 4096, 1 << 20, INT32_MAX, INT64_MAX};
    int64_t n = odd[below(std::size(odd))];
    return static_cast<uint64_t>(below(3) ? n : -n - static_cast<int64_t>(below(2)));
  }

  // The contents of another field of the same number.
  bool take_alike(Field* f, const std::vector<Place>& places) {
    for (int tries = 0; tries < 20; ++tries) {
      const Field& other = places[below(places.size())].field();
      if (other.key != f->key || &other == f) continue;
      *f = Field(other);
      return true;
    }
    return false;
  }

  void change_bytes(Field* f) {
    if (!f->fields.empty()) f->bytes = written(f->fields);
    f->fields.clear();
    if (f->bytes.empty()) {
      f->bytes = "x";
      return;
    }
    f->bytes[below(f->bytes.size())] = static_cast<char>(below(3) ? below(256) : 0x7f + below(2));
    if (f->kind() == 2 && below(4) == 0) f->bytes.resize(below(2 * f->bytes.size()), '0');
  }

  std::minstd_rand random_;
};

size_t put(const Fields& model, uint8_t* bytes, size_t size, size_t room) {
  std::string s = written(model);
  if (s.size() > room) return size;
  std::memcpy(bytes, s.data(), s.size());
  return s.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static test::TempDir folder;
  static const std::string path =
      (folder.write("external_short.data", std::string(100, 'x')), folder / "m.onnx");
  test::write_file(path, fuzz::text_of(bytes, size));
  std::unique_ptr<Graph> g;
  fuzz::accepted([&] { inspect_onnx(path, {}); });
  if (!fuzz::accepted([&] { g = import_onnx(path, {.batch = 3}); })) return 0;
  fuzz::accepted([&] { verify(*g, "import"); });
  std::string text = print(*g), again;
  fuzz::must(fuzz::accepted([&] { again = print(*parse_graph(text)); }),
             "the text of an imported graph is refused");
  fuzz::must(again == text, "the text of an imported graph reads as something else");
  fuzz::compile(*g);
  return 0;
}

extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t room) __attribute__((weak));

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t room, unsigned seed) {
  Changes changes(seed);
  Fields model;
  if (changes.below(8) == 0 || !read(fuzz::text_of(bytes, size), &model))
    return LLVMFuzzerMutate(bytes, size, room);
  for (size_t count = 1 + changes.below(3); count > 0; --count) changes.change(&model);
  return put(model, bytes, size, room);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size,
                                            uint8_t* out, size_t room, unsigned seed) {
  Fields to, from;
  if (a_size > room) return 0;
  std::memcpy(out, a, a_size);
  if (!read(fuzz::text_of(a, a_size), &to) || !read(fuzz::text_of(b, b_size), &from)) return a_size;
  Changes(seed).cross(&to, &from);
  return put(to, out, a_size, room);
}
