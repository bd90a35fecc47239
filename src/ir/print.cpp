#include "elements.h"
#include "lexer.h"
#include "pock/ir/text.h"
#include "pock/ops/op.h"

namespace pock {
namespace {

struct AttrText {
  std::string operator()(int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return number_text(v); }
  std::string operator()(const std::string& v) const { return quote(v); }
  std::string operator()(const std::vector<int64_t>& v) const { return to_string(v); }
};

std::string leaf_line(const Value* v, const Names& names) {
  const char* word = v->kind == ValueKind::constant ? "const" : to_string(v->kind);
  std::string line = fmt::format("{} {} : {}", word, names(v), to_string(v->type));
  if (v->trained) line += " trained";
  if (v->slice) line += fmt::format(" {{axis = {}, index = {}}}", v->slice->axis, to_string(v->slice->index));
  if (v->owner) {
    line += " of " + names(v->owner);
    if (v->kind == ValueKind::optimizer && v->name != v->owner->name + "." + v->slot)
      line += " slot " + quote(v->slot);
    if (v->initial != 0) line += fmt::format(" from {}", v->initial);
  }
  if (v->kind == ValueKind::constant && v->data && v->type.elements() <= kInlineElements) {
    auto texts = element_texts(v->type, *v->data);
    line += " = " + (v->type.dims.empty() ? texts[0] : fmt::format("[{}]", fmt::join(texts, ", ")));
  }
  return line;
}

std::string node_line(const Node* n, const Names& names, const PrintOptions& options) {
  auto list = [](const std::vector<Value*>& values, auto text) {
    std::vector<std::string> texts;
    for (const Value* v : values) texts.push_back(text(v));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  auto name = [&](const Value* v) { return names(v); };
  std::string line;
  if (n->op->has_effect()) {
    line = fmt::format("{} {} = {}", n->op->name.text, names(n->in(0)), names(n->in(1)));
    if (n->inputs().size() > 2) line += " at " + names(n->in(2));
  } else {
    line = fmt::format("{} = {}({})", list(n->results(), name), n->op->name.text, list(n->inputs(), name));
  }
  std::vector<std::string> attrs;
  for (const AttrDef& def : n->op->attrs) {
    auto it = n->attrs.find(def.name);
    if (it != n->attrs.end() && it->second != def.standard)
      attrs.push_back(fmt::format("{} = {}", def.name, std::visit(AttrText(), it->second)));
  }
  if (!attrs.empty()) line += fmt::format(" {{{}}}", fmt::join(attrs, ", "));
  if (!n->results().empty())
    line += " : " + list(n->results(), [](const Value* v) { return to_string(v->type); });
  if (n->in_place >= 0) line += n->in_place ? fmt::format(" in_place {}", n->in_place) : " in_place";
  if (n->recomputed) line += " recomputed";
  if (n->kernel) line += fmt::format(" kernel {}", n->kernel);
  if (options.locs && (!n->loc.name.empty() || !n->loc.op.empty())) {
    line += " @ " + quote(n->loc.name);
    if (!n->loc.op.empty()) line += " " + quote(n->loc.op);
  }
  return line;
}

}  // namespace

Names::Names(const Graph& g) {
  int constants = 0, results = 0;
  for (const Value* v : g.leaves()) {
    if (v->kind == ValueKind::constant && v->name.empty()) {
      std::string name;
      do name = fmt::format("const.{}", constants++);
      while (g.find(name));
      names_[v] = "%" + name;
    } else {
      names_[v] = value_name(v->name);
    }
  }
  for (const Node* n : g.nodes())
    for (const Value* v : n->results()) names_[v] = fmt::format("%{}", results++);
}

std::string print(const Graph& g, const PrintOptions& options) {
  Names names(g);
  std::string text = fmt::format("pock 1\ngraph @{} {{\n", bare_or_quoted(g.name));
  auto line = [&](const std::string& s) { text += "  " + s + "\n"; };
  if (!g.model_file.empty() || !g.model_hash.empty())
    line(fmt::format("model {} {} {}", quote(g.model_file), quote(g.model_hash), quote(g.producer)));
  for (const Value* v : g.leaves()) line(leaf_line(v, names));
  std::vector<Node*> nodes = g.nodes();
  size_t computing = nodes.size();
  while (computing > 0 && nodes[computing - 1]->op->has_effect()) --computing;
  for (size_t i = 0; i < computing; ++i) line(node_line(nodes[i], names, options));
  for (size_t i = 0; i < g.outputs().size(); ++i)
    line(fmt::format("output {}{}{}", names(g.outputs()[i]),
                     g.output_name(i).empty() ? "" : " " + quote(g.output_name(i)),
                     g.is_whole(i) ? " whole" : ""));
  for (size_t i = computing; i < nodes.size(); ++i) line(node_line(nodes[i], names, options));
  return text + "}\n";
}

}  // namespace pock
