// A plugin of QEMU's that counts how often each block of instructions runs: at the end it writes to QEMU's log, a line a
// block, its address, its number of instructions and how often it ran, in hexadecimal. Debian has no header for this
// interface, so what is used of it stands here (API version 1).
#include <stddef.h>
#include <stdint.h>

struct qemu_plugin_tb;
enum { QEMU_PLUGIN_INLINE_ADD_U64 = 0 };
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb*);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb*);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*)(uint64_t id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb*, int operation, void* to, uint64_t by);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*)(uint64_t id, void*), void*);
void qemu_plugin_outs(const char*);
void* malloc(size_t);  // QEMU's C library

struct block {
  uint64_t address, instructions, runs;
  struct block* next;
};
static struct block* blocks;

static void translated(uint64_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  struct block* b = malloc(sizeof *b);
  if (!b) return;
  *b = (struct block){qemu_plugin_tb_vaddr(tb), qemu_plugin_tb_n_insns(tb), 0, blocks};
  blocks = b;
  qemu_plugin_register_vcpu_tb_exec_inline(tb, QEMU_PLUGIN_INLINE_ADD_U64, &b->runs, 1);
}

static char* hexadecimal(char* to, uint64_t n, char end) {
  for (int shift = 60; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[n >> shift & 15];
  *to++ = end;
  return to;
}

static void finished(uint64_t id, void* data) {
  (void)id, (void)data;
  for (struct block* b = blocks; b; b = b->next) {
    char line[3 * 17 + 1];
    *hexadecimal(hexadecimal(hexadecimal(line, b->address, ' '), b->instructions, ' '), b->runs, '\n') = 0;
    qemu_plugin_outs(line);
  }
}

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

__attribute__((visibility("default"))) int qemu_plugin_install(uint64_t id, const void* info, int argc,
                                                               char** argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, finished, NULL);
  return 0;
}
