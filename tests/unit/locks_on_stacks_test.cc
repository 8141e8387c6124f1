#include <gtest/gtest.h>

#include "report/outside/outside_stack.h"

namespace holdfast {
namespace {

TEST(FrameHolding, IsTheOneThatEndsAboveTheAddress) {
  const std::vector<uint64_t> ends = {0x1010, 0x1080, 0x1100};
  const auto at = [&](uint64_t address) {
    const std::optional<FrameAt> place = FrameHolding(address, 0x1000, ends);
    return place.has_value() ? static_cast<int64_t>(place->frame * 1000 + place->offset) : -1;
  };
  EXPECT_EQ(at(0xfff), -1);  // below what is in use
  EXPECT_EQ(at(0x1000), 0);
  EXPECT_EQ(at(0x100f), 15);
  EXPECT_EQ(at(0x1010), 1000);
  EXPECT_EQ(at(0x107f), 1111);
  EXPECT_EQ(at(0x1080), 2000);
  EXPECT_EQ(at(0x10ff), 2127);
  EXPECT_EQ(at(0x1100), -1);  // of an outer one that the walk did not reach, or of nobody
  EXPECT_FALSE(FrameHolding(0x1000, 0x1000, {}).has_value());
}

}  // namespace
}  // namespace holdfast
