// Any bytes as a core file: headers, notes and memory, and what `holders` and `leaks --unreachable` make of them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "report/holders/core_address_space.h"
#include "report/holders/holder_scan.h"
#include "report/holders/unreachable.h"
#include "report/observe/table/process_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min<size_t>(size, 1 << 20));
  absl::StatusOr<std::unique_ptr<CoreAddressSpace>> image = CoreAddressSpace::Open(FileInMemory(bytes));
  if (!image.ok()) return 0;
  (void)(*image)->FirstPages();
  HeapBlocksInput input;
  input.may_guess = true;
  input.most_bytes = 64 << 20;
  input.outermost_end = [&](const TargetThread&) { return std::optional<uint64_t>((*image)->stack_start()); };
  ScanBudget budget{.most_bytes = 256 << 20};
  HolderScan scan(image->get(), {}, &budget);
  (void)scan.Run(input, true).ok();
  input.may_guess = false;
  (void)FindUnreachable(
      image->get(), [&] { return absl::StatusOr<HeapBlocksInput>(input); }, nullptr)
      .ok();
  return 0;
}
