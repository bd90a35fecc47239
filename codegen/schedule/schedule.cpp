// Schedules from the structure of the loops and the numbers of the target, for whole families of kernels at
// once.
//
// What a kernel computes is never asked. A nest without inner loops is pointwise; one whose innermost body
// holds lanes (`each`) reduces along the last axis; one with sums (`for`) is a contraction, a pooling or a
// reduction, told apart by which axes its loads share. Every choice is a list of steps that keep each
// element's arithmetic.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "pock/codegen/compile.h"
#include "schedule/nest.h"
#include "schedule/windows.h"

namespace pock {
namespace {

using loop::Step;
using loop::Stmt;
using loop::StmtKind;
using loop::trips;

// Work (operations and elements touched) below which waking threads costs more than it saves.
constexpr int64_t kWorthThreads = 1 << 15;
constexpr int64_t kWidestLanes = 16;    // loops as short as this become one vector
constexpr int64_t kMostSums = 1 << 14;  // floats that wait for their next tap
constexpr int64_t kLeastRows = 8;       // of a pointwise kernel, that share what depends on the column alone
constexpr int64_t kMostRows = 256;
constexpr int64_t kMostOnce = 2048;  // columns for which that is kept
constexpr int64_t kStaged =
    32 << 10;  // bytes that a stage makes together: they are in the nearest caches when read
constexpr int64_t kMostStaged = 64 << 10;  // and that it makes where it cannot be fewer
constexpr int64_t kMostColumns = 1024;     // whose sums wait side by side, while rows pass
constexpr int64_t kLeastRun =
    256;                           // columns of a thread: less of a row at a time is slow to come from memory
constexpr int kMemoryThreads = 2;  // take what memory gives: more of them do not make up for reading it again
// Iterations of a sum whose loads are turned into vectors together, and where that takes no turning.
constexpr int64_t kTurned = 8, kNeighbours = 4;
constexpr int64_t kBriefSum = 4;    // terms, with which a sum is no more work than its result
constexpr int64_t kLongSum = 32;    // terms, of which several are worth their code
constexpr int64_t kScalarTile = 4;  // sums kept apart where no vector fits, to hide an addition's latency

class Scheduler {
 public:
  // `parts`: of what is stored, in which it is read behind. `near`: whether sums may wait in memory near by, the stack.
  Scheduler(const loop::Kernel& k, const Target& t, const loop::Parts& parts, bool near)
      : plain_(k), target_(t), parts_(parts), near_(near), front_(nests_in_front(k)), now_(k) {}

  loop::Schedule run() {
    run_alone();
    threads();
    return steps_;
  }

  // On one thread.
  loop::Schedule run_alone() {
    if (plain_.body.size() == front_ + 1 && starts_nest(plain_.body.back())) {
      Nest nest = find_nest(plain_.body.back());
      if (!nest.independent && !nest.sequential)
        pointwise();
      else if (nest.independent)
        lanes(nest);
      else
        sums();
      for (size_t i = 0; i < front_; ++i) fill(plain_.body[i]);
    }
    return steps_;
  }

  bool fits_stack() const {
    return stack_bytes(now_.body) <= kMostStack || stack_bytes(loop::simplify(now_).body) <= kMostStack;
  }

 private:
  // Of registers, each once for every time that it is written out.
  static int64_t stack_bytes(const std::vector<Stmt>& body) {
    int64_t bytes = 0;
    for (const Stmt& s : body) {
      const bool written_out = s.mode == loop::LoopMode::unroll || s.mode == loop::LoopMode::vector;
      if (s.kind == StmtKind::reg) bytes += std::max(s.buffer->type.bytes(), s.buffer->type.elements());
      bytes += stack_bytes(s.body) * (written_out ? trips(s) : 1);
    }
    return bytes;
  }

  static bool starts_nest(const Stmt& s) {
    return s.kind == StmtKind::loop && s.independent && s.step == 1 && trips(s) > 0;
  }

  void add(Step::Kind kind, const std::string& axis, int64_t number = 0, const std::string& other = "") {
    steps_.push_back({kind, axis, number, other});
    now_ = loop::transformed(now_, {steps_.back()});
  }

  // Whether lanes along the axis are neighbours or one element, in memory; stores always neighbours.
  static bool contiguous(const Access& a, size_t axis) {
    return a.linear[axis] && (a.stride[axis] == 1 || (!a.store && a.stride[axis] == 0));
  }
  static bool contiguous(const std::vector<Access>& accesses, size_t axis) {
    return std::all_of(accesses.begin(), accesses.end(),
                       [&](const Access& a) { return contiguous(a, axis); });
  }

  // Cuts a loop into vectors of the widths given and, last, single elements. Returns the names of the
  // vectors' loops.
  std::vector<std::string> cut(std::string name, int64_t extent, const std::vector<int64_t>& widths) {
    std::vector<std::string> vectors;
    const std::string base = name;
    for (int64_t width : widths) {
      if (extent < width) continue;
      std::string rest = base + ".r" + std::to_string(vectors.size());
      add(Step::split, name, width, rest);
      vectors.push_back(name + ".i");
      extent %= width;
      name = rest;
    }
    return vectors;
  }

  // `most` lanes, then ever shorter ones.
  static std::vector<int64_t> widths(int64_t most) {
    std::vector<int64_t> list;
    for (int64_t w = most; w >= kLeastVector; w /= 2) list.push_back(w);
    return list;
  }

  // Does the steps, or where they say false leaves all as it was.
  template <class Steps>
  bool attempt(const Steps& steps) {
    const loop::Schedule before = steps_;
    const loop::Kernel kernel = now_;
    if (steps()) return true;
    steps_ = before;
    now_ = kernel;
    return false;
  }

  void pointwise() {
    cut_blocks();
    if (attempt([&] { return transpose(); })) return;
    const loop::Kernel cut = now_;
    in_order(find_nest(cut.body[front_]), false);
  }

  // Rows in the order of memory; what is the same for all of them is computed once, for a number of them or, where they
  // are `few`, for all.
  void in_order(const Nest& nest, bool few) {
    const size_t last = nest.axes.size() - 1;
    if (last == 1 && contiguous(nest.accesses, 1))
      attempt([&] {
        return few ? once(nest.axes[0].name, nest.axes[1]) : once_a_block(nest.axes[0], nest.axes[1]);
      });
    vectorize_axis(nest, last);
  }

  bool once_a_block(const Axis& rows, const Axis& columns) {
    const int64_t pieces = target_.threads > 1 ? 4 * target_.threads : 1;
    const int64_t most = std::min(kMostRows, rows.extent / pieces);
    if (most < kLeastRows) return false;
    add(Step::split, rows.name, rows_of(whole(rows), most), rows.name + ".r");
    return once(rows.name + ".i", columns);
  }

  bool once(const std::string& rows, const Axis& columns) {
    if (columns.extent < kLeastVector || columns.extent > kMostOnce) return false;
    add(Step::reorder, rows, 0, columns.name);
    if (!loop::hoistable(now_, columns.name)) return false;
    add(Step::hoist, columns.name);
    add(Step::sink, columns.name);
    return true;
  }

  // A nest that fills a workspace, in front of the one that reads it.
  void fill(const Stmt& filler) {
    const bool staged = stage(filled_by(filler)->name);
    const loop::Kernel placed = now_;
    in_order(find_nest(*loops_named(placed.body, filler.var->name).at(0)), staged);
  }

  // Moves what fills `z` to the outermost loop of what reads it, some iterations of that together. False where that is no
  // one loop or its parts are large: then the workspace stays, filled beforehand.
  bool stage(const std::string& z) {
    if (!near_ || now_.body.size() != nests_in_front(now_) + 1) return false;
    std::string at = outermost(now_.body.back());
    const int64_t bytes = at.empty() ? -1 : loop::staged_bytes(now_, at, z);
    if (bytes <= 0 || bytes > kMostStaged) return false;
    const int64_t all = whole({at, trips(*loops_named(now_.body, at).at(0)), nullptr});
    if (const int64_t together = divisor(all, std::min(kStaged / bytes, all / (4 * target_.threads)));
        together > 1) {
      add(Step::split, at, together);
      at += ".o";
    }
    add(Step::stage, at, 0, z);
    return true;
  }

  // The largest that is no more than `most`.
  static int64_t divisor(int64_t n, int64_t most) {
    int64_t found = std::max<int64_t>(most, 1);
    while (n % found) --found;
    return found;
  }

  // How many nests fill a workspace for the last one, with loops of their own names; 0 where others are among them.
  static size_t nests_in_front(const loop::Kernel& k) {
    for (size_t i = 0; i + 1 < k.body.size(); ++i) {
      if (!starts_nest(k.body[i]) || !filled_by(k.body[i])) return 0;
      for (const Axis& axis : find_nest(k.body[i]).axes)
        if (loops_named(k.body, axis.name).size() != 1) return 0;
    }
    return k.body.empty() ? 0 : k.body.size() - 1;
  }

  static const loop::Buffer* filled_by(const Stmt& nest) {
    for (const Stmt& s : nest.body) {
      if (s.kind == StmtKind::store && s.buffer->space == loop::Space::workspace) return s.buffer.get();
      if (const loop::Buffer* found = filled_by(s)) return found;
    }
    return nullptr;
  }

  // Where what is apart along the columns is side by side along rows: rows together, whose loads the code generator
  // turns.
  bool transpose() {
    const Nest nest = find_nest(now_.body[front_]);
    const size_t column = nest.axes.size() - 1, row = turned_row(nest, column);
    if (row == nest.axes.size()) return false;
    const std::vector<std::string> vectors = columns(nest, column, target_.vector_floats());
    sink_rows(nest.axes[row], target_.vector_floats());
    for (const std::string& v : vectors) {
      add(Step::sink, v);
      add(Step::vectorize, v);
    }
    return true;
  }

  // The axes' number if there is none.
  size_t turned_row(const Nest& nest, size_t column) const {
    const size_t none = nest.axes.size();
    if (contiguous(nest.accesses, column) || !stores_along(nest, column) ||
        nest.axes[column].extent < kLeastVector || clips(*nest.core, nest.axes[column].var.get()) ||
        std::any_of(plain_.args.begin(), plain_.args.end(),
                    [](const loop::BufferRef& b) { return b->type.dtype != DType::f32; }))
      return none;
    for (size_t row = 0; row < column; ++row)
      if (nest.axes[row].extent >= kLeastVector && tileable(nest, row) &&
          std::all_of(nest.accesses.begin(), nest.accesses.end(),
                      [&](const Access& a) { return contiguous(a, column) || a.stride[row] == 1; }))
        return row;
    return none;
  }

  void vectorize_axis(const Nest& nest, size_t axis) {
    if (!contiguous(nest.accesses, axis) || clips(*nest.core, nest.axes[axis].var.get())) return;
    for (const std::string& v :
         cut(nest.axes[axis].name, nest.axes[axis].extent, widths(target_.vector_floats())))
      add(Step::vectorize, v);
  }

  // Loops inside a row that run over lanes or elements of it. Where each lane would be written out they stay loops.
  void lanes(const Nest& nest) {
    if (!target_.vectors) return;
    std::set<std::string> names;
    inner_names(*nest.core, names);
    for (const std::string& name : names) {
      std::vector<const Stmt*> loops = loops_named(now_.body, name);
      int64_t longest = 0;
      bool fits = true;
      for (const Stmt* s : loops) {
        longest = std::max(longest, trips(*s));
        fits &= s->independent && trips(*s) > 0 && s->step == 1 &&
                contiguous(find_accesses(s->body, {s->var}), 0);
        fits &= std::none_of(s->body.begin(), s->body.end(), [](const Stmt& i) {
          return i.kind == StmtKind::loop || i.kind == StmtKind::when;
        });
      }
      if (!fits) continue;
      if (longest <= kWidestLanes) {
        add(Step::vectorize, name);
      } else if (loops.size() == 1) {
        for (const std::string& v : cut(name, longest, widths(target_.vector_floats())))
          add(Step::vectorize, v);
      }
    }
  }

  static void inner_names(const std::vector<Stmt>& body, std::set<std::string>& names) {
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::loop && s.independent) names.insert(s.var->name);
      inner_names(s.body, names);
    }
  }

  // Sums in registers: a tile of rows (elements that share a vector load) by vectors.
  void sums() {
    follow_memory();
    const loop::Kernel ordered = now_;
    const Nest nest = find_nest(ordered.body[front_]);
    const size_t none = nest.axes.size();
    size_t column = none;
    for (size_t axis = none; axis-- > 0 && column == none;)
      if (nest.axes[axis].extent >= kLeastVector && stores_along(nest, axis)) column = axis;
    if (column != none) {
      const loop::Schedule steps = window_steps(ordered, nest, column, target_, near_);
      for (const Step& s : steps) add(s.kind, s.axis, s.number, s.other);
      if (!steps.empty()) return;
    }
    size_t row = column == none ? none : sharing_axis(nest, column);
    const std::string turned = column == none ? "" : turned_sum(nest, column);
    if (column != none && turned.empty() && !worth_vectors(nest, column, row)) column = row = none;
    if (column == none) return scalar_tile(nest);
    if (contiguous(nest.accesses, column) && !clips(*nest.core, nest.axes[column].var.get())) {
      if (row == none && clipped_axis(nest, column) == none && stream(nest, column)) return;
      const bool brief = most_terms(*nest.core) <= kBriefSum;
      int64_t wide = width(nest.axes[column].extent, brief);
      if (row == none && clipped_axis(nest, column) == none)
        if (const Stmt* sum = only_sum(nest))
          wide = std::min(wide, most_vectors(*sum, nest.axes[column]) * target_.vector_floats());
      std::string name = nest.axes[column].name;
      if (wide < nest.axes[column].extent) {
        add(Step::split, name, wide);
        name += ".i";
      }
      const int64_t most = target_.tile.rows * target_.tile.cols / vectors_of(wide);
      // Of a brief sum, memory in its order is worth more than loads that rows share.
      if (row != none && !brief)
        sink_rows(nest.axes[row], most);
      else if (size_t axis = clipped_axis(nest, column); row == none && axis != none)
        clipped_rows(nest, axis, most, wide);
      sink_columns(name, wide);
      chunks();
      unroll_terms();
      return;
    }
    const bool neighbours = row != none && contiguous(nest.accesses, column);
    const bool wide =
        neighbours || (row == none && !turned.empty());  // or each product waits for the one before
    std::vector<std::string> vectors = columns(nest, column, (wide ? 2 : 1) * target_.vector_floats());
    if (vectors.empty()) return scalar_tile(nest);
    if (!turned.empty()) {
      add(Step::split, turned, turned_terms());
      add(Step::unroll, turned + ".i");
    }
    if (row != none) sink_rows(nest.axes[row], target_.tile.rows * (turned.empty() ? 1 : target_.tile.cols));
    for (const std::string& v : vectors) {
      add(Step::sink, v);
      add(Step::vectorize, v);
    }
  }

  // Sums of sums over more than the cache holds: a part goes over several tiles before the next one comes, and what the
  // tiles have so far waits near by. As many tiles as leave enough for the threads, or at least for two.
  void chunks() {
    if (!near_ || now_.body.size() != front_ + 1 || !starts_nest(now_.body[front_])) return;
    const Nest nest = find_nest(now_.body[front_]);
    size_t axis = nest.axes.size() - 1;
    while (axis > 0 && nest.axes[axis].extent == 1) --axis;
    const Axis& tiles = nest.axes[axis];
    const auto part = std::find_if(nest.core->begin(), nest.core->end(), [](const Stmt& s) {
      return s.kind == StmtKind::loop && !s.independent &&
             std::any_of(s.body.begin(), s.body.end(), [](const Stmt& b) { return b.kind == StmtKind::reg; });
    });
    if (part == nest.core->end() || loop::cost(plain_).bytes <= target_.cache ||
        uses(part->lo, tiles.var.get()) || uses(part->hi, tiles.var.get()))
      return;
    int64_t held = 0, others = 1;
    for (auto at = nest.core->begin(); at != part; ++at)
      if (at->kind == StmtKind::reg) held += at->buffer->type.elements();
    for (const Axis& a : nest.axes)
      if (a.var != tiles.var) others *= a.extent;
    const auto tiles_of_thread = [&](int threads) {
      const int64_t pieces = (threads + others - 1) / others;
      return std::min(tiles.extent / pieces, kMostSums / std::max<int64_t>(held, 1));
    };
    int64_t most = tiles_of_thread(target_.threads);
    if (most < 2) most = tiles_of_thread(std::min(target_.threads, kMemoryThreads));
    if (most < 2) return;
    const std::string sum = part->var->name;
    std::string name = tiles.name;
    for (size_t once = axis + 1; once < nest.axes.size(); ++once)
      add(Step::reorder, name, 0, nest.axes[once].name);
    if (const int64_t n = rows_of(tiles.extent, most); n < tiles.extent) {
      add(Step::split, name, n);
      name += ".i";
    }
    add(Step::interchange, name, 0, sum);
  }

  // Columns in registers.
  void sink_columns(const std::string& name, int64_t extent) {
    add(Step::sink, name);
    for (const std::string& v : cut(name, extent, widths(target_.vector_floats()))) {
      add(Step::vectorize, v);
      const std::string outer = v.substr(0, v.size() - 2) + ".o";
      add(Step::unroll, outer);
    }
  }

  // Sums over rows that are read once. The columns are taken together, so that memory is read in its order: their sums
  // are in registers as far as these go, and where the rows do not fit the cache wait in memory near by. False where
  // something else is summed up or blocks of columns are as good.
  bool stream(const Nest& nest, size_t column) {
    const Stmt* sum = only_sum(nest);
    if (!sum || trips(*sum) < 2) return false;
    const Axis columns = nest.axes[column];
    const bool fits = vectors_of(columns.extent) <= most_vectors(*sum, columns);
    if (!fits && (!near_ || loop::cost(plain_).bytes <= target_.cache)) return false;
    if (loop::hoistable(now_, columns.name)) add(Step::hoist, columns.name);
    if (fits) {
      sink_columns(columns.name, columns.extent);
      return true;
    }
    std::string name = columns.name;
    int64_t extent = columns.extent;
    if (int64_t pieces = pieces_of(extent); pieces > 1) {
      const int64_t lanes = target_.vector_floats();
      extent = (extent / pieces + lanes - 1) / lanes * lanes;
      add(Step::split, name, extent);
      name += ".i";
    }
    add(Step::sink, name);
    for (const std::string& v : cut(name, extent, widths(target_.vector_floats()))) add(Step::vectorize, v);
    return true;
  }

  static const Stmt* only_sum(const Nest& nest) {
    std::vector<const Stmt*> sums;
    innermost_sums(*nest.core, sums);
    return sums.size() == 1 ? sums[0] : nullptr;
  }

  // How many terms the longest sum has.
  static int64_t most_terms(const std::vector<Stmt>& body) {
    int64_t most = 1;
    for (const Stmt& s : body) {
      if (s.kind != StmtKind::loop || s.independent) continue;
      const int64_t own = trips(s) < 0 ? kBriefSum + 1 : trips(s);
      most = std::max(most, std::min(own, kBriefSum + 1) * most_terms(s.body));
    }
    return most;
  }

  static void innermost_sums(const std::vector<Stmt>& body, std::vector<const Stmt*>& found) {
    for (const Stmt& s : body) {
      const bool inner = std::any_of(s.body.begin(), s.body.end(), [](const Stmt& b) {
        return b.kind == StmtKind::loop || b.kind == StmtKind::when;
      });
      if (s.kind == StmtKind::loop && !inner) found.push_back(&s);
      innermost_sums(s.body, found);
    }
  }

  // How many registers a row takes, those of its narrower end and of single elements too.
  int64_t vectors_of(int64_t extent) const {
    int64_t vectors = 0;
    for (int64_t width : widths(target_.vector_floats())) {
      vectors += extent / width;
      extent %= width;
    }
    return vectors + extent;
  }

  // How many vectors of columns a sum may go over at once: each keeps its sums in registers, and what the loop reads of
  // the column alone. Fewer than a tile has: here loads and what is made of them are many.
  int64_t most_vectors(const Stmt& sum, const Axis& column) const {
    const int64_t sums = sums_of(sum), most = target_.tile.rows * target_.tile.cols;
    return std::max<int64_t>(
        1, std::min(most * 2 / 3 / std::max<int64_t>(sums, 1), most / (sums + operands_of(sum, column))));
  }

  // The values that a loop reads and that depend on nothing but the column.
  static int64_t operands_of(const Stmt& sum, const Axis& column) {
    std::set<const loop::Buffer*> stored, found;
    for (const Stmt& s : sum.body)
      if (s.kind == StmtKind::store || s.kind == StmtKind::reg) stored.insert(s.buffer.get());
    std::function<bool(const loop::Expr&)> of_column = [&](const loop::Expr& e) {
      if (e->op == loop::ScalarOp::var) return e->var == column.var;
      return std::all_of(e->args.begin(), e->args.end(), of_column);
    };
    std::function<void(const loop::Expr&)> look = [&](const loop::Expr& e) {
      if (e->op == loop::ScalarOp::load && !stored.count(e->buffer.get()) &&
          std::all_of(e->args.begin(), e->args.end(), of_column))
        found.insert(e->buffer.get());
      for (const loop::Expr& a : e->args) look(a);
    };
    for (const Stmt& s : sum.body)
      if (s.value.get()) look(s.value);
    return std::ssize(found);
  }

  // How many registers a loop stores into that outlive it.
  static int64_t sums_of(const Stmt& sum) {
    std::set<const loop::Buffer*> stored, own;
    for (const Stmt& s : sum.body)
      if (s.kind == StmtKind::store || s.kind == StmtKind::reg)
        (s.kind == StmtKind::store ? stored : own).insert(s.buffer.get());
    return std::count_if(stored.begin(), stored.end(), [&](const loop::Buffer* b) { return !own.count(b); });
  }

  // Into how many pieces the columns are cut: as few as hold their sums, and one a thread where those are long enough;
  // even ones if there are.
  int64_t pieces_of(int64_t columns) const {
    const int64_t least = std::max((columns + kMostColumns - 1) / kMostColumns,
                                   std::min<int64_t>(target_.threads, columns / kLeastRun));
    for (int64_t n = least; n < 2 * least; ++n)
      if (columns % (n * target_.vector_floats()) == 0) return n;
    return least;
  }

  // The innermost axis along which a load stays that moves along `column`, where it decides how far loops go.
  static size_t clipped_axis(const Nest& nest, size_t column) {
    for (size_t axis = nest.axes.size(); axis-- > 0;) {
      if (axis == column || nest.axes[axis].extent < 2 || !clips(*nest.core, nest.axes[axis].var.get()))
        continue;
      for (const Access& a : nest.accesses)
        if (!a.store && a.stride[column] != 0 && a.stride[axis] == 0) return axis;
    }
    return nest.axes.size();
  }

  // Rows along an axis that clips the taps of its elements: every tap goes over the elements that have it, whose sums
  // wait in memory near by. Where those would be many, the few elements at the edges are left to themselves.
  void clipped_rows(const Nest& nest, size_t axis, int64_t most, int64_t columns) {
    const std::string& name = nest.axes[axis].name;
    const int64_t extent = nest.axes[axis].extent, rows = even_rows(extent, most);
    if (near_ && extent * columns <= kMostSums) {
      if (rows == extent) return taps(nest, axis);
      if (attempt([&] { return slide(nest, axis, rows); })) return;
    }
    add(Step::peel, name);
    const std::vector<const Stmt*> interior = loops_named(now_.body, name + ".m");
    if (interior.size() != 1 || clips(interior[0]->body, interior[0]->var.get())) return;
    sink_rows({name + ".m", trips(*interior[0]), interior[0]->var}, most);
  }

  // Where all of them are one tile.
  void taps(const Nest& nest, size_t axis) {
    move_inwards(nest, axis);
    for (const Step::Kind kind : {Step::taps, Step::sink, Step::unroll}) add(kind, nest.axes[axis].name);
  }

  // False where no loop can go over all taps.
  bool slide(const Nest& nest, size_t axis, int64_t rows) {
    const std::string& name = nest.axes[axis].name;
    move_inwards(nest, axis);
    add(Step::slide, name, rows);
    if (loops_named(now_.body, name + ".i").empty()) return false;
    add(Step::sink, name + ".i");
    add(Step::unroll, name + ".i");
    return true;
  }

  void move_inwards(const Nest& nest, size_t axis) {
    const std::string& name = nest.axes[axis].name;
    for (size_t inner = axis + 1; inner < nest.axes.size(); ++inner)
      if (loops_named(now_.body, nest.axes[inner].name).size() == 1 &&
          directly_inside(name, nest.axes[inner].name))
        add(Step::reorder, name, 0, nest.axes[inner].name);
  }

  bool directly_inside(const std::string& outer, const std::string& inner) const {
    const std::vector<const Stmt*> loops = loops_named(now_.body, outer);
    return loops.size() == 1 && loops[0]->body.size() == 1 && loops[0]->body[0].kind == StmtKind::loop &&
           loops[0]->body[0].var->name == inner && loops[0]->body[0].independent;
  }

  // As many as make tiles of one height, nearly.
  static int64_t even_rows(int64_t extent, int64_t most) {
    const int64_t tiles = (extent + most - 1) / most;
    return (extent + tiles - 1) / tiles;
  }

  // How many columns a tile has: all of them where they are few, else whole vectors that leave no remainder; or as many
  // as there can be.
  int64_t width(int64_t extent, bool widest) const {
    const int64_t vector = target_.vector_floats(), most = target_.tile.widest * vector;
    if (extent <= most) return extent;
    if (widest) return most;
    for (int64_t w : {3 * vector, 4 * vector, 2 * vector, vector})
      if (w <= most && extent % w == 0) return w;
    return std::min(3 * vector, most);
  }

  // Sums whose loops take several terms at a time, so that less of the work is to count them.
  void unroll_terms() {
    if (target_.tile.terms < 2) return;
    std::set<std::string> names;
    innermost_terms(now_.body[front_].body, names);
    for (const std::string& name : names) {
      const std::vector<const Stmt*> loops = loops_named(now_.body, name);
      if (!std::all_of(loops.begin(), loops.end(), [&](const Stmt* s) {
            return !s->independent && s->step == 1 && trips(*s) >= kLongSum &&
                   trips(*s) % target_.tile.terms == 0;
          }))
        continue;
      add(Step::split, name, target_.tile.terms);
      add(Step::unroll, name + ".i");
    }
  }

  // The names of `for` loops without another one inside. Whether there is any.
  static bool innermost_terms(const std::vector<Stmt>& body, std::set<std::string>& names) {
    bool any = false;
    for (const Stmt& s : body) {
      const bool inside = innermost_terms(s.body, names);
      const bool own = s.kind == StmtKind::loop && !s.independent;
      if (own && !inside) names.insert(s.var->name);
      any |= own || inside;
    }
    return any;
  }

  // Loops in the order of the results in memory, cut where a layout cuts an axis; neighbours that are one axis in
  // memory become one.
  void follow_memory() {
    cut_blocks();
    for (bool again = true; again;) {
      again = false;
      const Nest nest = find_nest(now_.body[front_]);
      for (size_t axis = 0; axis + 1 < nest.axes.size() && !again; ++axis)
        if (stored_stride(nest, axis) < stored_stride(nest, axis + 1)) {
          add(Step::reorder, nest.axes[axis].name, 0, nest.axes[axis + 1].name);
          again = true;
        }
    }
    for (bool again = true; again;) {
      again = false;
      const Nest nest = find_nest(now_.body[front_]);
      for (size_t axis = 0; axis + 1 < nest.axes.size() && !again; ++axis)
        if (loop::mergeable(now_, nest.axes[axis].name, nest.axes[axis + 1].name)) {
          add(Step::merge, nest.axes[axis].name, 0, nest.axes[axis + 1].name);
          again = true;
        }
    }
  }

  void cut_blocks() {
    for (const Axis& axis : find_nest(now_.body[front_]).axes)
      if (int64_t size = block(now_.body, axis.var);
          size > 1 && axis.extent > size && axis.extent % size == 0)
        add(Step::split, axis.name, size);
  }

  static int64_t stored_stride(const Nest& nest, size_t axis) {
    for (const Access& a : nest.accesses)
      if (a.store) return a.linear[axis] ? a.stride[axis] : 0;
    return 0;
  }

  // The blocks that an index cuts the loop's axis into; 0 where none does.
  static int64_t block(const std::vector<Stmt>& body, const loop::VarRef& v) {
    int64_t found = 0;
    std::function<void(const loop::Expr&)> look = [&](const loop::Expr& e) {
      const bool division = e->op == loop::ScalarOp::floordiv || e->op == loop::ScalarOp::mod;
      if (division && e->args[0]->op == loop::ScalarOp::var && e->args[0]->var == v)
        found = e->args[1]->integer;
      for (const loop::Expr& a : e->args) look(a);
    };
    for (const Stmt& s : body) {
      for (const loop::Expr* e : {&s.lo, &s.hi, &s.value})
        if (e->get()) look(*e);
      for (const loop::Expr& e : s.index) look(e);
      if (int64_t inside = block(s.body, v)) found = inside;
    }
    return found;
  }

  static bool stores_along(const Nest& nest, size_t axis) {
    return std::all_of(nest.accesses.begin(), nest.accesses.end(),
                       [&](const Access& a) { return a.linear[axis] && (!a.store || a.stride[axis] == 1); });
  }

  // Loads with gaps between the lanes cost as many scalar loads: worth it only where a tile of rows shares
  // them.
  static bool worth_vectors(const Nest& nest, size_t column, size_t row) {
    return std::all_of(nest.accesses.begin(), nest.accesses.end(), [&](const Access& a) {
      return contiguous(a, column) ||
             (row < nest.axes.size() && a.stride[row] == 0 && nest.axes[row].extent >= 4);
    });
  }

  int64_t turned_terms() const { return target_.vectors ? kTurned : kNeighbours; }

  // The innermost sum, where all that is apart along `column` is side by side along it: the code generator loads
  // blocks of both and turns them. Empty if there is none.
  std::string turned_sum(const Nest& nest, size_t column) const {
    std::vector<const Stmt*> sums;
    innermost_sums(*nest.core, sums);
    if (contiguous(nest.accesses, column) || sums.size() != 1 || trips(*sums[0]) < turned_terms() ||
        sums[0]->step != 1 || loops_named(now_.body, sums[0]->var->name).size() != 1)
      return "";
    const std::vector<Access> along = find_accesses(*nest.core, {sums[0]->var});
    for (size_t i = 0; i < along.size(); ++i)
      if (!contiguous(nest.accesses[i], column) &&
          (along[i].store || !along[i].linear[0] || along[i].stride[0] != 1))
        return "";
    return sums[0]->var->name;
  }

  // An axis along which a load stays that moves along `column`; the axes' number if there is none.
  static size_t sharing_axis(const Nest& nest, size_t column) {
    for (size_t axis = nest.axes.size(); axis-- > 0;) {
      if (axis == column || nest.axes[axis].extent < 2 || !tileable(nest, axis)) continue;
      for (const Access& a : nest.accesses)
        if (!a.store && a.stride[column] != 0 && a.stride[axis] == 0) return axis;
    }
    return nest.axes.size();
  }

  static bool tileable(const Nest& nest, size_t axis) {
    return !clips(*nest.core, nest.axes[axis].var.get()) &&
           std::all_of(nest.accesses.begin(), nest.accesses.end(),
                       [&](const Access& a) { return bool(a.linear[axis]); });
  }

  std::vector<std::string> columns(const Nest& nest, size_t column, int64_t widest) {
    std::string name = nest.axes[column].name;
    int64_t extent = nest.axes[column].extent;
    if (clips(*nest.core, nest.axes[column].var.get())) {
      loop::Kernel before = now_;
      add(Step::peel, name);
      const Stmt& interior = *loops_named(now_.body, name + ".m").at(0);
      extent = trips(interior);
      if (extent < kLeastVector || clips(interior.body, interior.var.get())) {
        steps_.pop_back();
        now_ = std::move(before);
        return {};
      }
      name += ".m";
    }
    return cut(name, extent, widths(widest));
  }

  // Of how many iterations of an outermost loop blocks may be: of those of a part, where there are parts.
  int64_t whole(const Axis& axis) const {
    const int64_t own = parts_.all / axis.extent;
    return parts_.elements && own * axis.extent == parts_.all && parts_.elements % own == 0
               ? std::gcd(axis.extent, parts_.elements / own)
               : axis.extent;
  }

  // A divisor of the extent where a large one is near: a remainder is a second copy of the code.
  static int64_t rows_of(int64_t extent, int64_t most) {
    for (int64_t n = most; 2 * n > most; --n)
      if (extent % n == 0) return n;
    return std::min(extent, most);
  }

  void sink_rows(const Axis& axis, int64_t most) {
    add(Step::split, axis.name, rows_of(axis.extent, most));
    add(Step::sink, axis.name + ".i");
    add(Step::unroll, axis.name + ".i");
  }

  // One or two of the outermost axes whose loads are shared.
  void scalar_tile(const Nest& nest) {
    int tiled = 0;
    for (const Axis& axis : nest.axes) {
      size_t i = static_cast<size_t>(&axis - nest.axes.data());
      if (tiled == 2 || axis.extent < 2 || !tileable(nest, i)) continue;
      bool shares = std::any_of(nest.accesses.begin(), nest.accesses.end(),
                                [&](const Access& a) { return !a.store && a.stride[i] == 0; });
      if (!shares && i + 1 != nest.axes.size()) continue;
      sink_rows(axis, kScalarTile);
      ++tiled;
    }
  }

  // Outermost loops over threads, fused until there is enough to share out.
  void threads() {
    loop::Cost cost = loop::cost(plain_);
    if (cost.flop + cost.bytes / 4 < kWorthThreads) return;
    std::set<std::string> done;
    for (size_t i = 0; i < now_.body.size(); ++i) {
      std::string name = outermost(now_.body[i]);
      if (name.empty() || !done.insert(name).second) continue;
      if (loops_named(now_.body, name).size() != 1) continue;
      fuse_until_enough(name);
      if (writes_apart(*loops_named(now_.body, name)[0])) add(Step::parallel, name);
    }
  }

  // The first loop that runs more than once, past those that do not.
  static std::string outermost(const Stmt& s) {
    const Stmt* at = &s;
    while (at->kind == StmtKind::loop && at->independent && trips(*at) == 1 && at->body.size() == 1)
      at = &at->body[0];
    bool usable =
        at->kind == StmtKind::loop && at->independent && trips(*at) > 1 && at->mode == loop::LoopMode::plain;
    return usable ? at->var->name : "";
  }

  void fuse_until_enough(const std::string& name) {
    const int64_t enough = 4 * target_.threads;
    for (;;) {
      const Stmt& s = *loops_named(now_.body, name)[0];
      if (trips(s) >= enough || s.body.size() != 1) return;
      const Stmt& inner = s.body[0];
      if (inner.kind != StmtKind::loop || !inner.independent || inner.mode != loop::LoopMode::plain) return;
      if (trips(inner) < 1 || uses(inner.lo, s.var.get()) || uses(inner.hi, s.var.get())) return;
      add(Step::fuse, name, 0, std::string(inner.var->name));
    }
  }

  // Threads must not share a byte of a mask: its last index moves by whole bytes.
  static bool writes_apart(const Stmt& parallel) { return writes_apart(parallel.body, parallel.var.get()); }
  static bool writes_apart(const std::vector<Stmt>& body, const loop::Var* v) {
    return std::all_of(body.begin(), body.end(), [&](const Stmt& s) {
      if (s.kind == StmtKind::store && s.buffer->type.dtype == DType::mask && !s.index.empty() &&
          uses(s.index.back(), v) && !whole_bytes(s.index.back(), v))
        return false;
      return writes_apart(s.body, v);
    });
  }
  static bool whole_bytes(const loop::Expr& e, const loop::Var* v) {
    if (!uses(e, v)) return true;
    if (e->op == loop::ScalarOp::add || e->op == loop::ScalarOp::sub)
      return whole_bytes(e->args[0], v) && whole_bytes(e->args[1], v);
    return e->op == loop::ScalarOp::mul && e->args[1]->op == loop::ScalarOp::constant &&
           e->args[1]->integer % 8 == 0;
  }

  const loop::Kernel& plain_;
  const Target& target_;
  const loop::Parts parts_;
  const bool near_;
  const size_t front_;  // nests that fill a workspace for the last one
  loop::Schedule steps_;
  loop::Kernel now_;  // after steps_
};

loop::Schedule schedule_of(const loop::Kernel& k, const Target& t, const loop::Parts& parts) {
  // What waits beside each sum, such as values of the nodes behind it, is known only in the end.
  Scheduler scheduler(k, t, parts, true);
  const loop::Schedule steps = scheduler.run();
  return scheduler.fits_stack() ? steps : Scheduler(k, t, parts, false).run();
}

// A nest whose outermost loop goes over parts, each of which a cache holds.
loop::Schedule schedule_parts(const loop::Kernel& k, const Target& t) {
  const Stmt& parts = k.body.back();
  const loop::Kernel one{k.name, k.args, loop::iteration(parts, 0)};
  loop::Schedule steps = Scheduler(one, t, {}, false).run_alone();
  steps.push_back({Step::parallel, parts.var->name});
  return steps;
}

// Moves the parts to the nest in front, whose outermost loops become one where that takes it.
void go_beside(const loop::Kernel& k, const std::string& part, loop::Schedule& steps) {
  loop::Schedule tried = steps;
  for (;;) {
    const loop::Kernel now = loop::transformed(k, tried);
    const auto at = std::find_if(now.body.begin(), now.body.end(), [&](const Stmt& s) {
      return s.kind == StmtKind::loop && s.var->name == part;
    });
    if (at == now.body.begin() || at == now.body.end() || (at - 1)->kind != StmtKind::loop) return;
    const Stmt& first = *(at - 1);
    if (loop::go_beside(now, part, first.var->name)) {
      steps = std::move(tried);
      steps.push_back({Step::beside, part, 0, first.var->name});
      return;
    }
    if (first.body.size() != 1) return;
    const Stmt& inner = first.body[0];
    if (inner.kind != StmtKind::loop || !inner.independent || inner.mode != loop::LoopMode::plain ||
        trips(inner) < 1 || uses(inner.lo, first.var.get()) || uses(inner.hi, first.var.get()))
      return;
    tried.push_back({Step::fuse, first.var->name, 0, inner.var->name});
  }
}

}  // namespace

loop::Schedule schedule_for(const loop::Kernel& k, const Target& t) {
  const std::vector<loop::Kernel> nests = loop::nests_apart(k);
  loop::Schedule steps;
  std::vector<std::string> parts;
  for (size_t i = 0; i < nests.size(); ++i) {
    const bool is_parts = i > 0 && loop::parts_read(nests[i - 1], nests[i]).elements;
    if (is_parts) parts.push_back(nests[i].body.back().var->name);
    const loop::Schedule own =
        is_parts
            ? schedule_parts(nests[i], t)
            : schedule_of(nests[i], t,
                          i + 1 < nests.size() ? loop::parts_read(nests[i], nests[i + 1]) : loop::Parts{});
    steps.insert(steps.end(), own.begin(), own.end());
  }
  for (const std::string& part : parts) go_beside(k, part, steps);
  return steps;
}

}  // namespace pock
