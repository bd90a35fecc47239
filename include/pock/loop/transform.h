// A schedule is data: a list of small rewrites of a kernel, each of which keeps the arithmetic of every
// element.
//
//   Schedule s = {split("i", 6), split("j", 16), sink("i.i"), sink("j.i"), unroll("i.i"), vectorize("j.i"),
//                 parallel("i.o")};
//   Kernel fast = loop::apply(plain, s);
//   to_string(s) == "split(i,6) split(j,16) sink(i.i) sink(j.i) unroll(i.i) vectorize(j.i) parallel(i.o)"
//
// A loop is named by its variable; where several loops share the name (after a remainder was split off, or
// stages that iterate alike) the step applies to all of them.
#pragma once

#include <optional>

#include "pock/loop/loop.h"

namespace pock::loop {

struct Step {
  enum Kind : uint8_t {
    split,  // each i: i.o over blocks of n, and i.i in 0..n; what is left over becomes a second, smaller
            // loop behind it, called `other` or else i.i as well
    fuse,   // each i directly around each j: one loop i over both
    merge,  // each i directly around each j, whose every access has them as neighbours i,j: one loop i and one
            // axis of those buffers; likewise the loops that fill a workspace among these along that axis
    reorder,  // each i directly around each j: j around i
    hoist,  // each i: what the loops inside compute from i alone is computed once in front of them, into registers
    sink,  // each i into its body: around every statement, inside the loops there; registers get an axis
    taps,  // as sink, but no further than to a `for` loop whose bounds depend on i: there each of its iterations
           // goes over those i that take part in it; and past a condition on i where it holds for all of them
    slide,  // as taps, those i in blocks of n as split has them, where one loop goes over all iterations that have as many
            // whole blocks
    interchange,  // each i around a `for` j among other statements: j around i, in front of it and behind it i alone;
                  // what registers hold from one to the next gets an axis in front
    stage,  // the nest in front that fills the workspace `other` moves into the body of i, where each iteration makes
            // what it reads of that, in a register buffer of that size
    beside,  // each i right behind each `other`, of which it reads what is stored: each iteration of i runs those of
             // `other` that store what it reads first
    peel,       // each i: the range where every clipped bound inside stays the same becomes a loop i.m
    unroll,     // constant extent
    vectorize,  // each i of constant extent
    parallel    // each i, outermost
  } kind;
  std::string axis;
  int64_t number = 0;  // split, slide: n
  std::string other;   // fuse, merge, reorder, interchange, beside: j; stage: the buffer
};
using Schedule = std::vector<Step>;

std::string to_string(const Schedule&);
Schedule parse_schedule(const std::string&);
// Throws std::logic_error where a step does not apply. (Say loop::apply: a Schedule is a std::vector, and std
// has an `apply` as well.)
Kernel apply(const Kernel&, const Schedule&);
// The same without the simplification that follows the last step: loops that run once keep their names.
Kernel transformed(const Kernel&, const Schedule&);

// Two kernels as one, which takes the arguments of both; none where their structure does not allow it. The arguments
// named hold the same elements in the same order, axes of one element aside; forward() and drop() then make a register
// of what need not be stored.
//
// `second`, `each` loops around a body without loops, runs that body for an element as soon as `first` has stored it
// (in `each` loops, by its only store to `stored`); `with` is what `second` reads or stores at its loops' own index.
std::optional<Kernel> append(const Kernel& first, const BufferRef& stored, const Kernel& second,
                             const BufferRef& with);
// `first`, `each` loops around a body without loops, runs that body for an element wherever `second` loads it.
std::optional<Kernel> prepend(const Kernel& first, const BufferRef& stored, const Kernel& second,
                              const BufferRef& loaded);
// `first`, `each` loops around a body without loops, runs in front of `second`; a workspace in the place of both arguments
// holds what it makes.
std::optional<Kernel> in_front(const Kernel& first, const BufferRef& stored, const Kernel& second,
                               const BufferRef& loaded);
// `second`, `each` loops around one `for` loop over all of `loaded`, runs behind `first` in two nests: what each iteration of
// the `for` loop makes of the elements that it reads goes into workspaces, and then what they hand on to each other. The
// step beside moves the first of them into `first`.
std::optional<Kernel> behind(const Kernel& first, const BufferRef& stored, const Kernel& second,
                             const BufferRef& loaded);
// Every load of `loaded` stands behind a store of the same element to `stored`, and takes it from a register instead;
// `loaded` is no argument any more.
std::optional<Kernel> forward(Kernel, const BufferRef& stored, const BufferRef& loaded);
Kernel drop(Kernel, const BufferRef& stored);  // stores nothing there

// Index simplification with the ranges of the enclosing loop variables, over a whole kernel.
Kernel simplify(const Kernel&);
// What schedules ask. How much a unit step of `v` moves the expression, if that is the same everywhere.
bool linear_stride(const Expr&, const VarRef& v, int64_t* stride);
// Structural equality; variables and buffers are compared by identity.
bool same(const Expr&, const Expr&);
// Whether the variable occurs, in indices of loads too.
bool uses(const Expr&, const Var*);
// Whether a bound or condition inside depends on the variable.
bool clips(const std::vector<Stmt>& body, const Var*);
// Whether merge(i,j) applies.
bool mergeable(const Kernel&, const std::string& i, const std::string& j);
// merge() for all neighbours among the loops around everything, where it applies.
Kernel merged(Kernel);
// Whether hoist(i) applies.
bool hoistable(const Kernel&, const std::string& i);
// The most bytes that stage(i,z) gives an iteration, or -1 where it does not apply.
int64_t staged_bytes(const Kernel&, const std::string& i, const std::string& z);
// How many elements of the buffer a result sums up, where every load has along each axis a loop over all of it, so that
// results along other axes read other elements; else 0.
int64_t row_elements(const Kernel&, const BufferRef&);
// Parts of what a nest stores: how many elements an iteration of the outermost loop of the nest behind reads, each of them
// others in this order, and how many there are in all. None where that reads nothing of it, or not so.
struct Parts {
  int64_t elements = 0, all = 0;
};
Parts parts_read(const Kernel& first, const Kernel& second);
// Whether beside(part,i) applies.
bool go_beside(const Kernel&, const std::string& part, const std::string& i);
// A kernel of each nest, where some of them sum up what others fill; of a repeated kernel as the first time has it. Else
// the kernel.
std::vector<Kernel> nests_apart(const Kernel&);
// The body of a loop as iteration `i` has it.
std::vector<Stmt> iteration(const Stmt& loop, int64_t i);
// Iterations of a loop, or -1 where their number is not constant.
int64_t trips(const Stmt&);
// exp, log, tanh, erf, pow in terms of the other operations (math.cpp).
Expr expand_math(const Expr&);

}  // namespace pock::loop
