// Differences of snapshots, where a process runs, and what a server makes of a request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/fleet/live/place_of_process.h"
#include "report/fleet/live/profile_delta.h"
#include "report/http/admission.h"
#include "report/http/http_message.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Of block profiles: contentions and delay by address of the one frame and a label.
class Made {
 public:
  explicit Made(int64_t time_nanos) {
    profile_.sample_types = {{Intern("contentions"), Intern("count")}, {Intern("delay"), Intern("nanoseconds")}};
    profile_.default_sample_type = Intern("delay");
    profile_.time_nanos = time_nanos;
    profile_.mappings.push_back(
        {.start = 0x1000, .limit = 0x9000, .file = Intern("/bin/app"), .bias = 7, .has_bias = true});
    profile_.mutable_process()->id = "box/1/2/3/4";
    profile_.mutable_records()->total.push_back({"delay", 5, 6});
    profile_.mutable_records()->loss.push_back({"stack-table-full", 7});
  }
  Made& Add(uint64_t address, int64_t contentions, int64_t delay, const char* key = "wait",
            const char* text = "mutex") {
    const auto frame = static_cast<uint32_t>(profile_.locations.size());
    profile_.locations.push_back({.address = address, .mapping = 0});
    const Profile::Label label{.key = Intern(key), .text = Intern(text)};
    const int64_t values[] = {contentions, delay};
    profile_.AddSample({&frame, 1}, values, {&label, 1});
    return *this;
  }
  const Profile& profile() const { return profile_; }

 private:
  StringId Intern(const char* text) { return profile_.strings.Intern(text); }
  Profile profile_;
};

std::vector<std::pair<uint64_t, int64_t>> Delays(const Profile& profile) {
  std::vector<std::pair<uint64_t, int64_t>> delays;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    delays.emplace_back(profile.locations[profile.FramesOf(profile.samples[i])[0]].address, profile.ValuesOf(i)[1]);
  }
  return delays;
}

TEST(ProfileDelta, IsByAddressAndLabelWhateverTheOrder) {
  const Made before = std::move(Made(100).Add(0x2000, 1, 10).Add(0x3000, 2, 20).Add(0x2000, 1, 5, "wait", "join"));
  const Made now =
      std::move(Made(400).Add(0x4000, 1, 7).Add(0x2000, 1, 6, "wait", "join").Add(0x3000, 2, 20).Add(0x2000, 3, 40));
  const Profile change = ChangeBetween(before.profile(), now.profile());
  EXPECT_THAT(Delays(change), ElementsAre(Pair(0x4000, 7), Pair(0x2000, 1), Pair(0x2000, 30)));
  EXPECT_EQ(change.time_nanos, 400);
  EXPECT_EQ(change.duration_nanos, 300);
  EXPECT_EQ(change.locations.size(), 2u);  // what no sample names is not there
  EXPECT_TRUE(change.mappings[0].has_bias);
}

TEST(ProfileDelta, KeepsOnlyCommentsThatHoldForDifferences) {
  const Profile change = ChangeBetween(Made(1).profile(), Made(2).Add(0x2000, 1, 1).profile());
  EXPECT_EQ(change.CommentValue("process"), "box/1/2/3/4");
  EXPECT_EQ(change.process().id, "box/1/2/3/4");
  EXPECT_TRUE(change.records().total.empty());
  EXPECT_TRUE(change.records().loss.empty());
}

TEST(ProfileDelta, AWaitThatIsOverTakesItsTimeSoFarAway) {
  const Made before = std::move(Made(100).Add(0x2000, 1, 50, "state", "waiting"));
  const Made now = std::move(Made(200).Add(0x2000, 1, 90));
  EXPECT_THAT(Delays(ChangeBetween(before.profile(), now.profile())), ElementsAre(Pair(0x2000, 90), Pair(0x2000, -50)));
}

TEST(ProfileDelta, IncreasesLeaveWaitsInProgressOut) {
  const Made first = std::move(Made(100).Add(0x2000, 1, 50, "state", "waiting").Add(0x3000, 1, 5));
  const Profile increase = IncreaseSince(CumulativeValues(), first.profile());
  EXPECT_THAT(Delays(increase), ElementsAre(Pair(0x3000, 5)));
  EXPECT_EQ(increase.duration_nanos, 0);
  const Made second = std::move(Made(200).Add(0x2000, 1, 90).Add(0x3000, 1, 5));
  const Profile more = IncreaseSince(CumulativeValues(first.profile()), second.profile());
  EXPECT_THAT(Delays(more), ElementsAre(Pair(0x2000, 90)));
  EXPECT_EQ(more.duration_nanos, 100);
}

TEST(ProfileDelta, InUseIsAStateInIncreasesAndAChangeInDifferences) {
  const auto heap = [](int64_t alloc, int64_t in_use) {
    Profile profile;
    const auto intern = [&](const char* text) { return profile.strings.Intern(text); };
    profile.sample_types = {{intern("alloc_space"), intern("bytes")}, {intern("inuse_space"), intern("bytes")}};
    profile.time_nanos = alloc;
    const uint32_t frame = 0;
    profile.locations.push_back({.address = 0x2000});
    const int64_t values[] = {alloc, in_use};
    profile.AddSample({&frame, 1}, values, {});
    return profile;
  };
  const Profile before = heap(100, 80), now = heap(150, 30);
  EXPECT_THAT(ChangeBetween(before, now).ValuesOf(0), ElementsAre(50, -50));
  EXPECT_THAT(IncreaseSince(CumulativeValues(before), now).ValuesOf(0), ElementsAre(50, 30));
}

TEST(PlaceOfProcess, NamesContainerAndPod) {
  const std::string id(64, 'a');
  using namespace std::string_literals;
  EXPECT_EQ(PlaceIn("0::/system.slice/docker-" + id + ".scope\n", "").container, id);
  EXPECT_EQ(PlaceIn("12:memory:/kubepods/burstable/pod7c0f/" + id + "\n0::/\n", "").container, id);
  EXPECT_EQ(PlaceIn("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope\n", "").container, id);
  EXPECT_EQ(PlaceIn("0::/user.slice/user-1000.slice/session-3.scope\n", "").container, "");
  const PlaceOfProcess place =
      PlaceIn("", "HOME=/\0KUBERNETES_SERVICE_HOST=10.0.0.1\0HOSTNAME=shop-7d\0NODE_NAME=n1\0"s);
  EXPECT_EQ(place.pod, "shop-7d");
  EXPECT_EQ(place.node, "n1");
  EXPECT_EQ(PlaceIn("", "HOSTNAME=laptop\0"s).pod, "");
  EXPECT_EQ(PlaceIn("", "KUBERNETES_SERVICE_HOST=1\0HOSTNAME=a\0POD_NAME=b\0POD_NAMESPACE=c\0"s).pod, "b");
}

TEST(HttpRequest, TargetsAreReadAsGoReadsThem) {
  HttpRequest request;
  ASSERT_TRUE(ParseTarget("/p/42/%64ebug?seconds=5&program=a+b%2Fc&seconds=6&x;y=1&bad=%zz&empty=&=v&k", &request));
  EXPECT_EQ(request.path, "/p/42/debug");
  EXPECT_EQ(request.Parameter("seconds"), "5");
  EXPECT_EQ(request.Parameter("program"), "a b/c");
  EXPECT_THAT(request.parameters, ElementsAre(Pair("seconds", "5"), Pair("program", "a b/c"), Pair("seconds", "6"),
                                              Pair("empty", ""), Pair("", "v"), Pair("k", "")));
  for (const char* bad : {"", "x", "*", "/%", "/%4", "/%4g", "http://evil.example/"}) {
    HttpRequest none;
    EXPECT_FALSE(ParseTarget(bad, &none)) << bad;
  }
}

TEST(Admission, RefusesBeforeAnythingIsLookedAt) {
  AdmissionRules rules;
  rules.token = "0123456789abcdef";
  HttpRequest request;
  request.method = "DELETE";
  const auto none = [](const char*) { return std::string_view(); };
  EXPECT_EQ(Refusal(rules, request, none)->status, 401);  // not even which methods there are
  rules.token.clear();
  EXPECT_EQ(Refusal(rules, request, none)->status, 405);
  request.method = "GET";
  EXPECT_FALSE(Refusal(rules, request, none).has_value());
}

}  // namespace
}  // namespace holdfast
