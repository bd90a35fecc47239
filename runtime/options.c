// The command line. What cannot work is refused here, before any file is opened.
//
// An option is one row of the table below; the help of each command is printed from it.
#include "trainer.h"

enum kind { FLAG, COUNT, SEED, THREADS, DURATION, NAME, NUMBER, OPT, LOG, DATA, LABELS, OUTPUT };

struct option {
  const char *name, *value, *help;  // value: what follows it; NULL for a flag
  uint8_t commands;                 // a bit for each enum pock_command
  uint8_t kind;
  uint16_t field;  // of struct pock_options
};

enum { TRAIN = 1 << POCK_TRAIN, EVAL = 1 << POCK_EVAL, PREDICT = 1 << POCK_PREDICT, INFO = 1 << POCK_INFO };
#define FIELD(name) offsetof(struct pock_options, name)

static const struct option options[] = {
    {"--data", "[INPUT=]FILE", "samples, .npy or IDX; once for each model input", TRAIN | EVAL | PREDICT,
     DATA, FIELD(data)},
    {"--labels", "[OUTPUT=]FILE", "what they should give", TRAIN | EVAL, LABELS, FIELD(data)},
    {"--output", "[OUTPUT=]FILE",
     "write the model's output as .npy, a row for each sample;\n"
     "repeatable",
     PREDICT, OUTPUT, FIELD(outputs)},
    {"--weights", "CHECKPOINT", "take parameters and statistics from a checkpoint", TRAIN | EVAL | PREDICT,
     NAME, FIELD(weights)},
    {"--epochs", "N", "train until N epochs are done (default 1)", TRAIN, COUNT, FIELD(epochs)},
    {"--steps", "N", "or N steps, with those before --resume", TRAIN, COUNT, FIELD(steps)},
    {"--lr", "X", "learning rate; short for --opt lr=X", TRAIN, NUMBER, 0},
    {"--accumulate", "K", "batches a step, where compiled with --accumulate", TRAIN, NUMBER, 0},
    {"--opt", "KEY=VALUE", "another number of the optimizer; `info` lists them", TRAIN, OPT, 0},
    {"--seed", "S", "of the samples' order and randomness in the model", TRAIN, SEED, FIELD(seed)},
    {"--no-shuffle", NULL, "take the samples in the order of the file", TRAIN, FLAG, FIELD(no_shuffle)},
    {"--eval-data", "[INPUT=]FILE", "evaluate on these before and after each epoch", TRAIN, DATA,
     FIELD(eval_data)},
    {"--eval-labels", "[OUTPUT=]FILE", "what they should give", TRAIN, LABELS, FIELD(eval_data)},
    {"--patience", "N",
     "stop when N epochs brought no better evaluation loss; the\n"
     "best is kept in FILE.best beside --checkpoint FILE",
     TRAIN, COUNT, FIELD(patience)},
    {"--time-limit", "TIME", "stop after 90 (seconds), 10m or 2h, and save", TRAIN, DURATION,
     FIELD(time_limit)},
    {"--checkpoint", "FILE", "save at the end, and on SIGINT or SIGTERM", TRAIN, NAME, FIELD(checkpoint)},
    {"--checkpoint-every", "STEPS", "and every so many steps", TRAIN, COUNT, FIELD(checkpoint_every)},
    {"--resume", "FILE", "go on from a checkpoint; give the other options again", TRAIN, NAME, FIELD(resume)},
    {"--threads", "N", "at most as many as planned when compiled", TRAIN | EVAL | PREDICT, THREADS,
     FIELD(threads)},
    {"--poison-arena", NULL, "fill the arena with NaN before each step, for tests", TRAIN | EVAL | PREDICT,
     FLAG, FIELD(poison_arena)},
    {"--log", "json", "JSON on standard output: an object a line", TRAIN | EVAL, LOG, FIELD(log_json)},
    {"--json", NULL, "as JSON", INFO, FLAG, FIELD(info_json)},
};
enum { OPTIONS = sizeof options / sizeof *options };
// In programs that have such a file.
static const struct option weights_file = {
    "--weights-file",       "FILE", "where the file is that belongs beside the program",
    TRAIN | EVAL | PREDICT, NAME,   FIELD(weights_file)};

// In programs that keep them.
static const struct option gradients = {
    "--gradients", "FILE", "write the gradients of the last step, as safetensors",
    TRAIN,         NAME,   FIELD(gradients)};

// One after the other, then NULL.
static const struct option* option_at(uint32_t i) {
  if (i < OPTIONS) return &options[i];
  i -= OPTIONS;
  if (pock_program.weights_file && i-- == 0) return &weights_file;
  return pock_program.gradient_count && i == 0 ? &gradients : NULL;
}

static const struct {
  char name[8];
  const char *usage, *purpose;
} commands[] = {
    [POCK_TRAIN] = {"train", "--data [INPUT=]FILE --labels [OUTPUT=]FILE [options]", "Trains the model."},
    [POCK_EVAL] = {"eval", "--data [INPUT=]FILE --labels [OUTPUT=]FILE [options]",
                   "Prints the loss, and the accuracy where labels are class ids."},
    [POCK_PREDICT] = {"predict", "--data [INPUT=]FILE --output [OUTPUT=]FILE [options]",
                      "Writes what the model gives for each sample."},
    [POCK_INFO] = {"info", "[--json]", "Prints what was compiled in."},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void put_usage(struct pock_text* out) {
  for (int i = 0; i < COMMANDS; ++i)
    pock_format(out, "%s trainer %s %s\n", i ? "      " : "usage:", commands[i].name, commands[i].usage);
  pock_format(out, "       trainer COMMAND --help | --help | --version\n");
}

static void put_option(struct pock_text* out, const struct option* o) {
  size_t before = out->length;
  pock_format(out, "  %s %s", o->name, o->value ? o->value : "");
  while (out->length < before + 30) pock_put(out, ' ');
  for (const char* c = o->help; *c; ++c) {
    pock_put(out, *c);
    for (int i = 0; *c == '\n' && i < 30; ++i) pock_put(out, ' ');
  }
  pock_put(out, '\n');
}

static enum pock_command print_help(enum pock_command command) {
  enum { ROOM = 4096 };
  struct pock_text out = {pock_table(ROOM, 1), 0, ROOM};
  if (command == POCK_DONE) {
    put_usage(&out);
  } else {
    pock_format(&out, "usage: trainer %s %s\n\n%s\n\n", commands[command].name, commands[command].usage,
                commands[command].purpose);
    const struct option* o;
    for (uint32_t i = 0; (o = option_at(i)); ++i)
      if (o->commands >> command & 1) put_option(&out, o);
  }
  return pock_print("help", out.data, pock_text_size(&out)) ? POCK_DONE : POCK_FAILED;
}

struct parser {
  struct pock_options* options;
  uint32_t seen;  // one bit for each option that may be given once
};

// What NAME=FILE may name for an option, and NULL for what it may not.
static const char* name_at(uint32_t i, enum kind kind) {
  if (kind == OUTPUT) return pock_program.outputs[i].name;
  return pock_program.inputs[i].feed == (kind == DATA ? POCK_DATA : POCK_LABELS) ? pock_program.inputs[i].name
                                                                                 : NULL;
}

static bool set_path(const char* option, enum kind kind, const char** paths, const char* value) {
  uint32_t all = kind == OUTPUT ? pock_program.output_count : pock_program.input_count;
  uint32_t named = all, only = all, count = 0;
  char buffer[512];
  struct pock_text names = {buffer, 0, sizeof buffer};
  for (uint32_t i = 0; i < all; ++i) {
    const char* name = name_at(i, kind);
    if (!name) continue;
    ++count;
    only = i;
    pock_format(&names, " %s", name);
    if (pock_starts(value, name) && value[pock_length(name)] == '=') named = i;
  }
  if (count == 0) return pock_complain("%s: this model takes none", option);
  if (named < all) {
    value += pock_length(name_at(named, kind)) + 1;
  } else if (count == 1) {
    named = only;
  } else {
    return pock_complain("%s %s: say NAME=FILE, where NAME is one of:%s", option, value, pock_string(&names));
  }
  if (!*value) return pock_complain("%s: the file name is empty", option);
  if (paths[named]) return pock_complain("%s: '%s' was given twice", option, name_at(named, kind));
  paths[named] = value;
  return true;
}

static bool set_hyper(struct parser* p, const char* key, size_t length, const char* value) {
  const struct pock_program* program = &pock_program;
  char buffer[256];
  struct pock_text keys = {buffer, 0, sizeof buffer};
  for (uint32_t i = 0; i < program->hyper_count; ++i) {
    const struct pock_hyper* hyper = &program->hypers[i];
    pock_format(&keys, " %s", hyper->name);
    if (pock_length(hyper->name) != length || memcmp(hyper->name, key, length) != 0) continue;
    if (p->options->hyper_given[i]) return pock_complain("'%s' was given twice", hyper->name);
    p->options->hyper_given[i] = true;
    double number;
    const char* end = pock_parse_number(value, &number);
    if (!end || *end) return pock_complain("'%s' needs a number, not '%s'", hyper->name, value);
    if (hyper->whole && number != (double)(int64_t)number)
      return pock_complain("'%s' needs a whole number, not %s", hyper->name, value);
    if (!(number >= hyper->low && (hyper->open ? number < hyper->high : number <= hyper->high)))
      return pock_complain("'%s' must lie in [%g, %g%s, not %s", hyper->name, hyper->low, hyper->high,
                           hyper->open ? ")" : "]", value);
    p->options->hypers[i] = number;
    return true;
  }
  return pock_complain("optimizer '%s' was compiled without '%.*s'; there are:%s", program->optimizer,
                       (int)length, key, pock_string(&keys));
}

static bool set_count(const char* option, const char* value, uint64_t least, uint64_t* out) {
  if (!pock_parse_whole(value, out)) return pock_complain("%s needs a whole number, not '%s'", option, value);
  return *out >= least || pock_complain("%s must be at least %llu", option, (unsigned long long)least);
}

static bool set_duration(const char* option, const char* value, double* out) {
  const char* end = pock_parse_number(value, out);
  double unit = end && *end == 'm' ? 60 : end && *end == 'h' ? 3600 : 1;
  if (end && (*end == 's' || unit > 1)) ++end;
  if (!end || *end || !(*out > 0 && *out < 1e9))
    return pock_complain("%s needs a time such as 90, 10m or 2h, not '%s'", option, value);
  *out *= unit;
  return true;
}

static bool set_option(struct parser* p, const struct option* option, const char* value) {
  struct pock_options* o = p->options;
  void* field = (char*)o + option->field;
  switch ((enum kind)option->kind) {
    case FLAG:
      return *(bool*)field = true;
    case COUNT:
      return set_count(option->name, value, 1, field);
    case SEED:
      return o->seed_given = set_count(option->name, value, 0, field);
    case THREADS:
      if (!set_count(option->name, value, 1, field)) return false;
      return o->threads <= pock_program.threads ||
             pock_complain("--threads %s: compile it with --threads for more than %d", value,
                           (int)pock_program.threads);
    case DURATION:
      return set_duration(option->name, value, field);
    case NAME:
      *(const char**)field = value;
      return *value || pock_complain("%s: the file name is empty", option->name);
    case NUMBER:
      return set_hyper(p, option->name + 2, pock_length(option->name) - 2, value);
    case OPT:
      for (size_t n = 0; value[n]; ++n)
        if (value[n] == '=') return set_hyper(p, value, n, value + n + 1);
      return pock_complain("--opt needs KEY=VALUE, not '%s'", value);
    case LOG:
      *(bool*)field = pock_equal(value, "json");
      return o->log_json || pock_complain("--log knows json, not '%s'", value);
    case DATA:
    case LABELS:
    case OUTPUT:
      return set_path(option->name, option->kind, *(const char***)field, value);
  }
  return false;
}

static bool any_path(const char** paths, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i)
    if (paths[i]) return true;
  return false;
}

static bool check_paths(const char** paths, const char* prefix) {
  bool good = true;
  for (uint32_t i = 0; i < pock_program.input_count; ++i)
    if (!paths[i])
      good = pock_complain("no file for '%s'; give --%s%s", pock_program.inputs[i].name, prefix,
                           pock_program.inputs[i].feed == POCK_DATA ? "data" : "labels");
  return good;
}

static bool check_train(struct pock_options* o) {
  o->evaluate = any_path(o->eval_data, pock_program.input_count);
  if (!check_paths(o->data, "") || (o->evaluate && !check_paths(o->eval_data, "eval-"))) return false;
  if (o->epochs && o->steps) return pock_complain("give --epochs or --steps, not both");
  if (o->checkpoint_every && !o->checkpoint) return pock_complain("--checkpoint-every needs --checkpoint");
  if (o->patience && !o->evaluate) return pock_complain("--patience needs --eval-data");
  if (o->resume && o->weights)
    return pock_complain("give --resume to go on, or --weights to start; not both");
  if (!o->epochs && !o->steps) o->epochs = 1;
  return true;
}

static bool check_predict(const struct pock_options* o) {
  const struct pock_program* program = &pock_program;
  if (!any_path(o->outputs, program->output_count)) return pock_complain("nothing to write; give --output");
  uint64_t wanted = 0;
  for (uint32_t i = 0; i < program->output_count; ++i)
    if (o->outputs[i]) wanted |= (uint64_t)1 << (i < 63 ? i : 63);
  bool good = true;
  for (uint32_t i = 0; i < program->input_count; ++i)
    if (!o->data[i] && (program->inputs[i].reaches & wanted))
      good = pock_complain("no file for '%s'; give --data", program->inputs[i].name);
  if (good && !any_path(o->data, program->input_count)) return pock_complain("how many samples? give --data");
  return good;
}

static bool parse_command(struct parser* p, char** argv, enum pock_command command) {
  for (; *argv; ++argv) {
    if (pock_equal(*argv, "--help")) {
      p->options->command = print_help(command);
      return true;
    }
    uint32_t i = 0;
    const struct option* o;
    while ((o = option_at(i)) && !(o->commands >> command & 1 && pock_equal(*argv, o->name))) ++i;
    if (!o) return pock_complain("unknown option '%s'; see trainer %s --help", *argv, commands[command].name);
    if (o->kind < NUMBER || o->kind == LOG) {
      if (p->seen >> i & 1) return pock_complain("%s was given twice", *argv);
      p->seen |= (uint32_t)1 << i;
    }
    if (o->value && !argv[1]) return pock_complain("%s needs a value", *argv);
    if (!set_option(p, o, o->value ? *++argv : "")) return false;
  }
  switch (command) {
    case POCK_TRAIN:
      return check_train(p->options);
    case POCK_EVAL:
      return check_paths(p->options->data, "");
    case POCK_PREDICT:
      return check_predict(p->options);
    default:
      return true;
  }
}

POCK_APART bool pock_parse_options(char** argv, struct pock_options* out) {
  struct parser p = {out, 0};
  const struct pock_program* program = &pock_program;
  out->seed = program->seed;
  for (uint32_t i = 0; i < program->hyper_count; ++i) out->hypers[i] = program->hypers[i].value;
  const char* first = argv[0] && argv[1] ? argv[1] : "";
  for (int i = 0; i < COMMANDS; ++i)
    if (pock_equal(first, commands[i].name)) {
      out->command = (enum pock_command)i;
      return parse_command(&p, argv + 2, out->command);
    }
  if (pock_equal(first, "--help")) {
    out->command = print_help(POCK_DONE);
    return true;
  }
  char buffer[1024];
  struct pock_text text = {buffer, 0, sizeof buffer};
  if (pock_equal(first, "--version")) {
    pock_format(&text, "%s\n", program->compiler);
    out->command = pock_print("version", buffer, pock_text_size(&text)) ? POCK_DONE : POCK_FAILED;
    return true;
  }
  if (*first) pock_complain("unknown command '%s'", first);
  put_usage(&text);
  pock_write(2, buffer, pock_text_size(&text));
  return false;
}
