// Decides for each dropout whether it drops in training, and says what was chosen. In inference none does.
#include <algorithm>
#include <charconv>
#include <set>

#include "pock/ops/op.h"
#include "pock/passes/passes.h"

namespace pock {

DropoutRule parse_dropout_rule(const std::string& text) {
  auto [pattern, wanted] = split_rule(text);
  if (wanted == "on") return {pattern, true, {}};
  if (wanted == "off") return {pattern, false, {}};
  double ratio = 0;
  const char* end = wanted.data() + wanted.size();
  auto [stop, problem] = std::from_chars(wanted.data(), end, ratio);
  if (problem != std::errc{} || stop != end || !(ratio >= 0 && ratio <= 1))
    throw error("--dropout '{}': want on, off or a ratio from 0 to 1", text);
  return {pattern, true, ratio};
}

namespace {

bool is_dropout(const Node* n) { return std::string_view(n->op->name) == "dropout"; }

// What --dropout says, or else the file.
struct Decision {
  bool on;
  double ratio;
  bool asked = false;

  bool drops() const { return on && ratio > 0; }
};
Decision choose(const Node& n, const PassOptions& options) {
  Decision d{n.integer("active") != 0, n.number("ratio")};
  for (const DropoutRule& rule : options.dropouts)
    if (glob_match(rule.pattern, n.loc.name)) d = {rule.on, rule.ratio.value_or(n.number("ratio")), true};
  return d;
}

// x with elements dropped, from the words that all dropouts share.
Value* dropped(Graph& g, Node* n, double ratio, std::vector<Value*>& words) {
  if (words.empty())
    for (const char* name : kRandomWords) words.push_back(g.add_scalar(name, DType::i32));
  Builder b(g, n->loc, n);
  Value* x = n->in(0);
  Value* y = b.value("dropout_train", {b.reshape(x, {x->type.elements()}), words[0], words[1], words[2]},
                     {{"ratio", ratio}, {"id", n->integer("id")}});
  return b.reshape(y, x->type.dims);
}

// How many drop and how many do not, and of these how many only because the file says so.
struct Counts {
  int on = 0, off = 0, by_file = 0;
  double least = 1, most = 0;

  void add(const Node& n, const Decision& c) {
    if (c.drops()) {
      ++on;
      least = std::min(least, c.ratio);
      most = std::max(most, c.ratio);
    } else {
      ++off;
      by_file += !c.asked && n.number("ratio") > 0;
    }
  }

  std::string text() const {
    std::vector<std::string> parts;
    if (on)
      parts.push_back(
          fmt::format("{} on (ratio {}{})", on, least, least < most ? fmt::format(" to {}", most) : ""));
    if (off) parts.push_back(fmt::format("{} off", off));
    std::string hint = "; the file is for inference, --dropout on turns it on all the same";
    return fmt::format("dropout: {}{}", fmt::join(parts, ", "), by_file ? hint : "");
  }
};

}  // namespace

int dropout(Graph& g, const PassOptions& options) {
  Report report;
  for (const DropoutRule& rule : options.dropouts) {
    bool hit = false;
    for (const Node* n : g.nodes()) hit |= is_dropout(n) && glob_match(rule.pattern, n->loc.name);
    if (!hit) report.add(fmt::format("--dropout '{}': the model has no dropout of this name", rule.pattern));
  }
  report.throw_if_any();
  std::vector<Value*> words;
  Counts counts;
  std::set<int64_t> counted;  // a dropout and its mask share an id
  for (Node* n : g.nodes()) {
    if (!is_dropout(n)) continue;
    Decision decision = choose(*n, options);
    if (counted.insert(n->integer("id")).second) counts.add(*n, decision);
    bool drops = decision.drops() && !options.inference;
    g.replace_uses(n->out(), drops ? dropped(g, n, decision.ratio, words) : n->in(0));
    g.erase(n);
  }
  int count = counts.on + counts.off;
  if (count && !options.inference) say(counts.text());
  return count;
}

}  // namespace pock
