#include "llvm/emit_program.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <unordered_map>

#include "llvm/emit_steps.h"
#include "llvm/machine.h"
#include "place.h"
#include "pock.h"
#include "pock/support/diag.h"

namespace pock {
namespace {

using llvm::Constant;

class Tables {
 public:
  Tables(llvm::Module& module, const Program& program)
      : module_(module), p_(program), c_(module.getContext()), b_(module.getContext()) {}

  void emit(const EntryPoints& entries) {
    const std::vector<Constant*> tensors = tensor_rows(), inputs = input_rows(), outputs = output_rows(),
                                 hypers = hyper_rows();
    const Graph &train = *p_.train, &infer = *p_.infer;
    const int64_t batch = batch_of(train);
    POCK_CHECK(!train.outputs().empty() && !infer.outputs().empty(), "graph {} has no loss", train.name);
    const Value* infer_loss = infer.outputs().back();
    auto* weights = new llvm::GlobalVariable(module_, b_.getInt8Ty(), true,
                                             llvm::GlobalValue::ExternalLinkage, nullptr, kWeightsSymbol);
    weights->setVisibility(llvm::GlobalValue::HiddenVisibility);
    Constant* program = record({text(p_.options.model_name),
                                text(train.model_hash),
                                text(p_.options.optimizer.name),
                                text(p_.options.loss_name),
                                text(p_.options.scheme),
                                text("pock " POCK_VERSION),
                                text(fmt::format("x86-64 ({})", p_.options.target.cpu)),
                                table(tensors),
                                table(inputs),
                                table(outputs),
                                table(hypers),
                                weights,
                                u64(p_.arena_bytes()),
                                u64(p_.params.bytes),
                                u64(p_.state.bytes),
                                u64(p_.weights.bytes),
                                u64(train.scalars().size()),
                                u64(in_arena(train, train.outputs()[0])),
                                u64(in_arena(infer, infer_loss)),
                                u64(infer_loss->type.elements()),
                                u64(static_cast<int64_t>(p_.options.seed)),
                                u64(static_cast<int64_t>(p_.options.target.cpu_needs)),
                                u32(tensors.size()),
                                u32(inputs.size()),
                                u32(outputs.size()),
                                u32(hypers.size()),
                                u32(batch),
                                u32(p_.options.threads),
                                entries.scalars,
                                entries.forward,
                                entries.update,
                                entries.infer});
    same_size(program, sizeof(struct pock_program), "pock_program");
    new llvm::GlobalVariable(module_, program->getType(), true, llvm::GlobalValue::ExternalLinkage, program,
                             "pock_program");
  }

 private:
  Constant* null() { return llvm::ConstantPointerNull::get(b_.getPtrTy()); }
  Constant* u64(int64_t v) { return b_.getInt64(v); }
  Constant* u32(int64_t v) { return b_.getInt32(v); }
  Constant* u8(int64_t v) { return b_.getInt8(v); }
  Constant* real(double v) { return llvm::ConstantFP::get(b_.getDoubleTy(), v); }
  Constant* record(const std::vector<Constant*>& fields) { return llvm::ConstantStruct::getAnon(c_, fields); }

  // The tables are read by C code: both must see the same layout.
  void same_size(Constant* c, size_t size, const char* name) {
    const uint64_t here = module_.getDataLayout().getTypeAllocSize(c->getType());
    POCK_CHECK(here == size, "struct {} has {} bytes in the runtime, {} here", name, size, here);
  }

  Constant* global(Constant* value) {
    auto* g =
        new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage, value);
    g->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    return g;
  }
  Constant* text(std::string_view s) {
    return global(llvm::ConstantDataArray::getString(c_, llvm::StringRef(s)));
  }
  Constant* dims(const Dims& d) {
    return d.empty() ? null() : global(llvm::ConstantDataArray::get(c_, llvm::ArrayRef<int64_t>(d)));
  }
  Constant* table(const std::vector<Constant*>& rows) {
    if (rows.empty()) return null();
    return global(llvm::ConstantArray::get(llvm::ArrayType::get(rows[0]->getType(), rows.size()), rows));
  }

  // The runtime fills every input sample by sample.
  int64_t batch_of(const Graph& g) {
    if (g.inputs().empty()) return 1;
    for (const Value* v : g.inputs())
      if (v->type.rank() == 0)
        throw Error(v->loc(), "is {}: it has no axis for the samples", to_string(v->type));
    const Value* first = g.inputs()[0];
    const int64_t batch = first->type.dim(0);
    for (const Value* v : g.inputs())
      if (v->type.dim(0) != batch)
        throw Error(v->loc(), "is {} and holds {} samples", to_string(v->type), v->type.dim(0))
            .note(first->loc(), "is {} and holds {}", to_string(first->type), batch);
    if (batch > INT32_MAX)
      throw Error(first->loc(), "a step may have at most {} samples, not {}", INT32_MAX, batch);
    return batch;
  }

  int64_t in_arena(const Graph& g, const Value* v) {
    const Place place = place_of(p_, g, v);
    POCK_CHECK(place.base == Base::arena, "%{} of graph {} is read by the runtime but not in the arena",
               v->id, g.name);
    return place.offset;
  }

  std::vector<Constant*> tensor_rows() {
    std::vector<Constant*> saved, optimizer, frozen;
    for (const Value* v : p_.train->params()) {
      const bool is_state = v->kind == ValueKind::optimizer;
      const bool is_frozen = v->kind == ValueKind::param && !v->trained;
      const pock_role role = is_state                          ? POCK_OPTIMIZER
                             : is_frozen                       ? POCK_FROZEN
                             : v->kind == ValueKind::statistic ? POCK_STATISTIC
                                                               : POCK_TRAINED;
      Constant* row =
          record({text(is_state ? v->owner->name : v->name), is_state ? text(v->slot) : null(),
                  dims(v->type.dims), u64(place_of(p_, *p_.train, v).offset), u64(v->type.bytes()),
                  u8(static_cast<int>(v->type.dtype)), u8(role), u8(v->type.rank())});
      same_size(row, sizeof(pock_tensor), "pock_tensor");
      (is_state ? optimizer : is_frozen ? frozen : saved).push_back(row);
    }
    saved.insert(saved.end(), optimizer.begin(), optimizer.end());
    saved.insert(saved.end(), frozen.begin(), frozen.end());
    return saved;
  }

  std::vector<Constant*> input_rows() {
    std::vector<Constant*> data, labels;
    const Graph& infer = *p_.infer;
    std::unordered_map<const Value*, uint64_t> reached = reached_outputs();
    for (const Value* v : p_.train->inputs()) {
      const Value* same = infer.find(v->name);
      POCK_CHECK(same, "input {} is not in graph {}", v->name, infer.name);
      const bool label = is_label(v);
      std::string name = v->name;
      int64_t classes = 0, output = -1;
      if (label) {
        output = judged_output(v);
        const Type& scores = infer.outputs()[output]->type;
        name = infer.output_name(output);
        if (!is_float(v->type.dtype) && scores.rank() > 0) classes = scores.dim(-1);
      }
      Constant* row = record(
          {text(name), dims(v->type.dims), u64(in_arena(*p_.train, v)), u64(in_arena(infer, same)),
           u64(v->type.bytes()), u64(classes), u64(static_cast<int64_t>(reached[same])), u32(output),
           u8(static_cast<int>(v->type.dtype)), u8(label ? POCK_LABELS : POCK_DATA), u8(v->type.rank())});
      same_size(row, sizeof(pock_input), "pock_input");
      (label ? labels : data).push_back(row);
    }
    data.insert(data.end(), labels.begin(), labels.end());
    return data;
  }

  std::vector<Constant*> output_rows() {
    std::vector<Constant*> rows;
    const Graph& infer = *p_.infer;
    for (size_t i = 0; i + 1 < infer.outputs().size(); ++i) {
      const Value* v = infer.outputs()[i];
      POCK_CHECK(v->type.dtype != DType::mask, "output {} has elements of one bit", infer.output_name(i));
      const Place place = place_of(p_, infer, v);
      rows.push_back(record({text(infer.output_name(i)), dims(v->type.dims), u64(place.offset),
                             u64(v->type.bytes()), u8(static_cast<int>(v->type.dtype)),
                             u8(static_cast<int>(place.base)), u8(v->type.rank())}));
      same_size(rows.back(), sizeof(pock_output), "pock_output");
    }
    return rows;
  }

  // The output that labels belong to: "labels" to the first, "labels.NAME" to NAME.
  int64_t judged_output(const Value* label) {
    const Graph& infer = *p_.infer;
    if (label->name == "labels") return 0;
    for (size_t i = 0; i + 1 < infer.outputs().size(); ++i)
      if (label->name == "labels." + infer.output_name(i)) return static_cast<int64_t>(i);
    POCK_CHECK(false, "input {} belongs to no output", label->name);
  }

  // For each value, which outputs depend on it, as pock_input::reaches.
  std::unordered_map<const Value*, uint64_t> reached_outputs() {
    const Graph& infer = *p_.infer;
    std::unordered_map<const Value*, uint64_t> reached;
    for (size_t i = 0; i + 1 < infer.outputs().size(); ++i)
      reached[infer.outputs()[i]] |= uint64_t{1} << std::min<size_t>(i, 63);
    for (const Node* n : infer.nodes_backward()) {
      uint64_t all = 0;
      for (const Value* v : n->results()) all |= reached[v];
      for (const Value* v : n->inputs()) reached[v] |= all;
    }
    return reached;
  }

  std::vector<Constant*> hyper_rows() {
    const ScalarFormulas formulas = scalar_formulas(p_.options.optimizer);
    std::vector<Constant*> rows;
    for (size_t i = 0; i < formulas.hypers.size(); ++i) {
      const HyperDef& h = formulas.hypers[i];
      rows.push_back(record({text(h.name), real(formulas.values[i]), real(h.low), real(h.high), u8(h.open)}));
      same_size(rows.back(), sizeof(pock_hyper), "pock_hyper");
    }
    return rows;
  }

  llvm::Module& module_;
  const Program& p_;
  llvm::LLVMContext& c_;
  llvm::IRBuilder<> b_;
};

}  // namespace

void emit_program(llvm::Module& module, const Program& program,
                  const std::vector<std::vector<Phase>>& phases) {
  Tables(module, program).emit(emit_entry_points(module, program, phases));
}

}  // namespace pock
