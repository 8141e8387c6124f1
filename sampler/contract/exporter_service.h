// Whether an exporter serves an output folder: the exporter holds a lock on a file beside the tables, and root leaves
// its mark there. The target checks before it starts an exporter, the tool before it waits for one. System calls only;
// any thread.
#ifndef HOLDFAST_SAMPLER_CONTRACT_EXPORTER_SERVICE_H_
#define HOLDFAST_SAMPLER_CONTRACT_EXPORTER_SERVICE_H_

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// The exporter of this user's tables for an output folder, according to the lock file and its owner.
enum class Service {
  kNobody,  // no exporter; one may be started
  kServed,  // an exporter holds the lock
  kByRoot,  // root's mark: its exporter takes this user's tables (table_owner.h), but none is running
  kBarred,  // another user has put a file there: no exporter of this user can get the lock
};
// `id`: identifies the folder, as in its tables' headers.
Service ServiceOf(const char* tables, const char* out, FolderId id);
inline bool ExporterServes(const char* tables, const char* out, FolderId id) {
  return ServiceOf(tables, out, id) == Service::kServed;
}

// Wakes the exporter that holds this user's lock for the folder: there is a new table, or a table
// has a new owner. The
// exporter watches its lock file, so exporters of other folders sleep on. Without an exporter this does nothing.
void AnnounceTable(const char* tables, const char* out, FolderId id);
// The last part of a table's name before the suffix: a hash of the output folder's path. An exporter opens only tables
// with the hash of its own folder.
uint64_t OutHash(const char* out);

inline constexpr uint64_t kLongestLockPath = 700;
// Writes "<tables>/holdfast.<uid>.<hash>.lock" into `path`. The hash covers `out`, `id` (two containers may each have a
// folder of that path) and the layout's version: an exporter of another version cannot read our tables.
void ExporterLockPath(const char* tables, const char* out, FolderId id, uint32_t uid, char* path, uint64_t capacity,
                      uint32_t version = kLayoutVersion);
// Root's marks for another user are where that user's lock would be. There are two: one with the folder's id, which
// decides; and one without (`id` not known), for processes that cannot see the folder (below a home of mode 0700). The
// second is shared by all containers that have a folder of that path.
inline void MarkPath(const char* tables, const char* out, FolderId id, uint32_t user, char* path, uint64_t capacity) {
  ExporterLockPath(tables, out, id, user, path, capacity);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_EXPORTER_SERVICE_H_
