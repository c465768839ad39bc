// main() of a test program with Catch2 2. Version 3 has a library for it.
#define CATCH_CONFIG_MAIN
#include "support/catch.h"
