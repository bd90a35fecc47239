// The functions of a library. pockc renames them after the library, and everything else becomes private to it.
//
// Nothing is kept between calls but what lies in the caller's trainer and blocks.
#include "library.h"

#include "runtime.h"

#define SAME_PLACE(field)                                                                \
  _Static_assert(offsetof(pock_lib_trainer, field) - offsetof(pock_lib_trainer, step) == \
                     offsetof(struct pock_progress, field),                              \
                 "a trainer holds a struct pock_progress from `step` on")
SAME_PLACE(seed);
SAME_PLACE(samples);
SAME_PLACE(best_loss);
SAME_PLACE(best_step);
SAME_PLACE(batches);

// The template has room for one of the optimizer's numbers; the trainers of libraries have what they need.
static double* hypers(const pock_lib_trainer* t) {
  return (double*)((char*)t + offsetof(pock_lib_trainer, hypers));
}

static struct pock_progress* progress(const pock_lib_trainer* t) {
  return (struct pock_progress*)((char*)t + offsetof(pock_lib_trainer, step));
}

static struct pock_buffers memory(const pock_lib_trainer* t) {
  return (struct pock_buffers){t->arena, t->params, t->state, pock_program.weights,
                               (float*)(hypers(t) + pock_program.hyper_count)};
}

const char* pock_lib_explain(int status) {
  static const char* const lines[] = {
      [pock_lib_OK] = "done",
      [pock_lib_BAD_MEMORY] = "a block of memory is NULL or not aligned",
      [pock_lib_BAD_CPU] = "the processor or the system lacks instructions that the library was compiled for",
      [pock_lib_BAD_BATCH] =
          "an array of the batch is NULL, it has no rows or too many, or `samples` are fewer than a step's",
      [pock_lib_BAD_LABEL] = "a class id of the batch is outside its range",
      [pock_lib_BAD_NUMBER] = "one of the optimizer's numbers is outside its range",
      [pock_lib_BAD_TENSOR] =
          "there is no such tensor, it has another number of elements, or it cannot be written",
      [pock_lib_NOT_FINITE] = "the loss, the gradient or a weight is not finite",
      [pock_lib_NO_ROOM] = "the buffer is too small",
      [pock_lib_DAMAGED] = "the checkpoint is damaged or truncated",
      [pock_lib_FOREIGN] = "the checkpoint is not of this model, or was trained otherwise",
      [pock_lib_BAD_STORAGE] = "the storage of the slots cannot be read, erased or written"};
  return status >= 0 && status < (int)(sizeof lines / sizeof *lines) ? lines[status] : "no status";
}

// ---- Running on the caller's threads

struct task {
  pock_kernel fn;
  void* const* args;
};

static void run_piece(void* arg, int64_t begin, int64_t end) {
  const struct task* task = arg;
  uint64_t before = pock_float_mode();
  pock_flush_denormals();
  task->fn(task->args, begin, end);
  pock_set_float_mode(before);
}

static void spread(void* context, pock_kernel fn, void* const* args, int64_t n) {
  const pock_lib_trainer* t = context;
  struct task task = {fn, args};
  t->parallel_for(t->context, run_piece, &task, n);
}

static void infer(const pock_lib_trainer* t) {
  const struct pock_buffers m = memory(t);
  const struct pock_threads threads = {spread, (void*)t};
  pock_program.infer(&m, t->parallel_for ? &threads : NULL);
}

// ---- Batches

static struct pock_source source_of(uint32_t input, const void* const* arrays, uint32_t rows) {
  struct pock_source s = {
      .input = &pock_program.inputs[input], .path = arrays[input] ? "" : NULL, .elements = 1};
  for (uint32_t axis = 1; axis < s.input->rank; ++axis) s.elements *= (uint64_t)s.input->dims[axis];
  s.array.data = arrays[input];
  s.array.dtype = s.input->dtype;
  s.array.count = s.elements * rows;
  return s;
}

static bool is_taken(const struct pock_input* input, bool labels) {
  return labels || input->feed != POCK_LABELS;
}

// Copies the first rows of a batch into the arena; further ones repeat the last.
static int take_batch(const pock_lib_trainer* t, const pock_lib_batch* batch, uint32_t rows, bool infer,
                      bool labels) {
  const struct pock_program* p = &pock_program;
  const char* const* arrays = (const char* const*)batch;
  if (!batch || rows == 0 || rows > p->batch) return pock_lib_BAD_BATCH;
  for (uint32_t i = 0; i < p->input_count; ++i) {
    const struct pock_input* input = &p->inputs[i];
    if (!is_taken(input, labels)) continue;
    if (!arrays[i]) return pock_lib_BAD_BATCH;
    if (!pock_is_whole(input->dtype)) continue;
    const uint64_t count = input->bytes / pock_dtype_bytes(input->dtype) / p->batch * rows;
    const struct pock_limits limits = pock_limits_of(input);
    for (uint64_t k = 0; k < count; ++k)
      if (!pock_is_good(&limits, pock_whole_of((const uint8_t*)arrays[i], input->dtype, k)))
        return pock_lib_BAD_LABEL;
  }
  for (uint32_t i = 0; i < p->input_count; ++i) {
    const struct pock_input* input = &p->inputs[i];
    const uint64_t bytes = input->bytes / p->batch;
    char* to = (char*)t->arena + (infer ? input->infer_offset : input->offset);
    for (uint32_t row = 0; row < p->batch; ++row, to += bytes) {
      const char* from = arrays[i] + bytes * (row < rows ? row : rows - 1);
      if (!is_taken(input, labels))
        memset(to, 0, bytes);
      else if (input->dtype == POCK_F32)
        pock_copy_floats((float*)to, from, bytes / sizeof(float));
      else
        memcpy(to, from, bytes);
    }
  }
  return pock_lib_OK;
}

// ---- The run

enum { BLOCK_ALIGNMENT = 64 };  // kBlockAlignment of the code generator

static bool is_aligned(const void* block, uint64_t bytes) {
  return bytes == 0 || (block && (uintptr_t)block % BLOCK_ALIGNMENT == 0);
}

int pock_lib_init(pock_lib_trainer* t, void* arena, void* params, void* state) {
  const struct pock_program* p = &pock_program;
  if (!is_aligned(arena, p->arena_bytes) || !is_aligned(params, p->params_bytes) ||
      !is_aligned(state, p->state_bytes))
    return pock_lib_BAD_MEMORY;
  if (p->cpu_needs & ~pock_cpu_have()) return pock_lib_BAD_CPU;
  t->arena = arena;
  t->params = params;
  t->state = state;
  t->parallel_for = NULL;
  t->context = NULL;
  *progress(t) = (struct pock_progress){.seed = p->seed, .best_loss = __builtin_inff()};
  for (uint32_t i = 0; i < p->hyper_count; ++i) hypers(t)[i] = p->hypers[i].value;
  const struct pock_buffers m = memory(t);
  memset(state, 0, p->state_bytes);
  pock_start_values(p, &m);
  return pock_lib_OK;
}

static bool in_range(const struct pock_hyper* h, double value) {
  return value >= h->low && (h->open ? value < h->high : value <= h->high) &&
         (!h->whole || value == (double)(int64_t)value);
}

int pock_lib_step(pock_lib_trainer* t, const pock_lib_batch* batch, float* loss) {
  const struct pock_program* p = &pock_program;
  for (uint32_t i = 0; i < p->hyper_count; ++i)
    if (!in_range(&p->hypers[i], hypers(t)[i])) return pock_lib_BAD_NUMBER;
  const uint64_t samples_a_step = pock_batches_a_step(p, hypers(t)) * p->batch;
  if (t->samples && t->samples < samples_a_step) return pock_lib_BAD_BATCH;
  int status = take_batch(t, batch, p->batch, false, true);
  if (status) return status;
  const struct pock_buffers m = memory(t);
  const struct pock_threads threads = {spread, t};
  float value;
  enum pock_outcome outcome =
      pock_step(p, &m, t->parallel_for ? &threads : NULL, hypers(t), progress(t), &value);
  if (loss) *loss = value;
  if (!t->samples) {
    t->position = 0;
  } else if (t->position + samples_a_step > t->samples) {
    ++t->epoch;
    t->position = 0;
  }
  return outcome == POCK_BAD_LOSS || outcome == POCK_BAD_GRADIENT ? pock_lib_NOT_FINITE : pock_lib_OK;
}

int pock_lib_evaluate(pock_lib_trainer* t, const pock_lib_batch* batch, uint32_t rows,
                      pock_lib_score* score) {
  const struct pock_program* p = &pock_program;
  bool whole = p->losses[0].count < p->batch;  // one loss a batch, which then must be full
  if (whole && rows != p->batch) return pock_lib_BAD_BATCH;
  int status = take_batch(t, batch, rows, true, true);
  if (status) return status;
  infer(t);
  const struct pock_buffers m = memory(t);
  struct pock_mean* terms = (struct pock_mean*)((char*)score + offsetof(pock_lib_score, terms));
  pock_add_losses(p, &m, rows, terms);
  score->loss = pock_mean_loss(p, terms);
  score->samples += rows;
  for (uint32_t i = 0; i < p->input_count; ++i) {
    if (!pock_is_judged(&p->inputs[i])) continue;
    const struct pock_source source = source_of(i, (const void* const*)batch, rows);
    for (uint32_t row = 0; row < rows; ++row)
      pock_judge(p, &m, &source, row, row, &score->judged, &score->correct);
  }
  return pock_lib_OK;
}

int pock_lib_predict(pock_lib_trainer* t, const pock_lib_batch* batch, uint32_t rows,
                     pock_lib_outputs* outputs) {
  int status = take_batch(t, batch, rows, true, false);
  if (status) return status;
  infer(t);
  const struct pock_buffers m = memory(t);
  const void** arrays = (const void**)outputs;
  for (uint32_t i = 0; i < pock_program.output_count; ++i)
    arrays[i] = pock_output_data(&pock_program.outputs[i], &m);
  return pock_lib_OK;
}

uint64_t pock_lib_shuffled(const pock_lib_trainer* t, uint32_t row) {
  if (!t->samples) return row;
  const struct pock_shuffle shuffle = pock_shuffle_for(t->samples, t->seed, t->epoch);
  return pock_shuffled(&shuffle, (t->position + t->batches * pock_program.batch + row) % t->samples);
}

// ---- Tensors

// Gradients that are kept stand behind the others.
static const struct pock_tensor* tensor_at(uint32_t i) {
  if (i < pock_program.tensor_count) return &pock_program.tensors[i];
  i -= pock_program.tensor_count;
  return i < pock_program.gradient_count ? &pock_program.gradients[i] : NULL;
}

int pock_lib_describe(uint32_t tensor, pock_lib_tensor* d) {
  const struct pock_tensor* p = tensor_at(tensor);
  if (!p) return pock_lib_BAD_TENSOR;
  *d =
      (pock_lib_tensor){p->name, p->slot, p->dims, p->rank, p->role == POCK_FROZEN, p->bytes / sizeof(float)};
  return pock_lib_OK;
}

int32_t pock_lib_find(const char* name, const char* slot) {
  const struct pock_tensor* p;
  for (uint32_t i = 0; (p = tensor_at(i)); ++i) {
    if (pock_equal(p->name, name) && (p->slot && slot ? pock_equal(p->slot, slot) : !p->slot && !slot))
      return (int32_t)i;
  }
  return -1;
}

static const struct pock_tensor* tensor_of(int32_t tensor, uint64_t count) {
  const struct pock_tensor* p = tensor < 0 ? NULL : tensor_at((uint32_t)tensor);
  return p && p->bytes == count * sizeof(float) ? p : NULL;
}

static int64_t append(void* at, const char* bytes, uint64_t n) {
  memcpy(*(char**)at, bytes, n);
  *(char**)at += n;
  return 0;
}

int pock_lib_get(const pock_lib_trainer* t, int32_t tensor, float* to, uint64_t count) {
  const struct pock_tensor* p = tensor_of(tensor, count);
  if (!p) return pock_lib_BAD_TENSOR;
  const struct pock_buffers m = memory(t);
  const char* from = p->role >= POCK_GRADIENT ? pock_kept_gradient(p, &m)
                     : p->role == POCK_FROZEN ? m.weights + p->offset
                                              : pock_saved_tensor(p, &m);
  char* at = (char*)to;
  pock_each_piece(p, from, append, &at);
  return pock_lib_OK;
}

int pock_lib_set(pock_lib_trainer* t, int32_t tensor, const float* from, uint64_t count) {
  const struct pock_tensor* p = tensor_of(tensor, count);
  const struct pock_buffers m = memory(t);
  char* to = p && p->role < POCK_GRADIENT ? pock_saved_tensor(p, &m) : NULL;
  if (!to) return pock_lib_BAD_TENSOR;
  pock_store_tensor(p, to, from);
  return pock_lib_OK;
}

// ---- Checkpoints

int pock_lib_save(const pock_lib_trainer* t, void* to, size_t room, size_t* length) {
  const struct pock_program* p = &pock_program;
  const struct pock_buffers m = memory(t);
  if (pock_not_finite(p, &m)) return pock_lib_NOT_FINITE;
  struct pock_text out = {NULL, 0, 0};  // measures
  pock_put_checkpoint_head(&out, p, &m, progress(t));
  uint64_t bytes = out.length;
  for (uint32_t i = 0; i < p->tensor_count; ++i)
    if (p->tensors[i].role != POCK_FROZEN) bytes += p->tensors[i].bytes;
  if (length) *length = bytes;
  if (!to || room < bytes) return pock_lib_NO_ROOM;
  out = (struct pock_text){to, 0, room};
  pock_put_checkpoint_head(&out, p, &m, progress(t));
  char* at = (char*)to + out.length;
  for (uint32_t i = 0; i < p->tensor_count; ++i) {
    const char* from = pock_saved_tensor(&p->tensors[i], &m);
    if (!from) continue;
    pock_each_piece(&p->tensors[i], from, append, &at);
  }
  return pock_lib_OK;
}

static int load(pock_lib_trainer* t, const void* from, size_t length, bool weights_only,
                struct pock_text* why) {
  const struct pock_program* p = &pock_program;
  const struct pock_buffers m = memory(t);
  uint64_t scratch = pock_checkpoint_scratch(p), table = p->tensor_count * sizeof(uint64_t);
  if (table + scratch > p->arena_bytes) return pock_lib_BAD_MEMORY;  // pockc gives the arena room for them
  struct pock_checkpoint checkpoint = {
      .weights_only = weights_only, .offsets = t->arena, .scratch = {(char*)t->arena + table, 0, scratch}};
  switch (pock_check_checkpoint(p, from, length, &checkpoint, why)) {
    case POCK_DAMAGED:
      return pock_lib_DAMAGED;
    case POCK_FOREIGN:
      return pock_lib_FOREIGN;
    default:
      break;
  }
  pock_load_checkpoint(p, &checkpoint, &m);
  if (!weights_only) *progress(t) = checkpoint.progress;
  return pock_lib_OK;
}

static int load_and_say(pock_lib_trainer* t, const void* from, size_t length, bool weights_only, char* reason,
                        size_t room) {
  struct pock_text why = {reason, 0, reason && room ? room - 1 : 0};
  int status = load(t, from, length, weights_only, &why);
  if (reason && room) reason[pock_text_size(&why)] = 0;
  return status;
}

int pock_lib_load(pock_lib_trainer* t, const void* from, size_t length, char* reason, size_t room) {
  return load_and_say(t, from, length, false, reason, room);
}

int pock_lib_load_weights(pock_lib_trainer* t, const void* from, size_t length, char* reason, size_t room) {
  return load_and_say(t, from, length, true, reason, room);
}

// ---- Slots
//
// A slot is erased, then its blocks are written, and last its head, which makes it count. So whenever the power goes, the
// other slot has what was stored before; of two that are whole the later one holds.

struct head {
  uint32_t made_by;  // identity(): whose record it is, and how it lies in memory
  uint32_t crc;      // of the blocks
  uint64_t number;   // counts the records
  struct pock_progress progress;
  char padding[POCK_SLOT_HEAD - 24 - sizeof(struct pock_progress)];
  uint32_t reserved, head_crc;  // of all before
};
_Static_assert(sizeof(struct head) == POCK_SLOT_HEAD, "so much stands in front of the blocks");

static uint32_t add(uint32_t crc, const void* bytes, uint64_t n) { return pock_crc32(crc, bytes, n); }

static uint32_t head_crc(const struct head* head) { return add(0, head, offsetof(struct head, head_crc)); }

static uint32_t identity(void) {
  const struct pock_program* p = &pock_program;
  const char* texts[POCK_BATCH];
  pock_checkpoint_texts(p, texts);
  uint32_t crc = 0;
  for (int i = 0; i < POCK_BATCH; ++i) crc = add(crc, texts[i], pock_length(texts[i]));
  for (uint32_t i = 0; i < p->tensor_count; ++i) {
    const struct pock_tensor* t = &p->tensors[i];
    crc = add(crc, &t->offset, sizeof t->offset);
    crc = add(crc, t->dims, (t->rank + 2u * t->walk_rank) * sizeof *t->dims);
  }
  return crc;
}

// Goes over the blocks of a slot, and gives their checksum. Where they are not to be `kept` they pass through the arena.
static bool read_blocks(const pock_lib_trainer* t, const pock_lib_storage* s, int slot, bool kept,
                        uint32_t* crc) {
  const struct pock_program* p = &pock_program;
  char* const blocks[] = {t->params, t->state};
  const uint64_t bytes[] = {p->params_bytes, p->state_bytes};
  uint32_t at = sizeof(struct head);
  *crc = 0;
  for (int i = 0; i < 2; ++i)
    for (uint64_t done = 0, n; done < bytes[i]; done += n, at += (uint32_t)n) {
      n = bytes[i] - done < p->arena_bytes ? bytes[i] - done : p->arena_bytes;
      char* to = kept ? blocks[i] + done : t->arena;
      if (s->read(s->context, slot, at, to, (uint32_t)n)) return false;
      *crc = add(*crc, to, n);
    }
  return true;
}

// The slot of the last record that is whole and the library's own, or -1.
static int last_record(const pock_lib_trainer* t, const pock_lib_storage* s, struct head* last,
                       bool* foreign) {
  int found = -1;
  for (int slot = 0; slot < 2; ++slot) {
    struct head head;
    uint32_t crc;
    if (s->read(s->context, slot, 0, &head, sizeof head) || head.head_crc != head_crc(&head)) continue;
    if (head.made_by != identity()) {
      *foreign = true;
      continue;
    }
    if (found >= 0 && head.number < last->number) continue;
    if (!read_blocks(t, s, slot, false, &crc) || crc != head.crc) continue;
    found = slot;
    *last = head;
  }
  return found;
}

int pock_lib_store(const pock_lib_trainer* t, const pock_lib_storage* s) {
  const struct pock_program* p = &pock_program;
  const struct pock_buffers m = memory(t);
  if (pock_not_finite(p, &m)) return pock_lib_NOT_FINITE;
  struct head head = {0};
  bool foreign = false;
  const int last = last_record(t, s, &head, &foreign), slot = last == 0;
  head = (struct head){.made_by = identity(), .number = head.number + 1, .progress = *progress(t)};
  head.progress.batches = 0;
  head.crc = add(add(0, m.params, p->params_bytes), m.state, p->state_bytes);
  head.head_crc = head_crc(&head);
  const uint32_t params = (uint32_t)p->params_bytes, state = (uint32_t)p->state_bytes;
  const bool good = !s->erase(s->context, slot) &&
                    (!params || !s->write(s->context, slot, sizeof head, m.params, params)) &&
                    (!state || !s->write(s->context, slot, sizeof head + params, m.state, state)) &&
                    !s->write(s->context, slot, 0, &head, sizeof head);
  return good ? pock_lib_OK : pock_lib_BAD_STORAGE;
}

int pock_lib_restore(pock_lib_trainer* t, const pock_lib_storage* s) {
  struct head head;
  bool foreign = false;
  const int slot = last_record(t, s, &head, &foreign);
  if (slot < 0) return foreign ? pock_lib_FOREIGN : pock_lib_DAMAGED;
  uint32_t crc;
  if (!read_blocks(t, s, slot, true, &crc) || crc != head.crc) return pock_lib_BAD_STORAGE;
  *progress(t) = head.progress;
  return pock_lib_OK;
}
