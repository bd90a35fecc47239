// The command line. What cannot work is refused here, before any file is opened.
#include "runtime.h"

static const char usage[] =
    "usage: trainer train --data [INPUT=]FILE --labels [OUTPUT=]FILE [options]\n"
    "       trainer info [--json]\n"
    "       trainer --help | --version\n";

static const char train_help[] =
    "usage: trainer train --data [INPUT=]FILE --labels [OUTPUT=]FILE [options]\n"
    "\n"
    "  --data [INPUT=]FILE      samples, .npy or IDX; once for each model input\n"
    "  --labels [OUTPUT=]FILE   what they should give\n"
    "  --epochs N               train until N epochs are done (default 1)\n"
    "  --steps N                or until N steps are done; both count from the very first\n"
    "                           step, so the ones done before --resume are included\n"
    "  --lr X                   learning rate; short for --opt lr=X\n"
    "  --opt KEY=VALUE          another number of the optimizer; `info` lists them\n"
    "  --seed S                 order of the samples and randomness in the model\n"
    "  --threads N              at most as many as planned when compiled\n"
    "  --no-shuffle             take the samples in the order of the file\n"
    "  --poison-arena           fill the arena with NaN before each step; the result must\n"
    "                           not change (a check of the compiler)\n"
    "  --eval-data [INPUT=]FILE, --eval-labels [OUTPUT=]FILE\n"
    "                           evaluate on these at the start and after each epoch\n"
    "  --checkpoint FILE        save at the end, and on SIGINT or SIGTERM\n"
    "  --checkpoint-every STEPS and every so many steps\n"
    "  --resume FILE            go on from a checkpoint; give the other options again\n"
    "  --log json               one JSON object a step on standard output\n";

static void say_help(const char* text) { pock_write(1, text, pock_length(text)); }

struct parser {
  const struct pock_program* program;
  struct pock_options* options;
  uint32_t seen;  // one bit for each option that may be given once
};

static bool bad(const char* format, ...) __attribute__((format(printf, 1, 2)));
static bool bad(const char* format, ...) {
  char buffer[1024];
  struct pock_text text = {buffer, 0, sizeof buffer};
  va_list list;
  va_start(list, format);
  pock_format_list(&text, format, list);
  va_end(list);
  pock_say("trainer: %.*s\n", (int)pock_text_size(&text), buffer);
  return false;
}

static bool set_path(struct parser* p, const char* option, enum pock_feed feed, const char** paths,
                     const char* value) {
  const struct pock_program* program = p->program;
  uint32_t named = program->input_count, only = program->input_count, count = 0;
  for (uint32_t i = 0; i < program->input_count; ++i) {
    const struct pock_input* input = &program->inputs[i];
    if (input->feed != feed) continue;
    ++count;
    only = i;
    if (pock_starts(value, input->name) && value[pock_length(input->name)] == '=') named = i;
  }
  if (count == 0) return bad("%s: this model takes none", option);
  if (named < program->input_count) {
    value += pock_length(program->inputs[named].name) + 1;
  } else if (count == 1) {
    named = only;
  } else {
    char buffer[512];
    struct pock_text names = {buffer, 0, sizeof buffer};
    for (uint32_t i = 0; i < program->input_count; ++i)
      if (program->inputs[i].feed == feed) pock_format(&names, " %s", program->inputs[i].name);
    return bad("%s %s: say NAME=FILE, where NAME is one of:%.*s", option, value, (int)pock_text_size(&names),
               buffer);
  }
  if (!*value) return bad("%s: the file name is empty", option);
  if (paths[named]) return bad("%s: '%s' was given twice", option, program->inputs[named].name);
  paths[named] = value;
  return true;
}

static bool set_hyper(struct parser* p, const char* key, size_t length, const char* value) {
  const struct pock_program* program = p->program;
  char buffer[256];
  struct pock_text keys = {buffer, 0, sizeof buffer};
  for (uint32_t i = 0; i < program->hyper_count; ++i) {
    const struct pock_hyper* hyper = &program->hypers[i];
    pock_format(&keys, " %s", hyper->name);
    if (pock_length(hyper->name) != length || memcmp(hyper->name, key, length) != 0) continue;
    if (p->options->hyper_given[i]) return bad("'%s' was given twice", hyper->name);
    p->options->hyper_given[i] = true;
    double number;
    const char* end = pock_parse_number(value, &number);
    if (!end || *end) return bad("'%s' needs a number, not '%s'", hyper->name, value);
    if (!(number >= hyper->low && (hyper->open ? number < hyper->high : number <= hyper->high)))
      return bad("'%s' must lie in [%g, %g%s, not %s", hyper->name, hyper->low, hyper->high,
                 hyper->open ? ")" : "]", value);
    p->options->hypers[i] = number;
    return true;
  }
  return bad("optimizer '%s' has no '%.*s'; it has:%.*s", program->optimizer, (int)length, key,
             (int)pock_text_size(&keys), buffer);
}

static bool set_count(const char* option, const char* value, uint64_t least, uint64_t most, uint64_t* out) {
  if (!pock_parse_whole(value, out)) return bad("%s needs a whole number, not '%s'", option, value);
  if (*out < least) return bad("%s must be at least %llu", option, (unsigned long long)least);
  if (*out > most) return bad("%s may be at most %llu", option, (unsigned long long)most);
  return true;
}

static bool set_file(const char* option, const char* value, const char** out) {
  if (!*value) return bad("%s: the file name is empty", option);
  *out = value;
  return true;
}

enum option {
  EPOCHS,
  STEPS,
  LR,
  SEED,
  THREADS,
  NO_SHUFFLE,
  POISON_ARENA,
  CHECKPOINT,
  CHECKPOINT_EVERY,
  RESUME,
  LOG,  // at most once
  DATA,
  LABELS,
  EVAL_DATA,
  EVAL_LABELS,
  OPT,
  UNKNOWN
};

static const char option_names[UNKNOWN][20] = {
    "--epochs",           "--steps",      "--lr",           "--seed",
    "--threads",          "--no-shuffle", "--poison-arena", "--checkpoint",
    "--checkpoint-every", "--resume",     "--log",          "--data",
    "--labels",           "--eval-data",  "--eval-labels",  "--opt"};

static bool set_option(struct parser* p, enum option option, const char* value) {
  struct pock_options* o = p->options;
  const char* name = option_names[option];
  uint64_t number;
  switch (option) {
    case EPOCHS:
      return set_count(name, value, 1, UINT64_MAX, &o->epochs);
    case STEPS:
      return set_count(name, value, 1, UINT64_MAX, &o->steps);
    case SEED:
      return o->seed_given = set_count(name, value, 0, UINT64_MAX, &o->seed);
    case LR:
      return set_hyper(p, "lr", 2, value);
    case NO_SHUFFLE:
      return o->no_shuffle = true;
    case POISON_ARENA:
      return o->poison_arena = true;
    case CHECKPOINT:
      return set_file(name, value, &o->checkpoint);
    case CHECKPOINT_EVERY:
      return set_count(name, value, 1, UINT64_MAX, &o->checkpoint_every);
    case RESUME:
      return set_file(name, value, &o->resume);
    case DATA:
      return set_path(p, name, POCK_DATA, o->data, value);
    case LABELS:
      return set_path(p, name, POCK_LABELS, o->data, value);
    case EVAL_DATA:
      o->evaluate = true;
      return set_path(p, name, POCK_DATA, o->eval_data, value);
    case EVAL_LABELS:
      o->evaluate = true;
      return set_path(p, name, POCK_LABELS, o->eval_data, value);
    case LOG:
      if (!pock_equal(value, "json")) return bad("--log knows json, not '%s'", value);
      return o->log_json = true;
    case THREADS:
      if (!set_count(name, value, 1, UINT64_MAX, &number)) return false;
      if (number > p->program->threads)
        return bad("--threads %s: this program was planned for at most %d; compile it with --threads %s",
                   value, (int)p->program->threads, value);
      o->threads = (uint32_t)number;
      return true;
    case OPT:
      for (size_t n = 0; value[n]; ++n)
        if (value[n] == '=') return set_hyper(p, value, n, value + n + 1);
      return bad("--opt needs KEY=VALUE, not '%s'", value);
    default:
      return false;
  }
}

static bool check_paths(const struct parser* p, const char** paths, const char* data, const char* labels) {
  for (uint32_t i = 0; i < p->program->input_count; ++i)
    if (!paths[i])
      return bad("no file for '%s'; give %s", p->program->inputs[i].name,
                 p->program->inputs[i].feed == POCK_DATA ? data : labels);
  return true;
}

static bool parse_train(struct parser* p, char** argv) {
  struct pock_options* o = p->options;
  for (; *argv; ++argv) {
    if (pock_equal(*argv, "--help")) {
      say_help(train_help);
      o->command = POCK_DONE;
      return true;
    }
    enum option option = EPOCHS;
    while (option < UNKNOWN && !pock_equal(*argv, option_names[option])) ++option;
    if (option == UNKNOWN) return bad("unknown option '%s'; see trainer train --help", *argv);
    if (option < DATA) {
      if (p->seen >> option & 1) return bad("%s was given twice", *argv);
      p->seen |= (uint32_t)1 << option;
    }
    bool flag = option == NO_SHUFFLE || option == POISON_ARENA;
    if (!flag && !argv[1]) return bad("%s needs a value", *argv);
    if (!set_option(p, option, flag ? "" : *++argv)) return false;
  }
  if (!check_paths(p, o->data, "--data", "--labels")) return false;
  if (o->evaluate && !check_paths(p, o->eval_data, "--eval-data", "--eval-labels")) return false;
  if (o->evaluate && p->program->sample_loss_offset == UINT64_MAX)
    return bad(
        "--eval-data: this model computes its own loss, over a whole batch, so there is none for single "
        "samples");
  if (o->epochs && o->steps) return bad("give --epochs or --steps, not both");
  if (o->checkpoint_every && !o->checkpoint) return bad("--checkpoint-every needs --checkpoint");
  if (!o->epochs && !o->steps) o->epochs = 1;
  return true;
}

bool pock_parse_options(const struct pock_program* program, char** argv, struct pock_options* options) {
  struct parser p = {program, options, 0};
  options->command = POCK_TRAIN;
  options->seed = program->seed;
  for (uint32_t i = 0; i < program->hyper_count; ++i) options->hypers[i] = program->hypers[i].value;
  const char* first = argv[0] && argv[1] ? argv[1] : "";
  if (pock_equal(first, "train")) return parse_train(&p, argv + 2);
  if (pock_equal(first, "info")) {
    options->command = POCK_INFO;
    if (!argv[2]) return true;
    options->info_json = pock_equal(argv[2], "--json") && !argv[3];
    if (options->info_json) return true;
    return bad("info knows --json, not '%s'", pock_equal(argv[2], "--json") ? argv[3] : argv[2]);
  }
  options->command = POCK_DONE;
  if (pock_equal(first, "--help")) return say_help(usage), say_help("\n"), say_help(train_help), true;
  if (pock_equal(first, "--version")) return say_help(program->compiler), say_help("\n"), true;
  if (*first) pock_say("trainer: unknown command '%s'\n", first);
  pock_say("%s", usage);
  return false;
}
