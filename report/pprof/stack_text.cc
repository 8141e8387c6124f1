#include "report/pprof/stack_text.h"

#include <charconv>
#include <system_error>

#include "fmt/format.h"

namespace holdfast {
namespace {

constexpr std::string_view kBefore = "0x";

}  // namespace

LocationsByAddress LocationsByAddressOf(const Profile& profile) {
  LocationsByAddress locations;
  locations.reserve(profile.locations.size());
  for (uint32_t i = 0; i < profile.locations.size(); ++i) locations.emplace(profile.locations[i].address, i);
  return locations;
}

std::string StackText(const Profile& profile, std::span<const uint32_t> locations) {
  std::string text;
  for (const uint32_t location : locations) {
    text += fmt::format(" {}{:x}", kBefore, profile.locations[location].address);
  }
  return text;
}

bool ReadStackText(std::string_view text, const LocationsByAddress& locations, std::vector<uint32_t>* stack) {
  stack->clear();
  bool whole = true;
  for (;;) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (!text.starts_with(kBefore)) break;
    text.remove_prefix(kBefore.size());
    uint64_t address = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), address, 16);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const auto found = locations.find(address);
    whole = whole && found != locations.end();
    if (found != locations.end()) stack->push_back(found->second);
  }
  return whole && text.empty() && !stack->empty();
}

}  // namespace holdfast
