#include "report/analysis/growth/held_until.h"

namespace holdfast {
namespace {

constinit HeldFor held_for = nullptr;

}  // namespace

void SetHeldFor(HeldFor held) { held_for = held; }

int64_t HeldForNs(const Profile& newest) { return held_for != nullptr ? held_for(newest) : 0; }

}  // namespace holdfast
