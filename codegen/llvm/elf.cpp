#include "llvm/elf.h"

#include <elf.h>

#include <string_view>

namespace pock {
namespace {

template <class T>
void append(std::string& out, const T& record) {
  out.append(reinterpret_cast<const char*>(&record), sizeof record);
}

struct Elf64 {
  using Header = Elf64_Ehdr;
  using Section = Elf64_Shdr;
  using Symbol = Elf64_Sym;
  static constexpr unsigned char kClass = ELFCLASS64;
};
struct Elf32 {
  using Header = Elf32_Ehdr;
  using Section = Elf32_Shdr;
  using Symbol = Elf32_Sym;
  static constexpr unsigned char kClass = ELFCLASS32;
};

template <class Elf>
std::string object(const std::string& bytes, const std::string& symbol, const Target& target) {
  using Section = typename Elf::Section;
  using Symbol = typename Elf::Symbol;
  using Header = typename Elf::Header;
  using Word = decltype(Section::sh_offset);
  constexpr Word kPage = 4096;
  // Sections: none, the bytes, symbols, symbol names, section names, and a mark that no stack is executable.
  static constexpr char kText[] = "\0.rodata.weights\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack";
  constexpr std::string_view kNames(kText, sizeof kText);
  auto name = [&](const char* text) { return static_cast<uint32_t>(kNames.find(text)); };
  const std::string strings = '\0' + symbol + '\0';

  std::string out(kPage, '\0');
  out += bytes;
  out.resize((out.size() + 7) / 8 * 8);
  const Word symbols_at = static_cast<Word>(out.size());
  append(out, Symbol{});
  Symbol first{};
  first.st_name = 1;
  first.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);  // of either class
  first.st_other = STV_HIDDEN;
  first.st_shndx = 1;
  first.st_size = static_cast<decltype(first.st_size)>(bytes.size());
  append(out, first);
  const Word strings_at = static_cast<Word>(out.size());
  out += strings;
  const Word names_at = static_cast<Word>(out.size());
  out += kNames;
  out.resize((out.size() + 7) / 8 * 8);
  const Word sections_at = static_cast<Word>(out.size());
  const Section sections[] = {{},
                              {.sh_name = name(".rodata.weights"),
                               .sh_type = SHT_PROGBITS,
                               .sh_flags = SHF_ALLOC,
                               .sh_offset = kPage,
                               .sh_size = static_cast<Word>(bytes.size()),
                               .sh_addralign = target.bare() ? 64u : kPage},
                              {.sh_name = name(".symtab"),
                               .sh_type = SHT_SYMTAB,
                               .sh_offset = symbols_at,
                               .sh_size = 2 * sizeof(Symbol),
                               .sh_link = 3,
                               .sh_info = 1,
                               .sh_addralign = 8,
                               .sh_entsize = sizeof(Symbol)},
                              {.sh_name = name(".strtab"),
                               .sh_type = SHT_STRTAB,
                               .sh_offset = strings_at,
                               .sh_size = static_cast<Word>(strings.size()),
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
  for (const Section& s : sections) append(out, s);

  Header header{.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, Elf::kClass, ELFDATA2LSB, EV_CURRENT},
                .e_type = ET_REL,
                .e_machine = target.elf_machine,
                .e_version = EV_CURRENT,
                .e_shoff = sections_at,
                .e_flags = target.elf_flags,
                .e_ehsize = sizeof(Header),
                .e_shentsize = sizeof(Section),
                .e_shnum = std::size(sections),
                .e_shstrndx = 4};
  out.replace(0, sizeof header, reinterpret_cast<const char*>(&header), sizeof header);
  return out;
}

}  // namespace

std::string data_object(const std::string& bytes, const std::string& symbol, const Target& target) {
  return target.pointer_bytes == 8 ? object<Elf64>(bytes, symbol, target)
                                   : object<Elf32>(bytes, symbol, target);
}

}  // namespace pock
