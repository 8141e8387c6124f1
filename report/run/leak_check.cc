#include "report/run/leak_check.h"

#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/daemon/find_tables.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/table_destination.h"
#include "report/run/scan_profile.h"
#include "report/show/unreachable_profile.h"
#include "report/show/unreachable_view.h"

namespace holdfast {
namespace {

constexpr size_t kMaxRowsOfOne = 20, kMaxProcessesListed = 20;

// Writes the profile beside the others of the process.
absl::Status WriteUnreachable(const UnreachableReport& report, const ObservedProcess& process, const std::string& out) {
  const std::optional<ProcessIdentity>& identity = process.identity();
  if (!identity.has_value()) return absl::OkStatus();
  const absl::StatusOr<OutputFolder> folder = OutputFolder::Open(out);
  if (!folder.ok()) return folder.status();
  return WriteScanProfile(*identity, UnreachableProfile(report), *folder).status();
}

}  // namespace

absl::Status LeakCheck::Prepare(const LeakCheckOptions& options) {
  for (const std::string& file : options.suppressions) {
    if (absl::Status status = suppressions_.AddFile(file); !status.ok()) return status;
  }
  scan_memory_ = options.scan_memory;
  return BudgetFor(scan_memory_).status();
}

void LeakCheck::Begin(const std::string& tables, const std::string& out) {
  tables_ = tables;
  out_ = out;
  out_id_ = FolderIdOf(out);
  if (absl::StatusOr<FileDescriptor> folder = OpenFolder(tables); folder.ok()) folder_ = *std::move(folder);
  events_ = FileDescriptor(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (events_.valid()) inotify_add_watch(events_.get(), tables.c_str(), IN_MOVED_TO | IN_ATTRIB);
}

template <typename Visit>
void LeakCheck::ForEachTable(const Visit& visit) {
  if (!folder_.valid()) return;
  std::vector<uid_t> users = OtherUsersOfTables(folder_);
  users.insert(users.begin(), geteuid());
  for (const uid_t user : users) {
    for (const std::string& name : ListTableNames(folder_, kTableSuffix, user)) {
      if (of_others_.contains(name)) continue;
      const absl::StatusOr<TableFile> table = TableFile::Open(folder_, name, user);
      if (!table.ok()) continue;
      if (!GoesTo(*table, out_, out_id_)) {
        of_others_.insert(name);
        continue;
      }
      visit(*table);
    }
  }
}

void LeakCheck::Look() {
  char events[4096];
  while (events_.valid() && read(events_.get(), events, sizeof events) > 0) {
  }
  bool any = false;
  ForEachTable([&](const TableFile& table) {
    if (const auto pid = FindProcess(table.owner()); pid.has_value()) seen_.insert(*pid);
    if (!table.AwaitsLeakCheck()) return;
    any = true;
    table.AnswerLeakCheck(LeakCheckState::kBegun);
  });
  if (!any) return;
  ForEachTable([this](const TableFile& table) {
    if (!table.AwaitsLeakCheck()) return;
    Check(table);
    table.AnswerLeakCheck(LeakCheckState::kDone);
  });
}

void LeakCheck::LookAtAll() {
  ForEachTable([this](const TableFile& table) {
    if (table.liveness() == Liveness::kAlive) Check(table);
    if (table.AwaitsLeakCheck()) table.AnswerLeakCheck(LeakCheckState::kDone);
  });
}

void LeakCheck::Check(const TableFile& table) {
  const std::optional<pid_t> pid = FindProcess(table.owner());
  if (!pid.has_value()) return;
  Answer& answer = answers_[table.name()];
  const std::optional<uid_t> user = OtherUserOf(*pid);
  if (!user.has_value()) {
    answer = SearchOwn(*pid);
    return;
  }
  // A child takes on that user's rights: its answer is the code in one line, then the text.
  const std::string text = AnswerOfUser(*user, *pid, [&] {
    const Answer own = SearchOwn(*pid);
    return fmt::format("{}\n{}", own.code, own.text);
  });
  answer = {.pid = *pid, .code = kCouldNot, .text = fmt::format("process {}: user {} cannot read it", *pid, *user)};
  if (const size_t line = text.find('\n');
      line != std::string::npos && absl::SimpleAtoi(text.substr(0, line), &answer.code))
    answer.text = text.substr(line + 1);
}

LeakCheck::Answer LeakCheck::SearchOwn(pid_t pid) const {
  Answer answer{.pid = pid, .code = kCouldNot};
  const auto failed = [&](const absl::Status& status) {
    answer.text = std::string(status.message());
    return answer;
  };
  const absl::StatusOr<ScanBudget> budget = BudgetFor(scan_memory_);
  if (!budget.ok()) return failed(budget.status());
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(pid, {tables_});
  if (!process.ok()) return failed(process.status());
  absl::StatusOr<UnreachableReport> report =
      FindUnreachableOf(process->get(), suppressions_, {.stop = true, .most_bytes = budget->most_bytes});
  // Too large for a copy, or a debugger is attached.
  if (!report.ok()) report = FindUnreachableOf(process->get(), suppressions_, {});
  if (!report.ok()) return failed(report.status());
  answer.code = report->ExitCode();
  answer.text = UnreachableText(*report, kMaxRowsOfOne);
  if (const absl::Status written = WriteUnreachable(*report, **process, out_); !written.ok())
    answer.text += fmt::format("  no profile of it was written: {}\n", std::string(written.message()));
  return answer;
}

std::string LeakCheck::WhyNotProgram(pid_t child, int status) const {
  for (const auto& [table, answer] : answers_) {
    if (answer.pid == child) return "";
  }
  if (WIFSIGNALED(status)) return fmt::format("signal {} ended it", WTERMSIG(status));
  if (seen_.contains(child)) return "it ended without exit or _exit";
  // A shell that allocates nothing is nothing to search, if the programs that it started were searched.
  return answers_.empty() ? "nothing was recorded in it. Add --exact" : "";
}

std::string LeakCheck::Text(pid_t child, int status, bool quiet) const {
  std::string text;
  size_t fine = 0, listed = 0, more = 0;
  std::string last_fine;
  for (const auto& [table, answer] : answers_) {
    if (answer.code == kFine) {
      ++fine;
      last_fine = answer.text;
      continue;
    }
    if (listed++ >= kMaxProcessesListed) {
      ++more;
      continue;
    }
    text += "holdfast: " + (answer.code == kCouldNot ? "leak check: " + answer.text + "\n" : answer.text);
  }
  if (more > 0)
    text += fmt::format("holdfast: leak check: {} more processes; see holdfast top {}\n", more, Printable(out_));
  if (fine == 1 && !quiet) text += "holdfast: " + last_fine;
  if (fine > 1 && !quiet)
    text += fmt::format("holdfast: leak check: {} processes have a pointer to each of their blocks\n", fine);
  if (const std::string why = WhyNotProgram(child, status); !why.empty())
    text += fmt::format("holdfast: leak check: process {} was not searched: {}\n", child, why);
  return text;
}

int LeakCheck::ExitCode(pid_t child, int status) const {
  int code = WhyNotProgram(child, status).empty() ? 0 : static_cast<int>(kRunFailed);
  for (const auto& [table, answer] : answers_) {
    if (answer.code == kFinding) return kFinding;
    if (answer.code != kFine) code = kRunFailed;
  }
  return code;
}

}  // namespace holdfast
