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
  uint32_t batch = pock_program.batch;
  uint32_t rows = set->samples - first < batch ? (uint32_t)(set->samples - first) : batch;
  if (t->options.poison_arena) memset(t->memory.arena, 0xff, pock_program.arena_bytes);
  for (uint32_t row = 0; row < batch; ++row)
    pock_gather(set, row < rows ? first + row : set->samples - 1, row, t->memory.arena, true);
  return rows;
}

bool pock_evaluate(struct pock_trainer* t, const struct pock_dataset* set) {
  const struct pock_program* p = &pock_program;
  bool whole = p->losses[0].count < p->batch;  // one loss a batch, which then must be full
  uint64_t samples = whole ? set->samples - set->samples % p->batch : set->samples;
  memset(t->terms, 0, p->loss_count * sizeof *t->terms);
  memset(t->labels, 0, p->input_count * sizeof *t->labels);
  for (uint64_t first = 0; first < samples; first += p->batch) {
    if (pock_interrupted(t)) return false;
    uint32_t rows = pock_fill_batch(t, set, first);
    p->infer(&t->memory, &t->threads);
    pock_add_losses(p, &t->memory, rows, t->terms);
    for (uint32_t i = 0; i < p->input_count; ++i)
      for (uint32_t row = 0; row < rows && pock_is_judged(&p->inputs[i]); ++row)
        pock_judge(p, &t->memory, &set->sources[i], first + row, row, &t->labels[i].judged,
                   &t->labels[i].correct);
  }
  t->score.samples = samples;
  t->score.loss = pock_mean_loss(p, t->terms);
  for (uint32_t i = 0; i < p->input_count; ++i)
    t->score.accuracy[i] =
        t->labels[i].judged ? pock_double(t->labels[i].correct) / pock_double(t->labels[i].judged) : 0;
  return true;
}

void pock_put_score(struct pock_text* out, const struct pock_trainer* t, bool json) {
  const struct pock_program* p = &pock_program;
  uint32_t judged = 0;
  for (uint32_t i = 0; i < p->input_count; ++i) judged += pock_is_judged(&p->inputs[i]);
  if (json) {
    pock_format(out, "\"loss\":");
    pock_put_json_number(out, t->score.loss);
  } else {
    pock_format(out, "loss %.5g", t->score.loss);
  }
  for (uint32_t i = 0; i < p->input_count; ++i) {
    if (!pock_is_judged(&p->inputs[i])) continue;
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
             (unsigned long long)(t->train.samples - t->score.samples), (int)pock_program.batch);
  char buffer[POCK_PATH];
  struct pock_text line = {buffer, 0, sizeof buffer};
  bool json = t->options.log_json;
  if (json) pock_put(&line, '{');
  pock_put_score(&line, t, json);
  pock_format(&line, json ? ",\"samples\":%llu}\n" : ", %llu samples\n",
              (unsigned long long)t->score.samples);
  return !(pock_print("result", buffer, pock_text_size(&line)) && pock_finite((float)t->score.loss));
}
