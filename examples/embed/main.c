// A C program that trains a CNN on Fashion-MNIST with the library that pockc made of it: run.sh builds and runs it.
//
//   ./embed FOLDER STEPS      FOLDER holds the four IDX files; the checkpoint goes to fashion.safetensors
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>

#include "fashion.h"

// All the memory that training takes. On a small device these would lie where the linker puts them, too.
static alignas(fashion_ALIGN) char arena[fashion_ARENA_BYTES];
static alignas(fashion_ALIGN) char params[fashion_PARAMS_BYTES];
static alignas(fashion_ALIGN) char state[fashion_STATE_BYTES];
static char checkpoint[fashion_SAVE_BYTES];

enum { PIXELS = 28 * 28, TRAIN = 60000, TEST = 10000 };
static unsigned char images[TRAIN * PIXELS], labels[TRAIN], test_images[TEST * PIXELS], test_labels[TEST];

static void stop(const char* what, const char* why) {
  fprintf(stderr, "embed: %s: %s\n", what, why);
  exit(1);
}

static void check(int status) {
  if (status != fashion_OK) stop("fashion", fashion_explain(status));
}

// The elements of an IDX file, which has a number for each axis in front of them.
static void read_idx(const char* folder, const char* name, int axes, unsigned char* to, size_t bytes) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 4 + 4 * axes, SEEK_SET) || fread(to, 1, bytes, file) != bytes) stop(path, "cannot be read");
  fclose(file);
}

static void train(fashion_trainer* t, long steps) {
  for (long i = 0; i < steps; ++i) {
    // In the order of the file, so that a batch is a place in it; fashion_shuffled() gives another order.
    int32_t ids[fashion_BATCH];
    for (int k = 0; k < fashion_BATCH; ++k) ids[k] = labels[t->position + k];
    fashion_batch batch = {.in_image = images + t->position * PIXELS, .labels = ids};
    float loss;
    check(fashion_step(t, &batch, &loss));
    if (i % 50 == 49) printf("step %ld: loss %.4f\n", i + 1, loss);
  }
}

static double accuracy(fashion_trainer* t) {
  fashion_score score = {0};
  for (int first = 0; first < TEST; first += fashion_BATCH) {
    uint32_t rows = TEST - first < fashion_BATCH ? TEST - first : fashion_BATCH;
    int32_t ids[fashion_BATCH];
    for (uint32_t k = 0; k < rows; ++k) ids[k] = test_labels[first + k];
    fashion_batch batch = {.in_image = test_images + first * PIXELS, .labels = ids};
    check(fashion_evaluate(t, &batch, rows, &score));
  }
  return (double)score.correct / (double)score.judged;
}

int main(int argc, char** argv) {
  if (argc != 3) stop("usage", "embed FOLDER STEPS");
  read_idx(argv[1], "train-images-idx3-ubyte", 3, images, sizeof images);
  read_idx(argv[1], "train-labels-idx1-ubyte", 1, labels, sizeof labels);
  read_idx(argv[1], "t10k-images-idx3-ubyte", 3, test_images, sizeof test_images);
  read_idx(argv[1], "t10k-labels-idx1-ubyte", 1, test_labels, sizeof test_labels);

  fashion_trainer trainer;
  check(fashion_init(&trainer, arena, params, state));
  trainer.samples = TRAIN;
  printf("accuracy before training: %.4f\n", accuracy(&trainer));
  train(&trainer, atol(argv[2]));
  printf("accuracy after %ld steps: %.4f\n", atol(argv[2]), accuracy(&trainer));

  size_t length;
  check(fashion_save(&trainer, checkpoint, sizeof checkpoint, &length));
  FILE* file = fopen("fashion.safetensors", "wb");
  if (!file || fwrite(checkpoint, 1, length, file) != length || fclose(file))
    stop("fashion.safetensors", "cannot be written");
  return 0;
}
