#include "report/pprof/comment_records.h"

#include <algorithm>

namespace holdfast {
namespace {

// Comments that become records to make room for others, the least informative first. Of several equal ones, the last.
constexpr std::string_view kDispensable[] = {"interval since ", "interval in part: ", "no lines: ",   "no names: ",
                                             "exact: ",         "executable: ",       "tail calls: ", "kind: "};

}  // namespace

bool IsRecord(std::string_view comment) {
  const std::string_view key = comment.substr(0, comment.find(": "));
  return key == "own table_steps" || key == "own memory_probes" || key == "resident_bytes" || key == "memory" ||
         key == "memory file" || key == "memory left out" || key == "object" || key == "merged from" ||
         key == "profiled" || key == "unseen waits";
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
