#include "runtime/link/ObjectLoader.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace torch_tile::runtime {
namespace {

constexpr size_t mostBytes = size_t(1) << 30; // within reach of 32-bit displacements
constexpr size_t stubBytes = 16, entryBytes = 8;

size_t alignedTo(size_t value, size_t alignment) { return (value + alignment - 1) / alignment * alignment; }

/// LLVM's call for a float rounded to bfloat16 on processors that have no instruction for it, which compilers' runtime
/// libraries of today's systems lack. The result is in the lower half of the register in which floats are returned.
float truncToBf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  bool isNan = (bits & 0x7fffffff) > 0x7f800000;
  bits = isNan ? (bits >> 16) | 0x40 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  std::memcpy(&x, &bits, sizeof bits);
  return x;
}

Status bad(std::string text) { return Status::invalidInput("load", "object code: " + std::move(text)); }

} // namespace

LoadedObject::~LoadedObject() {
  if (memory)
    munmap(memory, sizeBytes);
}

void *resolveInProcess(const char *symbol) {
  static void *torchCpu = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (torchCpu)
    if (void *address = dlsym(torchCpu, symbol))
      return address;
  if (void *address = dlsym(RTLD_DEFAULT, symbol))
    return address;
  if (std::strcmp(symbol, "__truncsfbf2") == 0)
    return reinterpret_cast<void *>(&truncToBf16);
  static void *math = dlopen("libm.so.6", RTLD_LAZY);
  return math ? dlsym(math, symbol) : nullptr;
}

bool canLoadObjects() {
#if defined(__x86_64__) && defined(__linux__)
  return true;
#else
  return false;
#endif
}

/// Sections in one mapping, by what may be done with them: code and stubs, constants and the table of addresses, data.
class ObjectLinker {
public:
  ObjectLinker(std::span<const uint8_t> object, ResolveFn resolve) : object(object), resolve(resolve) {}

  Status link(const std::string &name, std::shared_ptr<const LoadedObject> &loaded) {
    for (Status (ObjectLinker::*step)() :
         {&ObjectLinker::readSections, &ObjectLinker::readSymbols, &ObjectLinker::place, &ObjectLinker::relocateAll})
      if (Status status = (this->*step)(); !status.isOk())
        return status;
    for (size_t i = 0; i < symbols.size(); ++i)
      if (symbolName(symbols[i]) == name && addresses[i] && isDefined(symbols[i])) {
        result->function = reinterpret_cast<KernelFn>(addresses[i]);
        if (Status status = protect(); !status.isOk())
          return status;
        loaded = result;
        return Status::ok();
      }
    return bad("it has no function '" + name + "'");
  }

private:
  template <typename T> bool read(uint64_t offset, uint64_t count, std::vector<T> &items) const {
    if (offset > object.size() || count > (object.size() - offset) / sizeof(T))
      return false;
    items.resize(count);
    if (count > 0)
      std::memcpy(items.data(), object.data() + offset, count * sizeof(T));
    return true;
  }

  Status readSections() {
    std::vector<Elf64_Ehdr> headers;
    if (!read(0, 1, headers) || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0)
      return bad("it is no ELF file");
    const Elf64_Ehdr &header = headers[0];
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL)
      return bad("it is no relocatable file of 64 bits");
    if (header.e_machine != EM_X86_64)
      return Status::unsupported("load", "object code: machine " + std::to_string(header.e_machine) + " is unknown");
    if (header.e_shentsize != sizeof(Elf64_Shdr) || !read(header.e_shoff, header.e_shnum, sections))
      return bad("its sections lie outside of it");
    return Status::ok();
  }

  Status readSymbols() {
    for (const Elf64_Shdr &section : sections) {
      if (section.sh_type != SHT_SYMTAB)
        continue;
      if (!read(section.sh_offset, section.sh_size / sizeof(Elf64_Sym), symbols) || section.sh_link >= sections.size())
        return bad("its symbols lie outside of it");
      const Elf64_Shdr &texts = sections[section.sh_link];
      std::vector<char> bytes;
      if (!read(texts.sh_offset, texts.sh_size, bytes))
        return bad("its names lie outside of it");
      names.assign(bytes.data(), bytes.size());
      return Status::ok();
    }
    return bad("it has no symbols");
  }

  /// The name up to its end; names.c_str() ends with a zero byte whatever the file says.
  std::string symbolName(const Elf64_Sym &symbol) const {
    return symbol.st_name < names.size() ? std::string(names.c_str() + symbol.st_name) : std::string();
  }

  bool isDefined(const Elf64_Sym &symbol) const {
    return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < sections.size();
  }

  enum Group { Code, Constants, Data, NumGroups };
  static Group groupOf(const Elf64_Shdr &section) {
    return section.sh_flags & SHF_EXECINSTR ? Code : section.sh_flags & SHF_WRITE ? Data : Constants;
  }

  /// Gives sections and symbols their addresses and copies what the sections hold.
  Status place() {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    offsets.assign(sections.size(), 0);
    size_t end = 0;
    for (int group = Code; group < NumGroups; ++group) {
      groupBegins[group] = end;
      for (size_t i = 0; i < sections.size(); ++i) {
        const Elf64_Shdr &section = sections[i];
        if (!(section.sh_flags & SHF_ALLOC) || groupOf(section) != group)
          continue;
        size_t alignment = section.sh_addralign ? section.sh_addralign : 1;
        if (alignment > page || (alignment & (alignment - 1)) || section.sh_size > mostBytes || end > mostBytes)
          return bad("a section is too large");
        bool hasBytes = section.sh_type != SHT_NOBITS;
        if (hasBytes && (section.sh_offset > object.size() || section.sh_size > object.size() - section.sh_offset))
          return bad("a section lies outside of it");
        offsets[i] = alignedTo(end, alignment);
        end = offsets[i] + section.sh_size;
      }
      if (group == Code)
        end = (stubs = alignedTo(end, stubBytes)) + symbols.size() * stubBytes;
      if (group == Constants)
        end = (table = alignedTo(end, entryBytes)) + symbols.size() * entryBytes;
      end = alignedTo(end, page);
      groupEnds[group] = end;
    }
    if (end > mostBytes)
      return bad("it is too large");
    void *memory = mmap(nullptr, end, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return Status::internal("load", "no memory for code");
    result.reset(new LoadedObject);
    result->memory = memory;
    result->sizeBytes = end;
    base = static_cast<uint8_t *>(memory);
    for (size_t i = 0; i < sections.size(); ++i)
      if ((sections[i].sh_flags & SHF_ALLOC) && sections[i].sh_type != SHT_NOBITS && sections[i].sh_size > 0)
        std::memcpy(base + offsets[i], object.data() + sections[i].sh_offset, sections[i].sh_size);
    return placeSymbols();
  }

  /// A function elsewhere is reached by a jump beside the code, for it may be further away than a call reaches.
  Status placeSymbols() {
    addresses.assign(symbols.size(), 0);
    for (size_t i = 0; i < symbols.size(); ++i) {
      const Elf64_Sym &symbol = symbols[i];
      if (symbol.st_shndx == SHN_ABS) {
        addresses[i] = symbol.st_value;
      } else if (isDefined(symbol)) {
        const Elf64_Shdr &section = sections[symbol.st_shndx];
        if (!(section.sh_flags & SHF_ALLOC))
          continue; // names of debug information
        if (symbol.st_value > section.sh_size)
          return bad("a symbol lies outside of its section");
        addresses[i] = reinterpret_cast<uint64_t>(base) + offsets[symbol.st_shndx] + symbol.st_value;
      } else if (std::string name = symbolName(symbol); !name.empty()) {
        addresses[i] = reinterpret_cast<uint64_t>(resolve(name.c_str()));
        if (!addresses[i])
          return Status::unsupported("load", "function '" + name + "' that the code calls is nowhere in the process");
      }
      static constexpr uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0}; // jmp [rip + 0], followed by the address
      std::memcpy(base + stubs + i * stubBytes, jump, sizeof jump);
      std::memcpy(base + stubs + i * stubBytes + sizeof jump, &addresses[i], sizeof addresses[i]);
      std::memcpy(base + table + i * entryBytes, &addresses[i], sizeof addresses[i]);
    }
    return Status::ok();
  }

  Status relocateAll() {
    for (const Elf64_Shdr &section : sections) {
      if (section.sh_type == SHT_REL)
        return bad("it has relocations without addends");
      if (section.sh_type != SHT_RELA)
        continue;
      if (section.sh_info >= sections.size())
        return bad("relocations are for no section");
      if (!(sections[section.sh_info].sh_flags & SHF_ALLOC))
        continue;
      std::vector<Elf64_Rela> entries;
      if (!read(section.sh_offset, section.sh_size / sizeof(Elf64_Rela), entries))
        return bad("its relocations lie outside of it");
      for (const Elf64_Rela &entry : entries)
        if (Status status = relocate(section.sh_info, entry); !status.isOk())
          return status;
    }
    return Status::ok();
  }

  Status relocate(size_t section, const Elf64_Rela &entry) {
    size_t symbol = ELF64_R_SYM(entry.r_info);
    uint32_t type = ELF64_R_TYPE(entry.r_info);
    if (type == R_X86_64_NONE)
      return Status::ok();
    bool isLong = type == R_X86_64_64 || type == R_X86_64_PC64;
    size_t width = isLong ? 8 : 4;
    if (symbol >= symbols.size() || entry.r_offset > sections[section].sh_size ||
        width > sections[section].sh_size - entry.r_offset || sections[section].sh_type == SHT_NOBITS)
      return bad("a relocation lies outside of its section");
    uint8_t *place = base + offsets[section] + entry.r_offset;
    auto addend = static_cast<uint64_t>(entry.r_addend), here = reinterpret_cast<uint64_t>(place);
    uint64_t target = addresses[symbol], origin = reinterpret_cast<uint64_t>(base);
    switch (type) {
    case R_X86_64_64:
      break;
    case R_X86_64_PC64:
      target -= here;
      break;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      target = (isDefined(symbols[symbol]) ? target : origin + stubs + symbol * stubBytes) - here;
      break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      target = origin + table + symbol * entryBytes - here;
      break;
    default:
      return Status::unsupported("load", "object code: relocation " + std::to_string(type) + " is unknown");
    }
    target += addend;
    if (!isLong && static_cast<int64_t>(target) != static_cast<int32_t>(target))
      return bad("a relocation is out of reach");
    std::memcpy(place, &target, width);
    return Status::ok();
  }

  Status protect() {
    constexpr int rights[] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    for (int group = Code; group < NumGroups; ++group) {
      size_t size = groupEnds[group] - groupBegins[group];
      if (size > 0 && mprotect(base + groupBegins[group], size, rights[group]) != 0)
        return Status::internal("load", "the system does not let code run that was loaded");
    }
    return Status::ok();
  }

  std::span<const uint8_t> object;
  ResolveFn resolve;
  std::vector<Elf64_Shdr> sections;
  std::vector<Elf64_Sym> symbols;
  std::string names;
  std::vector<size_t> offsets;     // of sections in memory
  std::vector<uint64_t> addresses; // of symbols
  size_t stubs = 0, table = 0;     // one entry for each symbol
  size_t groupBegins[NumGroups] = {}, groupEnds[NumGroups] = {};
  uint8_t *base = nullptr;
  std::shared_ptr<LoadedObject> result;
};

Status loadObject(std::span<const uint8_t> object, const std::string &symbol, ResolveFn resolve,
                  std::shared_ptr<const LoadedObject> &loaded) {
  if (!canLoadObjects())
    return Status::unsupported("load", "object code is linked on x86-64 Linux alone");
  return ObjectLinker(object, resolve).link(symbol, loaded);
}

} // namespace torch_tile::runtime
