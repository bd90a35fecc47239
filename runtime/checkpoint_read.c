// Reading checkpoints. The bytes may be anything: every read is bounds-checked, and nothing is loaded before
// everything was found good.
#include "runtime.h"

struct json {
  const uint8_t *at, *end;
};

static void skip_spaces(struct json* j) {
  while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t')) ++j->at;
}

static bool take(struct json* j, char c) {
  skip_spaces(j);
  if (j->at == j->end || *j->at != (uint8_t)c) return false;
  ++j->at;
  return true;
}

static bool hex4(struct json* j, uint32_t* value) {
  if (j->end - j->at < 4) return false;
  *value = 0;
  for (int i = 0; i < 4; ++i) {
    uint32_t c = *j->at++, letter = (c | 32) - 'a';
    if (c - '0' < 10)
      *value = *value << 4 | (c - '0');
    else if (letter < 6)
      *value = *value << 4 | (letter + 10);
    else
      return false;
  }
  return true;
}

static void put_utf8(struct pock_text* out, uint32_t c) {
  if (c < 0x80) {
    pock_put(out, (char)c);
    return;
  }
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  pock_put(out, (char)((0xF00 >> more & 0xFF) | c >> 6 * more));
  while (more-- > 0) pock_put(out, (char)(0x80 | (c >> 6 * more & 0x3F)));
}

// Decodes a string into `out`, from its start, with a null behind it.
static bool take_string(struct json* j, struct pock_text* out) {
  out->length = 0;
  if (!take(j, '"')) return false;
  for (;;) {
    if (j->at == j->end || *j->at < 0x20) return false;
    uint8_t c = *j->at++;
    if (c == '"') break;
    if (c != '\\') {
      pock_put(out, (char)c);
      continue;
    }
    if (j->at == j->end) return false;
    uint32_t code, low;
    c = *j->at++;
    if (c != 'u') {
      static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
      int i = 0;
      while (letters[i] && letters[i] != (char)c) ++i;
      if (!letters[i]) return false;
      pock_put(out, meanings[i]);
      continue;
    }
    if (!hex4(j, &code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {  // the first half of a pair
      if (j->end - j->at < 2 || j->at[0] != '\\' || j->at[1] != 'u') return false;
      j->at += 2;
      if (!hex4(j, &low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    put_utf8(out, code);
  }
  pock_string(out);
  return true;
}

static bool take_key(struct json* j, struct pock_text* out) { return take_string(j, out) && take(j, ':'); }

static bool take_whole(struct json* j, uint64_t* value) {
  skip_spaces(j);
  const char* end = pock_parse_digits((const char*)j->at, (const char*)j->end, value);
  if (end) j->at = (const uint8_t*)end;
  return end;
}

uint64_t pock_checkpoint_scratch(const struct pock_program* program) {
  uint64_t most = pock_length(program->scheme);
  for (uint32_t i = 0; i < program->tensor_count; ++i) {
    const struct pock_tensor* t = &program->tensors[i];
    uint64_t name = pock_length(t->name) + (t->slot ? sizeof "optimizer//" + pock_length(t->slot) : 0);
    if (name > most) most = name;
  }
  return most + 64;
}

// What the header said, beside the tensors' places.
struct header {
  bool same[POCK_FACTS];  // as in this program; for numbers: well-formed
  char texts[POCK_BATCH][80];
  uint64_t numbers[POCK_FACTS];
  float best_loss;
  char crc[12], own_crc[12];
  char wrong[256];  // about the first tensor that is not ours
};

static void keep(char* out, size_t room, const struct pock_text* value) {
  size_t n = pock_text_size(value);
  if (n >= room) n = room - 1;
  memcpy(out, value->data, n);
  out[n] = 0;
}

static bool take_metadata(struct json* j, const struct pock_program* program, struct pock_text* text,
                          struct header* h) {
  const char* wanted[POCK_BATCH] = {pock_checkpoint_format, program->model_hash, program->scheme,
                                    program->optimizer};
  if (!take(j, '{')) return false;
  if (take(j, '}')) return true;
  do {
    char key[24];
    if (!take_key(j, text)) return false;
    keep(key, sizeof key, text);
    if (!take_string(j, text)) return false;
    const char* value = text->data;
    if (pock_equal(key, "crc32")) keep(h->crc, sizeof h->crc, text);
    if (pock_equal(key, "header_crc32")) keep(h->own_crc, sizeof h->own_crc, text);
    for (int i = 0; i < POCK_FACTS; ++i) {
      if (!pock_equal(key, pock_fact_names[i])) continue;
      if (i < POCK_BATCH) {
        keep(h->texts[i], sizeof h->texts[i], text);
        h->same[i] = pock_equal(value, wanted[i]);
      } else if (i < POCK_BEST_LOSS) {
        h->same[i] = pock_parse_whole(value, &h->numbers[i]);
      } else {
        double loss;
        const char* end = pock_parse_number(value, &loss);
        h->same[i] = end && !*end;
        h->best_loss = (float)loss;
      }
    }
  } while (take(j, ','));
  return take(j, '}');
}

// Whether a checkpoint has to do with a tensor of the program.
static bool is_wanted(const struct pock_checkpoint* c, const struct pock_tensor* t) {
  return t->role != POCK_FROZEN && !(c->weights_only && t->role == POCK_OPTIMIZER);
}

static uint32_t find_tensor(const struct pock_program* program, const struct pock_checkpoint* c,
                            const char* name) {
  for (uint32_t i = 0; i < program->tensor_count; ++i) {
    const struct pock_tensor* t = &program->tensors[i];
    const char* rest = name;
    if (!is_wanted(c, t)) continue;
    if (t->role == POCK_OPTIMIZER) {
      if (!pock_starts(rest, "optimizer/") || !pock_starts(rest + 10, t->slot)) continue;
      rest += 10 + pock_length(t->slot);
      if (*rest++ != '/') continue;
    }
    if (pock_equal(rest, t->name)) return i;
  }
  return program->tensor_count;
}

static void say_wrong(struct header* h, const char* name, const char* what) {
  if (h->wrong[0]) return;
  struct pock_text out = {h->wrong, 0, sizeof h->wrong - 1};
  pock_format(&out, "tensor '%s' %s", name, what);
}

// One tensor's entry, its name already in `text`. False when it is not well-formed.
static bool take_tensor(struct json* j, const struct pock_program* program, struct pock_text* text,
                        struct pock_checkpoint* out, struct header* h) {
  uint32_t index = find_tensor(program, out, text->data);
  const struct pock_tensor* t = index < program->tensor_count ? &program->tensors[index] : NULL;
  bool fits = t && out->offsets[index] == UINT64_MAX, has[3] = {false, false, false};
  bool skipped = !t && out->weights_only && pock_starts(text->data, "optimizer/");
  if (!fits && !skipped)
    say_wrong(h, text->data, t ? "is there twice" : "is not one that this program changes");
  uint64_t begin = 0, end = 0;
  if (!take(j, '{')) return false;
  do {
    if (!take_key(j, text)) return false;
    if (pock_equal(text->data, "dtype")) {
      if (!take_string(j, text)) return false;
      has[0] = true;
      if (fits) fits = pock_equal(text->data, pock_safetensors_dtype(t->dtype));
    } else if (pock_equal(text->data, "shape")) {
      uint32_t rank = 0;
      if (!take(j, '[')) return false;
      if (!take(j, ']')) {
        do {
          uint64_t dim;
          if (!take_whole(j, &dim)) return false;
          if (fits) fits = rank < t->rank && (uint64_t)t->dims[rank] == dim;
          ++rank;
        } while (take(j, ','));
        if (!take(j, ']')) return false;
      }
      has[1] = true;
      if (fits) fits = rank == t->rank;
    } else if (pock_equal(text->data, "data_offsets")) {
      if (!take(j, '[') || !take_whole(j, &begin) || !take(j, ',') || !take_whole(j, &end) || !take(j, ']'))
        return false;
      has[2] = true;
    } else {
      return false;
    }
  } while (take(j, ','));
  if (!take(j, '}') || !has[0] || !has[1] || !has[2] || end < begin) return false;
  if (!fits) {
    if (t) say_wrong(h, t->name, "has another element type or shape");
    return true;
  }
  if (end - begin != t->bytes) return false;
  out->offsets[index] = begin;
  return true;
}

static bool take_header(struct json* j, const struct pock_program* program, struct pock_checkpoint* out,
                        struct header* h) {
  struct pock_text* text = &out->scratch;
  if (!take(j, '{')) return false;
  do {
    if (!take_key(j, text)) return false;
    bool good = pock_equal(text->data, "__metadata__") ? take_metadata(j, program, text, h)
                                                       : take_tensor(j, program, text, out, h);
    if (!good) return false;
  } while (take(j, ','));
  if (!take(j, '}')) return false;
  skip_spaces(j);
  return j->at == j->end;
}

static enum pock_verdict refuse(enum pock_verdict verdict, struct pock_text* why, const char* reason) {
  pock_format(why, "%s", reason);
  return verdict;
}

static bool crc_is(uint32_t crc, const char* text) {
  char digits[9] = {0};
  struct pock_text wanted = {digits, 0, 8};
  pock_format(&wanted, "%08x", crc);
  return pock_equal(digits, text);
}

static enum pock_verdict refuse_other(struct pock_text* why, const char* what, const char* there,
                                      const char* here) {
  size_t most = pock_length(here) < 80 ? pock_length(here) : 80;
  pock_format(
      why,
      "was made with %s %s, this program has %.*s; go on with a program that has the same, or start anew "
      "from its weights with --weights",
      what, there, (int)most, here);
  return POCK_FOREIGN;
}

// Whether it belongs to this program. The header is undamaged.
static enum pock_verdict compare(const struct pock_program* program, const struct pock_checkpoint* out,
                                 const struct header* h, struct pock_text* why) {
  if (!h->same[POCK_FORMAT])
    return refuse(POCK_FOREIGN, why, "is a checkpoint of a format that this program does not know");
  if (!h->same[POCK_MODEL_HASH]) {
    pock_format(why, "belongs to another model (hash %s, this program's is %s)", h->texts[POCK_MODEL_HASH],
                program->model_hash);
    return POCK_FOREIGN;
  }
  if (!out->weights_only) {
    char here[24] = {0}, there[24] = {0};
    struct pock_text number = {here, 0, sizeof here - 1};
    pock_format(&number, "%d", (int)program->batch);
    number = (struct pock_text){there, 0, sizeof there - 1};
    pock_format(&number, "%llu", (unsigned long long)h->numbers[POCK_BATCH]);
    if (!h->same[POCK_OPTIMIZER_NAME])
      return refuse_other(why, "optimizer", h->texts[POCK_OPTIMIZER_NAME], program->optimizer);
    if (!h->same[POCK_SCHEME])
      return refuse_other(why, "training of", h->texts[POCK_SCHEME], program->scheme);
    if (h->numbers[POCK_BATCH] != program->batch) return refuse_other(why, "a batch of", there, here);
  }
  if (h->numbers[POCK_POSITION] > h->numbers[POCK_SAMPLES] || h->numbers[POCK_SAMPLES] > INT64_MAX)
    return refuse(POCK_DAMAGED, why, "damaged: it claims to have used more samples than there were");
  if (!h->wrong[0]) return POCK_GOOD;
  pock_format(why, "does not fit: %s", h->wrong);
  return POCK_FOREIGN;
}

// Where each tensor is, and that all of them are there.
static enum pock_verdict place_tensors(const struct pock_program* program, struct pock_checkpoint* out,
                                       const struct header* h, uint64_t room, struct pock_text* why) {
  uint64_t used = 0;
  for (uint32_t i = 0; i < program->tensor_count; ++i) {
    const struct pock_tensor* t = &program->tensors[i];
    if (!is_wanted(out, t)) continue;
    if (out->offsets[i] == UINT64_MAX) {
      if (out->weights_only && !h->same[POCK_SCHEME]) continue;  // frozen there: as in the model file
      pock_format(why, "does not fit: tensor '%s%s%s' is missing", t->slot ? t->slot : "",
                  t->slot ? " of " : "", t->name);
      return POCK_FOREIGN;
    }
    if (out->offsets[i] > room || t->bytes > room - out->offsets[i])
      return refuse(POCK_DAMAGED, why, "truncated: the header names bytes past the end");
    used += t->bytes;
  }
  if (used != room && !out->weights_only)
    return refuse(POCK_DAMAGED, why, "damaged: bytes that belong to no tensor");
  return POCK_GOOD;
}

enum pock_verdict pock_check_checkpoint(const struct pock_program* program, const uint8_t* bytes,
                                        uint64_t length, struct pock_checkpoint* out, struct pock_text* why) {
  for (uint32_t i = 0; i < program->tensor_count; ++i) out->offsets[i] = UINT64_MAX;
  if (length == 0) return refuse(POCK_DAMAGED, why, "the file is empty");
  uint64_t size = 0;
  if (length >= 8) __builtin_memcpy(&size, bytes, 8);
  if (length < 8 || size > length - 8)
    return refuse(POCK_DAMAGED, why, "truncated inside the header, or not a safetensors file");
  struct header h = {.wrong = ""};
  struct json j = {bytes + 8, bytes + 8 + size};
  if (!take_header(&j, program, out, &h)) return refuse(POCK_DAMAGED, why, "damaged header");
  if (!h.own_crc[0] && !h.crc[0]) return refuse(POCK_FOREIGN, why, "is not a checkpoint of a pock trainer");
  if (!pock_starts_checkpoint(bytes, size + 8) || !crc_is(pock_header_crc(bytes, size + 8), h.own_crc))
    return refuse(POCK_DAMAGED, why, "damaged: the header does not match its checksum");
  enum pock_verdict verdict = compare(program, out, &h, why);
  if (verdict == POCK_GOOD) {
    out->data = bytes + 8 + size;
    verdict = place_tensors(program, out, &h, length - 8 - size, why);
  }
  if (verdict == POCK_GOOD && !crc_is(pock_crc32(0, out->data, length - 8 - size), h.crc))
    verdict = refuse(POCK_DAMAGED, why, "damaged: the data does not match its checksum");
  const uint64_t* n = h.numbers;
  out->progress = (struct pock_progress){.step = n[POCK_STEP],
                                         .epoch = n[POCK_EPOCH],
                                         .position = n[POCK_POSITION],
                                         .seed = n[POCK_SEED],
                                         .samples = n[POCK_SAMPLES],
                                         .best_loss = h.same[POCK_BEST_LOSS] ? h.best_loss : __builtin_inff(),
                                         .best_epoch = n[POCK_BEST_EPOCH],
                                         .best_step = n[POCK_BEST_STEP]};
  return verdict;
}

void pock_load_checkpoint(const struct pock_program* program, const struct pock_checkpoint* checkpoint,
                          const struct pock_buffers* memory) {
  for (uint32_t i = 0; i < program->tensor_count; ++i) {
    const struct pock_tensor* t = &program->tensors[i];
    if (checkpoint->offsets[i] == UINT64_MAX) continue;
    char* to = pock_saved_tensor(t, memory);
    const uint8_t* from = checkpoint->data + checkpoint->offsets[i];
    if (t->dtype == POCK_F32)
      pock_copy_floats((float*)to, from, t->bytes / 4);
    else
      memcpy(to, from, t->bytes);
  }
}
