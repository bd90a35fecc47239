// A program as pockc would emit one, written by hand: a linear classifier of six features into three classes,
// squared error, SGD with momentum. It also has a statistic, a frozen tensor and a name that needs escaping.
// With FAKE_OWN_LOSS it is a model that computes its loss itself, from an input "target", and gives it as an
// output; a second output has rows, a third is the frozen tensor.
#include "../../runtime/pock.h"

#ifndef FAKE_BATCH
#define FAKE_BATCH 8
#endif
enum { BATCH = FAKE_BATCH, FEATURES = 6, CLASSES = 3 };

#ifndef FAKE_HASH
#define FAKE_HASH "0123456789abcdef"
#endif
#ifndef FAKE_OPTIMIZER
#define FAKE_OPTIMIZER "sgd"
#endif
#ifndef FAKE_CPU
#define FAKE_CPU 0
#endif

// Arena.
enum {
  LOSS = 0,
  X = 64,
  LABELS = X + BATCH * FEATURES * 4,
  PREDICTIONS = LABELS + BATCH * 4,
  SAMPLE_LOSS = PREDICTIONS + BATCH * CLASSES * 4,
  ARENA = SAMPLE_LOSS + BATCH * 4
};
// Parameters; the optimizer's state has the first two alike. The frozen scale follows in the weights.
enum { W = 0, B = W + FEATURES * CLASSES * 4, SEEN = B + CLASSES * 4, PARAMS = 128, STATE = SEEN };

static const struct {
  float w[FEATURES * CLASSES], b[CLASSES], seen, unused[(PARAMS - SEEN) / 4 - 1], scale;
} weights __attribute__((aligned(4096))) = {.w = {0.1f, -0.2f, 0.05f, 0.3f, 0.01f, -0.1f, 0.2f, 0.1f, -0.3f},
                                            .b = {0.5f, 0.25f, -1},
                                            .scale = 0.125f};

static void forward_rows(void* const* args, int64_t begin, int64_t end) {
  const struct pock_buffers* m = args[0];
  const float *x = (const float*)(m->arena + X), *w = (const float*)(m->params + W);
  const float *b = (const float*)(m->params + B), *scale = (const float*)(m->weights + PARAMS);
  const int32_t* labels = (const int32_t*)(m->arena + LABELS);
  float *z = (float*)(m->arena + PREDICTIONS), *losses = (float*)(m->arena + SAMPLE_LOSS);
  for (int64_t i = begin; i < end; ++i) {
    losses[i] = 0;
    for (int c = 0; c < CLASSES; ++c) {
      float sum = b[c];
      for (int k = 0; k < FEATURES; ++k) sum += *scale * x[i * FEATURES + k] * w[k * CLASSES + c];
      float error = sum - (labels[i] == c ? 1.0f : 0.0f);
      z[i * CLASSES + c] = sum;
      losses[i] += error * error;
    }
#ifdef FAKE_DENORMAL
    volatile float tiny = 1e-20f, product = tiny * tiny,
                   denormal = 1e-39f;  // all gone where denormals are zero
    losses[i] += product * 1e38f + denormal * 1e38f;
#endif
  }
}

static void infer(const struct pock_buffers* m, const struct pock_threads* threads) {
  void* args[] = {(void*)m};
  threads->parallel_for(threads->context, forward_rows, args, BATCH);
#ifdef FAKE_SLOW
  for (volatile int i = 0; i < 3000000; ++i) {
  }
#endif
}

static void forward(const struct pock_buffers* m, const struct pock_threads* threads) {
  infer(m, threads);
  const float* losses = (const float*)(m->arena + SAMPLE_LOSS);
  float sum = 0;
  for (int i = 0; i < BATCH; ++i) sum += losses[i];
  *(float*)(m->arena + LOSS) = sum / BATCH;
}

static void update_classes(void* const* args, int64_t begin, int64_t end) {
  const struct pock_buffers* m = args[0];
  const float *x = (const float*)(m->arena + X), *z = (const float*)(m->arena + PREDICTIONS);
  const float* scale = (const float*)(m->weights + PARAMS);
  const int32_t* labels = (const int32_t*)(m->arena + LABELS);
  for (int64_t c = begin; c < end; ++c)
    for (int k = 0; k <= FEATURES; ++k) {
      float gradient = 0;
      for (int i = 0; i < BATCH; ++i) {
        float error = z[i * CLASSES + c] - (labels[i] == c ? 1.0f : 0.0f);
        gradient += 2.0f / BATCH * error * (k < FEATURES ? *scale * x[i * FEATURES + k] : 1.0f);
      }
      uint64_t at = k < FEATURES ? W / 4 + (uint64_t)(k * CLASSES + c) : B / 4 + (uint64_t)c;
      float *momentum = (float*)m->state + at, *parameter = (float*)m->params + at;
      *momentum = m->scalars[1] * *momentum + gradient;
      *parameter -= m->scalars[0] * *momentum;
    }
}

static void update(const struct pock_buffers* m, const struct pock_threads* threads) {
  void* args[] = {(void*)m};
  threads->parallel_for(threads->context, update_classes, args, CLASSES);
  *(float*)(m->params + SEEN) += BATCH;
}

static void scalars(const double* hypers, double step, double batch, uint64_t seed, uint64_t micro_step,
                    float* out) {
  (void)step, (void)batch, (void)seed, (void)micro_step;
  out[0] = (float)hypers[0];
  out[1] = (float)hypers[1];
}

static const int64_t w_dims[] = {FEATURES, CLASSES}, b_dims[] = {CLASSES}, x_dims[] = {BATCH, 1, 2, 3},
                     label_dims[] = {BATCH}, logit_dims[] = {BATCH, CLASSES};

#define FC_W "fc.\"w\"\n\\\xC3\xA4"
static const struct pock_tensor tensors[] = {
#ifndef FAKE_BIAS_ONLY
    {FC_W, 0, w_dims, W, B - W, POCK_F32, POCK_TRAINED, 2},
#endif
    {"fc.b", 0, b_dims, B, SEEN - B, POCK_F32, POCK_TRAINED, 1},
    {"seen", 0, 0, SEEN, 4, POCK_F32, POCK_STATISTIC, 0},
#ifndef FAKE_BIAS_ONLY
    {FC_W, "momentum", w_dims, W, B - W, POCK_F32, POCK_OPTIMIZER, 2},
#endif
    {"fc.b", "momentum", b_dims, B, SEEN - B, POCK_F32, POCK_OPTIMIZER, 1},
#ifdef FAKE_BIAS_ONLY
    {FC_W, 0, w_dims, W, B - W, POCK_F32, POCK_FROZEN, 2},
#endif
    {"scale", 0, 0, PARAMS, 4, POCK_F32, POCK_FROZEN, 0},
};

#ifdef FAKE_OWN_LOSS
static const struct pock_input inputs[] = {
    {"x", x_dims, X, X, BATCH* FEATURES * 4, 0, 0, INT64_MIN, 1, 0, 3, -1u, POCK_F32, POCK_DATA, 4},
    {"target", label_dims, LABELS, LABELS, BATCH * 4, CLASSES, 0, INT64_MIN, 1, 0, 1, -1u, POCK_I32,
     POCK_DATA, 1},
};
static const struct pock_output outputs[] = {
    {"loss", 0, LOSS, 4, POCK_F32, POCK_ARENA, 0},
    {"logits", logit_dims, PREDICTIONS, BATCH* CLASSES * 4, POCK_F32, POCK_ARENA, 2, 1},
    {"scale", 0, PARAMS, 4, POCK_F32, POCK_WEIGHTS, 0},
};
#else
static const struct pock_input inputs[] = {
    {"x", x_dims, X, X, BATCH* FEATURES * 4, 0, 0, INT64_MIN, 1, 0, 1, -1u, POCK_F32, POCK_DATA, 4},
    {"logits", label_dims, LABELS, LABELS, BATCH * 4, CLASSES, 0, INT64_MIN, 1, 0, 0, 0, POCK_I32,
     POCK_LABELS, 1},
};
static const struct pock_output outputs[] = {
    {"logits", logit_dims, PREDICTIONS, BATCH* CLASSES * 4, POCK_F32, POCK_ARENA, 2, 1},
};
#endif

static const struct pock_loss losses[] = {
#ifdef FAKE_OWN_LOSS
    {1, LOSS, UINT64_MAX, 1},
#else
    {1, SAMPLE_LOSS, UINT64_MAX, BATCH},
#endif
};

static const struct pock_hyper hypers[] = {
    {"lr", 0.01, 0, 1e38, 0},
    {"momentum", 0.9, 0, 1, 1},
};

const struct pock_program pock_program = {
    .model = "fake.onnx",
    .model_hash = FAKE_HASH,
    .optimizer = FAKE_OPTIMIZER,
    .schedule = "constant:warmup=0",
    .loss = "squared-error",
#ifdef FAKE_BIAS_ONLY
    .scheme = "1 of 3 parameters: fc.b",
#else
    .scheme = "everything",
#endif
    .adapters = "none",
    .compiler = "pock for tests",
    .target = "x86-64",
    .tensors = tensors,
    .inputs = inputs,
    .outputs = outputs,
    .losses = losses,
    .hypers = hypers,
    .weights = (const char*)&weights,
    .arena_bytes = ARENA,
    .params_bytes = PARAMS,
    .state_bytes = STATE,
    .weights_bytes = sizeof weights,
    .scalars_count = 2,
    .loss_offset = LOSS,
    .seed = 7,
    .cpu_needs = FAKE_CPU,
    .tensor_count = sizeof tensors / sizeof *tensors,
    .input_count = 2,
    .output_count = sizeof outputs / sizeof *outputs,
    .loss_count = 1,
    .hyper_count = 2,
    .batch = BATCH,
    .threads = 4,
    .scalars = scalars,
    .forward = forward,
    .update = update,
#ifdef FAKE_OWN_LOSS
    .infer = forward,
#else
    .infer = infer,
#endif
};
