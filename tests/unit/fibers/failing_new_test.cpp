// The operators new of this program.  In a file of their own, where g++ cannot inline one half of a
// pair and take the other for a mismatch.

#include "support/failing_new.hpp"
