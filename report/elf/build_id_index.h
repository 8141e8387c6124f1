// Which files below some folders have which build id, whatever they are called.
//
// The folders are looked through when the first build id is asked for: a build's output, a download of packages, a copy of
// /usr. At most kMostFiles files are looked at, each by its ELF header and notes only; links to folders are not followed.
// One thread.
#ifndef HOLDFAST_REPORT_ELF_BUILD_ID_INDEX_H_
#define HOLDFAST_REPORT_ELF_BUILD_ID_INDEX_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace holdfast {

class BuildIdIndex {
 public:
  static constexpr size_t kMostFiles = 200'000;

  explicit BuildIdIndex(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  // The files of this build id (lower-case hexadecimal), in the order of their paths.
  const std::vector<std::string>& Find(const std::string& build_id);

 private:
  void Read();

  std::vector<std::string> folders_;  // not looked through yet
  absl::flat_hash_map<std::string, std::vector<std::string>> files_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ELF_BUILD_ID_INDEX_H_
