// Functions by which root becomes another user, or takes another root folder: what needs root's rights is done before.
#include <unistd.h>

#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "sampler/lifetime/lifetime.h"

using namespace holdfast;

namespace {

template <typename Call>
int ChangeUser(uid_t real, uid_t effective, uid_t saved, Call call) {
  BeforeUserChange(real, effective, saved);
  const int result = call();
  if (result == 0) AfterUserChange();
  return result;
}

}  // namespace

extern "C" {

HOLDFAST_EXPORT int setuid(uid_t user) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  return ChangeUser(user, user, user, [=] { return real.setuid(user); });  // by root; else it changes one of them only
}

HOLDFAST_EXPORT int seteuid(uid_t user) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  return ChangeUser(kSameUser, user, kSameUser, [=] { return real.seteuid(user); });
}

HOLDFAST_EXPORT int setreuid(uid_t real_user, uid_t user) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  // The saved one becomes the effective one (setreuid(2)).
  return ChangeUser(real_user, user, user, [=] { return real.setreuid(real_user, user); });
}

HOLDFAST_EXPORT int setresuid(uid_t real_user, uid_t user, uid_t saved_user) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  return ChangeUser(real_user, user, saved_user, [=] { return real.setresuid(real_user, user, saved_user); });
}

HOLDFAST_EXPORT int chroot(const char* path) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  BeforeNewRoot();
  return real.chroot(path);
}

}  // extern "C"
