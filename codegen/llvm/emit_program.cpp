#include "llvm/emit_program.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include "library.h"
#include "llvm/emit_steps.h"
#include "llvm/machine.h"
#include "pock/passes/passes.h"
#include "pock/support/diag.h"
#include "tables.h"

namespace pock {
namespace {

using llvm::Constant;

class Tables {
 public:
  Tables(llvm::Module& module, const Program& program, bool has_blocks)
      : module_(module),
        p_(program),
        has_blocks_(has_blocks),
        c_(module.getContext()),
        b_(module.getContext()) {}

  void emit(const EntryPoints& entries) {
    const Graph& train = *p_.train;
    POCK_CHECK(!train.outputs().empty(), "graph {} has no loss", train.name);
    const std::vector<Constant*> tensors = this->tensors(tensor_rows(p_)),
                                 gradients = this->tensors(gradient_rows(p_)), inputs = this->inputs(),
                                 outputs = this->outputs(), losses = this->losses(), hypers = this->hypers();
    const StepParts parts = step_parts(train);
    const bool in_file = !p_.weights_file.name.empty();
    const Target& target = p_.options.target;
    Constant* program = record({text(p_.options.model_name),
                                text(train.model_hash),
                                text(p_.options.recipe.optimizer.name),
                                text(to_string(p_.options.recipe.schedule)),
                                text(to_string(p_.options.losses)),
                                text(p_.options.scheme),
                                text(p_.options.adapters),
                                text("pock " POCK_VERSION),
                                text(fmt::format("{} ({})", target.machine, target.cpu)),
                                table(tensors),
                                table(gradients),
                                gradients.empty() ? null() : text(slices_json(p_)),
                                table(inputs),
                                table(outputs),
                                table(losses),
                                table(hypers),
                                in_file ? null() : section(),
                                in_file ? text(p_.weights_file.name) : null(),
                                u64(p_.options.library.empty() ? p_.arena_bytes() : library_arena_bytes(p_)),
                                u64(p_.params.bytes),
                                u64(p_.state.bytes),
                                u64(p_.weights.bytes),
                                has_blocks_ ? memory() : null(),
                                u64(1 + train.scalars().size()),
                                u64(in_arena(train, train.outputs()[0])),
                                u64(parts.norm ? in_arena(train, parts.norm->out()) : -1),
                                u64(static_cast<int64_t>(p_.options.seed)),
                                u64(static_cast<int64_t>(p_.options.target.cpu_needs)),
                                u32(tensors.size()),
                                u32(gradients.size()),
                                u32(inputs.size()),
                                u32(outputs.size()),
                                u32(losses.size()),
                                u32(hypers.size()),
                                u32(p_.batch),
                                u32(p_.options.threads),
                                u32(p_.options.recipe.skip_nonfinite),
                                u32(p_.weights_file.header_crc),
                                u32(p_.weights_file.data_crc),
                                entries.scalars,
                                entries.forward,
                                entries.backward,
                                entries.norm,
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

  // The tables are read by C code: both must have the same fields, which are compared as this machine lays them out.
  void same_size(Constant* c, size_t size, const char* name) {
    // Not kept: it remembers types by their address, and those of another module may lie there later.
    const llvm::DataLayout layout("e-p:64:64-i64:64-f64:64");
    const uint64_t here = layout.getTypeAllocSize(c->getType());
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
  Constant* section() {
    if (llvm::GlobalVariable* weights = module_.getNamedGlobal(weights_symbol(p_))) return weights;
    auto* weights = new llvm::GlobalVariable(module_, b_.getInt8Ty(), true,
                                             llvm::GlobalValue::ExternalLinkage, nullptr, weights_symbol(p_));
    weights->setVisibility(llvm::GlobalValue::HiddenVisibility);
    return weights;
  }
  Constant* block(const char* name, int64_t bytes) {
    auto* type = llvm::ArrayType::get(b_.getInt8Ty(), static_cast<uint64_t>(bytes));
    auto* g = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage,
                                       Constant::getNullValue(type), name);
    g->setAlignment(llvm::Align(kBlockAlignment));
    return g;
  }
  Constant* memory() {
    const auto scalars = static_cast<int64_t>((1 + p_.train->scalars().size()) * sizeof(float));
    return global(record({block("pock_arena", p_.arena_bytes()), block("pock_params", p_.params.bytes),
                          block("pock_state", p_.state.bytes), section(), block("pock_scalars", scalars)}));
  }
  Constant* table(const std::vector<Constant*>& rows) {
    if (rows.empty()) return null();
    return global(llvm::ConstantArray::get(llvm::ArrayType::get(rows[0]->getType(), rows.size()), rows));
  }

  int64_t in_arena(const Graph& g, const Value* v) {
    const Place place = place_of(p_, g, v);
    POCK_CHECK(place.base == Base::arena, "%{} of graph {} is read by the runtime but not in the arena",
               v->id, g.name);
    return place.offset;
  }

  static std::vector<Walk> saved_walk(const Type& type) {
    if (type.layout.empty()) return {};
    POCK_CHECK(type.dtype == DType::f32, "{} is saved", to_string(type));
    return walk_of(type);
  }

  std::vector<Constant*> tensors(const std::vector<TensorRow>& of) {
    std::vector<Constant*> rows;
    for (const TensorRow& r : of) {
      const Type& type = r.value->type;
      const std::vector<Walk> walk = saved_walk(type);
      Dims numbers = type.dims;
      for (const Walk& w : walk) numbers.insert(numbers.end(), {w.extent, w.step});
      Constant* slot = r.slot.empty() ? null() : text(r.slot);
      rows.push_back(
          record({text(r.name), slot, dims(numbers), u64(r.place.offset), u64(type.bytes()),
                  u8(static_cast<int>(type.dtype)), u8(r.role), u8(type.rank()), u8(std::ssize(walk)),
                  llvm::ConstantFP::get(b_.getFloatTy(), r.value->initial)}));
      same_size(rows.back(), sizeof(pock_tensor), "pock_tensor");
    }
    return rows;
  }

  std::vector<Constant*> inputs() {
    std::vector<Constant*> rows;
    for (const InputRow& r : input_rows(p_)) {
      const Type& type = r.train->type;
      rows.push_back(
          record({text(r.name), dims(type.dims), u64(in_arena(*p_.train, r.train)),
                  u64(in_arena(*p_.infer, r.infer)), u64(type.bytes()), u64(r.ids.classes), u64(r.ids.lowest),
                  u64(r.ids.ignored), u64(r.ids.stride), u64(r.shift), u64(static_cast<int64_t>(r.reaches)),
                  u32(r.output), u8(static_cast<int>(type.dtype)), u8(r.label ? POCK_LABELS : POCK_DATA),
                  u8(type.rank())}));
      same_size(rows.back(), sizeof(pock_input), "pock_input");
    }
    return rows;
  }

  std::vector<Constant*> outputs() {
    std::vector<Constant*> rows;
    for (const OutputRow& r : output_rows(p_)) {
      const Type& type = r.value->type;
      rows.push_back(record({text(r.name), dims(type.dims), u64(r.place.offset), u64(type.bytes()),
                             u8(static_cast<int>(type.dtype)), u8(static_cast<int>(r.place.base)),
                             u8(type.rank()), u8(r.rows)}));
      same_size(rows.back(), sizeof(pock_output), "pock_output");
    }
    return rows;
  }

  std::vector<Constant*> losses() {
    std::vector<Constant*> rows;
    for (const LossRow& r : loss_rows(p_)) {
      rows.push_back(
          record({real(r.weight), u64(in_arena(*p_.infer, r.losses)),
                  u64(r.weights ? in_arena(*p_.infer, r.weights) : -1), u64(r.losses->type.elements())}));
      same_size(rows.back(), sizeof(pock_loss), "pock_loss");
    }
    return rows;
  }

  std::vector<Constant*> hypers() {
    const ScalarFormulas formulas = scalar_formulas(p_.options.recipe);
    std::vector<Constant*> rows;
    for (size_t i = 0; i < formulas.hypers.size(); ++i) {
      const KeyDef& h = formulas.hypers[i];
      rows.push_back(record({text(h.name), real(formulas.values[i]), real(h.low), real(h.high), u8(h.open),
                             u8(h.kind == KeyDef::whole)}));
      same_size(rows.back(), sizeof(pock_hyper), "pock_hyper");
    }
    return rows;
  }

  llvm::Module& module_;
  const Program& p_;
  const bool has_blocks_;
  llvm::LLVMContext& c_;
  llvm::IRBuilder<> b_;
};

}  // namespace

std::string weights_symbol(const Program& program) {
  const std::string& library = program.options.library;
  return library.empty() ? "pock_weights" : library + "_pock_weights";
}

void emit_program(llvm::Module& module, const Program& program, const std::vector<Phases>& phases,
                  bool has_blocks) {
  Tables(module, program, has_blocks).emit(emit_entry_points(module, program, phases));
}

}  // namespace pock
