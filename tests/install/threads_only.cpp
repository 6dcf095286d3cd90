// Plain threads that wait for each other, in a program that does not link with verge::fibers.
#include <verge/sync/condition_variable.hpp>
#include <verge/sync/event.hpp>
#include <verge/sync/latch.hpp>
#include <verge/sync/mutex.hpp>
#include <verge/sync/once.hpp>
#include <verge/sync/recursive_mutex.hpp>
#include <verge/sync/semaphore.hpp>
#include <verge/sync/shared_mutex.hpp>
#include <verge/sync/wait.hpp>

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>

int main() {
    using namespace std::chrono_literals;
    verge::mutex mutex;
    verge::recursive_mutex nested;
    verge::shared_mutex shared;
    verge::condition_variable changed;
    verge::semaphore permits(0);
    verge::event done;
    verge::latch all(2);
    verge::once_flag first;
    std::atomic<std::uint32_t> word{0};
    int turns = 0;
    int calls = 0;

    std::thread other([&] {
        permits.acquire();
        {
            const std::lock_guard outer(nested);
            const std::lock_guard inner(nested);
            const std::shared_lock reading(shared);
            verge::call_once(first, [&] { ++calls; });
        }
        {
            const std::lock_guard hold(mutex);
            ++turns;
        }
        changed.notify_all();
        word.store(1);
        verge::notify_all(word);
        all.count_down();
        done.set();
    });
    permits.release();
    {
        std::unique_lock hold(mutex);
        while (turns == 0)
            changed.wait(hold);
    }
    while (word.load() == 0)
        verge::wait(word, 0);
    done.wait();
    all.count_down();
    all.wait();
    other.join();
    const bool late = !mutex.try_lock() || mutex.try_lock_for(1ms);
    verge::call_once(first, [&] { ++calls; });
    return !late && turns == 1 && calls == 1 ? 0 : 1;
}
