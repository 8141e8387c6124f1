#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/commands/commands.h"
#include "report/memory/account_records.h"
#include "report/memory/account_text.h"
#include "report/pprof/pprof.h"
#include "report/processes/find_tables.h"
#include "report/profiles/profile_set.h"
#include "report/terminal/fitted_text.h"
#include "report/terminal/pager.h"

namespace holdfast {
namespace {

struct MemoryOptions {
  std::vector<std::string> of, tables;
  bool json = false;
  std::string at;
};

// Returns the latest time that may be shown. `text`: a time, or a duration before `newest_ns`, the time of the newest
// file.
absl::StatusOr<int64_t> LatestOf(const std::string& text, int64_t newest_ns) {
  if (text.empty()) return INT64_MAX;
  if (const absl::StatusOr<uint64_t> ago = ParseTimeNs(text); ago.ok() && *ago <= INT64_MAX)
    return newest_ns - static_cast<int64_t>(*ago);
  for (const char* form : {"%Y-%m-%dT%H:%M:%E*S%Ez", "%Y-%m-%d%t%H:%M:%E*S%tUTC", "%Y-%m-%dT%H:%M:%E*S",
                           "%Y-%m-%d%t%H:%M:%E*S", "%Y-%m-%d%t%H:%M"}) {
    absl::Time time;
    std::string why;
    // Include the whole last millisecond, because files show their time in milliseconds.
    if (absl::ParseTime(form, text, &time, &why)) return absl::ToUnixNanos(time + absl::Milliseconds(1)) - 1;
  }
  return absl::InvalidArgumentError(fmt::format(
      "--at {}: not a time. Take one as holdfast info prints it, such as 2026-11-23T13:20:11Z, or how long before the "
      "newest snapshot, such as 10m",
      Printable(text)));
}

// Returns the start of the last column, so that text that does not fit the line continues below that column.
size_t LastColumnOf(std::string_view line) {
  const size_t first = line.find_first_not_of(' '), gap = line.rfind("  ");
  return first == line.npos || gap == line.npos || gap < first ? HangingIndent(line) : gap + 2;
}

void PrintAccount(const MemoryAccount& account, const std::string& name, int64_t pid, const MemoryAccount* first,
                  const FreeMemory* free, bool json) {
  if (json) {
    std::cout << AccountJson(account, pid, free);
    return;
  }
  const std::string text =
      AccountText(account, name, first) + (free != nullptr ? FreeMemoryText(*free, account.total) : "");
  const size_t width = ScreenWidth();
  const std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  for (const std::string& line : lines) {
    for (const std::string& piece : Wrapped(line, width, LastColumnOf(line))) std::cout << piece << "\n";
  }
}

absl::Status PrintOfProcess(const std::string& text, const MemoryOptions& options) {
  const absl::StatusOr<pid_t> pid = ParsePid(text);
  if (!pid.ok()) return pid.status();
  if (absl::Status status = BecomeUserOf(*pid); !status.ok()) return status;
  const absl::StatusOr<ProcessTable> process = FindTableOf(*pid, options.tables);
  if (!process.ok()) return process.status();
  std::optional<FreeMemory> free;
  const absl::StatusOr<MemoryAccount> account = ReadAccount(*pid, process->table, &free);
  if (!account.ok()) return account.status();
  PrintAccount(*account, process->Name(), *pid, nullptr, free.has_value() ? &*free : nullptr, options.json);
  return absl::OkStatus();
}

struct AccountInFile {
  std::optional<MemoryAccount> account;
  int64_t time_ns = 0, pid = 0;
  bool is_sum = false;  // a sum of several files
};

absl::StatusOr<AccountInFile> ReadAccountIn(const ProfileFile& file) {
  const auto profile = ReadPprofFile(file.path);
  if (!profile.ok()) return profile.status();
  AccountInFile found{.account = AccountOf(*profile), .time_ns = file.time_nanos};
  found.is_sum = profile->records().merged.has_value();
  found.pid = profile->process().pid;
  if (found.account.has_value()) found.account->parent = profile->process().parent_pid;
  return found;
}

// Prints the account in the newest file made by the time `at`, beside the account in the oldest file that has one.
absl::Status PrintOfGroup(const ProfileGroup& group, const std::string& at, bool json,
                          const std::function<void()>& separate) {
  AccountInFile first, last;
  const absl::StatusOr<int64_t> latest = LatestOf(at, group.newest().time_nanos);
  if (!latest.ok()) return latest.status();
  size_t newest = group.files.size();
  while (newest > 0 && group.files[newest - 1].time_nanos > *latest) --newest;
  if (newest == 0) {
    return absl::NotFoundError(fmt::format("{}: no snapshot is as old as --at {}. The first one is of {}",
                                           Printable(group.program), Printable(at),
                                           FormatWallTime(group.files.front().time_nanos)));
  }
  const bool is_asked = newest < group.files.size() || !at.empty();
  while (newest > 0 && !last.account.has_value()) {
    auto found = ReadAccountIn(group.files[--newest]);
    if (!found.ok()) return found.status();
    last = *std::move(found);
  }
  if (!last.account.has_value() && last.is_sum) {
    return absl::NotFoundError(fmt::format(
        "{}: {} was merged from several files, and has no account of memory. Give those files, or their folder",
        Printable(group.program), Printable(group.newest().path)));
  }
  if (!last.account.has_value()) {
    return absl::NotFoundError(fmt::format(
        "{}: no account of its memory in {}: it lived less than a second, had more than 1 GiB resident, its /proc files "
        "may not be read, or an older holdfast wrote that",
        Printable(group.program), Printable(group.newest().path)));
  }
  for (size_t i = 0; i < newest && !first.account.has_value(); ++i) {
    auto found = ReadAccountIn(group.files[i]);
    if (!found.ok()) return found.status();
    first = *std::move(found);
  }
  const int64_t before = group.newest().time_nanos - last.time_ns;
  const std::string name = is_asked      ? fmt::format("{}, at {}", group.program, FormatWallTime(last.time_ns))
                           : before <= 0 ? group.program
                                         : fmt::format("{}, {} before its newest snapshot, which has no account",
                                                       group.program, FormatDuration(before));
  separate();
  PrintAccount(*last.account, name, last.pid, first.account.has_value() ? &*first.account : nullptr, nullptr, json);
  return absl::OkStatus();
}

bool IsPid(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

int RunMemory(const MemoryOptions& options) {
  int code = kFine;
  bool any = false;
  const auto separate = [&] {
    if (std::exchange(any, true) && !options.json) std::cout << "\n";
  };
  if (const auto latest = LatestOf(options.at, 0); !latest.ok()) return Failed(latest.status());
  std::vector<std::string> files;
  for (const std::string& text : options.of) {
    // A path to a file with such a name would contain a folder or an extension.
    if (!IsPid(text)) {
      if (std::error_code none; text == "-" || std::filesystem::exists(text, none)) {
        files.push_back(text);
      } else {
        code = Failed(absl::InvalidArgumentError(
            fmt::format("\"{}\" is neither a process id (holdfast ls shows them) nor a profile or a folder of them",
                        Printable(text))));
      }
      continue;
    }
    if (!options.at.empty()) {
      code = Failed(absl::InvalidArgumentError(
          fmt::format("--at is of files: process {} is shown as it is now. Give the folder of its profiles", text)));
      continue;
    }
    separate();
    if (const absl::Status status = PrintOfProcess(text, options); !status.ok()) code = Failed(status);
  }
  const auto print_files = [&](const std::vector<std::string>& of) {
    const auto set = ReadProfileSet(of, {.keep = KeepProfiles::kNone, .kind = "heap"});
    if (!set.ok()) return set.status();
    for (const std::string& warning : set->warnings) Say(warning);
    // Short-lived processes in a folder, such as those of a shell or a build, may have no account.
    std::vector<absl::Status> without;
    bool printed = false;
    for (const ProfileGroup& group : set->groups) {
      const absl::Status status = PrintOfGroup(group, options.at, options.json, separate);
      printed = printed || status.ok();
      if (absl::IsNotFound(status) && group.newest().from_folder) {
        without.push_back(status);
      } else if (!status.ok()) {
        code = Failed(status);
      }
    }
    constexpr size_t kNamed = 3;
    if (printed && without.size() > kNamed) {
      Say(fmt::format(
          "{} processes are left out: they lived less than a second, or have no account for another reason, "
          "which holdfast memory FILE says.",
          without.size()));
      return absl::OkStatus();
    }
    for (size_t i = 0; i < without.size() && i < kNamed; ++i) code = Failed(without[i]);
    if (without.size() > kNamed)
      Say(fmt::format("of {} more in this folder there is none, too.", without.size() - kNamed));
    return absl::OkStatus();
  };
  if (files.empty() || (files.size() > 1 && print_files(files).ok())) return code;
  // If one argument cannot be read, still answer for the others.
  for (const std::string& file : files) {
    if (const absl::Status status = print_files({file}); !status.ok()) code = Failed(status);
  }
  return code;
}

}  // namespace

void AddMemoryCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<MemoryOptions>();
  CLI::App* memory = app.add_subcommand("memory", "Where the resident memory of a program is, to the last byte");
  memory->footer(
      "For the question after every heap profile: the process has 4 GiB resident, and the profile says 1.5. Every resident\n"
      "byte is in one line, and the lines add up to what the kernel says. The program takes no part in it and is not stopped.\n"
      "\n"
      "  holdfast memory 4242          one screen\n"
      "  holdfast memory prof          of each process in a folder, as its last heap profile has it: what is there when it is\n"
      "                                not any more; and how much each line grew since the first one\n"
      "  holdfast memory prof --at 2026-11-23T13:20:11Z\n"
      "                                as it was then: of each process the newest snapshot that was made by that time; or --at 10m,\n"
      "                                ten minutes before the newest one\n"
      "  holdfast memory --json 4242   for programs, a line a process; in bytes\n"
      "\n"
      "  live blocks       what was allocated and not freed, as far as it is resident: estimated from the sampled blocks, whose\n"
      "                    pages are looked up in the page table; ± is the 95 % interval. Of a running process on glibc the\n"
      "                    free chunks are counted, and the rest of its heaps lives\n"
      "  rounding          by how much live blocks are larger than what was asked for (glibc, jemalloc)\n"
      "  allocator beyond  free blocks: what is resident of the allocator's mappings, less the two lines above.\n"
      "                    Its mappings are those in which sampled live blocks lie, the heap, and glibc's arenas.\n"
      "                    Of a running process below it: what of that glibc has free, and what would give it back\n"
      "  own mappings      what the program has mapped without malloc (holdfast top --kind map has it by stack)\n"
      "  the rest          memory without a name that nobody was seen to map, in which no sampled block lies\n"
      "\n"
      "Exit status: 0 fine, 2 wrong usage, 3 it could not be done.");
  memory
      ->add_option("PID|FILES", options->of,
                   "Processes, as holdfast ls shows them; or heap profiles and folders of them")
      ->required();
  memory->add_option("--at", options->at, "Of files: the account of the newest snapshot that was made by then")
      ->type_name("TIME")
      ->check(
          [](const std::string& at) { return at.empty() ? "a time is needed, such as 10m or 2026-11-24T02:34" : ""; });
  memory->add_flag("--json", options->json, "All of it, for programs");
  memory->add_option("--tables", options->tables, "Folder of table files to look into [default: all that are in use]")
      ->allow_extra_args(false);
  memory->callback([options, invocation] { invocation->exit_code = RunMemory(*options); });
}

}  // namespace holdfast
