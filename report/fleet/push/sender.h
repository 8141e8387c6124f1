// The threads that send the entries of spools: many profiles in a request, several requests at a time, each profile
// once. Profiles of one series are sent in the order of their times, so each series is in at most one request under way.
// A request has one profile of a series, or several if the server takes its time to answer, as Pyroscope 2 does: it
// answers twice a second, and accepts the profiles of a series in any order.
//
//   2xx                              all of the request are sent
//   no answer, 408, 429, 5xx         tried again: after Retry-After, or after 1 s, 2 s … 60 s, each shortened by up to half, so
//                                    that a thousand pushers do not come back at once
//   401, 403, 404, 407, redirections the same: the settings are wrong, not the profile
//   422 of /ingest                   the same for a minute, because Pyroscope 1 also reports its own errors so; then
//   anything else                    the profile is set aside, and the next ones are sent
// If a request with several profiles fails, Pyroscope 2 names the profiles that its own errors hit. Otherwise it is unknown
// which were accepted, and all are sent again with the same ids and times: one by one after a rejection, else, and after
// 413, half as many per request. Each change of the server's state is printed once.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_SENDER_H_
#define HOLDFAST_REPORT_FLEET_PUSH_SENDER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "report/fleet/push/push_client.h"
#include "report/fleet/push/push_entry.h"
#include "report/fleet/push/spool.h"

namespace holdfast {

enum class SendOutcome { kSent, kTryAgain, kWrongSettings, kRefused };
SendOutcome OutcomeOf(int status);
// `random` in [0, 1].
std::chrono::milliseconds WaitBeforeTry(int tries, int retry_after_s, double random);

class Sender {
 public:
  // Pyroscope 2 collects requests for half a second before it answers. Four requests of 256 profiles are two thousand
  // profiles a second.
  static constexpr size_t kMaxRequests = 4;
  // Uncompressed bytes per request: Pyroscope 1 counts a whole request against its burst limit of 2 MB.
  static constexpr size_t kMaxRequestBytes = 1 << 20;

  struct Counts {
    uint64_t sent = 0, bytes = 0, set_aside = 0, failures = 0, requests = 0;
  };

  // `clients`: one for each request that may be under way at once.
  Sender(std::vector<std::unique_ptr<PushClient>> clients, PushProtocol protocol);
  ~Sender();  // aborts requests under way

  void Add(std::shared_ptr<Spool> spool);
  void Wake();  // call when there may be new entries
  // Sends for as long as the server accepts profiles: until nothing waits, until it has accepted none for `patience`,
  // or until it is unreachable or rejects our credentials. Returns whether nothing waits.
  bool Drain(std::chrono::milliseconds patience);
  Counts counts() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Outgoing {
    std::shared_ptr<Spool> spool;
    Spool::Waiting waiting;
    PushEntry entry;
  };
  using Request = std::vector<Outgoing>;

  void Run(PushClient& client);
  // Returns the next request, or an empty one if there is nothing to send now. Requires mutex_.
  Request NextRequest();
  void SetAsideOldEntries(Request* request);
  // Whether the server has this profile: it was sent before, and the last profile of its series that Pyroscope 1 names
  // was sent with it or after it.
  bool WasTaken(const Outgoing& one, std::string_view answer) const;
  void Send(PushClient& client, Request* request);
  // Processes the outcome of a request. Requires mutex_.
  void Take(const Request& request, const Reply& reply, SendOutcome outcome);
  // Gives a profile a time that the server accepts, if a wrong clock set its time or if another pusher sent a later
  // profile of its series. Returns false if the rejection has another reason.
  bool CorrectTime(const Outgoing& one, std::string_view answer = {});
  bool GiveTime(const Outgoing& one, int64_t until_ns);
  // Moves profiles of a series after the last one that was sent, even if our clock was wrong for a while.
  void PutInOrder(Request* request);
  void LookAtServersClock(const Reply& reply, int64_t sent_ns);
  int64_t ServerNowNs() const;
  void SetAside(const Outgoing& one, const std::string& why);
  void TryLater(const Reply& reply, SendOutcome outcome);
  void SayTrouble(const Reply& reply, SendOutcome outcome);
  size_t Waiting() const;  // requires mutex_

  const std::vector<std::unique_ptr<PushClient>> clients_;
  const PushProtocol protocol_;
  const std::string url_;
  std::atomic<bool> stop_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_, drained_;
  std::vector<std::shared_ptr<Spool>> spools_;
  absl::flat_hash_set<uint64_t> series_under_way_;
  using EntryId = std::pair<const Spool*, uint64_t>;
  absl::flat_hash_set<EntryId> alone_;                   // rejected together with others: sent alone to find the cause
  absl::flat_hash_set<uint64_t> rejected_series_;        // their next profiles are sent alone, too
  absl::flat_hash_map<EntryId, int> corrected_;          // how often CorrectTime changed the time
  absl::flat_hash_map<uint64_t, int64_t> last_sent_ns_;  // by series
  absl::flat_hash_map<uint64_t, std::set<int64_t>> in_doubt_ns_;  // by series: times of profiles that may have arrived
  bool several_of_a_series_ = false, keeps_order_ = false;        // as the server is known
  // Bounds for the server's clock minus our monotonic clock. Answers state whole seconds, so they give only a range.
  int64_t server_least_ns_ = INT64_MIN, server_max_ns_ = INT64_MAX;
  size_t requests_under_way_ = 0;
  // Entries of the next request. Half as many after a failure; then it doubles, and beyond half of what exceeded a limit
  // (413, 429), grows by one per answer: each such failure may make Pyroscope 2 count profiles twice for a while.
  size_t most_, most_taken_;
  Counts counts_;
  int tries_ = 0;  // since the server last accepted something
  bool draining_ = false, took_while_draining_ = false, gave_up_ = false;
  Clock::time_point not_before_{}, last_taken_{};
  std::string trouble_;  // as printed; "": none
  Clock::time_point trouble_since_{};
  std::set<std::string> said_refusals_;
  std::vector<std::thread> threads_;  // last: they use the other members
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_SENDER_H_
