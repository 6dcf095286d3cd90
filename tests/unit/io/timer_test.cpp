#define VERGE_FAILING_NEW_ELSEWHERE
#include "support/failing_new.hpp"
#include "unit/io/io_fixture.hpp"
#include <verge/base/detail/kernel.hpp>
#include <verge/io/boottime_timer.hpp>
#include <verge/io/cancellation.hpp>
#include <verge/io/executor_work_guard.hpp>
#include <verge/io/high_resolution_timer.hpp>
#include <verge/io/steady_timer.hpp>
#include <verge/io/strand.hpp>
#include <verge/io/system_timer.hpp>
#include <verge/io/thread_pool.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/eventfd.h>

namespace verge {
namespace {

using loop_steady_timer = steady_timer::rebind_executor<io_context::executor_type>::other;
static_assert(sizeof(loop_steady_timer) == 40);

// The four clocks, and the steady one with the loop's own executor.
template <class Timer>
class Timers : public testing::Test {
protected:
    io_context io;
    std::string log;
    auto note(char name) {
        return [this, name](std::error_code error) {
            log += name;
            if (error) log += error == error::operation_aborted ? '!' : '?';
        };
    }
};
using all_timers = testing::Types<steady_timer, system_timer, boottime_timer, loop_steady_timer>;
TYPED_TEST_SUITE(Timers, all_timers);

TYPED_TEST(Timers, NeverCompletesEarly) {
    using clock_type = typename TypeParam::clock_type;
    for (const auto delay : {0us, 1us, 300us, 2000us, 7000us}) {
        TypeParam timer(this->io);
        timer.expires_after(delay);
        typename clock_type::time_point at{};
        timer.async_wait([&](std::error_code error) {
            EXPECT_FALSE(error);
            at = clock_type::now();
        });
        EXPECT_EQ(this->io.run(), 1U);
        EXPECT_GE(at, timer.expiry());
        this->io.restart();
    }
}

TYPED_TEST(Timers, EveryWaitCompletesOnce) {
    TypeParam timer(this->io, 1ms);
    timer.async_wait(this->note('a'));
    EXPECT_EQ(this->log, "");  // not in the call that begins it, though it may be due
    timer.expires_after(-1h);
    timer.async_wait(this->note('b'));
    EXPECT_EQ(this->log, "");
    EXPECT_EQ(this->io.run(), 2U);
    EXPECT_EQ(this->log, "a!b");
    EXPECT_EQ(timer.cancel(), 0U);
}

TYPED_TEST(Timers, WaitsCompleteInOrder) {
    TypeParam timer(this->io, 1ms);
    for (const char name : {'a', 'b', 'c', 'd'})
        timer.async_wait(this->note(name));
    EXPECT_EQ(this->io.run(), 4U);
    EXPECT_EQ(this->log, "abcd");
}

TYPED_TEST(Timers, CancelCountsWhatItEnds) {
    TypeParam timer(this->io, 1h);
    EXPECT_EQ(timer.cancel(), 0U);
    for (const char name : {'a', 'b', 'c'})
        timer.async_wait(this->note(name));
    EXPECT_EQ(timer.cancel_one(), 1U);
    EXPECT_EQ(timer.cancel(), 2U);
    EXPECT_EQ(timer.cancel_one(), 0U);
    timer.async_wait(this->note('d'));
    EXPECT_EQ(timer.expires_after(1h), 1U);
    timer.async_wait(this->note('e'));
    EXPECT_EQ(timer.expires_at(TypeParam::time_point::max()), 1U);
    EXPECT_EQ(this->io.run(), 5U);
    EXPECT_EQ(this->log, "a!b!c!d!e!");
}

TYPED_TEST(Timers, CancelOneLeavesTheOthers) {
    TypeParam timer(this->io, 1ms);
    timer.async_wait(this->note('a'));
    timer.async_wait(this->note('b'));
    EXPECT_EQ(timer.cancel_one(), 1U);
    EXPECT_EQ(this->io.run(), 2U);
    EXPECT_EQ(this->log, "a!b");
}

TYPED_TEST(Timers, AWaitThatHasExpiredIsNotCancelled) {
    // Both have expired when the loop first looks.
    TypeParam other(this->io, -2ms);
    TypeParam timer(this->io, -1ms);
    other.async_wait([&](std::error_code) {
        EXPECT_EQ(this->log, "") << "it is the first";
        EXPECT_EQ(timer.cancel(), 0U) << "its handler is to run already";
    });
    timer.async_wait(this->note('a'));
    EXPECT_EQ(this->io.run(), 2U);
    EXPECT_EQ(this->log, "a");
}

TYPED_TEST(Timers, CompletesInOrderOfExpiry) {
    TypeParam a(this->io);
    TypeParam b(this->io);
    TypeParam c(this->io);
    // Not before there are timers: what is past when the loop begins counts as that time.
    const auto start = TypeParam::clock_type::now();
    a.expires_at(start + 3ms);
    b.expires_at(start + 1ms);
    c.expires_at(start + 2ms);
    a.async_wait(this->note('a'));
    b.async_wait(this->note('b'));
    c.async_wait(this->note('c'));
    this->io.run();
    EXPECT_EQ(this->log, "bca");
}

TYPED_TEST(Timers, MovingTakesWaitsAlong) {
    TypeParam first(this->io);
    const auto expiry = TypeParam::clock_type::now() + 2ms;
    first.expires_at(expiry);
    first.async_wait(this->note('a'));
    first.async_wait(this->note('b'));
    TypeParam second(std::move(first));
    EXPECT_EQ(second.expiry(), expiry);
    EXPECT_EQ(first.cancel(), 0U);  // NOLINT: a moved-from timer may be used again
    TypeParam third(this->io, 1h);
    third.async_wait(this->note('c'));
    third = std::move(second);
    EXPECT_EQ(third.expiry(), expiry);
    first.expires_at(expiry - 1ms);
    first.async_wait(this->note('d'));
    this->io.run();
    EXPECT_EQ(this->log, "c!dab");
}

TYPED_TEST(Timers, MovingConvertsTheExecutor) {
    using loop_timer =
        typename TypeParam::template rebind_executor<io_context::executor_type>::other;
    using any_timer = typename TypeParam::template rebind_executor<any_io_executor>::other;
    loop_timer first(this->io, 1ms);
    first.async_wait(this->note('a'));
    any_timer second(std::move(first));
    any_timer third(this->io);
    third = loop_timer(this->io, 2ms);
    third.async_wait(this->note('b'));
    this->io.run();
    EXPECT_EQ(this->log, "ab");
}

TYPED_TEST(Timers, ATimerMovesToAnotherContext) {
    io_context other;
    TypeParam here(this->io, 1h);
    TypeParam there(other, 1ms);
    here.async_wait(this->note('a'));
    there.async_wait(this->note('b'));
    here = std::move(there);
    EXPECT_EQ(this->io.run(), 1U);
    EXPECT_EQ(other.run(), 1U);
    EXPECT_EQ(this->log, "a!b");
}

TYPED_TEST(Timers, MaxNeverComes) {
    TypeParam timer(this->io, TypeParam::time_point::max());
    timer.async_wait(this->note('a'));
    EXPECT_EQ(this->io.run_for(1ms), 0U);
    EXPECT_FALSE(this->io.stopped());
    EXPECT_EQ(timer.cancel(), 1U);
    EXPECT_EQ(this->io.run(), 1U);
    this->io.restart();
    timer.expires_after(TypeParam::duration::max());
    EXPECT_EQ(timer.expiry(), TypeParam::time_point::max());
}

TYPED_TEST(Timers, MaxWakesNobody) {
    const auto slots = [&] { return this->io.loop().use_reactor().timers().stats().pending; };
    TypeParam timer(this->io, 1h);
    timer.async_wait(this->note('a'));
    EXPECT_EQ(timer.expires_at(TypeParam::time_point::max()), 1U);
    timer.async_wait(this->note('b'));
    timer.async_wait(this->note('c'));
    EXPECT_EQ(slots(), 0U);  // not even the one of the first wait
    cancellation_signal signal;
    timer.async_wait(bind_cancellation_slot(signal.slot(), this->note('d')));
    signal.emit(cancellation_type::total);
    EXPECT_EQ(timer.cancel_one(), 1U);
    EXPECT_EQ(this->io.poll(), 3U);
    EXPECT_EQ(this->log, "a!d!b!");
    EXPECT_FALSE(this->io.stopped());  // c is pending

    TypeParam next(std::move(timer));
    EXPECT_EQ(next.expiry(), TypeParam::time_point::max());
    EXPECT_EQ(timer.cancel(), 0U);  // NOLINT: a moved-from timer may be used again
    next.async_wait(bind_cancellation_slot(signal.slot(), this->note('e')));
    next.async_wait(this->note('f'));
    TypeParam last(this->io);
    last = std::move(next);
    signal.emit(cancellation_type::total);
    EXPECT_EQ(slots(), 0U);
    EXPECT_EQ(last.expires_after(0ms), 2U);
    last.async_wait(this->note('g'));
    EXPECT_EQ(this->io.run(), 4U);
    EXPECT_EQ(this->log, "a!d!b!e!c!f!g");
}

TYPED_TEST(Timers, ManyThatNeverComeEndInAnyOrder) {
    std::vector<std::unique_ptr<TypeParam>> timers;
    for (int i = 0; i < 5; ++i) {
        timers.push_back(std::make_unique<TypeParam>(this->io, TypeParam::time_point::max()));
        timers.back()->async_wait(this->note(static_cast<char>('a' + i)));
    }
    timers[2].reset();             // in the middle
    timers[4].reset();             // the last
    timers[0]->expires_after(0s);  // the first
    timers[1]->cancel();           // stays without a wait
    timers[1].reset();
    timers[1] = std::move(timers[3]);
    EXPECT_EQ(this->io.poll(), 4U);
    EXPECT_EQ(this->log, "c!e!a!b!");
    EXPECT_EQ(timers[1]->cancel(), 1U);
    EXPECT_EQ(this->io.run(), 1U);
}

TYPED_TEST(Timers, MinIsDue) {
    TypeParam timer(this->io, TypeParam::time_point::min());
    timer.async_wait(this->note('a'));
    EXPECT_EQ(this->io.run(), 1U);
    this->io.restart();
    timer.expires_after(TypeParam::duration::min());
    timer.async_wait(this->note('b'));
    TypeParam none(this->io);  // without a time it is due as well
    none.async_wait(this->note('c'));
    EXPECT_EQ(this->io.run(), 2U);
    EXPECT_EQ(this->log.size(), 3U);
    timer.wait();
    std::error_code error = error::operation_aborted;
    timer.wait(error);
    EXPECT_FALSE(error);
}

TYPED_TEST(Timers, WaitBlocksUntilTheExpiry) {
    TypeParam timer(this->io, 1ms);
    timer.wait();
    EXPECT_GE(TypeParam::clock_type::now(), timer.expiry());
}

TYPED_TEST(Timers, MayBeArmedAgainInItsOwnHandler) {
    TypeParam timer(this->io, 0ms);
    int rounds = 0;
    std::function<void(std::error_code)> again = [&](std::error_code error) {
        ASSERT_FALSE(error);
        if (++rounds == 10) return;
        EXPECT_EQ(timer.expires_at(timer.expiry() + 100us), 0U);
        timer.async_wait(again);
    };
    timer.async_wait(again);
    this->io.run();
    EXPECT_EQ(rounds, 10);
}

TYPED_TEST(Timers, DestructionEndsItsWaits) {
    {
        TypeParam timer(this->io, 1h);
        timer.async_wait(this->note('a'));
    }
    EXPECT_EQ(this->io.run(), 1U);
    EXPECT_EQ(this->log, "a!");
}

TYPED_TEST(Timers, ADestroyedContextDestroysHandlers) {
    std::atomic<int> alive = 0;
    {
        io_context own;
        // Timers that only their own handlers keep alive.
        for (const auto delay : {typename TypeParam::duration(0), TypeParam::duration::max()}) {
            auto timer = std::make_shared<TypeParam>(own);
            timer->expires_after(delay);
            timer->async_wait([timer, c = counted(alive)](std::error_code) { FAIL(); });
            timer->async_wait([timer, c = counted(alive)](std::error_code) { FAIL(); });
        }
        EXPECT_EQ(alive, 4);
    }
    EXPECT_EQ(alive, 0);
}

TYPED_TEST(Timers, ASlotEndsOneWait) {
    TypeParam timer(this->io, 1h);
    cancellation_signal signal;
    timer.async_wait(this->note('a'));
    timer.async_wait(bind_cancellation_slot(signal.slot(), this->note('b')));
    timer.async_wait(this->note('c'));
    EXPECT_TRUE(signal.slot().has_handler());
    EXPECT_EQ(this->io.poll(), 0U);
    signal.emit(cancellation_type::none);
    EXPECT_EQ(this->io.poll(), 0U);
    signal.emit(cancellation_type::total);
    EXPECT_EQ(this->io.poll(), 1U);
    EXPECT_EQ(this->log, "b!");
    EXPECT_FALSE(signal.slot().has_handler());
    EXPECT_EQ(timer.cancel(), 2U);
    this->io.poll();
    EXPECT_EQ(this->log, "b!a!c!");
}

TYPED_TEST(Timers, ASlotFollowsAMoveAndIsHarmlessAfterwards) {
    cancellation_signal moved;
    cancellation_signal late;
    TypeParam first(this->io, 1h);
    first.async_wait(bind_cancellation_slot(moved.slot(), this->note('a')));
    auto second = std::make_unique<TypeParam>(std::move(first));
    moved.emit(cancellation_type::terminal);
    moved.emit(cancellation_type::terminal);  // it has ended already
    second->expires_after(1h);
    second->async_wait(bind_cancellation_slot(late.slot(), this->note('b')));
    second.reset();
    late.emit(cancellation_type::all);  // the timer is gone, its handler has not run
    this->io.run();
    EXPECT_EQ(this->log, "a!b!");
}

TYPED_TEST(Timers, HandlersMayBeMoveOnly) {
    TypeParam timer(this->io, 0ms);
    int seen = 0;
    timer.async_wait([&, p = std::make_unique<int>(7)](std::error_code) { seen = *p; });
    this->io.run();
    EXPECT_EQ(seen, 7);
}

TYPED_TEST(Timers, AHandlersExecutorIsUsed) {
    io_context home;
    TypeParam timer(this->io, 0ms);
    timer.async_wait(bind_executor(home, this->note('a')));
    EXPECT_EQ(home.poll(), 0U);
    EXPECT_FALSE(home.stopped());  // the wait counts as its work
    EXPECT_EQ(this->io.run(), 1U);
    EXPECT_EQ(this->log, "");
    EXPECT_EQ(home.run(), 1U);
    EXPECT_EQ(this->log, "a");
}

TYPED_TEST(Timers, AHandlersAllocatorIsUsed) {
    allocation_count count;
    TypeParam timer(this->io, 0ms);
    timer.async_wait(bind_allocator(counting_allocator<char>(count), this->note('a')));
    EXPECT_EQ(count.live, 1);
    this->io.run();
    EXPECT_EQ(count.live, 0);
    EXPECT_EQ(count.total, 1);
}

TYPED_TEST(Timers, ArmingFromAnotherThreadWakesALoopThatSleeps) {
    auto guard = make_work_guard(this->io);
    TypeParam far(this->io, 1h);
    far.async_wait(this->note('f'));
    runners loop(this->io, 1);
    ASSERT_TRUE(loop.sleep());
    TypeParam timer(this->io, 1ms);
    occurrence done;
    timer.async_wait([&](std::error_code error) {
        EXPECT_FALSE(error);
        done.set();
    });
    EXPECT_TRUE(done.wait());
    far.cancel();
    guard.reset();
    loop.join();
    EXPECT_EQ(this->log, "f!");
}

// Whether the loop has waited; a wait that a stop of the process ends is none.
struct watched_kernel : detail::kernel {
    bool waited = false;
    int epoll_pwait2(int epoll, epoll_event* events, int room,
                     const timespec* limit) noexcept override {
        const int ready = kernel::epoll_pwait2(epoll, events, room, limit);
        waited |= ready >= 0;
        return ready;
    }
    int epoll_wait(int epoll, epoll_event* events, int room, int limit) noexcept override {
        const int ready = kernel::epoll_wait(epoll, events, room, limit);
        waited |= ready >= 0;
        return ready;
    }
};

TYPED_TEST(Timers, AnExpiryAtTheEndOfRunUntilIsRun) {
    watched_kernel watched;
    const detail::replaced_kernel scope(watched);
    io_context own;
    auto guard = make_work_guard(own);
    TypeParam timer(own, 2ms);
    timer.async_wait(this->note('a'));
    own.run_until(timer.expiry());
    // If this thread came too late, the loop may not have begun to wait for anything.
    EXPECT_TRUE(this->log == "a" || !watched.waited) << this->log;
}

TEST(Timer, WorksOnAStrandAndOnAThreadPool) {
    thread_pool pool(3);
    const auto one = make_strand(pool);
    int counter = 0;
    std::vector<std::unique_ptr<steady_timer>> timers;
    for (int i = 0; i < 200; ++i) {
        timers.push_back(std::make_unique<steady_timer>(one, std::chrono::microseconds(10 * i)));
        timers.back()->async_wait([&](std::error_code error) {
            EXPECT_FALSE(error);
            EXPECT_TRUE(one.running_in_this_thread());
            ++counter;
        });
    }
    pool.join();
    EXPECT_EQ(counter, 200);
}

TEST(Timer, AHighResolutionTimerWorks) {
    io_context io;
    high_resolution_timer timer(io, 1ms);
    bool fired = false;
    timer.async_wait([&](std::error_code) { fired = true; });
    io.run();
    EXPECT_TRUE(fired);
}

TEST(Timer, SlackIsNeverEarlyAndLetsTimersMeet) {
    io_context io(1);
    std::vector<std::unique_ptr<loop_steady_timer>> timers;
    int fired = 0;
    for (int i = 0; i < 50; ++i) {
        timers.push_back(std::make_unique<loop_steady_timer>(io));
        loop_steady_timer& timer = *timers.back();
        timer.expires_after(std::chrono::microseconds(1000 + 20 * i), 4ms);
        timer.async_wait([&](std::error_code) {
            EXPECT_GE(now(), timer.expiry());
            ++fired;
        });
    }
    const std::uint64_t before = io.loop().use_reactor().stats().waits;
    io.run();
    EXPECT_EQ(fired, 50);
    EXPECT_LT(io.loop().use_reactor().stats().waits - before, 20U);
}

#if VERGE_CAN_REFUSE_MEMORY
TEST(Timer, ASteadyStateAllocatesNothing) {
    io_context io(1);
    loop_steady_timer timer(io);
    int left = 200;
    struct step {
        loop_steady_timer* timer;
        int* left;
        void operator()(std::error_code) const {
            if (--*left == 0) return;
            timer->expires_after(std::chrono::nanoseconds(1));
            timer->async_wait(*this);
        }
    };
    timer.async_wait(step{&timer, &left});
    io.run_one();
    const failing_new next(1);
    io.run();
    EXPECT_EQ(left, 0);
    EXPECT_FALSE(next.struck());
}
#endif

TEST(Timer, ACancelledWaitLeavesItsSlotForTheNext) {
    io_context io(1);
    loop_steady_timer timer(io);
    const time_point start = now();
    for (int i = 0; i < 100; ++i) {
        timer.expires_at(start + 1h + std::chrono::nanoseconds(i));
        timer.async_wait([](std::error_code error) { EXPECT_TRUE(error); });
        timer.cancel();
    }
    EXPECT_EQ(io.run(), 100U);
    EXPECT_EQ(io.loop().use_reactor().timers().stats().scheduled, 1U);
    EXPECT_EQ(io.loop().use_reactor().timers().stats().rescheduled, 0U);
}

TEST(Timer, ALaterExpiryIsNotCutShortByAnEarlierOne) {
    io_context io(1);
    loop_steady_timer timer(io, 1ms);
    timer.async_wait([](std::error_code error) { EXPECT_EQ(error, error::operation_aborted); });
    timer.expires_after(4ms);  // later than what the slot is armed for
    bool fired = false;
    timer.async_wait([&](std::error_code error) {
        EXPECT_FALSE(error);
        EXPECT_GE(now(), timer.expiry());
        fired = true;
    });
    io.run();
    EXPECT_TRUE(fired);
}

TEST(Timer, AnEarlierExpiryIsNotKeptWaitingByALaterOne) {
    io_context io(1);
    loop_steady_timer timer(io, 1h);
    timer.async_wait([](std::error_code error) { EXPECT_EQ(error, error::operation_aborted); });
    timer.expires_after(1ms);
    bool fired = false;
    timer.async_wait([&](std::error_code error) { fired = !error; });
    io.run_for(40s);
    EXPECT_TRUE(fired);
    timer.expires_after(1h, 1s);
    timer.async_wait([](std::error_code) {});
    timer.expires_after(1ms, 10us);  // the same with slack
    fired = false;
    timer.async_wait([&](std::error_code error) { fired = !error; });
    io.restart();
    io.run_for(40s);
    EXPECT_TRUE(fired);
}

TEST(Timer, FewTimerfdCallsPerExpiry) {
    io_context io(1);
    loop_steady_timer timer(io, 0ms);
    int left = 50;
    std::function<void(std::error_code)> again = [&](std::error_code) {
        if (--left == 0) return;
        timer.expires_at(timer.expiry() + 1ms);
        timer.async_wait(again);
    };
    timer.async_wait(again);
    io.run();
    EXPECT_LE(io.loop().use_reactor().stats().timer_sets, 15U);  // 0.3 per expiry
}

// ---- the date, and clocks of the user -----------------------------------------------------------

// A kernel whose CLOCK_REALTIME timerfd says only what the test says.
struct dated_kernel : detail::kernel {
    int fd = -1;
    int timerfd_create(int which, int flags) noexcept override {
        if (which != CLOCK_REALTIME) return kernel::timerfd_create(which, flags);
        return fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    int timerfd_settime(int of, int flags, const itimerspec* to,
                        itimerspec* before) noexcept override {
        return of == fd ? 0 : kernel::timerfd_settime(of, flags, to, before);
    }
    ssize_t read(int of, void* data, std::size_t size) noexcept override {
        const ssize_t got = kernel::read(of, data, size);
        if (of != fd) return got;
        errno = ECANCELED;
        return -1;
    }
    void set_the_date() const {
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(fd, &one, sizeof one), ssize_t{sizeof one});
    }
};

TEST(Timer, ANewDateCountsAtOnce) {
    dated_kernel dated;
    const detail::replaced_kernel scope(dated);
    io_context io;
    system_timer timer(io, 1ms);
    bool fired = false;
    timer.async_wait([&](std::error_code error) { fired = !error; });
    ASSERT_TRUE(eventually([&] { return system_timer::clock_type::now() > timer.expiry(); }));
    EXPECT_EQ(io.poll(), 0U);  // the date has come, but nobody has said so
    dated.set_the_date();
    EXPECT_EQ(io.run(), 1U);
    EXPECT_TRUE(fired);
}

TEST(Timer, ADateSetBackDoesNotCompleteEarly) {
    dated_kernel dated;
    const detail::replaced_kernel scope(dated);
    io_context io;
    system_timer timer(io, 1h);
    timer.async_wait([&](std::error_code) {});
    dated.set_the_date();
    EXPECT_EQ(io.poll(), 0U);
    timer.cancel();
    EXPECT_EQ(io.poll(), 1U);
}

TEST(Timer, ADateWorksWhereTimerfdIsRefused) {
    struct : detail::kernel {
        int timerfd_create(int, int) noexcept override {
            errno = EMFILE;
            return -1;
        }
    } refusing;
    const detail::replaced_kernel scope(refusing);
    io_context io;
    system_timer timer(io, 1ms);
    boottime_timer other(io, 1ms);
    int fired = 0;
    timer.async_wait([&](std::error_code) { ++fired; });
    other.async_wait([&](std::error_code) { ++fired; });
    io.run();
    EXPECT_EQ(fired, 2);
}

// Virtual time: it stands still until the test moves it, forward or back.
struct game_clock {
    using duration = std::chrono::milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<game_clock>;
    static time_point now() noexcept { return current; }
    static inline time_point current{};
};
struct look_often {
    static game_clock::duration to_wait_duration(const game_clock::duration&) { return {}; }
    static game_clock::duration to_wait_duration(const game_clock::time_point&) { return {}; }
};
using game_timer = basic_waitable_timer<game_clock, look_often>;

// Two threads that need a service at the same time may both make one; then one goes at once.
TEST(Timer, ASecondQueueOfAClockThatGoesAtOnceDoesNoHarm) {
    using queue =
        detail::io::clock_queue<std::chrono::system_clock, wait_traits<std::chrono::system_clock>>;
    io_context io;
    system_timer before(io, 1ms);
    int fired = 0;
    before.async_wait([&](std::error_code) { ++fired; });
    { const queue loser(io); }
    system_timer after(io, 1ms);
    after.async_wait([&](std::error_code) { ++fired; });
    io.run_for(10s);
    EXPECT_EQ(fired, 2);
}

#if VERGE_CAN_REFUSE_MEMORY
TEST(Timer, MemoryRefusedBeginsNoWaitOfAUsersClock) {
    game_clock::current = {};
    int refused = 0;
    for (bool begun = false; !begun; ++refused) {
        io_context io;
        game_timer timer(io, 1s);
        const auto alive = std::make_shared<int>();
        auto handler = [keep = std::shared_ptr<int>(alive)](std::error_code) {};
        {
            const failing_new nth(refused + 1);
            try {
                timer.async_wait(std::move(handler));
                begun = true;
            } catch (const std::bad_alloc&) {
            }
        }
        // What was refused does not stand before another timer, whose alarm it has not set.
        game_timer later(io, 2s);
        later.async_wait([](std::error_code error) { EXPECT_FALSE(error); });
        game_clock::current += 2s;
        EXPECT_EQ(io.run_for(10s), begun ? 2U : 1U);
        game_clock::current = {};
        EXPECT_EQ(timer.cancel(), 0U);
    }
    EXPECT_GE(refused, 3) << "the operation, the heap, the alarm";
}
#endif

TEST(Timer, AUsersClockDecides) {
    game_clock::current = {};
    io_context io;
    game_timer a(io, 20s);
    game_timer b(io, 10s);
    game_timer c(io, 30s);
    std::string log;
    a.async_wait([&](std::error_code) { log += 'a'; });
    b.async_wait([&](std::error_code) { log += 'b'; });
    c.async_wait([&](std::error_code) { log += 'c'; });
    EXPECT_EQ(io.poll(), 0U);
    game_clock::current += 20s;
    EXPECT_EQ(io.poll(), 2U);
    EXPECT_EQ(log, "ba");  // by its own time, not by the order of arming
    game_clock::current -= 15s;
    EXPECT_EQ(io.poll(), 0U);
    b.expires_after(1s);  // before what the clock has shown already
    b.async_wait([&](std::error_code) { log += 'b'; });
    EXPECT_EQ(io.poll(), 0U);
    game_clock::current += 1s;
    EXPECT_EQ(io.poll(), 1U);
    EXPECT_EQ(log, "bab");
    game_clock::current += 1h;
    EXPECT_EQ(io.run(), 1U);
}

TEST(Timer, EqualExpiriesOfAClockCompleteInTheOrderOfTheirWaits) {
    game_clock::current = {};
    io_context io;
    std::string log;
    std::vector<std::unique_ptr<game_timer>> timers;
    for (char name = 'a'; name <= 'i'; ++name) {
        timers.push_back(std::make_unique<game_timer>(io, 1s));
        timers.back()->async_wait([&log, name](std::error_code) { log += name; });
    }
    timers[2]->cancel();
    timers[2]->async_wait([&](std::error_code) { log += 'C'; });
    game_timer moved(std::move(*timers[0]));
    game_clock::current += 1s;
    EXPECT_EQ(io.run(), 10U);
    EXPECT_EQ(log, "cbdefghiCa");  // one that was armed again, or moved, is the last
}

TEST(Timer, ExpiriesBeforeTheEpochKeepTheirOrder) {
    game_clock::current = game_clock::time_point(-1h);
    io_context io;
    std::string log;
    game_timer a(io, -1s);
    game_timer b(io, -3s);
    game_timer c(io, -2s);
    a.async_wait([&](std::error_code) { log += 'a'; });
    b.async_wait([&](std::error_code) { log += 'b'; });
    c.async_wait([&](std::error_code) { log += 'c'; });
    EXPECT_EQ(io.run(), 3U);
    EXPECT_EQ(log, "bca");
}

// The alarm was set as the clock ran then; each wait for the earliest expiry sets it anew.
TEST(Timer, AFurtherWaitReadsTheClockAgain) {
    game_clock::current = {};
    io_context io;
    basic_waitable_timer<game_clock> timer(io, 1h);
    int fired = 0;
    timer.async_wait([&](std::error_code error) { fired += error ? 0 : 1; });
    EXPECT_EQ(io.poll(), 0U);
    game_clock::current += 1h;
    timer.async_wait([&](std::error_code error) { fired += error ? 0 : 1; });
    EXPECT_EQ(io.run_for(10s), 2U);
    EXPECT_EQ(fired, 2);
}

// However its last wait is ended: the alarm is set for the next timer that waits.
TEST(Timer, WithoutWaitsATimerHoldsNoAlarmOfItsClock) {
    game_clock::current = {};
    io_context io;
    const auto alarm_sets = [&] {
        const auto stats = io.loop().use_reactor().timers().stats();
        return stats.scheduled + stats.rescheduled;
    };
    using timer_type = basic_waitable_timer<game_clock>;
    timer_type early(io, 1h);
    timer_type late(io, 2h);
    cancellation_signal signal;
    const auto begin_and_end = [&](auto end) {
        early.async_wait(bind_cancellation_slot(signal.slot(), [](std::error_code) {}));
        end();
        const auto before = alarm_sets();
        late.async_wait([](std::error_code) {});
        EXPECT_EQ(alarm_sets(), before + 1);
        EXPECT_EQ(late.cancel(), 1U);
        EXPECT_EQ(io.poll(), 2U);
        io.restart();
    };
    begin_and_end([&] { early.cancel(); });
    begin_and_end([&] { early.cancel_one(); });
    begin_and_end([&] { signal.emit(cancellation_type::total); });
    begin_and_end([&] { early.expires_after(1h); });
}

TEST(Timer, AClocksAlarmIsForTheEarliestThatIsLeft) {
    game_clock::current = {};
    io_context io;
    std::string log;
    const auto note = [&](char name) { return [&log, name](std::error_code) { log += name; }; };
    game_timer never(io, (game_clock::time_point::max)());
    never.async_wait(note('n'));
    EXPECT_EQ(io.loop().use_reactor().timers().stats().pending, 0U);
    game_timer a(io, 1s);
    game_timer b(io, 3s);
    game_timer c(io, 2s);
    a.async_wait(note('a'));
    a.async_wait(note('a'));
    b.async_wait(note('b'));
    c.async_wait(note('c'));
    EXPECT_EQ(a.cancel_one(), 1U);
    EXPECT_EQ(io.poll(), 1U);
    EXPECT_EQ(a.cancel_one(), 1U);  // with its last wait it leaves the queue
    EXPECT_EQ(io.poll(), 1U);
    game_clock::current += 1s;
    EXPECT_EQ(io.poll(), 0U);
    cancellation_signal signal;
    b.expires_after(500ms);
    b.async_wait(bind_cancellation_slot(signal.slot(), note('d')));
    signal.emit(cancellation_type::total);
    game_clock::current += 1s;
    io.restart();
    while (io.poll() > 0) {
    }
    EXPECT_EQ(log, "aabdc");
    EXPECT_EQ(never.cancel(), 1U);
    EXPECT_EQ(io.run(), 1U);
}

// ---- several threads ----------------------------------------------------------------------------

TEST(Timer, OneTimerMayBeUsedByManyThreads) {
    io_context io;
    auto guard = make_work_guard(io);
    runners loop(io, 2);
    steady_timer timer(io, 1h);
    std::atomic<int> begun = 0;
    std::atomic<int> completed = 0;
    std::atomic<std::size_t> cancelled = 0;
    std::atomic<std::size_t> aborted = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 3000; ++i) {
                switch ((t + i) % 3) {
                    case 0:
                        cancelled += i % 5 == 0
                                         ? timer.expires_at(steady_timer::time_point::max())
                                         : timer.expires_after(std::chrono::microseconds(i % 50));
                        break;
                    case 1:
                        cancelled += timer.cancel();
                        break;
                    default:
                        ++begun;
                        timer.async_wait([&](std::error_code error) {
                            if (error) ++aborted;
                            ++completed;
                        });
                }
            }
        });
    }
    for (std::thread& t : threads)
        t.join();
    cancelled += timer.cancel();
    guard.reset();
    loop.join();
    EXPECT_EQ(begun, completed);
    EXPECT_EQ(cancelled, aborted);
}

TEST(Timer, DestroyingARaceOfExpiriesIsSafe) {
    io_context io;
    auto guard = make_work_guard(io);
    runners loop(io, 2);
    std::atomic<int> completed = 0;
    for (int i = 0; i < 3000; ++i) {
        loop_steady_timer timer(io, std::chrono::microseconds(i % 20));
        timer.async_wait([&](std::error_code) { ++completed; });
        if (i % 3 == 0) loop_steady_timer moved(std::move(timer));
    }
    guard.reset();
    loop.join();
    EXPECT_EQ(completed, 3000);
}

}  // namespace
}  // namespace verge
