// What the files of the runtime share, whatever drives it. Generated code sees pock.h only; what belongs to the
// trainer's command line is in trainer.h.
//
// Errors of the system travel as negative errno values; problems a person has to read are written into a
// pock_text, so that one run can report all of them.
#ifndef POCK_RUNTIME_H
#define POCK_RUNTIME_H

#include <stdarg.h>
#include <stdbool.h>

#include "checkpoint.h"
#include "pock.h"

// ---- core.c: the four functions a compiler may call on its own (and those of 32-bit Arm: arm_calls.c)
void* memcpy(void* restrict to, const void* restrict from, size_t n);
void* memmove(void* to, const void* from, size_t n);
void* memset(void* to, int byte, size_t n);
int memcmp(const void* a, const void* b, size_t n);

// ---- strings.c
size_t pock_length(const char* s);
bool pock_equal(const char* a, const char* b);
bool pock_starts(const char* s, const char* prefix);

// POCK_BOARD: on a machine without a system, where the image holds the plan's blocks and files are read by the part.
// POCK_APART: not made part of its caller, which would have its buffers on a small stack for as long as it runs.
// POCK_PATH: bytes of the longest path, and of a message, which is cut.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
enum { POCK_BOARD = 1, POCK_PATH = 512 };  // what they take of a board's RAM nothing else has
#define POCK_APART __attribute__((noinline))
#else
enum { POCK_BOARD = 0, POCK_PATH = 4096 };
#define POCK_APART
#endif

// ---- text.c: numbers and messages
// A buffer that text is appended to. `length` goes on counting past `capacity`, so a first pass without a
// buffer measures, and a message that is too long is cut instead of overflowing.
struct pock_text {
  char* data;
  size_t length, capacity;
};
size_t pock_text_size(const struct pock_text* text);  // bytes really there
const char* pock_string(struct pock_text* text);  // with a null at its end, for which its last byte may go
void pock_put(struct pock_text* out, char c);
void pock_put_bytes(struct pock_text* out, const char* bytes, size_t n);
// Knows %s %.*s %c %d %lld %llu %08x %g %.Ng %%, and %zu, a number of bytes, which reads "1.5 MiB". Plain %g prints the
// fewest digits that read back as the same double.
__attribute__((format(printf, 2, 3))) void pock_format(struct pock_text* out, const char* format, ...);
void pock_format_list(struct pock_text* out, const char* format, va_list list);
bool pock_finite(float value);
// Below 2^63, where either is one instruction.
static inline double pock_double(uint64_t value) { return (double)(int64_t)value; }
static inline uint64_t pock_whole(double value) { return (uint64_t)(int64_t)value; }
// The upper half of a product, and the lower one.
static inline uint64_t pock_product(uint64_t a, uint64_t b, uint64_t* low) {
#ifdef __SIZEOF_INT128__
  unsigned __int128 product = (unsigned __int128)a * b;
  *low = (uint64_t)product;
  return (uint64_t)(product >> 64);
#else
  uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
  uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
  *low = a * b;
  return a1 * b1 + (middle >> 32) + (other >> 32);
#endif
}
void pock_put_float(struct pock_text* out, float value);  // fewest digits that read back as the same float
void pock_put_escaped(struct pock_text* out, const char* s);  // the inside of a JSON string
void pock_put_json(struct pock_text* out, const char* s);     // with its quotes
const char* pock_parse_number(const char* s, double* value);  // the first character not read, or NULL
bool pock_parse_whole(const char* s, uint64_t* value);        // all of s
// Of the characters up to `end`; NULL also where the number is too large.
const char* pock_parse_digits(const char* s, const char* end, uint64_t* value);

// ---- io_linux.c, io_semihost.c
struct pock_file {
  const uint8_t* bytes;
  uint64_t length;
};
int64_t pock_map_file(const char* path, struct pock_file* file);
void pock_unmap_file(struct pock_file* file);
// A data file. On a board its bytes in memory are those from `begin` on, and part() fetches others.
struct pock_stream {
  struct pock_file file;
  // At most `most` bytes, in memory until the next call; NULL where all of it is in memory.
  const uint8_t* (*part)(struct pock_stream* stream, uint64_t at, uint64_t n);
  uint64_t most, begin, held;
  uint32_t handle;
};
// It stays open. Its first bytes are there, up to 4 KiB.
int64_t pock_open_stream(const char* path, struct pock_stream* stream);
// For writing; a descriptor. Waits while another trainer has the file open.
int64_t pock_create_file(const char* path);
int64_t pock_write(int fd, const void* bytes, uint64_t n);
// Where a standard stream is closed, no file that is opened later takes its number: writing to it fails.
void pock_hold_standard_streams(void);
int64_t pock_sync(int fd);
int64_t pock_sync_directory_of(const char* path);
void pock_close(int fd);
int64_t pock_rename(const char* from, const char* to);
int64_t pock_link(const char* from, const char* to);
int64_t pock_unlink(const char* path);
bool pock_same_file(const char* a, const char* b);  // both there, and one file
// Of this program, as the system has it; without a null. Its length, at most `room`.
int64_t pock_program_path(char* path, uint64_t room);
void* pock_reserve(
    uint64_t bytes);  // zeroed, 2 MiB aligned, huge pages where they fit; NULL when out of memory
__attribute__((noreturn)) void pock_exit(int status);
double pock_seconds(void);
uint32_t pock_cores(void);               // that this process may run on
uint64_t pock_rss_anon(void);            // bytes of own memory in use; 0 when the system does not say
uint32_t pock_terminal_columns(int fd);  // 0: not a terminal
// SIGINT and SIGTERM: the first is noted, a second ends the process. A closed pipe or a full file only make
// writing fail; a mapped file that someone cuts short ends the process with a message.
void pock_catch_signals(void);
int pock_caught_signal(void);  // its number, or 0

// ---- say.c
const char* pock_reason(int64_t error);  // "no such file or directory"
// To standard output. False after saying why it cannot be; `what` is what is printed: "result".
bool pock_print(const char* what, const char* text, uint64_t n);
void pock_say(const char* format, ...) __attribute__((format(printf, 1, 2)));  // to stderr
// Says what is wrong, in a line of its own. False.
bool pock_complain(const char* format, ...) __attribute__((format(printf, 1, 2)));

// ---- cpu.c
uint64_t pock_cpu_have(void);                             // enum pock_cpu
void pock_put_cpu(struct pock_text* out, uint64_t bits);  // "avx2, fma"
void pock_flush_denormals(void);                          // this thread: denormals are zero, round to nearest
uint64_t pock_float_mode(void);                           // of this thread
void pock_set_float_mode(uint64_t mode);

// ---- threads_linux.c, threads_none.c
struct pock_pool;
// `count` threads, the caller among them. NULL when the system refuses.
struct pock_pool* pock_start_pool(uint32_t count);
void pock_parallel_for(void* pool, pock_kernel fn, void* const* args, int64_t n);

// ---- data.c
enum { POCK_MAX_RANK = 8 };
struct pock_array {
  const uint8_t* data;         // NULL where it is behind `start` bytes of a file that is read by the part
  struct pock_stream* stream;  // that file
  uint64_t start;
  uint64_t count;  // elements
  int64_t dims[POCK_MAX_RANK];
  uint8_t rank, dtype;
};
uint32_t pock_dtype_bytes(uint8_t dtype);
const char* pock_dtype_name(uint8_t dtype);
void pock_put_shape(struct pock_text* out, const int64_t* dims, uint32_t rank);
// Reads the header of a .npy or IDX file, within its first 4 KiB, which are in memory. False with the reason in `why`.
bool pock_parse_array(const uint8_t* bytes, uint64_t length, struct pock_array* array, struct pock_text* why);

struct pock_source {
  const struct pock_input* input;
  const char* path;
  struct pock_stream stream;
  struct pock_array array;
  uint64_t elements;  // a sample
};
struct pock_dataset {
  struct pock_source* sources;  // one for each input of the program
  uint32_t count, batch;
  uint64_t samples;
};
// Maps and checks the file of each input that has a path; appends every problem to `report` and is false if
// there was one. The files came from --data and --labels, with `prefix` ("" or "eval-") in their names.
bool pock_open_dataset(const struct pock_program* program, const char* const* paths, const char* prefix,
                       struct pock_dataset* set, struct pock_text* report);
bool pock_is_whole(uint8_t dtype);  // a type of whole numbers
// What the whole numbers of an input may be: class ids, or else what its type holds.
struct pock_limits {
  int64_t low, high;  // both inclusive
  int64_t also;       // the class id that is ignored; else `low`
};
struct pock_limits pock_limits_of(const struct pock_input* input);
bool pock_is_good(const struct pock_limits* limits, int64_t value);
int64_t pock_whole_of(const uint8_t* data, uint8_t dtype, uint64_t i);  // element i of those in memory
// Copies one sample of every source into row `row` of the batch; zeros where a source has no file.
void pock_gather(const struct pock_dataset* set, uint64_t sample, uint32_t row, char* arena, bool infer);
// Of an array of whole numbers, any of the types that are read.
int64_t pock_whole_at(const struct pock_array* array, uint64_t i);
// Copies floats; denormals become zero.
void pock_copy_floats(float* to, const void* from, uint64_t count);

// ---- score.c
// What infer() made of the batch.
const void* pock_output_data(const struct pock_output* output, const struct pock_buffers* memory);
// Losses added up with weights, to become a mean.
struct pock_mean {
  double sum, weight;
};
// Adds the first rows of the batch to the terms, one for each loss.
void pock_add_losses(const struct pock_program* program, const struct pock_buffers* memory, uint32_t rows,
                     struct pock_mean* terms);
// The weighted sum of the terms' means; that of a term is 0 where nothing weighs anything.
double pock_mean_loss(const struct pock_program* program, const struct pock_mean* terms);
bool pock_is_judged(const struct pock_input* input);
// Counts the class ids of sample `sample`, in row `row` of the batch, that are not ignored, and those of them
// that have the largest score.
void pock_judge(const struct pock_program* program, const struct pock_buffers* memory,
                const struct pock_source* source, uint64_t sample, uint32_t row, uint64_t* judged,
                uint64_t* correct);

// ---- shuffle.c
struct pock_shuffle {
  uint64_t count;
  uint32_t half_bits;
  uint32_t keys[8];
};
struct pock_shuffle pock_shuffle_for(uint64_t count, uint64_t seed, uint64_t epoch);
uint64_t pock_shuffled(const struct pock_shuffle* shuffle, uint64_t index);  // a permutation of [0, count)

// ---- checkpoint.c, checkpoint_read.c (and checkpoint.h)
// How far a run has come.
struct pock_progress {
  uint64_t step;      // done
  uint64_t epoch;     // being worked on, from 0
  uint64_t position;  // samples of it that were used
  uint64_t seed;
  uint64_t samples;  // of the data
  // The best evaluation that counted, and the epochs and steps done by then; infinite before the first.
  float best_loss;
  uint64_t best_epoch, best_step;
  uint64_t batches;  // of the step being worked on that are done; not saved
};
// The block that a tensor lives in and its first byte; NULL for what is not saved.
char* pock_saved_tensor(const struct pock_tensor* tensor, const struct pock_buffers* memory);
// The first byte of a gradient that the program keeps.
const char* pock_kept_gradient(const struct pock_tensor* gradient, const struct pock_buffers* memory);
// Hands over the bytes of a saved tensor in the order of its shape, in pieces; ends with the first answer that is not 0,
// which it returns.
typedef int64_t (*pock_take)(void* context, const char* bytes, uint64_t n);
int64_t pock_each_piece(const struct pock_tensor* tensor, const char* stored, pock_take take, void* context);
// A tensor into memory, from that order; denormals become zero.
void pock_store_tensor(const struct pock_tensor* tensor, char* stored, const void* from);
// The facts that are texts, in this program.
void pock_checkpoint_texts(const struct pock_program* program, const char* texts[POCK_BATCH]);
// What the header says of a tensor whose data begin at `at`.
void pock_put_checkpoint_entry(struct pock_text* out, const struct pock_tensor* tensor, uint64_t at);
// All of a checkpoint that stands in front of its tensors, which follow in the program's order. Where `out` has no
// room at all, it measures.
void pock_put_checkpoint_head(struct pock_text* out, const struct pock_program* program,
                              const struct pock_buffers* memory, const struct pock_progress* progress);
// A gradient may overflow where the loss did not: then there is nothing worth saving. NULL if all is finite.
const struct pock_tensor* pock_not_finite(const struct pock_program* program,
                                          const struct pock_buffers* memory);
extern const char pock_not_finite_advice[];  // behind what was not done
// False after saying why; FILE is then as it was.
bool pock_save_checkpoint(const struct pock_program* program, const struct pock_buffers* memory,
                          const struct pock_progress* progress, const char* path, bool keep_previous);
// A new file for the one of this name, under another name until it is whole: its descriptor. The end of it: where there
// was no `error` so far, it takes the place of the old one, which may stay as FILE.prev; else nothing is left of it.
int64_t pock_begin_file(const char* path, char fresh[POCK_PATH]);
int64_t pock_end_file(int fd, int64_t error, const char* fresh, const char* path, bool keep_previous);
bool pock_with_suffix(char path[POCK_PATH], const char* base, const char* suffix);  // false: too long
// Before hours of training: false after saying why. Refuses to replace what is no checkpoint, unless it is `known` to be one.
bool pock_try_checkpoint_path(const char* path, bool known);

enum pock_verdict { POCK_GOOD, POCK_DAMAGED, POCK_FOREIGN };
struct pock_checkpoint {
  bool weights_only;  // parameters and statistics, of a run that may have trained less, or otherwise
  const uint8_t* data;
  uint64_t* offsets;         // into data, one for each tensor of the program, or ~0; the caller's memory
  struct pock_text scratch;  // pock_checkpoint_scratch() bytes of the caller's memory
  struct pock_progress progress;
};
uint64_t pock_checkpoint_scratch(const struct pock_program* program);
// Checks everything and changes nothing: a file is loaded whole or not at all.
enum pock_verdict pock_check_checkpoint(const struct pock_program* program, const uint8_t* bytes,
                                        uint64_t length, struct pock_checkpoint* checkpoint,
                                        struct pock_text* why);
void pock_load_checkpoint(const struct pock_program* program, const struct pock_checkpoint* checkpoint,
                          const struct pock_buffers* memory);

// ---- weights_file.c
// NULL if the file is the program's and whole, after pointing `weights` at its data; else what is wrong with it.
const char* pock_check_weights(const struct pock_program* program, const struct pock_file* file,
                               const char** weights);

// ---- step.c
// Parameters and optimizer state as they are before the first step; the state was zero.
void pock_start_values(const struct pock_program* program, const struct pock_buffers* memory);
// One of the hypers by its name, or NULL.
double* pock_find_hyper(const struct pock_program* program, double* hypers, const char* name);
uint64_t pock_batches_a_step(const struct pock_program* program, const double* hypers);
enum pock_outcome {
  POCK_UNFINISHED,   // the step has more batches
  POCK_STEPPED,      // its last batch: the step is done and counted
  POCK_BAD_LOSS,     // not finite: the step is given up, with all its batches
  POCK_BAD_GRADIENT  // likewise, where the program measures it
};
// Trains on the batch in the arena. A step that is done or skipped moves progress->position behind its samples.
enum pock_outcome pock_step(const struct pock_program* program, const struct pock_buffers* memory,
                            const struct pock_threads* threads, const double* hypers,
                            struct pock_progress* progress, float* loss);

// What pock_start() calls: the program.
int pock_main(int argc, char** argv);

#endif
