// The contract between a generated training step and the runtime that drives it.
//
// pockc emits one `struct pock_program pock_program` per compiled model: tables that say what the step reads
// and writes, and the entry points. Everything here is plain C11 and freestanding: no libc, no allocation
// after start, no globals other than the constant tables. Offsets are in bytes.
//
//   pock_buffers memory = {arena, params, state, weights, scalars};
//   pock_program.scalars(hypers, step, 1, seed, step, memory.scalars);  // lr and friends of this step, rounded once
//   pock_program.forward(&memory, &threads);                         // ... up to the loss, changes no parameter
//   pock_program.update(&memory, &threads);                          // backward and every update
#ifndef POCK_H
#define POCK_H

#include <stddef.h>
#include <stdint.h>

// Element types, numbered as pock::DType.
enum pock_dtype {
  POCK_F32 = 0,
  POCK_F64 = 1,
  POCK_I8 = 2,
  POCK_U8 = 3,
  POCK_I32 = 4,
  POCK_I64 = 5,
  POCK_MASK = 6  // one bit an element, rows padded to a byte
};

// Where a tensor lives (see pock_buffers).
enum pock_role {
  POCK_TRAINED = 0,    // in params; saved
  POCK_STATISTIC = 1,  // in params; saved (running mean and variance)
  POCK_OPTIMIZER = 2,  // in state; saved as optimizer/<slot>/<name>
  POCK_FROZEN = 3,     // in weights; never written, never saved
  POCK_GRADIENT = 4    // plus an enum pock_block, in which it is until the next step; never saved
};

// A tensor that outlives a step, under its name, shape and order in the model file.
struct pock_tensor {
  const char* name;
  const char* slot;     // optimizer slot ("momentum", "exp_avg", ...) or "grad", else NULL
  const int64_t* dims;  // and, behind them, `walk_rank` times a struct pock_walk
  uint64_t offset;      // into the block that its role names
  uint64_t bytes;
  uint8_t dtype;
  uint8_t role;
  uint8_t rank;
  uint8_t
      walk_rank;  // axes that go over the floats of a tensor that is not row-major in memory, in row-major order
  float initial;  // optimizer state: every element before the first step
};
struct pock_walk {
  int64_t extent, step;  // how many elements a step along the axis moves
};

// What the caller feeds each step. Its first axis is the batch.
enum pock_feed { POCK_DATA = 0, POCK_LABELS = 1 };

struct pock_input {
  const char* name;  // the model input; for labels, the output that they belong to
  const int64_t* dims;
  uint64_t offset;  // into the arena
  uint64_t infer_offset;
  uint64_t bytes;
  // Class ids and numbers of rows must lie in [lowest, classes) or be `ignored`; classes is 0 where it holds something
  // else.
  int64_t classes, lowest;
  int64_t ignored;  // the id that stands for no class; INT64_MIN: none, and is no id itself
  uint64_t stride;  // labels that are class ids: elements of the output from one class's score to the next
  uint64_t
      shift;  // labels that are class ids: the scores of each stand so many positions before it on the last axis
  uint64_t reaches;  // bit i: output i depends on it; bit 63 stands for all outputs from there on
  uint32_t output;   // labels: index of the output that they belong to
  uint8_t dtype;
  uint8_t feed;  // enum pock_feed
  uint8_t rank;
};

// A block of memory that a value lives in, numbered as the fields of pock_buffers.
enum pock_block { POCK_ARENA = 0, POCK_PARAMS = 1, POCK_STATE = 2, POCK_WEIGHTS = 3 };

// An output of the model, as the model file has it. Valid after infer().
struct pock_output {
  const char* name;
  const int64_t* dims;
  uint64_t offset;  // into `block`
  uint64_t bytes;
  uint8_t dtype;
  uint8_t block;  // enum pock_block: an output may be a parameter or a constant
  uint8_t rank;
  uint8_t rows;  // its first axis is that of the samples; otherwise there is one for each batch
};

// A term of the loss. In the arena, valid after infer().
struct pock_loss {
  double weight;            // of the term in the sum
  uint64_t losses_offset;   // f32[count]: the loss of each sample, times its weight
  uint64_t weights_offset;  // f32[count]: the weight of each sample; ~0 where all weigh 1
  uint64_t count;           // the batch; 1: the model's own loss, over the whole batch
};

// A number the person at the device may change (--lr, --opt key=value).
struct pock_hyper {
  const char* name;
  double value;  // compiled-in value
  double low;    // inclusive
  double high;   // inclusive, or exclusive if `open`: betas of 1 make no sense
  uint8_t open;
  uint8_t whole;  // no fractions
};

struct pock_buffers {
  char* arena;          // activations, gradients, workspace, inputs
  char* params;         // trained tensors and statistics, copied from the weights at start
  char* state;          // optimizer state, at start as its tensors say
  const char* weights;  // the weights, read only; frozen tensors are read from here
  float* scalars;       // what pock_program.scalars wrote; the first is the learning rate
};

// One kernel: does iterations [begin, end) of its outermost parallel loop.
typedef void (*pock_kernel)(void* const* args, int64_t begin, int64_t end);

// Runs fn over [0, n) on as many threads as there are, in one static split, and returns when all is done.
// Each thread has flush-to-zero and round-to-nearest set.
struct pock_threads {
  void (*parallel_for)(void* context, pock_kernel fn, void* const* args, int64_t n);
  void* context;
};

struct pock_program {
  const char* model;       // file name of the model, for people
  const char* model_hash;  // 16 hex digits; a checkpoint of another model is refused
  const char* optimizer;   // "sgd", "adam", ...
  const char* schedule;    // "constant:warmup=0", ...
  const char* loss;        // "cross-entropy", ...
  const char* scheme;      // what is trained, one line; saved with a checkpoint
  const char* adapters;    // as JSON, or "none"; saved likewise
  const char* compiler;    // "pock 0.1.0"
  const char* target;      // "x86-64 (znver4)"
  // Trained ones and statistics in file order, then optimizer state, then frozen ones.
  const struct pock_tensor* tensors;
  // What the optimizer saw, of what is trained of each parameter: in programs that keep gradients, else none. `slices`
  // says as JSON what part that is: "{\"conv.weight\":{\"axis\":1,\"index\":[0,3]}}" of some, all of the others.
  const struct pock_tensor* gradients;
  const char* slices;
  const struct pock_input* inputs;    // model inputs, then labels
  const struct pock_output* outputs;  // in the model's order
  const struct pock_loss* losses;
  const struct pock_hyper* hypers;
  // [0, params_bytes): the params block at start; frozen ones follow. A section of the program, or NULL: then they are
  // the data of a file of the name weights_file, in the program's folder.
  const char *weights, *weights_file;
  uint64_t arena_bytes, params_bytes, state_bytes, weights_bytes;
  // Blocks that are part of the program, zeroed, where there is no system to ask for them; else NULL.
  const struct pock_buffers* memory;
  uint64_t scalars_count;
  uint64_t loss_offset;  // f32 scalar in the arena, valid after forward()
  uint64_t norm_offset;  // likewise after norm(); ~0 where there is none
  uint64_t seed;         // compiled-in --seed
  uint64_t cpu_needs;    // enum pock_cpu bits the kernels rely on
  uint32_t tensor_count, gradient_count, input_count, output_count, loss_count, hyper_count;
  uint32_t batch;
  uint32_t threads;  // planned for at most this many
  uint32_t skips;    // steps whose loss or gradient is not finite are left out, instead of ending the run
  uint32_t weights_header_crc, weights_crc;  // of the weights file (weights_file.h)

  // Step inputs: floats from hyper-parameters in double, and the words that randomness in the model comes from.
  // `step`, `batch` within the step and `micro_step`, the number of batches used since the first step with this one,
  // count from 1.
  // Without threads (null), all work is done on the calling thread.
  void (*scalars)(const double* hypers, double step, double batch, uint64_t seed, uint64_t micro_step,
                  float* out);
  // The parts of a step. forward() ends with the loss of the batch. Where backward() is not null, a step has several
  // batches, as many as the hyper "accumulate" says: both run for each. norm(), where not null, measures the gradient;
  // up to here nothing is lost when the step is given up. update() is the rest.
  void (*forward)(const struct pock_buffers*, const struct pock_threads*);
  void (*backward)(const struct pock_buffers*, const struct pock_threads*);
  void (*norm)(const struct pock_buffers*, const struct pock_threads*);
  void (*update)(const struct pock_buffers*, const struct pock_threads*);
  // The inference graph, which shares the arena and the parameters: outputs and losses.
  void (*infer)(const struct pock_buffers*, const struct pock_threads*);
};

// Instruction-set extensions that the trainer checks for at start, before any kernel runs.
enum pock_cpu {
  POCK_CPU_AVX2 = 1 << 0,
  POCK_CPU_FMA = 1 << 1,
  POCK_CPU_AVX512F = 1 << 2,
  POCK_CPU_AVX512VL = 1 << 3,
  POCK_CPU_AVX512BW = 1 << 4,
  POCK_CPU_AVX512DQ = 1 << 5,
  POCK_CPU_BMI2 = 1 << 6,
  POCK_CPU_F16C = 1 << 7,
  POCK_CPU_AVX512CD = 1 << 8,
  POCK_CPU_AVX512VNNI = 1 << 9,
  POCK_CPU_NEON = 1 << 10,
  POCK_CPU_VFPV4 = 1 << 11,  // fused multiply-adds
  POCK_CPU_IDIVA = 1 << 12   // divisions of integers
};

extern const struct pock_program pock_program;

#endif
