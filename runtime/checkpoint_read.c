// Reading checkpoints.
//
// The checksum of the header is looked at first. Behind a right one stands what a trainer wrote, and it is read by
// writing the same again. Still the bytes may be anything, as anybody can make a checksum: every read is
// bounds-checked, and nothing is loaded before everything was found good.
#include "runtime.h"

// What is left of the header.
struct rest {
  const char *at, *end;
};

// A part of it, between quotes and still escaped.
struct piece {
  const char* at;
  size_t length;
};

static bool take_bytes(struct rest* r, const char* bytes, size_t n) {
  if ((size_t)(r->end - r->at) < n || memcmp(r->at, bytes, n) != 0) return false;
  r->at += n;
  return true;
}

static bool take(struct rest* r, const char* text) { return take_bytes(r, text, pock_length(text)); }

static bool take_string(struct rest* r, struct piece* piece) {
  if (!take(r, "\"")) return false;
  piece->at = r->at;
  for (bool escaped = false; r->at < r->end && (escaped || *r->at != '"'); ++r->at)
    escaped = !escaped && *r->at == '\\';
  piece->length = (size_t)(r->at - piece->at);
  return take(r, "\"");
}

static bool take_fact(struct rest* r, const char* name, struct piece* value) {
  return take(r, ",\"") && take(r, name) && take(r, "\":") && take_string(r, value);
}

static bool is_text(const struct piece* piece, const struct pock_text* text) {
  return piece->length == text->length && memcmp(piece->at, text->data, text->length) == 0;
}

static bool is_crc(const struct piece* piece, uint32_t crc) {
  char digits[8];
  struct pock_text text = {digits, 0, sizeof digits};
  pock_format(&text, "%08x", crc);
  return is_text(piece, &text);
}

uint64_t pock_checkpoint_scratch(const struct pock_program* program) {
  const char* texts[POCK_BATCH];
  pock_checkpoint_texts(program, texts);
  uint64_t most = 0;
  for (uint32_t i = 0; i < POCK_BATCH + program->tensor_count; ++i) {
    struct pock_text text = {0};  // measures
    if (i < POCK_BATCH)
      pock_put_escaped(&text, texts[i]);
    else
      pock_put_checkpoint_entry(&text, &program->tensors[i - POCK_BATCH], INT64_MAX);
    if (text.length > most) most = text.length;
  }
  return most;
}

// What the header said, in front of the tensors.
struct facts {
  struct piece crc, values[POCK_FACTS];
  bool same[POCK_BATCH];  // texts: as in this program
  uint64_t numbers[POCK_BEST_LOSS];
  float best_loss;
};

// False where it is not as this program would write it.
static bool take_facts(struct rest* r, const struct pock_program* program, struct pock_text* text,
                       struct facts* f) {
  const char* wanted[POCK_BATCH];
  pock_checkpoint_texts(program, wanted);
  struct piece model;
  if (!take_fact(r, "crc32", &f->crc) || !take_fact(r, "model", &model)) return false;
  int i = 0;
  for (struct piece* value = f->values; i < POCK_FACTS && take_fact(r, pock_fact_names[i], value);
       ++i, ++value) {
    const char* end = value->at + value->length;
    double loss;
    if (i < POCK_BATCH) {
      text->length = 0;
      pock_put_escaped(text, wanted[i]);
      f->same[i] = is_text(value, text);
    } else if (i < POCK_BEST_LOSS) {
      if (pock_parse_digits(value->at, end, &f->numbers[i]) != end) return false;
    } else {
      if (pock_parse_number(value->at, &loss) != end) return false;  // which a quote ends
      f->best_loss = (float)loss;
    }
  }
  return (i == POCK_FACTS || i == POCK_BEST_EPOCH) && take(r, "}");
}

static enum pock_verdict refuse(enum pock_verdict verdict, struct pock_text* why, const char* reason) {
  pock_format(why, "%s", reason);
  return verdict;
}

static enum pock_verdict refuse_other(struct pock_text* why, const char* what, const struct piece* there,
                                      const char* here, bool adapters) {
  const size_t most = 80, length = pock_length(here);
  pock_format(
      why, "was made with %s %.*s, this program has %.*s; use one with the same, or %s", what,
      (int)(there->length < most ? there->length : most), there->at, (int)(length < most ? length : most),
      here,
      adapters ? "pockc export it and compile that model" : "start anew from its weights with --weights");
  return POCK_FOREIGN;
}

// Whether it belongs to this program.
static enum pock_verdict compare(const struct pock_program* program, bool weights_only, const struct facts* f,
                                 struct pock_text* why) {
  if (!f->same[POCK_MODEL_HASH]) {
    const struct piece* hash = &f->values[POCK_MODEL_HASH];
    pock_format(why, "belongs to another model (hash %.*s, this program's is %s)",
                (int)(hash->length < 80 ? hash->length : 80), hash->at, program->model_hash);
    return POCK_FOREIGN;
  }
  const char* here[POCK_BATCH];
  pock_checkpoint_texts(program, here);
  static const char what[][12] = {"adapters", "training of", "optimizer"};
  for (int i = POCK_ADAPTERS; i < POCK_BATCH; ++i) {
    const bool adapters = i == POCK_ADAPTERS;
    // Weights go without all this, but where there are adapters in the checkpoint: JSON.
    if (!f->same[i] && (!weights_only || (adapters && *f->values[i].at == '{')))
      return refuse_other(why, what[i - POCK_ADAPTERS], &f->values[i], here[i], adapters);
  }
  if (!weights_only && f->numbers[POCK_BATCH] != program->batch) {
    char digits[24];
    struct pock_text batch = {digits, 0, sizeof digits};
    pock_format(&batch, "%d", (int)program->batch);
    return refuse_other(why, "a batch of", &f->values[POCK_BATCH], pock_string(&batch), false);
  }
  if (f->numbers[POCK_POSITION] > f->numbers[POCK_SAMPLES] || f->numbers[POCK_SAMPLES] > INT64_MAX)
    return refuse(POCK_DAMAGED, why, "damaged: more samples used than there were");
  return POCK_GOOD;
}

// Whether a checkpoint has to do with a tensor of the program.
static bool is_wanted(const struct pock_checkpoint* c, const struct pock_tensor* t) {
  return t->role != POCK_FROZEN && !(c->weights_only && t->role == POCK_OPTIMIZER);
}

// Where each tensor is, in the order of the program, which is the model file's.
static enum pock_verdict take_tensors(struct rest* r, const struct pock_program* program,
                                      struct pock_checkpoint* out, const struct facts* f, uint64_t room,
                                      struct pock_text* why) {
  // Of weights alone some may do: what was frozen there, and adapters where there were none, stay as they start.
  const bool some = out->weights_only && !(f->same[POCK_SCHEME] && f->same[POCK_ADAPTERS]);
  uint64_t at = 0;
  for (uint32_t i = 0; i < program->tensor_count; ++i) {
    const struct pock_tensor* t = &program->tensors[i];
    out->offsets[i] = UINT64_MAX;
    if (!is_wanted(out, t)) continue;
    out->scratch.length = 0;
    pock_put_checkpoint_entry(&out->scratch, t, at);
    if (take_bytes(r, out->scratch.data, out->scratch.length)) {
      out->offsets[i] = at;
      at += t->bytes;
    } else if (!some) {
      pock_format(why, "does not fit: tensor '%s%s%s' is missing", t->slot ? t->slot : "",
                  t->slot ? " of " : "", t->name);
      return POCK_FOREIGN;
    }
  }
  const bool more = out->weights_only && take(r, ",\"optimizer/");
  if (!more && !take(r, "}")) {
    struct piece name = {r->at, 0};
    if (take(r, ",")) take_string(r, &name);
    pock_format(why, "does not fit: tensor '%.*s' is frozen here; pockc export it and compile that model",
                (int)(name.length < 200 ? name.length : 200), name.at);
    return POCK_FOREIGN;
  }
  if (at > room) return refuse(POCK_DAMAGED, why, "truncated: the header names bytes past the end");
  if (at < room && !more) return refuse(POCK_DAMAGED, why, "damaged: bytes that belong to no tensor");
  return POCK_GOOD;
}

enum pock_verdict pock_check_checkpoint(const struct pock_program* program, const uint8_t* bytes,
                                        uint64_t length, struct pock_checkpoint* out, struct pock_text* why) {
  if (length == 0) return refuse(POCK_DAMAGED, why, "the file is empty");
  uint64_t size = 0;
  if (length >= 8) __builtin_memcpy(&size, bytes, 8);
  if (length < 8 || size > length - 8)
    return refuse(POCK_DAMAGED, why, "truncated inside the header, or not a safetensors file");
  size += 8;
  if (!pock_starts_checkpoint(bytes, size))
    return refuse(POCK_DAMAGED, why, "is not a checkpoint, or its start is damaged");
  const char* text = (const char*)bytes;
  const struct piece checksum = {text + POCK_CRC_AT, 8};
  if (!is_crc(&checksum, pock_header_crc(bytes, size)))
    return refuse(POCK_DAMAGED, why, "damaged: the header does not match its checksum");
  struct rest rest = {text + POCK_CRC_AT + 8, text + size};
  struct facts facts = {.best_loss = __builtin_inff()};
  if (!take(&rest, "\"") || !take_facts(&rest, program, &out->scratch, &facts) || !facts.same[POCK_FORMAT])
    return refuse(POCK_FOREIGN, why, "is a checkpoint of an unknown format");
  out->data = bytes + size;
  const uint64_t room = length - size, *n = facts.numbers;
  enum pock_verdict verdict = compare(program, out->weights_only, &facts, why);
  if (verdict == POCK_GOOD) verdict = take_tensors(&rest, program, out, &facts, room, why);
  if (verdict == POCK_GOOD && !is_crc(&facts.crc, pock_crc32(0, out->data, room)))
    verdict = refuse(POCK_DAMAGED, why, "damaged: the data does not match its checksum");
  out->progress = (struct pock_progress){.step = n[POCK_STEP],
                                         .epoch = n[POCK_EPOCH],
                                         .position = n[POCK_POSITION],
                                         .seed = n[POCK_SEED],
                                         .samples = n[POCK_SAMPLES],
                                         .best_loss = facts.best_loss,
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
    pock_store_tensor(t, to, checkpoint->data + checkpoint->offsets[i]);
  }
}
