/* What a caller can do wrong with the library `net` of lenet, whose fc2.bias is frozen, and what it answers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

static int wrong = 0;

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      wrong = 1;                                              \
    }                                                         \
  } while (0)

enum { INPUT = net_BATCH * 28 * 28, WEIGHT = 6 * 5 * 5 };

static net_trainer t;
static float x[INPUT];
static int32_t y[net_BATCH];
static char saved[net_SAVE_BYTES], other[net_SAVE_BYTES];

static char* block(size_t bytes) {
  char* memory = (char*)malloc(bytes + net_ALIGN);
  if (!memory) exit(2);
  return memory + (net_ALIGN - (size_t)memory % net_ALIGN);
}

static void memory(void) {
  char *a = block(net_ARENA_BYTES + 8), *p = block(net_PARAMS_BYTES), *s = block(net_STATE_BYTES);
  EXPECT(net_init(&t, NULL, p, s) == net_BAD_MEMORY);
  EXPECT(net_init(&t, a, NULL, s) == net_BAD_MEMORY);
  EXPECT(net_init(&t, a, p, NULL) == net_BAD_MEMORY);
  EXPECT(net_init(&t, a + 8, p, s) == net_BAD_MEMORY);
  EXPECT(net_init(&t, a, p, s) == net_OK);
  EXPECT(t.arena == a && t.params == p && t.state == s && !t.parallel_for);
  EXPECT(t.step == 0 && t.epoch == 0 && t.position == 0 && t.seed == 42 && t.lr == 0.5 && t.momentum == 0.9);
}

static void batches(void) {
  net_batch good, bad;
  net_outputs outputs;
  net_score score = {0, 0, 0, 0, {0}};
  float loss = -1;
  good.in_x = x;
  good.labels = y;
  bad = good;
  EXPECT(net_step(&t, NULL, &loss) == net_BAD_BATCH);
  bad.in_x = NULL;
  EXPECT(net_step(&t, &bad, &loss) == net_BAD_BATCH);
  EXPECT(net_predict(&t, &bad, 1, &outputs) == net_BAD_BATCH);
  bad = good;
  bad.labels = NULL;
  EXPECT(net_step(&t, &bad, &loss) == net_BAD_BATCH);
  EXPECT(net_evaluate(&t, &bad, 1, &score) == net_BAD_BATCH);
  EXPECT(net_predict(&t, &bad, 1, &outputs) == net_OK);
  EXPECT(net_predict(&t, &good, 0, &outputs) == net_BAD_BATCH);
  EXPECT(net_predict(&t, &good, net_BATCH + 1, &outputs) == net_BAD_BATCH);
  y[net_BATCH - 1] = 10;
  EXPECT(net_step(&t, &good, &loss) == net_BAD_LABEL);
  EXPECT(net_evaluate(&t, &good, net_BATCH, &score) == net_BAD_LABEL);
  EXPECT(net_evaluate(&t, &good, net_BATCH - 1, &score) == net_OK); /* that row is not looked at */
  EXPECT(score.samples == net_BATCH - 1 && score.judged == net_BATCH - 1 && score.loss > 0);
  y[net_BATCH - 1] = -1;
  EXPECT(net_step(&t, &good, &loss) == net_BAD_LABEL);
  y[net_BATCH - 1] = 9;
  t.momentum = -0.5;
  EXPECT(net_step(&t, &good, &loss) == net_BAD_NUMBER);
  t.momentum = NAN;
  EXPECT(net_step(&t, &good, &loss) == net_BAD_NUMBER);
  t.momentum = 0.9;
  EXPECT(loss == -1 && t.step == 0);
}

static void losses(void) {
  float before[WEIGHT], after[WEIGHT], loss = 0;
  int32_t weight = net_find("conv1.weight", NULL);
  net_batch batch;
  uint32_t i;
  batch.in_x = x;
  batch.labels = y;
  x[100] = NAN;
  EXPECT(net_get(&t, weight, before, WEIGHT) == net_OK);
  EXPECT(net_step(&t, &batch, &loss) == net_NOT_FINITE);
  EXPECT(loss != loss && t.step == 0 && t.position == 0);
  EXPECT(net_get(&t, weight, after, WEIGHT) == net_OK);
  EXPECT(memcmp(before, after, sizeof before) == 0);
  x[100] = 0.5f;
  EXPECT(net_step(&t, &batch, &loss) == net_OK);
  EXPECT(loss > 0 && t.step == 1 && t.position == 0 && t.epoch == 0); /* the data has no end that is known */
  EXPECT(net_get(&t, weight, after, WEIGHT) == net_OK);
  EXPECT(memcmp(before, after, sizeof before) != 0);
  t.samples = 3 * net_BATCH - 1;
  EXPECT(net_step(&t, &batch, NULL) == net_OK);
  EXPECT(t.step == 2 && t.position == net_BATCH && t.epoch == 0);
  for (i = 0; i < 3 * net_BATCH; ++i) EXPECT(net_shuffled(&t, i) < t.samples);
  EXPECT(net_step(&t, &batch, NULL) == net_OK);
  EXPECT(t.step == 3 && t.position == 0 && t.epoch == 1);
}

static void tensors(void) {
  net_tensor d;
  float values[WEIGHT], back[WEIGHT];
  int32_t frozen = net_find("fc2.bias", NULL), weight = net_find("conv1.weight", NULL);
  int32_t momentum = net_find("conv1.weight", "momentum_buffer");
  uint32_t i;
  for (i = 0; i < net_TENSORS; ++i) {
    EXPECT(net_describe(i, &d) == net_OK);
    EXPECT(net_find(d.name, d.slot) == (int32_t)i);
  }
  EXPECT(net_describe(net_TENSORS, &d) == net_BAD_TENSOR);
  EXPECT(net_find("conv1", NULL) == -1 && net_find("conv1.weight", "exp_avg") == -1 &&
         net_find("", NULL) == -1);
  EXPECT(net_describe((uint32_t)weight, &d) == net_OK);
  EXPECT(d.rank == 4 && d.dims[0] == 6 && d.dims[1] == 1 && d.dims[2] == 5 && d.dims[3] == 5 &&
         d.count == WEIGHT);
  EXPECT(!d.slot && !d.frozen);
  EXPECT(net_describe((uint32_t)frozen, &d) == net_OK && d.frozen && d.count == 10);
  EXPECT(net_describe((uint32_t)momentum, &d) == net_OK && !strcmp(d.slot, "momentum_buffer") &&
         d.count == WEIGHT);
  EXPECT(net_get(&t, -1, values, WEIGHT) == net_BAD_TENSOR);
  EXPECT(net_get(&t, net_TENSORS, values, WEIGHT) == net_BAD_TENSOR);
  EXPECT(net_get(&t, weight, values, WEIGHT - 1) == net_BAD_TENSOR);
  EXPECT(net_get(&t, frozen, values, 10) == net_OK);
  EXPECT(net_set(&t, frozen, values, 10) == net_BAD_TENSOR);
  for (i = 0; i < WEIGHT; ++i) values[i] = (float)i;
  values[3] = 1e-40f;
  EXPECT(net_set(&t, weight, values, WEIGHT - 1) == net_BAD_TENSOR);
  EXPECT(net_set(&t, weight, values, WEIGHT) == net_OK);
  EXPECT(net_get(&t, weight, back, WEIGHT) == net_OK);
  values[3] = 0; /* denormals are zero */
  EXPECT(memcmp(values, back, sizeof values) == 0);
  EXPECT(net_set(&t, momentum, values, WEIGHT) == net_OK);
}

static void checkpoints(void) {
  float values[WEIGHT], back[WEIGHT];
  int32_t weight = net_find("conv1.weight", NULL);
  char reason[64];
  size_t length = 0, i;
  EXPECT(net_save(&t, NULL, 0, &length) == net_NO_ROOM);
  EXPECT(length > 0 && length <= net_SAVE_BYTES);
  memset(saved, 1, sizeof saved);
  EXPECT(net_save(&t, saved, length - 1, NULL) == net_NO_ROOM);
  for (i = 0; i < sizeof saved; ++i) EXPECT(saved[i] == 1);
  EXPECT(net_save(&t, saved, length, NULL) == net_OK);

  EXPECT(net_get(&t, weight, values, WEIGHT) == net_OK);
  values[0] = INFINITY;
  EXPECT(net_set(&t, weight, values, WEIGHT) == net_OK);
  EXPECT(net_save(&t, other, sizeof other, NULL) == net_NOT_FINITE);

  t.step = 77;
  for (i = 0; i < length; i += 1 + i / 8) {
    memcpy(other, saved, length);
    EXPECT(net_load(&t, other, i, reason, sizeof reason) == net_DAMAGED && strlen(reason) > 5);
    other[i] ^= 16;
    EXPECT(net_load(&t, other, length, NULL, 0) != net_OK);
  }
  EXPECT(net_get(&t, weight, back, WEIGHT) == net_OK);
  EXPECT(t.step == 77 && memcmp(values, back, sizeof values) == 0); /* nothing was loaded */
  memcpy(other, saved, length);
  EXPECT(net_load(&t, other, 100, reason, 4) == net_DAMAGED && strlen(reason) == 3);

  EXPECT(net_load_weights(&t, saved, length, reason, sizeof reason) == net_OK);
  EXPECT(t.step == 77 && reason[0] == 0);
  EXPECT(net_load(&t, saved, length, reason, sizeof reason) == net_OK);
  EXPECT(t.step == 3 && t.epoch == 1 && t.samples == 3 * net_BATCH - 1);
  EXPECT(net_get(&t, weight, back, WEIGHT) == net_OK);
  EXPECT(memcmp(values + 1, back + 1, sizeof values - sizeof *values) == 0 && back[0] == 0);
}

static void explanations(void) {
  int status;
  for (status = net_OK; status <= net_FOREIGN; ++status) EXPECT(strlen(net_explain(status)) >= 4);
  EXPECT(strlen(net_explain(-1)) > 0 && strlen(net_explain(net_FOREIGN + 1)) > 0);
}

int main(void) {
  int i;
  for (i = 0; i < INPUT; ++i) x[i] = (float)(i % 17) / 17;
  for (i = 0; i < net_BATCH; ++i) y[i] = i % 10;
  memory();
  batches();
  losses();
  tensors();
  checkpoints();
  explanations();
  return wrong;
}
