#include "report/analysis/growth/held_until.h"

namespace holdfast {
namespace {

constinit HeldSince held_since = nullptr;

}  // namespace

void SetHeldSince(HeldSince held) { held_since = held; }

Held HeldUntilNow(const Profile& newest) { return held_since != nullptr ? held_since(newest) : Held(); }

}  // namespace holdfast
