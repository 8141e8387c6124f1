// Any bytes as an executable, a library or a script: what `run`, `doctor` and the symbolizer read of them.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "report/names/elf/dynamic_names.h"
#include "report/names/elf/elf_symbols.h"
#include "report/names/elf/executable_kind.h"
#include "report/names/symbolize/elf_calls.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("fuzz", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) abort();
  const auto symbols = holdfast::ElfSymbols::Load(fd, "");
  if (symbols.ok()) {
    for (const uint64_t address : {uint64_t{0}, uint64_t{0x1000}, uint64_t{0x1139}, ~uint64_t{0}}) {
      (*symbols)->Find(address);
      (*symbols)->AddressOfOffset(address);
    }
  }
  if (const auto calls = holdfast::ElfCalls::Open(holdfast::FileDescriptor(dup(fd)), ""); calls != nullptr) {
    calls->OfCallBefore(0x1139);
    for (const auto& jump : calls->JumpsOutOf(0x1000, 0x1800)) calls->DefinitionsOf(jump.target.name);
  }
  holdfast::ReadDynamicNames(path).IgnoreError();
  holdfast::ReadExecutableKind(path);
  return 0;
}
