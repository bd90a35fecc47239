// pock's side of compare.py: a training step, measured on request.
//
//   steps FOLDER
//
// trains the library `net` (pockc compile --emit lib -o net) on the batch in FOLDER/INPUT.bin and FOLDER/labels.bin, where
// INPUTS(F), given when this is compiled, is F(x), or F(INPUT) of each of several inputs: for every line of standard input as many steps as that says, whose seconds it prints as JSON, in a line. A step takes the batch from
// the caller's arrays, as it does in a trainer.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "net.h"

static void stop(const char* what, const char* why) {
  fprintf(stderr, "steps: %s: %s\n", what, why);
  exit(1);
}

// Memory as a trainer has it: whole huge pages where the system has such, and ordinary ones for the rest.
static void* block(size_t bytes) {
  const size_t huge = (size_t)2 << 20;
  char* at = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) stop("memory", "there is no block of that size");
  at += (huge - (size_t)at % huge) % huge;
  madvise(at, bytes / huge * huge, MADV_HUGEPAGE);
  return at;
}

static void* read_all(const char* folder, const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) stop(path, "cannot be read");
  const size_t bytes = (size_t)ftell(file);
  rewind(file);
  void* all = malloc(bytes);
  if (!all || fread(all, 1, bytes, file) != bytes) stop(path, "cannot be read");
  fclose(file);
  return all;
}

// What this process had of the core: the same as on the wall, where nothing else wants the core.
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double timed_step(net_trainer* trainer, const net_batch* batch) {
  const double start = now();
  const int status = net_step(trainer, batch, NULL);
  if (status != net_OK) stop("net_step", net_explain(status));
  return now() - start;
}

int main(int argc, char** argv) {
  if (argc != 2) stop("usage", "steps FOLDER");
#define READ(name) .in_##name = read_all(argv[1], #name ".bin"),
  const net_batch batch = {INPUTS(READ).labels = read_all(argv[1], "labels.bin")};
  net_trainer trainer;
  const int status =
      net_init(&trainer, block(net_ARENA_BYTES), block(net_PARAMS_BYTES), block(net_STATE_BYTES));
  if (status != net_OK) stop("net_init", net_explain(status));
  for (int count; scanf("%d", &count) == 1;) {
    for (int i = 0; i < count; ++i) printf("%s%.9f", i ? ", " : "[", timed_step(&trainer, &batch));
    puts("]");
    fflush(stdout);
  }
  return 0;
}
