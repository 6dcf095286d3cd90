// unit/io/io_fixture.hpp -- what the tests of the event loop share.

#pragma once

#include "unit/driver/driver_fixture.hpp"
#include <verge/io/io_context.hpp>
#include <verge/io/post.hpp>

#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <sys/syscall.h>
#include <unistd.h>

namespace verge {

// An allocator that counts what it has given out.
struct allocation_count {
    std::ptrdiff_t live = 0;
    std::ptrdiff_t total = 0;
};

template <class T>
struct counting_allocator {
    using value_type = T;
    explicit counting_allocator(allocation_count& c) noexcept : count(&c) {}
    template <class U>
    counting_allocator(const counting_allocator<U>& other) noexcept : count(other.count) {}
    T* allocate(std::size_t n) {
        ++count->live;
        ++count->total;
        return std::allocator<T>().allocate(n);
    }
    void deallocate(T* memory, std::size_t n) noexcept {
        --count->live;
        std::allocator<T>().deallocate(memory, n);
    }
    template <class U>
    friend bool operator==(const counting_allocator& a, const counting_allocator<U>& b) noexcept {
        return a.count == b.count;
    }
    allocation_count* count;
};

// Threads that run a context until it has no work.
class runners {
public:
    runners(io_context& io, int count) {
        for (int i = 0; i < count; ++i) {
            threads_.emplace_back([this, &io] {
                tid_ = static_cast<pid_t>(::syscall(SYS_gettid));
                io.run();
            });
        }
    }
    runners(const runners&) = delete;
    runners& operator=(const runners&) = delete;
    ~runners() { join(); }
    void join() {
        for (std::thread& thread : threads_)
            thread.join();
        threads_.clear();
    }
    // Whether the last thread that started comes to sleep.
    [[nodiscard]] bool sleep() const {
        return eventually([this] { return tid_ != 0; }) && falls_asleep(tid_);
    }

private:
    std::atomic<pid_t> tid_ = 0;
    std::vector<std::thread> threads_;
};

}  // namespace verge
