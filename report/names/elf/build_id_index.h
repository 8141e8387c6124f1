// Finds files below given folders by build id, whatever the files are called.
//
// The first call of Find searches the folders: a build's output, downloaded packages, a copy of /usr. The search reads
// the ELF header and notes of at most kMaxFiles files, and does not follow links to folders. One thread.
#ifndef HOLDFAST_REPORT_NAMES_ELF_BUILD_ID_INDEX_H_
#define HOLDFAST_REPORT_NAMES_ELF_BUILD_ID_INDEX_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace holdfast {

class BuildIdIndex {
 public:
  static constexpr size_t kMaxFiles = 200'000;

  explicit BuildIdIndex(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  // Returns the files with this build id (lower-case hexadecimal), ordered by path.
  const std::vector<std::string>& Find(const std::string& build_id);

 private:
  void Read();

  std::vector<std::string> folders_;  // not searched yet
  absl::flat_hash_map<std::string, std::vector<std::string>> files_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_BUILD_ID_INDEX_H_
