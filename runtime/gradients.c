// The safetensors file of gradients that the trainer writes of its last step, under the names of the parameters. Of what is
// trained in part they are that part; "slices" in the metadata says which.
#include "trainer.h"

static const char start[] = "{\"__metadata__\":{\"format\":\"pock-gradients-1\",\"model\":";

static void put_header(struct pock_text* out, const struct pock_program* p, uint64_t step) {
  const struct {
    const char *key, *value;
  } texts[] = {
      {"model_hash", p->model_hash}, {"scheme", p->scheme}, {"adapters", p->adapters}, {"slices", p->slices}};
  pock_format(out, "%s", start);
  pock_put_json(out, p->model);
  for (uint32_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    pock_format(out, ",\"%s\":", texts[i].key);
    pock_put_json(out, texts[i].value);
  }
  pock_format(out, ",\"step\":\"%llu\"}", (unsigned long long)step);
  uint64_t at = 0;
  for (uint32_t i = 0; i < p->gradient_count; ++i) {
    pock_put_checkpoint_entry(out, &p->gradients[i], at);
    at += p->gradients[i].bytes;
  }
  pock_put(out, '}');
  while (out->length % 8) pock_put(out, ' ');
}

static int64_t write_piece(void* fd, const char* bytes, uint64_t n) {
  return pock_write(*(int*)fd, bytes, n);
}

static int64_t write_file(int fd, const struct pock_trainer* t) {
  const struct pock_program* p = &pock_program;
  struct pock_text header = {0};  // measures
  put_header(&header, p, t->progress.step);
  struct pock_file block = {.length = header.length};
  block.bytes = pock_reserve(block.length);
  if (!block.bytes) return -12;
  header = (struct pock_text){(char*)block.bytes, 0, block.length};
  put_header(&header, p, t->progress.step);
  int64_t error = pock_write(fd, &block.length, sizeof block.length);
  if (!error) error = pock_write(fd, block.bytes, block.length);
  pock_unmap_file(&block);
  for (uint32_t i = 0; i < p->gradient_count && !error; ++i)
    error =
        pock_each_piece(&p->gradients[i], pock_kept_gradient(&p->gradients[i], &t->memory), write_piece, &fd);
  return error ? error : pock_sync(fd);
}

static bool cannot_write(const char* path, const char* reason) {
  return pock_complain("gradients '%s' cannot be written: %s", path, reason);
}

bool pock_write_gradients(const struct pock_trainer* t) {
  const char* path = t->options.gradients;
  char fresh[POCK_PATH];
  const int64_t fd = pock_begin_file(path, fresh);
  int64_t error = fd < 0 ? fd : write_file((int)fd, t);
  if (fd >= 0) error = pock_end_file((int)fd, error, fresh, path, false);
  return !error || cannot_write(path, pock_reason(error));
}

// Only gradients may be written over.
static const char* obstacle(const char* path) {
  struct pock_file file;
  const int64_t error = pock_map_file(path, &file);
  if (error) return error == -2 /* nothing there */ ? NULL : pock_reason(error);
  const bool foreign =
      file.length && (file.length < 8 + sizeof start || memcmp(file.bytes + 8, start, sizeof start - 1) != 0);
  pock_unmap_file(&file);
  return foreign ? "there is a file of this name that holds no gradients" : NULL;
}

bool pock_try_gradients_path(const struct pock_trainer* t) {
  const char *path = t->options.gradients, *checkpoint = t->options.checkpoint, *reason = obstacle(path);
  char fresh[POCK_PATH], other[POCK_PATH];
  if (reason) return cannot_write(path, reason);
  const int64_t fd = pock_begin_file(path, fresh);
  if (fd < 0) return cannot_write(path, pock_reason(fd));
  const bool same = checkpoint && pock_with_suffix(other, checkpoint, ".tmp") && pock_same_file(fresh, other);
  pock_unlink(fresh);
  pock_close((int)fd);
  return !same || cannot_write(path, "that is the checkpoint");
}
