#include "report/fleet/push/sender.h"

#include <sys/random.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/fleet/push/otlp_request.h"
#include "report/fleet/push/series_times.h"
#include "report/profile/pprof.h"

namespace holdfast {
namespace {

constexpr std::chrono::milliseconds kLongestWait{60'000}, kLongestAsked{300'000};
constexpr size_t kMaxRefusalMessages = 20;
constexpr int kMaxIngestTries = 6;  // a minute
// Pyroscope 2 collects profiles for half a second before it answers. Pyroscope 1 answers within milliseconds.
constexpr int64_t kSlowAnswer = 200 * kMs;
// The server rejects profiles older than an hour; allow a minute for clocks that differ.
constexpr int64_t kOldest = int64_t{59} * 60 * kSecond;

// std::random_device would need glibc 2.36.
uint32_t Seed() {
  uint32_t seed = 1;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
    seed = static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return seed;
}

// "{"code":"invalid_argument","message":"…"}", "429: …" → one printable line.
std::string WhatItSaid(const Reply& reply) {
  std::string text = Printable(reply.text.substr(0, 300));
  if (reply.status == 0) return text;
  return text.empty() ? fmt::format("{}", reply.status) : fmt::format("{}: {}", reply.status, text);
}

}  // namespace

SendOutcome OutcomeOf(int status) {
  if (status >= 200 && status < 300) return SendOutcome::kSent;
  if (status == 0 || status == 408 || status == 429 || status >= 500) return SendOutcome::kTryAgain;
  if (status < 400 || status == 401 || status == 403 || status == 404 || status == 405 || status == 407) {
    return SendOutcome::kWrongSettings;
  }
  return SendOutcome::kRefused;
}

std::chrono::milliseconds WaitBeforeTry(int tries, int retry_after_s, double random) {
  // The server asked for this delay: never retry earlier, and at most a tenth later.
  if (retry_after_s > 0) {
    const auto asked = std::min<std::chrono::milliseconds>(std::chrono::seconds(retry_after_s), kLongestAsked);
    return asked + std::chrono::milliseconds(static_cast<int64_t>(static_cast<double>(asked.count()) * 0.1 * random));
  }
  const auto full = std::min(kLongestWait, std::chrono::milliseconds(1000) * (1 << std::min(tries, 6)));
  return full - std::chrono::milliseconds(static_cast<int64_t>(static_cast<double>(full.count()) * 0.5 * random));
}

Sender::Sender(std::vector<std::unique_ptr<PushClient>> clients, PushProtocol protocol)
    : clients_(std::move(clients)),
      protocol_(protocol),
      url_(clients_[0]->options().url),
      most_(MaxEntries(protocol)),
      most_taken_(MaxEntries(protocol)) {
  for (const auto& client : clients_) threads_.emplace_back([this, &client] { Run(*client); });
}

Sender::~Sender() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Sender::Add(std::shared_ptr<Spool> spool) {
  const std::lock_guard lock(mutex_);
  for (const auto& [series, until_ns] : spool->TimesInDoubt()) in_doubt_ns_[series].insert(until_ns);
  spools_.push_back(std::move(spool));
  changed_.notify_one();
}

void Sender::Wake() {
  const std::lock_guard lock(mutex_);  // otherwise the notification may come just before a thread waits
  // Close spools that nobody else uses and that are empty.
  std::erase_if(spools_, [](const auto& one) { return one.use_count() == 1 && one->waiting() == 0; });
  changed_.notify_one();
}

size_t Sender::Waiting() const {
  size_t waiting = 0;
  for (const auto& spool : spools_) waiting += spool->waiting();
  return waiting;
}

Sender::Counts Sender::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

bool Sender::Drain(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  took_while_draining_ = gave_up_ = false;
  not_before_ = {};  // try once more at once
  last_taken_ = Clock::now();
  changed_.notify_all();
  while (Waiting() != 0 && !gave_up_ && Clock::now() < last_taken_ + patience)
    drained_.wait_until(lock, last_taken_ + patience);
  return Waiting() == 0;
}

void Sender::Run(PushClient& client) {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (const auto now = Clock::now(); now < not_before_) {
      changed_.wait_until(lock, not_before_);
      continue;
    }
    // After a failure, a single request probes whether the server accepts profiles again.
    Request request = tries_ == 0 || requests_under_way_ == 0 ? NextRequest() : Request();
    if (request.empty()) {
      drained_.notify_all();
      changed_.wait(lock);
      continue;
    }
    ++requests_under_way_;
    for (const Outgoing& one : request) series_under_way_.insert(one.waiting.series);
    changed_.notify_one();  // there may be more
    lock.unlock();
    Send(client, &request);
    lock.lock();
    for (const Outgoing& one : request) series_under_way_.erase(one.waiting.series);
    --requests_under_way_;
    changed_.notify_all();
    drained_.notify_all();
  }
}

// Takes the oldest entries first, across all spools, because processes in different folders may share a series.
Sender::Request Sender::NextRequest() {
  struct Choice {
    Spool::Candidate candidate;
    size_t spool;
  };
  std::vector<Choice> choices;
  for (size_t i = 0; i < spools_.size(); ++i) {
    for (const Spool::Candidate& one : spools_[i]->Candidates(several_of_a_series_)) {
      if (!series_under_way_.contains(one.series)) choices.push_back({one, i});
    }
  }
  std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
    return std::pair(a.candidate.until_ns, a.candidate.number) < std::pair(b.candidate.until_ns, b.candidate.number);
  });
  std::vector<std::vector<uint64_t>> numbers(spools_.size());
  absl::flat_hash_set<uint64_t> series, held_up;
  size_t bytes = 0, chosen = 0;
  for (const auto& [candidate, spool] : choices) {
    const bool is_alone =
        alone_.contains({spools_[spool].get(), candidate.number}) || rejected_series_.contains(candidate.series);
    if (is_alone && !series.empty()) held_up.insert(candidate.series);
    if (held_up.contains(candidate.series)) continue;
    bytes += candidate.profile_bytes;
    if (!series.empty() && bytes > kMaxRequestBytes) break;
    if (series.insert(candidate.series).second || (several_of_a_series_ && !is_alone)) {
      numbers[spool].push_back(candidate.number);
      ++chosen;
    }
    if (is_alone || chosen == most_) break;
  }
  Request request;
  for (size_t i = 0; i < spools_.size(); ++i) {
    if (numbers[i].empty()) continue;
    for (auto& [waiting, entry] : spools_[i]->Begin(numbers[i])) {
      request.push_back({spools_[i], std::move(waiting), std::move(entry)});
    }
  }
  // Across spools as well, Pyroscope 1 needs the profiles of a series in the order of their times.
  std::stable_sort(request.begin(), request.end(),
                   [](const Outgoing& a, const Outgoing& b) { return a.entry.until_ns < b.entry.until_ns; });
  return request;
}

void Sender::LookAtServersClock(const Reply& reply, int64_t sent_ns) {
  if (reply.date_s == 0) return;
  const int64_t date_ns = reply.date_s * kSecond;
  const int64_t least_ns = date_ns - NowNs(CLOCK_MONOTONIC), most_ns = date_ns + kSecond - sent_ns;
  server_least_ns_ = std::max(server_least_ns_, least_ns);
  server_max_ns_ = std::min(server_max_ns_, most_ns);
  if (server_least_ns_ <= server_max_ns_) return;
  server_least_ns_ = least_ns;  // the server's clock was set
  server_max_ns_ = most_ns;
}

int64_t Sender::ServerNowNs() const {
  if (server_max_ns_ == INT64_MAX) return NowNs(CLOCK_REALTIME);
  return NowNs(CLOCK_MONOTONIC) + server_least_ns_ + (server_max_ns_ - server_least_ns_) / 2;
}

void Sender::PutInOrder(Request* request) {
  const std::lock_guard lock(mutex_);
  absl::flat_hash_map<uint64_t, int64_t> last_here_ns;
  for (Outgoing& one : *request) {
    const auto sent = last_sent_ns_.find(one.waiting.series);
    int64_t& last_ns = last_here_ns[one.waiting.series];
    if (sent != last_sent_ns_.end()) last_ns = std::max(last_ns, sent->second);
    if (const int64_t until_ns = (last_ns / kMs + 1) * kMs;
        one.entry.until_ns / kMs <= last_ns / kMs && until_ns <= ServerNowNs() + SeriesTimes::kMaxAheadNs) {
      one.entry.SetTimes(one.entry.from_ns, until_ns);
      one.spool->Change(one.waiting, one.entry);
    }
    last_ns = std::max(last_ns, one.entry.until_ns);
  }
  constexpr size_t kMaxSeries = 100'000;
  if (last_sent_ns_.size() > kMaxSeries) last_sent_ns_.clear();
  if (in_doubt_ns_.size() > kMaxSeries) in_doubt_ns_.clear();
  if (rejected_series_.size() > kMaxSeries) rejected_series_.clear();
}

// Pyroscope 1 handles the profiles of a series in turn. So if it has a later one of the same request, it has this one.
bool Sender::WasTaken(const Outgoing& one, std::string_view answer) const {
  const std::optional<int64_t> last_ns = LastTimeIn(answer);
  const auto doubts = in_doubt_ns_.find(one.waiting.series);
  return last_ns.has_value() && doubts != in_doubt_ns_.end() && *last_ns > one.entry.until_ns &&
         doubts->second.contains(one.entry.until_ns) && doubts->second.contains(*last_ns);
}

bool Sender::CorrectTime(const Outgoing& one, std::string_view answer) {
  const int64_t server_ns = ServerNowNs(), ahead_ns = NowNs(CLOCK_REALTIME) - server_ns, until_ns = one.entry.until_ns;
  const auto is_in_window = [server_ns](int64_t time_ns) {
    return time_ns > server_ns - kOldest && time_ns < server_ns + SeriesTimes::kMaxAheadNs;
  };
  if (const std::optional<int64_t> last_ns = LastTimeIn(answer)) {
    return *last_ns >= until_ns && is_in_window(*last_ns) && GiveTime(one, (*last_ns / kMs + 1) * kMs);
  }
  if (is_in_window(until_ns)) return false;
  // Compute the time from the entry's age. For an entry of an earlier pusher, use the current error of our clock.
  const int64_t made_ns =
      one.waiting.put_ns != 0 ? server_ns - (NowNs(CLOCK_MONOTONIC) - one.waiting.put_ns) : until_ns - ahead_ns;
  if (is_in_window(made_ns)) return GiveTime(one, made_ns);
  return until_ns > server_ns && GiveTime(one, server_ns);
}

bool Sender::GiveTime(const Outgoing& one, int64_t until_ns) {
  constexpr int kMaxCorrections = 3;
  if (++corrected_[{one.spool.get(), one.waiting.number}] > kMaxCorrections) return false;
  PushEntry entry = one.entry;
  entry.SetTimes(entry.from_ns + until_ns - entry.until_ns, until_ns);
  one.spool->Change(one.waiting, entry);
  one.spool->Return({one.waiting.number}, /*not_taken=*/true);
  return true;
}

void Sender::SetAsideOldEntries(Request* request) {
  if (protocol_ == PushProtocol::kOtlp) return;
  const std::lock_guard lock(mutex_);
  const int64_t oldest_ns = ServerNowNs() - kOldest;
  std::erase_if(*request, [&](const Outgoing& one) {
    if (one.entry.until_ns >= oldest_ns) return false;
    series_under_way_.erase(one.waiting.series);
    if (!CorrectTime(one)) SetAside(one, "it is older than an hour, and the server rejects such profiles");
    return true;
  });
  for (const Outgoing& one : *request) series_under_way_.insert(one.waiting.series);
}

void Sender::Send(PushClient& client, Request* request) {
  SetAsideOldEntries(request);
  if (request->empty()) return;
  PutInOrder(request);
  std::vector<const PushEntry*> entries;
  for (const Outgoing& one : *request) entries.push_back(&one.entry);
  const int64_t sent_ns = NowNs(CLOCK_MONOTONIC);
  Reply reply = client.Post(RequestOf(entries, protocol_), stop_);
  if (stop_ && reply.status == 0) return;
  SendOutcome outcome = OutcomeOf(reply.status);
  if (outcome == SendOutcome::kSent && protocol_ == PushProtocol::kOtlp) {
    if (std::optional<std::string> why = RejectedByOtlp(reply.text)) {
      outcome = SendOutcome::kRefused;
      reply.text = *std::move(why);
    }
  }
  const std::lock_guard lock(mutex_);
  ++counts_.requests;
  LookAtServersClock(reply, sent_ns);
  keeps_order_ = keeps_order_ || LastTimeIn(reply.text).has_value();
  if (outcome == SendOutcome::kSent && protocol_ == PushProtocol::kPush) {
    several_of_a_series_ = !keeps_order_ && NowNs(CLOCK_MONOTONIC) - sent_ns > kSlowAnswer;
  } else if (keeps_order_) {
    several_of_a_series_ = false;
  }
  // /ingest also answers 422 for errors of the server itself, for example before it knows an ingester.
  if (protocol_ == PushProtocol::kIngest && reply.status == 422 && tries_ < kMaxIngestTries) {
    outcome = SendOutcome::kTryAgain;
  }
  Take(*request, reply, outcome);
}

void Sender::Take(const Request& request, const Reply& reply, SendOutcome outcome) {
  std::vector<bool> not_taken(request.size(), outcome != SendOutcome::kSent);
  bool is_named = false;
  if (outcome != SendOutcome::kSent && request.size() > 1) {
    std::vector<const PushEntry*> entries;
    for (const Outgoing& one : request) entries.push_back(&one.entry);
    if (std::optional<std::vector<bool>> named = NotTakenOf(reply.text, entries)) {
      not_taken = *std::move(named);
      is_named = true;
    }
  }
  if (outcome == SendOutcome::kRefused && request.size() == 1 && WasTaken(request[0], reply.text)) {
    outcome = SendOutcome::kSent;
    not_taken[0] = false;
  }
  const bool is_aside = outcome == SendOutcome::kRefused && request.size() == 1;
  const bool is_too_large = reply.status == 413 && request.size() > 1;
  if (is_aside) {
    if (!CorrectTime(request[0], reply.text)) {
      SetAside(request[0], WhatItSaid(reply));
      rejected_series_.insert(request[0].waiting.series);
    }
  } else {
    std::map<Spool*, std::pair<std::vector<uint64_t>, std::vector<uint64_t>>> numbers;  // accepted, and not
    for (size_t i = 0; i < request.size(); ++i) {
      auto& [taken, again] = numbers[request[i].spool.get()];
      const EntryId id(request[i].spool.get(), request[i].waiting.number);
      (not_taken[i] ? again : taken).push_back(id.second);
      if (not_taken[i] && outcome == SendOutcome::kRefused && !is_too_large) alone_.insert(id);
      if (not_taken[i]) continue;
      alone_.erase(id);
      corrected_.erase(id);
      rejected_series_.erase(request[i].waiting.series);
      int64_t& last_ns = last_sent_ns_[request[i].waiting.series];
      last_ns = std::max(last_ns, request[i].entry.until_ns);
      ++counts_.sent;
      counts_.bytes += request[i].entry.pprof.size();
    }
    // An error for several profiles does not prove that none was accepted.
    const bool is_sure = is_named || (request.size() == 1 ? !reply.left_us : reply.status == 0 && !reply.left_us);
    for (size_t i = 0; i < request.size(); ++i) {
      const uint64_t series = request[i].waiting.series;
      const int64_t until_ns = request[i].entry.until_ns;
      if (not_taken[i] && !is_sure) {
        in_doubt_ns_[series].insert(until_ns);
      } else if (const auto doubts = in_doubt_ns_.find(series); !not_taken[i] && doubts != in_doubt_ns_.end()) {
        doubts->second.erase(doubts->second.begin(), doubts->second.upper_bound(until_ns));  // none earlier is left
        if (doubts->second.empty()) in_doubt_ns_.erase(doubts);
      }
    }
    for (auto& [spool, of_spool] : numbers) {
      if (!of_spool.first.empty()) spool->Sent(of_spool.first);
      if (!of_spool.second.empty()) spool->Return(of_spool.second, is_sure);
    }
  }
  const bool any_taken = std::find(not_taken.begin(), not_taken.end(), false) != not_taken.end();
  if (any_taken || is_aside) {
    last_taken_ = Clock::now();
    took_while_draining_ = draining_;
  }
  if (outcome == SendOutcome::kSent) {
    if (request.size() >= most_ && most_ < MaxEntries(protocol_)) {
      most_ = most_ < most_taken_ ? std::min(most_ * 2, most_taken_) : most_ + 1;
    }
  } else if (outcome == SendOutcome::kTryAgain || is_too_large) {
    most_ = std::max<size_t>(1, request.size() / 2);
    if (is_too_large || reply.status == 429) most_taken_ = most_;
  }
  if (any_taken || is_aside) tries_ = 0;
  if (outcome == SendOutcome::kTryAgain || outcome == SendOutcome::kWrongSettings) return TryLater(reply, outcome);
  if (!trouble_.empty() && reply.status != 0) {
    const auto lasted = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - trouble_since_).count();
    Say(fmt::format("{}: accepts profiles again after {}. Sending those that waited.", url_, FormatDuration(lasted)));
    trouble_.clear();
  }
  tries_ = 0;
}

void Sender::SetAside(const Outgoing& one, const std::string& why) {
  one.spool->SetAside(one.waiting, one.entry);
  alone_.erase({one.spool.get(), one.waiting.number});
  corrected_.erase({one.spool.get(), one.waiting.number});
  ++counts_.set_aside;
  const std::string known = why.substr(0, 80);  // without the part that differs between profiles
  if (said_refusals_.size() >= kMaxRefusalMessages || !said_refusals_.insert(known).second) return;
  Say(fmt::format("{}: rejected a profile ({}). Set it aside in {}/.push; further rejections are not reported.", url_,
                  why, Printable(one.spool->out())));
}

void Sender::TryLater(const Reply& reply, SendOutcome outcome) {
  SayTrouble(reply, outcome);
  static std::minstd_rand random{Seed()};
  for (const auto& one : spools_) {
    one->WriteDown();
    if (reply.status == 401 || reply.status == 403) one->Refused();
  }
  ++counts_.failures;
  // An unreachable server, or one that rejects our credentials, will not recover within a moment; an overloaded one
  // may.
  const bool is_there = reply.status != 0 && outcome == SendOutcome::kTryAgain;
  gave_up_ = gave_up_ || (draining_ && !took_while_draining_ && !is_there);
  // Requests that were under way at the same time fail together. Count them as one failure.
  const auto now = Clock::now();
  if (now >= not_before_) ++tries_;
  const double chance = std::uniform_real_distribution<double>(0, 1)(random);
  not_before_ = std::max(not_before_, now + WaitBeforeTry(std::max(0, tries_ - 1), reply.retry_after_s, chance));
}

void Sender::SayTrouble(const Reply& reply, SendOutcome outcome) {
  const std::string what = WhatItSaid(reply);
  const std::string known = fmt::format("{} {}", reply.status, what.substr(0, 80));
  if (trouble_ == known) return;
  if (trouble_.empty()) trouble_since_ = Clock::now();
  trouble_ = known;
  std::string advice = "Profiles wait on disk until then";
  if (outcome == SendOutcome::kWrongSettings) {
    advice =
        reply.status == 404 || reply.status == 405
            ? (protocol_ == PushProtocol::kOtlp
                   ? "No collector that accepts profiles answers there. Check the URL, its profiles pipeline, and its feature gate service.profilesSupport"
                   : "No Pyroscope 1.0 or newer answers there. Check the URL, or add --to ingest for an older one")
        : reply.status == 401 || reply.status == 403 ? "Check --token-file, --user-file and --tenant"
                                                     : "Check the URL and the proxy";
  }
  Say(fmt::format("{}: does not accept profiles ({}). {}; retrying.", url_, what, advice));
}

}  // namespace holdfast
