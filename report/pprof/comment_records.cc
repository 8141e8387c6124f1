#include "report/pprof/comment_records.h"

#include <algorithm>

#include "sampler/contract/records.h"

namespace holdfast {
namespace {

// Comments that become records to make room for others, the least informative first. Of several equal ones, the last.
constexpr std::string_view kDispensable[] = {"interval since ", "interval in part: ", "no lines: ",   "no names: ",
                                             "exact: ",         "executable: ",       "tail calls: ", "kind: "};

// "7: …" and "7 name: …" of "lock 7 name: …"; "stack 3: …" and the like.
bool NamesOne(std::string_view text, std::initializer_list<std::string_view> what) {
  return (!text.empty() && text[0] >= '0' && text[0] <= '9') ||
         std::any_of(what.begin(), what.end(), [&](std::string_view word) { return text.starts_with(word); });
}

bool IsCounterOfKind(std::string_view key) {
  const size_t blank = key.find(' ');
  if (blank == std::string_view::npos) return false;
  const std::string_view what = key.substr(blank + 1);
  return (what == "contentions" || what == "acquired" || what == "delay_ns" || what == "gap_ns") &&
         std::find(std::begin(kWaitKindNames) + 1, std::end(kWaitKindNames), key.substr(0, blank)) !=
             std::end(kWaitKindNames);
}

}  // namespace

bool IsRecord(std::string_view comment) {
  if (comment.starts_with("lock ")) return NamesOne(comment.substr(5), {"stack ", "pair ", "site "});
  if (comment.starts_with("waiting ")) {
    return NamesOne(comment.substr(8), {"thread ", "stack ", "deadlock ", "not written: ", "unknown: "});
  }
  if (comment.starts_with("thread ")) return NamesOne(comment.substr(7), {"stack "});
  const std::string_view key = comment.substr(0, comment.find(": "));
  return key == "lock_samples" || key == "own table_steps" || key == "own memory_probes" || IsCounterOfKind(key) ||
         key == "resident_bytes" || key == "memory" || key == "memory file" || key == "memory left out" ||
         key == "object" || key == "merged from" || key == "profiled" || key == "unseen waits";
}

std::vector<bool> WrittenAsRecords(const Profile& profile) {
  std::vector<bool> records;
  size_t left = 0;
  for (const StringId comment : profile.comments) {
    records.push_back(IsRecord(profile.strings[comment]));
    left += !records.back();
  }
  for (const std::string_view start : kDispensable) {
    for (size_t i = records.size(); i-- > 0 && left > kMostComments;) {
      if (records[i] || !profile.strings[profile.comments[i]].starts_with(start)) continue;
      records[i] = true;
      --left;
    }
  }
  return records;
}

}  // namespace holdfast
