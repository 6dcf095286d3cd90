// src/fibers/overflow_report.hpp -- reports which fiber's stack overflowed, before the program
// ends.
//
// A fault on a guard page is handled on a separate stack (sigaltstack, one per worker): the name of
// the fiber is written to standard error, and then the fault takes its usual course, with the
// handler that was installed before.

#pragma once

#include <cstddef>

namespace verge::fibers::detail {

/// While it lives, overflows of fibers that run on the calling thread are reported.  Does nothing
/// if the system has no memory for it.
class overflow_report {
public:
    explicit overflow_report(bool wanted) noexcept;
    ~overflow_report();
    overflow_report(const overflow_report&) = delete;
    overflow_report& operator=(const overflow_report&) = delete;

private:
    void* stack_ = nullptr;
};

}  // namespace verge::fibers::detail
