// The thread that sends what waits in spools: one at a time, in order, each once.
//
//   2xx                              sent
//   no answer, 408, 429, 5xx         tried again: after Retry-After, or after 1 s, 2 s … 60 s, each less up to a half, so that
//                                    a thousand pushers do not come back at once
//   401, 403, 404, 407, redirections the same: the settings are wrong, not the profile
//   422 of /ingest                   the same for a minute, as Pyroscope 1 says so of errors of its own, too; then
//   anything else                    the profile is set aside, and it goes on with the next
// What happens to it is said once each time that it changes.
#ifndef HOLDFAST_REPORT_PUSH_SENDER_H_
#define HOLDFAST_REPORT_PUSH_SENDER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "report/push/push_client.h"
#include "report/push/push_entry.h"
#include "report/push/spool.h"

namespace holdfast {

enum class Outcome { kSent, kTryAgain, kWrongSettings, kRefused };
Outcome OutcomeOf(int status);
// `random` in [0, 1].
std::chrono::milliseconds WaitBeforeTry(int tries, int retry_after_s, double random);

class Sender {
 public:
  struct Counts {
    uint64_t sent = 0, bytes = 0, set_aside = 0, failures = 0;
  };

  Sender(std::unique_ptr<PushClient> client, PushProtocol protocol);
  ~Sender();  // breaks off what is under way

  void Add(std::shared_ptr<Spool> spool);
  void Wake();  // there is something new
  // Until nothing waits, or `longest` has passed, or it is clear that the server does not take it; true: nothing waits.
  bool Drain(std::chrono::milliseconds longest);
  Counts counts() const;

 private:
  void Run();
  std::shared_ptr<Spool> NextSpool();
  void SendFirstOf(Spool& spool);
  void SayTrouble(const Reply& reply, Outcome outcome);
  size_t Waiting() const;  // mutex_ is held

  const std::unique_ptr<PushClient> client_;
  const PushProtocol protocol_;
  std::atomic<bool> stop_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Spool>> spools_;
  size_t turn_ = 0;
  Counts counts_;
  int tries_ = 0;  // of the one that is tried again
  bool draining_ = false;
  std::chrono::steady_clock::time_point not_before_{};
  // Only of the thread.
  std::string trouble_;  // as it was said; "": none
  std::chrono::steady_clock::time_point trouble_since_{};
  std::set<std::string> said_refusals_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_SENDER_H_
