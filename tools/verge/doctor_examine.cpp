// tools/verge/doctor_examine.cpp -- collects the facts: tries system calls, reads /proc and /sys.

#include "doctor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

namespace verge::tool {

namespace {

// The first line of a file; "" if there is none.
std::string line_of(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end == text.data()) return std::nullopt;  // "max" too
    return value;
}

// The directory of this process's control group, of version 2.
std::string control_group() {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("0::")) return "/sys/fs/cgroup" + line.substr(3);
    }
    return "/sys/fs/cgroup";
}

// The lowest of a limit over this control group and those above it.
std::optional<std::uint64_t> group_limit(const char* name) {
    std::optional<std::uint64_t> lowest;
    for (std::string dir = control_group(); dir.size() >= std::string_view("/sys/fs/cgroup").size();
         dir.erase(dir.rfind('/'))) {
        const auto limit = number_in(line_of(dir + "/" + name));
        if (limit && (!lowest || *limit < *lowest)) lowest = limit;
    }
    return lowest;
}

std::optional<double> processor_quota() {
    std::optional<double> lowest;
    for (std::string dir = control_group(); dir.size() >= std::string_view("/sys/fs/cgroup").size();
         dir.erase(dir.rfind('/'))) {
        std::istringstream line(line_of(dir + "/cpu.max"));  // "150000 100000"
        double quota = 0;
        double period = 0;
        if (line >> quota >> period && period > 0 && (!lowest || quota / period < *lowest)) {
            lowest = quota / period;
        }
    }
    return lowest;
}

std::optional<std::uint64_t> thread_limit() {
    std::optional<std::uint64_t> lowest = group_limit("pids.max");
    rlimit limit{};
    if (::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (!lowest || limit.rlim_cur < *lowest)) {
        lowest = limit.rlim_cur;
    }
    return lowest;
}

bool try_futex() {
    std::uint32_t word = 0;
    timespec past{};  // the beginning of the clock: times out at once
    return ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &past, nullptr,
                     FUTEX_BITSET_MATCH_ANY) == -1 &&
           errno == ETIMEDOUT;
}

bool try_timerfd(clockid_t clock, int flags) {
    const int fd = ::timerfd_create(clock, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd < 0) return false;
    itimerspec far{};
    far.it_value.tv_sec = 1LL << 33;
    const bool armed = ::timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &far, nullptr) == 0;
    ::close(fd);
    return armed;
}

struct epoll_support {
    bool plain = false;
    bool nanoseconds = false;
};

epoll_support try_epoll() {
    epoll_support found;
    const int fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0) return found;
    epoll_event event{};
    found.plain = ::epoll_wait(fd, &event, 1, 0) == 0;
#ifdef SYS_epoll_pwait2
    const timespec none{};
    found.nanoseconds = ::syscall(SYS_epoll_pwait2, fd, &event, 1, &none, nullptr, 0) == 0;
#endif
    ::close(fd);
    return found;
}

// Tries madvise on a new page.
bool try_advice(int advice) {
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const page =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    const bool worked = ::madvise(page, bytes, advice) == 0;
    ::munmap(page, bytes);
    return worked;
}

// How late a thread wakes, that sleeps for a millisecond: the median of some.
std::optional<double> sleep_lateness_us() {
    const auto now_ns = [] {
        timespec t{};
        ::clock_gettime(CLOCK_MONOTONIC, &t);
        return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
    };
    std::array<double, 51> late{};
    for (double& one : late) {
        const std::int64_t due = now_ns() + 1'000'000;
        const timespec at{due / 1'000'000'000, due % 1'000'000'000};
        while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
        }
        one = static_cast<double>(now_ns() - due) / 1e3;
    }
    std::nth_element(late.begin(), late.begin() + late.size() / 2, late.end());
    return late[late.size() / 2];
}

constexpr int guard_install = 102;  // MADV_GUARD_INSTALL, which older headers do not have

}  // namespace

machine_facts examine() {
    machine_facts facts;
    utsname system{};
    if (::uname(&system) == 0) facts.kernel = system.release;
    facts.clock_source =
        line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    if (const int slack = ::prctl(PR_GET_TIMERSLACK); slack >= 0) {
        facts.timer_slack_ns = static_cast<std::uint64_t>(slack);
    }
    const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
    facts.processors_online = online > 0 ? static_cast<unsigned>(online) : 1;
    cpu_set_t mask;
    facts.processors_allowed = ::sched_getaffinity(0, sizeof mask, &mask) == 0
                                   ? static_cast<unsigned>(CPU_COUNT(&mask))
                                   : facts.processors_online;
    facts.processors_quota = processor_quota();
    facts.memory_limit_bytes = group_limit("memory.max");
    facts.thread_limit = thread_limit();
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) facts.file_limit = files.rlim_cur;
    facts.most_mappings = number_in(line_of("/proc/sys/vm/max_map_count"));
    facts.has_futex = try_futex();
    facts.has_timerfd = try_timerfd(CLOCK_MONOTONIC, 0);
    facts.follows_date = try_timerfd(CLOCK_REALTIME, TFD_TIMER_CANCEL_ON_SET);
    const epoll_support epoll = try_epoll();
    facts.has_epoll = epoll.plain;
    facts.has_epoll_pwait2 = epoll.nanoseconds;
    facts.has_membarrier =
        ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0U, 0) == 0;
    facts.has_guard_install = try_advice(guard_install);
    const std::string huge = line_of("/sys/kernel/mm/transparent_hugepage/enabled");
    facts.has_huge_pages = !huge.empty() && huge.find("[never]") == std::string::npos;
    facts.sleep_late_us = sleep_lateness_us();
    return facts;
}

}  // namespace verge::tool
