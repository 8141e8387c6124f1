// Deep stacks of functions with long C++ names. With each line on standard input, they hold more memory, in two ways that
// differ only far from malloc, and wait for a lock, in named threads. For tests of terminal output.
#include <pthread.h>

#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "known.h"

namespace application::storage::internal {

template <typename Key, typename Value, typename Policy>
struct ReplicatedHashTable {
  template <typename Iterator>
  KNOWN void InsertOrAssignWithRetries(const Iterator& from, const std::map<std::string, std::vector<Value>>& hints,
                                       int depth) {
    if (depth > 0) {
      InsertOrAssignWithRetries(from, hints, depth - 1);
      Use(&depth);
      return;
    }
    for (int i = 0; i < 50; ++i) kept.push_back(new std::string(1000, static_cast<char>('a' + i % 26)));
  }
  std::vector<std::string*> kept;
};

struct EvictLeastRecentlyUsedEntriesFirst {};
using Table =
    ReplicatedHashTable<std::string, std::unordered_map<std::string, double>, EvictLeastRecentlyUsedEntriesFirst>;
const std::map<std::string, std::vector<std::unordered_map<std::string, double>>> no_hints;

KNOWN void FlushConfigurationChangesToReplicas(Table* table) {
  table->InsertOrAssignWithRetries(std::string("a"), no_hints, 40);
}
KNOWN void FlushConfigurationChangesToBackups(Table* table) {
  table->InsertOrAssignWithRetries(std::string("a"), no_hints, 40);
}

std::mutex table_mutex;

KNOWN void HoldTableWhileOthersWait(std::chrono::milliseconds time) {
  const std::lock_guard<std::mutex> lock(table_mutex);
  std::this_thread::sleep_for(time);
}
template <typename Request>
KNOWN void HandleRequestsUnderTheTableMutex(const std::vector<std::map<std::string, Request>>& requests) {
  pthread_setname_np(pthread_self(), "request-handler");
  const std::lock_guard<std::mutex> lock(table_mutex);
  Use(const_cast<void*>(static_cast<const void*>(&requests)));
}

}  // namespace application::storage::internal

int main() {
  using namespace application::storage::internal;
  static Table table;
  const std::vector<std::map<std::string, std::unordered_map<std::string, double>>> requests;
  std::cout << "ready" << std::endl;
  int lines = 0;
  for (std::string line; std::getline(std::cin, line);) {
    FlushConfigurationChangesToReplicas(&table);
    FlushConfigurationChangesToBackups(&table);
    std::thread holder([] { HoldTableWhileOthersWait(std::chrono::milliseconds(20)); });
    std::thread waiter([&] {
      HandleRequestsUnderTheTableMutex(requests);
      // Until the next line: a snapshot sees it wait by name.
    });
    holder.join();
    waiter.join();
    std::cout << "done " << ++lines << std::endl;
  }
  return 0;
}
