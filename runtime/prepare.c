// From a command line to a trainer that is ready: everything that may be wrong outside is found here, before the
// first step.
#include "trainer.h"

static void* take(char** at, uint64_t bytes) {
  void* block = *at;
  *at += (bytes + 63) & ~(uint64_t)63;
  return block;
}

void* pock_table(uint64_t count, uint64_t bytes) {
  void* table = pock_reserve(count * bytes + 1);
  if (table) return table;
  pock_complain("out of memory");
  pock_exit(1);
}

static bool check_machine(void) {
  uint64_t missing = pock_program.cpu_needs & ~pock_cpu_have();
  if (!missing) return true;
  char names[256];
  struct pock_text text = {names, 0, sizeof names};
  pock_put_cpu(&text, missing);
  return pock_complain("compiled for %s; this processor or system lacks %s", pock_program.target,
                       pock_string(&text));
}

static bool reserve_memory(struct pock_trainer* t) {
  const struct pock_program* p = &pock_program;
  if (POCK_BOARD && p->memory) {
    t->memory = *p->memory;
  } else {
    uint64_t scalars = p->scalars_count * sizeof(float);
    char* at = pock_reserve(p->arena_bytes + p->params_bytes + p->state_bytes + scalars + 4 * 64);
    if (!at)
      return pock_complain("there is no memory for the plan, see trainer info: %zu bytes",
                           (size_t)(p->arena_bytes + p->params_bytes + p->state_bytes));
    t->memory.arena = take(&at, p->arena_bytes);
    t->memory.params = take(&at, p->params_bytes);
    t->memory.state = take(&at, p->state_bytes);
    t->memory.scalars = take(&at, scalars);
    t->memory.weights = p->weights;
  }
  if (p->weights_file && !pock_open_weights(t)) return false;
  pock_start_values(p, &t->memory);
  return true;
}

static bool start_threads(struct pock_trainer* t) {
  uint32_t cores = pock_cores(), most = pock_program.threads ? pock_program.threads : 1;
  t->thread_count = t->options.threads ? (uint32_t)t->options.threads : cores < most ? cores : most;
  t->threads.parallel_for = pock_parallel_for;
  t->threads.context = pock_start_pool(t->thread_count);
  return t->threads.context || pock_complain("the system does not give %d threads", (int)t->thread_count);
}

static void need_samples(const struct pock_dataset* set, const char* option, const char* what,
                         uint64_t samples, struct pock_text* report) {
  uint32_t i = 0;
  while (!set->sources[i].path) ++i;
  if (set->samples < samples)
    pock_format(report, "  %s '%s' has %llu samples, fewer than one %s of %llu\n", option,
                set->sources[i].path, (unsigned long long)set->samples, what, (unsigned long long)samples);
}

static POCK_APART bool open_data(struct pock_trainer* t) {
  const struct pock_program* p = &pock_program;
  const struct pock_options* o = &t->options;
  char buffer[4 * POCK_PATH];
  struct pock_text report = {buffer, 0, sizeof buffer};
  // A loss of the model's own is one number for a whole batch.
  bool whole = p->losses[0].count < p->batch;
  t->train.sources = pock_table(p->input_count, sizeof(struct pock_source));
  t->eval.sources = pock_table(p->input_count, sizeof(struct pock_source));
  t->score.accuracy = pock_table(p->input_count, sizeof *t->score.accuracy);
  t->terms = pock_table(p->loss_count, sizeof *t->terms);
  t->labels = pock_table(p->input_count, sizeof *t->labels);
  t->samples_a_step = pock_batches_a_step(p, o->hypers) * p->batch;
  bool trains = o->command == POCK_TRAIN;
  if (pock_open_dataset(p, o->data, "", &t->train, &report) && (trains || (o->command == POCK_EVAL && whole)))
    need_samples(&t->train, "--data", trains && p->backward ? "step" : "batch",
                 trains ? t->samples_a_step : p->batch, &report);
  if (o->evaluate && pock_open_dataset(p, o->eval_data, "eval-", &t->eval, &report) && whole)
    need_samples(&t->eval, "--eval-data", "batch", p->batch, &report);
  if (!report.length) return true;
  pock_complain("the data cannot be used:");
  pock_write(2, buffer, pock_text_size(&report));
  return false;
}

// Only looks where there is no trainer.
static enum pock_verdict read_checkpoint(struct pock_trainer* t, const char* path, bool weights_only,
                                         struct pock_text* why) {
  struct pock_file file;
  int64_t error = pock_map_file(path, &file);
  if (error) {
    pock_format(why, "cannot be opened: %s", pock_reason(error));
    return POCK_DAMAGED;
  }
  struct pock_checkpoint checkpoint = {.weights_only = weights_only,
                                       .offsets = pock_table(pock_program.tensor_count, sizeof(uint64_t))};
  uint64_t scratch = pock_checkpoint_scratch(&pock_program);
  checkpoint.scratch = (struct pock_text){pock_table(scratch, 1), 0, scratch};
  enum pock_verdict verdict = pock_check_checkpoint(&pock_program, file.bytes, file.length, &checkpoint, why);
  if (verdict == POCK_GOOD && t) {
    pock_load_checkpoint(&pock_program, &checkpoint, &t->memory);
    if (!weights_only) t->progress = checkpoint.progress;
  }
  pock_unmap_file(&file);
  return verdict;
}

// Another model's file is refused; only a damaged or missing one makes us look at the one before.
static POCK_APART bool resume(struct pock_trainer* t) {
  const char* path = t->options.resume;
  char previous[POCK_PATH], first[512], second[512];
  struct pock_text why = {first, 0, sizeof first}, why_not = {second, 0, sizeof second};
  struct pock_text name = {previous, 0, sizeof previous};
  pock_format(&name, "%s.prev", path);
  pock_string(&name);
  enum pock_verdict verdict = read_checkpoint(t, path, false, &why);
  if (verdict == POCK_DAMAGED) {
    verdict = read_checkpoint(t, previous, false, &why_not);
    if (verdict == POCK_GOOD)
      pock_complain("checkpoint '%s' %s; resuming from '%s'", path, pock_string(&why), previous);
  }
  if (verdict != POCK_GOOD) {
    pock_complain("checkpoint '%s' %s", path, pock_string(&why));
    if (why_not.length) pock_complain("checkpoint '%s' %s", previous, pock_string(&why_not));
    return false;
  }
  if (t->options.seed_given && t->options.seed != t->progress.seed)
    return pock_complain("'%s' was trained with --seed %llu; a resumed run keeps it", path,
                         (unsigned long long)t->progress.seed);
  pock_say("resumed from step %llu, epoch %llu\n", (unsigned long long)t->progress.step,
           (unsigned long long)t->progress.epoch + 1);
  if (t->progress.samples != t->train.samples)
    pock_say("note: there are %llu samples now, there were %llu; their order changes here\n",
             (unsigned long long)t->train.samples, (unsigned long long)t->progress.samples);
  t->progress.samples = t->train.samples;
  return true;
}

static POCK_APART bool load_weights(struct pock_trainer* t) {
  char buffer[512];
  struct pock_text why = {buffer, 0, sizeof buffer};
  if (read_checkpoint(t, t->options.weights, true, &why) == POCK_GOOD) return true;
  return pock_complain("weights '%s' %s", t->options.weights, pock_string(&why));
}

static bool try_checkpoint_paths(struct pock_trainer* t) {
  const struct pock_options* o = &t->options;
  if (!o->checkpoint) return true;
  uint64_t room = pock_length(o->checkpoint) + sizeof ".best";
  struct pock_text best = {pock_table(room, 1), 0, room};
  pock_format(&best, "%s.best", o->checkpoint);
  t->best_path = best.data;
  // What is damaged or missing must not take the place of a good FILE.prev.
  struct pock_text why = {0};
  t->keep_previous = read_checkpoint(NULL, o->checkpoint, true, &why) != POCK_DAMAGED;
  // A damaged file that is being resumed from is a checkpoint all the same.
  return pock_try_checkpoint_path(o->checkpoint, o->resume && pock_same_file(o->resume, o->checkpoint)) &&
         (!o->patience || pock_try_checkpoint_path(t->best_path, false));
}

bool pock_prepare(struct pock_trainer* t) {
  const struct pock_options* o = &t->options;
  if (o->time_limit > 0) t->deadline = pock_seconds() + o->time_limit;
  pock_catch_signals();
  t->columns = pock_terminal_columns(2);
  if (!check_machine() || !open_data(t) || !try_checkpoint_paths(t)) return false;
  if (pock_program.gradient_count && o->gradients && !pock_try_gradients_path(t)) return false;
  if (!reserve_memory(t)) return false;
  t->progress =
      (struct pock_progress){.seed = o->seed, .samples = t->train.samples, .best_loss = __builtin_inff()};
  return (!o->resume || resume(t)) && (!o->weights || load_weights(t)) && start_threads(t);
}
