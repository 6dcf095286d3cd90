// tools/verge/doctor.hpp -- what a machine means for timers, in plain words.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace verge::tool {

/// The facts about a machine.  An empty optional: the system does not report it.
struct machine_facts {
    std::string kernel;                           // "6.1.0"
    std::string clock_source;                     // "tsc"; "": unknown
    std::optional<std::uint64_t> timer_slack_ns;  // of this thread
    unsigned processors_online = 1;
    unsigned processors_allowed = 1;              // by the affinity mask
    std::optional<double> processors_quota = {};  // by the container: 1.5 is one and a half
    std::optional<std::uint64_t> memory_limit_bytes = {};  // by the container
    std::optional<std::uint64_t> thread_limit = {};        // by the container or the user's limits
    std::uint64_t file_limit = 0;                          // RLIMIT_NOFILE, the soft one
    std::optional<std::uint64_t> most_mappings;            // vm.max_map_count
    bool has_futex = false;                                // with an absolute deadline
    bool has_timerfd = false;
    bool follows_date = false;  // TFD_TIMER_CANCEL_ON_SET
    bool has_epoll = false;
    bool has_epoll_pwait2 = false;
    bool has_membarrier = false;          // the expedited one
    bool has_guard_install = false;       // MADV_GUARD_INSTALL
    bool has_huge_pages = false;          // transparent, on request (madvise)
    std::optional<double> sleep_late_us;  // median of short sleeps
};

/// Asks this machine.  Takes about a tenth of a second.
[[nodiscard]] machine_facts examine();

enum class verdict {
    good,
    note,  // works, but costs something: worth knowing
    bad,   // a part of the library does not work here
};

struct finding {
    verdict how;
    std::string name;     // "clock source"
    std::string value;    // "tsc"
    std::string meaning;  // one or two sentences
};

/// The same list of names for every machine.
[[nodiscard]] std::vector<finding> diagnose(const machine_facts& facts);

}  // namespace verge::tool
