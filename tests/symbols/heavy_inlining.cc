// Functions inlined into each other many levels deep, for the tests of source lines: containers, strings, regular
// expressions, lambdas, destructors and cold paths. The program uses all results, so that the compiler keeps the code.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace shop {

struct Item {
  std::string name;
  double price = 0;
  std::vector<int> ratings;
  bool operator<(const Item& other) const { return std::tie(name, price) < std::tie(other.name, other.price); }
};

template <int kDepth>
struct Nest {
  template <typename F>
  static inline __attribute__((always_inline)) int Call(const F& f, int x) {
    return Nest<kDepth - 1>::Call(f, x + f(kDepth)) + (x % (kDepth + 1));
  }
};
template <>
struct Nest<0> {
  template <typename F>
  static inline __attribute__((always_inline)) int Call(const F& f, int x) {
    return f(x);
  }
};

template <typename T, int kTag>
class Store {
 public:
  void Add(const std::string& key, T value) {
    if (key.empty()) throw std::invalid_argument("empty key");
    by_key_[key].push_back(std::move(value));
    order_.push_back(key);
  }
  template <typename Visit>
  size_t Each(Visit visit) const {
    size_t count = 0;
    for (const auto& key : order_) {
      if (const auto found = by_key_.find(key); found != by_key_.end()) {
        for (const T& value : found->second) count += visit(key, value) ? 1 : 0;
      }
    }
    return count;
  }
  std::vector<std::pair<std::string, size_t>> Sizes() const {
    std::vector<std::pair<std::string, size_t>> sizes;
    for (const auto& [key, values] : by_key_) sizes.emplace_back(key, values.size() + kTag);
    std::sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return sizes;
  }

 private:
  std::unordered_map<std::string, std::vector<T>> by_key_;
  std::deque<std::string> order_;
};

}  // namespace shop

namespace {

using Value = std::variant<int, double, std::string, shop::Item>;

struct Describe {
  std::string operator()(int value) const { return std::to_string(value); }
  std::string operator()(double value) const { return std::to_string(value * 2); }
  std::string operator()(const std::string& value) const { return value + "!"; }
  std::string operator()(const shop::Item& item) const {
    return item.name +
           std::accumulate(item.ratings.begin(), item.ratings.end(), std::string(),
                           [](std::string text, int rating) { return text + ":" + std::to_string(rating); });
  }
};

template <int kTag>
int Fill(int rounds) {
  shop::Store<Value, kTag> store;
  std::set<shop::Item> items;
  for (int i = 0; i < rounds; ++i) {
    const std::string key = "key" + std::to_string((i * 7 + kTag) % 13);
    switch ((i + kTag) % 4) {
      case 0:
        store.Add(key, i);
        break;
      case 1:
        store.Add(key, i / 3.0);
        break;
      case 2:
        store.Add(key, key + key);
        break;
      default: {
        shop::Item item{key, i * 1.5, {i, i + 1, kTag}};
        items.insert(item);
        store.Add(key, item);
      }
    }
  }
  std::ostringstream out;
  size_t length = store.Each([&](const std::string& key, const Value& value) {
    out << key << '=' << std::visit(Describe{}, value) << ';';
    return value.index() != 1;
  });
  for (const auto& [key, size] : store.Sizes()) length += key.size() * size;
  std::list<std::string> words;
  std::istringstream in(out.str());
  for (std::string word; std::getline(in, word, ';');) words.push_front(word);
  words.sort([](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  words.unique();
  static const std::regex pattern("key([0-9]+)=([a-z0-9!.:]*)");
  for (const std::string& word : words) {
    std::smatch match;
    if (std::regex_match(word, match, pattern)) length += match[1].length() + match.position(2);
  }
  const int offset = kTag * 3;
  const auto twist = [&](int x) { return (x * offset) ^ static_cast<int>(length); };
  return shop::Nest<12>::Call(twist, static_cast<int>(items.size())) & 0xffff;
}

class Base {
 public:
  virtual ~Base() = default;
  virtual int Value() const = 0;
};
template <int kTag>
class Derived : public Base {
 public:
  explicit Derived(int x) : text_(static_cast<size_t>(x % 7), 'a' + kTag % 20), filled_(Fill<kTag>(x)) {}
  int Value() const override { return filled_ + static_cast<int>(text_.size()); }

 private:
  std::string text_;
  int filled_;
};

template <int... kTags>
int Sum(std::integer_sequence<int, kTags...>, int rounds) {
  std::vector<std::unique_ptr<Base>> all;
  (all.push_back(std::make_unique<Derived<kTags>>(rounds)), ...);
  std::map<int, std::function<int()>> calls;
  for (const auto& one : all) calls[one->Value()] = [&one] { return one->Value(); };
  int sum = 0;
  for (const auto& [key, call] : calls) {
    try {
      sum += call() - key;
      if (sum < 0) throw std::runtime_error("negative");
    } catch (const std::exception& error) {
      std::fputs(error.what(), stderr);
    }
  }
  return sum;
}

}  // namespace

extern "C" int heavy_inlining(int rounds) { return Sum(std::make_integer_sequence<int, HOLDFAST_VARIANTS>(), rounds); }

#ifdef HOLDFAST_LIBRARY_ONLY
// What tests/programs/loads_plugins calls.
extern "C" void* Allocate(size_t size) { return heavy_inlining(50) == 0 ? std::malloc(size) : nullptr; }
extern "C" void Release(void* block) { std::free(block); }
extern "C" int Throw(int x) { return x; }
#else
int main(int argc, char**) { return heavy_inlining(argc * 50) == 0 ? 0 : 1; }
#endif
