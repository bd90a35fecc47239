// What the inference graph says of a batch, row by row.
#include "runtime.h"

const void* pock_output_data(const struct pock_output* output, const struct pock_buffers* m) {
  const char* const blocks[] = {m->arena, m->params, m->state, m->weights};
  return blocks[output->block] + output->offset;
}

void pock_add_losses(const struct pock_program* p, const struct pock_buffers* memory, uint32_t rows,
                     struct pock_mean* terms) {
  for (uint32_t i = 0; i < p->loss_count; ++i) {
    const struct pock_loss* loss = &p->losses[i];
    const float* losses = (const float*)(memory->arena + loss->losses_offset);
    const float* weights = (const float*)(memory->arena + loss->weights_offset);
    for (uint32_t row = 0; row < rows && row < loss->count; ++row) {
      terms[i].sum += losses[row];
      terms[i].weight += loss->weights_offset == UINT64_MAX ? 1 : weights[row];
    }
  }
}

double pock_mean_loss(const struct pock_program* p, const struct pock_mean* terms) {
  double loss = 0;
  for (uint32_t i = 0; i < p->loss_count; ++i)
    if (terms[i].weight != 0) loss += p->losses[i].weight * (terms[i].sum / terms[i].weight);
  return loss;
}

bool pock_is_judged(const struct pock_input* input) {
  return input->feed == POCK_LABELS && input->classes > 0;
}

// Whether a class has the largest score, the first of equals. Where a score is no number none has.
static bool is_best(const float* scores, const struct pock_input* input, uint64_t label) {
  bool best = true;
  float own = scores[label * input->stride];
  for (uint64_t i = 0; i < (uint64_t)input->classes; ++i) {
    float other = scores[i * input->stride];
    best &= i < label ? own > other : own >= other;
  }
  return best;
}

void pock_judge(const struct pock_program* program, const struct pock_buffers* memory,
                const struct pock_source* source, uint64_t sample, uint32_t row, uint64_t* judged,
                uint64_t* correct) {
  const struct pock_input* input = source->input;
  uint64_t classes = (uint64_t)input->classes, stride = input->stride, n = source->elements;
  uint64_t line = input->rank ? (uint64_t)input->dims[input->rank - 1] : 1;
  const float* scores = pock_output_data(&program->outputs[input->output], memory);
  for (uint64_t i = 0; i < n; ++i) {
    int64_t label = pock_whole_at(&source->array, sample * n + i);
    if (label == input->ignored || i % line < input->shift) continue;
    uint64_t position = row * n + i - input->shift;
    const float* own = scores + position / stride * stride * classes + position % stride;
    *correct += is_best(own, input, (uint64_t)label);
    ++*judged;
  }
}
