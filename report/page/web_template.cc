#include "report/page/web_template.h"

#ifdef HOLDFAST_WEB
extern "C" const char holdfast_web_template[], holdfast_web_template_end[];

namespace holdfast {
std::string_view WebTemplate() {
  return {holdfast_web_template, static_cast<size_t>(holdfast_web_template_end - holdfast_web_template)};
}
}  // namespace holdfast
#else
namespace holdfast {
std::string_view WebTemplate() { return {}; }
}  // namespace holdfast
#endif
