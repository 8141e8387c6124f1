#include "report/push/sender.h"

#include <sys/random.h>

#include <algorithm>
#include <random>
#include <utility>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/otlp/otlp_request.h"

namespace holdfast {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLongestWait{60'000}, kLongestAsked{300'000};
constexpr size_t kMostRefusalsSaid = 20;
constexpr int kMostIngestTries = 6;  // a minute
// The server takes nothing that is older than an hour; a minute for clocks that differ.
constexpr int64_t kOldest = int64_t{59} * 60 * kSecond;

// Not std::random_device, which needs glibc 2.36.
uint32_t Seed() {
  uint32_t seed = 1;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
    seed = static_cast<uint32_t>(Clock::now().time_since_epoch().count());
  return seed;
}

// "{"code":"invalid_argument","message":"…"}", "429: …" → one line that can be printed.
std::string WhatItSaid(const Reply& reply) {
  std::string text = Printable(reply.text.substr(0, 300));
  if (reply.status == 0) return text;
  return text.empty() ? fmt::format("{}", reply.status) : fmt::format("{}: {}", reply.status, text);
}

}  // namespace

Outcome OutcomeOf(int status) {
  if (status >= 200 && status < 300) return Outcome::kSent;
  if (status == 0 || status == 408 || status == 429 || status >= 500) return Outcome::kTryAgain;
  if (status < 400 || status == 401 || status == 403 || status == 404 || status == 405 || status == 407) {
    return Outcome::kWrongSettings;
  }
  return Outcome::kRefused;
}

std::chrono::milliseconds WaitBeforeTry(int tries, int retry_after_s, double random) {
  // Asked for that much: never earlier, and up to a tenth later.
  if (retry_after_s > 0) {
    const auto asked = std::min<std::chrono::milliseconds>(std::chrono::seconds(retry_after_s), kLongestAsked);
    return asked + std::chrono::milliseconds(static_cast<int64_t>(static_cast<double>(asked.count()) * 0.1 * random));
  }
  const auto full = std::min(kLongestWait, std::chrono::milliseconds(1000) * (1 << std::min(tries, 6)));
  return full - std::chrono::milliseconds(static_cast<int64_t>(static_cast<double>(full.count()) * 0.5 * random));
}

Sender::Sender(std::unique_ptr<PushClient> client, PushProtocol protocol)
    : client_(std::move(client)), protocol_(protocol), thread_([this] { Run(); }) {}

Sender::~Sender() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Sender::Add(std::shared_ptr<Spool> spool) {
  const std::lock_guard lock(mutex_);
  spools_.push_back(std::move(spool));
  changed_.notify_all();
}

void Sender::Wake() {
  const std::lock_guard lock(mutex_);  // else it may come just before somebody begins to wait
  changed_.notify_all();
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

bool Sender::Drain(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  not_before_ = {};  // one more try, whatever it waits for
  const uint64_t failures = counts_.failures;
  changed_.notify_all();
  changed_.wait_for(lock, longest, [&] { return Waiting() == 0 || counts_.failures > failures; });
  return Waiting() == 0;
}

// Those with something to send take turns.
std::shared_ptr<Spool> Sender::NextSpool() {
  for (size_t i = 0; i < spools_.size(); ++i) {
    const auto& spool = spools_[(turn_ + i) % spools_.size()];
    if (spool->waiting() == 0) continue;
    if (tries_ == 0) turn_ = turn_ + i + 1;  // what is tried again keeps its turn
    return spool;
  }
  return nullptr;
}

void Sender::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const std::shared_ptr<Spool> spool = NextSpool();
    if (spool == nullptr) {
      changed_.notify_all();  // for Drain
      changed_.wait(lock);
      continue;
    }
    if (Clock::now() < not_before_) {
      changed_.wait_until(lock, not_before_);
      continue;
    }
    lock.unlock();
    SendFirstOf(*spool);
    lock.lock();
  }
}

void Sender::SendFirstOf(Spool& spool) {
  const auto front = spool.Front();
  if (!front.has_value()) return;
  const auto& [waiting, entry] = *front;
  Reply reply;
  Outcome outcome;
  if (protocol_ != PushProtocol::kOtlp && entry.until_ns < NowNs(CLOCK_REALTIME) - kOldest) {
    outcome = Outcome::kRefused;
    reply.text = "it is older than an hour, which the server takes from nobody";
  } else {
    reply = client_->Post(RequestOf(entry, protocol_), stop_);
    if (!reply.left_us && reply.status != 200) spool.NotTaken();
    if (stop_ && reply.status == 0) return;
    outcome = OutcomeOf(reply.status);
    if (outcome == Outcome::kSent && protocol_ == PushProtocol::kOtlp) {
      if (std::optional<std::string> why = RejectedByOtlp(reply.text)) {
        outcome = Outcome::kRefused;
        reply.text = *std::move(why);
      }
    }
  }
  // There it also says that of an error of its own: it has just begun, or knows no ingester.
  if (protocol_ == PushProtocol::kIngest && reply.status == 422 && tries_ < kMostIngestTries) {
    outcome = Outcome::kTryAgain;
  }
  if (outcome == Outcome::kSent) spool.Sent(waiting);
  if (outcome == Outcome::kTryAgain || outcome == Outcome::kWrongSettings) {
    SayTrouble(reply, outcome);
    static thread_local std::minstd_rand random{Seed()};
    const std::lock_guard lock(mutex_);
    for (const auto& one : spools_) one->WriteDown();
    ++counts_.failures;
    not_before_ = Clock::now() +
                  WaitBeforeTry(tries_++, reply.retry_after_s, std::uniform_real_distribution<double>(0, 1)(random));
    changed_.notify_all();
    return;
  }
  if (!trouble_.empty() && reply.status != 0) {
    const auto lasted = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - trouble_since_).count();
    Say(fmt::format("{}: takes profiles again, after {}; sending what waited.", client_->options().url,
                    FormatDuration(lasted)));
    trouble_.clear();
  }
  if (outcome == Outcome::kRefused) {
    spool.SetAside(waiting, entry);
    const std::string why = WhatItSaid(reply);
    const std::string known = why.substr(0, 80);  // without what differs from one to the next
    if (said_refusals_.size() < kMostRefusalsSaid && said_refusals_.insert(known).second) {
      Say(fmt::format("{}: a profile was not taken ({}). It is set aside in {}/.push; it is not said again.",
                      client_->options().url, why, Printable(spool.out())));
    }
  }
  const std::lock_guard lock(mutex_);
  tries_ = 0;
  if (outcome == Outcome::kSent) {
    ++counts_.sent;
    counts_.bytes += entry.pprof.size();
  } else {
    ++counts_.set_aside;
  }
  changed_.notify_all();
}

void Sender::SayTrouble(const Reply& reply, Outcome outcome) {
  const std::string what = WhatItSaid(reply);
  const std::string known = fmt::format("{} {}", reply.status, what.substr(0, 80));
  if (trouble_ == known) return;
  if (trouble_.empty()) trouble_since_ = Clock::now();
  trouble_ = known;
  std::string advice = "Profiles wait on disk until it does";
  if (outcome == Outcome::kWrongSettings) {
    advice =
        reply.status == 404 || reply.status == 405
            ? (protocol_ == PushProtocol::kOtlp
                   ? "No collector that takes profiles answers there: check the URL, its pipeline for profiles, and its feature "
                     "gate service.profilesSupport"
                   : "No Pyroscope of 1.0 or newer answers there: check the URL, or add --to ingest for an older one")
        : reply.status == 401 || reply.status == 403 ? "Check --token-file, --user-file and --tenant"
                                                     : "Check the URL and the proxy";
  }
  Say(fmt::format("{}: does not take profiles ({}). {}; trying again.", client_->options().url, what, advice));
}

}  // namespace holdfast
