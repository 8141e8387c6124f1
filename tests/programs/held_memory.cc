// Holds and loses blocks in every way that a search for pointers must understand, then prints "ready" and waits for the
// end of its input. The argument chooses what it does:
//
//   plant          each kind below, reachable and lost
//   churn          moves pointers between slots all the time, in a second thread
//   graph SEED     random objects with random pointers; prints how many of them are unreachable
//   graphs         the same for each seed in its input, one after the other
//   large N BYTES  one list of N blocks; with a further argument 1,000 are lost, and a thread runs all the time
//   shares         lists, trees and tables of several variables; prints how many bytes each holds
//   idle           nothing besides
//   crash          as plant, and crashes at the end, with a core file
//
// Lost blocks are allocated by functions called lost_…, the others by kept_….
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct Link {
  Link* next;
  uint64_t payload[3];
};
// Visible outside this file, so that the compiler keeps them.
Link* kept_ring;
char* kept_large;
void* graph_roots[16];

namespace {

constexpr int kMany = 1000;

struct Base {
  virtual ~Base() = default;
  uint64_t value = 1;
};
struct SecondBase {
  virtual ~SecondBase() = default;
  uint64_t value = 2;
};
struct Derived : Base, SecondBase {
  uint64_t value = 3;
};

std::map<int, std::string>* kept_map;
std::unordered_map<int, std::vector<char>>* kept_table;
std::list<std::string>* kept_list;
std::vector<SecondBase*> kept_by_second_base;
std::vector<char*> kept_by_middle;
void** kept_in_mapping;
thread_local std::vector<char*>* kept_by_thread_local;
std::atomic<bool> stops{false};

__attribute__((noinline)) void kept_containers() {
  kept_map = new std::map<int, std::string>;
  kept_table = new std::unordered_map<int, std::vector<char>>;
  kept_list = new std::list<std::string>;
  for (int i = 0; i < kMany; ++i) {
    (*kept_map)[i] = std::string(40, 'm');
    (*kept_table)[i] = std::vector<char>(50);
    kept_list->emplace_back(60, 'l');
  }
}
__attribute__((noinline)) void kept_by_interior_pointers() {
  for (int i = 0; i < kMany; ++i) {
    kept_by_second_base.push_back(new Derived);
    kept_by_middle.push_back(static_cast<char*>(malloc(300)) + 150);
  }
}
__attribute__((noinline)) void kept_in_a_mapping() {
  kept_in_mapping = static_cast<void**>(
      mmap(nullptr, kMany * sizeof(void*), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  for (int i = 0; i < kMany; ++i) kept_in_mapping[i] = malloc(70);
}
__attribute__((noinline)) Link* new_ring(int count) {
  Link* first = static_cast<Link*>(calloc(1, sizeof(Link)));
  Link* last = first;
  for (int i = 1; i < count; ++i) {
    last->next = static_cast<Link*>(calloc(1, sizeof(Link)));
    last = last->next;
  }
  last->next = first;
  return first;
}
__attribute__((noinline)) void kept_others() {
  kept_ring = new_ring(kMany);
  kept_large = static_cast<char*>(malloc(1 << 20));
  memset(kept_large, 1, 1 << 20);
}

__attribute__((noinline)) void lost_blocks() {
  for (int i = 0; i < kMany; ++i) memset(malloc(80), 1, 80);
}
__attribute__((noinline)) void lost_list() {
  Link* last = nullptr;
  for (int i = 0; i < kMany; ++i) {
    Link* link = static_cast<Link*>(malloc(200));
    link->next = last;
    last = link;
  }
}
__attribute__((noinline)) void lost_rings() {
  for (int i = 0; i < 100; ++i) new_ring(10);
}
__attribute__((noinline)) void lost_map() {
  auto* map = new std::map<int, std::string>;
  for (int i = 0; i < kMany; ++i) (*map)[i] = std::string(90, 'x');
}
__attribute__((noinline)) void lost_large() {
  for (int i = 0; i < 20; ++i) memset(malloc(1 << 20), 1, 1 << 20);
}
// Overwrites what the calls above left on the stack.
__attribute__((noinline)) void clear_stack() {
  volatile char bytes[16 << 10];
  for (volatile char& byte : bytes) byte = 0;
}

void* hold_in_thread(void*) {
  kept_by_thread_local = new std::vector<char*>;
  for (int i = 0; i < kMany; ++i) kept_by_thread_local->push_back(static_cast<char*>(malloc(110)));
  void* volatile kept_on_stack[kMany];
  for (void* volatile& block : kept_on_stack) block = malloc(130);
  while (!stops) pause();
  return kept_on_stack[0];
}

void plant() {
  kept_containers();
  kept_by_interior_pointers();
  kept_in_a_mapping();
  kept_others();
  pthread_t thread;
  pthread_create(&thread, nullptr, hold_in_thread, nullptr);
  lost_blocks();
  lost_list();
  lost_rings();
  lost_map();
  lost_large();
  // Blocks in caches and fast bins are free, whatever they contain.
  std::vector<void*> freed;
  for (int i = 0; i < 200; ++i) freed.push_back(malloc(32));
  for (void* block : freed) free(block);
  clear_stack();
}

// Exchanges pointers between slots, so that a search always meets pointers in motion.
std::vector<void*> slots;
void churn() {
  slots.resize(100'000);
  for (size_t i = 0; i < slots.size() / 2; ++i) slots[i] = malloc(48);
  std::thread([] {
    std::mt19937_64 random(1);
    while (!stops) {
      const size_t a = random() % slots.size(), b = random() % slots.size();
      std::swap(slots[a], slots[b]);
    }
  }).detach();
}

// Random objects: each has up to four pointers, to the start or the middle of others. Roots are some of them. Prints the
// number that a search from the roots does not reach. The oracle is hidden from the search: it keeps no pointers.
constexpr uintptr_t kHide = 0x5a5a5a5a5a5a5a5a;
std::vector<uintptr_t> hidden;
void graph(unsigned seed) {
  std::mt19937_64 random(seed);
  constexpr size_t kObjects = 3000;
  for (const uintptr_t object : hidden) free(reinterpret_cast<void*>(object ^ kHide));
  hidden.clear();
  std::vector<size_t> sizes;
  std::vector<std::vector<size_t>> edges(kObjects);
  for (size_t i = 0; i < kObjects; ++i) {
    const size_t words = 4 + random() % (random() % 50 == 0 ? 3000 : 40);
    sizes.push_back(words * 8);
    hidden.push_back(reinterpret_cast<uintptr_t>(calloc(words, 8)) ^ kHide);
  }
  for (size_t i = 0; i < kObjects; ++i) {
    auto** object = reinterpret_cast<char**>(hidden[i] ^ kHide);
    for (size_t k = random() % 3; k > 0; --k) {
      const size_t to = random() % kObjects;
      object[random() % (sizes[i] / 8)] =
          reinterpret_cast<char*>(hidden[to] ^ kHide) + (random() % 2 == 0 ? 0 : random() % sizes[to]);
    }
    // Pointers may have been overwritten, so read them back.
    for (size_t word = 0; word < sizes[i] / 8; ++word) {
      if (object[word] == nullptr) continue;
      for (size_t to = 0; to < kObjects; ++to) {
        const auto start = hidden[to] ^ kHide, at = reinterpret_cast<uintptr_t>(object[word]);
        if (at >= start && at < start + sizes[to]) edges[i].push_back(to);
      }
    }
  }
  std::vector<bool> reached(kObjects);
  std::vector<size_t> next;
  for (void*& root : graph_roots) {
    const size_t at = random() % kObjects;
    root = reinterpret_cast<void*>(hidden[at] ^ kHide);
    if (!reached[at]) next.push_back(at);
    reached[at] = true;
  }
  while (!next.empty()) {
    const size_t at = next.back();
    next.pop_back();
    for (const size_t to : edges[at]) {
      if (!reached[to]) next.push_back(to);
      reached[to] = true;
    }
  }
  size_t lost = 0, lost_bytes = 0;
  for (size_t i = 0; i < kObjects; ++i) {
    if (reached[i]) continue;
    ++lost;
    lost_bytes += malloc_usable_size(reinterpret_cast<void*>(hidden[i] ^ kHide));
  }
  printf("lost %zu blocks %zu bytes\n", lost, lost_bytes);
}

void large(size_t count, size_t bytes, bool is_busy) {
  for (size_t i = 0; i < count; ++i) {
    Link* link = static_cast<Link*>(malloc(bytes));
    link->next = kept_ring;
    kept_ring = link;
  }
  if (!is_busy) return;
  lost_blocks();  // so that there is something to search for again
  std::thread([] {
    while (!stops) continue;
  }).detach();
}

// Several variables that hold known amounts.
struct Tree {
  Tree *left, *right, *above;
  char bytes[40];
};
Tree* shares_tree;
Link* shares_list;
std::vector<std::string>* shares_strings;
std::unordered_map<int, std::string>* shares_table;
char** shares_large;
Tree* grow(int depth, Tree* above) {
  if (depth == 0) return nullptr;
  Tree* tree = static_cast<Tree*>(calloc(1, sizeof *tree));
  tree->above = above;
  tree->left = grow(depth - 1, tree);
  tree->right = grow(depth - 1, tree);
  return tree;
}
void shares() {
  constexpr size_t kCount = 50'000, kLarge = 100, kLargeBytes = 20'000;
  shares_tree = grow(16, nullptr);
  for (size_t i = 0; i < kCount; ++i) {
    Link* link = static_cast<Link*>(calloc(1, sizeof *link));
    link->next = shares_list;
    shares_list = link;
  }
  shares_strings = new std::vector<std::string>;
  shares_table = new std::unordered_map<int, std::string>;
  for (size_t i = 0; i < kCount; ++i) {
    shares_strings->emplace_back(100, 's');
    (*shares_table)[static_cast<int>(i)] = std::string(60, 't');
  }
  shares_large = static_cast<char**>(calloc(kLarge, sizeof(char*)));
  for (size_t i = 0; i < kLarge; ++i) shares_large[i] = static_cast<char*>(malloc(kLargeBytes));
  const auto says = [](const char* variable, size_t bytes) { printf("holds %s %zu\n", variable, bytes); };
  const auto usable = [](void* block) { return malloc_usable_size(block); };
  says("shares_tree", ((size_t{1} << 16) - 1) * usable(shares_tree));
  says("shares_list", kCount * usable(shares_list));
  says("shares_strings",
       usable(shares_strings) + usable(shares_strings->data()) + kCount * usable(shares_strings->front().data()));
  size_t table = usable(shares_table) + shares_table->bucket_count() * sizeof(void*);
  for (auto& [key, text] : *shares_table) table += usable(text.data()) + sizeof(void*) + sizeof key + 4 + sizeof text;
  says("shares_table", table);
  says("shares_large", usable(shares_large) + kLarge * usable(shares_large[0]));
}

}  // namespace

int main(int argc, char** argv) {
  // Without a buffer nothing is allocated after clear_stack: the library's own frames would leave addresses of blocks there.
  setvbuf(stdout, nullptr, _IONBF, 0);
  const std::string what = argc > 1 ? argv[1] : "idle";
  if (what == "plant" || what == "crash") plant();
  if (what == "churn") churn();
  if (what == "graph") graph(static_cast<unsigned>(atoi(argv[2])));
  if (what == "large") large(strtoul(argv[2], nullptr, 10), strtoul(argv[3], nullptr, 10), argc > 4);
  if (what == "shares") shares();
  clear_stack();
  puts("ready");
  fflush(stdout);
  for (char line[32]; what == "graphs" && fgets(line, sizeof line, stdin) != nullptr;) {
    graph(static_cast<unsigned>(atoi(line)));
    clear_stack();
    puts("ready");
    fflush(stdout);
  }
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  if (what == "crash") {
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &all);
    abort();
  }
  stops = true;
  _exit(0);
}
