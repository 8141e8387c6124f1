// Any bytes as an ELF file with debug information: what the symbolizer reads of it for source lines and inlined
// functions. Seeds are small programs that the build compiles, one for each version of DWARF and each layout.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "report/names/dwarf/info.h"
#include "report/names/elf/debug_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::FileDescriptor fd(memfd_create("fuzz", MFD_CLOEXEC));
  if (!fd.valid() || pwrite(fd.get(), data, size, 0) != static_cast<ssize_t>(size)) abort();
  const auto file = holdfast::OpenDebugFile(std::move(fd), 1 << 20);
  if (!file.ok()) return 0;
  const auto sections = holdfast::SectionsOf(*file);
  if (!sections.ok()) return 0;
  // The seeds' code begins at 0x1000.
  std::vector<uint64_t> addresses = {0};
  for (uint64_t address = 0x1000; address < 0x1200; address += 5) addresses.push_back(address);
  addresses.push_back(~uint64_t{0});
  holdfast::dwarf::DebugInfo info(
      *sections, [](const auto&, const auto&) { return absl::NotFoundError(""); },
      [](uint64_t address) { return address < 0x100000; });
  if (!info.Load(addresses, holdfast::Deadline::Never())) abort();  // nothing but time may stop it
  for (const uint64_t address : addresses) {
    for (const auto& frame : info.FramesAt(address)) {
      (void)info.Text(frame.function);
      (void)info.Text(frame.file);
    }
  }
  return 0;
}
