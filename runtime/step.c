// Training, in a program and in a library alike: what it starts from, and one step whose samples lie in the arena.
#include "runtime.h"

void pock_start_values(const struct pock_program* p, const struct pock_buffers* memory) {
  memcpy(memory->params, memory->weights, p->params_bytes);
  for (uint32_t i = 0; i < p->tensor_count; ++i) {
    const struct pock_tensor* t = &p->tensors[i];
    float* state = (float*)(memory->state + t->offset);
    if (t->role != POCK_OPTIMIZER || t->initial == 0) continue;
    for (uint64_t k = 0; k < t->bytes / sizeof(float); ++k) state[k] = t->initial;
  }
}

double* pock_find_hyper(const struct pock_program* p, double* hypers, const char* name) {
  for (uint32_t i = 0; i < p->hyper_count; ++i)
    if (pock_equal(p->hypers[i].name, name)) return &hypers[i];
  return NULL;
}

uint64_t pock_batches_a_step(const struct pock_program* p, const double* hypers) {
  return p->backward ? pock_whole(*pock_find_hyper(p, (double*)hypers, "accumulate")) : 1;
}

static bool is_finite_at(const struct pock_buffers* memory, uint64_t offset, float* value) {
  __builtin_memcpy(value, memory->arena + offset, sizeof *value);
  return pock_finite(*value);
}

enum pock_outcome pock_step(const struct pock_program* p, const struct pock_buffers* memory,
                            const struct pock_threads* threads, const double* hypers,
                            struct pock_progress* progress, float* loss) {
  const uint64_t batches = pock_batches_a_step(p, hypers);
  // By the data used, so that no number comes twice where `accumulate` changes or a step is skipped.
  const uint64_t used = progress->samples
                            ? progress->epoch * (progress->samples / p->batch) + progress->position / p->batch
                            : progress->step * batches;
  p->scalars(hypers, pock_double(progress->step + 1), pock_double(progress->batches + 1), progress->seed,
             used + progress->batches + 1, memory->scalars);
  p->forward(memory, threads);
  float norm;
  enum pock_outcome outcome = POCK_STEPPED;
  if (!is_finite_at(memory, p->loss_offset, loss)) {
    outcome = POCK_BAD_LOSS;
  } else {
    if (p->backward) p->backward(memory, threads);
    if (++progress->batches < batches) return POCK_UNFINISHED;
    if (p->norm) p->norm(memory, threads);
    if (p->norm && !is_finite_at(memory, p->norm_offset, &norm)) outcome = POCK_BAD_GRADIENT;
  }
  progress->batches = 0;
  if (outcome == POCK_STEPPED) {
    p->update(memory, threads);
    ++progress->step;
  }
  if (outcome == POCK_STEPPED || p->skips) progress->position += batches * p->batch;
  return outcome;
}
