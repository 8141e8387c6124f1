// A small web shop for docs/tutorial.md: it serves requests for some seconds, and one of its functions forgets to forget.
//   g++ -g -O2 -o shop shop.cc && ./shop 10
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct Visit {
  std::string page;
  char cookies[400];
};

// Remembers each visitor for the length of a session. Nothing ever ends a session.
class Sessions {
 public:
  void remember_visitor(int visitor) {
    auto visit = std::make_unique<Visit>(Visit{"/basket", {}});
    visits_.emplace(visitor, std::move(visit));
  }

 private:
  std::unordered_map<int, std::unique_ptr<Visit>> visits_;
};

// 20 MB, loaded once: large, and harmless.
std::vector<std::string> load_catalog() {
  std::vector<std::string> catalog;
  for (int article = 0; article < 20000; ++article) catalog.push_back(std::string(1000, 'a' + article % 26));
  return catalog;
}

// Allocates for each request, and frees all of it.
size_t render_page(const std::vector<std::string>& catalog, int visitor) {
  std::string page;
  for (int line = 0; line < 20; ++line) page += catalog[(visitor + line) % catalog.size()];
  return page.size();
}

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 10;
  const std::vector<std::string> catalog = load_catalog();
  Sessions sessions;
  size_t sent = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int visitor = 0; std::chrono::steady_clock::now() < start + std::chrono::seconds(seconds); ++visitor) {
    sent += render_page(catalog, visitor);
    sessions.remember_visitor(visitor);
    std::this_thread::sleep_until(start + std::chrono::milliseconds(visitor / 5));  // 5,000 visitors a second
  }
  std::printf("sent %zu bytes\n", sent);
}
