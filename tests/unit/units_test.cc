#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "report/base/value_units.h"

namespace holdfast {
namespace {

TEST(Units, SizesAreRead) {
  EXPECT_EQ(*ParseByteSize("0"), 0u);
  EXPECT_EQ(*ParseByteSize("1"), 1u);
  EXPECT_EQ(*ParseByteSize("12B"), 12u);
  EXPECT_EQ(*ParseByteSize("512KiB"), 524288u);
  EXPECT_EQ(*ParseByteSize("64MiB"), 67108864u);
  EXPECT_EQ(*ParseByteSize("1GiB"), 1073741824u);
  EXPECT_EQ(*ParseByteSize("5KB"), 5000u);
  EXPECT_EQ(*ParseByteSize("5MB"), 5000000u);
  EXPECT_EQ(*ParseByteSize("5GB"), 5000000000u);
  EXPECT_EQ(*ParseByteSize("1.5mib"), 1572864u);
  EXPECT_EQ(*ParseByteSize("18446744073709551615"), UINT64_MAX);
}

TEST(Units, TimesAreRead) {
  EXPECT_EQ(*ParseTimeNs("0"), 0u);
  EXPECT_EQ(*ParseTimeNs("1ns"), 1u);
  EXPECT_EQ(*ParseTimeNs("10us"), 10000u);
  EXPECT_EQ(*ParseTimeNs("2ms"), 2000000u);
  EXPECT_EQ(*ParseTimeNs("60s"), 60000000000u);
  EXPECT_EQ(*ParseTimeNs("0.5s"), 500000000u);
  EXPECT_EQ(*ParseTimeNs("3m"), 180000000000u);
  EXPECT_EQ(*ParseTimeNs("1h"), 3600000000000u);
}

TEST(Units, AnInvalidSizeIsAnErrorThatShowsAValidOne) {
  for (const char* bad : {"", " ", "KiB", "-1", "+1", "1 KiB", "1KiBs", "1e3", "inf", "nan", "0x10", "99999999999GiB",
                          "18446744073709551616", "1.5.5", "."}) {
    EXPECT_FALSE(ParseByteSize(bad).ok()) << bad;
  }
  EXPECT_EQ(std::string(ParseByteSize("5 parsecs").status().message()),
            "\"5 parsecs\" is not a size (a number and B, KiB, MiB, GiB, KB, MB or GB, such as 512KiB)");
}

TEST(Units, ATimeNeedsItsUnit) {
  for (const char* bad : {"", "5", "5sec", "-1s", "s", "1 s", "1e300h"}) EXPECT_FALSE(ParseTimeNs(bad).ok()) << bad;
  EXPECT_EQ(std::string(ParseTimeNs("5").status().message()),
            "\"5\" is not a time (a number and ns, us, ms, s, m or h, such as 60s)");
}

TEST(Units, SizesArePrinted) {
  EXPECT_EQ(FormatSize(0), "0");
  EXPECT_EQ(FormatSize(1023), "1023B");
  EXPECT_EQ(FormatSize(1024), "1KiB");
  EXPECT_EQ(FormatSize(1536 * 1024), "1.50MiB");
  EXPECT_EQ(FormatSize(-1536 * 1024), "-1.50MiB");
  EXPECT_EQ(FormatSize(INT64_MAX), "8192PiB");
}

TEST(Units, TimesArePrinted) {
  EXPECT_EQ(FormatTimeNs(999), "999ns");
  EXPECT_EQ(FormatTimeNs(1500), "1.50us");
  EXPECT_EQ(FormatTimeNs(90'000'000'000), "90s");
  EXPECT_EQ(FormatTimeNs(7'200'000'000'000), "2h");
}

// The same ones as in tests/web/core_test.mjs.
TEST(Units, DurationsHaveOneFormat) {
  const std::vector<std::pair<int64_t, std::string>> said = {{0, "0"},
                                                             {1500, "1.50us"},
                                                             {250'900'000, "250ms"},
                                                             {1'000'000'000, "1s"},
                                                             {25'190'000'000, "25.1s"},
                                                             {59'990'000'000, "59.9s"},
                                                             {60'000'000'000, "1min"},
                                                             {312'000'000'000, "5min 12s"},
                                                             {11'520'000'000'000, "3h 12min"},
                                                             {7'200'000'000'000, "2h"},
                                                             {388'800'000'000'000, "4.5 days"},
                                                             {31'536'000'000'000'000, "365 days"}};
  for (const auto& [ns, text] : said) EXPECT_EQ(FormatDuration(ns), text);
}

TEST(Units, ValuesArePrintedInTheUnitThatWasAskedFor) {
  EXPECT_EQ(FormatValue(1048576, "bytes", "auto"), "1MiB");
  EXPECT_EQ(FormatValue(1048576, "bytes", ""), "1MiB");
  EXPECT_EQ(FormatValue(1048576, "bytes", "bytes"), "1048576");
  EXPECT_EQ(FormatValue(1048576, "bytes", "raw"), "1048576");
  EXPECT_EQ(FormatValue(1048576, "bytes", "KiB"), "1024KiB");
  EXPECT_EQ(FormatValue(1048576, "bytes", "ms"), "1MiB");  // does not fit
  EXPECT_EQ(FormatValue(1500000, "nanoseconds", "auto"), "1.50ms");
  EXPECT_EQ(FormatValue(1500000, "nanoseconds", "ns"), "1500000");
  EXPECT_EQ(FormatValue(1500000, "nanoseconds", "bytes"), "1.50ms");
  EXPECT_EQ(FormatValue(1500000, "count", "auto"), "1500000");
  EXPECT_EQ(FormatValue(7, "milliseconds", "auto"), "7milliseconds");
}

TEST(Units, PercentagesHaveTwoDigits) {
  EXPECT_EQ(FormatPercent(1, 1), "100%");
  EXPECT_EQ(FormatPercent(1, 3), "33.33%");
  EXPECT_EQ(FormatPercent(1, 1000), "0.1%");
  EXPECT_EQ(FormatPercent(123, 1000000), "0.012%");
  EXPECT_EQ(FormatPercent(-1, 1000000), "<0.01%");
  EXPECT_EQ(FormatPercent(0, 10), "0%");
  EXPECT_EQ(FormatPercent(5, 0), "0%");
}

}  // namespace
}  // namespace holdfast
