// The one place where doctest itself is compiled, with the main() of every test: 5 s under -O3, 8 s under the
// sanitizers, which each of a hundred tests paid for when it had a copy of its own.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
