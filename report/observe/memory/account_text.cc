#include "report/observe/memory/account_text.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "fmt/format.h"
#include "report/base/json_text.h"
#include "report/base/printable.h"
#include "report/base/value_units.h"

namespace holdfast {
namespace {

constexpr size_t kFilesShown = 3;
// Free memory is reported if there is at least this much, and at least 1/kNotable of the resident memory.
constexpr int64_t kMinFree = 1 << 20;
constexpr uint64_t kNotable = 20;
constexpr uint64_t kFewArenas = 2;

std::string Size(double bytes) { return FormatSize(std::llround(bytes)); }
std::string WithError(const Estimate& estimate) {
  const int64_t error = estimate.error();
  return error == 0 ? Size(estimate.value) : fmt::format("{} ± {}", Size(estimate.value), FormatSize(error));
}
std::string Counted(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// Returns what the allocator has resident beyond live blocks. Not negative: older files may have an overestimate.
Estimate BeyondLive(const MemoryAccount& account) {
  return {.value = std::max(0.0, static_cast<double>(account.allocator) - account.live.value),
          .variance = account.beyond_variance + (account.is_counted ? account.rounding.variance : 0)};
}

// The same without the rounding of live blocks.
Estimate Beyond(const MemoryAccount& account) {
  return {.value = std::max(0.0, BeyondLive(account).value - account.rounding.value),
          .variance = account.beyond_variance + (account.is_counted ? 0 : account.rounding.variance)};
}

std::string RoundingText(const MemoryAccount& account) {
  return account.allocator_name == "jemalloc" ? "unused parts of live blocks: jemalloc's size classes"
                                              : "unused parts of live blocks: headers, alignment";
}

Estimate Rest(const MemoryAccount& account) {
  return {.value = static_cast<double>(account.rest), .variance = account.rest_variance};
}

// "+1.50MiB", "-12KiB"; "=" if nothing changed.
std::string ChangeText(double now, double before) {
  const int64_t grown = std::llround(now) - std::llround(before);
  if (grown == 0) return "=";
  return grown > 0 ? "+" + FormatSize(grown) : "-" + FormatSize(-grown);
}

std::string Where(const MemoryAccount& account) {
  const std::string heaps = Counted(account.heaps, "mapping");
  const std::string arenas =
      account.arenas == 0 ? heaps : fmt::format("{}, {} of secondary arenas", heaps, account.arenas);
  return account.allocator_name.empty() ? arenas : fmt::format("{}: {}", account.allocator_name, arenas);
}

std::string LargestFiles(const MemoryAccount& account) {
  std::string text;
  for (size_t i = 0; i < account.by_file.size() && i < kFilesShown; ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", Printable(account.by_file[i].first),
                        FormatSize(static_cast<int64_t>(account.by_file[i].second)));
  }
  return text + (account.by_file.size() > kFilesShown ? ", …" : "");
}

}  // namespace

std::vector<AccountLine> AccountLines(const MemoryAccount& account) {
  const auto counted = [](uint64_t bytes) { return Estimate{.value = static_cast<double>(bytes), .variance = 0}; };
  std::vector<AccountLine> lines;
  if (account.has_pages) {
    lines.push_back({account.live, "live blocks", "allocated and not freed"});
    lines.push_back({account.rounding, "rounding", RoundingText(account)});
    lines.push_back({Beyond(account), "allocator beyond",
                     (account.may_hold_blocks() ? "free, or blocks that are not recorded; " : "") + Where(account)});
  } else {
    lines.push_back({counted(account.allocator), "of the allocator", Where(account)});
  }
  lines.push_back({counted(account.files), "files", LargestFiles(account)});
  lines.push_back({counted(account.shared), "shared memory", ""});
  lines.push_back({counted(account.stacks), "stacks", Counted(account.threads, "thread") + " found"});
  lines.push_back({counted(account.own), "Holdfast's own", "table and library"});
  lines.push_back({counted(account.mapped), "own mappings", "mapped by the program itself: holdfast top --kind map"});
  lines.push_back({Rest(account), "the rest", "mapped by an unknown caller, without sampled blocks"});
  return lines;
}

std::string AccountText(const MemoryAccount& account, const std::string& process, const MemoryAccount* first) {
  const auto total = static_cast<int64_t>(account.total);
  std::string text = fmt::format(
      "{}: {} resident{}\n\n", Printable(process), FormatSize(total),
      account.swapped == 0 ? "" : fmt::format(", {} swapped", FormatSize(static_cast<int64_t>(account.swapped))));
  const std::vector<AccountLine> lines = AccountLines(account);
  // Compare only if both accounts had the page table or both had not; otherwise their lines differ in meaning.
  const std::vector<AccountLine> before =
      first != nullptr && first->has_pages == account.has_pages ? AccountLines(*first) : std::vector<AccountLine>();
  if (!before.empty()) {
    text.pop_back();
    text += fmt::format(
        "  {} since the first snapshot; the fourth column is the change of each line\n"
        "\n",
        ChangeText(static_cast<double>(account.total), static_cast<double>(first->total)));
  }
  size_t width = 0;
  for (const AccountLine& line : lines) width = std::max(width, line.what.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const AccountLine& line = lines[i];
    const double earlier = before.empty() ? 0 : before[i].bytes.value;
    if (line.bytes.value < 1 && earlier < 1 && line.what != "live blocks") continue;
    const int64_t error = line.bytes.error();
    text += fmt::format("  {:>10} {:>7}  {:>12}  ", Size(line.bytes.value),
                        FormatPercent(std::llround(line.bytes.value), total),
                        error == 0 ? "" : fmt::format("± {}", FormatSize(error)));
    if (!before.empty()) text += fmt::format("{:>11}  ", ChangeText(line.bytes.value, earlier));
    text += fmt::format("{:<{}}  {}", line.what, width, line.more);
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  text += fmt::format("\n  in use by the heap profile: {}{}", WithError(account.in_use),
                      account.sampled == 0 ? ", because no live block was sampled" : "");
  if (account.has_pages) {
    const double untouched = account.in_use.value - account.in_use_resident.value - account.in_use_swapped.value;
    if (untouched >= 1) text += fmt::format("; {} of it never touched", Size(untouched));
    if (account.in_use_swapped.value >= 1) text += fmt::format("; {} swapped", WithError(account.in_use_swapped));
  }
  text += "\n";
  if (account.parent != 0) {
    text += fmt::format("  forked from process {}: memory inherited from that process is in \"{}\" and \"the rest\"\n",
                        account.parent, account.is_counted ? "live blocks" : "allocator beyond");
  }
  if (account.is_attached) text += fmt::format("  {}: {}\n", kOlderBlocks, OlderBlocksText(&account));
  if (account.hugetlb > 0) {
    text += fmt::format("  additionally {} from the kernel's huge page pool (hugetlb), which VmRSS does not include\n",
                        FormatSize(static_cast<int64_t>(account.hugetlb)));
  }
  if (account.huge > 0) text += fmt::format("  in huge pages: {}\n", FormatSize(static_cast<int64_t>(account.huge)));
  return text;
}

std::string OlderBlocksText(const MemoryAccount* account) {
  if (account == nullptr) {
    return "how much is not known, because the file has no account of the memory. holdfast memory PID counts it while the "
           "program runs";
  }
  if (account->unrecorded.has_value()) {
    return fmt::format(
        "{}{} in glibc's heaps{}; blocks in mappings of their own, usually of 128KiB or more, are in \"the rest\" or "
        "\"allocator beyond\"",
        account->has_gaps ? "at most " : "", WithError(*account->unrecorded),
        account->has_gaps ? ", including blocks allocated since while nothing was recorded"
                          : ", including blocks that the library does not see");
  }
  if (!account->has_pages) return "how much is not known, because the page table could not be read";
  return fmt::format(
      "at most {} in the allocator's mappings, with its free memory, and {} in mappings by unknown callers. holdfast "
      "memory PID counts them if the allocator is glibc's",
      WithError(Beyond(*account)), WithError(Rest(*account)));
}

std::string FreeMemoryText(const FreeMemory& free, uint64_t resident) {
  const auto all = static_cast<int64_t>(free.all());
  if (all < kMinFree || free.all() < resident / kNotable) return "";
  std::string text = fmt::format("\n  of it glibc has {} free:\n", FormatSize(all));
  const auto line = [&text](uint64_t bytes, std::string_view what) {
    if (bytes >= kSmallestPage) text += fmt::format("  {:>10}  {}\n", FormatSize(static_cast<int64_t>(bytes)), what);
  };
  line(free.pages, "in whole pages between blocks: malloc_trim(0) returns them");
  line(free.main_top,
       "after the last block of the main heap: returned by malloc_trim(0), and by free() above M_TRIM_THRESHOLD");
  line(free.tops, "after the last blocks of other arenas: kept until these blocks are freed");
  line(free.pieces, fmt::format("in {} pieces that share pages with blocks: no call returns them", free.piece_count));
  line(free.unread, "changed while it was read: may or may not be free");
  if (free.arenas > kFewArenas && free.in_arenas > free.all() / 2) {
    text += fmt::format("  {} of it in {} secondary arenas. MALLOC_ARENA_MAX=2 makes threads share arenas\n",
                        FormatSize(static_cast<int64_t>(free.in_arenas)), free.arenas);
  }
  return text;
}

std::string AccountJson(const MemoryAccount& account, int64_t pid, const FreeMemory* free) {
  JsonText json;
  const auto number = [&json](std::string_view key, double value) { json.Key(key).Number(std::llround(value)); };
  const auto estimate = [&](std::string_view key, const Estimate& of) {
    json.Key(key).Open('{');
    number("value", of.value);
    json.Key("error").Number(of.error()).Close('}');
  };
  json.Open('{').Key("pid").Number(pid);
  if (account.parent != 0) json.Key("forked_from").Number(account.parent);
  number("resident", static_cast<double>(account.total));
  number("swapped", static_cast<double>(account.swapped));
  number("huge", static_cast<double>(account.huge));
  number("hugetlb", static_cast<double>(account.hugetlb));
  json.Key("allocator").String(account.allocator_name);
  number("allocator_resident", static_cast<double>(account.allocator));
  if (account.has_pages) {
    estimate("live_resident", account.live);
    estimate("beyond_live", BeyondLive(account));
    estimate("rounding", account.rounding);
    estimate("live_swapped", account.in_use_swapped);
  }
  estimate("in_use", account.in_use);
  if (account.is_attached && account.unrecorded.has_value()) {
    estimate("before_attach", *account.unrecorded);
    json.Key("before_attach_at_most").Bool(account.has_gaps);
  }
  number("arena_heaps", static_cast<double>(account.arenas));
  number("files", static_cast<double>(account.files));
  number("shared", static_cast<double>(account.shared));
  number("stacks", static_cast<double>(account.stacks));
  number("own", static_cast<double>(account.own));
  number("mapped", static_cast<double>(account.mapped));
  estimate("rest", Rest(account));
  if (free != nullptr) {
    json.Key("glibc_free").Open('{');
    number("pages", static_cast<double>(free->pages));
    number("main_top", static_cast<double>(free->main_top));
    number("tops", static_cast<double>(free->tops));
    number("pieces", static_cast<double>(free->pieces));
    number("piece_count", static_cast<double>(free->piece_count));
    number("arenas", static_cast<double>(free->arenas));
    number("in_arenas", static_cast<double>(free->in_arenas));
    number("unread", static_cast<double>(free->unread));
    json.Close('}');
  }
  json.Key("by_file").Open('[');
  for (const auto& [file, bytes] : account.by_file) {
    json.Open('{').Key("file").String(file);
    number("resident", static_cast<double>(bytes));
    json.Close('}');
  }
  json.Close(']').Close('}');
  return json.text() + "\n";
}

}  // namespace holdfast
