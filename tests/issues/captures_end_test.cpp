// cancel_and_wait() said `gone`, and a second stop() returned, while another thread was still
// inside the destructor of the callback's captures.

#include "unit/driver/timer_service_fixture.hpp"
#include "unit/driver/timer_thread_fixture.hpp"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace verge {
namespace {

// Its destructor blocks until it is let go.
struct slow_capture {
    std::atomic<bool>* begun;
    std::atomic<bool>* go;
    std::atomic<bool>* ended;
    slow_capture(std::atomic<bool>& b, std::atomic<bool>& g, std::atomic<bool>& e) noexcept
        : begun(&b), go(&g), ended(&e) {}
    slow_capture(slow_capture&& other) noexcept
        : begun(std::exchange(other.begun, nullptr)), go(other.go), ended(other.ended) {}
    slow_capture& operator=(slow_capture&&) = delete;
    slow_capture(const slow_capture&) = delete;
    slow_capture& operator=(const slow_capture&) = delete;
    ~slow_capture() {
        if (begun == nullptr) return;
        *begun = true;
        while (!*go)
            std::this_thread::yield();
        *ended = true;
    }
    void operator()() const {}
};

class CapturesEnd : public testing::Test {
protected:
    // Until the other thread is inside the capture's destructor.
    void until_begun() const {
        while (!begun_)
            std::this_thread::yield();
    }
    // Lets the destructor go on, but only after the other thread has had ample turns to return.
    std::thread let_go_later() {
        return std::thread([this] {
            for (int i = 0; i < 1000; ++i)
                std::this_thread::yield();
            go_ = true;
        });
    }
    slow_capture capture() { return {begun_, go_, ended_}; }

    std::atomic<bool> begun_{false};
    std::atomic<bool> go_{false};
    std::atomic<bool> ended_{false};
};

TEST_F(CapturesEnd, BeforeCancelAndWaitSaysGone) {
    timer_thread timers;
    const timer_id id = timers.schedule_after(1h, capture());
    std::thread canceller([&] { EXPECT_EQ(timers.cancel(id), cancel_result::cancelled); });
    until_begun();
    std::thread later = let_go_later();
    EXPECT_EQ(timers.cancel_and_wait(id), cancel_result::gone);
    EXPECT_TRUE(ended_);
    canceller.join();
    later.join();
}

TEST_F(CapturesEnd, BeforeASecondStopReturns) {
    timer_thread timers;
    timers.schedule_after(1h, capture());
    std::thread stopper([&] { timers.stop(); });
    until_begun();
    std::thread later = let_go_later();
    timers.stop();
    EXPECT_TRUE(ended_);
    stopper.join();
    later.join();
}

TEST_F(CapturesEnd, BeforeAStopReturnsThatFindsACancelUnderWay) {
    timer_thread timers;
    const timer_id id = timers.schedule_after(1h, capture());
    std::thread canceller([&] { EXPECT_EQ(timers.cancel(id), cancel_result::cancelled); });
    until_begun();
    std::thread later = let_go_later();
    timers.stop();
    EXPECT_TRUE(ended_);
    canceller.join();
    later.join();
}

// What a destructor of a capture may do to its own timer and to the others: it does not wait for
// itself.
TEST_F(CapturesEnd, ADestructorMayStopAndCancel) {
    struct busy_capture {
        timer_thread* timers;
        timer_id* own;
        timer_id* other;
        int* ended;
        busy_capture(timer_thread& t, timer_id& o, timer_id& n, int& e) noexcept
            : timers(&t), own(&o), other(&n), ended(&e) {}
        busy_capture(busy_capture&& from) noexcept
            : timers(std::exchange(from.timers, nullptr)),
              own(from.own),
              other(from.other),
              ended(from.ended) {}
        busy_capture& operator=(busy_capture&&) = delete;
        busy_capture(const busy_capture&) = delete;
        busy_capture& operator=(const busy_capture&) = delete;
        ~busy_capture() {
            if (timers == nullptr) return;
            EXPECT_EQ(timers->cancel_and_wait(*own), cancel_result::running);
            static_cast<void>(timers->cancel_and_wait(*other));
            timers->stop();
            ++*ended;
        }
        void operator()() const {}
    };
    for (const bool by_stop : {false, true}) {
        int ended = 0;
        timer_id ids[2];
        timer_thread timers({.shards = 1});
        ids[0] = timers.schedule_after(1h, busy_capture(timers, ids[0], ids[1], ended));
        ids[1] = timers.schedule_after(1h, busy_capture(timers, ids[1], ids[0], ended));
        if (by_stop) {
            timers.stop();
        } else {
            EXPECT_EQ(timers.cancel(ids[0]), cancel_result::cancelled);
        }
        EXPECT_EQ(ended, 2);
    }
}

// The same of the service: no thread, virtual time.
TEST_F(CapturesEnd, BeforeWaitIdleReturns) {
    bell nobody;
    timer_service timers(nobody);
    timers.arm(at(1h), capture());
    std::thread closer([&] { timers.close(); });
    until_begun();
    std::thread later = let_go_later();
    timers.wait_idle();
    EXPECT_TRUE(ended_);
    closer.join();
    later.join();
}

}  // namespace
}  // namespace verge
