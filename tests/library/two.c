/* Two libraries in one program, each with a run of its own: first alone, then in turns with the other. */
#include <stdlib.h>
#include <string.h>

#include "first.h"
#include "second.h"

static float data[first_BATCH * 20 > second_BATCH * 286 ? first_BATCH * 20 : second_BATCH * 286];
static int32_t labels[first_BATCH > second_BATCH ? first_BATCH : second_BATCH];

static char* block(size_t bytes) {
  char* memory = (char*)malloc(bytes + first_ALIGN);
  if (!memory) exit(2);
  return memory + (first_ALIGN - (size_t)memory % first_ALIGN);
}

static first_trainer start_first(void) {
  first_trainer t;
  if (first_init(&t, block(first_ARENA_BYTES), block(first_PARAMS_BYTES), block(first_STATE_BYTES))) exit(3);
  return t;
}

static second_trainer start_second(void) {
  second_trainer t;
  if (second_init(&t, block(second_ARENA_BYTES), block(second_PARAMS_BYTES), block(second_STATE_BYTES)))
    exit(3);
  return t;
}

int main(void) {
  first_trainer a = start_first(), b = start_first();
  second_trainer c = start_second(), d = start_second();
  first_batch x;
  second_batch y;
  int i;
  x.in_x = y.in_x = data;
  x.labels = y.labels = labels;
  for (i = 0; i < (int)(sizeof data / sizeof *data); ++i) data[i] = (float)(i % 13) / 13;
  for (i = 0; i < 3; ++i)
    if (first_step(&a, &x, NULL)) return 4;
  for (i = 0; i < 3; ++i)
    if (second_step(&c, &y, NULL)) return 5;
  for (i = 0; i < 3; ++i)
    if (first_step(&b, &x, NULL) || second_step(&d, &y, NULL)) return 6;
  return memcmp(a.params, b.params, first_PARAMS_BYTES) || memcmp(c.params, d.params, second_PARAMS_BYTES);
}
