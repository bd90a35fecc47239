/* Slots in a flash whose power goes at every write of 64 bytes and at every erase, with that piece half done: what the library
 * `net` of mlp restores is the record before or the new one, to the bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

enum { UNIT = 64, SLOT = (net_SLOT_BYTES + UNIT - 1) / UNIT * UNIT };

static unsigned char flash[2][SLOT];
static long left = -1; /* pieces until the power goes; -1: never */
static int wrong = 0;

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      wrong = 1;                                              \
    }                                                         \
  } while (0)

/* Whether a piece is done whole, half, or not at all. */
static int power(void) {
  if (left < 0) return 2;
  if (left == 0) return 0;
  return --left ? 2 : 1;
}

static int read_slot(void* context, int slot, uint32_t at, void* to, uint32_t n) {
  (void)context;
  memcpy(to, flash[slot] + at, n);
  return 0;
}

static int erase_slot(void* context, int slot) {
  const int done = power();
  (void)context;
  memset(flash[slot], 0xFF, done == 2 ? SLOT : done ? SLOT / 2 : 0);
  return done != 2;
}

static int write_slot(void* context, int slot, uint32_t at, const void* from, uint32_t n) {
  uint32_t i, k;
  (void)context;
  EXPECT(at % UNIT == 0 && n % UNIT == 0 && at + n <= net_SLOT_BYTES);
  for (i = 0; i < n; i += UNIT) {
    const int done = power();
    for (k = 0; k < UNIT; ++k) EXPECT(flash[slot][at + i + k] == 0xFF);
    memcpy(flash[slot] + at + i, (const char*)from + i, done == 2 ? UNIT : done ? UNIT / 2 : 0);
    if (done != 2) return 1;
  }
  return 0;
}

static const net_storage storage = {NULL, read_slot, erase_slot, write_slot};
static net_trainer t;
static char saved[3][net_SAVE_BYTES];

static void *arena, *params, *state;
static void* block(size_t bytes) {
  return aligned_alloc(net_ALIGN, (bytes + net_ALIGN - 1) / net_ALIGN * net_ALIGN);
}

static void start(void) { EXPECT(net_init(&t, arena, params, state) == net_OK); }

static void step(void) {
  static float x[net_BATCH * FEATURES];
  static int32_t y[net_BATCH];
  net_batch batch;
  size_t i;
  for (i = 0; i < net_BATCH * FEATURES; ++i) x[i] = (float)(i % 7) - 3;
  for (i = 0; i < net_BATCH; ++i) y[i] = (int32_t)(i % 10);
  batch.in_x = x;
  batch.labels = y;
  EXPECT(net_step(&t, &batch, NULL) == net_OK);
}

static size_t save(int which) {
  size_t length = 0;
  EXPECT(net_save(&t, saved[which], net_SAVE_BYTES, &length) == net_OK);
  return length;
}

static int is(int which, size_t length) {
  return save(2) == length && !memcmp(saved[which], saved[2], length);
}

int main(void) {
  static unsigned char before[2][SLOT];
  size_t old, fresh;
  long cut;
  int status, news = 0, olds = 0;
  arena = block(net_ARENA_BYTES), params = block(net_PARAMS_BYTES), state = block(net_STATE_BYTES);
  memset(flash, 0xFF, sizeof flash);
  start();
  EXPECT(net_restore(&t, &storage) == net_DAMAGED);
  EXPECT(net_store(&t, &storage) == net_OK);
  step();
  EXPECT(net_store(&t, &storage) == net_OK);
  old = save(0);
  step();
  fresh = save(1);
  memcpy(before, flash, sizeof flash);
  for (cut = 1, status = net_BAD_STORAGE; status != net_OK && cut < 10 * SLOT; ++cut) {
    memcpy(flash, before, sizeof flash);
    start();
    EXPECT(net_load(&t, saved[1], fresh, NULL, 0) == net_OK);
    left = cut;
    status = net_store(&t, &storage);
    left = -1;
    start();
    EXPECT(net_restore(&t, &storage) == net_OK);
    if (is(1, fresh))
      ++news;
    else if (is(0, old))
      ++olds;
    else
      EXPECT(!"the old record or the new one");
    /* And it goes on: the next one is stored whole, whatever the cut left. */
    EXPECT(net_load(&t, saved[1], fresh, NULL, 0) == net_OK);
    EXPECT(net_store(&t, &storage) == net_OK);
    start();
    EXPECT(net_restore(&t, &storage) == net_OK && is(1, fresh));
  }
  EXPECT(status == net_OK && news == 1 && olds > 100);
  /* A bit that fell over: the record before holds. */
  memcpy(flash, before, sizeof flash);
  flash[1][SLOT / 2] ^= 1;
  start();
  EXPECT(net_restore(&t, &storage) == net_OK && t.step == 0);
  flash[0][SLOT / 2] ^= 1;
  EXPECT(net_restore(&t, &storage) == net_DAMAGED && t.step == 0);
  return wrong;
}
