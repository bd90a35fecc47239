#include "llvm/elf.h"

#include <elf.h>

#include <string_view>

namespace pock {
namespace {

template <class T>
void append(std::string& out, const T& record) {
  out.append(reinterpret_cast<const char*>(&record), sizeof record);
}

}  // namespace

std::string data_object(const std::string& bytes, const std::string& symbol, uint16_t machine) {
  constexpr uint64_t kPage = 4096;
  // Sections: none, the bytes, symbols, symbol names, section names, and a mark that no stack is executable.
  static constexpr char kText[] = "\0.rodata.weights\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack";
  constexpr std::string_view kNames(kText, sizeof kText);
  auto name = [&](const char* text) { return static_cast<uint32_t>(kNames.find(text)); };
  const std::string strings = '\0' + symbol + '\0';

  std::string out(kPage, '\0');
  out += bytes;
  out.resize((out.size() + 7) / 8 * 8);
  const uint64_t symbols_at = out.size();
  append(out, Elf64_Sym{});
  append(out, Elf64_Sym{.st_name = 1,
                        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                        .st_other = STV_HIDDEN,
                        .st_shndx = 1,
                        .st_value = 0,
                        .st_size = bytes.size()});
  const uint64_t strings_at = out.size();
  out += strings;
  const uint64_t names_at = out.size();
  out += kNames;
  out.resize((out.size() + 7) / 8 * 8);
  const uint64_t sections_at = out.size();
  const Elf64_Shdr sections[] = {{},
                                 {.sh_name = name(".rodata.weights"),
                                  .sh_type = SHT_PROGBITS,
                                  .sh_flags = SHF_ALLOC,
                                  .sh_offset = kPage,
                                  .sh_size = bytes.size(),
                                  .sh_addralign = kPage},
                                 {.sh_name = name(".symtab"),
                                  .sh_type = SHT_SYMTAB,
                                  .sh_offset = symbols_at,
                                  .sh_size = 2 * sizeof(Elf64_Sym),
                                  .sh_link = 3,
                                  .sh_info = 1,
                                  .sh_addralign = 8,
                                  .sh_entsize = sizeof(Elf64_Sym)},
                                 {.sh_name = name(".strtab"),
                                  .sh_type = SHT_STRTAB,
                                  .sh_offset = strings_at,
                                  .sh_size = strings.size(),
                                  .sh_addralign = 1},
                                 {.sh_name = name(".shstrtab"),
                                  .sh_type = SHT_STRTAB,
                                  .sh_offset = names_at,
                                  .sh_size = kNames.size(),
                                  .sh_addralign = 1},
                                 {.sh_name = name(".note.GNU-stack"),
                                  .sh_type = SHT_PROGBITS,
                                  .sh_offset = names_at,
                                  .sh_addralign = 1}};
  for (const Elf64_Shdr& s : sections) append(out, s);

  Elf64_Ehdr header{.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                    .e_type = ET_REL,
                    .e_machine = machine,
                    .e_version = EV_CURRENT,
                    .e_shoff = sections_at,
                    .e_ehsize = sizeof(Elf64_Ehdr),
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = std::size(sections),
                    .e_shstrndx = 4};
  out.replace(0, sizeof header, reinterpret_cast<const char*>(&header), sizeof header);
  return out;
}

}  // namespace pock
