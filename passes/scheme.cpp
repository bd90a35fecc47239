// Schemes: the presets, and how a TOML file says one.
#include "pock/passes/scheme.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "pock/passes/passes.h"
#include "pock/support/mapped_file.h"
#include "pock/support/toml_file.h"

namespace pock {
namespace {

// What a count may be.
std::optional<int64_t> count_of(std::string_view text) {
  int64_t n = 0;
  auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (problem != std::errc{} || stop != text.data() + text.size() || n < 1) return {};
  return n;
}

// "all", "none", "last:N"; none of these where it is a pattern.
std::optional<LayerChoice> word(const std::string& text) {
  if (text == "all") return LayerChoice{LayerChoice::all};
  if (text == "none") return LayerChoice{LayerChoice::none};
  if (!text.starts_with("last:")) return {};
  if (auto n = count_of(std::string_view(text).substr(5))) return LayerChoice{LayerChoice::last, *n};
  throw error("'{}': want last:N with N a whole number from 1", text);
}

// ---- Presets

using Arguments = std::vector<std::string>;

struct Preset {
  const char* name;
  const char* form;  // with its arguments
  const char* doc;
  size_t least, most;  // arguments
  void (*make)(const Arguments&, Scheme*);
};

int64_t need_count(const std::string& text) {
  if (auto n = count_of(text)) return *n;
  throw error("'{}' is no whole number from 1", text);
}

double need_share(const std::string& text) {
  double share = 0;
  auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (problem != std::errc{} || stop != text.data() + text.size() || !(share > 0 && share <= 1))
    throw error("'{}' is no share: want a number above 0 and up to 1", text);
  return share;
}

std::string rank_wanted(std::string_view there) {
  return fmt::format("a rank is a whole number from 1 to {}, not {}", kMostRank, there);
}

const LayerChoice kAll = {LayerChoice::all};
LayerChoice last(int64_t n) { return {LayerChoice::last, n}; }

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"full", "full", "all that reaches the loss", 0, 0,
       [](const Arguments&, Scheme* s) {
         s->biases = s->norms = kAll;
         s->weights = {{kAll}};
       }},
      {"head", "head", "weight and bias of the last layer", 0, 0,
       [](const Arguments&, Scheme* s) {
         s->biases = last(1);
         s->weights = {{last(1)}};
       }},
      {"bias-only", "bias-only", "all biases, and the last layer's weight", 0, 0,
       [](const Arguments&, Scheme* s) {
         s->biases = kAll;
         s->weights = {{last(1)}};
       }},
      {"last", "last:N", "weights and biases of the last N layers", 1, 1,
       [](const Arguments& a, Scheme* s) {
         s->biases = last(need_count(a[0]));
         s->weights = {{s->biases}};
       }},
      {"expand-convs", "expand-convs:N[:SHARE]",
       "in the last N inverted residual blocks the first pointwise convolution, of its input channels all or "
       "a share; "
       "biases of the last third of the layers, where a convolution has none the shift of the batch norm "
       "behind it; "
       "the last layer",
       1, 2,
       [](const Arguments& a, Scheme* s) {
         s->structure = {Scheme::Structure::expand_convs, need_count(a[0]),
                         a.size() > 1 ? need_share(a[1]) : 1};
       }},
      {"attention", "attention:N",
       "in the last N transformer blocks the projections to queries, keys and values and the first one of "
       "the "
       "feed-forward net, with their biases; the last layer",
       1, 1,
       [](const Arguments& a, Scheme* s) {
         s->structure = {Scheme::Structure::attention, need_count(a[0])};
       }},
      {"lora", "lora:RANK",
       "an adapter of this rank beside every convolution and matrix product but the last layer; the last "
       "layer",
       1, 1, [](const Arguments& a, Scheme* s) {
         s->biases = last(1);
         s->weights = {{last(1)}};
         s->lora = {{.match = kAll, .rank = need_count(a[0])}};
         if (s->lora[0].rank > kMostRank) throw error("{}", rank_wanted(a[0]));
       }}};
  return all;
}

// ---- Files

class File : TomlFile {
 public:
  File(const std::string& toml, const std::string& name) : TomlFile(toml, name, "a scheme") {
    scheme_.name = name;
  }

  Scheme read() {
    each_key(all(), {"biases", "norms", "weights", "lora"},
             [&](std::string_view key, const toml::node& value) {
               if (key == "biases") scheme_.biases = layers(value);
               if (key == "norms") scheme_.norms = layers(value);
               if (key == "weights") tables(value, key, &File::weights);
               if (key == "lora") tables(value, key, &File::lora);
             });
    report().throw_if_any();
    return std::move(scheme_);
  }

 private:
  std::string text(const toml::node& value) const {
    if (const auto* text = value.as_string(); text && !text->get().empty()) return text->get();
    throw fail(value, "want a name or a pattern in quotes");
  }

  LayerChoice layers(const toml::node& value) const {
    if (const toml::array* list = value.as_array()) {
      LayerChoice choice{LayerChoice::patterns};
      for (const toml::node& item : *list) choice.names.push_back(text(item));
      return choice;
    }
    if (!value.is_string()) throw fail(value, "want \"all\", \"none\", \"last:N\" or a list of patterns");
    const std::string name = text(value);
    try {
      if (auto choice = word(name)) return *choice;
    } catch (const Error& e) {
      throw fail(value, "{}", e.what());
    }
    throw fail(value, "'{}' is not \"all\", \"none\" or \"last:N\"; patterns stand in a list: [\"{}\"]", name,
               name);
  }

  void tables(const toml::node& value, std::string_view key, void (File::*read)(const toml::table&)) {
    const toml::array* list = value.as_array();
    if (!list) throw fail(value, "want tables: [[{}]]", key);
    for (const toml::node& item : *list)
      report().collect([&] {
        const toml::table* table = item.as_table();
        if (!table) throw fail(item, "want a table: [[{}]]", key);
        (this->*read)(*table);
      });
  }

  void weights(const toml::table& table) {
    WeightRule rule;
    each_key(table, {"match", "channels", "select"}, [&](std::string_view key, const toml::node& value) {
      if (key == "match") rule.match = match(value);
      if (key == "channels") rule.channels.amount = channels(value);
      if (key == "select") {
        const std::string by = text(value);
        if (by != "l2" && by != "first") throw fail(value, "'{}': want \"l2\" or \"first\"", by);
        rule.channels.largest = by == "l2";
      }
    });
    if (!table.contains("match")) throw fail(table, "which weights? It has no key 'match'");
    scheme_.weights.push_back(std::move(rule));
  }

  void lora(const toml::table& table) {
    LoraRule rule;
    each_key(table, {"match", "rank", "alpha", "dropout"},
             [&](std::string_view key, const toml::node& value) {
               if (key == "match") rule.match = match(value);
               if (key == "rank") rule.rank = rank(value);
               if (key == "alpha") rule.alpha = alpha(value);
               if (key == "dropout") rule.dropout = dropout(value);
             });
    if (!table.contains("match")) report().add(fail(table, "beside which weights? It has no key 'match'"));
    if (!table.contains("rank")) report().add(fail(table, "of which rank? It has no key 'rank'"));
    scheme_.lora.push_back(std::move(rule));
  }

  LayerChoice match(const toml::node& value) const {
    const std::string name = text(value);
    try {
      if (auto choice = word(name); choice && choice->kind != LayerChoice::none) return *choice;
    } catch (const Error& e) {
      throw fail(value, "{}", e.what());
    }
    return {LayerChoice::patterns, 0, {name}};
  }

  std::variant<double, int64_t, std::vector<int64_t>> channels(const toml::node& value) const {
    if (const auto* share = value.as_floating_point()) {
      if (!(share->get() > 0 && share->get() <= 1))
        throw fail(value, "a share of the channels is above 0 and up to 1.0, not {}", share->get());
      return share->get();
    }
    if (const auto* count = value.as_integer()) {
      if (count->get() < 1) throw fail(value, "want 1 channel or more, not {}", count->get());
      return count->get();
    }
    const toml::array* list = value.as_array();
    if (!list || list->empty())
      throw fail(value, "want a share as 0.5, a count as 8, or a list of channels as [0, 2, 3]");
    std::vector<int64_t> numbers;
    for (const toml::node& item : *list) {
      const auto* number = item.as_integer();
      if (!number || number->get() < 0) throw fail(item, "want the number of a channel, from 0");
      numbers.push_back(number->get());
    }
    std::sort(numbers.begin(), numbers.end());
    if (auto twice = std::adjacent_find(numbers.begin(), numbers.end()); twice != numbers.end())
      throw fail(value, "channel {} is there twice", *twice);
    return numbers;
  }

  int64_t rank(const toml::node& value) const {
    const auto* rank = value.as_integer();
    if (!rank) throw fail(value, "want a rank, a whole number from 1");
    if (rank->get() < 1 || rank->get() > kMostRank)
      throw fail(value, "{}", rank_wanted(std::to_string(rank->get())));
    return rank->get();
  }

  double alpha(const toml::node& value) const {
    const auto alpha = value.is_number() ? value.value<double>() : std::nullopt;
    if (!alpha) throw fail(value, "want a number as 16");
    if (!(*alpha >= 1e-6 && *alpha <= 1e6))
      throw fail(value, "alpha is a number from 1e-6 to 1e6, not {}", *alpha);
    return *alpha;
  }

  double dropout(const toml::node& value) const {
    const auto share = value.is_number() ? value.value<double>() : std::nullopt;
    if (!share) throw fail(value, "want a share as 0.1");
    if (!(*share >= 0 && *share < 1))
      throw fail(value, "dropout is a share from 0 to below 1, not {}", *share);
    return *share;
  }

  Scheme scheme_;
};

}  // namespace

Scheme parse_scheme(const std::string& toml, const std::string& file) { return File(toml, file).read(); }

Scheme load_scheme(const std::string& text) {
  Arguments arguments;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(':', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  const std::string name = arguments[0];
  arguments.erase(arguments.begin());
  for (const Preset& p : presets()) {
    if (name != p.name) continue;
    Scheme scheme{.name = text};
    try {
      if (arguments.size() < p.least || arguments.size() > p.most) throw error("want {}", p.form);
      p.make(arguments, &scheme);
    } catch (const Error& e) {
      throw error("--sparse-scheme {}: {}", text, e.what());
    }
    return scheme;
  }
  std::error_code code;
  if (!std::filesystem::exists(text, code))
    throw error("--sparse-scheme {}: there is no such file, and the presets are {}", text, preset_text());
  return parse_scheme(std::string(MappedFile(text).bytes()), text);
}

std::string preset_text() {
  std::string text;
  for (const Preset& p : presets()) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", p.form, p.doc);
  return text;
}

}  // namespace pock
