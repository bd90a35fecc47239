// `trainer info`: what was compiled in.
#include "trainer.h"

// Bytes of the trained tensors, and how many numbers that is.
static uint64_t measure_trained(uint64_t* numbers) {
  uint64_t bytes = 0;
  *numbers = 0;
  for (uint32_t i = 0; i < pock_program.tensor_count; ++i) {
    const struct pock_tensor* t = &pock_program.tensors[i];
    if (t->role != POCK_TRAINED) continue;
    bytes += t->bytes;
    *numbers += t->bytes / pock_dtype_bytes(t->dtype);
  }
  return bytes;
}

// Kept behind a step; they are part of the arena, or of the optimizer's sums.
static uint64_t gradient_bytes(void) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < pock_program.gradient_count; ++i) bytes += pock_program.gradients[i].bytes;
  return bytes;
}

// Begins an object of a list.
static void put_json_tensor(struct pock_text* out, uint32_t index, const char* name, uint8_t dtype,
                            const int64_t* dims, uint32_t rank) {
  pock_format(out, index ? ",{\"name\":" : "{\"name\":");
  pock_put_json(out, name);
  pock_format(out, ",\"dtype\":\"%s\",\"shape\":", pock_dtype_name(dtype));
  pock_put_shape(out, dims, rank);
}

static void put_json(struct pock_text* out) {
  const struct pock_program* p = &pock_program;
  const struct {
    const char *key, *value;
  } texts[] = {{"model", p->model},         {"model_hash", p->model_hash},
               {"optimizer", p->optimizer}, {"schedule", p->schedule},
               {"loss", p->loss},           {"scheme", p->scheme},
               {"adapters", p->adapters},   {"compiler", p->compiler},
               {"target", p->target}};
  for (uint32_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    pock_format(out, "%s\"%s\":", i ? "," : "{", texts[i].key);
    pock_put_json(out, texts[i].value);
  }
  if (p->weights_file) {
    pock_format(out, ",\"weights_file\":");
    pock_put_json(out, p->weights_file);
  }
  if (p->gradient_count) pock_format(out, ",\"gradient_bytes\":%llu", (unsigned long long)gradient_bytes());
  uint64_t numbers, bytes = measure_trained(&numbers);
  pock_format(out,
              ",\"batch\":%d,\"threads\":%d,\"seed\":%llu,\"trained\":%llu,\"trained_bytes\":%llu,"
              "\"arena_bytes\":%llu,\"params_bytes\":%llu,\"state_bytes\":%llu,\"weights_bytes\":%llu,"
              "\"inputs\":[",
              (int)p->batch, (int)p->threads, (unsigned long long)p->seed, (unsigned long long)numbers,
              (unsigned long long)bytes, (unsigned long long)p->arena_bytes,
              (unsigned long long)p->params_bytes, (unsigned long long)p->state_bytes,
              (unsigned long long)p->weights_bytes);
  for (uint32_t i = 0; i < p->input_count; ++i) {
    const struct pock_input* input = &p->inputs[i];
    put_json_tensor(out, i, input->name, input->dtype, input->dims, input->rank);
    pock_format(out, ",\"feed\":\"%s\",\"classes\":%lld}", input->feed == POCK_DATA ? "data" : "labels",
                (long long)(input->lowest ? 0 : input->classes));
  }
  pock_format(out, "],\"outputs\":[");
  for (uint32_t i = 0; i < p->output_count; ++i) {
    const struct pock_output* output = &p->outputs[i];
    put_json_tensor(out, i, output->name, output->dtype, output->dims, output->rank);
    pock_put(out, '}');
  }
  pock_format(out, "],\"trains\":[");
  uint32_t shown = 0;
  for (uint32_t i = 0; i < p->tensor_count; ++i) {
    const struct pock_tensor* t = &p->tensors[i];
    if (t->role != POCK_TRAINED) continue;
    put_json_tensor(out, shown++, t->name, t->dtype, t->dims, t->rank);
    pock_put(out, '}');
  }
  pock_format(out, "],\"needs\":\"");
  pock_put_cpu(out, p->cpu_needs);
  pock_format(out, "\",\"hypers\":{");
  for (uint32_t i = 0; i < p->hyper_count; ++i) {
    if (i) pock_put(out, ',');
    pock_put_json(out, p->hypers[i].name);
    pock_format(out, ":%g", p->hypers[i].value);
  }
  pock_format(out, "}}\n");
}

static void put_size_line(struct pock_text* out, const char* what, uint64_t bytes) {
  pock_format(out, "  %s %zu (%llu bytes)\n", what, (size_t)bytes, (unsigned long long)bytes);
}

static void put_tensor_line(struct pock_text* out, const char* what, const char* name, uint8_t dtype,
                            const int64_t* dims, uint32_t rank) {
  pock_format(out, "%s%s: %s", what, name, pock_dtype_name(dtype));
  pock_put_shape(out, dims, rank);
}

static void put_plain(struct pock_text* out) {
  const struct pock_program* p = &pock_program;
  pock_format(out, "model      %s (hash %s)\n", p->model, p->model_hash);
  pock_format(out, "compiler   %s for %s", p->compiler, p->target);
  if (p->cpu_needs) {
    pock_format(out, "\nneeds      ");
    pock_put_cpu(out, p->cpu_needs);
  }
  for (uint32_t i = 0; i < p->input_count; ++i) {
    const struct pock_input* input = &p->inputs[i];
    put_tensor_line(out, input->feed == POCK_DATA ? "\ninput      " : "\nlabels     ", input->name,
                    input->dtype, input->dims, input->rank);
    if (input->classes && !input->lowest)
      pock_format(out, ", %lld classes", (long long)input->classes);
    else if (input->classes)
      pock_format(out, ", from %lld to %lld", (long long)input->lowest, (long long)input->classes - 1);
  }
  for (uint32_t i = 0; i < p->output_count; ++i) {
    const struct pock_output* o = &p->outputs[i];
    put_tensor_line(out, "\noutput     ", o->name, o->dtype, o->dims, o->rank);
  }
  pock_format(
      out,
      "\nbatch      %d\nseed       %llu\nthreads    at most %d\nloss       %s\nschedule   %s\noptimizer  %s",
      (int)p->batch, (unsigned long long)p->seed, (int)p->threads, p->loss, p->schedule, p->optimizer);
  for (uint32_t i = 0; i < p->hyper_count; ++i) {
    const struct pock_hyper* h = &p->hypers[i];
    pock_format(out, "\n  --opt %s=%g, in [%g, %g%c", h->name, h->value, h->low, h->high,
                h->open ? ')' : ']');
  }
  pock_format(out, "\nmemory\n");
  put_size_line(out, "arena     ", p->arena_bytes);
  put_size_line(out, "parameters", p->params_bytes);
  put_size_line(out, "optimizer ", p->state_bytes);
  put_size_line(out, "weights   ", p->weights_bytes);
  if (p->weights_file) pock_format(out, "    in '%s' beside the program\n", p->weights_file);
  if (p->gradient_count) put_size_line(out, "gradients ", gradient_bytes());
  uint64_t numbers, bytes = measure_trained(&numbers);
  pock_format(out, "trains     %s: %llu numbers, %zu", p->scheme, (unsigned long long)numbers, (size_t)bytes);
  for (uint32_t i = 0; i < p->tensor_count; ++i) {
    const struct pock_tensor* t = &p->tensors[i];
    if (t->role == POCK_TRAINED) put_tensor_line(out, "\n  ", t->name, t->dtype, t->dims, t->rank);
  }
  pock_format(out, "\nadapters   %s", p->adapters);
  pock_put(out, '\n');
}

bool pock_print_info(bool json) {
  void (*put)(struct pock_text*) = json ? put_json : put_plain;
  struct pock_text text = {0};
  put(&text);
  char* memory = pock_table(text.length, 1);
  text = (struct pock_text){memory, 0, text.length};
  put(&text);
  return pock_print("result", memory, text.length);
}
