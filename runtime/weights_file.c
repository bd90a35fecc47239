// Weights that stand in a file beside the program: found, mapped, checked whole, and read from where they are.
#include "weights_file.h"

#include "trainer.h"

_Static_assert(sizeof POCK_WEIGHTS_START == POCK_START_BYTES + 1,
               "where pock_header_crc() leaves out its digits");

// `name` in the program's folder. 0, or why that is not known.
static int64_t put_beside(struct pock_text* path, const char* name) {
  int64_t length = pock_program_path(path->data, path->capacity);
  if (length < 0) return length;
  while (length && path->data[length - 1] != '/') --length;
  path->length = (size_t)length;
  pock_format(path, "%s", name);
  pock_string(path);
  return path->length < path->capacity ? 0 : -36 /* too long */;
}

static bool has_digits(const uint8_t* at, uint32_t crc) {
  char digits[8];
  struct pock_text text = {digits, 0, sizeof digits};
  pock_format(&text, "%08x", crc);
  return memcmp(at, digits, sizeof digits) == 0;
}

const char* pock_check_weights(const struct pock_program* p, const struct pock_file* file,
                               const char** weights) {
  enum { LEAST = POCK_WEIGHTS_HASH_AT + POCK_WEIGHTS_HASH_BYTES };
  uint64_t head, room = file->length < LEAST ? 0 : file->length - 8;
  if (room) __builtin_memcpy(&head, file->bytes, 8);
  if (!room || head > room) return "truncated inside the header, or not a safetensors file";
  if (pock_starts_checkpoint(file->bytes, file->length)) return "is a checkpoint, which --weights takes";
  if (memcmp(file->bytes + 8, POCK_WEIGHTS_START, POCK_START_BYTES)) return "is no weights file";
  const uint32_t crc = head < LEAST ? 0 : pock_header_crc(file->bytes, 8 + head);
  if (!has_digits(file->bytes + POCK_CRC_AT, crc)) return "damaged: the header does not match its checksum";
  if (memcmp(file->bytes + POCK_WEIGHTS_HASH_AT, p->model_hash, POCK_WEIGHTS_HASH_BYTES))
    return "belongs to another model";
  if (crc != p->weights_header_crc) return "belongs to another program of this model";
  room -= head;
  if (room < p->weights_bytes) return "truncated";
  *weights = (const char*)file->bytes + 8 + head;
  if (room > p->weights_bytes || pock_crc32(0, (const uint8_t*)*weights, room) != p->weights_crc)
    return "damaged: the data does not match its checksum";
  return NULL;
}

bool pock_open_weights(struct pock_trainer* t) {
  enum { ROOM = 4096 };
  const char** path = &t->options.weights_file;
  int64_t error = 0;
  if (!*path) {
    struct pock_text beside = {pock_table(ROOM, 1), 0, ROOM};
    error = put_beside(&beside, pock_program.weights_file);
    *path = error ? pock_program.weights_file : beside.data;
  }
  struct pock_file file;
  if (!error) error = pock_map_file(*path, &file);
  const char* wrong =
      error ? pock_reason(error) : pock_check_weights(&pock_program, &file, &t->memory.weights);
  return !wrong || pock_complain(
                       "weights file '%s' %s%s; it must be the one that pockc wrote with this program, "
                       "beside it or at --weights-file",
                       *path, error ? "cannot be opened: " : "", wrong);
}
