// What the commands of the trainer program share. They speak of pock_program by its name, so that its tables become
// part of their code.
//
// pock_main() reads the command line into pock_options, prepares a pock_trainer and hands it to one command,
// which returns the exit status: 0 done, 1 something outside is wrong (data, checkpoint, disk, a loss that is no
// number), 2 wrong use, 130 and 143 stopped by SIGINT and SIGTERM after the step at hand.
#ifndef POCK_TRAINER_H
#define POCK_TRAINER_H

#include "runtime.h"

// ---- options.c
enum pock_command {
  POCK_TRAIN,
  POCK_EVAL,
  POCK_PREDICT,
  POCK_INFO,
  POCK_DONE,   // help was printed
  POCK_FAILED  // it could not be
};
struct pock_options {
  enum pock_command command;
  const char **data, **eval_data;  // a path for each input, or NULL
  const char** outputs;            // a path for each output, or NULL
  double* hypers;
  bool* hyper_given;
  uint64_t epochs, steps;               // one of them is 0
  uint64_t seed, threads;               // threads: 0 where not given
  uint64_t checkpoint_every, patience;  // 0 where not given
  double time_limit;                    // seconds; 0 where not given
  const char *checkpoint, *resume, *weights;
  const char* gradients;     // of programs that keep them
  const char* weights_file;  // of programs that have one: where it is, known after pock_open_weights()
  bool evaluate, seed_given, no_shuffle, poison_arena, log_json, info_json;
};
// False after printing what is wrong. The arrays are the caller's, zeroed and as long as the program's
// tables.
bool pock_parse_options(char** argv, struct pock_options* options);

struct pock_score {
  double loss;  // the mean over all samples
  uint64_t samples;
  double* accuracy;  // for each input; of labels that are class ids
};

struct pock_labels {
  uint64_t judged, correct;  // class ids, and those with the largest score
};

struct pock_trainer {
  struct pock_buffers memory;
  struct pock_threads threads;
  struct pock_progress progress;
  uint32_t thread_count;
  struct pock_dataset train, eval;  // `eval` and `predict` read what is in `train`
  uint64_t samples_a_step;
  struct pock_score score;     // of the last evaluation
  struct pock_mean* terms;     // of the evaluation going on, for each loss
  struct pock_labels* labels;  // likewise, for each input
  double deadline;             // by pock_seconds(); 0: none
  const char* best_path;       // FILE.best, with --patience and --checkpoint
  bool keep_previous;          // FILE.prev may be replaced: FILE is good
  uint32_t columns;            // of the terminal on standard error; 0: it is none
  struct pock_options options;
};

// ---- prepare.c: machine, data, memory, checkpoint, threads. False after printing what is wrong.
bool pock_prepare(struct pock_trainer* t);
// A zeroed table with an entry for each of `count` things. Without memory for it the program ends.
void* pock_table(uint64_t count, uint64_t bytes);

// ---- weights_file.c
// Points memory.weights at a program's weights file, which it checks whole. False after printing what is wrong.
bool pock_open_weights(struct pock_trainer* t);

// ---- gradients.c: of a program that keeps them, to options.gradients. False after saying why not.
bool pock_try_gradients_path(const struct pock_trainer* t);  // before hours of training
bool pock_write_gradients(const struct pock_trainer* t);     // of the step that was the last

// ---- train.c, evaluate.c, predict.c, info.c: the commands
int pock_train(struct pock_trainer* t);
int pock_eval(struct pock_trainer* t);
int pock_predict(struct pock_trainer* t);
bool pock_print_info(bool json);

// Whether a signal or the time limit says to stop.
bool pock_interrupted(const struct pock_trainer* t);
// Scores the data with the weights of the moment. False when interrupted; the score is then the one before.
bool pock_evaluate(struct pock_trainer* t, const struct pock_dataset* set);
// Puts the score: "loss 0.5, accuracy 0.9", or the inside of a JSON object. With several kinds of class ids,
// the names of their outputs stand behind "accuracy".
void pock_put_score(struct pock_text* out, const struct pock_trainer* t, bool json);
// Fills the arena with samples from `first` on for infer(); a batch that is not full repeats the last sample.
// The rows that are samples.
uint32_t pock_fill_batch(struct pock_trainer* t, const struct pock_dataset* set, uint64_t first);

void pock_put_json_number(struct pock_text* out, double value);  // null where JSON has no such number

#endif
