#include "report/fleet/serve/pprof_endpoints.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/split.h"
#include "report/builder/file_kinds.h"
#include "report/builder/profile_builder.h"
#include "report/builder/wall_locks.h"
#include "report/fleet/live/kept_values.h"
#include "report/fleet/serve/pages.h"
#include "report/fleet/serve/profile_text.h"
#include "report/profile/pprof.h"

namespace holdfast {
namespace {

const std::pair<std::string, std::string> kNoSniffing = {"X-Content-Type-Options", "nosniff"};

HttpResponse Attachment(std::string_view file, const Profile& profile) {
  return {.content_type = "application/octet-stream",
          .fields = {kNoSniffing, {"Content-Disposition", fmt::format("attachment; filename=\"{}\"", file)}},
          .body = EncodePprof(profile)};
}

HttpResponse PlainText(std::string body) { return {.fields = {kNoSniffing}, .body = std::move(body)}; }

HttpResponse NotCollected(const absl::Status& why) {
  return PprofError(500, fmt::format("failed to collect profile: {}", std::string(why.message())));
}

// Closes the connection, because others need it.
HttpResponse TooManyRequests() {
  HttpResponse response = PprofError(503, "too many requests with seconds= are waiting: try again later");
  response.fields.emplace_back("Retry-After", "10");
  response.fields.emplace_back("Connection", "close");
  return response;
}

void PreferAllocations(Profile* profile) { profile->default_sample_type = profile->strings.Intern("alloc_space"); }

// strconv.Atoi; the caller treats an error as 0.
int64_t NumberOr0(std::string_view text) {
  int64_t number = 0;
  return absl::SimpleAtoi(std::string(text), &number) ? number : 0;
}

// strconv.ParseUint(text, 0, 64); 0 on errors.
uint64_t AddressIn(std::string_view text) {
  uint64_t address = 0;
  const std::string whole(text);
  if (whole.starts_with("0x") || whole.starts_with("0X")) {
    return absl::SimpleHexAtoi(whole, &address) ? address : 0;
  }
  return absl::SimpleAtoi(whole, &address) ? address : 0;
}

// Returns the index into kFileKinds of a kind that is served.
std::optional<int> FileKindOf(std::string_view name) {
  const std::optional<int> file = FileKindNamed(name);
  return file.has_value() && (*file < kProfileKinds || *file == kResidentFile || *file == kWallFile) ? file
                                                                                                     : std::nullopt;
}

HttpResponse NotToBeHad(const absl::Status& why) {
  return absl::IsFailedPrecondition(why) ? PprofError(404, std::string(why.message())) : NotCollected(why);
}

}  // namespace

HttpResponse PprofError(int status, std::string_view text) {
  return {.status = status, .fields = {kNoSniffing, {"X-Go-Pprof", "1"}}, .body = fmt::format("{}\n", text)};
}

HttpResponse PprofEndpoints::Answer(const ProcessTable& process, std::string_view name, const HttpRequest& request) {
  if (name.empty()) return Index(process);
  if (name == "cmdline") return CommandLine(process);
  if (name == "symbol") return Symbol(process, request);
  constexpr std::string_view kDelta = "delta_";
  if (name.starts_with(kDelta)) {
    const std::optional<int> file = FileKindOf(name.substr(kDelta.size()));
    if (file.has_value() && *file < kProfileKinds) return Increase(process, kFileKinds[*file].rows);
  }
  // Go answers with what happens from now on, for 30 seconds if the request does not say how long.
  if (name == "profile") {
    if (const absl::StatusOr<TableSnapshot> now = process.table.TakeSnapshot();
        now.ok() && now->cpu_state != CpuState::kOn) {
      const std::string_view why = kCpuStateTexts[static_cast<int>(now->cpu_state)];
      return PprofError(500, now->cpu_state == CpuState::kOff
                                 ? fmt::format("CPU samples are off: holdfast set {} cpu=100", process.pid.value_or(0))
                                 : fmt::format("no CPU samples: {}", why));
    }
    const std::string_view asked = request.Parameter("seconds");
    return Change(process, static_cast<int>(ProfileKind::kCpu), false, NumberOr0(asked) <= 0 ? "30" : asked, request);
  }
  if (name == "trace") return PprofError(404, "Unknown profile: execution traces are those of Go's runtime");
  const bool allocs = name == "allocs";
  const std::optional<int> file = FileKindOf(allocs ? "heap" : name);
  if (!file.has_value()) return PprofError(404, "Unknown profile");
  const std::string_view seconds = request.Parameter("seconds");
  return seconds.empty() ? Profiles(process, *file, allocs, request) : Change(process, *file, allocs, seconds, request);
}

HttpResponse PprofEndpoints::Index(const ProcessTable& process) {
  const absl::StatusOr<ProcessState> state = Observe(process.table, {});
  if (!state.ok()) return NotCollected(state.status());
  SampleCounts samples = {};
  for (int i = 0; i < kProfileKinds; ++i) {
    samples[i] = BuildProfile(*state, static_cast<ProfileKind>(i)).samples.size();
  }
  if (state->table->resident) {
    const absl::StatusOr<ProcessState> resident = observers_.Observe(process, kResidentFile);
    if (resident.ok()) samples.back() = BuildResidentProfile(*resident).samples.size();
  }
  return PageResponse(PprofIndexPage(process.Name(), samples));
}

HttpResponse PprofEndpoints::Profiles(const ProcessTable& process, int file, bool allocs, const HttpRequest& request) {
  const absl::StatusOr<ProcessState> state = observers_.Observe(process, file);
  if (!state.ok()) return NotToBeHad(state.status());
  Profile profile = kFileKinds[file].build(*state);
  names_.Give(*state, kFileKinds[file].rows, &profile);
  if (allocs) PreferAllocations(&profile);
  if (NumberOr0(request.Parameter("debug")) != 0) return PlainText(ProfileText(profile, file));
  return Attachment(allocs ? "allocs" : kFileKinds[file].name, profile);
}

HttpResponse PprofEndpoints::Change(const ProcessTable& process, int file, bool allocs, std::string_view seconds_text,
                                    const HttpRequest& request) {
  int64_t seconds = 0;
  if (!absl::SimpleAtoi(std::string(seconds_text), &seconds) || seconds <= 0) {
    return PprofError(400, "invalid value for \"seconds\" - must be a positive integer");
  }
  if (NumberOr0(request.Parameter("debug")) != 0) return PprofError(400, "seconds and debug params are incompatible");
  const auto take = [&]() { return observers_.Observe(process, file); };
  absl::StatusOr<ProcessState> state = take();
  if (!state.ok()) return NotToBeHad(state.status());
  const Profile before = kFileKinds[file].build(*state);
  state = absl::UnknownError("");  // release its memory while we wait
  const WaitEnd end = request.wait(seconds);
  if (end == WaitEnd::kTooMany) return TooManyRequests();
  if (end == WaitEnd::kBrokenOff) return PprofError(500, "context canceled");
  // If the process has exited meanwhile, its table is still open here and holds its last state.
  state = take();
  if (!state.ok()) return NotCollected(state.status());
  Profile now = kFileKinds[file].build(*state);
  Profile change = ChangeBetween(before, now);
  names_.Give(*state, kFileKinds[file].rows, &change);
  if (file == kWallFile) {
    names_.Give(*state, kFileKinds[file].rows, &now);
    CopyLockNames(now, &change);
  }
  if (allocs) PreferAllocations(&change);
  return Attachment(fmt::format("{}-delta", allocs ? "allocs" : kFileKinds[file].name), change);
}

HttpResponse PprofEndpoints::Increase(const ProcessTable& process, ProfileKind kind) {
  const absl::StatusOr<ProcessState> state = observers_.Observe(process, static_cast<int>(kind));
  if (!state.ok()) return NotCollected(state.status());
  const Profile now = BuildProfile(*state, kind);
  Profile increase;
  {
    const std::lock_guard lock(mutex_);
    const std::string id = ProcessId(state->table->process);
    Reported& reported = reported_[id];
    reported.turn = ++turns_;
    CumulativeValues& last = reported.kinds[static_cast<int>(kind)];
    if (last.time_nanos() == 0) last = ReadKeptValues(process.out(), id, kind).value_or(CumulativeValues());
    increase = IncreaseSince(last, now);
    last = CumulativeValues(now);
    KeepValues(process.out(), id, kind, last);
    if (reported_.size() > kMaxReported) {
      reported_.erase(std::min_element(reported_.begin(), reported_.end(),
                                       [](const auto& a, const auto& b) { return a.second.turn < b.second.turn; }));
    }
  }
  names_.Give(*state, kind, &increase);
  return Attachment(fmt::format("{}.pprof.gz", kProfileKindNames[static_cast<int>(kind)]), increase);
}

HttpResponse PprofEndpoints::CommandLine(const ProcessTable& process) {
  const absl::StatusOr<TableSnapshot> snapshot = process.table.TakeSnapshot();
  if (!snapshot.ok()) return NotCollected(snapshot.status());
  std::string text = CommandLineOf(process, *snapshot);
  if (!text.empty() && text.back() == '\0') text.pop_back();  // Go separates arguments by zeros, with none at the end
  return PlainText(std::move(text));
}

HttpResponse PprofEndpoints::Symbol(const ProcessTable& process, const HttpRequest& request) {
  constexpr size_t kLongestWord = 4096;  // as in Go's reader
  const absl::StatusOr<ProcessState> state = Observe(process.table, {});
  if (!state.ok()) return NotCollected(state.status());
  std::string text = "num_symbols: 1\n";  // pprof only wants to know whether there are any
  std::string end;
  std::vector<uint64_t> addresses;
  for (const std::string_view word : Split(request.method == "POST" ? request.body : request.raw_query, "+")) {
    if (word.size() >= kLongestWord) {
      end = "reading request: bufio: buffer full\n";
      break;
    }
    if (const uint64_t address = AddressIn(word); address != 0) addresses.push_back(address);
  }
  const std::vector<std::string> names = names_.Of(*state, addresses);
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (!names[i].empty()) text += fmt::format("{:#x} {}\n", addresses[i], names[i]);
  }
  return PlainText(text + end);
}

}  // namespace holdfast
