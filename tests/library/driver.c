/* Drives the library `net` of a net with input x, output logits and class ids as labels, from C and from C++:
 *
 *   driver DATA LABELS SAMPLES FEATURES CLASSES DO...
 *
 * where each DO is one of: threads=N upwards (the caller rounds upwards) load=FILE weights=FILE shuffle train=STEPS
 * save=FILE gradients=FILE (one after the other) eval predict=FILE
 * full (all of the arena was used). DATA are floats, LABELS int32, without a header. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

#include "net.h"

enum { GUARD = 4096 };

static net_trainer trainer;
static unsigned float_mode;
static int thread_count = 1;

static void fail(const char* what, const char* why) {
  fprintf(stderr, "driver: %s: %s\n", what, why);
  exit(1);
}

/* Without the flags of what happened. */
static unsigned mode(void) { return _mm_getcsr() & ~0x3Fu; }

static void good(int status, const char* what) {
  if (status != net_OK) fail(what, net_explain(status));
  if (mode() != float_mode) fail(what, "changed the caller's float mode");
}

static char* read_file(const char* path, size_t* length) {
  FILE* file = fopen(path, "rb");
  char* bytes = (char*)malloc(1 << 26);
  if (!file || !bytes) fail(path, "cannot be read");
  *length = fread(bytes, 1, 1 << 26, file);
  fclose(file);
  return bytes;
}

static void write_file(const char* path, const void* bytes, size_t length) {
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, length, file) != length || fclose(file)) fail(path, "cannot be written");
}

/* A block between two guards. */
static char* block(size_t bytes) {
  char* memory = (char*)malloc(bytes + 2 * GUARD + net_ALIGN);
  if (!memory) fail("memory", "not there");
  memory += net_ALIGN - (size_t)memory % net_ALIGN;
  memset(memory, 0x5A, bytes + 2 * GUARD);
  return memory + GUARD;
}

/* The arena is as large as the plan says, and the plan no larger than what is used. */
static void check_reached(const char* memory, size_t bytes) {
  size_t used = bytes;
  while (used > 0 && memory[used - 1] == 0x5A) --used;
  if (bytes - used >= net_ALIGN) fail("the arena", "is larger than what was used of it");
}

static void check_guards(const char* memory, size_t bytes, const char* what) {
  size_t i;
  for (i = 0; i < GUARD; ++i)
    if (memory[-1 - (long)i] != 0x5A || memory[bytes + i] != 0x5A) fail(what, "was left");
}

/* ---- Threads */

struct piece {
  pthread_t thread;
  void (*fn)(void*, int64_t, int64_t);
  void* arg;
  int64_t begin, end;
};

static void* run_piece(void* argument) {
  struct piece* p = (struct piece*)argument;
  unsigned before = mode();
  if (p->begin < p->end) p->fn(p->arg, p->begin, p->end);
  if (mode() != before) fail("a piece", "changed its thread's float mode");
  return NULL;
}

/* In pieces of unequal lengths, the last one first. */
static void spread(void* context, void (*fn)(void*, int64_t, int64_t), void* arg, int64_t n) {
  struct piece pieces[16];
  int i, count = *(int*)context;
  int64_t begin = 0;
  for (i = 0; i < count; ++i) {
    int64_t end = i + 1 == count ? n : begin + (n - begin) / 3;
    pieces[i].fn = fn;
    pieces[i].arg = arg;
    pieces[i].begin = begin;
    pieces[i].end = end;
    begin = end;
  }
  for (i = count; i-- > 0;)
    if (pthread_create(&pieces[i].thread, NULL, run_piece, &pieces[i])) fail("a thread", "was not started");
  for (i = 0; i < count; ++i) pthread_join(pieces[i].thread, NULL);
}

/* ---- Steps */

static const float* data;
static const int32_t* labels;
static size_t samples, features, classes;

static void train(long steps, int shuffle) {
  static float x[1 << 16];
  int32_t y[net_BATCH];
  net_batch batch;
  batch.in_x = x;
  batch.labels = y;
  while (steps-- > 0) {
    size_t row;
    float loss;
    for (row = 0; row < net_BATCH; ++row) {
      size_t i = shuffle ? net_shuffled(&trainer, (uint32_t)row)
                         : trainer.position + trainer.batches * net_BATCH + row;
      memcpy(x + row * features, data + i * features, features * sizeof(float));
      y[row] = labels[i];
    }
    good(net_step(&trainer, &batch, &loss), "a step");
  }
}

static net_batch batch_at(size_t first, uint32_t* rows) {
  net_batch batch;
  batch.in_x = data + first * features;
  batch.labels = labels + first;
  *rows = samples - first < net_BATCH ? (uint32_t)(samples - first) : net_BATCH;
  return batch;
}

static void evaluate(void) {
  net_score score = {0, 0, 0, 0, {0}};
  size_t first;
  for (first = 0; first < samples; first += net_BATCH) {
    uint32_t rows;
    net_batch batch = batch_at(first, &rows);
    good(net_evaluate(&trainer, &batch, rows, &score), "an evaluation");
  }
  printf("%.17g %lu %lu %lu\n", score.loss, (unsigned long)score.samples, (unsigned long)score.judged,
         (unsigned long)score.correct);
}

static void predict(const char* path) {
  FILE* file = fopen(path, "wb");
  size_t first;
  if (!file) fail(path, "cannot be written");
  for (first = 0; first < samples; first += net_BATCH) {
    uint32_t rows;
    net_outputs outputs;
    net_batch batch = batch_at(first, &rows);
    batch.labels = NULL;
    good(net_predict(&trainer, &batch, rows, &outputs), "a prediction");
    fwrite(outputs.out_logits, sizeof(float), rows * classes, file);
  }
  fclose(file);
}

static void load(const char* path, int (*how)(net_trainer*, const void*, size_t, char*, size_t)) {
  size_t length;
  char reason[256], *bytes = read_file(path, &length);
  int status = how(&trainer, bytes, length, reason, sizeof reason);
  if (status != net_OK) fail(path, reason);
  good(status, path);
  free(bytes);
}

static void save(const char* path) {
  static char bytes[net_SAVE_BYTES];
  size_t length;
  good(net_save(&trainer, bytes, sizeof bytes, &length), path);
  write_file(path, bytes, length);
}

static void gradients(const char* path) {
  static float values[1 << 20];
  FILE* file = fopen(path, "wb");
  int32_t i;
  if (!file) fail(path, "cannot be written");
  for (i = 0; i < net_TENSORS; ++i) {
    net_tensor d;
    good(net_describe((uint32_t)i, &d), "a tensor");
    if (!d.slot || strcmp(d.slot, "grad")) continue;
    if (d.frozen || net_find(d.name, "grad") != i || net_find(d.name, NULL) == i)
      fail(d.name, "is described wrongly");
    if (net_set(&trainer, i, values, d.count) != net_BAD_TENSOR) fail(d.name, "was written");
    good(net_get(&trainer, i, values, d.count), d.name);
    fwrite(values, sizeof(float), d.count, file);
  }
  fclose(file);
}

static void act(const char* what) {
  static int shuffle = 0;
  const char* value = strchr(what, '=');
  value = value ? value + 1 : what;
  if (!strncmp(what, "threads=", 8)) {
    thread_count = atoi(value);
    trainer.parallel_for = spread;
    trainer.context = &thread_count;
  } else if (!strcmp(what, "upwards")) {
    _mm_setcsr(_mm_getcsr() | _MM_ROUND_UP);
    float_mode = mode();
  } else if (!strcmp(what, "shuffle")) {
    shuffle = 1;
  } else if (!strncmp(what, "train=", 6)) {
    train(atol(value), shuffle);
  } else if (!strncmp(what, "load=", 5)) {
    load(value, net_load);
  } else if (!strncmp(what, "weights=", 8)) {
    load(value, net_load_weights);
  } else if (!strncmp(what, "save=", 5)) {
    save(value);
  } else if (!strncmp(what, "gradients=", 10)) {
    gradients(value);
  } else if (!strcmp(what, "eval")) {
    evaluate();
  } else if (!strncmp(what, "predict=", 8)) {
    predict(value);
  } else {
    fail(what, "is not known");
  }
}

int main(int argc, char** argv) {
  char *arena = block(net_ARENA_BYTES), *params = block(net_PARAMS_BYTES), *state = block(net_STATE_BYTES);
  size_t length;
  int i;
  if (argc < 6) fail("usage", "driver DATA LABELS SAMPLES FEATURES CLASSES DO...");
  float_mode = mode();
  good(net_init(&trainer, arena, params, state), "init");
  data = (const float*)(void*)read_file(argv[1], &length);
  labels = (const int32_t*)(void*)read_file(argv[2], &length);
  samples = (size_t)atol(argv[3]);
  features = (size_t)atol(argv[4]);
  classes = (size_t)atol(argv[5]);
  trainer.samples = samples;
  for (i = 6; i < argc; ++i)
    if (!strcmp(argv[i], "full"))
      check_reached(arena, net_ARENA_BYTES);
    else
      act(argv[i]);
  check_guards(arena, net_ARENA_BYTES, "the arena");
  check_guards(params, net_PARAMS_BYTES, "the block of parameters");
  check_guards(state, net_STATE_BYTES, "the block of state");
  return 0;
}
