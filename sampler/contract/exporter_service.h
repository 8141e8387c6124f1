// Whether somebody exports an output folder: the exporter holds a lock on a file beside the tables, and root leaves its mark
// there. The target asks before it starts one, the tool before it waits for one. System calls only; any thread.
#ifndef HOLDFAST_SAMPLER_CONTRACT_EXPORTER_SERVICE_H_
#define HOLDFAST_SAMPLER_CONTRACT_EXPORTER_SERVICE_H_

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// Who exports this user's tables of an output folder: told by the lock file and whose it is.
enum class Service {
  kNobody,  // no exporter; one may be started
  kServed,  // an exporter holds the lock
  kByRoot,  // the file is root's mark that its exporter takes this user's tables (table_owner.h), but none is at work
  kBarred,  // another user has put a file there: no exporter of this user can come to hold the lock
};
// `id`: of the folder, as its tables' headers have it.
Service ServiceOf(const char* tables, const char* out, FolderId id);
inline bool ExporterServes(const char* tables, const char* out, FolderId id) {
  return ServiceOf(tables, out, id) == Service::kServed;
}

inline constexpr uint64_t kLongestLockPath = 700;
// Writes "<tables>/holdfast.<uid>.<hash>.lock" into `path`. The hash is of `out`, of `id` (two containers may each have a
// folder of that path) and of the layout's version: an exporter of another one cannot read our tables.
void ExporterLockPath(const char* tables, const char* out, FolderId id, uint32_t uid, char* path, uint64_t capacity,
                      uint32_t version = kLayoutVersion);
// Root's marks for another user lie where that user's lock would be. There are two: by the folder's id, which is what
// counts; and without one (`id` not known), for who cannot see the folder (below a home of mode 0700). The second is shared by
// all containers that have a folder of that path.
inline void MarkPath(const char* tables, const char* out, FolderId id, uint32_t user, char* path, uint64_t capacity) {
  ExporterLockPath(tables, out, id, user, path, capacity);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_EXPORTER_SERVICE_H_
