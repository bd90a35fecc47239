// `trainer info`: what was compiled in.
#include "trainer.h"

static uint64_t trained_count(const struct pock_program* program) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < program->tensor_count; ++i) {
    const struct pock_tensor* t = &program->tensors[i];
    uint64_t count = t->role == POCK_TRAINED;
    for (uint32_t axis = 0; axis < t->rank; ++axis) count *= (uint64_t)t->dims[axis];
    total += count;
  }
  return total;
}

static uint64_t trained_bytes(const struct pock_program* program) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < program->tensor_count; ++i)
    if (program->tensors[i].role == POCK_TRAINED) total += program->tensors[i].bytes;
  return total;
}

static void put_json(struct pock_text* out, const struct pock_program* p) {
  const struct {
    const char *key, *value;
  } texts[] = {{"model", p->model},  {"model_hash", p->model_hash}, {"optimizer", p->optimizer},
               {"loss", p->loss},    {"scheme", p->scheme},         {"compiler", p->compiler},
               {"target", p->target}};
  const struct {
    const char* key;
    uint64_t value;
  } numbers[] = {{"batch", p->batch},
                 {"threads", p->threads},
                 {"seed", p->seed},
                 {"trained", trained_count(p)},
                 {"trained_bytes", trained_bytes(p)},
                 {"arena_bytes", p->arena_bytes},
                 {"params_bytes", p->params_bytes},
                 {"state_bytes", p->state_bytes},
                 {"weights_bytes", p->weights_bytes}};
  for (uint32_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    pock_format(out, "%s\"%s\":", i ? "," : "{", texts[i].key);
    pock_put_json(out, texts[i].value);
  }
  for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers; ++i)
    pock_format(out, ",\"%s\":%llu", numbers[i].key, (unsigned long long)numbers[i].value);
  pock_format(out, ",\"inputs\":[");
  for (uint32_t i = 0; i < p->input_count; ++i) {
    const struct pock_input* input = &p->inputs[i];
    pock_format(out, "%s{\"name\":", i ? "," : "");
    pock_put_json(out, input->name);
    pock_format(out,
                ",\"feed\":\"%s\",\"dtype\":\"%s\",\"shape\":", input->feed == POCK_DATA ? "data" : "labels",
                pock_dtype_name(input->dtype));
    pock_put_shape(out, input->dims, input->rank);
    pock_format(out, ",\"classes\":%lld}", (long long)input->classes);
  }
  pock_format(out, "],\"hypers\":{");
  for (uint32_t i = 0; i < p->hyper_count; ++i) {
    if (i) pock_put(out, ',');
    pock_put_json(out, p->hypers[i].name);
    pock_format(out, ":%g", p->hypers[i].value);
  }
  pock_format(out, "}}\n");
}

static void put_size_line(struct pock_text* out, const char* what, uint64_t bytes) {
  pock_format(out, "  %s ", what);
  pock_put_size(out, bytes);
  pock_format(out, " (%llu bytes)\n", (unsigned long long)bytes);
}

static void put_plain(struct pock_text* out, const struct pock_program* p) {
  pock_format(out, "model      %s (hash %s)\n", p->model, p->model_hash);
  pock_format(out, "compiler   %s for %s\n", p->compiler, p->target);
  pock_format(out, "trains     %s: %llu numbers, ", p->scheme, (unsigned long long)trained_count(p));
  pock_put_size(out, trained_bytes(p));
  pock_format(out, "\nloss       %s\noptimizer  %s", p->loss, p->optimizer);
  for (uint32_t i = 0; i < p->hyper_count; ++i)
    pock_format(out, "%s%s %g", i ? ", " : " with ", p->hypers[i].name, p->hypers[i].value);
  pock_format(out, "\nbatch      %d\nseed       %llu\nthreads    at most %d\n", (int)p->batch,
              (unsigned long long)p->seed, (int)p->threads);
  for (uint32_t i = 0; i < p->input_count; ++i) {
    const struct pock_input* input = &p->inputs[i];
    pock_format(out, "%s     %s: %s", input->feed == POCK_DATA ? "input " : "labels", input->name,
                pock_dtype_name(input->dtype));
    pock_put_shape(out, input->dims, input->rank);
    if (input->classes) pock_format(out, ", %lld classes", (long long)input->classes);
    pock_put(out, '\n');
  }
  pock_format(out, "memory\n");
  put_size_line(out, "arena     ", p->arena_bytes);
  put_size_line(out, "parameters", p->params_bytes);
  put_size_line(out, "optimizer ", p->state_bytes);
  put_size_line(out, "weights   ", p->weights_bytes);
}

void pock_print_info(const struct pock_program* program, bool json) {
  void (*put)(struct pock_text*, const struct pock_program*) = json ? put_json : put_plain;
  struct pock_text text = {0};
  put(&text, program);
  char* memory = pock_reserve(text.length);
  if (!memory) return;
  text = (struct pock_text){memory, 0, text.length};
  put(&text, program);
  pock_write(1, memory, text.length);
}
