// The list of what `pockc regress` compares: docs/regress.md.
#include <algorithm>
#include <filesystem>
#include <set>

#include "pock/codegen/target.h"
#include "pock/support/mapped_file.h"
#include "pock/support/toml_file.h"
#include "regress.h"

namespace pock {
namespace {

namespace fs = std::filesystem;

class File : TomlFile {
 public:
  explicit File(std::string path)
      : TomlFile(std::string(MappedFile(path).bytes()), path, "a list"), path_(std::move(path)) {}

  RegressFile read() {
    result_.baseline = fs::path(path_).replace_extension(".json").string();
    for (const Metric& m : kMetrics) result_.tolerance[m.name] = m.tolerance;
    each_key(all(), {"baseline", "tolerance", "case"}, [&](std::string_view key, const toml::node& value) {
      if (key == "baseline") result_.baseline = beside(text(value));
      if (key == "tolerance") tolerances(table(value));
      if (key == "case") cases(value);
    });
    report().throw_if_any();
    if (result_.cases.empty()) throw error("{}: there is no [[case]]", path_);
    return std::move(result_);
  }

 private:
  std::string text(const toml::node& value) const {
    if (const auto* text = value.as_string(); text && !text->get().empty()) return text->get();
    throw fail(value, "want a text in quotes");
  }
  const toml::table& table(const toml::node& value) const {
    if (const toml::table* t = value.as_table()) return *t;
    throw fail(value, "want a table");
  }
  std::vector<std::string> texts(const toml::node& value) const {
    const toml::array* list = value.as_array();
    if (!list || list->empty()) throw fail(value, "want a list of texts");
    std::vector<std::string> all;
    for (const toml::node& item : *list) all.push_back(text(item));
    return all;
  }
  // Names of files are relative to this one.
  std::string beside(const std::string& name) const {
    return (fs::path(path_).parent_path() / name).string();
  }

  void tolerances(const toml::table& all) {
    std::vector<std::string_view> names;
    for (const Metric& m : kMetrics) names.emplace_back(m.name);
    each_key(all, names, [&](std::string_view key, const toml::node& value) {
      const auto fraction = value.value<double>();
      if (!fraction || !(*fraction >= 0) || *fraction > 100)
        throw fail(value, "want a number from 0 on: 0.02 lets something grow by 2 %");
      result_.tolerance[std::string(key)] = *fraction;
    });
  }

  void cases(const toml::node& value) {
    const toml::array* list = value.as_array();
    if (!list) throw fail(value, "a case begins with [[case]]");
    for (const toml::node& item : *list) report().collect([&] { one_case(item, table(item)); });
  }

  void one_case(const toml::node& at, const toml::table& all) {
    std::string name, model;
    std::vector<std::string> targets, options;
    bool time = false;
    each_key(all, {"name", "model", "targets", "options", "time"},
             [&](std::string_view key, const toml::node& v) {
               if (key == "name") name = text(v);
               if (key == "model") model = beside(text(v));
               if (key == "targets") targets = texts(v);
               if (key == "options") options = texts(v);
               if (key == "time") {
                 if (!v.is_boolean()) throw fail(v, "want true or false");
                 time = v.as_boolean()->get();
               }
             });
    if (model.empty() || targets.empty()) throw fail(at, "a case needs a model and targets");
    if (name.empty()) name = fs::path(model).stem().string();
    for (const std::string& target : targets) {
      RegressCase c{
          .name = name + " " + target, .target = target, .words = {model, "--target", target}, .time = time};
      c.words.insert(c.words.end(), options.begin(), options.end());
      if (!names_.insert(c.name).second)
        throw fail(at, "there are two cases '{}'; give one another name", c.name);
      if (time && !runs_here(find_target(target)))
        throw fail(at, "time: programs for {} do not run on this machine", target);
      result_.cases.push_back(std::move(c));
    }
  }

  std::string path_;
  RegressFile result_;
  std::set<std::string> names_;
};

}  // namespace

RegressFile read_regress_file(const std::string& path) { return File(path).read(); }

}  // namespace pock
