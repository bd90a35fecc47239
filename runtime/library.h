//@head
#ifndef pock_lib_H
#define pock_lib_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

//@constants

// What functions return.
enum pock_lib_status {
  pock_lib_OK,
  pock_lib_BAD_MEMORY,  // a block is NULL or not aligned
  pock_lib_BAD_CPU,     // the processor or the system lacks instructions that the library was compiled for
  pock_lib_BAD_BATCH,  // an array is NULL, `rows` is 0 or too large, or `samples` are fewer than those of a step
  pock_lib_BAD_LABEL,   // a class id is outside its range
  pock_lib_BAD_NUMBER,  // one of the optimizer's numbers is outside its range
  pock_lib_BAD_TENSOR,  // there is no such tensor, it has another number of elements, or it cannot be written
  // The loss is infinite or no number, or the gradient where it is measured: the step was given up; or a weight is:
  // nothing was saved.
  pock_lib_NOT_FINITE,
  pock_lib_NO_ROOM,     // the buffer is too small
  pock_lib_DAMAGED,     // a checkpoint that was truncated or changed: nothing was loaded
  pock_lib_FOREIGN,     // a checkpoint of another model, or of one trained otherwise: nothing was loaded
  pock_lib_BAD_STORAGE  // what the caller's storage answered
};
const char* pock_lib_explain(int status);  // one line for people

// A training run. The caller owns it and the three blocks, and nothing else is kept between calls: several may run at
// once. pock_lib_init fills it.
typedef struct pock_lib_trainer {
  void *arena, *params, *state;
  // Optional: calls fn(arg, begin, end) on pieces that together are [0, n), on any threads, and returns when all calls
  // have. The results are the same to the bit. NULL: everything runs on the caller's thread.
  void (*parallel_for)(void* context, void (*fn)(void* arg, int64_t begin, int64_t end), void* arg,
                       int64_t n);
  void* context;
  // How far the run has come: saved and loaded. Steps are counted, and where the caller says how many `samples` the
  // data has, epochs and the `position` inside one as well. An epoch ends where no full batch is left.
  uint64_t step, epoch, position, seed, samples;
  float best_loss;  // these are a trainer program's, for its --patience
  uint64_t best_epoch, best_step;
  uint64_t batches;  // done of a step that has several (--accumulate); not saved
  // The optimizer's numbers. They may be changed before any step, and are not saved.
  double hypers[1];   //@hypers
  float internal[1];  //@internal
} pock_lib_trainer;

// One batch: arrays of the caller's, sample after sample.
typedef struct pock_lib_batch {
  const void* inputs[1];  //@batch
} pock_lib_batch;

// What the model says of a batch. The arrays lie in the arena and are valid until the next call.
typedef struct pock_lib_outputs {
  const void* outputs[1];  //@outputs
} pock_lib_outputs;

typedef struct pock_lib_score {
  double loss;  // mean over the samples so far
  uint64_t samples;
  uint64_t judged, correct;  // class ids, and those with the highest score
  double terms[2];           //@terms
} pock_lib_score;

// A weight, a running statistic, or a part of the optimizer's state. Where pockc was told to keep gradients they are
// tensors too: what the optimizer saw of the last whole step, until the next call that runs the model or loads.
typedef struct pock_lib_tensor {
  const char* name;     // as in the model file
  const char* slot;     // of the optimizer's state ("momentum_buffer", ...); of a gradient "grad"; else NULL
  const int64_t* dims;  // `rank` of them
  uint32_t rank;
  int frozen;      // never changes; like a gradient, it cannot be written
  uint64_t count;  // elements
} pock_lib_tensor;

// Starts a run with the model's weights. Each block must be aligned to pock_lib_ALIGN.
int pock_lib_init(pock_lib_trainer* t, void* arena, void* params, void* state);

// Trains on a full batch; its loss goes to *loss unless that is NULL. Where a step has several batches (--accumulate),
// the last one changes the parameters. A step that is given up is given up with all of them.
int pock_lib_step(pock_lib_trainer* t, const pock_lib_batch* batch, float* loss);

// Adds the first `rows` samples of a batch to *score, which starts as zeros. Running statistics are used, not changed.
int pock_lib_evaluate(pock_lib_trainer* t, const pock_lib_batch* batch, uint32_t rows, pock_lib_score* score);

// Gives the outputs for the first `rows` samples; labels are not needed.
int pock_lib_predict(pock_lib_trainer* t, const pock_lib_batch* batch, uint32_t rows,
                     pock_lib_outputs* outputs);

// The sample, of `samples`, that a trainer program would take for row `row` of the next batch. Without shuffling that
// is position + batches * pock_lib_BATCH + row.
uint64_t pock_lib_shuffled(const pock_lib_trainer* t, uint32_t row);

// Tensors by number, from 0 to pock_lib_TENSORS - 1, and the number of a name and a slot, or -1.
int pock_lib_describe(uint32_t tensor, pock_lib_tensor* description);
int32_t pock_lib_find(const char* name, const char* slot);
// Copies all `count` elements, in the model file's order.
int pock_lib_get(const pock_lib_trainer* t, int32_t tensor, float* to, uint64_t count);
int pock_lib_set(pock_lib_trainer* t, int32_t tensor, const float* from, uint64_t count);

// Writes a checkpoint of the last whole step, as a trainer program does: any program of this model and optimizer can go on from it. Its
// length, at most pock_lib_SAVE_BYTES, goes to *length even where `room` is too small.
int pock_lib_save(const pock_lib_trainer* t, void* to, size_t room, size_t* length);
// Goes on from a checkpoint. Uses the arena. Where it is refused, `reason` (or NULL) of `room` bytes says why.
int pock_lib_load(pock_lib_trainer* t, const void* from, size_t length, char* reason, size_t room);
// Takes over its weights and statistics alone, of a run that may have trained others or otherwise.
int pock_lib_load_weights(pock_lib_trainer* t, const void* from, size_t length, char* reason, size_t room);

// Checkpoints without files: two slots of pock_lib_SLOT_BYTES each, in flash for instance, through functions of the caller's
// that return 0 when they are done. Places and numbers of bytes are multiples of 64, and what is written was erased and
// is written once.
typedef struct pock_lib_storage {
  void* context;
  int (*read)(void* context, int slot, uint32_t at, void* to, uint32_t n);
  int (*erase)(void* context, int slot);
  int (*write)(void* context, int slot, uint32_t at, const void* from, uint32_t n);
} pock_lib_storage;

// Into the slot that does not hold the last good record. Uses the arena. Whenever the power goes meanwhile, that record or
// the new one is there. Only this library reads it: it holds the blocks as they are.
int pock_lib_store(const pock_lib_trainer* t, const pock_lib_storage* storage);
// Goes on from the last good record; pock_lib_DAMAGED where there is none. Uses the arena.
int pock_lib_restore(pock_lib_trainer* t, const pock_lib_storage* storage);

#ifdef __cplusplus
}
#endif

#endif
