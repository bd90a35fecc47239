// `trainer train`: the steps, and what happens between them.
#include "trainer.h"

// Why training ended. Up to FAILED the run is good and is saved. OUTPUT_FAILED: the log or the gradients.
enum stop { GOING, DONE, SIGNALLED, OUT_OF_TIME, NO_BETTER, READER_GONE, OUTPUT_FAILED, FAILED };

struct run {
  struct pock_trainer* t;
  struct pock_shuffle shuffle;  // of the epoch
  enum stop stop;
  bool saved;  // just as it is now
  float loss;  // of the last step: the mean over its batches
  uint64_t skipped, skipped_in_a_row;
  uint64_t gradients_of;  // the step whose gradients were written; 0: none were
  // For people:
  uint64_t first_step, epoch_steps;
  double epoch_loss, seconds, began, shown_at;
};

static uint64_t steps_an_epoch(const struct pock_trainer* t) { return t->train.samples / t->samples_a_step; }

static uint64_t total_steps(const struct pock_trainer* t) {
  return t->options.steps ? t->options.steps : t->options.epochs * steps_an_epoch(t);
}

static bool is_done(const struct pock_trainer* t) {
  return t->options.steps ? t->progress.step >= t->options.steps : t->progress.epoch >= t->options.epochs;
}

static bool must_stop(struct run* r) {
  if (r->stop == GOING && is_done(r->t)) r->stop = DONE;
  if (r->stop == GOING && pock_interrupted(r->t)) r->stop = pock_caught_signal() ? SIGNALLED : OUT_OF_TIME;
  return r->stop != GOING;
}

static void log_line(struct run* r, const struct pock_text* line) {
  int64_t error = pock_write(1, line->data, pock_text_size(line));
  if (!error) return;
  r->stop = error == -32 /* a closed pipe */ ? READER_GONE : OUTPUT_FAILED;
  if (r->stop == OUTPUT_FAILED) pock_complain("the log cannot be written: %s", pock_reason(error));
}

static bool save_to(struct run* r, const char* path, bool keep_previous) {
  const struct pock_trainer* t = r->t;
  if (pock_save_checkpoint(&pock_program, &t->memory, &t->progress, path, keep_previous)) return true;
  r->stop = FAILED;
  return false;
}

static POCK_APART void save(struct run* r) {
  struct pock_trainer* t = r->t;
  if (!t->options.checkpoint || r->saved || !save_to(r, t->options.checkpoint, t->keep_previous)) return;
  t->keep_previous = r->saved = true;
}

// With --patience, the evaluation at the end of an epoch counts, and the one before the first. Counting one twice,
// as after --resume, changes nothing.
static void judge(struct run* r) {
  struct pock_trainer* t = r->t;
  struct pock_progress* p = &t->progress;
  if (!t->options.patience || p->position) return;
  if ((float)t->score.loss < p->best_loss) {
    p->best_loss = (float)t->score.loss;
    p->best_epoch = p->epoch;
    p->best_step = p->step;
    r->saved = false;
    if (t->options.checkpoint) save_to(r, t->best_path, false);
  } else if (p->epoch - p->best_epoch >= t->options.patience && r->stop == GOING) {
    r->stop = NO_BETTER;
  }
}

// Scores the evaluation data, if there is any.
static POCK_APART void evaluate(struct run* r) {
  struct pock_trainer* t = r->t;
  if (!t->options.evaluate || r->stop > DONE || !pock_evaluate(t, &t->eval)) return;
  char buffer[POCK_PATH];
  struct pock_text line = {buffer, 0, sizeof buffer};
  pock_format(&line, t->progress.step ? "%sstep %llu" : "%sbefore training", t->columns ? "\r\x1b[K" : "",
              (unsigned long long)t->progress.step);
  pock_format(&line, ": evaluation ");
  pock_put_score(&line, t, false);
  pock_say("%s\n", pock_string(&line));
  if (t->options.log_json) {
    line.length = 0;
    pock_format(&line, "{\"eval\":%llu,\"step\":%llu,", (unsigned long long)t->progress.epoch,
                (unsigned long long)t->progress.step);
    pock_put_score(&line, t, true);
    pock_format(&line, "}\n");
    log_line(r, &line);
  }
  judge(r);
}

// Before an evaluation takes their memory. Of a step that was given up there are none.
static void write_gradients(struct run* r) {
  const struct pock_trainer* t = r->t;
  const uint64_t step = t->progress.step;
  if (!pock_program.gradient_count || !t->options.gradients || r->stop >= FAILED || r->skipped_in_a_row ||
      step == r->first_step)
    return;
  if (pock_write_gradients(t))
    r->gradients_of = step;
  else
    r->stop = OUTPUT_FAILED;
}

static double samples_a_second(const struct run* r) {
  double samples = pock_double((r->t->progress.step - r->first_step + r->skipped) * r->t->samples_a_step);
  return r->seconds > 0 ? samples / r->seconds : 0;
}

static void put_duration(struct pock_text* out, double seconds) {
  uint64_t s = pock_whole(seconds + 0.5);
  if (s >= 3600)
    pock_format(out, "%d h %d min", (int)(s / 3600), (int)(s / 60 % 60));
  else if (s >= 60)
    pock_format(out, "%d min %d s", (int)(s / 60), (int)(s % 60));
  else
    pock_format(out, "%d s", (int)s);
}

// One line for people, rewritten on a terminal.
static void show_progress(struct run* r) {
  const struct pock_trainer* t = r->t;
  uint64_t done = t->progress.step - r->first_step, total = total_steps(t);
  char buffer[256];
  struct pock_text line = {buffer, 0, sizeof buffer};
  pock_format(&line, "epoch %llu  step %llu/%llu  loss %.4g  lr %.3g",
              (unsigned long long)t->progress.epoch + 1, (unsigned long long)t->progress.step,
              (unsigned long long)total, r->epoch_loss / pock_double(r->epoch_steps),
              (double)t->memory.scalars[0]);
  if (t->score.samples) {
    pock_format(&line, "  evaluation ");
    pock_put_score(&line, t, false);
  }
  pock_format(&line, "  %.4g samples/s", samples_a_second(r));
  if (total > t->progress.step) {
    r->shown_at = pock_seconds();
    pock_format(&line, "  ");
    put_duration(&line, (r->shown_at - r->began) / pock_double(done) * pock_double(total - t->progress.step));
    pock_format(&line, " left");
  }
  uint32_t size = (uint32_t)pock_text_size(&line);
  if (t->columns && size >= t->columns) size = t->columns - 1;
  pock_say(t->columns ? "\r%.*s\x1b[K" : "%.*s\n", (int)size, buffer);
}

// All batches of a step, from the samples to the update.
static enum pock_outcome run_batches(struct run* r) {
  struct pock_trainer* t = r->t;
  const struct pock_program* p = &pock_program;
  enum pock_outcome outcome;
  double sum = 0;
  uint64_t batches = 0;
  do {
    const uint64_t first = t->progress.position + t->progress.batches * p->batch;
    if (t->options.poison_arena) memset(t->memory.arena, 0xff, p->arena_bytes);
    for (uint64_t sample = first; sample < first + p->batch; ++sample)
      pock_gather(&t->train, t->options.no_shuffle ? sample : pock_shuffled(&r->shuffle, sample),
                  (uint32_t)(sample - first), t->memory.arena, false);
    outcome = pock_step(p, &t->memory, &t->threads, t->options.hypers, &t->progress, &r->loss);
    sum += r->loss;
    ++batches;
  } while (outcome == POCK_UNFINISHED);
  r->loss = (float)(sum / pock_double(batches));
  return outcome;
}

// The loss or the gradient of a step was not finite: nothing was updated.
static void give_up_step(struct run* r, enum pock_outcome outcome) {
  const struct pock_trainer* t = r->t;
  const char *what = outcome == POCK_BAD_LOSS ? "loss" : "gradient", *line = t->columns ? "\n" : "";
  unsigned long long step = t->progress.step + 1;
  if (!pock_program.skips) {
    pock_say("%strainer: the %s of step %llu is not finite: stopped before the update%s\n", line, what, step,
             pock_not_finite_advice);
    r->stop = FAILED;
    return;
  }
  r->saved = false;
  if (!r->skipped++)
    pock_say("%sthe %s of step %llu is not finite: its samples are skipped\n", line, what, step);
  if (++r->skipped_in_a_row < steps_an_epoch(t)) return;
  pock_say("%strainer: step %llu was skipped as often as an epoch has steps: stopped\n", line, step);
  r->stop = FAILED;
}

static void log_step(struct run* r) {
  char buffer[128];
  struct pock_text line = {buffer, 0, sizeof buffer};
  pock_format(&line, "{\"step\":%llu,\"loss\":", (unsigned long long)r->t->progress.step);
  pock_put_float(&line, r->loss);
  pock_format(&line, ",\"lr\":");
  pock_put_float(&line, r->t->memory.scalars[0]);
  pock_format(&line, "}\n");
  log_line(r, &line);
}

static void one_step(struct run* r) {
  struct pock_trainer* t = r->t;
  double start = pock_seconds();
  enum pock_outcome outcome = run_batches(r);
  double now = pock_seconds();
  r->seconds += now - start;
  if (outcome != POCK_STEPPED) {
    give_up_step(r, outcome);
    return;
  }
  r->skipped_in_a_row = 0;
  r->saved = false;
  r->epoch_loss += r->loss;
  ++r->epoch_steps;
  if (now - r->shown_at > (t->columns ? 0.1 : 5)) show_progress(r);
  if (t->options.log_json) log_step(r);
}

// What is left of an epoch. False where it was not finished.
static bool one_epoch(struct run* r) {
  struct pock_trainer* t = r->t;
  uint64_t last_position = steps_an_epoch(t) * t->samples_a_step;
  r->shuffle = pock_shuffle_for(t->train.samples, t->progress.seed, t->progress.epoch);
  r->epoch_loss = 0;
  r->epoch_steps = 0;
  while (t->progress.position + t->samples_a_step <= last_position) {
    if (must_stop(r)) return false;
    one_step(r);
    if (r->stop == FAILED) return false;
    if (!r->skipped_in_a_row && t->options.checkpoint_every &&
        t->progress.step % t->options.checkpoint_every == 0)
      save(r);
  }
  if (r->epoch_steps) show_progress(r);
  if (t->columns) pock_say("\n");
  ++t->progress.epoch;
  t->progress.position = 0;
  r->saved = false;
  return true;
}

// In the log: why there are no more steps, where these were not all.
static void log_stop(struct run* r) {
  static const char reasons[][12] = {
      [SIGNALLED] = "signal", [OUT_OF_TIME] = "time-limit", [NO_BETTER] = "patience"};
  if (!r->t->options.log_json || r->stop < SIGNALLED || r->stop > NO_BETTER) return;
  char buffer[96];
  struct pock_text line = {buffer, 0, sizeof buffer};
  pock_format(&line, "{\"stopped\":\"%s\",\"step\":%llu}\n", reasons[r->stop],
              (unsigned long long)r->t->progress.step);
  pock_write(1, buffer, pock_text_size(&line));
}

static void train(struct run* r) {
  struct pock_trainer* t = r->t;
  uint64_t evaluated_at = t->progress.step;
  evaluate(r);
  while (!must_stop(r)) {
    const bool whole = one_epoch(r);
    write_gradients(r);
    if (!whole) break;
    evaluate(r);
    evaluated_at = t->progress.step;
  }
  if (r->stop == DONE && evaluated_at != t->progress.step) evaluate(r);
  if (r->stop < FAILED) save(r);
  log_stop(r);
}

static void put_stop(struct pock_text* out, const struct run* r) {
  const struct pock_progress* p = &r->t->progress;
  if (r->stop == SIGNALLED) pock_format(out, "signal %d: ", pock_caught_signal());
  if (r->stop == OUT_OF_TIME) pock_format(out, "the time is up: ");
  if (r->stop == NO_BETTER)
    pock_format(out,
                "no better evaluation for %llu epochs: ", (unsigned long long)(p->epoch - p->best_epoch));
  if (r->stop == READER_GONE) pock_format(out, "nobody reads the log: ");
  pock_format(out, "stopped after step %llu\n", (unsigned long long)p->step);
}

static POCK_APART void summarize(const struct run* r) {
  const struct pock_trainer* t = r->t;
  const struct pock_program* p = &pock_program;
  char buffer[2 * POCK_PATH];
  struct pock_text text = {buffer, 0, sizeof buffer};
  if (r->stop != DONE) put_stop(&text, r);
  if (r->skipped) pock_format(&text, "skipped for not being finite: %llu\n", (unsigned long long)r->skipped);
  pock_format(&text, "%llu steps in ", (unsigned long long)(t->progress.step - r->first_step));
  pock_format(&text,
              "%.4g s, %.4g samples/s, %d thread%s\n"
              "planned memory: arena %zu, parameters %zu, optimizer state %zu, in all %zu",
              r->seconds, samples_a_second(r), (int)t->thread_count, t->thread_count == 1 ? "" : "s",
              (size_t)p->arena_bytes, (size_t)p->params_bytes, (size_t)p->state_bytes,
              (size_t)(p->arena_bytes + p->params_bytes + p->state_bytes));
  uint64_t measured = pock_rss_anon();
  if (measured) pock_format(&text, "\nmeasured memory (RssAnon): %zu", (size_t)measured);
  if (t->options.patience && pock_finite(t->progress.best_loss))
    pock_format(&text, "\nbest evaluation: loss %.5g after epoch %llu%s%s", (double)t->progress.best_loss,
                (unsigned long long)t->progress.best_epoch, t->options.checkpoint ? ", kept in " : "",
                t->options.checkpoint ? t->best_path : "");
  if (p->gradient_count && r->gradients_of)
    pock_format(&text, "\ngradients of step %llu written to %s", (unsigned long long)r->gradients_of,
                t->options.gradients);
  if (t->options.checkpoint)
    pock_format(&text, "\nsaved to %s\n", t->options.checkpoint);
  else
    pock_format(&text, "\nnothing saved: no --checkpoint\n");
  pock_write(2, buffer, pock_text_size(&text));
}

int pock_train(struct pock_trainer* t) {
  struct run r = {.t = t, .first_step = t->progress.step, .began = pock_seconds()};
  r.shown_at = r.began;
  // What was read is there already, unless it was FILE.prev.
  r.saved = t->options.resume && t->options.checkpoint && t->keep_previous &&
            pock_equal(t->options.resume, t->options.checkpoint);
  uint64_t over = t->train.samples % t->samples_a_step;
  if (over)
    pock_say("the last %llu samples of each epoch do not fill a %s of %llu and are left out\n",
             (unsigned long long)over, pock_program.backward ? "step" : "batch",
             (unsigned long long)t->samples_a_step);
  double* steps = pock_find_hyper(&pock_program, t->options.hypers, "steps");  // of a schedule
  if (steps && *steps == 0) *steps = pock_double(total_steps(t));
  if (is_done(t)) pock_say("nothing to do: step %llu is done\n", (unsigned long long)t->progress.step);
  train(&r);
  if (t->columns) pock_say("\n");
  if (r.stop < FAILED) summarize(&r);
  if (pock_program.gradient_count && t->options.gradients && r.stop < OUTPUT_FAILED && !r.gradients_of)
    return !pock_complain("no gradients for '%s': %s", t->options.gradients,
                          r.skipped_in_a_row ? "the last step was skipped" : "no step was done");
  if (r.stop == SIGNALLED) return 128 + pock_caught_signal();
  return r.stop >= OUTPUT_FAILED || !pock_finite((float)t->score.loss);  // of the last evaluation
}
