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
#include "report/analysis/profiles/profile_set.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/cmd/commands.h"
#include "report/daemon/find_tables.h"
#include "report/observe/memory/account_records.h"
#include "report/observe/memory/account_text.h"
#include "report/observe/observe.h"
#include "report/profile/pprof.h"
#include "report/show/fitted_text.h"
#include "report/show/pager.h"
#include "report/show/pinned_view.h"

namespace holdfast {
namespace {

struct MemoryOptions {
  std::vector<std::string> of, tables;
  bool json = false, pinned = false;
  std::string at, scan_memory;
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
      "--at {}: not a time. Give a time as holdfast info prints it, such as 2026-11-23T13:20:11Z, or the time before the newest snapshot, such as 10m",
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
  const absl::StatusOr<ProcessState> state =
      Observe(process->table, {.records = false, .account = true, .free_memory = true});
  if (!state.ok()) return state.status();
  if (!state->account.ok()) return state->account.status();
  if (const std::string note = DetachedNote(*pid, options.tables); !note.empty()) Say(note);
  PrintAccount(*state->account, process->Name(), *pid, nullptr,
               state->free_memory.has_value() ? &*state->free_memory : nullptr, options.json);
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
        "{}: {} is merged from several files and has no memory account. Give the original files, or their folder",
        Printable(group.program), Printable(group.newest().path)));
  }
  if (!last.account.has_value()) {
    return absl::NotFoundError(fmt::format(
        "{}: no memory account in {}: the process ran for less than a second, had more than 1 GiB resident, its /proc files are not readable, or an older holdfast wrote the file",
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
                                         : fmt::format("{}, {} before its newest snapshot, which has no memory account",
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
  if (options.pinned && !std::ranges::all_of(options.of, IsPid))
    return Failed(absl::InvalidArgumentError("--pinned reads the memory of running processes. Give process ids"));
  std::vector<std::string> files;
  for (const std::string& text : options.of) {
    // A path to a file with such a name would contain a folder or an extension.
    if (!IsPid(text)) {
      if (std::error_code none; text == "-" || std::filesystem::exists(text, none)) {
        files.push_back(text);
      } else {
        code = Failed(absl::InvalidArgumentError(
            fmt::format("\"{}\" is neither a process id (holdfast ls shows them) nor a profile or a folder of them.",
                        Printable(text))));
      }
      continue;
    }
    if (!options.at.empty()) {
      code = Failed(absl::InvalidArgumentError(fmt::format(
          "--at applies only to files, and process {} is shown as it is now. Give the folder of its profiles", text)));
      continue;
    }
    separate();
    if (options.pinned) {
      const int pinned = RunPinned(
          {.of_process = text, .tables = options.tables, .scan_memory = options.scan_memory, .json = options.json},
          std::cout, std::cerr);
      code = std::max(code, pinned);
      continue;
    }
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
          "skipped {} processes: they ran for less than a second, or have no memory account for another reason (see holdfast memory FILE).",
          without.size()));
      return absl::OkStatus();
    }
    for (size_t i = 0; i < without.size() && i < kNamed; ++i) code = Failed(without[i]);
    if (const size_t more = without.size() - std::min(without.size(), kNamed); more > 0)
      Say(fmt::format("{} more process{} in this folder ha{} none either.", more, more == 1 ? "" : "es",
                      more == 1 ? "s" : "ve"));
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
  CLI::App* memory = app.add_subcommand("memory", "Account for all resident memory of a program");
  memory->footer(
      "Answers the question after a heap profile: the process has 4 GiB resident, but the profile shows 1.5. Every resident\n"
      "byte is in exactly one line, and the lines add up to the kernel's number. The program is not stopped.\n"
      "\n"
      "  holdfast memory 4242          one screen\n"
      "  holdfast memory prof          of each process in a folder, from its last heap profile; also works after it exited,\n"
      "                                and shows how much each line grew since the first profile\n"
      "  holdfast memory prof --at 2026-11-23T13:20:11Z\n"
      "                                from the newest snapshot of each process up to that time; --at 10m: ten minutes\n"
      "                                before the newest one\n"
      "  holdfast memory --json 4242   one line per process, in bytes\n"
      "  holdfast memory --pinned 4242 which owner's blocks keep otherwise free pages from being returned: the function that\n"
      "                                allocated them with --exact, otherwise what holds them. For glibc's malloc\n"
      "\n"
      "  live blocks       the resident part of memory that was allocated and not freed: estimated from sampled blocks and\n"
      "                    the page table; ± is the 95 % half-width. For a running process on glibc, free chunks are counted\n"
      "                    instead, and everything else in its heaps is live\n"
      "  rounding          unused parts of live blocks (glibc, jemalloc)\n"
      "  allocator beyond  free blocks: the resident part of the allocator's mappings, minus the two lines above. These\n"
      "                    mappings are the heap, glibc's arenas, and those that contain sampled live blocks. For a running\n"
      "                    process, the lines below show how much glibc has free, and what would return it\n"
      "  own mappings      memory that the program mapped without malloc (by stack: holdfast top --kind map)\n"
      "  the rest          anonymous memory from an unknown caller, without sampled blocks\n"
      "\n"
      "Exit status: 0 fine, 2 wrong usage, 3 the memory cannot be read.");
  memory
      ->add_option("PID|FILES", options->of,
                   "Process ids, as holdfast ls lists them; or heap profiles, or folders of them")
      ->required();
  memory->add_option("--at", options->at, "For files: use the newest snapshot up to this time")
      ->type_name("TIME")
      ->check([](const std::string& at) { return at.empty() ? "needs a time, such as 10m or 2026-11-24T02:34" : ""; });
  CLI::Option* const pinned =
      memory->add_flag("--pinned", options->pinned,
                       "For a process: show which owner's blocks keep otherwise free pages from being returned");
  memory
      ->add_option("--scan-memory", options->scan_memory,
                   "With --pinned: use at most this much memory [default: half of what is free]")
      ->type_name("SIZE")
      ->needs(pinned);
  memory->add_flag("--json", options->json, "Print everything as JSON");
  memory->add_option("--tables", options->tables, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  memory->callback([options, invocation] { invocation->exit_code = Finished(RunMemory(*options)); });
}

}  // namespace holdfast
