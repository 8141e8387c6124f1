#include "report/fleet/push/pusher.h"

#include <poll.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/fleet/push/collector.h"
#include "report/fleet/push/sender.h"
#include "report/observe/table/noted_folders.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {
namespace {

constexpr int64_t kLookAroundNs = 60 * kSecond;
constexpr int64_t kSweep = 600 * kSecond;
constexpr int64_t kStep = 250 * kMs;  // how often to look for new and exited processes

// Reports when a table is created in one of the folders of tables.
class NewTables {
 public:
  void Watch(const std::set<std::string>& folders) {
    if (!events_.valid()) events_ = FileDescriptor(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    for (const std::string& folder : folders) {
      if (watched_.insert(folder).second) {
        tells_all_ =
            inotify_add_watch(events_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) >= 0 && tells_all_;
      }
    }
  }
  bool Came() const {
    char buffer[4096];
    bool any = false;
    while (read(events_.get(), buffer, sizeof buffer) > 0) any = true;
    return any;
  }
  bool tells_all() const { return tells_all_; }
  const std::set<std::string>& folders() const { return watched_; }

 private:
  FileDescriptor events_;
  std::set<std::string> watched_;
  bool tells_all_ = true;
};

// Whether the other end of the pipe is closed.
bool IsClosed(int pipe) {
  pollfd end = {.fd = pipe, .events = 0, .revents = 0};
  return poll(&end, 1, 0) == 1 && (end.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

// Raises the limit of open files: each program needs two, for its table and its process.
void MayOpenManyFiles() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Collector::Options CollectorOptions(const PushOptions& options, const std::string& url) {
  Collector::Options made{
      .choice = options.choice, .labels = options.labels, .server = url, .tenant = options.server.tenant};
  made.max_disk_bytes = options.max_disk_bytes;
  made.every_ns = options.every.count();
  made.report_all_within_ns = options.since_start_within.count();
  made.once = options.once;
  return made;
}

void SaySummary(const Collector& collector, const Sender& sender, size_t waiting) {
  const Sender::Counts sent = sender.counts();
  const Collector::Counts& counts = collector.counts();
  std::string text =
      fmt::format("sent {} profiles ({}) in {} request{}", sent.sent, FormatSize(static_cast<int64_t>(sent.bytes)),
                  sent.requests, sent.requests == 1 ? "" : "s");
  const auto add = [&](uint64_t count, std::string_view what) {
    if (count != 0) text += fmt::format(", {} {}", count, what);
  };
  add(sent.set_aside, "set aside");
  add(counts.dropped, "dropped for lack of disk space");
  add(counts.cut_stacks, "stacks cut at 1,000 frames");
  add(counts.cut_labels, "samples without some of their labels");
  add(counts.too_large, "samples too large");
  add(waiting, "wait on disk");
  SayLines(text + "\n");
}

}  // namespace

absl::Status Push(const PushOptions& options, HeldSignals& signals) {
  MayOpenManyFiles();
  std::vector<std::unique_ptr<PushClient>> clients;
  for (size_t i = 0; i < Sender::kMaxRequests; ++i) {
    absl::StatusOr<std::unique_ptr<PushClient>> client = PushClient::Make(options.server);
    if (!client.ok()) return client.status();
    clients.push_back(*std::move(client));
  }
  const std::string url = clients[0]->options().url;
  Sender sender(std::move(clients), options.protocol);
  Collector collector(CollectorOptions(options, url),
                      [&](std::shared_ptr<Spool> spool) { sender.Add(std::move(spool)); });
  NewTables tables;
  const auto watch = [&] {
    std::set<std::string> folders = collector.table_folders();
    if (options.choice.tables.empty()) {
      for (std::string& folder : DefaultTableFolders()) folders.insert(std::move(folder));
    } else {
      folders.insert(options.choice.tables.begin(), options.choice.tables.end());
    }
    tables.Watch(folders);
    if (!options.choice.pids.empty() || !options.choice.outs.empty()) return;
    for (const std::string& folder : folders) AskForOutputFolders(folder);
  };
  collector.OpenNamed();
  watch();
  collector.Find({});
  collector.ReportEarlier();
  if (!options.once) {
    SayLines(fmt::format("pushing {} process{} to {} every {}\n", collector.processes(),
                         collector.processes() == 1 ? "" : "es", url, FormatTimeNs(options.every.count())));
  }
  const auto is_done = [&] {
    if (options.follow) return IsClosed(STDIN_FILENO) && collector.processes() == 0;
    return options.once || (!options.choice.pids.empty() && options.choice.outs.empty() && collector.processes() == 0);
  };
  int64_t next = NowNs(), next_sweep = next, next_look = next;
  const auto find_new = [&] { collector.Find({tables.folders().begin(), tables.folders().end()}); };
  while (true) {
    if (NowNs() >= next) {
      // In known folders, inotify reports new tables. Elsewhere, and if inotify fails, look for them.
      if (NowNs() >= next_look || !tables.tells_all()) {
        collector.Find({});
        watch();
        next_look = NowNs() + kLookAroundNs;
      } else if (tables.Came()) {
        find_new();
      }
      collector.ReportAll();
      collector.ReportEarlier();
      collector.ReportUnseen(tables.folders());
      if (options.sweep && NowNs() >= next_sweep) {
        options.sweep(tables.folders());
        next_sweep = NowNs() + kSweep;
      }
      next += options.every.count();
      if (next < NowNs()) next = NowNs() + options.every.count();  // the machine was asleep
      sender.Wake();
    } else {
      if (tables.Came()) find_new();
      if (collector.ReportEnded()) sender.Wake();
    }
    if (is_done()) break;
    const int64_t wait = std::clamp<int64_t>(next - NowNs(), kMs, kStep);
    if (signals.AskedToEnd(static_cast<int>((wait + kMs - 1) / kMs))) {
      collector.Find({});
      collector.ReportAll();
      break;
    }
  }
  collector.ReportUnseen(tables.folders());
  sender.Drain(options.linger);
  size_t waiting = 0;
  for (const auto& spool : collector.spools()) waiting += spool->waiting();
  SaySummary(collector, sender, waiting);
  if (waiting == 0) return absl::OkStatus();
  std::string folders;
  for (const auto& spool : collector.spools()) {
    if (spool->waiting() != 0) folders += " " + ShellQuoted(spool->out());
  }
  return absl::UnavailableError(
      fmt::format("{}: {} profiles wait on disk. Send them with: holdfast push {}{}", url, waiting, url, folders));
}

}  // namespace holdfast
