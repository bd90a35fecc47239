// The program that trains: reads its command line, checks machine, data and checkpoint, and runs the steps.
//
// Exit status: 0 done, 1 something outside is wrong (data, checkpoint, disk, a loss that is no number),
// 2 wrong use, 130 and 143 stopped by SIGINT and SIGTERM after finishing the step and saving.
#include "runtime.h"

struct trainer {
  const struct pock_program* program;
  struct pock_options options;
  struct pock_buffers memory;
  struct pock_threads threads;
  uint32_t thread_count;
  struct pock_dataset train, eval;
  struct pock_progress progress;
  bool keep_previous;  // FILE.prev may be replaced: FILE is good
  bool terminal;
  // For people, about this run:
  uint64_t first_step, epoch_steps;
  double epoch_loss, seconds, shown_at;
  float loss;
};

static void* take(char** at, uint64_t bytes) {
  void* block = *at;
  *at += (bytes + 63) & ~(uint64_t)63;
  return block;
}

// A zeroed table with an entry for each of `count` things; the program says how many, so none is sized by
// guess.
static void* table(uint64_t count, uint64_t bytes) { return pock_reserve(count * bytes + 1); }

static bool check_machine(const struct pock_program* program) {
  uint64_t missing = program->cpu_needs & ~pock_cpu_have();
  if (!missing) return true;
  char names[256];
  struct pock_text text = {names, 0, sizeof names};
  pock_put_cpu(&text, missing);
  pock_say("trainer: compiled for %s; this processor or system lacks %.*s\n", program->target,
           (int)pock_text_size(&text), names);
  return false;
}

static bool reserve_memory(struct trainer* t) {
  const struct pock_program* p = t->program;
  uint64_t scalars = p->scalars_count * sizeof(float);
  char* at = pock_reserve(p->arena_bytes + p->params_bytes + p->state_bytes + scalars + 4 * 64);
  if (!at) {
    pock_say(
        "trainer: the system does not give the memory planned: arena %llu, parameters %llu, optimizer %llu "
        "bytes\n",
        (unsigned long long)p->arena_bytes, (unsigned long long)p->params_bytes,
        (unsigned long long)p->state_bytes);
    return false;
  }
  t->memory.arena = take(&at, p->arena_bytes);
  t->memory.params = take(&at, p->params_bytes);
  t->memory.state = take(&at, p->state_bytes);
  t->memory.scalars = take(&at, scalars);
  t->memory.weights = p->weights;
  memcpy(t->memory.params, p->weights, p->params_bytes);
  return true;
}

static bool start_threads(struct trainer* t) {
  uint32_t cores = pock_cores(), most = t->program->threads ? t->program->threads : 1;
  t->thread_count = t->options.threads ? t->options.threads : cores < most ? cores : most;
  t->threads.parallel_for = pock_parallel_for;
  t->threads.context = pock_start_pool(t->thread_count);
  if (!t->threads.context) pock_say("trainer: the system does not give %d threads\n", (int)t->thread_count);
  return t->threads.context;
}

static bool open_data(struct trainer* t) {
  const struct pock_program* p = t->program;
  char buffer[16384];
  struct pock_text report = {buffer, 0, sizeof buffer};
  if (pock_open_dataset(p, t->options.data, "", &t->train, &report) && t->train.samples < p->batch)
    pock_format(&report, "  --data '%s' has %llu samples, fewer than one batch of %d\n",
                t->train.sources[0].path, (unsigned long long)t->train.samples, (int)p->batch);
  if (t->options.evaluate) pock_open_dataset(p, t->options.eval_data, "eval-", &t->eval, &report);
  if (!report.length) return true;
  pock_say("trainer: the data cannot be used:\n");
  pock_write(2, buffer, pock_text_size(&report));
  return false;
}

static enum pock_verdict resume_from(struct trainer* t, const char* path, struct pock_text* why) {
  struct pock_file file;
  int64_t error = pock_map_file(path, &file);
  if (error) {
    pock_format(why, "cannot be opened: %s", pock_reason(error));
    return POCK_DAMAGED;
  }
  struct pock_checkpoint checkpoint = {.offsets = table(t->program->tensor_count, sizeof(uint64_t))};
  uint64_t scratch = pock_checkpoint_scratch(t->program);
  checkpoint.scratch = (struct pock_text){table(scratch, 1), 0, scratch};
  enum pock_verdict verdict = POCK_DAMAGED;
  if (!checkpoint.offsets || !checkpoint.scratch.data)
    pock_format(why, "out of memory");
  else
    verdict = pock_check_checkpoint(t->program, file.bytes, file.length, &checkpoint, why);
  if (verdict == POCK_GOOD) {
    pock_load_checkpoint(t->program, &checkpoint, &t->memory);
    t->progress = checkpoint.progress;
  }
  pock_unmap_file(&file);
  return verdict;
}

// Another model's file is refused; only a damaged or missing one makes us look at the one before.
static bool resume(struct trainer* t) {
  const char* path = t->options.resume;
  char previous[4096], first[512], second[512];
  struct pock_text why = {first, 0, sizeof first}, why_not = {second, 0, sizeof second};
  struct pock_text name = {previous, 0, sizeof previous - 1};
  pock_format(&name, "%s.prev", path);
  previous[pock_text_size(&name)] = 0;
  enum pock_verdict verdict = resume_from(t, path, &why);
  if (verdict == POCK_DAMAGED) {
    verdict = resume_from(t, previous, &why_not);
    if (verdict == POCK_GOOD) {
      pock_say("trainer: checkpoint '%s' %.*s; resuming from '%s'\n", path, (int)pock_text_size(&why), first,
               previous);
      // FILE is damaged: the first save must not put it in the place of the good one.
      t->keep_previous = !t->options.checkpoint || !pock_equal(t->options.checkpoint, path);
    }
  }
  if (verdict != POCK_GOOD) {
    pock_say("trainer: checkpoint '%s' %.*s\n", path, (int)pock_text_size(&why), first);
    if (why_not.length)
      pock_say("trainer: checkpoint '%s' %.*s\n", previous, (int)pock_text_size(&why_not), second);
    return false;
  }
  if (t->options.seed_given && t->options.seed != t->progress.seed) {
    pock_say("trainer: '%s' was trained with --seed %llu; a resumed run keeps it\n", path,
             (unsigned long long)t->progress.seed);
    return false;
  }
  pock_say("resumed from step %llu, epoch %llu\n", (unsigned long long)t->progress.step,
           (unsigned long long)t->progress.epoch + 1);
  return true;
}

static bool save(struct trainer* t) {
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

static bool finite(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return (bits >> 23 & 0xFF) != 0xFF;
}

static bool log_line(const struct pock_text* line) {
  int64_t error = pock_write(1, line->data, pock_text_size(line));
  if (error) pock_say("trainer: the log cannot be written: %s\n", pock_reason(error));
  return !error;
}

static void put_json_number(struct pock_text* out, float value) {
  if (finite(value))
    pock_put_float(out, value);
  else
    pock_format(out, "null");
}

static uint64_t best_class(const float* scores, uint64_t n) {
  uint64_t best = 0;
  for (uint64_t i = 1; i < n; ++i)
    if (scores[i] > scores[best]) best = i;
  return best;
}

static bool is_right(const struct trainer* t, uint32_t row) {
  const struct pock_program* p = t->program;
  const float* scores = (const float*)(t->memory.arena + p->predictions_offset) + row * p->predictions_count;
  for (uint32_t i = 0; i < p->input_count; ++i) {
    if (p->inputs[i].feed != POCK_LABELS) continue;
    const char* labels = t->memory.arena + p->inputs[i].infer_offset;
    int64_t label =
        p->inputs[i].dtype == POCK_I64 ? ((const int64_t*)labels)[row] : ((const int32_t*)labels)[row];
    return (int64_t)best_class(scores, p->predictions_count) == label;
  }
  return false;
}

// Mean loss and accuracy over the evaluation data. False when the log could not be written.
static bool evaluate(struct trainer* t) {
  const struct pock_program* p = t->program;
  if (!t->options.evaluate) return true;
  double sum = 0;
  uint64_t right = 0, samples = t->eval.samples;
  for (uint64_t first = 0; first < samples; first += p->batch) {
    if (pock_caught_signal()) return true;
    // The last batch is filled up with the last sample; what its extra rows give is not looked at.
    uint32_t rows = samples - first < p->batch ? (uint32_t)(samples - first) : p->batch;
    for (uint32_t row = 0; row < p->batch; ++row)
      pock_gather(&t->eval, row < rows ? first + row : samples - 1, row, t->memory.arena, true);
    p->infer(&t->memory, &t->threads);
    const float* losses = (const float*)(t->memory.arena + p->sample_loss_offset);
    for (uint32_t row = 0; row < rows; ++row) {
      sum += losses[row];
      if (p->accuracy) right += is_right(t, row);
    }
  }
  double loss = sum / (double)samples, accuracy = (double)right / (double)samples;
  char buffer[256];
  struct pock_text line = {buffer, 0, sizeof buffer};
  pock_format(&line, t->progress.step ? "%sstep %llu" : "%sbefore training", t->terminal ? "\r\x1b[K" : "",
              (unsigned long long)t->progress.step);
  pock_format(&line, ": evaluation loss %.5g", loss);
  if (p->accuracy)
    pock_format(&line, ", accuracy %.4g%% (%llu of %llu)", 100 * accuracy, (unsigned long long)right,
                (unsigned long long)samples);
  pock_say("%.*s\n", (int)pock_text_size(&line), buffer);
  if (!t->options.log_json) return true;
  line.length = 0;
  pock_format(&line, "{\"eval\":%llu,\"step\":%llu,\"loss\":", (unsigned long long)t->progress.epoch,
              (unsigned long long)t->progress.step);
  put_json_number(&line, (float)loss);
  if (p->accuracy) {
    pock_format(&line, ",\"accuracy\":");
    put_json_number(&line, (float)accuracy);
  }
  pock_format(&line, "}\n");
  return log_line(&line);
}

static uint64_t steps_an_epoch(const struct trainer* t) { return t->train.samples / t->program->batch; }

static uint64_t total_steps(const struct trainer* t) {
  return t->options.steps ? t->options.steps : t->options.epochs * steps_an_epoch(t);
}

static double samples_a_second(const struct trainer* t) {
  double samples = (double)(t->progress.step - t->first_step) * t->program->batch;
  return t->seconds > 0 ? samples / t->seconds : 0;
}

// One line for people, rewritten on a terminal.
static void show_progress(const struct trainer* t) {
  uint64_t done = t->progress.step - t->first_step, total = total_steps(t);
  double left = total > t->progress.step ? t->seconds / (double)done * (double)(total - t->progress.step) : 0;
  pock_say("%sepoch %llu  step %llu/%llu  loss %.5g  %.4g samples/s  %.3g s left%s", t->terminal ? "\r" : "",
           (unsigned long long)t->progress.epoch + 1, (unsigned long long)t->progress.step,
           (unsigned long long)total, t->epoch_loss / (double)t->epoch_steps, samples_a_second(t), left,
           t->terminal ? "\x1b[K" : "\n");
}

// One step, from the samples to the update. False when training has to stop with status 1.
static bool one_step(struct trainer* t, const struct pock_shuffle* shuffle) {
  const struct pock_program* p = t->program;
  double start = pock_seconds();
  if (t->options.poison_arena) memset(t->memory.arena, 0xff, p->arena_bytes);
  for (uint32_t row = 0; row < p->batch; ++row) {
    uint64_t sample = t->progress.position + row;
    pock_gather(&t->train, t->options.no_shuffle ? sample : pock_shuffled(shuffle, sample), row,
                t->memory.arena, false);
  }
  p->scalars(t->options.hypers, (double)(t->progress.step + 1), t->memory.scalars);
  p->forward(&t->memory, &t->threads);
  __builtin_memcpy(&t->loss, t->memory.arena + p->loss_offset, sizeof t->loss);
  if (!finite(t->loss)) {
    pock_say(
        "%strainer: the loss of step %llu is not finite: stopped before the update; a checkpoint already "
        "written stays as it is. Try a smaller --lr, or look at the data\n",
        t->terminal ? "\n" : "", (unsigned long long)t->progress.step + 1);
    return false;
  }
  p->update(&t->memory, &t->threads);
  ++t->progress.step;
  t->progress.position += p->batch;
  t->epoch_loss += t->loss;
  ++t->epoch_steps;
  double now = pock_seconds();
  t->seconds += now - start;
  if (now - t->shown_at > (t->terminal ? 0.1 : 5)) {
    t->shown_at = now;
    show_progress(t);
  }
  if (!t->options.log_json) return true;
  char buffer[96];
  struct pock_text line = {buffer, 0, sizeof buffer};
  pock_format(&line, "{\"step\":%llu,\"loss\":", (unsigned long long)t->progress.step);
  pock_put_float(&line, t->loss);
  pock_format(&line, "}\n");
  return log_line(&line);
}

static bool is_done(const struct trainer* t) {
  return t->options.steps ? t->progress.step >= t->options.steps : t->progress.epoch >= t->options.epochs;
}

// 0, 1, or 128 and the signal that stopped it.
static int train(struct trainer* t) {
  uint64_t last_position = steps_an_epoch(t) * t->program->batch;
  uint64_t saved_at = UINT64_MAX, evaluated_at = t->progress.step;
  if (!evaluate(t)) return 1;
  while (!is_done(t) && !pock_caught_signal()) {
    struct pock_shuffle shuffle = pock_shuffle_for(t->train.samples, t->progress.seed, t->progress.epoch);
    t->epoch_loss = 0;
    t->epoch_steps = 0;
    while (t->progress.position + t->program->batch <= last_position && !pock_caught_signal()) {
      if (t->options.steps && t->progress.step >= t->options.steps) break;
      if (!one_step(t, &shuffle)) return 1;
      if (t->options.checkpoint_every && t->progress.step % t->options.checkpoint_every == 0) {
        if (!save(t)) return 1;
        saved_at = t->progress.step;
      }
    }
    if (t->progress.position + t->program->batch <= last_position) break;
    if (t->epoch_steps) show_progress(t);
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

static void summarize(const struct trainer* t) {
  const struct pock_program* p = t->program;
  char buffer[1024];
  struct pock_text text = {buffer, 0, sizeof buffer};
  pock_format(&text, "%llu steps in %.4g s, %.4g samples/s, %d thread%s\nplanned memory: arena ",
              (unsigned long long)(t->progress.step - t->first_step), t->seconds, samples_a_second(t),
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

static bool try_checkpoint_path(const struct trainer* t) {
  char buffer[512];
  struct pock_text why = {buffer, 0, sizeof buffer};
  const struct pock_options* o = &t->options;
  if (!o->checkpoint) return true;
  // A damaged file that is being resumed from is a checkpoint all the same.
  bool known = o->resume && pock_equal(o->resume, o->checkpoint);
  if (pock_try_checkpoint_path(o->checkpoint, known, &why)) return true;
  pock_say("trainer: %.*s\n", (int)pock_text_size(&why), buffer);
  return false;
}

int pock_main(int argc, char** argv) {
  (void)argc;  // argv ends with a null
  pock_flush_denormals();
  struct trainer t = {.program = &pock_program, .keep_previous = true};
  const struct pock_program* p = t.program;
  t.options.data = table(p->input_count, sizeof(char*));
  t.options.eval_data = table(p->input_count, sizeof(char*));
  t.options.hypers = table(p->hyper_count, sizeof(double));
  t.options.hyper_given = table(p->hyper_count, sizeof(bool));
  t.train.sources = table(p->input_count, sizeof(struct pock_source));
  t.eval.sources = table(p->input_count, sizeof(struct pock_source));
  if (!t.options.data || !t.options.eval_data || !t.options.hypers || !t.options.hyper_given ||
      !t.train.sources || !t.eval.sources) {
    pock_say("trainer: out of memory\n");
    return 1;
  }
  if (!pock_parse_options(p, argv, &t.options)) return 2;
  if (t.options.command == POCK_INFO) pock_print_info(p, t.options.info_json);
  if (t.options.command != POCK_TRAIN) return 0;

  t.progress.seed = t.options.seed;
  t.terminal = pock_is_terminal(2);
  if (!check_machine(p) || !open_data(&t) || !try_checkpoint_path(&t) || !reserve_memory(&t)) return 1;
  if (t.options.resume && !resume(&t)) return 1;
  if (!start_threads(&t)) return 1;
  if (t.train.samples % p->batch)
    pock_say("the last %llu samples of each epoch do not fill a batch of %d and are left out\n",
             (unsigned long long)(t.train.samples % p->batch), (int)p->batch);
  t.first_step = t.progress.step;
  t.shown_at = pock_seconds();
  pock_catch_signals();
  int status = train(&t);
  if (status == 0) summarize(&t);
  return status;
}
