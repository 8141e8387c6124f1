// Exits after one string: little more than the start of a C++ program.
#include <string>

#include "known.h"

int main() {
  std::string text(100, 'x');
  Use(text.data());
}
