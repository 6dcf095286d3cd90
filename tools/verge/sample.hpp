// tools/verge/sample.hpp -- a load's figures over time: what the live views and the plots show.

#pragma once

#include "load.hpp"
#include <verge/base/clock.hpp>

#include <cstdint>
#include <vector>

namespace verge::tool {

/// One moment of a load, and what happened since the moment before.
struct sample {
    double seconds = 0;           // since the first
    double calls_per_second = 0;  // since the sample before, as are the next five
    double late_p50_us = 0;
    double late_p99_us = 0;
    double late_p999_us = 0;
    double late_max_us = 0;
    double processors = 0;  // busy: 1.5 is one and a half
    std::uint64_t resident_bytes = 0;
    load_figures figures;  // since the load began
};

/// Takes samples of one load.
class sampler {
public:
    explicit sampler(const load& of);
    [[nodiscard]] sample take();

private:
    const load& load_;
    time_point begin_;
    time_point last_at_;
    double last_cpu_seconds_;
    load_figures last_;
};

}  // namespace verge::tool
