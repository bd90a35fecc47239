// Losses. One LossDef in passes/loss.cpp is all that pock knows of one: its keys, its labels, its loss of a sample.
//
//   LossChoice c = parse_loss("boxes=huber:delta=0.5,weight=2");
//   c.output == "boxes", c.name == "huber", c.number("delta") == 0.5
//
// The loss of a step is the weighted sum over the outputs that have one; for each the mean over its labels, counted
// by their weights: 0 for those that are ignored, the class's where classes have weights, else 1.
#pragma once

#include <string>
#include <vector>

#include "pock/passes/choice.h"

namespace pock {

class Graph;

struct LossChoice : Choice {
  std::string output;                // of the model; empty: its first
  std::vector<float> class_weights;  // empty: all 1

  // Labels weigh different amounts, so that a mean needs the sum of their weights.
  bool weighted() const;
  // A label belongs to the scores so many positions before it on the last axis.
  int64_t shift() const;
};

// "mse", "OUTPUT=huber:delta=0.5". Reads the file of class weights. Throws Error naming the losses or keys there are.
LossChoice parse_loss(const std::string& text);
// The output that is a loss of the model's own: the only float without axes. -1: there is none, or several.
int own_loss(const Graph&);
// The losses of all outputs that have one, from what was asked for (--loss) or, where that is nothing, from the
// model's outputs. Empty: the model's output is the loss. Throws Error listing the choices.
std::vector<LossChoice> derive_losses(const Graph&, const std::vector<LossChoice>& wanted);
// How many outputs of an inference graph, the last ones, are for the loss: for each choice the loss of every sample
// and, where it is weighted, its weight; else the model's own loss.
size_t loss_outputs(const std::vector<LossChoice>&);
std::string to_string(const std::vector<LossChoice>&);  // "cross-entropy", "the model's own"
std::string losses_text();                              // all with their keys and defaults

}  // namespace pock
