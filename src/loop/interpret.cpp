#include "pock/loop/interpret.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "bytecode.h"
#include "pock/support/diag.h"

#if defined(__x86_64__)
#include <immintrin.h>
// fma as one instruction where the machine has it, else the library's (equally exact, far slower).
#define POCK_FMA __attribute__((target("avx2,fma")))
#endif

namespace pock::loop {

#if defined(__x86_64__)
namespace {
constexpr unsigned kFlushMask = 0x8040;     // FTZ and DAZ
constexpr unsigned kRoundingMask = 0x6000;  // zero: to nearest
}  // namespace
FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) {
  _mm_setcsr((saved_ | kFlushMask) & ~kRoundingMask);
}
FlushDenormals::~FlushDenormals() { _mm_setcsr((_mm_getcsr() & 0x3f) | (saved_ & ~0x3fu)); }
#elif defined(__aarch64__)
FlushDenormals::FlushDenormals() {
  uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  saved_ = static_cast<unsigned>(fpcr);
  asm volatile("msr fpcr, %0" ::"r"((fpcr | (1u << 24)) & ~uint64_t{0xc00000}));
}
FlushDenormals::~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(uint64_t{saved_})); }
#else
#error "pock's interpreter needs to know how this machine flushes denormals"
#endif

namespace {

struct Memory {
  std::byte* data;
  int64_t elements, last;
};

[[noreturn]] void out_of_bounds(int64_t element, const Memory& m) {
  POCK_CHECK(false, "element {} of a buffer of {}", element, m.elements);
  std::abort();
}

template <class T>
T& element(Memory* memories, const Instruction& i, const Slot* s) {
  const Memory& m = memories[i.c];
  int64_t at = s[i.a].i + s[i.b].i * i.imm;
  if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(m.elements)) [[unlikely]]
    out_of_bounds(at, m);
  return reinterpret_cast<T*>(m.data)[at];
}

std::pair<uint8_t*, int> bit(Memory* memories, const Instruction& i, const Slot* s) {
  const Memory& m = memories[i.c];
  int64_t at = s[i.a].i * ((m.last + 7) / 8) + s[i.b].i / 8;
  if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(m.elements)) [[unlikely]]
    out_of_bounds(at, m);
  return {reinterpret_cast<uint8_t*>(m.data) + at, static_cast<int>(s[i.b].i % 8)};
}

// The slot's member for values of a type.
template <class T>
T& as(Slot& s) {
  if constexpr (std::is_same_v<T, float>)
    return s.f;
  else
    return s.d;
}

template <class T>
T lesser(T a, T b) {
  return a < b || a != a ? a : b;
}
template <class T>
T greater(T a, T b) {
  return a > b || a != a ? a : b;
}

template <class T>
int64_t saturate(T v, int64_t lowest, int64_t highest) {
  if (v != v) return 0;
  if (v >= static_cast<T>(highest)) return highest;  // highest + 1 for the wide types: still the bound
  if (v <= static_cast<T>(lowest)) return lowest;
  return static_cast<int64_t>(v);
}

// Every operation on floats of one type, in the order of ScalarOp.
#define POCK_FLOAT_CODES(suffix, T)                                              \
  case Code::add_##suffix:                                                       \
    as<T>(s[i->dst]) = as<T>(s[i->a]) + as<T>(s[i->b]);                          \
    break;                                                                       \
  case Code::sub_##suffix:                                                       \
    as<T>(s[i->dst]) = as<T>(s[i->a]) - as<T>(s[i->b]);                          \
    break;                                                                       \
  case Code::mul_##suffix:                                                       \
    as<T>(s[i->dst]) = as<T>(s[i->a]) * as<T>(s[i->b]);                          \
    break;                                                                       \
  case Code::div_##suffix:                                                       \
    as<T>(s[i->dst]) = as<T>(s[i->a]) / as<T>(s[i->b]);                          \
    break;                                                                       \
  case Code::neg_##suffix:                                                       \
    as<T>(s[i->dst]) = -as<T>(s[i->a]);                                          \
    break;                                                                       \
  case Code::abs_##suffix:                                                       \
    as<T>(s[i->dst]) = std::abs(as<T>(s[i->a]));                                 \
    break;                                                                       \
  case Code::min_##suffix:                                                       \
    as<T>(s[i->dst]) = lesser(as<T>(s[i->a]), as<T>(s[i->b]));                   \
    break;                                                                       \
  case Code::max_##suffix:                                                       \
    as<T>(s[i->dst]) = greater(as<T>(s[i->a]), as<T>(s[i->b]));                  \
    break;                                                                       \
  case Code::fma_##suffix:                                                       \
    as<T>(s[i->dst]) = std::fma(as<T>(s[i->a]), as<T>(s[i->b]), as<T>(s[i->c])); \
    break;                                                                       \
  case Code::sqrt_##suffix:                                                      \
    as<T>(s[i->dst]) = std::sqrt(as<T>(s[i->a]));                                \
    break;                                                                       \
  case Code::round_##suffix:                                                     \
    as<T>(s[i->dst]) = std::nearbyint(as<T>(s[i->a]));                           \
    break;                                                                       \
  case Code::exp_##suffix:                                                       \
    as<T>(s[i->dst]) = std::exp(as<T>(s[i->a]));                                 \
    break;                                                                       \
  case Code::log_##suffix:                                                       \
    as<T>(s[i->dst]) = std::log(as<T>(s[i->a]));                                 \
    break;                                                                       \
  case Code::tanh_##suffix:                                                      \
    as<T>(s[i->dst]) = std::tanh(as<T>(s[i->a]));                                \
    break;                                                                       \
  case Code::erf_##suffix:                                                       \
    as<T>(s[i->dst]) = std::erf(as<T>(s[i->a]));                                 \
    break;                                                                       \
  case Code::sin_##suffix:                                                       \
    as<T>(s[i->dst]) = std::sin(as<T>(s[i->a]));                                 \
    break;                                                                       \
  case Code::cos_##suffix:                                                       \
    as<T>(s[i->dst]) = std::cos(as<T>(s[i->a]));                                 \
    break;                                                                       \
  case Code::pow_##suffix:                                                       \
    as<T>(s[i->dst]) = std::pow(as<T>(s[i->a]), as<T>(s[i->b]));                 \
    break;                                                                       \
  case Code::lt_##suffix:                                                        \
    s[i->dst].i = as<T>(s[i->a]) < as<T>(s[i->b]);                               \
    break;                                                                       \
  case Code::le_##suffix:                                                        \
    s[i->dst].i = as<T>(s[i->a]) <= as<T>(s[i->b]);                              \
    break;                                                                       \
  case Code::eq_##suffix:                                                        \
    s[i->dst].i = as<T>(s[i->a]) == as<T>(s[i->b]);                              \
    break;                                                                       \
  case Code::ne_##suffix:                                                        \
    s[i->dst].i = as<T>(s[i->a]) != as<T>(s[i->b]);                              \
    break;

#define POCK_INT(name, expression)                         \
  case Code::name: {                                       \
    [[maybe_unused]] int64_t a = s[i->a].i, b = s[i->b].i; \
    s[i->dst].i = static_cast<int64_t>(expression);        \
    break;                                                 \
  }
#define POCK_UNSIGNED(op) static_cast<uint64_t>(a) op static_cast<uint64_t>(b)

#define POCK_ELEMENT(suffix, T, member)                             \
  case Code::load_##suffix:                                         \
    s[i->dst].member = element<T>(memories, *i, s);                 \
    break;                                                          \
  case Code::store_##suffix:                                        \
    element<T>(memories, *i, s) = static_cast<T>(s[i->dst].member); \
    break;

// Runs until halt, or to where threads meet. One body, compiled twice: see below.
#define POCK_RUN                                                                                     \
  for (;; ++i) {                                                                                     \
    switch (i->code) {                                                                               \
      case Code::halt:                                                                               \
      case Code::threads:                                                                            \
      case Code::barrier:                                                                            \
        return i;                                                                                    \
      case Code::move:                                                                               \
        s[i->dst] = s[i->a];                                                                         \
        break;                                                                                       \
        POCK_INT(add_i, POCK_UNSIGNED(+))                                                            \
        POCK_INT(sub_i, POCK_UNSIGNED(-))                                                            \
        POCK_INT(mul_i, POCK_UNSIGNED(*))                                                            \
        POCK_INT(scale_add, a + static_cast<uint64_t>(b) * static_cast<uint64_t>(i->imm))            \
        POCK_INT(neg_i, -static_cast<uint64_t>(a))                                                   \
        POCK_INT(abs_i, a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a))                \
        POCK_INT(min_i, a < b ? a : b)                                                               \
        POCK_INT(max_i, a > b ? a : b)                                                               \
        POCK_INT(floordiv, a / i->imm - (a % i->imm < 0))                                            \
        POCK_INT(mod, a % i->imm + (a % i->imm < 0 ? i->imm : 0))                                    \
        POCK_INT(lt_i, a < b)                                                                        \
        POCK_INT(le_i, a <= b)                                                                       \
        POCK_INT(eq_i, a == b)                                                                       \
        POCK_INT(ne_i, a != b)                                                                       \
        POCK_INT(bit_and, a& b)                                                                      \
        POCK_INT(bit_or, a | b)                                                                      \
        POCK_INT(bit_xor, a ^ b)                                                                     \
        POCK_INT(logical_not, !a)                                                                    \
        POCK_INT(shl, static_cast<uint64_t>(a) << (b & 63))                                          \
        POCK_INT(shr, a >> (b & 63))                                                                 \
        POCK_INT(wrap_i8, static_cast<int8_t>(a))                                                    \
        POCK_INT(wrap_u8, static_cast<uint8_t>(a))                                                   \
        POCK_INT(wrap_i32, static_cast<int32_t>(a))                                                  \
        POCK_FLOAT_CODES(r, float)                                                                   \
        POCK_FLOAT_CODES(d, double)                                                                  \
      case Code::select:                                                                             \
        s[i->dst] = s[i->a].i ? s[i->b] : s[i->c];                                                   \
        break;                                                                                       \
      case Code::i_to_r:                                                                             \
        s[i->dst].f = static_cast<float>(s[i->a].i);                                                 \
        break;                                                                                       \
      case Code::i_to_d:                                                                             \
        s[i->dst].d = static_cast<double>(s[i->a].i);                                                \
        break;                                                                                       \
      case Code::r_to_d:                                                                             \
        s[i->dst].d = s[i->a].f;                                                                     \
        break;                                                                                       \
      case Code::d_to_r:                                                                             \
        s[i->dst].f = static_cast<float>(s[i->a].d);                                                 \
        break;                                                                                       \
      case Code::r_to_i:                                                                             \
        s[i->dst].i = saturate(s[i->a].f, i->imm, s[i->c].i);                                        \
        break;                                                                                       \
      case Code::d_to_i:                                                                             \
        s[i->dst].i = saturate(s[i->a].d, i->imm, s[i->c].i);                                        \
        break;                                                                                       \
      case Code::bits_to_r:                                                                          \
        s[i->dst].f = std::bit_cast<float>(static_cast<int32_t>(s[i->a].i));                         \
        break;                                                                                       \
      case Code::r_to_bits:                                                                          \
        s[i->dst].i = std::bit_cast<int32_t>(s[i->a].f);                                             \
        break;                                                                                       \
        POCK_ELEMENT(r, float, f)                                                                    \
        POCK_ELEMENT(f64, double, d)                                                                 \
        POCK_ELEMENT(i8, int8_t, i)                                                                  \
        POCK_ELEMENT(u8, uint8_t, i)                                                                 \
        POCK_ELEMENT(i32, int32_t, i)                                                                \
        POCK_ELEMENT(i64, int64_t, i)                                                                \
      case Code::load_mask: {                                                                        \
        auto [byte, at] = bit(memories, *i, s);                                                      \
        s[i->dst].i = *byte >> at & 1;                                                               \
        break;                                                                                       \
      }                                                                                              \
      case Code::store_mask: {                                                                       \
        auto [byte, at] = bit(memories, *i, s);                                                      \
        *byte = static_cast<uint8_t>((*byte & ~(1 << at)) | (s[i->dst].i << at));                    \
        break;                                                                                       \
      }                                                                                              \
      case Code::loop_begin:                                                                         \
        s[i->dst].i = s[i->a].i;                                                                     \
        if (s[i->a].i >= s[i->b].i) i += i->imm - 1;                                                 \
        break;                                                                                       \
      case Code::loop_end:                                                                           \
        if ((s[i->dst].i += s[i->c].i) < s[i->b].i) i += i->imm - 1;                                 \
        break;                                                                                       \
      case Code::loop_begin_reverse: {                                                               \
        int64_t lo = s[i->a].i, hi = s[i->b].i, step = s[i->c].i;                                    \
        s[i->dst].i = lo + (hi - lo - 1) / step * step;                                              \
        if (lo >= hi) i += i->imm - 1;                                                               \
        break;                                                                                       \
      }                                                                                              \
      case Code::loop_end_reverse:                                                                   \
        if ((s[i->dst].i -= s[i->c].i) >= s[i->a].i) i += i->imm - 1;                                \
        break;                                                                                       \
      case Code::skip_unless:                                                                        \
        if (!s[i->a].i) i += i->imm - 1;                                                             \
        break;                                                                                       \
      case Code::multiply_accumulate: {                                                              \
        int64_t &v = s[i->dst].i, end = s[i->b].i;                                                   \
        float sum = s[i[3].dst].f;                                                                   \
        for (v = s[i->a].i; v < end; ++v)                                                            \
          sum = std::fma(element<float>(memories, i[1], s), element<float>(memories, i[2], s), sum); \
        s[i[3].dst].f = sum;                                                                         \
        i += i->imm - 1;                                                                             \
        break;                                                                                       \
      }                                                                                              \
    }                                                                                                \
  }

const Instruction* run_portable(const Instruction* i, Slot* s, Memory* memories){POCK_RUN}
#if defined(POCK_FMA)
POCK_FMA const Instruction* run_fast(const Instruction* i, Slot* s, Memory* memories) {
  POCK_RUN
}
#endif

// The instruction where it stopped.
const Instruction* run(const Instruction* i, Slot* s, Memory* memories) {
#if defined(POCK_FMA)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_fast(i, s, memories);
#endif
  return run_portable(i, s, memories);
}

using Bytes = std::vector<std::byte>;

Bytes local(const Program::Memory& m) {
  return Bytes(m.bytes, std::byte{0xff});  // NaN: what is read must have been written
}

// One of a block, with registers of its own.
struct Thread {
  std::vector<Slot> slots;
  std::vector<Memory> memories;
  std::vector<Bytes> own;

  Thread(int64_t index, const Program& p, const Program::Block& b, const std::vector<Slot>& s,
         const std::vector<Memory>& m)
      : slots(s), memories(m) {
    for (size_t axis = b.axes.size(); axis-- > 0;) {
      const auto [variable, extent] = b.axes[axis];
      slots[variable].i = index % extent;
      index /= extent;
    }
    for (size_t i = b.first; i < b.last; ++i) memories[i].data = own.emplace_back(local(p.buffers[i])).data();
  }
};

// From barrier to barrier, one thread after the other.
void run_block(const Program& p, const Instruction* start, const std::vector<Slot>& slots,
               const std::vector<Memory>& memories, bool reverse) {
  const Program::Block& block = p.blocks[start->a];
  int64_t count = 1;
  for (const auto& [variable, extent] : block.axes) count *= extent;
  std::vector<Thread> threads;
  for (int64_t i = 0; i < count; ++i)
    threads.emplace_back(reverse ? count - 1 - i : i, p, block, slots, memories);
  const Instruction* at = start;
  do {
    const Instruction* from = at + 1;
    at = nullptr;
    for (Thread& t : threads) {
      const Instruction* stopped = run(from, t.slots.data(), t.memories.data());
      POCK_CHECK(!at || stopped == at, "threads of a block wait at different barriers");
      at = stopped;
    }
  } while (at->code == Code::barrier);
}

}  // namespace

void interpret(const Kernel& k, const std::vector<void*>& args, Precision p, bool reverse) {
  POCK_CHECK(args.size() == k.args.size(), "kernel {} takes {} arguments, {} given", k.name, k.args.size(),
             args.size());
  Program program = compile(k, p, reverse);
  std::vector<Memory> memories;
  std::vector<Bytes> locals;
  for (const Program::Memory& m : program.buffers) {
    if (m.argument < 0) locals.push_back(local(m));
    auto* data = m.argument < 0 ? locals.back().data()
                                : static_cast<std::byte*>(args[static_cast<size_t>(m.argument)]);
    memories.push_back({data, m.elements, m.last});
  }
  std::optional<FlushDenormals> flush;
  if (p == Precision::f32) flush.emplace();
  const Instruction* i = program.code.data();
  while ((i = run(i, program.slots.data(), memories.data()))->code != Code::halt) {
    POCK_CHECK(i->code == Code::threads, "kernel {}: a barrier outside of thread loops", k.name);
    run_block(program, i, program.slots, memories, reverse);
    i += i->imm;
  }
}

Workspace::Workspace(const Kernel& k, Precision precision) {
  for (const BufferRef& b : k.args) {
    if (b->space != Space::workspace) continue;
    const bool twice = precision == Precision::f64 && b->type.dtype == DType::f32;
    memory_.emplace_back(b->type.bytes() * (twice ? 2 : 1), std::byte{0xff});
  }
  for (std::vector<std::byte>& m : memory_) pointers.push_back(m.data());
}

}  // namespace pock::loop
