// What the inference graph says of a batch, row by row.
#include "runtime.h"

const void* pock_output_data(const struct pock_output* output, const struct pock_buffers* m) {
  const char* const blocks[] = {m->arena, m->params, m->state, m->weights};
  return blocks[output->block] + output->offset;
}

float pock_loss_of_row(const struct pock_program* p, const struct pock_buffers* memory, uint32_t row) {
  const float* losses = (const float*)(memory->arena + p->infer_loss_offset);
  return losses[p->infer_loss_count < p->batch ? 0 : row];
}

bool pock_is_judged(const struct pock_input* input) {
  return input->feed == POCK_LABELS && input->classes > 0;
}

// Whether a class has the largest score, the first of equals. Where a score is no number none has.
static bool is_best(const float* scores, uint64_t classes, uint64_t label) {
  bool best = true;
  for (uint64_t i = 0; i < classes; ++i)
    best &= i < label ? scores[label] > scores[i] : scores[label] >= scores[i];
  return best;
}

uint64_t pock_right_labels(const struct pock_program* program, const struct pock_buffers* memory,
                           const struct pock_source* source, uint64_t sample, uint32_t row) {
  uint64_t classes = (uint64_t)source->input->classes, n = source->elements, right = 0;
  const float* scores = pock_output_data(&program->outputs[source->input->output], memory);
  scores += row * n * classes;
  for (uint64_t i = 0; i < n; ++i, scores += classes)
    right += is_best(scores, classes, (uint64_t)pock_whole_at(&source->array, sample * n + i));
  return right;
}
