// Any bytes as the memory of a process: what `holders` and `leaks --unreachable` make of chunks, caches, pointers,
// stacks and vtables. The first byte says which parts there are, the rest is shared out among them.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "report/holders/holder_scan.h"
#include "report/holders/kernel_words.h"
#include "report/holders/library_memory.h"
#include "report/holders/never_woken.h"
#include "report/holders/unreachable.h"
#include "tests/support/made_address_space.h"

namespace {

using holdfast::testing::MadeAddressSpace;

constexpr uint64_t kHeapStart = 0x10000000, kArenaStart = 0x7f0000000000, kFileStart = 0x7f0010000000,
                   kLibcStart = 0x7f0018000000, kLibcBytes = 0x2000, kStackStart = 0x7f0020000000;
constexpr uint64_t kKey = 0x1234567890abcdef;  // marks cached chunks

MadeAddressSpace AddressSpaceOf(std::string_view bytes) {
  MadeAddressSpace space;
  const uint8_t parts = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  bytes.remove_prefix(std::min<size_t>(bytes.size(), 1));
  const size_t part = bytes.size() / 4;
  const auto whole_pages = [](std::string_view of) {
    std::string padded(of);
    padded.resize((padded.size() + 4095) / 4096 * 4096);
    return padded;
  };
  const auto add = [&](uint64_t start, const char* name, std::string_view of) {
    std::string content = whole_pages(of);
    const uint64_t end = start + std::max<uint64_t>(content.size(), 4096) + (parts & 16 ? 1 << 20 : 0);
    space.Add(start, end, name, std::move(content));
  };
  if (parts & 1) add(kHeapStart, "[heap]", bytes.substr(0, part));
  if (parts & 2) add(kArenaStart, "", bytes.substr(part, part));
  if (parts & 4) add(kFileStart, parts & 32 ? "/lib/libc.so.6" : "/bin/program", bytes.substr(2 * part, part));
  // Without a main arena nothing is glibc's.
  if (parts & 128) {
    space.Add(kLibcStart, kLibcStart + kLibcBytes, "/lib/libc.so.6", std::string(kLibcBytes, '\0'));
    space.AddMainArena(kLibcStart + 0x400, kHeapStart + part / 2 / 16 * 16);
    space.SetWord(kLibcStart + 0x1800, kKey);
  }
  if (parts & 8) add(kStackStart, parts & 32 ? "[stack]" : "", bytes.substr(3 * part));
  holdfast::TargetThread thread{
      .id = 1, .inner_id = 1, .number = 1, .name = "t", .sp = kStackStart + 256, .registers = {}};
  thread.registers.assign(3, kHeapStart + 0x20);
  if (parts & 64) space.AddThread(thread);
  return space;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace holdfast;
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min<size_t>(size, 1 << 20));
  MadeAddressSpace space = AddressSpaceOf(bytes);
  HeapBlocksInput input;
  input.may_guess = true;
  input.most_bytes = 64 << 20;
  const LiveBlock recorded[] = {{kArenaStart + 0x40, 100, 1}, {kArenaStart + 0x100, 1 << 20, 512}};
  if (size % 2 == 1) input.recorded = recorded;
  input.outermost_end = [](const TargetThread& thread) { return std::optional<uint64_t>(thread.sp + 512); };
  ScanBudget budget{.most_bytes = 256 << 20};
  HolderScan scan(&space, {}, &budget);
  if (scan.Run(input, true).ok()) {
    for (const uint64_t address : {kHeapStart + 0x10, kHeapStart + 0x35, kArenaStart + 0x40, kArenaStart + 0x900})
      scan.PathTo(address);
    BuildHolderTree(
        &scan, [](const BlockMap::Block& block) { return block.range.end - block.range.start; },
        [](uint64_t bytes_of_block) { return std::to_string(bytes_of_block); }, {}, &budget);
  }
  input.may_guess = false;
  (void)FindUnreachable(
      &space, [&] { return absl::StatusOr<HeapBlocksInput>(input); }, nullptr)
      .ok();
  for (const uint64_t address : {kHeapStart + 0x20, kHeapStart + 0x400, kArenaStart + 0x50, kStackStart + 0x180}) {
    if (!space.threads().empty()) (void)FindWakeChances(&space, input, {{0, address}}).ok();
  }
  (void)FindLibraryMemory(&space);
  std::vector<uint64_t> words;
  AddEpollData(bytes, &words);
  AddTimerValues(bytes, &words);
  return 0;
}
