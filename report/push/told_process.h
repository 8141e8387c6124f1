// What a server was told of one process so far, or will be once its spool is empty: what the next increase is counted from.
// Written down beside the spool, so that a pusher that starts again goes on where the last one was.
#ifndef HOLDFAST_REPORT_PUSH_TOLD_PROCESS_H_
#define HOLDFAST_REPORT_PUSH_TOLD_PROCESS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/live/profile_delta.h"
#include "report/push/push_labels.h"
#include "sampler/contract/layout.h"

namespace holdfast {

struct ToldProcess {
  std::string process;  // ProcessId: of this one alone
  std::string program = {};
  uint32_t pid = 0;  // as its files are called
  std::vector<PushLabel> labels = {};
  std::array<CumulativeValues, kProfileKinds> kinds = {};
  uint64_t last_entry = 0;  // the last of its entries in the spool that these values hold
};

std::string EncodeTold(const ToldProcess& told);
std::optional<ToldProcess> DecodeTold(std::string_view bytes);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_TOLD_PROCESS_H_
