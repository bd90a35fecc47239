// One step of training, in a program and in a library alike: its samples lie in the arena.
#include "runtime.h"

bool pock_step(const struct pock_program* p, const struct pock_buffers* memory,
               const struct pock_threads* threads, const double* hypers, struct pock_progress* progress,
               float* loss) {
  uint64_t step = progress->step + 1;
  p->scalars(hypers, (double)step, progress->seed, step, memory->scalars);
  p->forward(memory, threads);
  __builtin_memcpy(loss, memory->arena + p->loss_offset, sizeof *loss);
  if (!pock_finite(*loss)) return false;
  p->update(memory, threads);
  progress->step = step;
  return true;
}
