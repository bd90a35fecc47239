#include <algorithm>

#include "detail.h"

namespace pock::loop {
namespace {

bool has_sums(const Stmt& s) {
  return (s.kind == StmtKind::loop && !s.independent) || std::any_of(s.body.begin(), s.body.end(), has_sums);
}

// Whether it stores into workspace alone.
bool fills(const Stmt& s) {
  if (s.kind == StmtKind::store && s.buffer->space != Space::workspace && s.buffer->space != Space::reg)
    return false;
  return std::all_of(s.body.begin(), s.body.end(), fills);
}

}  // namespace

const Stmt* repeated(const Kernel& k) {
  if (k.body.size() != 1) return nullptr;
  const Stmt& s = k.body[0];
  const bool counts =
      s.kind == StmtKind::loop && !s.independent && s.step == 1 && is_constant(s.lo, 0) && trips(s) > 0;
  const bool holds_loops = std::all_of(s.body.begin(), s.body.end(),
                                       [](const Stmt& inner) { return inner.kind == StmtKind::loop; });
  return counts && holds_loops ? &s : nullptr;
}

std::vector<Kernel> nests_apart(const Kernel& k) {
  const Stmt* around = repeated(k);
  const std::vector<Stmt>& body = around ? around->body : k.body;
  const auto is_nest = [](const Stmt& s) { return s.kind == StmtKind::loop && s.independent; };
  if (body.empty() || !std::all_of(body.begin(), body.end(), is_nest) ||
      !std::all_of(body.begin(), body.end() - 1, fills) ||
      std::none_of(body.begin(), body.end() - 1, has_sums))
    return {k};
  std::vector<Kernel> nests;
  for (const Stmt& s : body)
    nests.push_back(
        {k.name, k.args, around ? copy({s}, {{{around->var.get(), Expr(0)}}, {}}) : std::vector{s}});
  return nests;
}

}  // namespace pock::loop
