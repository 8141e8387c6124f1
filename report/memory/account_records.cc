#include "report/memory/account_records.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/base/printable.h"

namespace holdfast {
namespace {

constexpr std::string_view kKey = "memory: ", kFileKey = "memory file: ", kNameKey = " name ";
constexpr double kMost = 1e40;  // the largest variance

struct Count {
  const char* name;
  uint64_t MemoryAccount::*field;
};
constexpr Count kCounts[] = {
    {"total", &MemoryAccount::total},   {"allocator", &MemoryAccount::allocator}, {"files", &MemoryAccount::files},
    {"shared", &MemoryAccount::shared}, {"stacks", &MemoryAccount::stacks},       {"own", &MemoryAccount::own},
    {"mapped", &MemoryAccount::mapped}, {"rest", &MemoryAccount::rest},           {"swapped", &MemoryAccount::swapped},
    {"huge", &MemoryAccount::huge},     {"hugetlb", &MemoryAccount::hugetlb},     {"heaps", &MemoryAccount::heaps},
    {"arenas", &MemoryAccount::arenas}, {"threads", &MemoryAccount::threads},     {"sampled", &MemoryAccount::sampled}};
struct Guess {
  const char* name;
  double* (*field)(MemoryAccount*);
};
constexpr Guess kGuesses[] = {
    {"live", [](MemoryAccount* of) { return &of->live.value; }},
    {"live_variance", [](MemoryAccount* of) { return &of->live.variance; }},
    {"beyond_variance", [](MemoryAccount* of) { return &of->beyond_variance; }},
    {"rest_variance", [](MemoryAccount* of) { return &of->rest_variance; }},
    {"rounding", [](MemoryAccount* of) { return &of->rounding.value; }},
    {"rounding_variance", [](MemoryAccount* of) { return &of->rounding.variance; }},
    {"in_use", [](MemoryAccount* of) { return &of->in_use.value; }},
    {"in_use_variance", [](MemoryAccount* of) { return &of->in_use.variance; }},
    {"in_use_resident", [](MemoryAccount* of) { return &of->in_use_resident.value; }},
    {"in_use_swapped", [](MemoryAccount* of) { return &of->in_use_swapped.value; }},
    {"in_use_swapped_variance", [](MemoryAccount* of) { return &of->in_use_swapped.variance; }}};

std::string_view NextWord(std::string_view* text) {
  const size_t end = std::min(text->find(' '), text->size());
  const std::string_view word = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return word;
}

absl::string_view Word(std::string_view text) { return {text.data(), text.size()}; }

void ReadNumber(std::string_view name, std::string_view value, MemoryAccount* account) {
  for (const Count& count : kCounts) {
    uint64_t number = 0;
    if (name == count.name && absl::SimpleAtoi(Word(value), &number)) account->*count.field = number;
  }
  for (const Guess& guess : kGuesses) {
    double number = 0;
    if (name == guess.name && absl::SimpleAtod(Word(value), &number) && number >= 0 && number < kMost)
      *guess.field(account) = number;
  }
}

}  // namespace

std::vector<std::string> AccountRecords(const MemoryAccount& account) {
  MemoryAccount copy = account;
  std::string text = "memory:";
  for (const Count& count : kCounts) text += fmt::format(" {} {}", count.name, account.*count.field);
  for (const Guess& guess : kGuesses) {
    // Without the page table the resident bytes of live blocks are unknown.
    const bool of_pages =
        std::string_view(guess.name).starts_with("live") || guess.name == std::string_view("beyond_variance") ||
        std::string_view(guess.name).starts_with("rounding") || guess.name == std::string_view("in_use_resident");
    if (account.has_pages || !of_pages) text += fmt::format(" {} {}", guess.name, *guess.field(&copy));
  }
  if (!account.allocator_name.empty()) text += fmt::format("{}{}", kNameKey, account.allocator_name);
  std::vector<std::string> records = {std::move(text)};
  for (size_t i = 0; i < std::min(account.by_file.size(), kMostAccountFiles); ++i) {
    records.push_back(fmt::format("{}{} {}", kFileKey, account.by_file[i].second, Printable(account.by_file[i].first)));
  }
  return records;
}

std::optional<MemoryAccount> AccountOfRecords(const std::vector<std::string_view>& comments) {
  std::optional<MemoryAccount> account;
  for (std::string_view text : comments) {
    if (!text.starts_with(kKey)) continue;
    text.remove_prefix(kKey.size());
    account.emplace();
    account->has_pages = false;
    bool has_all = false;
    while (!text.empty()) {
      const std::string_view name = NextWord(&text), value = NextWord(&text);
      if (name == "name") account->allocator_name = std::string(value);
      account->has_pages = account->has_pages || name == "live";
      has_all = has_all || name == "in_use_resident";
      ReadNumber(name, value, &*account);
    }
    if (!has_all) account->in_use_resident = account->live;  // written by an older version
  }
  for (std::string_view text : comments) {
    if (!account.has_value() || !text.starts_with(kFileKey)) continue;
    text.remove_prefix(kFileKey.size());
    uint64_t bytes = 0;
    if (absl::SimpleAtoi(Word(NextWord(&text)), &bytes)) account->by_file.emplace_back(text, bytes);
  }
  return account;
}

}  // namespace holdfast
