// Eight workers that share a cache, for docs/tutorial.md: reading is quick, but now and then one of them cleans up.
//   g++ -g -O2 -pthread -o jobs jobs.cc && ./jobs 5
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

std::mutex cache_mutex;
std::map<int, std::string> cache;

std::string read_cache(int key) {
  std::lock_guard lock(cache_mutex);
  return cache[key % 1000];
}

// Holds the lock while it does slow work.
void clean_cache() {
  std::lock_guard lock(cache_mutex);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  cache.clear();
}

void work(int worker, std::chrono::steady_clock::time_point end) {
  for (int job = 0; std::chrono::steady_clock::now() < end; ++job) {
    read_cache(job);
    if (worker == 0 && job % 100 == 0) clean_cache();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

int main(int argc, char** argv) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(argc > 1 ? std::atoi(argv[1]) : 5);
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 8; ++worker) workers.emplace_back(work, worker, end);
  for (std::thread& worker : workers) worker.join();
  std::printf("done\n");
}
