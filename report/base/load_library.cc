#include "report/base/load_library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>

#include "absl/status/status.h"
#include "fmt/format.h"

// From the linker: the first byte of this program.
extern "C" __attribute__((visibility("hidden"))) const ElfW(Ehdr) __ehdr_start;

namespace holdfast {

absl::StatusOr<void*> LoadLibrary(std::initializer_list<const char*> names, const char* packages) {
  for (const char* name : names) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  const char* const usual = *names.begin();
  if (IsLinkedStatically()) {
    return absl::UnavailableError(fmt::format(
        "{} cannot be loaded: this tool is linked statically, for systems without glibc. Use the tool of another package.",
        usual));
  }
  return absl::UnavailableError(fmt::format("{} is not installed ({}).", usual, packages));
}

bool IsLinkedStatically() {
  const auto* const headers =
      reinterpret_cast<const ElfW(Phdr)*>(reinterpret_cast<const char*>(&__ehdr_start) + __ehdr_start.e_phoff);
  return std::none_of(headers, headers + __ehdr_start.e_phnum,
                      [](const ElfW(Phdr) & header) { return header.p_type == PT_INTERP; });
}

}  // namespace holdfast
