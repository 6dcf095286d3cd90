// unit/driver/driver_fixture.hpp -- what the tests of timer services and timer threads share.

#pragma once

#include "support/eventually.hpp"
#include "support/in_child.hpp"
#include <verge/base/clock.hpp>
#include <verge/base/detail/annotate.hpp>
#include <verge/base/timer_id.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace verge {

using namespace std::chrono_literals;

inline constexpr bool has_sanitizer = detail::has_asan || detail::has_tsan;

constexpr time_point at(duration since_start) {
    return time_point(since_start);
}

inline time_point now() {
    return steady_source{}.now();
}

inline std::ostream& operator<<(std::ostream& out, cancel_result result) {
    constexpr const char* names[] = {"cancelled", "running", "gone"};
    return out << names[static_cast<std::size_t>(result)];
}

inline std::ostream& operator<<(std::ostream& out, reschedule_result result) {
    constexpr const char* names[] = {"pending", "running", "gone"};
    return out << names[static_cast<std::size_t>(result)];
}

// Something that happens once.
class occurrence {
public:
    void set() {
        const std::lock_guard hold(lock_);
        happened_ = true;
        changed_.notify_all();
    }
    [[nodiscard]] bool has_happened() const {
        const std::lock_guard hold(lock_);
        return happened_;
    }
    // False if it does not happen.
    [[nodiscard]] bool wait() const {
        std::unique_lock hold(lock_);
        return changed_.wait_until(hold, now() + patience, [this] { return happened_; });
    }

private:
    mutable std::mutex lock_;
    mutable std::condition_variable changed_;
    bool happened_ = false;
};

// What a file of /proc says: the text up to its first zero byte or its end.
inline std::string text_of(const std::string& path) {
    std::string text(4096, '\0');
    std::FILE* const file = std::fopen(path.c_str(), "r");
    if (file == nullptr) return {};
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
}

// Whether a thread of this process comes to sleep in the kernel.
inline bool falls_asleep(pid_t tid) {
    return eventually([path = "/proc/self/task/" + std::to_string(tid) + "/stat"] {
        const std::string text = text_of(path);  // pid (name) state ...
        const std::size_t end = text.rfind(')');
        return end != std::string::npos && text.substr(end, 3) == ") S";
    });
}

// How often a thread of this process has gone to sleep.
inline long sleeps_of(pid_t tid) {
    constexpr std::string_view field = "\nvoluntary_ctxt_switches:";
    const std::string text = text_of("/proc/self/task/" + std::to_string(tid) + "/status");
    const std::size_t at = text.find(field);
    EXPECT_NE(at, std::string::npos);
    return at == std::string::npos ? 0 : std::stol(text.substr(at + field.size()));
}

// Sees whether threads that sleep are left asleep.  A stop of the whole process wakes all that
// sleep, and each goes to sleep again, once or twice for a stop: so it does to one that nobody else
// wakes, which is here to compare.
class sleep_watch {
public:
    explicit sleep_watch(std::vector<pid_t> threads)
        : threads_(std::move(threads)), other_([this] {
              tid_ = ::gettid();
              EXPECT_TRUE(over_.wait());
          }) {
        EXPECT_TRUE(eventually([this] { return tid_ != 0; }) && falls_asleep(tid_));
        others_before_ = sleeps_of(tid_);
        for (const pid_t tid : threads_)
            before_.push_back(sleeps_of(tid));
    }
    ~sleep_watch() {
        over_.set();
        other_.join();
    }
    sleep_watch(const sleep_watch&) = delete;
    sleep_watch& operator=(const sleep_watch&) = delete;

    // Whether none of them has woken since.
    [[nodiscard]] bool all_slept() const {
        long most = 0;
        for (std::size_t i = 0; i < threads_.size(); ++i)
            most = std::max(most, sleeps_of(threads_[i]) - before_[i]);
        return most <= 2 * (sleeps_of(tid_) - others_before_);
    }

private:
    std::vector<pid_t> threads_;
    std::vector<long> before_;
    long others_before_ = 0;
    occurrence over_;
    std::atomic<pid_t> tid_{0};
    std::thread other_;
};

// Does something on a thread of its own: in a shard of its own, if there are enough.
template <class F>
void on_own_thread(F&& f) {
    std::thread(std::forward<F>(f)).join();
}

// Runs a function when it is destroyed, wherever it was moved to before.
class at_end {
public:
    explicit at_end(std::function<void()> then)
        : then_(std::make_unique<std::function<void()>>(std::move(then))) {}
    ~at_end() {
        if (then_ != nullptr) (*then_)();
    }
    at_end(at_end&&) noexcept = default;
    at_end& operator=(at_end&&) = delete;
    at_end(const at_end&) = delete;
    at_end& operator=(const at_end&) = delete;

private:
    std::unique_ptr<std::function<void()>> then_;
};

// What a callback captures so that a test can count what there is.
class counted {
public:
    explicit counted(std::atomic<int>& count) : count_(&count) { ++count; }
    counted(counted&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
    counted& operator=(counted&&) = delete;
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() {
        if (count_ != nullptr) --*count_;
    }

private:
    std::atomic<int>* count_;
};

// How many chunks of slots there are, as the ids tell: memory that no sanitizer blurs.
class chunk_counter {
public:
    void add(timer_id id) { numbers_.insert(static_cast<std::uint32_t>(id.value()) >> 10); }
    [[nodiscard]] std::size_t count() const { return numbers_.size(); }

private:
    std::set<std::uint32_t> numbers_;
};

// Resident memory of this process, in bytes.
inline std::size_t resident_bytes() {
    std::size_t total = 0;
    std::size_t resident = 0;
    std::FILE* const file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr) return 0;
    const int read = std::fscanf(file, "%zu %zu", &total, &resident);
    std::fclose(file);
    return read == 2 ? resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace verge
