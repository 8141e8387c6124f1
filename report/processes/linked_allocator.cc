#include "report/processes/linked_allocator.h"

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/elf/allocator_text.h"

namespace holdfast {

LinkedAllocator LinkedAllocatorOf(const std::string& path, const DynamicNames& names) {
  LinkedAllocator allocator;
  const std::string by_text = AllocatorByText(path);
  if (names.defines.contains("malloc") && names.defines.contains("free")) {
    allocator.is_there = allocator.replaces_malloc = true;
    allocator.text = fmt::format(
        "{} defines malloc and free itself ({} is linked into it): its calls do not pass through the library, so there "
        "is no heap profile of what it allocates; link the allocator as a shared library",
        BaseName(path), by_text.empty() ? "an allocator" : by_text);
  } else if (!names.own_allocator.empty()) {
    allocator.is_there = true;
    allocator.text = fmt::format("{} has an allocator of its own ({}): what it takes from that is not seen",
                                 BaseName(path), names.own_allocator);
  } else if (!by_text.empty()) {
    allocator.is_there = true;
    allocator.text = fmt::format(
        "{} has {} linked in, without symbols: what it takes from that is not seen; install its debug file{}",
        BaseName(path), by_text,
        names.build_id.empty() ? ", or keep .symtab" : fmt::format(" (build id {})", names.build_id));
  }
  return allocator;
}

}  // namespace holdfast
