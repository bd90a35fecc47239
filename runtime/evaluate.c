// Scores: mean loss and accuracy over a data set, with running statistics and nothing dropped.
#include "trainer.h"

bool pock_interrupted(const struct pock_trainer* t) {
  return pock_caught_signal() || (t->deadline > 0 && pock_seconds() >= t->deadline);
}

void pock_put_json_number(struct pock_text* out, double value) {
  if (pock_finite((float)value))
    pock_put_float(out, (float)value);
  else
    pock_format(out, "null");
}

uint32_t pock_fill_batch(struct pock_trainer* t, const struct pock_dataset* set, uint64_t first) {
  uint32_t batch = t->program->batch;
  uint32_t rows = set->samples - first < batch ? (uint32_t)(set->samples - first) : batch;
  if (t->options.poison_arena) memset(t->memory.arena, 0xff, t->program->arena_bytes);
  for (uint32_t row = 0; row < batch; ++row)
    pock_gather(set, row < rows ? first + row : set->samples - 1, row, t->memory.arena, true);
  return rows;
}

const void* pock_output_data(const struct pock_trainer* t, const struct pock_output* output) {
  const struct pock_buffers* m = &t->memory;
  const char* const blocks[] = {m->arena, m->params, m->state, m->weights};
  return blocks[output->block] + output->offset;
}

static bool is_judged(const struct pock_input* input) {
  return input->feed == POCK_LABELS && input->classes > 0;
}

// Whether a class has the largest score, the first of equals. Where a score is no number none has.
static bool is_best(const float* scores, uint64_t classes, uint64_t label) {
  bool best = true;
  for (uint64_t i = 0; i < classes; ++i)
    best &= i < label ? scores[label] > scores[i] : scores[label] >= scores[i];
  return best;
}

// How many of the class ids of sample `sample`, in row `row` of the batch, have the largest score.
static uint64_t right_labels(const struct pock_trainer* t, const struct pock_source* source, uint64_t sample,
                             uint32_t row) {
  uint64_t classes = (uint64_t)source->input->classes, n = source->elements, right = 0;
  const float* scores = pock_output_data(t, &t->program->outputs[source->input->output]);
  scores += row * n * classes;
  for (uint64_t i = 0; i < n; ++i, scores += classes)
    right += is_best(scores, classes, (uint64_t)pock_whole_at(&source->array, sample * n + i));
  return right;
}

bool pock_evaluate(struct pock_trainer* t, const struct pock_dataset* set) {
  const struct pock_program* p = t->program;
  bool whole = p->infer_loss_count < p->batch;  // one loss a batch, which then must be full
  uint64_t samples = whole ? set->samples - set->samples % p->batch : set->samples;
  double sum = 0;
  uint64_t* right = t->right;
  memset(right, 0, p->input_count * sizeof *right);
  for (uint64_t first = 0; first < samples; first += p->batch) {
    if (pock_interrupted(t)) return false;
    uint32_t rows = pock_fill_batch(t, set, first);
    p->infer(&t->memory, &t->threads);
    const float* losses = (const float*)(t->memory.arena + p->infer_loss_offset);
    for (uint32_t row = 0; row < rows; ++row) {
      sum += losses[whole ? 0 : row];
      for (uint32_t i = 0; i < p->input_count; ++i)
        if (is_judged(&p->inputs[i])) right[i] += right_labels(t, &set->sources[i], first + row, row);
    }
  }
  t->score.samples = samples;
  t->score.loss = sum / (double)samples;
  for (uint32_t i = 0; i < p->input_count; ++i)
    t->score.accuracy[i] = (double)right[i] / ((double)samples * (double)set->sources[i].elements);
  return true;
}

void pock_put_score(struct pock_text* out, const struct pock_trainer* t, bool json) {
  const struct pock_program* p = t->program;
  uint32_t judged = 0;
  for (uint32_t i = 0; i < p->input_count; ++i) judged += is_judged(&p->inputs[i]);
  if (json) {
    pock_format(out, "\"loss\":");
    pock_put_json_number(out, t->score.loss);
  } else {
    pock_format(out, "loss %.5g", t->score.loss);
  }
  for (uint32_t i = 0; i < p->input_count; ++i) {
    if (!is_judged(&p->inputs[i])) continue;
    pock_format(out, json ? ",\"accuracy" : ", accuracy");
    if (judged > 1) {
      pock_put(out, json ? '.' : ' ');
      pock_put_escaped(out, p->inputs[i].name);
    }
    pock_format(out, json ? "\":" : " ");
    if (json)
      pock_put_float(out, (float)t->score.accuracy[i]);
    else
      pock_format(out, "%.4g", t->score.accuracy[i]);
  }
}

int pock_eval(struct pock_trainer* t) {
  if (!pock_evaluate(t, &t->train)) return 128 + pock_caught_signal();
  if (t->score.samples < t->train.samples)
    pock_say("the last %llu samples do not fill a batch of %d and are left out\n",
             (unsigned long long)(t->train.samples - t->score.samples), (int)t->program->batch);
  char buffer[4096];
  struct pock_text line = {buffer, 0, sizeof buffer};
  bool json = t->options.log_json;
  if (json) pock_put(&line, '{');
  pock_put_score(&line, t, json);
  pock_format(&line, json ? ",\"samples\":%llu}\n" : ", %llu samples\n",
              (unsigned long long)t->score.samples);
  int64_t error = pock_write(1, buffer, pock_text_size(&line));
  if (error) pock_say("trainer: the result cannot be written: %s\n", pock_reason(error));
  return error ? 1 : 0;
}
