// Allocates and frees maps, vectors and strings, like C++ programs, in the given number of threads. scripts/bench times it
// with every allocation recorded.
//     maps_and_strings THREADS ROUNDS
#include <stdlib.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

void Work(unsigned random, int rounds) {
  std::map<std::string, std::vector<std::string>> lists;
  for (int i = 0; i < rounds; ++i) {
    random = random * 1664525u + 1013904223u;
    auto& list = lists["a key that is not so short " + std::to_string(random >> 22)];
    list.push_back("a value that lies on the heap " + std::to_string(random));
    if (list.size() > 8) {
      list.clear();
      list.shrink_to_fit();
    }
    if (lists.size() > 900) lists.erase(lists.begin());
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= static_cast<unsigned>(atoi(argv[1])); ++i) threads.emplace_back(Work, i, atoi(argv[2]));
  for (auto& thread : threads) thread.join();
  return 0;
}
