// Ends after one string: of a C++ program hardly more than its start.
#include <string>

#include "known.h"

int main() {
  std::string text(100, 'x');
  Use(text.data());
}
