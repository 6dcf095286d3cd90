// mutates: src/sync/wait.cpp
// mutates: src/sync/mutex.cpp include/verge/sync/mutex.hpp
// mutates: src/sync/condition_variable.cpp
// mutates: src/sync/shared_mutex.cpp include/verge/sync/shared_mutex.hpp
// mutates: src/sync/event.cpp include/verge/sync/event.hpp
// mutates: src/sync/latch.cpp include/verge/sync/latch.hpp
// mutates: src/sync/semaphore.cpp include/verge/sync/semaphore.hpp
// mutates: src/sync/once.cpp include/verge/sync/once.hpp
//
// Explores the interleavings of those who synchronise by mutexes, condition variables, events and
// the like.  Exits with 1 and prints the guilty history if an assertion fails; a wake-up that is
// lost is a thread that waits for ever, which relacy reports as a live-lock.
//
// These are the real source files, and the waiting on words below them too, compiled here with
// other names for what they stand on: sync_waits.hpp.

// clang-format off
#include "sync_waits.hpp"
#include "sync/mutex.cpp"
#include "sync/condition_variable.cpp"
#include "sync/shared_mutex.cpp"
#include "sync/event.cpp"
#include "sync/latch.cpp"
#include "sync/semaphore.cpp"
#include "sync/once.cpp"
// clang-format on
#undef atomic
#undef constinit
#undef current
#undef waiter
#undef spin_lock
#undef wait_scope

namespace {

using namespace verge;

constexpr verge::time_point some_time(verge::duration(1));

// Of a user's own word: who sees the change, or is notified and looks again, sees what came before
// it; and all wake.
struct a_word_tells_of_its_change : sync_suite<a_word_tells_of_its_change, 3> {
    std::optional<model_atomic<std::uint32_t>> word;
    rl::var<int> written;
    void before() {
        sync_suite::before();
        word.emplace(0U);
        written($) = 0;
    }
    void thread(unsigned index) {
        if (index == 0) {
            written($) = 1;
            word->store(1, rl::mo_release, $);
            notify_all(*word);
            return;
        }
        while (wait(*word, 0) != wait_result::changed) {
        }
        RL_ASSERT(written($) == 1);
    }
    void after() { word.reset(); }
};

// M1, M2: one at a time, each sees what the last one wrote, and all get it, also if one gives up.
template <int Threads, bool Timed>
struct a_mutex_lets_in_one : sync_suite<a_mutex_lets_in_one<Threads, Timed>, Threads> {
    std::optional<mutex> lock;
    rl::var<int> counter;
    int expected = 0;
    void before() {
        sync_suite<a_mutex_lets_in_one, Threads>::before();
        lock.emplace();
        counter($) = expected = 0;
    }
    void thread(unsigned index) {
        if (Timed && index == 0) {
            if (!lock->try_lock_until(some_time)) return;
        } else {
            lock->lock();
        }
        counter($) = counter($) + 1;
        ++expected;
        lock->unlock();
    }
    void after() {
        RL_ASSERT(counter($) == expected && expected >= Threads - (Timed ? 1 : 0));
        lock.reset();
    }
};

// C1 to C3: whoever waits is woken, by notify_all, while one more comes for the mutex.
template <bool Timed>
struct notify_all_wakes_all : sync_suite<notify_all_wakes_all<Timed>, 4> {
    std::optional<mutex> lock;
    std::optional<condition_variable> changed;
    rl::var<int> state;
    void before() {
        sync_suite<notify_all_wakes_all, 4>::before();
        lock.emplace();
        changed.emplace();
        state($) = 0;
    }
    void thread(unsigned index) {
        std::unique_lock hold(*lock);
        if (index == 0) {
            state($) = 1;
            hold.unlock();
            changed->notify_all();
        } else if (index == 3) {
            RL_ASSERT(state($) >= 0);
        } else {
            while (state($) == 0) {
                const auto until = Timed && index == 1 ? some_time : verge::never;
                if (changed->wait_until(hold, until) == wait_result::timed_out) break;
            }
        }
    }
    void after() {
        changed.reset();
        lock.reset();
    }
};

// One notify for each item: a waiter that gives up takes none of them with it.
struct notify_one_is_not_lost : sync_suite<notify_one_is_not_lost, 3> {
    std::optional<mutex> lock;
    std::optional<condition_variable> changed;
    rl::var<int> items;
    void before() {
        sync_suite::before();
        lock.emplace();
        changed.emplace();
        items($) = 0;
    }
    void thread(unsigned index) {
        std::unique_lock hold(*lock);
        if (index == 0) {
            items($) = 1;
            changed->notify_one();
        } else if (index == 1) {
            while (items($) == 0)
                static_cast<void>(changed->wait(hold));
        } else if (changed->wait_until(hold, some_time) == wait_result::notified) {
            changed->notify_one();  // not for this one
        }
    }
    void after() {
        changed.reset();
        lock.reset();
    }
};

// A condition variable is used with one mutex, which is then destroyed, and with another: a
// notify_all after that moves nobody to the first one.
struct a_condition_changes_its_mutex : sync_suite<a_condition_changes_its_mutex, 3> {
    std::optional<mutex> first;
    std::optional<mutex> second;
    std::optional<condition_variable> changed;
    rl::atomic<int> first_is_gone;  // orders nothing
    rl::var<int> state;
    void before() {
        sync_suite::before();
        first.emplace();
        second.emplace();
        changed.emplace();
        first_is_gone.store(0, rl::mo_relaxed, $);
        state($) = 0;
    }
    void thread(unsigned index) {
        if (index == 0) {
            std::unique_lock with_first(*first);
            while (changed->wait_until(with_first, some_time) != wait_result::timed_out) {
            }
            with_first.unlock();
            first.reset();
            first_is_gone.store(1, rl::mo_relaxed, $);
            std::unique_lock with_second(*second);
            while (state($) == 0)
                static_cast<void>(changed->wait(with_second));
            return;
        }
        while (first_is_gone.load(rl::mo_relaxed, $) == 0)
            rl::yield(1, $);
        if (index == 1) {
            const std::lock_guard hold(*second);
            state($) = 1;
        }
        changed->notify_all();
    }
    void after() {
        changed.reset();
        second.reset();
    }
};

// E1, E3: set() lets all go on, and a reset() at once holds nobody who waited before.
struct an_event_lets_all_go_on : sync_suite<an_event_lets_all_go_on, 3> {
    std::optional<event> happened;
    rl::var<int> written;
    void before() {
        sync_suite::before();
        happened.emplace();
        written($) = 0;
    }
    void thread(unsigned index) {
        if (index == 0) {
            written($) = 1;
            happened->set();
            return;
        }
        if (index == 1) {
            static_cast<void>(happened->wait_until(some_time));
            if (happened->is_set()) RL_ASSERT(written($) == 1);
            return;
        }
        RL_ASSERT(happened->wait() == wait_result::notified);
        RL_ASSERT(written($) == 1);
    }
    void after() { happened.reset(); }
};

struct a_reset_holds_nobody_who_waited : sync_suite<a_reset_holds_nobody_who_waited, 3> {
    std::optional<event> happened;
    rl::var<int> written;
    void before() {
        sync_suite::before();
        happened.emplace();
        written($) = 0;
    }
    void thread(unsigned index) {
        if (index == 2) {
            // Sees what the set published that it takes back, if it was set.
            if (!happened->is_set()) return;
            happened->reset();
            RL_ASSERT(written($) == 1);
            happened->set();
            return;
        }
        if (index == 0) {
            written($) = 1;
            happened->set();
        } else {
            RL_ASSERT(happened->wait() == wait_result::notified);
            RL_ASSERT(written($) == 1);
        }
    }
    void after() { happened.reset(); }
};

// reset() alone: who finds by its own reset() that all is as before sees what the set published.
struct a_reset_sees_what_it_takes_back : sync_suite<a_reset_sees_what_it_takes_back, 2> {
    std::optional<event> happened;
    rl::var<int> written;
    rl::atomic<int> is_set;
    void before() {
        sync_suite::before();
        happened.emplace();
        written($) = 0;
        is_set.store(0, rl::mo_relaxed, $);
    }
    void thread(unsigned index) {
        if (index == 0) {
            written($) = 1;
            happened->set();
            is_set.store(1, rl::mo_relaxed, $);
            return;
        }
        if (is_set.load(rl::mo_relaxed, $) == 0) return;
        happened->reset();  // a read-modify-write: it takes back the last value, that of set()
        RL_ASSERT(written($) == 1);
    }
    void after() { happened.reset(); }
};

// E2: one goes on for each set(), and each who goes on sets it again for the next.
struct an_auto_reset_event_lets_one_go_on : sync_suite<an_auto_reset_event_lets_one_go_on, 4> {
    std::optional<auto_reset_event> work;
    rl::var<int> counter;
    int expected = 0;
    void before() {
        sync_suite::before();
        work.emplace();
        counter($) = expected = 0;
    }
    void thread(unsigned index) {
        if (index == 0) return work->set();
        const auto until = index == 1 ? some_time : verge::never;
        if (work->wait_until(until) != wait_result::notified) return;
        counter($) = counter($) + 1;  // alone, as with a mutex
        ++expected;
        work->set();
    }
    void after() {
        RL_ASSERT(counter($) == expected && expected >= 2);
        work.reset();
    }
};

// L1, L2: who waits sees what all wrote before they counted.
struct a_latch_opens_with_the_last : sync_suite<a_latch_opens_with_the_last, 4> {
    std::optional<latch> ready;
    rl::var<int> written[2];
    void before() {
        sync_suite::before();
        ready.emplace(2U);
        written[0]($) = written[1]($) = 0;
    }
    void thread(unsigned index) {
        if (index < 2) {
            written[index]($) = 1;
            ready->count_down();
            if (!ready->try_wait()) return;
        } else {
            RL_ASSERT(ready->wait() == wait_result::notified);
        }
        RL_ASSERT(written[0]($) + written[1]($) == 2);
    }
    void after() { ready.reset(); }
};

// S1 to S3: as many go on as there are permits, also if one gives up.
template <bool Timed>
struct a_semaphore_loses_no_release : sync_suite<a_semaphore_loses_no_release<Timed>, 4> {
    std::optional<semaphore> permits;
    int acquired = 0;
    void before() {
        sync_suite<a_semaphore_loses_no_release, 4>::before();
        permits.emplace(0U);
        acquired = 0;
    }
    void thread(unsigned index) {
        if (index < 2) return permits->release();
        const auto until = Timed && index == 2 ? some_time : verge::never;
        if (permits->acquire_until(until) == wait_result::notified) ++acquired;
    }
    void after() {
        RL_ASSERT(acquired + permits->available() == 2);
        permits.reset();
    }
};

// Two permits stand for what was done before both.
struct permits_publish_all_before : sync_suite<permits_publish_all_before, 3> {
    std::optional<semaphore> permits;
    rl::var<int> written[2];
    void before() {
        sync_suite::before();
        permits.emplace(0U);
        written[0]($) = written[1]($) = 0;
    }
    void thread(unsigned index) {
        if (index < 2) {
            written[index]($) = 1;
            return permits->release();
        }
        RL_ASSERT(permits->acquire() == wait_result::notified);
        RL_ASSERT(permits->acquire() == wait_result::notified);
        RL_ASSERT(written[0]($) + written[1]($) == 2);
    }
    void after() { permits.reset(); }
};

// A permit stands for what was done before it was given.
struct a_permit_publishes : sync_suite<a_permit_publishes, 3> {
    std::optional<semaphore> permits;
    rl::var<int> counter;
    void before() {
        sync_suite::before();
        permits.emplace(1U);
        counter($) = 0;
    }
    void thread(unsigned) {
        RL_ASSERT(permits->acquire() == wait_result::notified);
        counter($) = counter($) + 1;
        permits->release();
    }
    void after() {
        RL_ASSERT(counter($) == 3);
        permits.reset();
    }
};

// O1, O2: it is called until it does not throw, and all see what it wrote.
template <bool Throws>
struct once_is_once : sync_suite<once_is_once<Throws>, 3> {
    std::optional<once_flag> flag;
    rl::var<int> calls;
    rl::var<int> result;
    void before() {
        sync_suite<once_is_once, 3>::before();
        flag.emplace();
        calls($) = result($) = 0;
    }
    void thread(unsigned index) {
        const auto function = [this] {
            calls($) = calls($) + 1;
            if (Throws && calls($) == 1) throw 1;
            result($) = 42;
        };
        try {
            const auto until = index == 0 ? some_time : verge::never;
            if (!call_once_until(*flag, until, function)) return;
        } catch (int) {
            return;
        }
        RL_ASSERT(result($) == 42);
    }
    void after() {
        RL_ASSERT(calls($) == (Throws ? 2 : 1));
        flag.reset();
    }
};

// W1 to W4: a writer is alone, readers share, and all get it, also if one gives up.
template <bool Timed>
struct a_shared_mutex_shares : sync_suite<a_shared_mutex_shares<Timed>, 4> {
    std::optional<shared_mutex> lock;
    rl::var<int> state;
    int readers = 0;
    void before() {
        sync_suite<a_shared_mutex_shares, 4>::before();
        lock.emplace();
        state($) = 0;
        readers = 0;
    }
    void thread(unsigned index) {
        const auto until = Timed && index == 0 ? some_time : verge::never;
        if (index < 2) {
            if (!lock->try_lock_until(until)) return;
            RL_ASSERT(readers == 0);
            state($) = state($) + 1;
            lock->unlock();
        } else {
            lock->lock_shared();
            ++readers;
            RL_ASSERT(state($) >= 0);
            --readers;
            lock->unlock_shared();
        }
    }
    void after() {
        RL_ASSERT(Timed || state($) == 2);
        RL_ASSERT(lock->try_lock());  // nobody who gave up has left anything behind
        lock->unlock();
        lock.reset();
    }
};

}  // namespace

int main() {
    constexpr int some = 30'000;
    const bool ok = explore<a_word_tells_of_its_change>(random_ones, some) &&
                    explore<a_mutex_lets_in_one<3, false>>(random_ones, some) &&
                    explore<a_mutex_lets_in_one<3, true>>(random_ones, some) &&
                    explore<notify_all_wakes_all<false>>(random_ones, some) &&
                    explore<notify_all_wakes_all<true>>(random_ones, some) &&
                    explore<notify_one_is_not_lost>(random_ones, some) &&
                    explore<a_condition_changes_its_mutex>(random_ones, some) &&
                    explore<an_event_lets_all_go_on>(random_ones, some) &&
                    explore<a_reset_holds_nobody_who_waited>(random_ones, some) &&
                    explore<a_reset_sees_what_it_takes_back>(random_ones, some) &&
                    explore<an_auto_reset_event_lets_one_go_on>(random_ones, some) &&
                    explore<a_latch_opens_with_the_last>(random_ones, some) &&
                    explore<a_semaphore_loses_no_release<false>>(random_ones, some) &&
                    explore<a_semaphore_loses_no_release<true>>(random_ones, some) &&
                    explore<permits_publish_all_before>(random_ones, some) &&
                    explore<a_permit_publishes>(random_ones, some) &&
                    explore<once_is_once<false>>(random_ones, some) &&
                    explore<once_is_once<true>>(random_ones, some) &&
                    explore<a_shared_mutex_shares<false>>(random_ones, some) &&
                    explore<a_shared_mutex_shares<true>>(random_ones, some);
    return ok ? 0 : 1;
}
