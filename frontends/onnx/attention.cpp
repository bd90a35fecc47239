#include "attention.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>

#include "shapes.h"

namespace pock::onnx_frontend {
namespace {

Value* part(Call& c, Value* x, int64_t axis, int64_t start, int64_t end) {
  if (start == 0 && end == x->type.dims[axis]) return x;
  return c.value("slice", {x}, {{"axis", axis}, {"start", start}, {"end", end}});
}

// [N,T,heads*D] as [N,T,heads,D].
Value* with_heads(Call& c, Value* x, int64_t heads, const char* attribute) {
  const Dims& d = x->type.dims;
  if (heads < 1 || d[2] % heads != 0)
    throw c.fail("{} elements do not divide into '{}'={} heads", d[2], attribute, heads);
  return c.reshape(x, {d[0], d[1], heads, d[2] / heads});
}

}  // namespace

// ---- Rotary embedding: pairs of elements turned by angles of their position

void rotary_embedding(Call& c, const char*) {
  Value* x = c.in(0);
  const Dims whole = x->type.dims;
  const int64_t heads = c.integer("num_heads", 0), interleaved = c.flag("interleaved", false);
  if (whole.size() != 3 && whole.size() != 4)
    throw c.fail("the input has rank {}, but wants [N,heads,T,D] or [N,T,heads*D]", whole.size());
  const bool flat = whole.size() == 3;
  if (flat) x = with_heads(c, x, heads, "num_heads");
  const Dims d = x->type.dims;
  const int64_t steps = flat ? d[1] : d[2];
  int64_t turned = c.integer("rotary_embedding_dim", 0);
  if (turned == 0) turned = d[3];
  if (turned < 2 || turned % 2 || turned > d[3])
    throw c.fail("{} of {} elements of a head are to be turned", turned, d[3]);

  // The cosines and sines of [N,T], beside the axis of heads.
  auto table = [&](int i) {
    Value* t = c.in(i);
    if (c.has(3)) {
      if (t->type.rank() != 2 || c.shape(3) != Dims{d[0], steps})
        throw c.fail("positions of shape {} and a table of shape {} do not fit {}", to_string(c.shape(3)),
                     to_string(t->type.dims), to_string(whole));
      Value* at = c.reshape(c.whole(3), {d[0] * steps});
      t = c.reshape(c.value("gather", {t, at}, {{"axis", int64_t{0}}}), {d[0], steps, t->type.dim(1)});
    }
    if (t->type.dims != Dims{d[0], steps, turned / 2})
      throw c.fail("a table for [N,T] is {}, not {}", to_string(t->type.dims),
                   to_string(Dims{d[0], steps, turned / 2}));
    return c.reshape(t, flat ? Dims{d[0], steps, 1, turned / 2} : Dims{d[0], 1, steps, turned / 2});
  };
  Value *cosines = table(1), *sines = table(2);

  Value *rotated = part(c, x, 3, 0, turned), *a = nullptr, *b = nullptr;
  Dims half = d;
  half[3] = turned / 2;
  if (interleaved) {
    Dims pairs = half;
    pairs.push_back(2);
    Value* p = c.reshape(rotated, pairs);
    a = c.reshape(part(c, p, 4, 0, 1), half);
    b = c.reshape(part(c, p, 4, 1, 2), half);
  } else {
    a = part(c, rotated, 3, 0, turned / 2);
    b = part(c, rotated, 3, turned / 2, turned);
  }
  Value* first = c.value("sub", {c.value("mul", {a, cosines}), c.value("mul", {b, sines})});
  Value* second = c.value("add", {c.value("mul", {a, sines}), c.value("mul", {b, cosines})});
  Value* y = nullptr;
  if (interleaved) {
    Dims alone = half;
    alone.push_back(1);
    y = c.value("concat", {c.reshape(first, alone), c.reshape(second, alone)}, {{"axis", int64_t{4}}});
    half[3] = turned;
    y = c.reshape(y, half);
  } else {
    y = c.value("concat", {first, second}, {{"axis", int64_t{3}}});
  }
  if (turned < d[3]) y = c.value("concat", {y, part(c, x, 3, turned, d[3])}, {{"axis", int64_t{3}}});
  c.out(0, c.reshape(y, whole));
}

// ---- Attention

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Heads {
  Value* x;  // [N,heads,T,D]
  int64_t count() const { return x->type.dims[1]; }
  int64_t steps() const { return x->type.dims[2]; }
  int64_t size() const { return x->type.dims[3]; }
};

Heads heads_of(Call& c, int i, const char* attribute) {
  Value* x = c.in(i);
  if (x->type.rank() == 4) return {x};
  if (x->type.rank() != 3)
    throw c.fail("input {} has rank {}, but wants [N,heads,T,D] or [N,T,heads*D]", i, x->type.rank());
  return {c.transpose(with_heads(c, x, c.integer(attribute, 0), attribute), {0, 2, 1, 3})};
}

// Scores are [N,kv heads,query heads of each,T,S]: a mask that broadcasts to [N,query heads,T,S] among them.
Value* grouped(Call& c, Value* mask, const Dims& scores) {
  Dims d = mask->type.dims;
  if (d.size() < 2 || d.size() > 4) throw c.fail("the mask has rank {}, but wants 2 to 4", d.size());
  d.insert(d.begin(), 4 - d.size(), 1);
  const Dims whole{scores[0], scores[1] * scores[2], scores[3], scores[4]};
  for (size_t i = 0; i < d.size(); ++i)
    if (d[i] != 1 && d[i] != whole[i])
      throw c.fail("the mask {} does not broadcast to the scores {}", to_string(mask->type),
                   to_string(whole));
  const bool apart = d[1] != 1;
  return c.reshape(mask, {d[0], apart ? scores[1] : 1, apart ? scores[2] : 1, d[2], d[3]});
}

Value* masked(Call& c, Value* scores, Value* keep) {
  return c.value("where_positive", {keep, scores, c.number_value(static_cast<float>(-kInfinity))});
}

Value* causal_mask(Call& c, int64_t queries, int64_t keys) {
  need_listable(c, {queries, keys});
  std::vector<float> keep;
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) keep.push_back(j <= i);
  return c.scope().graph.add_constant({DType::f32, {queries, keys}}, make_data(keep));
}

}  // namespace

void attention(Call& c, const char*) {
  if (c.has(4) || c.has(5) || c.has(6))
    throw c.fail("has keys and values of a cache, which only inference step by step has; export without it");
  Heads q = heads_of(c, 0, "q_num_heads"), k = heads_of(c, 1, "kv_num_heads"),
        v = heads_of(c, 2, "kv_num_heads");
  for (const char* name : {"q_num_heads", "kv_num_heads"}) c.integer(name, 0);
  c.integer("softmax_precision", 1);
  c.integer("qk_matmul_output_mode", 0);  // of an output that is not supported
  const int64_t batch = q.x->type.dims[0], groups = k.count();
  if (q.count() % groups || v.count() != groups || k.size() != q.size() || k.steps() != v.steps() ||
      k.x->type.dims[0] != batch || v.x->type.dims[0] != batch)
    throw c.fail("queries {}, keys {} and values {} do not fit", to_string(q.x->type), to_string(k.x->type),
                 to_string(v.x->type));
  const int64_t each = q.count() / groups;
  auto shared = [&](const Heads& h) { return c.reshape(h.x, {batch, groups, 1, h.steps(), h.size()}); };
  const double scale = c.number("scale", static_cast<float>(1 / std::sqrt(static_cast<double>(q.size()))));
  const float cap = c.number("softcap", 0);
  const bool causal = c.flag("is_causal", false);
  if (cap != 0 && (causal || c.has(3)))
    throw c.fail("a softcap beside a mask is not supported: exporters do not agree on which comes first");

  Value* queries = c.reshape(q.x, {batch, groups, each, q.steps(), q.size()});
  Value* scores = c.value("matmul", {queries, shared(k)}, {{"transpose_b", int64_t{1}}});
  scores = c.value("mul", {scores, c.number_value(static_cast<float>(scale))});
  if (c.has(3)) {
    const bool truth = c.element_type(3) == onnx::TensorProto::BOOL;
    Value* mask = grouped(c, truth ? c.truth(3) : c.in(3), scores->type.dims);
    scores = truth ? masked(c, scores, mask) : c.value("add", {scores, mask});
  }
  if (causal) scores = masked(c, scores, causal_mask(c, q.steps(), k.steps()));
  if (cap != 0) {
    Value* bound = c.number_value(cap);
    scores = c.value("mul", {bound, c.value("tanh", {c.value("div", {scores, bound})})});
  }
  Value* y = c.value("matmul", {c.value("softmax", {scores}), shared(v)});
  y = c.reshape(y, {batch, q.count(), q.steps(), v.size()});
  if (c.shape(0).size() == 3)
    y = c.reshape(c.transpose(y, {0, 2, 1, 3}), {batch, q.steps(), q.count() * v.size()});
  c.out(0, y);
}

// ---- Sums of products by the names of axes

namespace {

struct Named {
  Value* x;
  std::string axes;  // a letter each
  int64_t length(char axis) const { return x->type.dims[axes.find(axis)]; }
};

bool has(const std::string& axes, char axis) { return axes.find(axis) != std::string::npos; }

constexpr std::string_view kEllipsis = "...";

// The axes that an ellipsis stands for, named by digits from the right; `count` of them.
std::string with_digits(const std::string& axes, int64_t count) {
  const size_t at = axes.find(kEllipsis);
  if (at == std::string::npos) return axes;
  std::string digits;
  while (count > 0) digits += static_cast<char>('0' + --count);
  return axes.substr(0, at) + digits + axes.substr(at + kEllipsis.size());
}

// Without the axes of an ellipsis along which another term has more than this one's single place.
Named without_broadcast(Call& c, const Named& n, const std::vector<Named>& terms) {
  std::string kept;
  Dims dims;
  for (char axis : n.axes) {
    const bool repeated = std::isdigit(axis) && n.length(axis) == 1 &&
                          std::any_of(terms.begin(), terms.end(), [&](const Named& t) {
                            return has(t.axes, axis) && t.length(axis) != 1;
                          });
    if (repeated) continue;
    kept += axis;
    dims.push_back(n.length(axis));
  }
  return {c.reshape(n.x, dims), kept};
}

// Sums over axes of its own that nothing asks for.
Named without_unused(Call& c, Named n, const std::string& used) {
  std::vector<int64_t> axes;
  std::string kept;
  for (size_t i = 0; i < n.axes.size(); ++i) {
    if (has(used, n.axes[i]))
      kept += n.axes[i];
    else
      axes.push_back(static_cast<int64_t>(i));
  }
  if (!axes.empty()) n.x = c.value("reduce_sum", {n.x}, {{"axes", axes}, {"keep", int64_t{0}}});
  return {n.x, kept};
}

Value* in_order(Call& c, const Named& n, const std::string& order) {
  std::vector<int64_t> permutation;
  for (char axis : order) permutation.push_back(static_cast<int64_t>(n.axes.find(axis)));
  return std::is_sorted(permutation.begin(), permutation.end()) ? n.x : c.transpose(n.x, permutation);
}

int64_t length_of(const Named& n, const std::string& axes) {
  int64_t product = 1;
  for (char axis : axes) product *= n.length(axis);
  return product;
}

// As a product of matrices: axes of both that stay are in front.
Named product(Call& c, const Named& a, const Named& b, const std::string& result) {
  std::string both, summed, left, right;
  for (char axis : a.axes) (has(b.axes, axis) ? has(result, axis) ? both : summed : left) += axis;
  for (char axis : b.axes)
    if (!has(a.axes, axis)) right += axis;
  const int64_t batch = length_of(a, both), sum = length_of(a, summed);
  Value* x = c.reshape(in_order(c, a, both + left + summed), {batch, length_of(a, left), sum});
  Value* y = c.reshape(in_order(c, b, both + summed + right), {batch, sum, length_of(b, right)});
  Value* z = c.value("matmul", {x, y});
  Dims dims;
  for (char axis : both + left) dims.push_back(a.length(axis));
  for (char axis : right) dims.push_back(b.length(axis));
  return {c.reshape(z, dims), both + left + right};
}

}  // namespace

void einsum(Call& c, const char*) {
  if (!c.attribute("equation")) throw Error(c.loc(), "attribute 'equation' is missing");
  std::string text = c.string("equation", "");
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  auto unsupported = [&](const char* what) {
    return c.fail("equation '{}' {}, which is not supported", text, what);
  };
  if (arrow == std::string::npos) throw unsupported("names no result");
  if (std::count(text.begin(), text.begin() + arrow, ',') + 1 != c.inputs())
    throw c.fail("equation '{}' does not have {} term{}", text, c.inputs(), c.inputs() == 1 ? "" : "s");
  std::string result = text.substr(arrow + 2);
  auto letters = [&](const std::string& axes) {
    std::string rest = axes;
    if (size_t dots = rest.find(kEllipsis); dots != std::string::npos) rest.erase(dots, kEllipsis.size());
    if (!std::all_of(rest.begin(), rest.end(), [](unsigned char axis) { return std::isalpha(axis); }))
      throw unsupported("names axes by other than letters and one ellipsis");
  };
  letters(result);
  std::vector<Named> terms;
  size_t at = 0;
  int64_t unnamed = 0;  // axes of an ellipsis
  for (int i = 0; i < c.inputs(); ++i) {
    size_t end = std::min(text.find(',', at), arrow);
    Named n{c.in(i), text.substr(at, end - at)};
    at = end + 1;
    letters(n.axes);
    if (n.axes.find(kEllipsis) != std::string::npos) {
      const int64_t more = n.x->type.rank() - (std::ssize(n.axes) - std::ssize(kEllipsis));
      if (more > 10) throw unsupported("has an ellipsis of more than ten axes");
      if (result.find(kEllipsis) == std::string::npos)
        throw unsupported("has an ellipsis that its result lacks");
      n.axes = with_digits(n.axes, more);
      unnamed = std::max(unnamed, more);
    }
    if (n.x->type.rank() != std::ssize(n.axes))
      throw c.fail("equation '{}' names {} axes of input {}, which has {}", text, n.axes.size(), i,
                   n.x->type.rank());
    for (char axis : n.axes) {
      if (std::count(n.axes.begin(), n.axes.end(), axis) > 1)
        throw unsupported("names an axis twice in a term");
      for (const Named& other : terms)
        if (has(other.axes, axis) && other.length(axis) != n.length(axis) &&
            !(std::isdigit(axis) && std::min(other.length(axis), n.length(axis)) == 1))
          throw c.fail("axis '{}' of equation '{}' is {} and {} long", axis, text, other.length(axis),
                       n.length(axis));
    }
    terms.push_back(n);
  }
  if (terms.size() > 2) throw unsupported("has more than two terms");
  result = with_digits(result, unnamed);
  std::vector<Named> whole;
  whole.swap(terms);
  for (const Named& n : whole) terms.push_back(without_broadcast(c, n, whole));
  std::string all;
  for (const Named& n : terms) all += n.axes;
  for (char axis : result)
    if (!has(all, axis) || std::count(result.begin(), result.end(), axis) > 1)
      throw c.fail("equation '{}' names axis '{}' of the result, which {}", text, axis,
                   has(all, axis) ? "it does twice" : "no term has");
  Named y = without_unused(c, terms[0], result + (terms.size() > 1 ? terms[1].axes : ""));
  if (terms.size() > 1) y = product(c, y, without_unused(c, terms[1], result + y.axes), result);
  c.out(0, in_order(c, y, result));
}

// ---- Channels that become pixels, and back

namespace {

int64_t block_of(Call& c) {
  const int64_t block = c.integer("blocksize");
  if (c.shape(0).size() != 4) throw c.fail("the input has rank {}, but wants [N,C,H,W]", c.shape(0).size());
  if (block < 1) throw c.fail("attribute 'blocksize' is {}", block);
  return block;
}

}  // namespace

void depth_to_space(Call& c, const char*) {
  Value* x = c.any(0);
  const int64_t b = block_of(c);
  const Dims d = x->type.dims;
  const std::string mode = c.since >= 11 ? c.string("mode", "DCR") : "DCR";
  if (d[1] % b || d[1] / b % b) throw c.fail("{} channels do not divide into blocks of {} by {}", d[1], b, b);
  if (mode != "DCR" && mode != "CRD") throw c.fail("attribute 'mode' is '{}'; there are DCR and CRD", mode);
  const int64_t channels = d[1] / b / b;
  const bool blocks_first = mode == "DCR";
  Value* y = c.reshape(
      x, blocks_first ? Dims{d[0], b, b, channels, d[2], d[3]} : Dims{d[0], channels, b, b, d[2], d[3]});
  y = c.transpose(
      y, blocks_first ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
  c.out(0, c.reshape(y, {d[0], channels, d[2] * b, d[3] * b}));
}

void space_to_depth(Call& c, const char*) {
  Value* x = c.any(0);
  const int64_t b = block_of(c);
  const Dims d = x->type.dims;
  if (d[2] % b || d[3] % b)
    throw c.fail("an image of {} by {} does not divide into blocks of {}", d[2], d[3], b);
  Value* y = c.reshape(x, {d[0], d[1], d[2] / b, b, d[3] / b, b});
  c.out(0, c.reshape(c.transpose(y, {0, 3, 5, 1, 2, 4}), {d[0], d[1] * b * b, d[2] / b, d[3] / b}));
}

}  // namespace pock::onnx_frontend
