// `trainer train`: the steps, and what happens between them.
#include "trainer.h"

struct run {
  struct pock_trainer* t;
  struct pock_shuffle shuffle;  // of the epoch
  float loss;                   // of the last step
  // For people:
  uint64_t first_step, epoch_steps;
  double epoch_loss, seconds, shown_at;
};

static bool save(struct pock_trainer* t) {
  char buffer[512];
  struct pock_text why = {buffer, 0, sizeof buffer};
  if (!t->options.checkpoint) return true;
  if (!pock_save_checkpoint(t->program, &t->memory, &t->progress, t->options.checkpoint, t->keep_previous,
                            &why)) {
    pock_say("trainer: %.*s\n", (int)pock_text_size(&why), buffer);
    return false;
  }
  t->keep_previous = true;
  return true;
}

// Scores the evaluation data, if there is any. False when the log could not be written.
static bool evaluate(struct pock_trainer* t) {
  if (!t->options.evaluate || !pock_evaluate(t, &t->eval)) return true;
  char buffer[4096];
  struct pock_text line = {buffer, 0, sizeof buffer};
  pock_format(&line, t->progress.step ? "%sstep %llu" : "%sbefore training", t->terminal ? "\r\x1b[K" : "",
              (unsigned long long)t->progress.step);
  pock_format(&line, ": evaluation ");
  pock_put_score(&line, t, false);
  pock_say("%.*s\n", (int)pock_text_size(&line), buffer);
  if (!t->options.log_json) return true;
  line.length = 0;
  pock_format(&line, "{\"eval\":%llu,\"step\":%llu,", (unsigned long long)t->progress.epoch,
              (unsigned long long)t->progress.step);
  pock_put_score(&line, t, true);
  pock_format(&line, "}\n");
  return pock_log_line(&line);
}

static uint64_t steps_an_epoch(const struct pock_trainer* t) { return t->train.samples / t->program->batch; }

static uint64_t total_steps(const struct pock_trainer* t) {
  return t->options.steps ? t->options.steps : t->options.epochs * steps_an_epoch(t);
}

static double samples_a_second(const struct run* r) {
  const struct pock_trainer* t = r->t;
  double samples = (double)(t->progress.step - r->first_step) * t->program->batch;
  return r->seconds > 0 ? samples / r->seconds : 0;
}

// One line for people, rewritten on a terminal.
static void show_progress(const struct run* r) {
  const struct pock_trainer* t = r->t;
  uint64_t done = t->progress.step - r->first_step, total = total_steps(t);
  double left = total > t->progress.step ? r->seconds / (double)done * (double)(total - t->progress.step) : 0;
  pock_say("%sepoch %llu  step %llu/%llu  loss %.5g  %.4g samples/s  %.3g s left%s", t->terminal ? "\r" : "",
           (unsigned long long)t->progress.epoch + 1, (unsigned long long)t->progress.step,
           (unsigned long long)total, r->epoch_loss / (double)r->epoch_steps, samples_a_second(r), left,
           t->terminal ? "\x1b[K" : "\n");
}

// One step, from the samples to the update. False when training has to stop with status 1.
static bool one_step(struct run* r) {
  struct pock_trainer* t = r->t;
  const struct pock_program* p = t->program;
  double start = pock_seconds();
  if (t->options.poison_arena) memset(t->memory.arena, 0xff, p->arena_bytes);
  for (uint32_t row = 0; row < p->batch; ++row) {
    uint64_t sample = t->progress.position + row;
    pock_gather(&t->train, t->options.no_shuffle ? sample : pock_shuffled(&r->shuffle, sample), row,
                t->memory.arena, false);
  }
  p->scalars(t->options.hypers, (double)(t->progress.step + 1), t->memory.scalars);
  p->forward(&t->memory, &t->threads);
  __builtin_memcpy(&r->loss, t->memory.arena + p->loss_offset, sizeof r->loss);
  if (!pock_finite(r->loss)) {
    pock_say(
        "%strainer: the loss of step %llu is not finite: stopped before the update; a checkpoint already "
        "written stays as it is. Try a smaller --lr, or look at the data\n",
        t->terminal ? "\n" : "", (unsigned long long)t->progress.step + 1);
    return false;
  }
  p->update(&t->memory, &t->threads);
  ++t->progress.step;
  t->progress.position += p->batch;
  r->epoch_loss += r->loss;
  ++r->epoch_steps;
  double now = pock_seconds();
  r->seconds += now - start;
  if (now - r->shown_at > (t->terminal ? 0.1 : 5)) {
    r->shown_at = now;
    show_progress(r);
  }
  if (!t->options.log_json) return true;
  char buffer[96];
  struct pock_text line = {buffer, 0, sizeof buffer};
  pock_format(&line, "{\"step\":%llu,\"loss\":", (unsigned long long)t->progress.step);
  pock_put_float(&line, r->loss);
  pock_format(&line, "}\n");
  return pock_log_line(&line);
}

static bool is_done(const struct pock_trainer* t) {
  return t->options.steps ? t->progress.step >= t->options.steps : t->progress.epoch >= t->options.epochs;
}

// 0, 1, or 128 and the signal that stopped it.
static int train(struct run* r) {
  struct pock_trainer* t = r->t;
  uint64_t last_position = steps_an_epoch(t) * t->program->batch;
  uint64_t saved_at = UINT64_MAX, evaluated_at = t->progress.step;
  if (!evaluate(t)) return 1;
  while (!is_done(t) && !pock_caught_signal()) {
    r->shuffle = pock_shuffle_for(t->train.samples, t->progress.seed, t->progress.epoch);
    r->epoch_loss = 0;
    r->epoch_steps = 0;
    while (t->progress.position + t->program->batch <= last_position && !pock_caught_signal()) {
      if (t->options.steps && t->progress.step >= t->options.steps) break;
      if (!one_step(r)) return 1;
      if (t->options.checkpoint_every && t->progress.step % t->options.checkpoint_every == 0) {
        if (!save(t)) return 1;
        saved_at = t->progress.step;
      }
    }
    if (t->progress.position + t->program->batch <= last_position) break;
    if (r->epoch_steps) show_progress(r);
    if (t->terminal) pock_say("\n");
    ++t->progress.epoch;
    t->progress.position = 0;
    saved_at = UINT64_MAX;  // the place in the data has changed, though the step has not
    if (!evaluate(t)) return 1;
    evaluated_at = t->progress.step;
  }
  if (evaluated_at != t->progress.step && !evaluate(t)) return 1;
  if (saved_at != t->progress.step && !save(t)) return 1;
  if (!pock_caught_signal()) return 0;
  pock_say("%sstopped by signal %d after step %llu%s%s\n", t->terminal ? "\n" : "", pock_caught_signal(),
           (unsigned long long)t->progress.step, t->options.checkpoint ? ", saved to " : ", nothing saved",
           t->options.checkpoint ? t->options.checkpoint : "");
  return 128 + pock_caught_signal();
}

static void summarize(const struct run* r) {
  const struct pock_trainer* t = r->t;
  const struct pock_program* p = t->program;
  char buffer[1024];
  struct pock_text text = {buffer, 0, sizeof buffer};
  pock_format(&text, "%llu steps in %.4g s, %.4g samples/s, %d thread%s\nplanned memory: arena ",
              (unsigned long long)(t->progress.step - r->first_step), r->seconds, samples_a_second(r),
              (int)t->thread_count, t->thread_count == 1 ? "" : "s");
  pock_put_size(&text, p->arena_bytes);
  pock_format(&text, ", parameters ");
  pock_put_size(&text, p->params_bytes);
  pock_format(&text, ", optimizer state ");
  pock_put_size(&text, p->state_bytes);
  pock_format(&text, ", in all ");
  pock_put_size(&text, p->arena_bytes + p->params_bytes + p->state_bytes);
  uint64_t measured = pock_rss_anon();
  if (measured) {
    pock_format(&text, "\nmeasured memory (RssAnon): ");
    pock_put_size(&text, measured);
  }
  if (t->options.checkpoint) pock_format(&text, "\nsaved to %s", t->options.checkpoint);
  pock_say("%.*s\n", (int)pock_text_size(&text), buffer);
}

int pock_train(struct pock_trainer* t) {
  struct run r = {.t = t, .first_step = t->progress.step, .shown_at = pock_seconds()};
  uint64_t over = t->train.samples % t->program->batch;
  if (over)
    pock_say("the last %llu samples of each epoch do not fill a batch of %d and are left out\n",
             (unsigned long long)over, (int)t->program->batch);
  pock_catch_signals();
  int status = train(&r);
  if (status == 0) summarize(&r);
  return status;
}
