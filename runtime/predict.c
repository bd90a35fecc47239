// `trainer predict`: what the model gives for each sample, as .npy files.
//
// The files are written under other names and get their own ones when all of them are whole.
#include "trainer.h"

struct target {
  const struct pock_output* output;
  const char* path;
  char fresh[POCK_PATH];  // its name until it is whole
  int fd;                 // -1: not open
};

static const char* npy_dtype(uint8_t dtype) {
  static const char names[][4] = {"<f4", "<f8", "|i1", "|u1", "<i4", "<i8"};
  return dtype < sizeof names / sizeof *names ? names[dtype] : "|V1";
}

static int64_t write_header(const struct pock_trainer* t, const struct target* target) {
  char bytes[512];
  struct pock_text out = {bytes, 0, sizeof bytes};
  const struct pock_output* o = target->output;
  bool rows = o->rows;
  pock_put_bytes(&out, "\x93NUMPY\1\0..", 10);
  pock_format(&out, "{'descr': '%s', 'fortran_order': False, 'shape': (%llu,", npy_dtype(o->dtype),
              (unsigned long long)(rows ? t->train.samples : t->train.samples / pock_program.batch));
  for (uint32_t i = rows; i < o->rank; ++i)
    pock_format(&out, i == rows ? " %lld" : ", %lld", (long long)o->dims[i]);
  pock_format(&out, "), }");
  while (out.length % 64 != 63) pock_put(&out, ' ');
  pock_put(&out, '\n');
  bytes[8] = (char)((out.length - 10) & 255);
  bytes[9] = (char)((out.length - 10) >> 8);
  return pock_write(target->fd, bytes, out.length);
}

static int64_t open_target(const struct pock_trainer* t, struct target* target) {
  struct pock_file there;
  int64_t error = pock_map_file(target->path, &there);  // a folder or a device is not written over
  if (error && error != -2 /* nothing there */) return error;
  pock_unmap_file(&there);
  int64_t fd = pock_create_file(target->fresh);
  if (fd < 0) return fd;
  target->fd = (int)fd;
  return write_header(t, target);
}

static int64_t write_batch(const struct pock_trainer* t, const struct target* target, uint32_t rows) {
  const struct pock_output* o = target->output;
  uint64_t bytes = o->rows ? o->bytes / pock_program.batch * rows : o->bytes;
  return pock_write(target->fd, pock_output_data(o, &t->memory), bytes);
}

static bool failed(const struct target* target, int64_t error) {
  if (error) pock_complain("'%s' cannot be written: %s", target->path, pock_reason(error));
  return error;
}

// What is read must not be written over, nor one output by another.
static bool collides(const struct pock_trainer* t, const struct target* targets, uint32_t i) {
  const struct target* target = &targets[i];
  bool same = t->options.weights && pock_same_file(target->path, t->options.weights);
  if (pock_program.weights_file) same |= pock_same_file(target->path, t->options.weights_file);
  for (uint32_t k = 0; k < pock_program.input_count; ++k)
    same |= t->options.data[k] && pock_same_file(target->path, t->options.data[k]);
  for (uint32_t k = 0; k < i; ++k) same |= pock_same_file(target->fresh, targets[k].fresh);
  if (same)
    pock_complain("--output '%s' would write over a file that is read, or over another output", target->path);
  return same;
}

// 0, 1, or 128 and the signal that stopped it.
static int write_targets(struct pock_trainer* t, struct target* targets, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (collides(t, targets, i) || failed(&targets[i], open_target(t, &targets[i]))) return 1;
  for (uint64_t first = 0; first < t->train.samples; first += pock_program.batch) {
    if (pock_caught_signal()) return 128 + pock_caught_signal();
    uint32_t rows = pock_fill_batch(t, &t->train, first);
    pock_program.infer(&t->memory, &t->threads);
    for (uint32_t i = 0; i < count; ++i)
      if (failed(&targets[i], write_batch(t, &targets[i], rows))) return 1;
  }
  for (uint32_t i = 0; i < count; ++i)
    if (failed(&targets[i], pock_sync(targets[i].fd))) return 1;
  for (uint32_t i = 0; i < count; ++i)
    if (failed(&targets[i], pock_rename(targets[i].fresh, targets[i].path))) return 1;
  return 0;
}

static bool fits(const struct pock_trainer* t, const struct pock_output* output) {
  if (output->rows || t->train.samples % pock_program.batch == 0) return true;
  return pock_complain(
      "output '%s' has no row for each sample but one value for a whole batch of %d; %llu samples do not "
      "fill "
      "batches",
      output->name, (int)pock_program.batch, (unsigned long long)t->train.samples);
}

int pock_predict(struct pock_trainer* t) {
  const struct pock_program* p = &pock_program;
  struct target* targets = pock_table(p->output_count, sizeof *targets);
  uint32_t count = 0;
  for (uint32_t i = 0; i < p->output_count; ++i) {
    if (!t->options.outputs[i]) continue;
    if (!fits(t, &p->outputs[i])) return 1;
    struct target* target = &targets[count++];
    target->output = &p->outputs[i];
    target->path = t->options.outputs[i];
    target->fd = -1;
    struct pock_text name = {target->fresh, 0, sizeof target->fresh - 1};
    pock_format(&name, "%s.tmp", target->path);
    if (name.length > name.capacity) return failed(target, -36 /* too long */);
  }
  int status = write_targets(t, targets, count);
  for (uint32_t i = 0; i < count && status; ++i)
    if (targets[i].fd >= 0) pock_unlink(targets[i].fresh);
  return status;
}
