#include "report/builder/written_threads.h"

#include <map>
#include <utility>
#include <vector>

#include "report/base/printable.h"
#include "report/profile/typed_records.h"

namespace holdfast {

void AddThreadRecords(const ProcessState& state, const FramesOfStack& frames, Profile* profile) {
  constexpr size_t kMaxThreads = 256;
  constexpr size_t kMaxFrames = 20;  // frames between clone and a thread's own function
  std::map<std::vector<uint32_t>, uint32_t> stacks;
  record::Threads threads;
  for (size_t i = 0; i < state.thread_names.size(); ++i) {
    const NotedThreadInfo& thread = state.table->noted_threads[i];
    const std::string& name = state.thread_names[i];
    const StackInfo& info = state.stack(thread.stack);
    if (name.empty() || info.truncated || info.overflow || info.missing) continue;
    if (threads.thread.size() == kMaxThreads) break;
    std::vector<uint32_t> outer = frames(thread.stack);
    if (outer.size() > kMaxFrames) outer.erase(outer.begin(), outer.end() - kMaxFrames);
    const auto [place, added] = stacks.emplace(outer, static_cast<uint32_t>(stacks.size() + 1));
    threads.thread.push_back({.stack = place->second, .tid = thread.id, .name = Printable(name)});
    if (added) threads.stack.push_back(std::move(outer));
  }
  if (!threads.thread.empty()) profile->mutable_records()->threads = std::move(threads);
}

}  // namespace holdfast
