// The trainer program: its command line, and the commands.
#include "trainer.h"

int pock_main(int argc, char** argv) {
  (void)argc;  // argv ends with a null
  pock_flush_denormals();
  pock_hold_standard_streams();
  const struct pock_program* p = &pock_program;
  struct pock_trainer t = {0};
  t.options.data = pock_table(p->input_count, sizeof(char*));
  t.options.eval_data = pock_table(p->input_count, sizeof(char*));
  t.options.outputs = pock_table(p->output_count, sizeof(char*));
  t.options.hypers = pock_table(p->hyper_count, sizeof(double));
  t.options.hyper_given = pock_table(p->hyper_count, sizeof(bool));
  if (!pock_parse_options(argv, &t.options)) return 2;
  switch (t.options.command) {
    case POCK_TRAIN:
      return pock_prepare(&t) ? pock_train(&t) : 1;
    case POCK_EVAL:
      return pock_prepare(&t) ? pock_eval(&t) : 1;
    case POCK_PREDICT:
      return pock_prepare(&t) ? pock_predict(&t) : 1;
    case POCK_INFO:
      return pock_print_info(t.options.info_json) ? 0 : 1;
    case POCK_DONE:
      return 0;
    case POCK_FAILED:
      return 1;
  }
  return 1;
}
