#include <algorithm>

#include "detail.h"

namespace pock::loop {
namespace {

bool has_sums(const Stmt& s) {
  return (s.kind == StmtKind::loop && !s.independent) || std::any_of(s.body.begin(), s.body.end(), has_sums);
}

// Whether it is read by one of those behind.
bool is_read(const Buffer& b, const std::vector<Stmt>& body, size_t behind) {
  return std::any_of(body.begin() + static_cast<ptrdiff_t>(behind), body.end(),
                     [&](const Stmt& s) { return reads({s}, &b); });
}

// Whether it stores an element of a workspace in each iteration: it goes with the nest that reads them, to be a stage there.
bool fills(const Stmt& s) {
  const std::vector<Stmt> nest{s};
  const std::optional<Elements> e = elements(nest);
  return e &&
         std::count_if(
             e->body->begin(), e->body->end(),
             [](const Stmt& s) { return s.kind == StmtKind::store && s.buffer->space != Space::reg; }) == 1 &&
         std::any_of(e->body->begin(), e->body->end(), [](const Stmt& s) {
           return s.kind == StmtKind::store && s.buffer->space == Space::workspace;
         });
}

bool stores_for_others(const Stmt& s, const std::vector<Stmt>& body, size_t behind) {
  if (s.kind == StmtKind::store && s.buffer->space != Space::reg && is_read(*s.buffer, body, behind))
    return true;
  return std::any_of(s.body.begin(), s.body.end(),
                     [&](const Stmt& inner) { return stores_for_others(inner, body, behind); });
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
  for (size_t i = 0; i < body.size(); ++i)
    if (body[i].kind != StmtKind::loop || !body[i].independent ||
        (i + 1 < body.size() && !stores_for_others(body[i], body, i + 1)))
      return {k};
  if (body.empty() || std::none_of(body.begin(), body.end() - 1, has_sums)) return {k};
  std::vector<Kernel> nests;
  std::vector<Stmt> group;
  const std::vector<Stmt> once = around ? iteration(*around, 0) : body;
  for (size_t i = 0; i < body.size(); ++i) {
    group.push_back(once[i]);
    if (i + 1 < body.size() && fills(body[i])) continue;
    nests.push_back({k.name, k.args, std::exchange(group, {})});
  }
  return nests;
}

}  // namespace pock::loop
