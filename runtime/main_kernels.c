// Runs each kernel once and prints a number for each, made of the bits of its results.
#include "kernels.h"
#include "runtime.h"

static uint32_t run(const struct pock_kernel_row* row, char* memory, void** arguments) {
  char* at = memory;
  for (uint32_t i = 0; i < row->argument_count; ++i) {
    arguments[i] = at;
    pock_fill_argument(at, &row->arguments[i]);
    at += row->arguments[i].bytes;
  }
  for (uint32_t i = 0; i < row->phase_count; ++i)
    row->phases[i].function(arguments, 0, row->phases[i].iterations);
  uint32_t digest = 0;
  for (uint32_t i = 0; i < row->argument_count; ++i)
    if (row->arguments[i].result) digest = pock_digest_argument(arguments[i], &row->arguments[i], digest);
  return digest;
}

int pock_main(int argc, char** argv) {
  (void)argc, (void)argv;
  const struct pock_kernel_table* table = &pock_kernel_table;
  char* memory = pock_reserve(table->bytes);
  void** arguments = pock_reserve(table->argument_count * sizeof *arguments);
  if (!memory || !arguments) {
    pock_complain("there is no memory for a kernel's arguments");
    return 1;
  }
  pock_flush_denormals();
  for (uint64_t i = 0; i < table->row_count; ++i) {
    char line[16];
    struct pock_text text = {line, 0, sizeof line};
    pock_format(&text, "%08x\n", run(&table->rows[i], memory, arguments));
    if (!pock_print("result", line, text.length)) return 1;
  }
  return 0;
}
