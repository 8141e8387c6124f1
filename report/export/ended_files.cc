#include "report/export/ended_files.h"

namespace holdfast {

uint64_t EndedFiles::Shrink(const OutputFolder& output, uint64_t max_bytes, uid_t user) {
  uint64_t removed = 0;
  std::deque<ProfileName>& files = files_[user];
  while (max_bytes != 0 && !files.empty() && output.bytes() > max_bytes) {
    removed += output.Shrink(max_bytes, {files.front()}).size();
    files.pop_front();
  }
  return removed;
}

}  // namespace holdfast
