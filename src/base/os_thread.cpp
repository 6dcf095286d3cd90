// src/base/os_thread.cpp -- starts the library's threads, with the program's signals blocked.

#include <verge/base/detail/os_thread.hpp>
#include <verge/base/parker.hpp>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace verge::detail {

std::size_t processor_count() noexcept {
    cpu_set_t set;
    if (os::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

namespace {

void check(int error, const char* call) {
    if (error != 0) throw std::system_error(error, std::generic_category(), call);
}

class attributes {
public:
    explicit attributes(const std::vector<int>* cpus) {
        check(::pthread_attr_init(&value_), "pthread_attr_init");
        if (cpus == nullptr || cpus->empty()) return;
        cpu_set_t set;
        CPU_ZERO(&set);
        for (const int cpu : *cpus)
            CPU_SET(static_cast<std::size_t>(cpu), &set);
        const int error = ::pthread_attr_setaffinity_np(&value_, sizeof set, &set);
        if (error != 0) ::pthread_attr_destroy(&value_);
        check(error, "pthread_attr_setaffinity_np");
        pinned_ = true;
    }
    ~attributes() { ::pthread_attr_destroy(&value_); }
    attributes(const attributes&) = delete;
    attributes& operator=(const attributes&) = delete;

    [[nodiscard]] const pthread_attr_t* get() const noexcept { return &value_; }
    [[nodiscard]] bool pinned() const noexcept { return pinned_; }

private:
    pthread_attr_t value_;
    bool pinned_ = false;
};

// All but those that a thread causes itself, so that the program's crash handlers run, and SIGPROF,
// so that profilers see it.
sigset_t blocked_signals() noexcept {
    sigset_t set;
    ::sigfillset(&set);
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) {
        ::sigdelset(&set, number);
    }
    return set;
}

}  // namespace

os_thread::os_thread(void* (*main)(void*), void* argument, const os_thread_options& options) {
    const attributes made(options.cpus);
    const sigset_t blocked = blocked_signals();
    sigset_t old;
    os::pthread_sigmask(SIG_SETMASK, &blocked, &old);  // the thread inherits it
    const int error = os::pthread_create(&handle_, made.get(), main, argument);
    os::pthread_sigmask(SIG_SETMASK, &old, nullptr);
    // A thread itself is refused with one of the first two.
    const bool for_its_cpus = error != EAGAIN && error != ENOMEM && made.pinned();
    check(error, for_its_cpus ? "sched_setaffinity" : "pthread_create");
    joinable_ = true;
    os::pthread_setname_np(handle_, std::string(options.name.substr(0, 15)).c_str());
}

void os_thread::join() noexcept {
    if (std::exchange(joinable_, false)) os::pthread_join(handle_, nullptr);
}

void os_thread::detach() noexcept {
    if (std::exchange(joinable_, false)) os::pthread_detach(handle_);
}

bool os_thread::is_caller() const noexcept {
    return ::pthread_equal(handle_, os::pthread_self()) != 0;
}

std::uint64_t os_thread::busy_ns() const noexcept {
    clockid_t clock{};
    timespec used{};
    if (os::pthread_getcpuclockid(handle_, &clock) != 0) return 0;
    if (os::clock_gettime(clock, &used) != 0) return 0;
    return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(used.tv_nsec);
}

void os_thread::swap(os_thread& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(joinable_, other.joinable_);
}

void thread_condition::sleep(std::uint32_t seen, time_point deadline) noexcept {
    futex_platform::wait(count_, seen, deadline);
}

void thread_condition::wake_one() noexcept {
    futex_platform::wake_one(count_);
}

void thread_condition::wake_all() noexcept {
    futex_platform::wake_all(count_);
}

}  // namespace verge::detail
