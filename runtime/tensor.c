// Tensors that outlive a step: where they lie, and their elements in the order of the model's shape, which is that of
// every file and of a library's callers.
#include "runtime.h"

char* pock_saved_tensor(const struct pock_tensor* t, const struct pock_buffers* memory) {
  if (t->role == POCK_FROZEN) return NULL;
  return (t->role == POCK_OPTIMIZER ? memory->state : memory->params) + t->offset;
}

const char* pock_kept_gradient(const struct pock_tensor* t, const struct pock_buffers* m) {
  const char* const blocks[] = {m->arena, m->params, m->state, m->weights};
  return blocks[t->role - POCK_GRADIENT] + t->offset;
}

// Where element i of the shape's order lies in a tensor that is not row-major.
__attribute__((noinline)) static uint64_t place(const struct pock_tensor* t, uint64_t i) {
  const struct pock_walk* w = (const struct pock_walk*)(t->dims + t->rank) + t->walk_rank;
  uint64_t at = 0;
  for (int axis = t->walk_rank; axis; --axis) {
    const uint64_t extent = (uint64_t)(--w)->extent;
    at += i % extent * (uint64_t)w->step;
    i /= extent;
  }
  return at;
}

int64_t pock_each_piece(const struct pock_tensor* t, const char* stored, pock_take take, void* context) {
  float room[1024];
  int64_t error = 0;
  if (!t->walk_rank) return take(context, stored, t->bytes);
  const uint64_t all = t->bytes / sizeof *room;
  for (uint64_t done = 0; done < all && !error; done += 1024) {
    const uint64_t n = all - done < 1024 ? all - done : 1024;
    for (uint64_t i = 0; i < n; ++i) room[i] = ((const float*)stored)[place(t, done + i)];
    error = take(context, (const char*)room, n * sizeof *room);
  }
  return error;
}

void pock_store_tensor(const struct pock_tensor* t, char* stored, const void* from) {
  if (t->dtype != POCK_F32) {
    memcpy(stored, from, t->bytes);
    return;
  }
  for (uint64_t i = 0; i < t->bytes / sizeof(float); ++i)
    pock_copy_floats((float*)stored + (t->walk_rank ? place(t, i) : i), (const float*)from + i, 1);
}
