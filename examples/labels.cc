// Work that continues in another thread keeps its labels. Build it in the folder above this one:
//
//     c++ -pthread -Iinclude examples/labels.cc -o labels
//     holdfast run -- ./labels; holdfast locks holdfast.labels.*; holdfast top --by tenant holdfast.labels.*/*.block.pb.gz
#include <holdfast.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

// Adds a label to the thread for as long as the object lives.
class Labelled {
 public:
  Labelled(const char* key, const std::string& value) : before_(holdfast_label(key, value.c_str())) {}
  ~Labelled() { holdfast_set_labels(before_); }
  Labelled(const Labelled&) = delete;
  Labelled& operator=(const Labelled&) = delete;

 private:
  const uint32_t before_;
};

std::mutex ledger;

__attribute__((noinline)) void post_entry() {
  const std::lock_guard<std::mutex> lock(ledger);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

int main() {
  for (const char* tenant : {"acme", "zenith"}) {
    const Labelled as_tenant("tenant", tenant);
    const uint32_t labels = holdfast_set_labels(0);  // this thread's labels
    holdfast_set_labels(labels);
    std::vector<std::thread> workers;
    for (int i = 0; i < 3; ++i) {
      workers.emplace_back([labels] {
        holdfast_set_labels(labels);
        const Labelled as_kind("kind", "write");
        post_entry();
      });
    }
    for (std::thread& worker : workers) worker.join();
  }
  std::puts("done");
}
