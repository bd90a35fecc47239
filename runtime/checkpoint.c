// Writing checkpoints: a safetensors file under the names, shapes and order of the model file.
//
// The new file is complete and on the disk under another name before it takes the place of the old one, and
// the old one stays as FILE.prev: a power cut at any moment leaves a file to resume from.
#include "runtime.h"

static const char* safetensors_dtype(uint8_t dtype) {
  static const char names[][4] = {"F32", "F64", "I8", "U8", "I32", "I64"};
  return dtype < sizeof names / sizeof *names ? names[dtype] : "U8";  // masks are bytes
}

void pock_checkpoint_texts(const struct pock_program* program, const char* texts[POCK_BATCH]) {
  texts[POCK_FORMAT] = pock_checkpoint_format;
  texts[POCK_MODEL_HASH] = program->model_hash;
  texts[POCK_SCHEME] = program->scheme;
  texts[POCK_ADAPTERS] = program->adapters;
  texts[POCK_OPTIMIZER_NAME] = program->optimizer;
}

void pock_put_checkpoint_entry(struct pock_text* out, const struct pock_tensor* t, uint64_t at) {
  pock_format(out, t->role == POCK_OPTIMIZER ? ",\"optimizer/%s/" : ",\"", t->slot);
  pock_put_escaped(out, t->name);
  pock_format(out, "\":{\"dtype\":\"%s\",\"shape\":", safetensors_dtype(t->dtype));
  pock_put_shape(out, t->dims, t->rank);
  pock_format(out, ",\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
              (unsigned long long)(at + t->bytes));
}

static void put_header(struct pock_text* out, const struct pock_program* program,
                       const struct pock_progress* p, uint32_t data_crc) {
  const char* texts[POCK_BATCH];
  pock_checkpoint_texts(program, texts);
  const uint64_t numbers[] = {program->batch, p->step,    p->epoch,      p->position,
                              p->seed,        p->samples, p->best_epoch, p->best_step};
  pock_format(out, "%s00000000\",\"crc32\":\"%08x\",\"model\":", pock_checkpoint_start, data_crc);
  pock_put_json(out, program->model);
  for (int i = 0; i < POCK_FACTS; ++i) {
    if (i >= POCK_BEST_EPOCH && !pock_finite(p->best_loss)) break;
    pock_format(out, ",\"%s\":", pock_fact_names[i]);
    if (i < POCK_BATCH)
      pock_put_json(out, texts[i]);
    else if (i < POCK_BEST_LOSS)
      pock_format(out, "\"%llu\"", (unsigned long long)numbers[i - POCK_BATCH]);
    else
      pock_put(out, '"'), pock_put_float(out, p->best_loss), pock_put(out, '"');
  }
  pock_put(out, '}');
  uint64_t at = 0;
  for (uint32_t i = 0; i < program->tensor_count; ++i) {
    const struct pock_tensor* t = &program->tensors[i];
    if (t->role == POCK_FROZEN) continue;
    pock_put_checkpoint_entry(out, t, at);
    at += t->bytes;
  }
  pock_put(out, '}');
  while (out->length % 8) pock_put(out, ' ');
}

static int64_t each_saved(const struct pock_program* program, const struct pock_buffers* memory,
                          pock_take take, void* context) {
  int64_t error = 0;
  for (uint32_t i = 0; i < program->tensor_count && !error; ++i) {
    const char* stored = pock_saved_tensor(&program->tensors[i], memory);
    if (stored) error = pock_each_piece(&program->tensors[i], stored, take, context);
  }
  return error;
}

static int64_t add_to_crc(void* crc, const char* bytes, uint64_t n) {
  *(uint32_t*)crc = pock_crc32(*(uint32_t*)crc, (const uint8_t*)bytes, n);
  return 0;
}

void pock_put_checkpoint_head(struct pock_text* out, const struct pock_program* program,
                              const struct pock_buffers* memory, const struct pock_progress* progress) {
  uint32_t crc = 0;
  if (out->capacity) each_saved(program, memory, add_to_crc, &crc);
  struct pock_text header = {0};  // measures
  put_header(&header, program, progress, crc);
  uint64_t start = out->length, length = header.length;
  pock_put_bytes(out, (const char*)&length, 8);
  put_header(out, program, progress, crc);
  if (out->length > out->capacity) return;
  struct pock_text checksum = {out->data + start + POCK_CRC_AT, 0, 8};
  pock_format(&checksum, "%08x", pock_header_crc((const uint8_t*)out->data + start, out->length - start));
}

static int64_t write_piece(void* fd, const char* bytes, uint64_t n) {
  return pock_write(*(int*)fd, bytes, n);
}

static int64_t write_file(int fd, const struct pock_program* program, const struct pock_buffers* memory,
                          const struct pock_progress* progress) {
  struct pock_text head = {0};  // measures
  pock_put_checkpoint_head(&head, program, memory, progress);
  struct pock_file block;
  block.length = head.length;
  block.bytes = pock_reserve(block.length);
  if (!block.bytes) return -12;
  head = (struct pock_text){(char*)block.bytes, 0, block.length};
  pock_put_checkpoint_head(&head, program, memory, progress);
  int64_t error = pock_write(fd, block.bytes, block.length);
  pock_unmap_file(&block);
  if (!error) error = each_saved(program, memory, write_piece, &fd);
  return error ? error : pock_sync(fd);
}

bool pock_with_suffix(char path[POCK_PATH], const char* base, const char* suffix) {
  struct pock_text text = {path, 0, POCK_PATH};
  pock_format(&text, "%s%s", base, suffix);
  pock_string(&text);
  return text.length < text.capacity;
}

int64_t pock_begin_file(const char* path, char fresh[POCK_PATH]) {
  return pock_with_suffix(fresh, path, ".tmp") ? pock_create_file(fresh) : -36;
}

int64_t pock_end_file(int fd, int64_t error, const char* fresh, const char* path, bool keep_previous) {
  char previous[POCK_PATH];
  if (!error && keep_previous && pock_with_suffix(previous, path, ".prev")) {
    pock_unlink(previous);
    int64_t linked = pock_link(path, previous);
    // A file system without hard links: the name moves, and for a moment only FILE.prev exists.
    if (linked && linked != -2) pock_rename(path, previous);
  }
  if (!error) error = pock_rename(fresh, path);
  if (error) pock_unlink(fresh);
  pock_close(fd);
  return error ? error : pock_sync_directory_of(path);
}

const char pock_not_finite_advice[] =
    "; what is saved stays as it is. Try a smaller --lr, or look at the data";

const struct pock_tensor* pock_not_finite(const struct pock_program* program,
                                          const struct pock_buffers* memory) {
  for (uint32_t i = 0; i < program->tensor_count; ++i) {
    const struct pock_tensor* t = &program->tensors[i];
    const char* bytes = pock_saved_tensor(t, memory);
    if (!bytes || t->dtype != POCK_F32) continue;
    for (uint64_t k = 0; k < t->bytes; k += 4) {
      uint32_t bits;
      __builtin_memcpy(&bits, bytes + k, 4);
      if ((bits >> 23 & 0xFF) == 0xFF) return t;
    }
  }
  return NULL;
}

static bool cannot_write(const char* path, const char* reason) {
  return pock_complain("checkpoint '%s' cannot be written: %s", path, reason);
}

bool pock_save_checkpoint(const struct pock_program* program, const struct pock_buffers* memory,
                          const struct pock_progress* progress, const char* path, bool keep_previous) {
  char fresh[POCK_PATH];
  const struct pock_tensor* spoilt = pock_not_finite(program, memory);
  if (spoilt)
    return pock_complain("after step %llu %s%s'%s' is not finite: not saved%s",
                         (unsigned long long)progress->step, spoilt->slot ? spoilt->slot : "",
                         spoilt->slot ? " of " : "", spoilt->name, pock_not_finite_advice);
  const int64_t fd = pock_begin_file(path, fresh);
  int64_t error = fd < 0 ? fd : write_file((int)fd, program, memory, progress);
  if (fd >= 0) error = pock_end_file((int)fd, error, fresh, path, keep_previous);
  return !error || cannot_write(path, pock_reason(error));
}

// Only a checkpoint may be replaced: not a folder, a device, or somebody's data. 0, or the reason not to.
static int64_t may_replace(const char* path, bool* foreign) {
  struct pock_file file;
  int64_t error = pock_map_file(path, &file);
  if (error) return error == -2 ? 0 : error;
  *foreign = file.length && !pock_starts_checkpoint(file.bytes, file.length);
  pock_unmap_file(&file);
  return 0;
}

bool pock_try_checkpoint_path(const char* path, bool known) {
  char fresh[POCK_PATH];
  bool foreign = false;
  int64_t fd = may_replace(path, &foreign);
  foreign &= !known;
  if (!fd && !foreign) fd = pock_begin_file(path, fresh);
  if (foreign) return cannot_write(path, "there is a file of this name that is no checkpoint");
  if (fd < 0) return cannot_write(path, pock_reason(fd));
  pock_unlink(fresh);
  pock_close((int)fd);
  return true;
}
