// Every pass, a line each; the order and the reasons are in passes/pipeline.cpp.
//
//   int removed = dce(graph, PassOptions{});
//   run_passes(graph, {get_pass("dce")}, {});   // the same by name, timed and verified
#pragma once

#include <string>
#include <unordered_set>

#include "pock/ir/storage.h"
#include "pock/passes/pass.h"

namespace pock {

// From a model to a training step.
int preprocess(Graph&, const PassOptions&);  // u8 inputs scaled and normalised in the graph
int attach_loss(Graph&,
                const PassOptions&);      // the one output is the loss; in inference it follows the model's
int select(Graph&, const PassOptions&);   // marks what is trained
int norms(Graph&, const PassOptions&);    // batch norm: train, frozen or fold
int dropout(Graph&, const PassOptions&);  // which drop; none in inference
int expand_without_gradient(Graph&, const PassOptions&);  // Expand operators that have no gradient rule
int autodiff(Graph&, const PassOptions&);                 // outputs "NAME.grad" for all that is trained
int update(Graph&, const PassOptions&);                   // the optimizer's steps; may keep those outputs
int expand(Graph&, const PassOptions&);                   // all Expand operators

// Arithmetic-preserving: the same bits with and without.
int dce(Graph&, const PassOptions&);               // removes nodes whose results nobody reads
int fold_constants(Graph&, const PassOptions&);    // computes nodes whose inputs are constants
int cse(Graph&, const PassOptions&);               // one node where two compute the same
int winograd(Graph&, const PassOptions&);          // convolutions by fewer products
int slices(Graph&, const PassOptions&);            // computes no more of a gradient than is taken
int immediate_update(Graph&, const PassOptions&);  // moves updates up to their last reader
int recompute(Graph&, const PassOptions&);         // copies pointwise nodes into the backward part
int masks(Graph&, const PassOptions&);             // saves one bit where that is all that counts
int fuse(Graph&, const PassOptions&);              // what one node makes goes to the next in a register
int fused_update(Graph&, const PassOptions&);      // nor is a gradient stored that only a step reads
int layout(Graph&, const PassOptions&);            // channels last, filters in the order kernels read them
int reorder(Graph&, const PassOptions&);           // kernels in the order in which least is alive
int inplace(Graph&, const PassOptions&);           // results that take over a dying input's memory

// The most bytes alive at one node once `first` and `inplace` have run: what passes that save memory compare.
int64_t memory_bound(const Graph&, const PassOptions&, std::initializer_list<PassFn> first = {});

std::string gradient_output_name(const Value& param);
bool is_gradient_output(const Graph&, size_t output);
// Values that a trained parameter influences through differentiable operators, the trained parameters
// included.
std::unordered_set<const Value*> depends_on_trained(const Graph&);
// The node that makes output 0; everything after it in a training graph is backward part.
Node* loss_node(const Graph&);
// Whether neither the layouts of what the node reads and makes, nor its kernel or memory, are decided yet.
bool is_open(const Node&);
// Throws Error where a parameter has its update already.
void need_no_updates(const Graph&);

// The parts of a training step end with these nodes; null where there is no such part, and the next one begins right
// behind the one before.
//
//   forward    to the loss; changes nothing
//   backward   where a step has several batches: to what adds the last gradient up. These two run for each batch
//   norm       to output "gradient_norm": a step may still be given up
//   update     the rest
struct StepParts {
  Node *loss = nullptr, *sums = nullptr, *norm = nullptr;

  // Behind which node an `update` may stand at the earliest.
  Node* earliest(const Node& update) const;
};
StepParts step_parts(const Graph&);
// `update` and the nodes behind `behind` that only serve it and updates beside it: an optimizer's step. In order.
std::vector<Node*> update_group(Node* update, const Positions&, const Node* behind);
inline constexpr const char* kNormOutput = "gradient_norm";

}  // namespace pock
